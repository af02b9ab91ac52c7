//! Reports of a run, for people and for programs, and the list of checks.

pub use conform_report::report::{
    Paint, header, html, json, junit, line, markdown, matrix, summary,
};

use conform_report::report::{Listed, tables};

use crate::check::Check;
use crate::run::Run;

/// The whole report for a terminal: the checks by interface, how many came out how, and a summary.
pub fn text(run: &Run, paint: Paint) -> String {
    let mut out = String::new();
    let mut section = None;
    for entry in run.made() {
        if section.replace(entry.check.section) != Some(entry.check.section) {
            out.push_str(&header(entry.check.section, paint));
        }
        out.push_str(&line(entry, paint));
    }
    out + &end(run, paint)
}

/// The end of a report, behind the checks in [`text`].
pub fn end(run: &Run, paint: Paint) -> String {
    matrix(run, paint) + &summary(run, paint)
}

fn listed(check: &Check) -> Listed {
    let needs: Vec<String> = check.needs.iter().map(ToString::to_string).collect();
    let needs = if needs.is_empty() {
        String::new()
    } else {
        format!("not if {}", needs.join(", or "))
    };
    Listed {
        check: check.about(),
        needs,
    }
}

/// One line for each check.
pub fn list<'a>(checks: impl Iterator<Item = &'a Check>) -> String {
    conform_report::report::list(checks.map(listed))
}

/// The checks by interface, as tables of Markdown.
pub fn page<'a>(checks: impl Iterator<Item = &'a Check>) -> String {
    tables(checks.map(listed))
}
