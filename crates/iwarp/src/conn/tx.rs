//! The outbound half: what is sent next, and how far the transport has come. `send` makes the FPDUs.
//!
//! Messages go out in the order they were posted (DDP-045, RDMAP-022, RDMAP-069, RDMAP-098), answers in that of their
//! requests (RDMAP-101), and are never interleaved (PEER-028, OPEN-10); own messages and answers take turns, so that
//! neither starves the other (SEC-037). Nothing else has a place in the stream (RDMAP-013).

use std::collections::VecDeque;

use super::Connection;
use super::batch::{TxBatch, TxLimit};
use super::end::{About, Failing, Phase};
use super::frame::Budget;
use super::work::Operation;
use crate::ddp::{Header, TaggedHeader, UntaggedHeader};
use crate::memory::{Memory, Span};
use crate::mpa::{Ready, fpdu};
use crate::rdmap::{AtomicRequest, ReadRequest, Terminate};
use crate::types::RemoteAddress;

/// Octets of a Read Request: 18 of the DDP header, 28 of its own.
const READ_REQUEST_LEN: u16 = 46;
const _: () = assert!(READ_REQUEST_LEN as usize == UntaggedHeader::LEN + ReadRequest::LEN);

/// Octets of an Atomic Request: 18 of the DDP header, 52 of its own.
const ATOMIC_REQUEST_LEN: u16 = 70;
const _: () = assert!(ATOMIC_REQUEST_LEN as usize == UntaggedHeader::LEN + AtomicRequest::LEN);

/// Writes in a row that one Read confirms at most. A row that fills the initiator queue is confirmed in parts, so that the
/// client can post on while the rest is under way.
const WRITES_CONFIRMED: u32 = 16;

/// State of the outbound half.
#[derive(Debug)]
pub(super) struct Tx {
    /// The ready-to-receive message, until it is made.
    pub(super) ready: Option<Ready>,
    /// It has been asked for.
    ready_asked: bool,
    pub(super) send_msn: u32,
    pub(super) read_msn: u32,
    pub(super) atomic_msn: u32,
    /// How far the request under way has come.
    pub(super) current: Option<Current>,
    /// Its buffers, checked.
    pub(super) spans: Vec<Span>,
    /// Our Reads and Atomics on the wire, in order.
    pub(super) reads: VecDeque<Outbound>,
    /// The peer's Reads and Atomics to answer, in order.
    pub(super) responses: VecDeque<Response>,
    /// How many of them are Atomics.
    atomics: usize,
    /// Which octets of the stream belong to which answer, where they are read in place.
    pub(super) runs: VecDeque<Run>,
    /// Writes made since the last Request whose answer will confirm them.
    pub(super) unconfirmed: u32,
    /// An answer goes before the next own message.
    pub(super) response_turn: bool,
    /// Octets of the stream made, and taken by the transport.
    pub(super) handed: u64,
    pub(super) sent: u64,
    pub(super) failing: Option<Failing>,
    pub(super) terminate: Option<Last>,
    /// Payload is copied, never read in place.
    pub(super) copies: bool,
}

/// The Terminate, and where in the stream it stands once it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    pub(super) terminate: Terminate,
    pub(super) made_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Current {
    /// Octets of the request done.
    pub(super) offset: u32,
    /// The SGE that goes on, and octets of it done.
    pub(super) part: usize,
    pub(super) skip: u32,
}

/// One of our Read or Atomic Requests on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound {
    /// What it is for.
    pub(super) asker: Asker,
    pub(super) sink: RemoteAddress,
    pub(super) span: Option<Span>,
    pub(super) size: u32,
    pub(super) received: u32,
    /// The last one of its request.
    pub(super) last: bool,
    /// An Atomic, of this identifier.
    pub(super) atomic: Option<u32>,
}

/// What a Read or Atomic Request of ours is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// It is the ready-to-receive message.
    Ready,
    /// The request at this position.
    Request(u64),
    /// A Read of no octets: when it is answered, the Writes before this position are placed.
    Confirmation(u64),
}

impl Asker {
    /// The request it belongs to.
    pub(super) const fn request(self) -> Option<u64> {
        match self {
            Self::Request(at) => Some(at),
            Self::Ready | Self::Confirmation(_) => None,
        }
    }
}

/// What the peer asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Read(ReadRequest),
    Atomic(AtomicRequest),
}

/// One Read or Atomic Request of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) header: UntaggedHeader,
    pub(super) asked: Asked,
    pub(super) span: Option<Span>,
    /// It is the peer's ready-to-receive message.
    pub(super) is_ready: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) inbound: Inbound,
    pub(super) made: u32,
}

/// FPDUs of one answer in a row, each with the same payload but perhaps the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) inbound: Inbound,
    /// Where it stands in the stream.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The answer's octets before it, and in each FPDU.
    pub(super) made: u32,
    pub(super) chunk: u32,
}

/// What the next FPDU is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Terminate,
    Ready,
    Response,
    Confirmation,
    Own,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Again,
    /// The limit or the batch is exhausted.
    Full,
}

impl Tx {
    pub(super) fn new(sges: usize, msn: u32, octets: u64) -> Self {
        Self {
            ready: None,
            ready_asked: false,
            send_msn: msn,
            read_msn: msn,
            atomic_msn: msn,
            current: None,
            spans: Vec::with_capacity(sges),
            reads: VecDeque::new(),
            responses: VecDeque::new(),
            atomics: 0,
            runs: VecDeque::new(),
            unconfirmed: 0,
            response_turn: false,
            handed: octets,
            sent: octets,
            failing: None,
            terminate: None,
            copies: true,
        }
    }

    pub(super) const fn queue_ready(&mut self, ready: Ready) {
        if !self.ready_asked {
            self.ready_asked = true;
            self.ready = Some(ready);
        }
    }

    pub(super) const fn queue_terminate(&mut self, terminate: Terminate) {
        self.terminate = Some(Last {
            terminate,
            made_at: None,
        });
    }

    pub(super) const fn drop_terminate(&mut self) {
        self.terminate = None;
    }

    pub(super) const fn terminate_is_due(&self) -> bool {
        matches!(self.terminate, Some(Last { made_at: None, .. }))
    }

    /// Takes a request of the peer, behind those before: they are answered in the order they came (RDMAP-101, RDMAPX-013).
    pub(super) fn answer(&mut self, inbound: Inbound) {
        self.atomics += usize::from(matches!(inbound.asked, Asked::Atomic(_)));
        self.responses.push_back(Response { inbound, made: 0 });
    }

    /// Reads of the peer that count against its limit.
    pub(super) fn reads_to_answer(&self) -> usize {
        // The ready-to-receive message came first of all.
        let ready = self
            .responses
            .front()
            .is_some_and(|response| response.inbound.is_ready);
        self.responses.len() - self.atomics - usize::from(ready)
    }

    /// Atomics of the peer, which count by themselves (RDMAPX-006).
    pub(super) const fn atomics_to_answer(&self) -> usize {
        self.atomics
    }

    /// The oldest answer is made in full.
    pub(super) fn answered(&mut self) {
        let answer = self.responses.pop_front();
        let atomic = answer.is_some_and(|answer| matches!(answer.inbound.asked, Asked::Atomic(_)));
        self.atomics -= usize::from(atomic);
        self.response_turn = false;
    }

    pub(super) fn responses_are_made(&self) -> bool {
        self.responses.is_empty()
    }

    /// Nothing is to be made but the client's requests.
    fn has_only_requests(&self) -> bool {
        self.responses.is_empty() && self.ready.is_none() && self.unconfirmed == 0
    }

    pub(super) fn take_read(&mut self) -> Option<Outbound> {
        self.reads.pop_front()
    }

    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Octets made that the transport has not taken.
    const fn unsent(&self) -> u64 {
        self.handed - self.sent
    }

    /// The transport has taken all that was made.
    pub(super) const fn is_all_sent(&self) -> bool {
        self.handed == self.sent
    }

    /// Nothing is under way, nothing is to be made, all is sent.
    pub(super) fn is_drained(&self) -> bool {
        self.is_all_sent()
            && self.ready.is_none()
            && self.current.is_none()
            && self.responses.is_empty()
            && !self.terminate_is_due()
    }

    /// Our own requests are gone.
    pub(super) fn give_up_requests(&mut self) {
        self.current = None;
        self.failing = None;
        self.spans.clear();
        self.reads.clear();
        self.unconfirmed = 0;
    }

    /// Nothing more is made, but for the Terminate.
    pub(super) fn stop(&mut self) {
        self.give_up_requests();
        self.ready = None;
        self.responses.clear();
        self.atomics = 0;
        self.runs.clear();
    }

    fn take_transmitted(&mut self, octets: u64) -> u64 {
        debug_assert!(octets <= self.unsent(), "more octets than were made");
        let octets = octets.min(self.unsent());
        self.sent += octets;
        while self.runs.front().is_some_and(|run| run.end <= self.sent) {
            self.runs.pop_front();
        }
        octets
    }

    /// The last `octets` of what was made will not be sent.
    pub(super) fn withdraw(&mut self, octets: u64) -> u64 {
        debug_assert!(octets <= self.unsent(), "more octets than were made");
        let octets = octets.min(self.unsent());
        self.handed -= octets;
        if let Some(last) = &mut self.terminate
            && last.made_at.is_some_and(|at| at >= self.handed)
        {
            last.made_at = None; // it still has to go out
        }
        octets
    }

    /// The answer whose FPDU would have been sent next, as a Terminate tells of it (RDMAP-079).
    pub(super) fn response_at_head(&self) -> Option<About> {
        let run = self
            .runs
            .iter()
            .find(|run| (run.start..run.end).contains(&self.sent))?;
        let each = fpdu::fpdu_len(TaggedHeader::LEN + run.chunk as usize) as u64;
        let before = u32::try_from((self.sent - run.start) / each).ok()?;
        Some(run.inbound.about(run.made + before * run.chunk))
    }

    /// Notes that the FPDU made last, up to `self.handed`, carries `len` octets of this answer in place.
    pub(super) fn note_run(&mut self, response: &Response, len: u32, start: u64) {
        if let Some(run) = self.runs.back_mut() {
            let whole = u64::from(response.made - run.made.min(response.made));
            let goes_on = run.end == start
                && run.inbound.header.msn() == response.inbound.header.msn()
                && len <= run.chunk
                && whole % u64::from(run.chunk) == 0;
            if goes_on {
                run.end = self.handed;
                return;
            }
        }
        self.runs.push_back(Run {
            inbound: response.inbound,
            start,
            end: self.handed,
            made: response.made,
            chunk: len,
        });
    }

    pub(super) fn footprint(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
            + self.reads.capacity() * size_of::<Outbound>()
            + self.responses.capacity() * size_of::<Response>()
            + self.runs.capacity() * size_of::<Run>()
    }
}

impl Inbound {
    /// What a Terminate says about this request after `made` octets of the answer (RDMAPX-026).
    pub(super) fn about(&self, made: u32) -> About {
        let (length, read) = match self.asked {
            Asked::Read(request) => (READ_REQUEST_LEN, Some(request.advanced(made))),
            Asked::Atomic(_) => (ATOMIC_REQUEST_LEN, None),
        };
        About {
            header: Header::Untagged(self.header),
            length,
            read,
        }
    }
}

impl Connection {
    /// Appends FPDUs to `out` until the limit or the batch is exhausted or there is nothing to send; returns how many.
    /// Carries out Binds and Invalidates when they are reached. `out` is empty, or what it holds is of this connection.
    pub fn poll_transmit(&mut self, mem: &impl Memory, limit: TxLimit, out: &mut TxBatch) -> usize {
        if out.has_outcome() {
            self.handle_transmitted(out);
        }
        debug_assert!(
            out.remaining() == self.tx.unsent(),
            "the batch of another connection, or not the only one of this"
        );
        let mut budget = Budget::new(limit, out, self.config.markers.sent);
        loop {
            self.settle();
            let step = match self.next_source() {
                Some(Source::Terminate) => self.send_terminate(&mut budget, out),
                Some(Source::Ready) => self.send_ready_message(&mut budget, out),
                Some(Source::Response) => self.send_response(mem, &mut budget, out),
                Some(Source::Confirmation) => self.send_confirmation(&mut budget, out),
                Some(Source::Own) => self.send_own(mem, &mut budget, out),
                None => Step::Full,
            };
            if step == Step::Full {
                return budget.fpdus();
            }
        }
    }

    /// Looks what became of the batch: Sends and Writes of which the transport has taken the last octet are complete, what
    /// was dropped is made good or fails. Call it when `batch` was handed to the transport.
    pub fn handle_transmitted(&mut self, batch: &mut TxBatch) {
        let outcome = batch.take_outcome();
        self.counters.sent.octets += self.tx.take_transmitted(outcome.taken);
        self.initiator.sent_up_to(self.tx.sent);
        if outcome.dropped > 0 {
            self.handle_dropped(outcome);
        }
        self.settle();
    }

    /// What the next FPDU, or local request, comes from.
    pub(super) fn next_source(&self) -> Option<Source> {
        match self.phase {
            Phase::Idle | Phase::Closed => return None, // MPA-030
            Phase::Failed | Phase::Disconnected => {
                return self.tx.terminate_is_due().then_some(Source::Terminate);
            }
            Phase::Running => {}
        }
        if self.tx.has_only_requests() && self.initiator.upcoming().is_none() {
            return None;
        }
        if matches!(self.tx.failing, Some(Failing::Cut(_))) {
            return None; // `settle` ends the stream once all is sent
        }
        if self.is_fenced() {
            // MPA-031, IW-004
            let local = self
                .initiator
                .upcoming()
                .is_some_and(|request| request.operation.is_local());
            return (local && self.may_start()).then_some(Source::Own);
        }
        // A message under way is finished before another begins.
        if self
            .tx
            .responses
            .front()
            .is_some_and(|response| response.made > 0)
        {
            return Some(Source::Response);
        }
        if self.is_in_message() {
            return Some(Source::Own);
        }
        if self.tx.ready.is_some() {
            return Some(Source::Ready); // MPA2-028
        }
        if self.tx.unconfirmed > 0 && self.confirmation_is_due() {
            let answers = !self.tx.responses.is_empty() && self.tx.response_turn;
            return Some(if answers {
                Source::Response
            } else {
                Source::Confirmation
            });
        }
        match (self.may_start(), !self.tx.responses.is_empty()) {
            (true, true) if self.tx.response_turn => Some(Source::Response),
            (true, _) => Some(Source::Own),
            (false, true) => Some(Source::Response),
            (false, false) => None,
        }
    }

    /// The Writes made so far need a Read of their own, and it may be sent: the upcoming request cannot start now, is not
    /// answered itself, and is no Write that could share a Read with them.
    #[cold]
    fn confirmation_is_due(&self) -> bool {
        let later = self
            .initiator
            .upcoming()
            .is_some_and(|request| match request.operation {
                Operation::Read { .. } | Operation::Atomic { .. } => true,
                Operation::Write { .. } => self.tx.unconfirmed < WRITES_CONFIRMED,
                _ => false,
            });
        self.may_read() && !(later && self.may_start())
    }

    /// A message of our own has begun and is not finished.
    pub(super) fn is_in_message(&self) -> bool {
        self.tx.current.is_some_and(|current| current.offset > 0) && !self.reads_next()
    }

    /// The upcoming request is a Read: each of its parts is a message of its own.
    pub(super) fn reads_next(&self) -> bool {
        self.initiator
            .upcoming()
            .is_some_and(|request| matches!(request.operation, Operation::Read { .. }))
    }

    /// The upcoming request may begin, or a Read go on with its next part.
    fn may_start(&self) -> bool {
        let Some(request) = self.initiator.upcoming() else {
            return false;
        };
        if self.tx.failing.is_some() {
            return false;
        }
        // IW-034
        if request.fence && self.tx.current.is_none() && self.initiator.open_reads > 0 {
            return false;
        }
        !request.operation.is_answered() || self.may_read()
    }

    /// One more Read or Atomic may be on the wire (RDMAP-047, IW-013). The ready-to-receive message is outside the
    /// client's limit, but a peer that takes one Read at a time has to answer it first.
    fn may_read(&self) -> bool {
        if self.rx.peer_closed {
            return false; // nobody answers it: `settle` flushes it when it is the oldest (IW-023)
        }
        let ord = self.config.limits.ord as usize;
        let ready = self
            .tx
            .reads
            .front()
            .is_some_and(|read| read.asker == Asker::Ready);
        let open = self.tx.reads.len() - usize::from(ready);
        ord == 0 || (open < ord && !(ready && ord == 1))
    }
}
