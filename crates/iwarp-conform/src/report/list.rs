//! The checks there are, and which row each shows.

use std::fmt::Write;

use crate::check::{Check, Level, Role};
use crate::run::words;
use crate::{checks, rows};

/// What a check needs, in words: for lists.
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
        let _ = write!(text, "not if {}", unless.join(", or "));
    }
    text
}

/// One line for each check.
pub fn list<'a>(checks: impl Iterator<Item = &'a Check>) -> String {
    let mut out = String::new();
    let mut section = None;
    for check in checks {
        // Writing to a String cannot fail, here and below.
        if section.replace(check.section) != Some(check.section) {
            let _ = writeln!(out, "\n{}", check.section.title());
        }
        let level = match check.level {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
        };
        let _ = writeln!(out, "  {:<24}  {level:<6}  {}", check.name, check.title);
        let needs = needs(check);
        if !needs.is_empty() {
            let _ = writeln!(out, "{:36}{needs}", "");
        }
    }
    out
}

/// The generated part of `docs/wire-conformance.md`: the checks by section, then each row with its checks, or with the
/// reason why there are none.
pub fn markdown() -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut out = String::from("## Checks\n");
    let mut section = None;
    for check in checks::all() {
        if section.replace(check.section) != Some(check.section) {
            let _ = write!(
                out,
                "\n### {}\n\n| check | also shows | level | when | what is checked |\n|---|---|---|---|---|\n",
                check.section.title()
            );
        }
        let level = match check.level {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {level} | {} | {} |",
            check.name,
            check.also.join(", "),
            cell(&needs(check)),
            cell(check.title)
        );
    }
    out.push_str("\n## Rows\n\nW: visible on the wire; L: through a local interface only; W+L: both are needed.\n\n");
    out.push_str(
        "| row | level | seen | source | checks, or why there is none |\n|---|---|---|---|---|\n",
    );
    for row in rows::all() {
        let checks: Vec<String> = rows::checks_of(row.id)
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let what = if checks.is_empty() {
            cell(rows::why_unchecked(&row))
        } else {
            checks.join(", ")
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {what} |",
            row.id,
            row.level,
            row.seen,
            cell(row.source)
        );
    }
    out
}
