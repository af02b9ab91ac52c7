//! Which checks a target that breaks a rule meets by day: those near the rule, and a sample of the others.

use iwarp_conform::Check;

/// The names of the checks for one line of a table of this many: the one that has to fail, those about the same row, and the line's part of
/// a sample in which each check meets this many lines. These lie evenly in the table, and those of the next check follow them.
pub(crate) fn of_line(
    (line, lines): (usize, usize),
    expected: &str,
    sampled: usize,
    checks: impl Iterator<Item = &'static Check>,
) -> Vec<String> {
    let row = expected.split('.').next();
    let is_sampled =
        |index| (0..sampled).any(|turn| (index + turn * lines / sampled) % lines == line);
    let is_near = |check: &Check| check.rows().any(|own| Some(own) == row);
    checks
        .enumerate()
        .filter(|(index, check)| is_near(check) || is_sampled(*index))
        .map(|(_, check)| check.name.to_owned())
        .collect()
}
