//! The checks there are.

use std::fmt::Write;

use crate::about::About;
use crate::rows::cell;

/// A check in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The check.
    pub check: About,
    /// What it needs, in words; empty if it needs nothing.
    pub needs: String,
}

/// One line for each check.
pub fn list(checks: impl IntoIterator<Item = Listed>) -> String {
    let mut out = String::new();
    let mut section = None;
    for Listed { check, needs } in checks {
        // Writing to a String cannot fail, here and below.
        if section.replace(check.section) != Some(check.section) {
            let _ = writeln!(out, "\n{}", check.section);
        }
        let level = check.level.word();
        let _ = writeln!(out, "  {:<24}  {level:<6}  {}", check.name, check.title);
        if !needs.is_empty() {
            let _ = writeln!(out, "{:36}{needs}", "");
        }
    }
    out
}

/// The checks by section, as tables of Markdown.
pub fn tables(checks: impl IntoIterator<Item = Listed>) -> String {
    let mut out = String::from("## Checks\n");
    let mut section = None;
    for Listed { check, needs } in checks {
        // Writing to a String cannot fail, here and below.
        if section.replace(check.section) != Some(check.section) {
            let _ = write!(
                out,
                "\n### {}\n\n| check | also shows | level | when | what is checked |\n|---|---|---|---|---|\n",
                check.section
            );
        }
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} |",
            check.name,
            check.also.join(", "),
            check.level.word(),
            cell(&needs),
            cell(check.title)
        );
    }
    out
}
