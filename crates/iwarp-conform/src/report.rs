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

/// All checks by section, then each row with its checks, or with the reason why there are none.
pub fn page() -> String {
    part(|_| true)
}

/// The checks and the rows of one family, such as `MPA2`: the names in front of the number of a row. `docs/check/iwarp-stack` has a page for
/// each family.
pub fn page_of(family: &str) -> String {
    part(|name| name.split('-').next() == Some(family))
}

/// The checks and rows whose names are chosen.
fn part(is_chosen: impl Fn(&str) -> bool) -> String {
    let mut checks = checks::all()
        .filter(|check| is_chosen(check.name))
        .peekable();
    let mut out = String::new();
    if checks.peek().is_some() {
        out += &tables(checks.map(listed));
        out.push('\n');
    }
    out.push_str("## Rows\n\nW: visible on the wire; L: through a local interface only; W+L: both are needed.\n\n");
    let lines = rows::all().filter(|row| is_chosen(row.id)).map(|row| Line {
        id: row.id.to_owned(),
        cells: [row.level, row.seen, row.source]
            .map(str::to_owned)
            .to_vec(),
        checks: rows::checks_of(row.id),
        why: rows::why_unchecked(&row).to_owned(),
    });
    out + &table(&["level", "seen", "source"], lines)
}
