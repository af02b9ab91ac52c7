//! The text in the cells of the tables.

use nd_base::units;

use super::outcome::Outcome;

/// The text where nothing was measured.
pub(super) const ABSENT: &str = "-";

/// The remark behind a row that was not measured to its end.
pub(super) fn remark(row: &Outcome) -> Option<String> {
    (!row.complete).then(|| format!("incomplete: {} turns", row.turns))
}

/// What carries the connections of a row, if they say it.
pub(super) fn transport(row: &Outcome) -> String {
    if row.transports.is_empty() {
        return ABSENT.to_owned();
    }
    row.transports.to_string()
}

/// A time in microseconds.
pub(super) fn micros(nanos: f64) -> String {
    fixed(nanos / 1e3, 2)
}

/// Octets in megabytes.
pub(super) fn megabytes(bytes: f64) -> String {
    fixed(bytes / 1e6, 2)
}

/// So many digits behind the point, if it is a number.
pub(super) fn fixed(value: f64, digits: usize) -> String {
    if value.is_finite() {
        format!("{value:.digits$}")
    } else {
        ABSENT.to_owned()
    }
}

/// A ratio, if there is one.
pub(super) fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| ABSENT.to_owned(), |ratio| units::decimal(ratio, 2))
}
