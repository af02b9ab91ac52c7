//! Which checks a broken provider meets by day: those that can see its rule, and a sample of the others.

use netdirect_conform::Check;

use crate::tables::Table;
use crate::wrapper::Break;

/// Where it would move megabytes for each wrong status of a method, a check is no neighbour of these.
const LONG: &[&str] = &["QP-013.full"];

/// The checks for one line of a table: those that have to fail, their neighbours, and the line's part of a sample in which each check meets
/// this many lines.
pub(crate) fn of_line(
    table: Table,
    line: usize,
    sampled: usize,
    checks: impl Iterator<Item = &'static Check>,
) -> impl Iterator<Item = &'static Check> {
    let chosen = checks.enumerate().filter(move |(index, check)| {
        is_near(table, line, check) || is_sampled(table.len(), line, sampled, *index)
    });
    chosen.map(|(_, check)| check)
}

/// Returns true if a check has to fail, or is a neighbour of one that has to: it is about the row after which that one is named, or it
/// has to fail for another wrong status of the same method.
fn is_near(table: Table, line: usize, check: &Check) -> bool {
    let (rule, expected) = table[line];
    let is_of_row = |name: &&str| {
        let row = name.split('.').next();
        check.rows().any(|own| Some(own) == row)
    };
    let sees_method = |(other, names): &(Break, &[&str])| {
        let is_of_method = other.method().is_some() && other.method() == rule.method();
        is_of_method && names.contains(&check.name) && !LONG.contains(&check.name)
    };
    expected.iter().any(is_of_row) || table.iter().any(sees_method)
}

/// Returns true if the check at this index is in the sample of a line. The lines of one check lie evenly in the table, and those of the
/// next check follow them.
fn is_sampled(lines: usize, line: usize, sampled: usize, index: usize) -> bool {
    (0..sampled).any(|turn| (index + turn * lines / sampled) % lines == line)
}
