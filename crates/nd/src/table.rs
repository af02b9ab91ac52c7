//! Tables for terminals: aligned columns, a rule under the heads, no frame.

use std::fmt;

/// The side of its column at which a cell is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of text under column heads. Printing pads with spaces; no line ends in one.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(head, align)| (head.into(), align))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Missing cells are empty, surplus ones are dropped.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells
            .into_iter()
            .map(Into::into)
            .take(self.columns.len())
            .collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        let heads = self.columns.iter().map(|(head, _)| width(head));
        heads
            .enumerate()
            .map(|(i, head)| {
                self.rows
                    .iter()
                    .map(|row| width(&row[i]))
                    .max()
                    .unwrap_or(0)
                    .max(head)
            })
            .collect()
    }

    fn write_line<'a>(
        &self,
        f: &mut fmt::Formatter<'_>,
        widths: &[usize],
        cells: impl Iterator<Item = &'a str>,
    ) -> fmt::Result {
        let mut line = String::new();
        for ((cell, (_, align)), column) in cells.zip(&self.columns).zip(widths) {
            let gap = " ".repeat(column.saturating_sub(width(cell)));
            match align {
                Align::Left => line.extend(["  ", cell, &gap]),
                Align::Right => line.extend(["  ", &gap, cell]),
            }
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        self.write_line(
            f,
            &widths,
            self.columns.iter().map(|(head, _)| head.as_str()),
        )?;
        let rules: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
        self.write_line(f, &widths, rules.iter().map(String::as_str))?;
        for row in &self.rows {
            self.write_line(f, &widths, row.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

/// Cells hold plain text of single-column characters.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_have_no_trailing_space() {
        let mut table = Table::new([("name", Align::Left), ("size", Align::Right)]);
        table.row(["a", "1 B"]);
        table.row(["longer", "64 KiB"]);
        table.row(["µs"]);
        let expected =
            "  name      size\n  ──────  ──────\n  a          1 B\n  longer  64 KiB\n  µs\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_table_without_rows_still_has_its_heads() {
        let table = Table::new([("only", Align::Left)]);
        assert_eq!(table.to_string(), "  only\n  ────\n");
    }

    #[test]
    fn surplus_cells_are_dropped() {
        let mut table = Table::new([("a", Align::Left)]);
        table.row(["1", "2"]);
        assert_eq!(table.to_string(), "  a\n  ─\n  1\n");
    }
}
