//! Standard output without panics, and the few colours.
//!
//! `println!` panics when the reader of a pipe is gone; here that becomes a quiet [`Failure`].

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

use crate::errors::{Failure, Result};

/// One line on standard output, visible at once.
pub fn line(line: impl Display) -> Result<()> {
    text(format_args!("{line}\n"))
}

/// Text on standard output, visible at once.
pub fn text(text: impl Display) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::stdout(&error))
}

/// Writes a line about something that was done already. If the reader is gone, that is no failure.
pub fn afterword(text: impl Display) -> Result<()> {
    match line(text) {
        Err(failure) if failure.is_unread() => Ok(()),
        other => other,
    }
}

/// Colours for standard output: real ones on a terminal, none elsewhere, where `NO_COLOR` is set, or on a terminal without.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

/// Returns true if standard output is a terminal that may be coloured.
pub fn colours_wanted() -> bool {
    std::io::stdout().is_terminal() && may_be_coloured()
}

/// Returns true if terminals may be coloured: not where `NO_COLOR` is set, and not those that know no colours.
pub fn may_be_coloured() -> bool {
    allows_colours(|name| std::env::var_os(name))
}

fn allows_colours(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && variable("TERM").is_none_or(|terminal| terminal != "dumb")
}

impl Paint {
    /// Colours if standard output is a terminal that may be coloured.
    pub fn for_stdout() -> Self {
        Self {
            on: colours_wanted(),
        }
    }

    /// Bold text.
    pub fn bold(self, text: impl Display) -> String {
        self.code("1", text)
    }

    /// Text in cyan.
    pub fn cyan(self, text: impl Display) -> String {
        self.code("36", text)
    }

    /// Text in magenta.
    pub fn magenta(self, text: impl Display) -> String {
        self.code("35", text)
    }

    /// Text in green.
    pub fn green(self, text: impl Display) -> String {
        self.code("32", text)
    }

    fn code(self, code: &str, text: impl Display) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        for (no_color, terminal, coloured) in [
            (None, Some("xterm"), true),
            (None, None, true),
            (Some(""), Some("xterm"), true),
            (Some("1"), Some("xterm"), false),
            (None, Some("dumb"), false),
        ] {
            let variable = |name: &str| {
                let value = if name == "TERM" { terminal } else { no_color };
                value.map(OsString::from)
            };
            assert_eq!(
                allows_colours(variable),
                coloured,
                "{no_color:?} {terminal:?}"
            );
        }
    }
}
