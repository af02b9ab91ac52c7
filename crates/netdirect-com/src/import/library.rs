//! Loading a library.

use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use libloading::Library;
use netdirect::{Provider, Status};

use super::loaded::Loaded;
use super::pointer::Pointer;
use super::provider::Imported;
use crate::abi::{Guid, IID_ND2_PROVIDER, ProviderTable, This};

/// Why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    path: PathBuf,
    why: String,
    advice: &'static str,
}

impl LoadError {
    /// What to do, in a few words.
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

type GetClassObject =
    unsafe extern "system" fn(class: *const Guid, iid: *const Guid, object: *mut This) -> Status;
type CanUnloadNow = unsafe extern "system" fn() -> Status;

/// The provider that the library at `path` exports. Its name is that of the file, without `lib` and what follows a dot.
///
/// # Errors
///
/// There is no such library, it lacks one of the two functions of a provider (DLL-001, DLL-002), or it gives no provider.
///
/// # Trust
///
/// The library becomes a part of this program, as if the program were linked with it: nobody can check what its code does. It has to do what
/// ND2's pages say.
pub fn provider(path: &Path) -> Result<Arc<dyn Provider>, LoadError> {
    let failed = |why: String| LoadError {
        path: path.to_owned(),
        why,
        advice: "name a library that exports DllGetClassObject and DllCanUnloadNow",
    };
    // SAFETY: the library is a part of the program from here on (this function's documentation, "Trust").
    let library = unsafe { Library::new(path) };
    let library =
        library.map_err(|error| failed(format!("cannot be loaded: {}", reason(&error))))?;
    // SAFETY: a function of this name has this type (import, "the promise of libraries").
    let get = unsafe { library.get::<GetClassObject>(b"DllGetClassObject\0") };
    let get = get.map_err(|_| failed(no_function("DllGetClassObject")))?;
    let get = *get;
    // SAFETY: as above.
    let unload = unsafe { library.get::<CanUnloadNow>(b"DllCanUnloadNow\0") };
    unload.map_err(|_| failed(no_function("DllCanUnloadNow")))?;
    let loaded = Arc::new(Loaded::new(library, path.to_owned()));
    // The class identifier of a registration, which providers need not look at.
    let class = Guid::new(0, 0, 0, 0);
    let mut object = ptr::null_mut();
    // SAFETY: two identifiers, and room for a pointer.
    let status = unsafe { get(&raw const class, &raw const IID_PROVIDER, &raw mut object) };
    // SAFETY: the interface was asked for by its identifier.
    let made = unsafe { Pointer::<ProviderTable>::made(&loaded, status, object) };
    let made = made.map_err(|error| LoadError {
        advice: "correct its configuration, which the library may have named above",
        ..failed(format!("gives no provider: {error}"))
    })?;
    Ok(Arc::new(Imported::new(name(path), made)))
}

/// Hands lines of its configuration file to the library of a provider that [`provider`] has made, for adapters that are opened from now on.
/// Returns false if `provider` is no such provider, or its library cannot be configured so.
///
/// # Errors
///
/// The library does not understand the lines.
pub fn configure(provider: &dyn Provider, lines: &str) -> netdirect::Result<bool> {
    let imported = (provider as &dyn std::any::Any).downcast_ref::<Imported>();
    imported.map_or(Ok(false), |imported| imported.configure(lines))
}

static IID_PROVIDER: Guid = IID_ND2_PROVIDER;

fn no_function(name: &str) -> String {
    format!("is no NetworkDirect provider, because it exports no {name}")
}

/// What the dynamic linker says, without the path that it repeats.
fn reason(error: &libloading::Error) -> String {
    let text = match error {
        libloading::Error::DlOpen { desc } => format!("{desc:?}"),
        other => other.to_string(),
    };
    let text = text.trim_matches('"');
    text.split_once(": ")
        .map_or(text, |(_, rest)| rest)
        .to_owned()
}

fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or_default();
    stem.strip_prefix("lib").unwrap_or(stem).to_owned()
}
