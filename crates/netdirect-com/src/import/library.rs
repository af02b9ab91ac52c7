//! Loading a library.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;
use netdirect::Provider;

use super::loaded::{CanUnloadNow, GetClassObject, Linked, Loaded, Source};
use super::pointer::Pointer;
use super::provider::Imported;
use crate::abi::{IID_ND2_PROVIDER, ProviderTable};

/// The reason why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    path: PathBuf,
    why: String,
    advice: &'static str,
}

impl LoadError {
    /// The remedy, in a few words.
    pub fn advice(&self) -> &'static str {
        self.advice
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for LoadError {}

/// The path of a library that the caller trusts like the program itself. With [`provider`] the library becomes a part of this program, as if
/// the program were linked with it: its constructors run, whatever it is. Its code cannot be checked, and has to do what ND2's pages say.
///
/// The path of such a library comes from the program's user, and never from a peer or from another user of the machine.
#[derive(Clone, Copy, Debug)]
pub struct TrustedLibrary<'a> {
    /// The path, or a name that the dynamic linker finds.
    pub path: &'a Path,
}

/// The provider that a library exports. Its name is that of the file, without `lib` and without everything behind a dot.
///
/// # Errors
///
/// There is no such library, it lacks one of the two functions of a provider (DLL-001, DLL-002), or it returns no provider.
pub fn provider(library: TrustedLibrary<'_>) -> Result<Arc<dyn Provider>, LoadError> {
    let TrustedLibrary { path } = library;
    let failed = |why: String| LoadError {
        path: path.to_owned(),
        why,
        advice: "name a library that exports DllGetClassObject and DllCanUnloadNow",
    };
    // SAFETY: the library is a part of the program from here on, and the caller trusts it like the program (`TrustedLibrary`).
    let library = unsafe { Library::new(path) };
    let library =
        library.map_err(|error| failed(format!("cannot be loaded: {}", load_failure(&error))))?;
    // SAFETY: a function of this name has this type (import, "the promise of libraries").
    let get = unsafe { library.get::<GetClassObject>(b"DllGetClassObject\0") };
    let get = get.map_err(|_| failed(no_function("DllGetClassObject")))?;
    let get = *get;
    // SAFETY: as above.
    let unload = unsafe { library.get::<CanUnloadNow>(b"DllCanUnloadNow\0") };
    let unload = unload.map_err(|_| failed(no_function("DllCanUnloadNow")))?;
    let unload = *unload;
    let loaded = Loaded::new(Source::File(library), path.to_owned(), get, unload);
    provider_from(loaded, path, name(path))
}

/// The provider of a library that the program is linked with, under this name.
///
/// # Errors
///
/// It returns no provider.
///
/// # Safety
///
/// The functions do what ND2's pages say of those whose names they have.
pub unsafe fn linked(name: &str, library: Linked) -> Result<Arc<dyn Provider>, LoadError> {
    let Linked {
        get_class_object: get,
        can_unload_now: unload,
        exports,
    } = library;
    let path = Path::new(name);
    let loaded = Loaded::new(Source::Program(exports), path.to_owned(), get, unload);
    provider_from(loaded, path, name.to_owned())
}

/// The provider of the library.
fn provider_from(
    loaded: Loaded,
    path: &Path,
    name: String,
) -> Result<Arc<dyn Provider>, LoadError> {
    let loaded = Arc::new(loaded);
    let (status, object) = loaded.class_object(IID_ND2_PROVIDER);
    // SAFETY: the interface was asked for by its identifier.
    let made = unsafe { Pointer::<ProviderTable>::made(&loaded, status, object) };
    let made = made.map_err(|error| LoadError {
        path: path.to_owned(),
        why: format!("gives no provider: {error}"),
        advice: "correct its configuration, which the library may have named above",
    })?;
    Ok(Arc::new(Imported::new(name, made)))
}

/// Passes lines of its configuration file to the library of a provider that [`provider`] has made, for adapters that are opened from now
/// on. Returns false if `provider` is no such provider, or its library cannot be configured this way.
///
/// # Errors
///
/// The library does not understand the lines.
pub fn configure(provider: &dyn Provider, lines: &str) -> netdirect::Result<bool> {
    let imported = (provider as &dyn std::any::Any).downcast_ref::<Imported>();
    imported.map_or(Ok(false), |imported| imported.configure(lines))
}

/// The library of a provider that [`provider`] or [`linked`] has made. Returns `None` for any other provider.
pub fn loaded(provider: &dyn Provider) -> Option<&Arc<Loaded>> {
    let imported = (provider as &dyn std::any::Any).downcast_ref::<Imported>();
    imported.map(Imported::library)
}

fn no_function(name: &str) -> String {
    format!("is no NetworkDirect provider, because it exports no {name}")
}

/// The reason why a library could not be loaded: the message of the dynamic linker, without the path that it repeats.
pub fn load_failure(error: &libloading::Error) -> String {
    if let libloading::Error::DlOpen { desc } = error {
        let text = format!("{desc:?}");
        let text = text.trim_matches('"');
        let rest = text.split_once(": ").map(|(_, rest)| rest);
        return rest.unwrap_or(text).to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => of_windows(source),
        None => error.to_string(),
    }
}

/// The message of Windows.
fn of_windows(error: &(dyn std::error::Error + 'static)) -> String {
    /// ERROR_BAD_EXE_FORMAT.
    const OTHER_FORMAT: i32 = 193;
    let number = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::raw_os_error);
    match number {
        Some(OTHER_FORMAT) => "it is no DLL, or one for another processor".to_owned(),
        _ => error.to_string(),
    }
}

fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or_default();
    stem.strip_prefix("lib").unwrap_or(stem).to_owned()
}
