//! Two connections joined by two byte streams.

use std::time::{Duration, Instant};

use super::VecMemory;
use crate::conn::{
    Completion, Confirmations, Connection, CopiedPayload, Event, Fault, InitiatorWqe, Markers,
    Operation, OwnQueue, Payload, PieceRef, PostError, QueueSizes, Ready, ReceiveSource,
    RequestKind, Role, StreamConfig, StreamEnd, TxBatch, TxLimit,
};
use crate::memory::{Memory, MessageEnd, Revoked, Scope};
use crate::mpa::fpdu::{self, Fpdu};
use crate::mpa::marker;
use crate::rdmap::Terminate;
use crate::types::{Pd, ReadLimits, StreamId};

/// Queue sizes that are enough for most tests.
pub(crate) const SIZES: QueueSizes = QueueSizes {
    initiator_depth: 16,
    receive_depth: 16,
    initiator_sges: 3,
    receive_sges: 3,
    read_sges: 3,
    inline: 64,
    max_transfer: 1 << 20,
};

/// A stream with CRC, read limits of 4 and a ready-to-receive Write.
pub(crate) const fn stream(role: Role) -> StreamConfig {
    StreamConfig {
        role,
        crc: true,
        markers: Markers::NONE,
        limits: ReadLimits { ird: 4, ord: 4 },
        ready: Some(Ready::Write),
        recognition: crate::Recognition::Never,
        receive_wait: Duration::ZERO,
        copied: CopiedPayload::None,
        copied_below: 4096,
        confirmations: Confirmations::Off,
        early: 40,
    }
}

/// The behaviour of the transport between the ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knobs {
    /// Most octets the transport takes at a time.
    pub(crate) write: usize,
    /// Most octets that arrive at a time.
    pub(crate) read: usize,
    /// The limit for one `poll_transmit`.
    pub(crate) limit: TxLimit,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            write: usize::MAX,
            read: usize::MAX,
            limit: TxLimit {
                octets: 1 << 20,
                fpdus: 64,
                mulpdu: 1442,
            },
        }
    }
}

/// One end: a connection and what its owner keeps for it.
#[derive(Debug)]
pub(crate) struct End {
    /// The connection.
    pub(crate) conn: Connection,
    /// Its memory.
    pub(crate) mem: VecMemory,
    /// FPDUs on their way out.
    pub(crate) batch: TxBatch,
    /// All events so far.
    pub(crate) events: Vec<Event>,
    /// All octets the transport took.
    pub(crate) sent: Vec<u8>,
    /// Octets that have arrived and were not consumed.
    pub(crate) staging: Vec<u8>,
    /// Octets are read past a Send that waits for a Receive.
    pub(crate) passes: bool,
    /// Octets on their way to this end.
    inbox: Vec<u8>,
    /// Whether the last octets were read straight to their place.
    landed: bool,
    peer_ended: Option<StreamEnd>,
    ended: bool,
    closed: bool,
}

impl End {
    /// A connection of protection domain 1 and stream 1.
    pub(crate) fn new(sizes: QueueSizes) -> Self {
        let scope = Scope {
            pd: Pd(1),
            stream: StreamId(1),
        };
        Self::with(Connection::new(sizes, scope).expect("memory for small queues"))
    }

    /// An end around a connection.
    pub(crate) fn with(conn: Connection) -> Self {
        Self {
            conn,
            mem: VecMemory::new(),
            batch: TxBatch::with_capacity(1 << 18, 64),
            events: Vec::new(),
            sent: Vec::new(),
            staging: Vec::new(),
            passes: false,
            inbox: Vec::new(),
            landed: false,
            peer_ended: None,
            ended: false,
            closed: false,
        }
    }

    /// Posts an initiator request that is neither silent nor fenced.
    ///
    /// # Errors
    ///
    /// As [`Connection::post_initiator`].
    pub(crate) fn post(
        &mut self,
        context: u64,
        operation: Operation<Payload<'_>>,
    ) -> Result<(), PostError> {
        self.conn.post_initiator(InitiatorWqe {
            context,
            operation,
            silent: false,
            fence: false,
        })
    }

    /// Makes FPDUs and gives the transport at most `knobs.write` octets of them. Returns these octets.
    pub(crate) fn transmit(&mut self, knobs: &Knobs) -> Vec<u8> {
        self.conn
            .poll_transmit(&self.mem, knobs.limit, &mut self.batch);
        let mut octets = Vec::new();
        let mut whole = 0;
        let mut revoked = false;
        for (piece, ends) in self.batch.pieces() {
            match piece {
                PieceRef::Bytes(bytes) => octets.extend_from_slice(bytes),
                PieceRef::Payload(span) => {
                    let start = octets.len();
                    octets.resize(start + span.len() as usize, 0);
                    if self.mem.fetch(span, &mut octets[start..], None).is_err() {
                        revoked = true;
                        break;
                    }
                }
            }
            if ends {
                whole = octets.len();
            }
        }
        if revoked {
            octets.truncate(whole);
        }
        octets.truncate(knobs.write);
        self.take(&octets);
        // The octets before the revoked memory are sent first, the rest is returned.
        if revoked && octets.len() == whole {
            self.batch.revoke();
            self.conn.handle_transmitted(&mut self.batch);
        }
        octets
    }

    /// The transport took these octets.
    fn take(&mut self, octets: &[u8]) {
        self.batch.advance(octets.len() as u64);
        let mem = &self.mem;
        self.batch
            .make_head_private(|span, to| mem.fetch(span, to, None))
            .expect("nothing was revoked between the two calls");
        self.sent.extend_from_slice(octets);
        self.conn.handle_transmitted(&mut self.batch);
    }

    /// Octets arrive. In turns they are read straight to their place, if it is known already, or passed to the connection.
    pub(crate) fn receive(&mut self, octets: &[u8]) {
        self.receive_with(octets, OwnQueue);
    }

    /// Like [`End::receive`], with a source of Receives in addition to the connection's own queue.
    pub(crate) fn receive_with(&mut self, octets: &[u8], receives: impl ReceiveSource) {
        let octets = self.land(octets);
        self.staging.extend_from_slice(octets);
        let (input, mem) = (&self.staging[..], &self.mem);
        let taken = match self.passes {
            true => self.conn.handle_kept(u64::MAX, input, mem, receives),
            false => self.conn.handle_bytes(input, mem, receives),
        };
        self.staging.drain(..taken);
        if self.passes {
            self.conn.handle_ahead(&self.staging, &self.mem);
        }
        self.collect();
    }

    /// Reads octets straight to their place, as far as it is known. Returns the rest.
    fn land<'a>(&mut self, octets: &'a [u8]) -> &'a [u8] {
        let direct = self
            .conn
            .direct_placement()
            .filter(|_| self.staging.is_empty() && !octets.is_empty());
        self.landed = !self.landed && direct.is_some();
        let Some(direct) = direct.filter(|_| self.landed) else {
            return octets;
        };
        let place = direct.place();
        let len = place
            .len()
            .min(u32::try_from(octets.len()).unwrap_or(u32::MAX));
        let (here, rest) = octets.split_at(len as usize);
        if self.mem.place(place.slice(0, len), here, MessageEnd::More) == Err(Revoked) {
            return octets;
        }
        direct.placed(len);
        rest
    }

    /// Fetches all events. The client takes each completion at once.
    pub(crate) fn collect(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
            if let Event::Completed(completion) = event {
                self.taken(completion.kind);
            }
        }
    }

    /// The client has taken the completion of a request of this kind.
    pub(crate) fn taken(&mut self, kind: RequestKind) {
        match kind {
            RequestKind::Receive => self.conn.free_receive_slots(1),
            _ => self.conn.free_initiator_slots(1),
        }
    }

    /// Disconnects and drops what had not been begun.
    pub(crate) fn disconnect(&mut self) {
        self.conn.disconnect();
        self.batch.keep_cut_only();
        self.conn.handle_transmitted(&mut self.batch);
    }

    /// All completions so far, in order.
    pub(crate) fn completions(&self) -> Vec<Completion> {
        let completed = |event: &Event| match event {
            Event::Completed(completion) => Some(*completion),
            _ => None,
        };
        self.events.iter().filter_map(completed).collect()
    }

    /// The fault this end found.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.events.iter().find_map(|event| match event {
            Event::Fault(fault) => Some(*fault),
            _ => None,
        })
    }

    /// The Terminate this end got.
    pub(crate) fn terminated(&self) -> Option<Terminate> {
        self.events.iter().find_map(|event| match event {
            Event::Terminated(terminate) => Some(*terminate),
            _ => None,
        })
    }
}

/// Two ends; `a` is the Initiator by default.
#[derive(Debug)]
pub(crate) struct Pair {
    /// One end.
    pub(crate) a: End,
    /// The other.
    pub(crate) b: End,
    /// The virtual clock.
    pub(crate) now: Instant,
    /// How the transport behaves.
    pub(crate) knobs: Knobs,
}

impl Pair {
    /// Two connections in full operation, the ready-to-receive message not yet sent.
    pub(crate) fn new(knobs: Knobs) -> Self {
        Self::with(stream(Role::Initiator), stream(Role::Responder), knobs)
    }

    /// As [`Pair::new`] with other configurations.
    pub(crate) fn with(a: StreamConfig, b: StreamConfig, knobs: Knobs) -> Self {
        let mut pair = Self {
            a: End::new(SIZES),
            b: End::new(SIZES),
            now: Instant::now(),
            knobs,
        };
        pair.a.conn.start(a);
        pair.b.conn.start(b);
        pair
    }

    /// As [`Pair::new`], the ready-to-receive message sent and handled.
    pub(crate) fn ready(knobs: Knobs) -> Self {
        let mut pair = Self::new(knobs);
        pair.a.conn.send_ready();
        pair.run();
        pair
    }

    /// One turn of both ends; false when nothing moved.
    pub(crate) fn step(&mut self) -> bool {
        let knobs = self.knobs;
        let moved = half(&mut self.a, &mut self.b, &knobs);
        half(&mut self.b, &mut self.a, &knobs) || moved
    }

    /// Turns until nothing moves.
    ///
    /// # Panics
    ///
    /// If that does not happen.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the pair does not come to rest");
    }

    /// Advances the clock.
    pub(crate) fn advance(&mut self, by: Duration) {
        let before = self.now;
        self.now += by;
        for end in [&mut self.a, &mut self.b] {
            if end
                .conn
                .poll_timeout(before)
                .is_some_and(|timeout| timeout <= self.now)
            {
                end.conn.handle_timeout(self.now);
            }
            end.collect();
        }
    }
}

/// Moves what `from` has to send, and delivers some of what is on its way to `to`.
fn half(from: &mut End, to: &mut End, knobs: &Knobs) -> bool {
    let events = (from.events.len(), to.events.len());
    let octets = from.transmit(knobs);
    from.collect();
    to.inbox.extend_from_slice(&octets);
    if from.conn.write_side_done() && from.batch.is_empty() && !from.closed {
        from.closed = true;
        to.peer_ended = Some(StreamEnd::Fin);
    }
    let mut moved = !octets.is_empty();
    let stalled = to.conn.is_stalled() && !to.passes;
    if !stalled && (!to.inbox.is_empty() || !to.staging.is_empty()) {
        let before = to.staging.len() + to.inbox.len();
        let len = to.inbox.len().min(knobs.read);
        let arrived: Vec<u8> = to.inbox.drain(..len).collect();
        to.receive(&arrived);
        moved |= !arrived.is_empty() || to.staging.len() + to.inbox.len() != before;
    }
    if let Some(end) = to.peer_ended
        && to.inbox.is_empty()
        && !to.ended
        && (to.passes || !to.conn.is_stalled())
    {
        to.ended = true;
        to.conn.handle_stream_end(end, to.staging.len());
        moved = true;
    }
    to.collect();
    moved || events != (from.events.len(), to.events.len())
}

/// Cuts a stream of whole FPDUs into its ULPDUs.
///
/// # Panics
///
/// When a CRC is wrong or the last FPDU is cut.
pub(crate) fn frames(mut stream: &[u8], crc: bool) -> Vec<Vec<u8>> {
    let mut ulpdus = Vec::new();
    while !stream.is_empty() {
        match fpdu::parse(stream, crc).expect("good CRCs") {
            Fpdu::Complete { ulpdu, consumed } => {
                ulpdus.push(ulpdu.to_vec());
                stream = &stream[consumed..];
            }
            Fpdu::Incomplete { .. } => panic!("a cut FPDU"),
        }
    }
    ulpdus
}

/// As [`frames`], of a stream with markers that begins at `position`.
///
/// # Panics
///
/// When a CRC or a marker is wrong or the last FPDU is cut.
pub(crate) fn marked_frames(mut stream: &[u8], crc: bool, mut position: u64) -> Vec<Vec<u8>> {
    let mut ulpdus = Vec::new();
    let mut unmarked = Vec::new();
    while !stream.is_empty() {
        match marker::parse(stream, crc, position, &mut unmarked).expect("good CRCs and markers") {
            Fpdu::Complete { ulpdu, consumed } => {
                ulpdus.push(ulpdu.to_vec());
                stream = &stream[consumed..];
                position += consumed as u64;
            }
            Fpdu::Incomplete { .. } => panic!("a cut FPDU"),
        }
    }
    ulpdus
}
