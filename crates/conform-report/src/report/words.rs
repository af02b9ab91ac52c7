//! Words that several reports use.

use crate::outcome::Outcome;
use crate::printable::printable;
use crate::run::Suite;

/// The outcome in one word.
pub(super) fn word<F: Suite>(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Weak(_) => "weak",
        Outcome::Fail(_) => "fail",
        Outcome::Known(..) => "known",
        Outcome::Mended(_) => F::MENDED,
        Outcome::Skip(_) => "skip",
        Outcome::LeftOut(_) => "left out",
    }
}

/// A remark about the outcome.
pub(super) fn remark(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Pass => String::new(),
        Outcome::Weak(why) | Outcome::Skip(why) | Outcome::LeftOut(why) => why.clone(),
        Outcome::Fail(failure) => {
            format!("expected {}; saw {}", failure.expected, failure.seen)
        }
        Outcome::Known(failure, reason) => format!("{reason}; saw {}", failure.seen),
        Outcome::Mended(reason) => format!("was known for: {reason}"),
    }
}

/// The heading over the checks that are not part of a run.
pub(super) const LEFT_OUT: &str = "Not part of this run";

/// Text inside XML and HTML.
pub(super) fn escaped(text: &str) -> String {
    printable(text).chars().fold(String::new(), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
        out
    })
}
