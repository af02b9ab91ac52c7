//! Functions that the files of checks share.

use conform_report::{Step, Verdict, ensure};
use netdirect::Status;
use netdirect_conform::{Check, Interface, Unopened};

/// Makes a check of the COM interface.
pub(crate) const fn check(
    name: &'static str,
    title: &'static str,
    run: fn(Unopened) -> Verdict,
) -> Check {
    Check::unopened(Interface::Border, name, title, run)
}

/// Checks that a call has this status.
pub(crate) fn status(what: &str, wanted: Status, returned: Status) -> Step {
    ensure(
        returned == wanted,
        format!("{wanted} from {what}"),
        returned.to_string(),
    )
}
