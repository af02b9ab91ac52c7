//! The connection of the two processes apart from what is measured: plain TCP, and a [message](super::messages) on each line.

use std::fmt::Display;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nd_base::errors::{Failure, Result, one_line};
use nd_base::session::Deadline;
use nd_base::stderr;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::lane::{gone, silence};
use super::limit::{Others, SilenceLimit};
use super::messages::{ControlAnswer, ControlRequest};

/// The version of this protocol, and of how the turns work. Two sides with different numbers cannot work together.
const VERSION: u32 = 9;

const NAME: &str = "nd-perf";

/// The longest line.
const LONGEST: usize = 4096;

/// One side's end of the control connection.
#[derive(Debug)]
pub(super) struct Control {
    stream: BufReader<TcpStream>,
    limit: Duration,
    /// By when the other side has to have sent the whole line, however slowly the octets come.
    deadline: Option<Deadline>,
    /// At a server, the clients that wait.
    others: Option<Others>,
}

impl Control {
    /// Greets the other side, and checks that it is `nd perf` of the same version. `limit` is how long it may take for a
    /// line.
    pub(super) fn new(stream: TcpStream, limit: Duration) -> Result<Self> {
        Self::greet(stream, limit, None)
    }

    /// Greets an unknown peer, and returns its first request. `None` if it leaves again, or gives up by itself.
    pub(super) fn of_unknown_peer(
        stream: TcpStream,
        limit: Duration,
        deadline: Deadline,
    ) -> Result<Option<(Self, ControlRequest)>> {
        let mut control = Self::greet(stream, limit, Some(deadline))?;
        let Some(line) = control.hear()? else {
            return Ok(None);
        };
        let request = request(&line).inspect_err(|failure| control.give_up(failure))?;
        control.deadline = None;
        control.limit_reads(limit)?;
        let gave_up = matches!(request, ControlRequest::Failed(_));
        Ok((!gave_up).then_some((control, request)))
    }

    fn greet(stream: TcpStream, limit: Duration, deadline: Option<Deadline>) -> Result<Self> {
        let explain = |error| Failure::socket("set up the control connection", &error);
        stream.set_nodelay(true).map_err(explain)?;
        stream.set_read_timeout(Some(limit)).map_err(explain)?;
        stream.set_write_timeout(Some(limit)).map_err(explain)?;
        let mut control = Self {
            stream: BufReader::new(stream),
            limit,
            deadline,
            others: None,
        };
        control.send(format_args!(
            "{NAME} {VERSION} {}",
            env!("CARGO_PKG_VERSION")
        ))?;
        let greeting = control.hear().map_err(|failure| {
            if failure.is_ours() {
                failure
            } else {
                not_understood()
            }
        })?;
        let is_known = check_greeting(&greeting.ok_or_else(not_understood)?);
        is_known.inspect_err(|failure| control.give_up(failure))?;
        Ok(control)
    }

    pub(super) fn local(&self) -> Result<SocketAddr> {
        let address = self.stream.get_ref().local_addr();
        address.map_err(|error| Failure::socket("see the control connection's address", &error))
    }

    pub(super) fn peer(&self) -> Result<SocketAddr> {
        let address = self.stream.get_ref().peer_addr();
        address.map_err(|error| Failure::socket("see the other side's address", &error))
    }

    /// Sends one line.
    fn send(&mut self, text: impl Display) -> Result<()> {
        let line = format!("{text}\n");
        let written = self.stream.get_mut().write_all(line.as_bytes());
        written.map_err(|error| self.lost(&error))
    }

    /// Sends a message.
    pub(super) fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(message);
        self.send(text.expect("messages have no maps, and memory takes everything"))
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, answer: impl Serialize) -> Result<()> {
        self.say(&ControlAnswer::Ok(answer))
    }

    /// Sends the reason why this side gives up. The other side may be gone already.
    pub(super) fn give_up(&mut self, failure: &Failure) {
        if failure.is_ours() {
            let _ = self.say(&ControlRequest::Failed(failure.to_string()));
        }
    }

    /// The next line, or `None` when the other side has ended.
    pub(super) fn hear(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        self.read_line(&mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            return Err(not_understood());
        }
        String::from_utf8(line)
            .map(Some)
            .map_err(|_| not_understood())
    }

    /// Returns true if a line of the other side was not read yet, or the other side has ended.
    pub(super) fn has_something(&self) -> Result<bool> {
        if !self.stream.buffer().is_empty() {
            return Ok(true);
        }
        let explain = |error| Failure::socket("look at the control connection", &error);
        let socket = self.stream.get_ref();
        socket.set_nonblocking(true).map_err(explain)?;
        let came = socket.peek(&mut [0]);
        socket.set_nonblocking(false).map_err(explain)?;
        match came {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.lost(&error)),
            Ok(_) => Ok(true),
        }
    }

    /// The next request at the side that serves, within the time limit, however slowly its octets come.
    pub(super) fn heed(&mut self) -> Result<Option<ControlRequest>> {
        self.deadline = Some(Deadline::after(self.limit));
        let line = self.hear();
        self.deadline = None;
        self.limit_reads(self.limit)?;
        match line?.map(|line| request(&line)).transpose()? {
            Some(ControlRequest::Failed(why)) => Err(gave_up(&why)),
            request => Ok(request),
        }
    }

    /// From now on the other side may be silent for less while these clients wait.
    pub(super) fn yields_to(&mut self, others: Option<Others>) {
        self.others = others;
    }

    /// Reads until the end of a line, but no more than the longest line has.
    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<()> {
        while line.len() < LONGEST && line.last() != Some(&b'\n') {
            if let Some(deadline) = self.deadline {
                if deadline.left().is_zero() {
                    return Err(silence(deadline.limit()));
                }
                let limit = SilenceLimit::from(deadline.limit()).among(self.others);
                let left = deadline.left();
                limit.yields(deadline.limit() - left)?;
                self.limit_reads(limit.step(left))?;
            }
            let came = match self.stream.fill_buf() {
                Ok([]) => return Ok(()),
                Ok(came) => came,
                // The time is over, or almost, or other clients may wait.
                Err(error) if self.deadline.is_some() && is_timeout(&error) => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.lost(&error)),
            };
            let end = came.iter().position(|octet| *octet == b'\n');
            let part = end.map_or(came.len(), |end| end + 1);
            let part = part.min(LONGEST - line.len());
            line.extend_from_slice(&came[..part]);
            self.stream.consume(part);
        }
        Ok(())
    }

    /// Has this side wait for a line at least twice as long as a turn may stand still, so that the side in whose turn nothing moves notices
    /// it first, and reports it.
    pub(super) fn allow(&mut self, timeout: Duration) -> Result<()> {
        self.limit = self.limit.max(2 * timeout);
        self.limit_reads(self.limit)
    }

    fn limit_reads(&self, time: Duration) -> Result<()> {
        // A limit of 0 would mean no limit.
        let time = time.max(Duration::from_millis(1));
        let limited = self.stream.get_ref().set_read_timeout(Some(time));
        limited.map_err(|error| Failure::socket("set up the control connection", &error))
    }

    /// Sleeps for this long, unless the other side ends meanwhile. The other side sends nothing in this time.
    pub(super) fn rest(&mut self, time: Duration) -> Result<()> {
        self.limit_reads(time)?;
        let ended = self.stream.fill_buf().map(<[u8]>::is_empty);
        self.limit_reads(self.limit)?;
        match ended {
            Ok(true) => Err(gone()),
            Ok(false) => Err(not_understood()),
            Err(error) if is_timeout(&error) => Ok(()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// The next answer, except that this side has to wait.
    fn next_answer<T: DeserializeOwned>(&mut self) -> Result<ControlAnswer<T>> {
        let mut has_waited = false;
        loop {
            let line = self.hear()?.ok_or_else(gone)?;
            match serde_json::from_str(&line) {
                Ok(ControlAnswer::Failed(why)) => return Err(gave_up(&why)),
                Ok(ControlAnswer::Waiting(why)) if !has_waited => {
                    stderr::note(format_args!("waiting: {}", one_line(&why)));
                    has_waited = true;
                }
                Ok(ControlAnswer::Waiting(_)) | Err(_) => return Err(not_understood()),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Waits for the answer to a request.
    pub(super) fn expect<T: DeserializeOwned>(&mut self) -> Result<T> {
        match self.next_answer()? {
            ControlAnswer::Ok(answer) => Ok(answer),
            _ => Err(not_understood()),
        }
    }

    /// Waits until a turn may begin.
    pub(super) fn expect_go(&mut self) -> Result<()> {
        match self.next_answer::<IgnoredAny>()? {
            ControlAnswer::Go => Ok(()),
            _ => Err(not_understood()),
        }
    }

    /// Waits until a turn is over.
    pub(super) fn expect_done<T: DeserializeOwned>(&mut self) -> Result<T> {
        match self.next_answer()? {
            ControlAnswer::Done(answer) => Ok(answer),
            _ => Err(not_understood()),
        }
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, request: &ControlRequest) -> Result<T> {
        self.say(request)?;
        self.expect()
    }

    /// Why the other side gave up, if it has sent a reason.
    pub(super) fn last_words(&mut self) -> Option<Failure> {
        let patience = Duration::from_millis(500);
        self.stream
            .get_ref()
            .set_read_timeout(Some(patience))
            .ok()?;
        while let Ok(Some(line)) = self.hear() {
            if let Ok(ControlAnswer::<IgnoredAny>::Failed(why)) = serde_json::from_str(&line) {
                return Some(gave_up(&why));
            }
        }
        None
    }

    fn lost(&self, error: &std::io::Error) -> Failure {
        match error.kind() {
            _ if is_timeout(error) => silence(self.limit),
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                gone()
            }
            _ => Failure::socket("talk to the other side", error).by_peer(),
        }
    }
}

/// A read's or a write's own limit has passed.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads a request.
fn request(line: &str) -> Result<ControlRequest> {
    serde_json::from_str(line).map_err(|_| {
        Failure::new(
            format!(
                "what came is no request of nd perf version {VERSION} (nd {})",
                env!("CARGO_PKG_VERSION")
            ),
            "run the same version of nd on both sides",
        )
    })
}

fn check_greeting(line: &str) -> Result<()> {
    let mut words = line.split(' ');
    let (name, version, package) = (words.next(), words.next(), words.next());
    if name != Some(NAME) {
        return Err(not_understood());
    }
    let version: u32 = version
        .and_then(|version| version.parse().ok())
        .ok_or_else(not_understood)?;
    if version == VERSION {
        return Ok(());
    }
    Err(Failure::new(
        format!(
            "the other side speaks version {version} of nd perf (nd {}), this one version {VERSION} (nd {})",
            one_line(package.unwrap_or("?")),
            env!("CARGO_PKG_VERSION")
        ),
        "run the same version of nd on both sides",
    ))
}

/// The error for a line that makes no sense.
pub(super) fn not_understood() -> Failure {
    Failure::new(
        "the other side does not speak nd perf",
        "check address and port, and that `nd perf serve` of the same version runs there",
    )
}

fn gave_up(why: &str) -> Failure {
    // The reason comes with its own advice behind the last semicolon.
    let (what, advice) = why
        .rsplit_once("; ")
        .unwrap_or((why, "look at what it says"));
    Failure::peer(
        format!("the other side gave up: {}", one_line(what)),
        one_line(advice),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_of_another_version_names_both() {
        assert!(check_greeting(&format!("{NAME} {VERSION} 9.9")).is_ok());
        let failure = check_greeting("nd-perf 99 8.1.0").expect_err("version");
        let text = failure.to_string();
        assert!(
            text.contains("version 99") && text.contains("nd 8.1.0"),
            "{text}"
        );
    }

    #[test]
    fn a_greeting_of_anything_else_is_a_strangers() {
        for bad in [
            "",
            "HTTP/1.1 400 Bad Request",
            "nd-perf",
            "nd-perf x",
            "nd-perf -1 0",
        ] {
            let text = check_greeting(bad).expect_err(bad).to_string();
            assert!(text.contains("does not speak nd perf"), "{text}");
        }
    }

    #[test]
    fn what_is_no_request_names_the_version() {
        assert_eq!(
            request(r#""join""#).expect("a request"),
            ControlRequest::Join
        );
        let deep = "[".repeat(LONGEST);
        for bad in [
            "",
            "join",
            "turn 1000",
            "{}",
            r#"{"turn":{"count":1}}"#,
            &deep,
        ] {
            let text = request(bad).expect_err(bad).to_string();
            let version = format!("no request of nd perf version {VERSION}");
            assert!(
                text.contains(&version)
                    && text.ends_with("; run the same version of nd on both sides"),
                "{text}"
            );
        }
    }
}
