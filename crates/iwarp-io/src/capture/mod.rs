//! Capture: what an adapter sends and receives, as a pcapng file that Wireshark dissects.
//!
//! No privilege is needed, because nothing is sniffed: the adapter hands over the octets of its streams, and this
//! module wraps them into Ethernet, IP and TCP headers that it makes. Addresses, ports, octets, their order and the
//! times are the real ones; sequence numbers, windows, acknowledgements and the cut into segments are synthesized.
//!
//! Each captured segment holds one start-up frame or FPDU (RFC 5044 §4.4, §7.1), as if the sender kept FPDUs aligned to segments (RFC 5044
//! §5.1). The stream is not cut where the socket calls cut it, because their cuts say nothing about the wire, and because a dissector's
//! heuristic overlooks an FPDU of which fewer than 20 octets begin a segment. Octets of an incomplete FPDU are held back until the rest of
//! the FPDU arrives, or until the stream ends. A marker between two FPDUs belongs to the second. A stream that is not MPA is written as it
//! arrives.
//!
//! Capturing costs a copy of all octets, and a lock for the whole file. An adapter without capture has no [`Flow`] and pays
//! nothing.

mod options;
mod packet_headers;
mod pcapng;
mod sent_by;
mod splitter;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;

use crate::simulation::World;
use packet_headers::{Ends, Flags, Header};
use pcapng::Sink;
use splitter::Splitter;

pub use options::CaptureOptions;
pub use sent_by::SentBy;

/// The side that opened the TCP connection of a [`Flow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRole {
    /// This side connected: the Initiator of RFC 5044.
    Active,
    /// This side accepted: the Responder of RFC 5044.
    Passive,
}

/// A pcapng file (or any writer) that takes the frames of any number of [`Flow`]s.
///
/// A `Capture` is cheap to clone. All clones write to the same file, from any thread. The file grows by whole blocks, so
/// that it can be read while it is being written. Everything captured so far is in the file after [`flush`](Self::flush),
/// after the end of a flow, and when the last clone and the last flow are gone.
///
/// A failing writer never disturbs the streams. The first error ends the capture, and every later `flush` returns this
/// error. A capture also ends at its limit ([`CaptureOptions`]), which is no error.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use iwarp_io::capture::{Capture, FlowRole, SentBy};
///
/// let capture = Capture::to_writer(std::io::sink())?;
/// let flow = capture.flow(([127, 0, 0, 1], 40000).into(), ([127, 0, 0, 1], 7174).into(), FlowRole::Active);
/// flow.opened();
/// flow.sent(&[b"MPA ID Req Frame", &[0x40, 1, 0, 0]]);
/// flow.closed(SentBy::Local);
/// capture.flush()
/// # }
/// ```
#[derive(Clone)]
pub struct Capture {
    shared: Arc<Shared>,
}

struct Shared {
    sink: Mutex<Sink>,
    clock: Clock,
    flows: AtomicU32,
    options: CaptureOptions,
}

/// Time of day that never runs backwards, because Wireshark would show negative differences otherwise.
struct Clock {
    /// Nanoseconds since 1970 at `started`.
    origin: u64,
    started: Instant,
}

impl Clock {
    fn start() -> Self {
        let origin = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            origin: u64::try_from(origin.as_nanos()).unwrap_or(u64::MAX),
            started: Instant::now(),
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.origin
            .saturating_add(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Capture {
    /// Creates the file, or empties an existing one, and writes the pcapng section header. The file takes 1 GiB;
    /// [`CaptureOptions::create`] has other limits.
    ///
    /// A capture has in plain text what connections encrypt, so the file has mode 0600, an existing one too.
    ///
    /// # Errors
    /// The error of creating or writing the file. [`PermissionDenied`](io::ErrorKind::PermissionDenied) also for what others could read, or
    /// have made: a link to a file, a link of another user, a file or pipe of another user, a file with several names. Pipes and terminals of
    /// this user are allowed, as well as null devices and the standard streams, also by a link such as `/dev/stdout`.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        CaptureOptions::default().create(path)
    }

    /// Captures into `writer`, which gets whole pcapng blocks, beginning with the section header, without a limit.
    ///
    /// The writer does not need to buffer.
    ///
    /// # Errors
    /// The error of writing the section header.
    pub fn to_writer(writer: impl io::Write + Send + 'static) -> io::Result<Self> {
        let sink = Sink::new(Box::new(writer), u64::MAX)?;
        Ok(Self::with_sink(sink, CaptureOptions::default()))
    }

    fn with_sink(sink: Sink, options: CaptureOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                sink: Mutex::new(sink),
                clock: Clock::start(),
                flows: AtomicU32::new(0),
                options,
            }),
        }
    }

    /// Begins to capture one TCP connection. Nothing is written before [`Flow::opened`] or the first octets.
    #[doc(hidden)]
    pub fn flow(&self, local: SocketAddr, peer: SocketAddr, role: FlowRole) -> Flow {
        // Initial sequence numbers differ from flow to flow, so that Wireshark can distinguish two connections between the same ports. The
        // factor is odd, so a number returns only after 2^32 flows.
        let serial = self.shared.flows.fetch_add(1, Ordering::Relaxed);
        let first = serial.wrapping_mul(0x9E37_79B1).wrapping_add(0x1000_0000);
        Flow {
            shared: Arc::clone(&self.shared),
            ends: Ends::new(local, peer),
            role,
            world: None,
            state: Mutex::new(State {
                phase: FlowPhase::New,
                local: FlowDirection::starting_at(first),
                peer: FlowDirection::starting_at(first ^ 0x5555_5555),
            }),
        }
    }

    /// Passes everything captured so far to the writer.
    ///
    /// # Errors
    /// The first error of the writer; nothing was written after it.
    pub fn flush(&self) -> io::Result<()> {
        self.shared.sink.lock().flush()
    }
}

impl CaptureOptions {
    /// Creates the file or files, as [`Capture::create`] does. With several files, their names have a number before the extension, from 1 on:
    /// `adapter-1.pcapng`.
    ///
    /// # Errors
    /// Those of [`Capture::create`]. [`InvalidInput`](io::ErrorKind::InvalidInput) for too small a limit, no or too many files, and for several
    /// files where `path` leads to a pipe, a device or a link.
    pub fn create(self, path: impl AsRef<Path>) -> io::Result<Capture> {
        let sink = self.open(path.as_ref())?;
        Ok(Capture::with_sink(sink, self))
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = self.shared.flows.load(Ordering::Relaxed);
        f.debug_struct("Capture")
            .field("flows", &flows)
            .finish_non_exhaustive()
    }
}

/// One TCP connection in a [`Capture`].
///
/// The methods only record, and never fail. Calls that TCP rules out (octets of a side that has sent its FIN, anything
/// after a reset) record nothing. Dropping a flow writes the octets of an incomplete FPDU that were held back, but no FIN,
/// so that the capture shows a connection without an end.
pub struct Flow {
    shared: Arc<Shared>,
    ends: Ends,
    role: FlowRole,
    /// The simulated world whose clock gives the times of this flow.
    world: Option<World>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlowPhase {
    New,
    Open,
    Reset,
}

struct State {
    phase: FlowPhase,
    local: FlowDirection,
    peer: FlowDirection,
}

/// One direction of the stream.
struct FlowDirection {
    /// Sequence number of the next octet.
    next: u32,
    /// The acknowledgement number this side sent last.
    acknowledged: u32,
    /// Frames of this side so far: the IP identification.
    frames: u16,
    closed: bool,
    cutter: Splitter,
}

/// How far the other side's acknowledgements may lag before a segment is written for the acknowledgement alone. This is far
/// below the window that the synthesized headers announce, so that the dissector does not call the window full.
const ACKNOWLEDGE_EVERY: u32 = 256 << 10;

impl FlowDirection {
    fn starting_at(next: u32) -> Self {
        Self {
            next,
            acknowledged: 0,
            frames: 0,
            closed: false,
            cutter: Splitter::new(),
        }
    }
}

impl State {
    fn half(&mut self, side: SentBy) -> &mut FlowDirection {
        match side {
            SentBy::Local => &mut self.local,
            SentBy::Peer => &mut self.peer,
        }
    }
}

/// The time in a simulated world, which begins with the year 2000.
fn nanoseconds_in(world: &World) -> u64 {
    const BEGIN: u64 = 946_684_800_000_000_000;
    BEGIN.saturating_add(u64::try_from(world.time().as_nanos()).unwrap_or(u64::MAX))
}

impl Flow {
    /// Takes the times of this flow from the clock of a simulated world.
    #[must_use]
    pub fn in_world(mut self, world: World) -> Self {
        self.world = Some(world);
        self
    }

    /// Records that the TCP connection is established: writes the three frames of the handshake.
    ///
    /// A second call does nothing; the other methods imply the first.
    pub fn opened(&self) {
        self.open(&mut self.state.lock());
    }

    /// Records octets that the socket accepted, in this order.
    pub fn sent(&self, octets: &[&[u8]]) {
        self.record(SentBy::Local, octets);
    }

    /// Records octets that were read from the socket.
    pub fn received(&self, octets: &[u8]) {
        self.record(SentBy::Peer, &[octets]);
    }

    /// Records that `by` has closed its direction: a FIN, and the other side's acknowledgement.
    pub fn closed(&self, by: SentBy) {
        let state = &mut *self.state.lock();
        self.open(state);
        if state.phase == FlowPhase::Reset || state.half(by).closed {
            return;
        }
        self.release(state, by);
        self.segment(state, by, Flags::FIN, &[]);
        state.half(by).closed = true;
        self.segment(state, by.other(), Flags::ACK, &[]);
        self.write_through();
    }

    /// Records that `by` has reset the connection: an RST, the last frame of this flow.
    pub fn reset(&self, by: SentBy) {
        let state = &mut *self.state.lock();
        self.open(state);
        if state.phase == FlowPhase::Reset {
            return;
        }
        self.release(state, by.other());
        self.release(state, by);
        self.segment(state, by, Flags::RST, &[]);
        state.phase = FlowPhase::Reset;
        self.write_through();
    }

    fn open(&self, state: &mut State) {
        if state.phase != FlowPhase::New {
            return;
        }
        state.phase = FlowPhase::Open;
        let opener = match self.role {
            FlowRole::Active => SentBy::Local,
            FlowRole::Passive => SentBy::Peer,
        };
        self.segment(state, opener, Flags::SYN, &[]);
        self.segment(state, opener.other(), Flags::SYN_ACK, &[]);
        self.segment(state, opener, Flags::ACK, &[]);
    }

    fn record(&self, side: SentBy, octets: &[&[u8]]) {
        let state = &mut *self.state.lock();
        self.open(state);
        if state.phase == FlowPhase::Reset || state.half(side).closed {
            return;
        }
        // Taken out, because writing a segment needs the whole state.
        let mut cutter = std::mem::take(&mut state.half(side).cutter);
        for piece in octets {
            cutter.push(piece);
        }
        while let Some(unit) = cutter.next_unit() {
            self.unit(state, side, unit);
        }
        if cutter.asks_for_markers() {
            state.half(side.other()).cutter.expect_markers();
        }
        state.half(side).cutter = cutter;
    }

    /// Writes the octets of an incomplete frame that are held back, because no more octets will follow.
    fn release(&self, state: &mut State, side: SentBy) {
        let mut cutter = std::mem::take(&mut state.half(side).cutter);
        cutter.give_up();
        while let Some(unit) = cutter.next_unit() {
            self.unit(state, side, unit);
        }
        state.half(side).cutter = cutter;
    }

    fn unit(&self, state: &mut State, side: SentBy, octets: &[u8]) {
        for payload in octets.chunks(self.ends.max_payload()) {
            self.segment(state, side, Flags::PSH_ACK, payload);
            let sent = state.half(side).next;
            if sent.wrapping_sub(state.half(side.other()).acknowledged) >= ACKNOWLEDGE_EVERY {
                self.segment(state, side.other(), Flags::ACK, &[]);
            }
        }
    }

    fn segment(&self, state: &mut State, side: SentBy, flags: Flags, payload: &[u8]) {
        let acknowledgement = if flags == Flags::SYN {
            0
        } else {
            state.half(side.other()).next
        };
        let half = state.half(side);
        let header = Header {
            side,
            flags,
            sequence: half.next,
            acknowledgement,
            identification: half.frames,
        };
        half.frames = half.frames.wrapping_add(1);
        half.acknowledged = acknowledgement;
        let length = u32::try_from(payload.len()).expect("a segment is shorter than 64 KiB");
        half.next = half.next.wrapping_add(length).wrapping_add(flags.length());

        let mut sink = self.shared.sink.lock();
        // The clock is read under the lock, so that blocks and their times have the same order.
        let now = match &self.world {
            Some(world) => nanoseconds_in(world),
            None => self.shared.clock.nanoseconds(),
        };
        let is_first_left_out = sink.packet(now, side, |block| {
            packet_headers::write(block, &self.ends, &header, payload)
        });
        drop(sink);
        if is_first_left_out {
            self.shared.options.say_full();
        }
    }

    /// Spends a system call at the end of a flow, so that the next reader of the file sees this end.
    fn write_through(&self) {
        // The sink keeps the error, and `Capture::flush` returns it.
        let _ = self.shared.sink.lock().flush();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let state = &mut *self.state.lock();
        if state.phase == FlowPhase::Open {
            self.release(state, SentBy::Local);
            self.release(state, SentBy::Peer);
        }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("ends", &self.ends)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
