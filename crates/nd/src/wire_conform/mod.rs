//! `nd wire-conform`: the wire conformance suite, and a target for it over any provider.

pub(crate) mod args;
mod suite;
mod target;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use self::args::{Side, WireConform};

/// Exit status when nothing could be checked: wrong usage, or a target that cannot be reached.
const NOTHING_CHECKED: u8 = 2;

/// Runs the suite or the target: 0 when all passed or was known, 1 on failures, 2 when nothing could be checked.
pub(crate) fn run(command: &WireConform) -> ExitCode {
    match &command.side {
        Some(Side::Target(args)) => match target::run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        },
        None => match suite::run(&command.suite) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(failure) if failure.is_unread() => failure.report(),
            Err(failure) => {
                let _ = failure.report();
                ExitCode::from(NOTHING_CHECKED)
            }
        },
    }
}
