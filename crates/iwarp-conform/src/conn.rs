//! One connection of the raw peer: sends and receives frames, and finds faults in received ones.
//!
//! The connection accepts everything from the target as long as it can find the frames. Each violation becomes a [`Fault`]
//! with the violated row, and the checks decide which faults matter to them.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::inbound::{Fault, Inbound};
use crate::service::Offer;
use crate::stream::Stream;
use crate::wire::{Fpdu, Markers, Segment, StartFrame, hex, pad_length};
use conform_report::{Step, Stop, fail};

/// The time limits of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For anything that the target has to do.
    pub answer: Duration,
    /// Before the suite concludes that nothing will come.
    pub quiet: Duration,
    /// For the target to give up a start-up that does not end.
    pub startup: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            quiet: Duration::from_millis(200),
            startup: Duration::from_secs(30),
        }
    }
}

/// The traffic of one connection, for reports.
#[derive(Clone, Debug, Default)]
pub struct Log(Rc<RefCell<Vec<String>>>);

/// The most lines of a log. The first lines are dropped.
const LOG_LINES: usize = 24;

impl Log {
    /// Adds a line.
    pub fn note(&self, line: String) {
        let mut lines = self.0.borrow_mut();
        if lines.len() == LOG_LINES {
            lines.remove(0);
        }
        lines.push(line);
    }

    /// Takes all lines out.
    pub fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// The end of the target's half of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In good order.
    Fin,
    /// By a reset.
    Reset,
}

/// The result of a wait with a time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// The expected kind of thing.
    It(T),
    /// The end of the stream, after this many octets of something incomplete.
    End(End, usize),
    /// Nothing, or something incomplete.
    Nothing,
}

/// A connection to the target.
#[derive(Debug)]
pub struct Conn {
    stream: Stream,
    log: Log,
    limits: Limits,
    buffer: Vec<u8>,
    end: Option<End>,
    /// The target is the MPA Initiator.
    pub target_is_initiator: bool,
    /// CRCs are checked.
    pub crc: bool,
    /// Markers that this side inserts, if the target wants them.
    pub markers_out: Option<Markers>,
    /// Markers that the target inserts, if this side wants them.
    pub markers_in: Option<Markers>,
    /// The ready-to-receive message for which the target waits, as long as nothing was sent since its Reply.
    pub(crate) owed: Option<Segment>,
    /// An FPDU was sent.
    begun: bool,
    /// MSN of the next Send.
    pub send_msn: u32,
    /// MSN of the next Read or Atomic Request.
    pub request_msn: u32,
    /// The Request or Reply of the target.
    pub frame: Option<StartFrame>,
    /// The offer of the target.
    pub offer: Option<Offer>,
    /// The checked traffic of the target.
    pub inbound: Inbound,
}

impl Conn {
    /// Takes over a stream on which nothing has been sent.
    ///
    /// # Errors
    ///
    /// If the socket does not accept its options.
    pub fn new(
        stream: impl Into<Stream>,
        log: Log,
        limits: Limits,
        initiator: bool,
    ) -> io::Result<Self> {
        let mut stream = stream.into();
        stream.prepare(limits.answer)?;
        Ok(Self {
            stream,
            log,
            limits,
            buffer: Vec::new(),
            end: None,
            target_is_initiator: initiator,
            crc: false,
            markers_out: None,
            markers_in: None,
            owed: None,
            begun: false,
            send_msn: 1,
            request_msn: 1,
            frame: None,
            offer: None,
            inbound: Inbound::default(),
        })
    }

    /// The time limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Begins full operation, with the results of both frames.
    pub fn enter(&mut self, crc: bool, markers_out: bool, markers_in: bool) {
        self.crc = crc;
        self.markers_out = markers_out.then(Markers::default);
        self.markers_in = markers_in.then(Markers::default);
    }

    // ---- out

    /// Sends octets as they are. If the target has closed, that is no error here, because a read will show it.
    ///
    /// # Errors
    ///
    /// A failure, if the target takes nothing for too long.
    pub fn send_octets(&mut self, octets: &[u8]) -> Step {
        self.owed = None;
        self.log
            .note(format!("suite  {:>6}: {}", octets.len(), hex(octets, 96)));
        match self.stream.write_all(octets) {
            Ok(()) => Ok(()),
            Err(error) if is_time(&error) => Err(fail(
                "the target reads what is sent to it",
                "it took nothing for too long",
            )),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Stop::Broken(format!("the system refuses to send: {error}")))
            }
            // The target may have ended the connection, and what it sent before says more.
            Err(error) => {
                self.log.note(format!("suite  cannot send: {error}"));
                Ok(())
            }
        }
    }

    /// The octets of an FPDU at this place of the stream.
    pub fn encode(&mut self, fpdu: &Fpdu) -> Vec<u8> {
        self.begun = true;
        fpdu.encode(self.markers_out.as_mut())
    }

    /// Sends an FPDU.
    ///
    /// # Errors
    ///
    /// As [`Conn::send_octets`].
    pub fn send_fpdu(&mut self, fpdu: &Fpdu) -> Step {
        let octets = self.encode(fpdu);
        self.send_octets(&octets)
    }

    /// Sends a segment in a legal FPDU.
    ///
    /// # Errors
    ///
    /// As [`Conn::send_octets`].
    pub fn send(&mut self, segment: &Segment) -> Step {
        self.send_fpdu(&Fpdu::new(segment.encode()))
    }

    /// Sends several segments in one piece.
    ///
    /// # Errors
    ///
    /// As [`Conn::send_octets`].
    pub fn send_all(&mut self, segments: &[Segment]) -> Step {
        let mut octets = Vec::new();
        for segment in segments {
            octets.extend(self.encode(&Fpdu::new(segment.encode())));
        }
        self.send_octets(&octets)
    }

    /// Returns true if an FPDU was sent. It was a legal one, unless the check began with something else.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// The MSN for the next Send.
    pub fn next_send(&mut self) -> u32 {
        self.send_msn += 1;
        self.send_msn - 1
    }

    /// The MSN for the next Read or Atomic Request.
    pub fn next_request(&mut self) -> u32 {
        self.request_msn += 1;
        self.request_msn - 1
    }

    /// Ends this side's half of the stream.
    pub fn finish(&mut self) {
        self.log.note("suite  FIN".to_owned());
        self.stream.finish();
    }

    /// Ends both halves by a reset.
    pub fn reset(mut self) {
        self.owed = None;
        self.log.note("suite  RST".to_owned());
        self.stream.reset();
    }

    // ---- in

    /// Reads until this many octets are there.
    fn fill(&mut self, need: usize, deadline: Instant) -> Step<Option<Seen<()>>> {
        let mut piece = [0; 16 * 1024];
        while self.buffer.len() < need {
            if let Some(end) = self.end {
                return Ok(Some(Seen::End(end, self.buffer.len())));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(Seen::Nothing));
            }
            match self.stream.read(&mut piece, left) {
                Ok(0) => self.ended(End::Fin),
                Ok(count) => self.buffer.extend(&piece[..count]),
                Err(error) if is_time(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.ended(End::Reset),
            }
        }
        Ok(None)
    }

    fn ended(&mut self, end: End) {
        if !self.buffer.is_empty() {
            let rest = hex(&self.buffer, 96);
            self.log.note(format!(
                "target {:>6}: {rest} and no more",
                self.buffer.len()
            ));
        }
        self.log.note(format!("target {end:?}"));
        self.end = Some(end);
    }

    /// The next octets, whatever they are, as many as come at once.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub fn octets(&mut self, limit: Duration) -> Step<Seen<Vec<u8>>> {
        Ok(match self.fill(1, Instant::now() + limit)? {
            None => {
                let octets = std::mem::take(&mut self.buffer);
                self.log
                    .note(format!("target {:>6}: {}", octets.len(), hex(&octets, 96)));
                Seen::It(octets)
            }
            Some(Seen::End(end, count)) => Seen::End(end, count),
            Some(_) => Seen::Nothing,
        })
    }

    /// A whole Request or Reply.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub fn start_frame(&mut self, limit: Duration) -> Step<Seen<StartFrame>> {
        let deadline = Instant::now() + limit;
        let mut need = StartFrame::HEADER;
        loop {
            match self.fill(need, deadline)? {
                Some(Seen::End(end, count)) => return Ok(Seen::End(end, count)),
                Some(_) => return Ok(Seen::Nothing),
                None => {}
            }
            let Some(header) = self.buffer.first_chunk::<{ StartFrame::HEADER }>() else {
                continue;
            };
            let announced = StartFrame::announced(header).min(512);
            if need == StartFrame::HEADER && announced > 0 {
                need += announced;
                continue;
            }
            let frame = StartFrame::decode(header, &self.buffer[StartFrame::HEADER..need]);
            self.take(need);
            return Ok(Seen::It(frame));
        }
    }

    /// Takes octets off the front of the buffer.
    fn take(&mut self, count: usize) -> Vec<u8> {
        let octets: Vec<u8> = self.buffer.drain(..count).collect();
        self.log
            .note(format!("target {count:>6}: {}", hex(&octets, 96)));
        octets
    }

    /// The next DDP segment.
    ///
    /// # Errors
    ///
    /// A failure, if something other than an FPDU with a DDP segment comes.
    pub fn segment(&mut self, limit: Duration) -> Step<Seen<Segment>> {
        let deadline = Instant::now() + limit;
        let marker = if self.markers_in.is_some_and(|m| m.due()) {
            4
        } else {
            0
        };
        match self.fill(marker + 4, deadline)? {
            Some(Seen::End(end, count)) => return Ok(Seen::End(end, count)),
            Some(_) => return Ok(Seen::Nothing),
            None => {}
        }
        let length = u16::from_be_bytes([self.buffer[marker], self.buffer[marker + 1]]);
        let extent = extent(self.markers_in, usize::from(length));
        match self.fill(extent, deadline)? {
            Some(Seen::End(end, count)) => return Ok(Seen::End(end, count)),
            Some(_) => return Ok(Seen::Nothing),
            None => {}
        }
        let octets = self.take(extent);
        let (crc, initiator) = (self.crc, self.target_is_initiator);
        let ulpdu = self
            .inbound
            .fpdu(&octets, usize::from(length), crc, self.markers_in.as_mut());
        let Some(segment) = Segment::decode(&ulpdu) else {
            return Err(fail(
                "an FPDU with a DDP segment in it",
                format!("a ULPDU of {length} octets: {}", hex(&ulpdu, 32)),
            ));
        };
        self.log
            .note(format!("              {}", segment.describe()));
        self.inbound.segment(&segment, initiator);
        Ok(Seen::It(segment))
    }

    /// The faults in what the target has sent so far, by row.
    pub fn faults(&self) -> &[Fault] {
        &self.inbound.faults
    }

    /// The next segment. Anything else is a failure.
    ///
    /// # Errors
    ///
    /// A failure that says what came instead.
    pub fn expect_segment(&mut self, expected: &str) -> Step<Segment> {
        match self.segment(self.limits.answer)? {
            Seen::It(segment) => Ok(segment),
            other => Err(fail(expected, describe(&other, self.limits.answer))),
        }
    }

    /// Checks that nothing comes for a while.
    ///
    /// # Errors
    ///
    /// A failure, if something comes or the stream ends.
    pub fn expect_quiet(&mut self, expected: &str) -> Step {
        match self.octets(self.limits.quiet)? {
            Seen::Nothing => Ok(()),
            Seen::It(octets) => Err(fail(
                expected,
                format!("{} octets: {}", octets.len(), hex(&octets, 48)),
            )),
            Seen::End(end, _) => Err(fail(expected, format!("the end of the stream ({end:?})"))),
        }
    }

    /// Checks that the target ends its half without another octet.
    ///
    /// # Errors
    ///
    /// A failure, if octets come, or nothing comes.
    pub fn expect_end(&mut self, expected: &str, limit: Duration) -> Step<End> {
        match self.octets(limit)? {
            Seen::End(end, 0) => Ok(end),
            Seen::End(_, _) => Err(fail(expected, "the end in the middle of a frame")),
            Seen::It(octets) => Err(fail(
                expected,
                format!("{} octets: {}", octets.len(), hex(&octets, 48)),
            )),
            Seen::Nothing => Err(fail(expected, format!("nothing for {limit:?}"))),
        }
    }
}

impl Drop for Conn {
    /// A check that has seen enough of a Reply still finishes the start-up, because fragile targets break if they are left
    /// in the middle of it.
    fn drop(&mut self) {
        if let Some(ready) = self.owed.take() {
            // The check already has its verdict, so an error changes nothing.
            let _ = self.send(&ready);
            self.stream.finish();
        }
    }
}

/// Describes what arrived.
pub(crate) fn describe<T>(seen: &Seen<T>, limit: Duration) -> String {
    match seen {
        Seen::It(_) => "something".to_owned(),
        Seen::End(End::Fin, 0) => "the end of the stream (FIN)".to_owned(),
        Seen::End(End::Reset, 0) => "a reset".to_owned(),
        Seen::End(end, count) => {
            let mut text = format!("the end of the stream ({end:?})");
            // Writing to a String cannot fail.
            let _ = write!(text, " after {count} octets of a frame");
            text
        }
        Seen::Nothing => format!("nothing for {limit:?}"),
    }
}

fn is_time(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Octets of stream that an FPDU takes from here on, markers included.
fn extent(markers: Option<Markers>, ulpdu: usize) -> usize {
    let body = 2 + ulpdu + pad_length(ulpdu) + 4;
    let Some(mut markers) = markers else {
        return body;
    };
    let mut extent = 0;
    for _ in 0..body / 4 {
        if markers.due() {
            extent += 4;
            markers.position = markers.position.wrapping_add(4);
        }
        extent += 4;
        markers.position = markers.position.wrapping_add(4);
    }
    extent
}
