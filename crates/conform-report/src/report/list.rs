//! The checks there are.

use std::fmt::Write;

use crate::about::About;
use crate::rows::cell;
use crate::table::{Align, Table};

/// A check in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The check.
    pub check: About,
    /// The requirements of the check, in words; empty if there are none.
    pub needs: String,
}

/// One line for each check, and one for what it needs.
pub fn list(checks: impl IntoIterator<Item = Listed>) -> String {
    let mut table = Table::without_heads([Align::Left; 3]);
    // Of each line the section that begins above it.
    let mut sections = Vec::new();
    let mut section = None;
    for Listed { check, needs } in checks {
        let begins = section.replace(check.section) != Some(check.section);
        sections.push(begins.then_some(check.section));
        table.row([check.name, check.level.word(), check.title]);
        if !needs.is_empty() {
            sections.push(None);
            table.row(["", "", &needs]);
        }
    }
    let mut out = String::new();
    for (section, line) in sections.into_iter().zip(table.lines()) {
        // Writing to a String cannot fail, here and below.
        if let Some(section) = section {
            let _ = writeln!(out, "\n{section}");
        }
        let _ = writeln!(out, "{line}");
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
