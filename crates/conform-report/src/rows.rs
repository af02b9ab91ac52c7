//! Pages that say for each row of a catalogue which checks prove it, or why none does.

use std::fmt::Write;

use crate::printable::printable;

/// One row, as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The row's name: `MPA-021`.
    pub id: String,
    /// The cells of the suite's own columns.
    pub cells: Vec<String>,
    /// The names of the checks that prove the row.
    pub checks: Vec<&'static str>,
    /// Why there are none.
    pub why: String,
}

/// A table of rows. `heads` are the suite's own columns; before them is the row, behind them are the checks or the reason why there are
/// none.
pub fn table(heads: &[&str], lines: impl IntoIterator<Item = Line>) -> String {
    let mut out = format!(
        "| row | {} | checks, or why there is none |\n|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len() + 2)
    );
    for line in lines {
        let what = if line.checks.is_empty() {
            cell(&line.why)
        } else {
            let names: Vec<String> = line.checks.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let cells: Vec<String> = line.cells.iter().map(|text| cell(text)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| {} | {} | {what} |", line.id, cells.join(" | "));
    }
    out
}

/// Text inside a table of Markdown.
pub(crate) fn cell(text: &str) -> String {
    printable(text).replace('|', "\\|").replace('\n', " ")
}
