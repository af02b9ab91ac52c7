//! Reports of a run, for people and for programs, and the list of checks.

pub use conform_report::report::{Paint, header, html, json, junit, line, summary, text};

use conform_report::report::{Listed, tables};
use conform_report::rows::{Line, table};

use crate::check::{Check, Role};
use crate::run::{Run, words};
use crate::{checks, rows};

/// The conditions of a check, in words: for lists.
fn needs(check: &Check) -> String {
    let role = match check.role {
        Role::Both => None,
        Role::Responder => Some("the target listens"),
        Role::Initiator => Some("the target connects"),
    };
    let needs = check.needs.iter().map(|need| words(*need));
    let unless: Vec<&str> = needs.collect();
    let mut text = role.unwrap_or_default().to_owned();
    if !unless.is_empty() {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text += &format!("not if {}", unless.join(", or "));
    }
    text
}

fn listed(check: &Check) -> Listed {
    Listed {
        check: check.about(),
        needs: needs(check),
    }
}

/// One line for each check.
pub fn list<'a>(checks: impl Iterator<Item = &'a Check>) -> String {
    conform_report::report::list(checks.map(listed))
}

/// The whole report as Markdown.
pub fn markdown(run: &Run) -> String {
    conform_report::report::markdown(run)
}

/// The generated part of `docs/check/wire-conformance.md`: the checks by section, then each row with its checks, or with the
/// reason why there are none.
pub fn page() -> String {
    let mut out = tables(checks::all().map(listed));
    out.push_str("\n## Rows\n\nW: visible on the wire; L: through a local interface only; W+L: both are needed.\n\n");
    let lines = rows::all().map(|row| Line {
        id: row.id.to_owned(),
        cells: [row.level, row.seen, row.source]
            .map(str::to_owned)
            .to_vec(),
        checks: rows::checks_of(row.id),
        why: rows::why_unchecked(&row).to_owned(),
    });
    out + &table(&["level", "seen", "source"], lines)
}
