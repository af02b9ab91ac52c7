//! Known deviations of what a suite is about, by the name of a file or the name of one that comes with the suite.

use std::fs;

use crate::errors::{Failure, Result};

/// The deviations that a suite ships, and how it reads others.
pub(crate) struct Shipped<T> {
    /// Reads a file's text.
    pub(crate) parse: fn(&str) -> std::result::Result<T, String>,
    /// Finds the list of a name. `None` if no list has this name.
    pub(crate) named: fn(&str) -> Option<std::result::Result<T, String>>,
    /// All names.
    pub(crate) names: Vec<&'static str>,
}

/// Reads the deviations of this name, or of this file.
pub(crate) fn read<T>(name: &str, shipped: &Shipped<T>) -> Result<T> {
    let read = match (shipped.named)(name) {
        Some(known) => known,
        None => {
            let text = fs::read_to_string(name).map_err(|error| {
                Failure::io(format_args!("read the deviations {name}"), &error).advise(format!(
                    "name a file, or one of: {}",
                    shipped.names.join(", ")
                ))
            })?;
            (shipped.parse)(&text)
        }
    };
    read.map_err(|why| {
        Failure::new(
            format!("the deviations {name} are not well-formed: {why}"),
            "each entry needs a check or a row, a reason and a source",
        )
    })
}
