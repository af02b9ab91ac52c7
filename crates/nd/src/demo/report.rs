//! The output of the demo: numbered steps, and under each step the lines of both sides.
//!
//! The server writes lines to a pipe. The first character of a line is its kind:
//!
//! | | |
//! |---|---|
//! | `@` | the address at which it listens, and the fingerprint of its certificate if it shows one; its first line |
//! | `>` | a line to show |
//! | `.` | it has nothing more to say for now |
//! | `=` | the number of octets that were checked on its side; its last line |
//! | `!` | it gives up, and why |
//! | `?` | it gives up because the client or the connection to it is gone |
//!
//! The client reads the server's lines at the right places of the output, up to the next full stop. So the order never
//! depends on which side was faster.

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::args::DemoArgs;
use crate::errors::{Failure, Result};
use crate::output::{self, Paint};
use crate::provider;

/// Writes the server's lines to its standard output.
#[derive(Debug, Default)]
pub(super) struct ServerOutput;

impl ServerOutput {
    pub(super) fn listening(&self, address: SocketAddr, fingerprint: Option<&str>) -> Result<()> {
        let (space, fingerprint) = fingerprint.map_or(("", ""), |pin| (" ", pin));
        output::line(format_args!("@{address}{space}{fingerprint}"))
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

/// Where the server listens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    /// The fingerprint of its certificate.
    pub(super) fingerprint: Option<String>,
}

impl Listening {
    fn parse(text: &str) -> Option<Self> {
        let (address, fingerprint) = match text.split_once(' ') {
            Some((address, fingerprint)) => (address, Some(fingerprint)),
            None => (text, None),
        };
        let fingerprint = fingerprint.map(provider::fingerprint).transpose().ok()?;
        Some(Self {
            address: address.parse().ok()?,
            fingerprint,
        })
    }
}

/// A line of the server.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Listening(Listening),
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
            '@' => Listening::parse(rest).map(Self::Listening),
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
        if let Some(url) = args.which.url() {
            command.args(["--url", url]);
            if provider::is_over_udp(url)? {
                command.args(["--pin", &provider::own_fingerprint()?]);
            }
        }
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

    /// Where the server listens.
    pub(super) fn listening(&mut self) -> Result<Listening> {
        match self.read()? {
            Line::Listening(listening) => Ok(listening),
            _ => Err(self.confused()),
        }
    }

    /// Returns the number of octets that the server has checked, once it has ended with success.
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
        let pin = format!("sha256:{}", "5f".repeat(32));
        for (text, line) in [
            (
                "@127.0.0.1:4791",
                Some(Line::Listening(Listening {
                    address: SocketAddr::from(([127, 0, 0, 1], 4791)),
                    fingerprint: None,
                })),
            ),
            (
                &format!("@127.0.0.1:4791 {pin}"),
                Some(Line::Listening(Listening {
                    address: SocketAddr::from(([127, 0, 0, 1], 4791)),
                    fingerprint: Some(pin.clone()),
                })),
            ),
            ("@127.0.0.1:4791 sha256:0", None),
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
            ("@127.0.0.1:70000", None),
            ("..", None),
            ("ä", None),
        ] {
            assert_eq!(Line::parse(text), line, "{text}");
        }
    }
}
