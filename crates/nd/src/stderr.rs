//! Messages for people, on standard error.

use std::fmt::Display;
use std::io::Write;

/// Writes a line. The exit status does not depend on whether somebody can read it.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "nd: {text}");
}
