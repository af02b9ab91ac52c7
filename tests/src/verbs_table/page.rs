//! The table in the book.

use std::fmt::Write as _;

use super::pair::Outcome;
use super::rows::Row;

/// The page, from the root of the repository.
pub const PAGE: &str = "docs/use/verbs.md";
/// The text in front of the table and behind it.
pub const MARKS: [&str; 2] = [
    "<!-- the table of programs begins -->\n",
    "<!-- the table of programs ends -->\n",
];

/// The table.
pub fn table<'a>(rows: impl IntoIterator<Item = (&'a Row, &'a Outcome)>) -> String {
    let mut text =
        String::from("| server | client | server | client | capture |\n|---|---|---|---|---|\n");
    for (row, outcome) in rows {
        let cells = [
            command(row, row.server),
            command(row, row.client),
            cell(outcome.server.as_ref()),
            cell(Some(&outcome.client)),
            cell(outcome.capture.as_ref()),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn command(row: &Row, command: &str) -> String {
    if command.is_empty() {
        return String::new();
    }
    let run = match (command.starts_with("nd "), row.as_iwarp) {
        (true, _) => "",
        (false, false) => "nd run -- ",
        (false, true) => "nd run --as iwarp -- ",
    };
    let times = match row.clients {
        1 => String::new(),
        clients if command == row.client => format!(", {clients} at a time"),
        _ => String::new(),
    };
    format!("`{run}{}`{times}", command.trim())
}

fn cell(result: Option<&Result<(), String>>) -> String {
    match result {
        None => String::new(),
        Some(Ok(())) => "works".to_owned(),
        Some(Err(_)) => "fails".to_owned(),
    }
}

/// The page with another table between these marks. `None` if the page lacks them.
pub fn replace(page: &str, [begin, end]: [&str; 2], table: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{table}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs_table::rows;

    #[test]
    fn a_failure_stands_in_its_column() {
        let row = rows()[4];
        let outcome = Outcome {
            server: Some(Ok(())),
            client: Err("why".to_owned()),
            capture: None,
        };
        let table = table([(&row, &outcome)]);
        assert!(table.ends_with("| works | fails |  |\n"), "{table}");
        assert_eq!(outcome.failures(), ["why"]);
    }
}
