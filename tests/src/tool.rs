//! Programs beyond cargo that some tests need.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::thread;

/// Where `name` is, or `None` after saying on standard error which test is skipped for want of it.
///
/// ```no_run
/// let Some(tshark) = softnd_tests::tool::find("tshark") else { return };
/// ```
///
/// # Panics
/// When it is missing and `CI=true`: there a test that does not run is a failure.
pub fn find(name: &str) -> Option<PathBuf> {
    let found = look_for(name);
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// Whether `name` is there; nothing is said.
pub fn is_installed(name: &str) -> bool {
    look_for(name).is_some()
}

fn look_for(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Says on standard error that the running test is skipped, and why.
///
/// # Panics
/// Where `CI=true` is set.
pub fn skip(why: &str) {
    assert!(
        env::var("CI").as_deref() != Ok("true"),
        "{why}, and CI=true allows no test to be skipped"
    );
    skip_here(why);
}

/// The same where no installation could help, in CI as elsewhere: the machine itself cannot do it.
pub fn skip_here(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not `eprintln!`: the harness swallows that when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
