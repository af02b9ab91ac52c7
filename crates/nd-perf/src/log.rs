//! The target of the log.

/// The target of all events of this crate.
pub(crate) const TARGET: &str = "nd::perf";
