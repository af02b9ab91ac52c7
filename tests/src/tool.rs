//! Programs beyond cargo that some tests need.

use std::env;
use std::io::Write as _;
use std::net::{Ipv6Addr, TcpListener};
use std::path::PathBuf;
use std::thread;

use rustix::io::Errno;

/// The path of the program `name`. `None` if it is missing, after a message on standard error that names the skipped test.
///
/// ```no_run
/// let Some(tshark) = softnd_tests::tool::find("tshark") else { return };
/// ```
///
/// # Panics
/// If it is missing and `CI=true` is set, because there a skipped test is a failure.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&path).map(|folder| folder.join(name));
    let found = files.find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// Returns true if this machine has IPv6. If not, prints a message on standard error that names the skipped test.
///
/// # Panics
/// If the loopback address cannot be used for another reason.
pub fn has_ipv6() -> bool {
    let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        return true;
    };
    let errno = Errno::from_io_error(&error);
    assert!(
        matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT)),
        "[::1]: {error}"
    );
    skip_here("this machine has no IPv6");
    false
}

/// Says on standard error that the running test is skipped, and why.
///
/// # Panics
/// If `CI=true` is set.
pub fn skip(why: &str) {
    assert!(
        env::var("CI").as_deref() != Ok("true"),
        "{why}, and CI=true allows no test to be skipped"
    );
    skip_here(why);
}

/// Skips a test where no installation could help, because the machine itself cannot do it. In CI this is no failure either.
pub fn skip_here(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not `eprintln!`, because the test harness hides its output when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
