//! The variables of the environment that libraries of this project follow.
//!
//! Variables name libraries to load, files to read and files to write. A program that has more rights than its user follows none of them,
//! because the user must not choose for it: a set-uid or set-gid program, or one whose file has capabilities. The kernel decides when it
//! starts the program, by AT_SECURE on Linux and Android and by `issetugid` on other Unixes, as the C library does in `secure_getenv`. So
//! a program that gives its rights up later still follows none. Windows has no such programs.

use std::env;
use std::ffi::OsString;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android")), not(miri)))]
use std::ffi::c_int;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
use std::ffi::c_ulong;

/// The value of a variable. `None` if it is not set, or if this program has more rights than its user.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    followed().then(|| env::var_os(name)).flatten()
}

/// The value of a [`variable`] whose value is UTF-8.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

/// All variables and their values. Empty if this program has more rights than its user.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    followed().then(env::vars_os).into_iter().flatten()
}

/// Returns true if this program follows the variables of its user.
fn followed() -> bool {
    !has_more_rights()
}

// SAFETY: the C libraries have these functions with these types, and both may be called at any time with any argument.
#[cfg(all(unix, not(miri)))]
unsafe extern "C" {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    safe fn getauxval(kind: c_ulong) -> c_ulong;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    safe fn issetugid() -> c_int;
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
fn has_more_rights() -> bool {
    /// AT_SECURE of `elf.h`.
    const SECURE: c_ulong = 23;
    getauxval(SECURE) != 0
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android")), not(miri)))]
fn has_more_rights() -> bool {
    issetugid() != 0
}

#[cfg(any(not(unix), miri))]
const fn has_more_rights() -> bool {
    false
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use super::*;

    const NAME: &str = "RDMA_BUFFER_TESTED";

    #[test]
    #[ignore = "the program that the other tests run"]
    fn shown() {
        let is_listed = variables().any(|(name, _)| name == NAME);
        println!(
            "{}, {}, {}, {is_listed}",
            has_more_rights(),
            variable(NAME).is_some(),
            text(NAME).is_some()
        );
    }

    /// A copy of this program that every user can run, in a folder of its own. Both are removed when the value is dropped.
    struct Copied {
        folder: PathBuf,
        program: PathBuf,
    }

    impl Copied {
        fn new(test: &str) -> Self {
            let name = format!("rdma-buffer-{test}-{}", std::process::id());
            let folder = Path::new("/tmp").join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
            let program = folder.join("copy");
            // By another process: a file that a child of this one has still opened for writing cannot be run.
            run(Command::new("cp")
                .arg(env::current_exe().unwrap())
                .arg(&program));
            let made = Self { folder, program };
            made.set_mode(0o755);
            made
        }

        fn set_mode(&self, mode: u32) {
            fs::set_permissions(&self.program, fs::Permissions::from_mode(mode)).unwrap();
        }

        /// What the program says when another user runs it.
        fn says(&self) -> String {
            let said = run(Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(&self.program)
                .args(["--ignored", "--nocapture", "environment::tests::shown"])
                .env(NAME, "1"));
            let words = |line: &&str| line.starts_with("true, ") || line.starts_with("false, ");
            said.lines().find(words).unwrap().to_owned()
        }
    }

    impl Drop for Copied {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    /// The output of a program that succeeds.
    fn run(command: &mut Command) -> String {
        let Output { status, stdout, .. } = command.output().unwrap();
        assert!(status.success(), "{command:?}: {status}");
        String::from_utf8(stdout).unwrap()
    }

    fn skip(why: &str) {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        // Not `eprintln!`, because the test harness hides its output when the test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    }

    /// Gives more rights to a copy of this program, and compares what it says before and afterwards.
    fn follows_nothing_with(test: &str, give_rights: impl FnOnce(&Copied)) {
        let is_root = fs::metadata("/proc/self").is_ok_and(|of_process| of_process.uid() == 0);
        let has = |program| Command::new(program).arg("--version").output().is_ok();
        if !is_root || !has("setpriv") || !has("setcap") {
            skip("only root makes such programs, with setpriv and setcap");
            return;
        }
        let copied = Copied::new(test);
        assert_eq!(copied.says(), "false, true, true, true");
        give_rights(&copied);
        match &*copied.says() {
            // A file system that is mounted without set-uid programs, or a sandbox.
            "false, true, true, true" => skip("this system gives the program no more rights"),
            said => assert_eq!(said, "true, false, false, false"),
        }
    }

    #[test]
    fn a_set_uid_program_follows_no_variable() {
        follows_nothing_with("set-uid", |copied| copied.set_mode(0o4755));
    }

    #[test]
    fn a_set_gid_program_follows_no_variable() {
        follows_nothing_with("set-gid", |copied| copied.set_mode(0o2755));
    }

    #[test]
    fn a_program_whose_file_has_capabilities_follows_no_variable() {
        follows_nothing_with("capabilities", |copied| {
            let mut setcap = Command::new("setcap");
            run(setcap.arg("cap_dac_override+ep").arg(&copied.program));
        });
    }
}
