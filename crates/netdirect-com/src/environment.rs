//! The environment of a process.

use std::env;
use std::ffi::OsString;

use rustix::process::{getegid, geteuid, getgid, getuid};

/// The variables of the environment, in which users name libraries to load and files to write. Empty in a set-uid or set-gid program, whose
/// user must not choose for it.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    let variables = (!has_other_rights()).then(env::vars_os);
    variables.into_iter().flatten()
}

/// One of [`variables`].
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|_| !has_other_rights())
}

fn has_other_rights() -> bool {
    geteuid() != getuid() || getegid() != getgid()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    const NAME: &str = "NETDIRECT_COM_TESTED";

    #[test]
    #[ignore = "the program that the other test runs"]
    fn shown() {
        println!("{}, {}", has_other_rights(), variable(NAME).is_some());
    }

    /// The output of a copy of this program that belongs to root, and that another user runs. `None` if this machine cannot do that.
    fn said_with_mode(mode: u32) -> Option<String> {
        let folder = tempfile::tempdir_in("/tmp").ok()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).ok()?;
        let copy = folder.path().join("copy");
        fs::copy(env::current_exe().ok()?, &copy).ok()?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).ok()?;
        let said = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy)
            .args(["--ignored", "--nocapture", "environment::tests::shown"])
            .env(NAME, "1")
            .output()
            .ok()?;
        let said = String::from_utf8(said.stdout).ok()?;
        let words = |line: &&str| line.starts_with("true, ") || line.starts_with("false, ");
        said.lines().find(words).map(str::to_owned)
    }

    #[test]
    fn a_set_uid_program_has_no_variables() {
        let (Some(plain), Some(set_uid)) = (said_with_mode(0o755), said_with_mode(0o4755)) else {
            println!("skipped: only root makes set-uid programs");
            return;
        };
        assert_eq!(plain, "false, true");
        // Some file systems ignore the bit.
        if set_uid != plain {
            assert_eq!(set_uid, "true, false");
        }
    }
}
