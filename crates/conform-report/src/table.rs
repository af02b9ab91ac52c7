//! Tables for terminals: aligned columns without a frame.

use std::fmt;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentLineStyle, LineStyle, TableStyle};

/// The side of its column at which a cell is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Lines without a rule below the heads. Two spaces are before each cell.
const PLAIN: TableStyle = NOTHING
    .header_lines(ContentLineStyle::new(' ', ' ', ' '))
    .content_lines(ContentLineStyle::new(' ', ' ', ' '));
const RULED: TableStyle = PLAIN.header_separator(LineStyle::new(' ', '─', ' ', ' '));

/// Rows of text, below column heads or without. Printing pads with spaces; no line ends in one. A column without any text is not shown.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<TableColumn>,
    table: comfy_table::Table,
}

#[derive(Clone, Copy, Debug)]
struct TableColumn {
    align: Align,
    /// Whether any cell has text.
    is_shown: bool,
}

impl Table {
    /// A table with a rule below its heads.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        let (heads, aligns): (Vec<String>, Vec<Align>) = columns
            .into_iter()
            .map(|(head, align)| (head.into(), align))
            .unzip();
        let mut table = Self::without_heads(aligns);
        table.note(&heads);
        table.table.load_style(RULED).set_header(heads);
        table.set_up();
        table
    }

    /// A table without heads.
    pub fn without_heads(columns: impl IntoIterator<Item = Align>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(PLAIN);
        Self {
            columns: columns
                .into_iter()
                .map(|align| TableColumn {
                    align,
                    is_shown: false,
                })
                .collect(),
            table,
        }
    }

    /// Adds a row. Missing cells are empty, surplus ones are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells = cells.into_iter().map(Into::into);
        let row: Vec<String> = cells.take(self.columns.len()).collect();
        self.note(&row);
        self.table.add_row(row);
        self.set_up();
    }

    /// The lines: one for the heads and one for the rule, if there are any, and one for each row.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let lines = self.table.lines();
        lines.map(|line| line.trim_end().to_owned())
    }

    /// Notes which columns have text.
    fn note(&mut self, cells: &[String]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.is_shown |= !cell.is_empty();
        }
    }

    /// A column can be set up as soon as a row has made it.
    fn set_up(&mut self) {
        for (column, set) in self.table.column_iter_mut().zip(&self.columns) {
            column
                .set_padding((1, 0))
                .set_cell_alignment(match set.align {
                    Align::Left => CellAlignment::Left,
                    Align::Right => CellAlignment::Right,
                });
            if set.is_shown {
                column.remove_constraint();
            } else {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().try_for_each(|line| writeln!(f, "{line}"))
    }
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
            "  name      size\n ─────── ───────\n  a          1 B\n  longer  64 KiB\n  µs\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_table_without_rows_still_has_its_heads() {
        let table = Table::new([("only", Align::Left)]);
        assert_eq!(table.to_string(), "  only\n ─────\n");
    }

    #[test]
    fn surplus_cells_are_dropped_and_heads_may_be_left_out() {
        let mut table = Table::without_heads([Align::Left]);
        table.row(["1", "2"]);
        table.row(["", "3"]);
        assert_eq!(table.to_string(), "  1\n\n");
    }

    #[test]
    fn a_column_without_text_is_not_shown() {
        let mut table = Table::new([("a", Align::Left), ("", Align::Right), ("b", Align::Left)]);
        table.row(["1", "", "2"]);
        assert_eq!(table.to_string(), "  a  b\n ── ──\n  1  2\n");
        table.row(["1", "why", "2"]);
        let last = table.lines().last();
        assert_eq!(last.as_deref(), Some("  1  why  2"));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::without_heads([Align::Left, Align::Left]);
        table.row(["機械", "a"]);
        table.row(["abcd", "b"]);
        assert_eq!(table.to_string(), "  機械  a\n  abcd  b\n");
    }
}
