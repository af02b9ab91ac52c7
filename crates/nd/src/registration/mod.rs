//! `nd register`, `nd unregister` and `nd providers`: the libraries that programs for NetworkDirect find.
//!
//! On Windows such programs look in Winsock's catalogue. What is registered there counts for all programs of the machine.

mod args;
#[cfg(any(windows, test))]
mod change;
#[cfg(any(windows, test))]
mod dll;
mod list;

pub(crate) use self::args::RegisterArgs;
#[cfg(windows)]
pub(crate) use self::change::{register, unregister};
pub(crate) use self::list::run as providers;
#[cfg(not(windows))]
use crate::errors::{Failure, Result};

/// Fails.
#[cfg(not(windows))]
pub(crate) fn register(_: &RegisterArgs) -> Result<()> {
    Err(needs_windows("nd register adds softnd to"))
}

/// Fails.
#[cfg(not(windows))]
pub(crate) fn unregister() -> Result<()> {
    Err(needs_windows("nd unregister removes softnd from"))
}

/// Only Windows has a catalogue.
#[cfg(not(windows))]
fn needs_windows(what: &str) -> Failure {
    Failure::new(
        format!("{what} Winsock's catalogue, which only Windows has"),
        "here programs find a provider by the environment variable ND_PROVIDER, for example ND_PROVIDER=libsoftnd.so",
    )
}

#[cfg(all(test, not(windows)))]
mod tests {
    use super::*;

    #[test]
    fn other_systems_have_a_variable_instead() {
        let args = RegisterArgs {
            dll: None,
            dry_run: true,
        };
        for failure in [register(&args), unregister()] {
            let text = failure.expect_err("not on Windows").to_string();
            assert!(text.contains("ND_PROVIDER=libsoftnd.so"), "{text}");
        }
    }
}
