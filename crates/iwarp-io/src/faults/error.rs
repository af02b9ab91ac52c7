//! Errors in the text of a plan, with their places.

use std::fmt;

use crate::printable::printable;

/// The text of a [`Plan`](super::Plan) is wrong at one place.
///
/// When printed, the error shows the place, what was expected there, and the line with a caret under the place:
///
/// ```
/// let error = "when 1st Write send: reset".parse::<iwarp_io::faults::Plan>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1, column 16: expected `sent` or `received`, found `send`\n\
///      \x20 when 1st Write send: reset\n\
///      \x20                ^"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    line: usize,
    column: usize,
    problem: String,
    text: String,
}

impl PlanError {
    /// Characters that are not printable, other than tabs, are replaced, so that an error cannot confuse the terminal that shows it.
    pub(super) fn new(at: (usize, usize), problem: &str, text: &str) -> Self {
        let shown = |c: char| match c {
            '\t' => c,
            c => printable(c),
        };
        Self {
            line: at.0,
            column: at.1,
            problem: problem.chars().map(shown).collect(),
            text: text.chars().map(shown).collect(),
        }
    }

    /// The line of the text, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The character of the line, counted from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// The text that was expected, and the text that was found.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            problem,
            text,
        } = self;
        write!(f, "line {line}, column {column}: {problem}\n  {text}\n  ")?;
        // A tab is as wide under the line as in it.
        for before in text.chars().take(column - 1) {
            let blank = if before == '\t' { '\t' } else { ' ' };
            write!(f, "{blank}")?;
        }
        f.write_str("^")
    }
}

impl std::error::Error for PlanError {}

/// The reason why a plan could not be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    File {
        /// Its path.
        path: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The text is not a plan.
    Text {
        /// The path of the file, unless the text itself was given.
        path: Option<String>,
        /// The error in the text.
        error: PlanError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, error } => write!(f, "cannot read the fault plan {path}: {error}"),
            Self::Text { path, error } => match path {
                Some(path) => write!(f, "fault plan {path}, {error}"),
                None => write!(f, "fault plan, {error}"),
            },
        }
    }
}

impl std::error::Error for LoadError {}
