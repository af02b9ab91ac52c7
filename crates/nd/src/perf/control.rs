//! The agreement of the two processes: lines of text over a plain TCP connection, apart from what is measured.
//!
//! Both sides begin with `nd-perf VERSION PACKAGE`. Then the side that runs the tests asks and the other answers, one
//! line each:
//!
//! | asks | answers | |
//! |---|---|---|
//! | `certificate FINGERPRINT` | `ok certificate=FINGERPRINT` | before rows over UDP: the certificate of each side |
//! | `row SPEC` | `ok rdma=PORT tcp=PORT key=HEX remote=HEX receives=FROM` | a row begins: the other side has its adapter open, listens, and takes its Receives from there |
//! | `plain` | `ok rdma=PORT key=HEX remote=HEX` | the same for another RDMA connection, with Receives of each queue pair's own and memory at the best place |
//! | `join` | `ok` | the RDMA connection is being made, and stands |
//! | `quic` | `ok quic=PORT certificate=HEX`, then `ok` | a bare QUIC connection is being made, and stands |
//! | `wire CC` | `ok CC` | a bare connection is being made; with this congestion control, or `-` for the system's own |
//! | `turn COUNT` | `go`, then `done` | a turn over RDMA |
//! | `turn COUNT plain` | `go`, then `done` | a turn over the other RDMA connection |
//! | `turn COUNT wire=I write=W` | `go`, then `done` | a turn over a bare connection |
//! | `verify` | `ok` | what the turns since the last time have brought is what it should be |
//! | `end` | `ok` | the row is over |
//!
//! A row about many connections goes on in another way:
//!
//! | asks | answers | |
//! |---|---|---|
//! | `row SPEC` | `ok many=PORT alone=PORT bare=PORT key=HEX receives=FROM` | the row begins |
//! | `alone` | `ok` | the connection that is alone is being made, on its own adapter, and stands |
//! | `crowd` | `ok memory=OCTETS` | the idle connections are being made, and stand; what each has cost, `-` if unknown |
//! | `idle MILLISECONDS` | `go`, then `done cpu=SHARE` | for so long nothing happens; the processor time that this took |
//! | `turn COUNT` | `go`, then `done` | messages on one of many, or connections that come and go |
//! | `turn COUNT alone` | `go`, then `done` | messages on the connection that is alone |
//! | `turn COUNT bare` | `go`, then `done` | bare connections that come and go |
//! | `verify`, `end` | `ok` | as above |
//!
//! Before the first answer may come `waiting WHY`, when the server serves another client. Instead of any answer may come `failed WHY`,
//! and the connection ends.

use std::fmt::Display;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

use super::lane::{gone, silence};
use super::limit::{Others, SilenceLimit};
use crate::errors::{Failure, Result, one_line};
use crate::session::Deadline;
use crate::stderr;

/// The version of this protocol, and of how the turns work. Two sides with different numbers cannot work together.
const VERSION: u32 = 7;

const NAME: &str = "nd-perf";

/// The word in front of the reason why a side gives up.
const GAVE_UP: &str = "failed ";

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
    ) -> Result<Option<(Self, String)>> {
        let mut control = Self::greet(stream, limit, Some(deadline))?;
        let line = control.hear()?;
        let line = line.filter(|line| !line.starts_with(GAVE_UP));
        control.deadline = None;
        control.limit_reads(limit)?;
        Ok(line.map(|line| (control, line)))
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
        control.say(format_args!(
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
        check_greeting(&greeting.ok_or_else(not_understood)?)?;
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
    pub(super) fn say(&mut self, text: impl Display) -> Result<()> {
        let line = format!("{text}\n");
        let written = self.stream.get_mut().write_all(line.as_bytes());
        written.map_err(|error| self.lost(&error))
    }

    /// Sends the reason why this side gives up. The other side may be gone already.
    pub(super) fn give_up(&mut self, failure: &Failure) {
        if failure.is_ours() {
            let _ = self.say(format_args!("{GAVE_UP}{failure}"));
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

    /// The next line at the side that serves, within the time limit, however slowly its octets come. The line is a request, unless the
    /// other side gives up.
    pub(super) fn heed(&mut self) -> Result<Option<String>> {
        self.deadline = Some(Deadline::after(self.limit));
        let line = self.hear();
        self.deadline = None;
        self.limit_reads(self.limit)?;
        let line = line?;
        match line.as_deref().and_then(|line| line.strip_prefix(GAVE_UP)) {
            Some(why) => Err(gave_up(why)),
            None => Ok(line),
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

    /// Waits for an answer that begins with `word`. Returns the rest of the answer.
    pub(super) fn expect(&mut self, word: &str) -> Result<String> {
        let mut has_waited = false;
        loop {
            let line = self.hear()?.ok_or_else(gone)?;
            match line.split_once(' ').unwrap_or((&line, "")) {
                (first, rest) if first == word => return Ok(rest.to_owned()),
                ("failed", why) => return Err(gave_up(why)),
                ("waiting", why) if !has_waited => {
                    stderr::note(format_args!("waiting: {}", one_line(why)));
                    has_waited = true;
                }
                _ => return Err(not_understood()),
            }
        }
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, question: impl Display) -> Result<String> {
        self.say(question)?;
        self.expect("ok")
    }

    /// Why the other side gave up, if it has sent a reason.
    pub(super) fn last_words(&mut self) -> Option<Failure> {
        let patience = Duration::from_millis(500);
        self.stream
            .get_ref()
            .set_read_timeout(Some(patience))
            .ok()?;
        loop {
            match self.hear() {
                Ok(Some(line)) => {
                    if let Some(why) = line.strip_prefix(GAVE_UP) {
                        return Some(gave_up(why));
                    }
                }
                _ => return None,
            }
        }
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

/// The value of `key=VALUE` among the words of a line.
pub(super) fn value<T: FromStr>(line: &str, key: &str) -> Result<T> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .and_then(|value| value.parse().ok())
        .ok_or_else(not_understood)
}

/// Octets in hexadecimal.
pub(super) fn to_hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// As many octets as are wanted, from hexadecimal.
pub(super) fn from_hex<const N: usize>(text: &str) -> Result<[u8; N]> {
    let octets = octets_from_hex(text)?;
    octets.try_into().map_err(|_| not_understood())
}

/// Octets from hexadecimal.
pub(super) fn octets_from_hex(text: &str) -> Result<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks();
    if !rest.is_empty() {
        return Err(not_understood());
    }
    let pairs = pairs.iter().map(from_hex_pair);
    pairs.collect::<Option<_>>().ok_or_else(not_understood)
}

fn from_hex_pair(pair: &[u8; 2]) -> Option<u8> {
    let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(16 * high? + low?).ok()
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
    fn hexadecimal_goes_both_ways_and_takes_nothing_else() {
        let octets = [0, 1, 0xAB, 0xFF];
        assert_eq!(from_hex(&to_hex(&octets)).expect("hex"), octets);
        for bad in ["", "00", "0001abfg", "0001abf", "é001ab0"] {
            assert!(from_hex::<4>(bad).is_err(), "{bad}");
        }
        assert_eq!(octets_from_hex("00ABff").expect("hex"), [0, 0xAB, 0xFF]);
        for bad in ["0", "+1", "0g", "é0"] {
            assert!(octets_from_hex(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_found_by_their_key() {
        let line = "1000 wire=2 write=65536";
        assert_eq!(value::<u32>(line, "write").expect("write"), 65_536);
        assert!(value::<u32>(line, "wir").is_err() && value::<u8>(line, "write").is_err());
    }
}
