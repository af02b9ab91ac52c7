//! Tests that change their process, or count in it: each runs in a separate process.

use std::process::Command;

/// The variable that is set in such a process.
const CHILD: &str = "SOFTND_TEST_ALONE";

/// Returns true in the separate process.
pub fn is_alone() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs a test of this program, which is named with its module, in a separate process. `prepare` may change that process's environment.
///
/// # Panics
/// When the test fails there.
pub fn passes(test: &str, prepare: impl FnOnce(&mut Command)) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--include-ignored", "--nocapture"]);
    child.env(CHILD, "1");
    prepare(&mut child);
    let done = child.output().unwrap();
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (stdout, stderr) = (said(&done.stdout), said(&done.stderr));
    print!("{stdout}");
    let passed = done.status.success() && stdout.contains("1 passed");
    assert!(passed, "{child:?}: {}\n{stderr}", done.status);
}
