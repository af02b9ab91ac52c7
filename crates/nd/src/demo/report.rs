//! The output of the demo: numbered steps, and under each step the lines of both sides.
//!
//! The server writes lines to a pipe. The first character of a line tells its kind:
//!
//! | | |
//! |---|---|
//! | `@` | the port on which it listens; its first line |
//! | `>` | a line to show |
//! | `.` | it has nothing more to say for now |
//! | `=` | so many octets were checked on its side; its last line |
//! | `!` | it gives up, and why |
//! | `?` | it gives up because the client or the connection to it has gone |
//!
//! The client reads the server's lines at the right places of the output, up to the next full stop. So the order never
//! depends on which side was faster.

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::args::DemoArgs;
use crate::errors::{Failure, Result};
use crate::output::{self, Paint};

/// Writes the server's lines to its standard output.
#[derive(Debug, Default)]
pub(super) struct ServerOutput;

impl ServerOutput {
    pub(super) fn port(&self, port: u16) -> Result<()> {
        output::line(format_args!("@{port}"))
    }

    pub(super) fn say(&self, text: impl Display) -> Result<()> {
        output::line(format_args!(">{text}"))
    }

    pub(super) fn pause(&self) -> Result<()> {
        output::line(".")
    }

    pub(super) fn checked(&self, octets: u64) -> Result<()> {
        output::line(format_args!("={octets}"))
    }

    pub(super) fn give_up(&self, failure: &Failure) -> Result<()> {
        output::line(format_args!(
            "{}{failure}",
            if failure.is_ours() { '!' } else { '?' }
        ))
    }
}

/// A line of the server.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Port(u16),
    Show(String),
    Pause,
    Checked(u64),
    GaveUp { why: String, first: bool },
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let kind = chars.next()?;
        let rest = chars.as_str();
        match kind {
            '@' => rest.parse().ok().map(Self::Port),
            '>' => Some(Self::Show(rest.to_owned())),
            '.' if rest.is_empty() => Some(Self::Pause),
            '=' => rest.parse().ok().map(Self::Checked),
            '!' | '?' => Some(Self::GaveUp {
                why: rest.to_owned(),
                first: kind == '!',
            }),
            _ => None,
        }
    }
}

/// The second process, and the output with the lines of both sides. Ends the process when dropped.
#[derive(Debug)]
pub(super) struct DemoOutput {
    child: Child,
    lines: BufReader<ChildStdout>,
    paint: Paint,
    step: u32,
}

impl DemoOutput {
    /// Starts this program once more, as the server.
    pub(super) fn start(args: &DemoArgs, verbose: u8) -> Result<Self> {
        let explain = |error| Failure::start("a second process of this program", &error);
        let mut command = Command::new(std::env::current_exe().map_err(explain)?);
        command
            .arg("demo-server")
            .args(args.adapter.no_crc.then_some("--no-crc"))
            .arg(format!("--private-data={}", args.private_data))
            .args((0..verbose).map(|_| "-v"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(explain)?;
        let Some(lines) = child.stdout.take().map(BufReader::new) else {
            return Err(Failure::new(
                "the second process has no standard output",
                "try again",
            ));
        };
        Ok(Self {
            child,
            lines,
            paint: Paint::for_stdout(),
            step: 0,
        })
    }

    pub(super) fn server_id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    /// A step begins.
    pub(super) fn step(&mut self, title: &str) -> Result<()> {
        self.step += 1;
        output::line("")?;
        output::line(self.paint.bold(format_args!("{:>2}  {title}", self.step)))
    }

    /// Shows a line of the client.
    pub(super) fn client(&self, text: impl Display) -> Result<()> {
        output::line(format_args!(
            "      {}  {text}",
            self.paint.cyan("client ▸")
        ))
    }

    /// Shows the server's lines up to the next full stop.
    pub(super) fn server(&mut self) -> Result<()> {
        loop {
            match self.read()? {
                Line::Show(text) => output::line(format_args!(
                    "      {}  {text}",
                    self.paint.magenta("◂ server")
                ))?,
                Line::Pause => return Ok(()),
                _ => return Err(self.confused()),
            }
        }
    }

    /// The port of the server.
    pub(super) fn port(&mut self) -> Result<u16> {
        match self.read()? {
            Line::Port(port) => Ok(port),
            _ => Err(self.confused()),
        }
    }

    /// How much the server has checked, once it has ended well.
    pub(super) fn checked(&mut self) -> Result<u64> {
        let Line::Checked(octets) = self.read()? else {
            return Err(self.confused());
        };
        let status = self
            .child
            .wait()
            .map_err(|error| Failure::io("wait for the second process", &error))?;
        if status.success() {
            Ok(octets)
        } else {
            Err(self.confused())
        }
    }

    fn read(&mut self) -> Result<Line> {
        match self.next()? {
            Some(Line::GaveUp { why, .. }) => Err(gave_up(&why)),
            Some(line) => Ok(line),
            None => Err(self.confused()),
        }
    }

    fn next(&mut self) -> Result<Option<Line>> {
        let mut text = String::new();
        let read = self.lines.read_line(&mut text);
        read.map_err(|error| Failure::io("hear from the second process", &error))?;
        Ok(Line::parse(text.trim_end_matches(['\r', '\n'])))
    }

    fn confused(&mut self) -> Failure {
        let how = match self.child.try_wait() {
            Ok(Some(status)) => format!("the second process ended before its time ({status})"),
            _ => "the second process says something unexpected".to_owned(),
        };
        Failure::peer(how, "run again with -vv to see more")
    }

    /// Why the server gave up, if it gave up first, so that the client's error is only a consequence. To be called when the
    /// connections are closed, so that the server ends.
    pub(super) fn last_words(&mut self) -> Option<Failure> {
        loop {
            match self.next() {
                Ok(Some(Line::Show(_) | Line::Pause)) => {}
                Ok(Some(Line::GaveUp { why, first: true })) => return Some(gave_up(&why)),
                _ => return None,
            }
        }
    }
}

fn gave_up(why: &str) -> Failure {
    // The reason comes with its own advice behind the last semicolon.
    let (what, advice) = why
        .rsplit_once("; ")
        .unwrap_or((why, "run again with -vv to see more"));
    Failure::peer(format!("the server gave up: {what}"), advice.to_owned())
}

impl Drop for DemoOutput {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_lines_are_told_apart() {
        for (text, line) in [
            ("@4791", Some(Line::Port(4791))),
            (
                ">Send: ND_SUCCESS",
                Some(Line::Show("Send: ND_SUCCESS".to_owned())),
            ),
            (">", Some(Line::Show(String::new()))),
            (".", Some(Line::Pause)),
            ("=77", Some(Line::Checked(77))),
            (
                "!no",
                Some(Line::GaveUp {
                    why: "no".to_owned(),
                    first: true,
                }),
            ),
            (
                "?gone",
                Some(Line::GaveUp {
                    why: "gone".to_owned(),
                    first: false,
                }),
            ),
            ("", None),
            ("@70000", None),
            ("..", None),
            ("ä", None),
        ] {
            assert_eq!(Line::parse(text), line, "{text}");
        }
    }
}
