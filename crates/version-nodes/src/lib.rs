//! Links a shared library whose symbols have versions, from a build script.
//!
//! rustc gives the linker a version script without nodes for every `cdylib`. GNU ld refuses a second script with nodes; LLD takes both.
//! The symbols themselves get their versions by `.symver` in assembly, because rustc's script knows no version.
//!
//! Which linker cargo uses depends on the compiler's version and on the user's configuration. So [`linker_args`] tries: it links a
//! small library with the linker that cargo would use, then with the LLD that comes with rustc.

#![forbid(unsafe_code)]

mod compiler;
mod trial;
mod unsupported;

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::compiler::Compiler;
pub use crate::unsupported::Unsupported;

/// A shared library to link.
#[derive(Clone, Copy, Debug)]
pub struct Library<'a> {
    /// The name by which programs ask the dynamic linker for the library.
    pub soname: &'a str,
    /// The version nodes, as a version script.
    pub nodes: &'a str,
    /// The SONAME of a library that is loaded whenever this one is. The file need not exist yet.
    pub needs: Option<&'a str>,
}

/// The arguments with which cargo links the library. A build script prints each as `cargo::rustc-cdylib-link-arg`.
///
/// # Errors
///
/// The target is not Linux with glibc on x86-64, or no linker at hand takes version nodes.
///
/// # Panics
///
/// If the caller is no build script.
pub fn linker_args(library: &Library<'_>) -> Result<Vec<String>, Unsupported> {
    supported_target()?;
    let compiler = Compiler::from_env();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut args = trial::linker(&compiler, &out)?;
    let script = out.join("nodes.map");
    let written = fs::write(&script, library.nodes);
    written.map_err(|error| Unsupported(format!("{}: {error}", script.display())))?;
    args.push(format!("-Wl,--version-script={}", script.display()));
    args.push(format!("-Wl,-soname,{}", library.soname));
    // A thread may run the library's code when a program closes it.
    args.push("-Wl,-z,nodelete".to_owned());
    if let Some(soname) = library.needs {
        let stand_in = out.join(soname);
        compiler
            .empty_library(&args, soname, &stand_in)
            .map_err(Unsupported)?;
        args.push("-Wl,--no-as-needed".to_owned());
        args.push(stand_in.display().to_string());
    }
    Ok(args)
}

/// Reports whether the target can have such libraries at all.
fn supported_target() -> Result<(), Unsupported> {
    let of_target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let (system, library, processor) = (of_target("OS"), of_target("ENV"), of_target("ARCH"));
    if (&*system, &*library, &*processor) == ("linux", "gnu", "x86_64") {
        return Ok(());
    }
    let this = format!("{processor} {system} {library}");
    let this = this.trim_end();
    Err(Unsupported(format!(
        "they need Linux with glibc on x86-64, and this build is for {this}"
    )))
}
