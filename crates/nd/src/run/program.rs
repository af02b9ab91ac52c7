//! The program that `nd run` becomes.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::linkage::{Linkage, Script, linkage};
use crate::errors::Failure;

/// The program's path. A name without a slash is looked for as a shell does.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(path.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|path| {
            path.metadata()
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        });
    found.ok_or_else(|| {
        Failure::new(
            format!("there is no program {} in PATH", path.display()),
            "install it, or name it with its folder",
        )
    })
}

/// As many scripts that run each other as the kernel follows.
pub(super) const SCRIPTS: usize = 5;

/// Refuses programs for which the dynamic linker preloads nothing, and scripts that such a program runs.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let mut at = path.to_owned();
    for _ in 0..SCRIPTS {
        let mut file = match File::open(&at) {
            Ok(file) => file,
            Err(error) if at == path => {
                return Err(Failure::io(format!("read {}", path.display()), &error));
            }
            // The kernel says why the interpreter cannot be run.
            Err(_) => return Ok(()),
        };
        let start = head(&mut file)
            .map_err(|error| Failure::io(format!("read {}", at.display()), &error))?;
        match linkage(&start) {
            Linkage::Script(script) => at = run_by(&script),
            Linkage::Unknown => return Ok(()),
            linkage => {
                return refusal(&file, &linkage)
                    .map_or(Ok(()), |why| Err(why.for_program(path, &at)));
            }
        }
    }
    Ok(())
}

/// The part of a file in which its linkage is found.
pub(super) fn head(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(64 << 10).read_to_end(&mut start)?;
    Ok(start)
}

/// The program that runs a script: `env` looks for the one that it is given.
fn run_by(script: &Script) -> PathBuf {
    let named = script.argument.as_deref().filter(|_| {
        let env = script.interpreter.file_name();
        env == Some(OsStr::new("env"))
    });
    // Behind options and variables.
    let words = named.and_then(Path::to_str).unwrap_or_default();
    let mut words = words.split_ascii_whitespace();
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
    let found = name.and_then(|name| find(OsStr::new(name)).ok());
    found.unwrap_or_else(|| script.interpreter.clone())
}

/// Why nothing is preloaded: what the program is, and what to do.
struct Refusal {
    what: String,
    advice: &'static str,
}

impl Refusal {
    fn new(what: impl Into<String>, advice: &'static str) -> Self {
        let what = what.into();
        Self { what, advice }
    }

    /// For the program of a user, which may be a script for another one.
    fn for_program(self, path: &Path, runs: &Path) -> Failure {
        let (shown, what) = (path.display(), self.what);
        let text = match path == runs {
            true => format!("{shown} {what}"),
            false => format!("{shown} is a script for {}, which {what}", runs.display()),
        };
        Failure::new(text, self.advice)
    }
}

fn refusal(file: &File, linkage: &Linkage<'_>) -> Option<Refusal> {
    let mode = file.metadata().map_or(0, |file| file.permissions().mode());
    if mode & 0o6000 != 0 {
        return Some(Refusal::new(
            "is a set-uid or set-gid program, for which libraries are not replaced",
            "run a copy without these bits",
        ));
    }
    match linkage {
        Linkage::Static => Some(Refusal::new(
            "is linked statically, so its libraries cannot be replaced",
            "run a program that is linked with libibverbs.so.1",
        )),
        Linkage::OtherMachine => Some(Refusal::new(
            "is not a program for 64 bits",
            "run one for the processor of this machine",
        )),
        Linkage::OtherLinker(linker) => Some(Refusal::new(
            format!(
                "is linked for {}, which cannot load libraries for glibc",
                linker.display()
            ),
            "run a program that was built for glibc",
        )),
        _ if gains_capabilities(file) => Some(Refusal::new(
            "has file capabilities, so its libraries are not replaced",
            "run a copy, which has none, or run it as root",
        )),
        _ => None,
    }
}

/// Returns true if the kernel gives the program rights that its user does not have.
#[cfg(target_os = "linux")]
fn gains_capabilities(file: &File) -> bool {
    let mut found = [0; 64];
    let len = rustix::fs::fgetxattr(file, "security.capability", &mut found[..]).unwrap_or(0);
    // `struct vfs_cap_data`: a number for the version, then pairs of words, permitted and inheritable.
    let words = found[..len].chunks_exact(4).skip(1).step_by(2).take(2);
    let has_some = words.flatten().any(|octet| *octet != 0);
    let is_kept = rustix::thread::no_new_privs().unwrap_or(false);
    has_some && !is_kept && !rustix::process::getuid().is_root()
}

#[cfg(not(target_os = "linux"))]
fn gains_capabilities(_: &File) -> bool {
    false
}

/// Becomes the program. Returns why it could not.
pub(super) fn execute(mut command: Command, path: &Path) -> Failure {
    let error = command.exec();
    Failure::new(
        format!("cannot run {}: {error}", path.display()),
        "check that the file is a program that you may execute",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_dynamic_program() {
        let own = env::current_exe().unwrap();
        assert!(check(&own).is_ok());
        assert!(find(OsStr::new("sh")).is_ok());
        assert!(find(OsStr::new("no-such-program-anywhere")).is_err());
    }
}
