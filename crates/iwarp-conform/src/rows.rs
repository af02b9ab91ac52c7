//! The rows of the requirement catalogue, and what of them a wire can show.

use crate::checks;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name: `MPA-021`.
    pub id: &'static str,
    /// MUST, SHOULD, MAY, or DER for what follows from the documents without standing in them.
    pub level: &'static str,
    /// `W`: seen on the wire; `L`: through a local interface only; `W+L`: both are needed.
    pub seen: &'static str,
    /// Document and section.
    pub source: &'static str,
    /// The rule.
    pub rule: &'static str,
}

const ROWS: &str = include_str!("../data/rows.tsv");
const UNCHECKED: &str = include_str!("../data/unchecked.tsv");

/// All rows, in the order of the catalogue.
pub fn all() -> impl Iterator<Item = Row> {
    ROWS.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut fields = line.split('\t');
            Some(Row {
                id: fields.next()?,
                level: fields.next()?,
                seen: fields.next()?,
                source: fields.next()?,
                rule: fields.next()?,
            })
        })
}

/// Why no check is about a row that a wire might show.
pub fn reason(id: &str) -> Option<&'static str> {
    UNCHECKED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .find(|(row, _)| *row == id)
        .map(|(_, reason)| reason)
}

/// The names of the checks that show a row.
pub fn checks_of(id: &str) -> Vec<&'static str> {
    checks::all()
        .filter(|check| check.rows().any(|row| row == id))
        .map(|check| check.name)
        .collect()
}

/// Returns the reason why a row has no check.
pub fn why_unchecked(row: &Row) -> &'static str {
    match (reason(row.id), row.seen, row.level) {
        (Some(reason), _, _) => reason,
        (None, "L", _) => "local: no octet on the wire depends on it",
        (None, _, "MAY") => "allowed, not asked for: nothing on the wire can be wrong",
        (None, _, _) => "",
    }
}
