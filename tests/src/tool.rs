//! Programs beyond cargo that some tests need.

use std::env;
use std::io::Write as _;
use std::net::{Ipv6Addr, TcpListener};
use std::path::PathBuf;
use std::thread;

use rustix::io::Errno;

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

/// Whether this machine has IPv6; where it has not, says on standard error which test is skipped for want of it.
///
/// # Panics
/// When its loopback address cannot be used for another reason.
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
