//! Shared by the commands of both conformance suites: the forms of reports and lists, and known deviations of what a suite is about.

use std::fs;

use conform_report::{Run, Suite, report};

use crate::args::Format;
use crate::errors::{Failure, Result};
use crate::output;

/// The forms of reports. Lists have two of them.
pub(crate) const FORMATS: &[(Format, &str)] = &[
    (Format::Text, "For people"),
    (Format::Json, "One JSON object"),
    (Format::Junit, "JUnit XML, one test suite for each section"),
    (Format::Html, "One page that needs no other file"),
    (
        Format::Markdown,
        "Tables of Markdown; with --list those of the documentation",
    ),
];

/// Colours if standard output is a terminal that may be coloured.
pub(crate) fn paint() -> report::Paint {
    if output::colours_wanted() {
        report::Paint::on()
    } else {
        report::Paint::off()
    }
}

/// The whole report, with this one as text.
pub(crate) fn form<F: Suite>(
    format: Format,
    run: &Run<F>,
    text: impl FnOnce() -> String,
) -> String {
    match format {
        Format::Text | Format::Csv => text(),
        Format::Json => report::json(run),
        Format::Junit => report::junit(run),
        Format::Html => report::html(run),
        Format::Markdown => report::markdown(run),
    }
}

/// The error for an `--only` that means no check. `why` is the reason why the suite has none for the row of this name.
pub(crate) fn no_check(text: &str, why: Option<&str>, list: &str) -> Failure {
    match why {
        Some(why) => Failure::new(
            format!(
                "the row {text} has no check ({})",
                why.trim_end_matches('.')
            ),
            "leave it out of --only",
        ),
        None => Failure::new(
            format!("no check has the name '{text}' or begins with it"),
            format!("see `{list}`"),
        ),
    }
}

/// A list of checks.
pub(crate) fn list(
    format: Format,
    text: impl FnOnce() -> String,
    page: impl FnOnce() -> String,
) -> Result<String> {
    match format {
        Format::Text => Ok(text()),
        Format::Markdown => Ok(page()),
        Format::Json | Format::Csv | Format::Junit | Format::Html => Err(Failure::new(
            "a list is written as text or markdown",
            "use --format text or --format markdown with --list",
        )),
    }
}

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
pub(crate) fn deviations<T>(name: &str, shipped: &Shipped<T>) -> Result<T> {
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
