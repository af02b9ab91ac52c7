//! State of the outbound half.

use std::collections::VecDeque;

use super::phase::FailingRequest;
use super::terminated::TerminatedHeaders;
use crate::ddp::{Header, TaggedHeader, UntaggedHeader};
use crate::memory::Span;
use crate::mpa::{Ready, fpdu};
use crate::rdmap::{AtomicRequest, ReadRequest, Terminate};
use crate::types::RemoteAddress;

/// Octets of a Read Request: 18 of the DDP header, 28 of the RDMAP header.
const READ_REQUEST_LEN: u16 = 46;
const _: () = assert!(READ_REQUEST_LEN as usize == UntaggedHeader::LEN + ReadRequest::LEN);

/// Octets of an Atomic Request: 18 of the DDP header, 52 of the RDMAP header.
const ATOMIC_REQUEST_LEN: u16 = 70;
const _: () = assert!(ATOMIC_REQUEST_LEN as usize == UntaggedHeader::LEN + AtomicRequest::LEN);

/// State of the outbound half.
#[derive(Debug)]
pub(super) struct Tx {
    /// The ready-to-receive message, until it is made.
    pub(super) ready: Option<Ready>,
    /// The owner has asked for the ready-to-receive message.
    ready_asked: bool,
    pub(super) send_msn: u32,
    pub(super) read_msn: u32,
    pub(super) atomic_msn: u32,
    /// The progress of the current request.
    pub(super) current: Option<RequestProgress>,
    /// The checked buffers of the current request.
    pub(super) spans: Vec<Span>,
    /// Our Reads and Atomics on the wire, in order.
    pub(super) reads: VecDeque<OutboundRequest>,
    /// The peer's Reads and Atomics to answer, in order.
    pub(super) responses: VecDeque<Response>,
    /// How many of `responses` are Atomics.
    atomics: usize,
    /// Which octets of the stream belong to which response, where the octets are read in place.
    pub(super) runs: VecDeque<ResponseRun>,
    /// Writes made since the last Read or Atomic Request whose response confirms the Writes before it. On demand, the requests made since
    /// the first one that waits for a confirmation and has no such Request behind it.
    pub(super) unconfirmed: u32,
    /// A Read that confirms Writes on demand is outstanding.
    pub(super) is_confirming: bool,
    /// A response is sent before the next message of our own.
    pub(super) response_turn: bool,
    /// Octets of the stream made, and taken by the transport.
    pub(super) handed: u64,
    pub(super) sent: u64,
    pub(super) failing: Option<FailingRequest>,
    pub(super) terminate: Option<QueuedTerminate>,
    /// Payload is copied, never read in place.
    pub(super) copies: bool,
}

/// The Terminate, and its position in the stream once it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedTerminate {
    pub(super) terminate: Terminate,
    pub(super) made_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestProgress {
    /// Octets of the request done.
    pub(super) offset: u32,
    /// The SGE to go on with, and how many of its octets are done.
    pub(super) part: usize,
    pub(super) skip: u32,
    /// The first message of a request that is two messages is made.
    pub(super) is_half_done: bool,
}

impl RequestProgress {
    /// Returns true if a part of the request has been made.
    pub(super) const fn has_begun(&self) -> bool {
        self.offset > 0 || self.is_half_done
    }
}

/// One of our Read or Atomic Requests on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutboundRequest {
    /// The purpose of the request.
    pub(super) purpose: RequestPurpose,
    pub(super) sink: RemoteAddress,
    pub(super) span: Option<Span>,
    pub(super) size: u32,
    pub(super) received: u32,
    /// This is the last Read of its request.
    pub(super) last: bool,
    /// The identifier, if this is an Atomic.
    pub(super) atomic: Option<u32>,
    /// Stream offset behind the request's FPDU.
    pub(super) end: u64,
}

/// The purpose of a Read or Atomic Request of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPurpose {
    /// To be the ready-to-receive message.
    Ready,
    /// To carry out the request at this position.
    Request(u64),
    /// To confirm Writes: a Read of no octets. When the peer answers it, the peer has placed the Writes before this
    /// position.
    Confirmation(u64),
}

impl RequestPurpose {
    /// The request that it belongs to.
    pub(super) const fn request(self) -> Option<u64> {
        match self {
            Self::Request(at) => Some(at),
            Self::Ready | Self::Confirmation(_) => None,
        }
    }
}

/// The header of the peer's request.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestHeader {
    Read(ReadRequest),
    Atomic(AtomicRequest),
}

/// One Read or Atomic Request of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct InboundRequest {
    pub(super) header: UntaggedHeader,
    pub(super) asked: RequestHeader,
    pub(super) span: Option<Span>,
    /// This is the peer's ready-to-receive message.
    pub(super) is_ready: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) inbound: InboundRequest,
    pub(super) made: u32,
}

/// FPDUs of one response in a row. All have the same length of payload, except perhaps the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseRun {
    pub(super) inbound: InboundRequest,
    /// The position of the run in the stream.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Octets of the response before the run, and in each FPDU of the run.
    pub(super) made: u32,
    pub(super) chunk: u32,
}

/// The source of the next FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Terminate,
    Ready,
    Response,
    Confirmation,
    Own,
}

/// Whether `poll_transmit` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransmitProgress {
    Again,
    /// The limit is reached, the batch is full, or nothing is left to send.
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
            is_confirming: false,
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
        self.terminate = Some(QueuedTerminate {
            terminate,
            made_at: None,
        });
    }

    pub(super) const fn drop_terminate(&mut self) {
        self.terminate = None;
    }

    pub(super) const fn has_terminate(&self) -> bool {
        self.terminate.is_some()
    }

    pub(super) const fn terminate_is_due(&self) -> bool {
        matches!(self.terminate, Some(QueuedTerminate { made_at: None, .. }))
    }

    /// Queues a request of the peer. Requests are answered in the order in which they came (RDMAP-101, RDMAPX-013).
    pub(super) fn answer(&mut self, inbound: InboundRequest) {
        self.atomics += usize::from(matches!(inbound.asked, RequestHeader::Atomic(_)));
        self.responses.push_back(Response { inbound, made: 0 });
    }

    /// Reads of the peer that count against its limit.
    pub(super) fn reads_to_answer(&self) -> usize {
        // The ready-to-receive message came first, and does not count.
        let ready = self
            .responses
            .front()
            .is_some_and(|response| response.inbound.is_ready);
        self.responses.len() - self.atomics - usize::from(ready)
    }

    /// Atomics of the peer, which have their own limit (RDMAPX-006).
    pub(super) const fn atomics_to_answer(&self) -> usize {
        self.atomics
    }

    /// Notes that the oldest response is made in full.
    pub(super) fn answered(&mut self) {
        let answer = self.responses.pop_front();
        let atomic =
            answer.is_some_and(|answer| matches!(answer.inbound.asked, RequestHeader::Atomic(_)));
        self.atomics -= usize::from(atomic);
        self.response_turn = false;
    }

    pub(super) fn responses_are_made(&self) -> bool {
        self.responses.is_empty()
    }

    /// Counts a request that was made, if confirmations are on demand. The request `asks` for one, or stands behind one that does.
    pub(super) fn count_unconfirmed(&mut self, asks: bool) {
        if asks || self.unconfirmed > 0 {
            self.unconfirmed = self.unconfirmed.saturating_add(1);
        }
    }

    /// Returns true if only requests of the client can be sent next.
    pub(super) fn has_only_requests(&self) -> bool {
        self.responses.is_empty() && self.ready.is_none() && self.unconfirmed == 0
    }

    /// The oldest Read or Atomic that the peer can answer: the transport has taken its last octet. A response to a request that was not
    /// sent yet is unexpected (RDMAP-050, RDMAPX-007).
    pub(super) fn oldest_asked(&self) -> Option<&OutboundRequest> {
        let has_left = |read: &&OutboundRequest| read.end <= self.sent;
        let oldest = self.reads.front();
        oldest.filter(|read| has_left(read) || crate::planted!(UnsentIsAnswered))
    }

    pub(super) fn take_read(&mut self) -> Option<OutboundRequest> {
        self.reads.pop_front()
    }

    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Octets made that the transport has not taken.
    pub(super) const fn unsent(&self) -> u64 {
        self.handed - self.sent
    }

    /// Returns true if the transport has taken everything that was made.
    pub(super) const fn is_all_sent(&self) -> bool {
        self.handed == self.sent
    }

    /// Returns true if a part of the upcoming request has been made.
    pub(super) fn has_begun(&self) -> bool {
        self.current.is_some_and(|current| current.has_begun())
    }

    /// Returns true if everything was made and sent.
    pub(super) fn is_drained(&self) -> bool {
        self.is_all_sent()
            && self.ready.is_none()
            && self.current.is_none()
            && self.responses.is_empty()
            && !self.terminate_is_due()
    }

    /// Forgets our own requests.
    pub(super) fn give_up_requests(&mut self) {
        self.current = None;
        self.failing = None;
        self.spans.clear();
        self.reads.clear();
        self.unconfirmed = 0;
        self.is_confirming = false;
    }

    /// Makes nothing more, except for the Terminate.
    pub(super) fn stop(&mut self) {
        self.give_up_requests();
        self.ready = None;
        self.responses.clear();
        self.atomics = 0;
        self.runs.clear();
    }

    pub(super) fn take_transmitted(&mut self, octets: u64) -> u64 {
        debug_assert!(octets <= self.unsent(), "more octets than were made");
        let octets = octets.min(self.unsent());
        self.sent += octets;
        while self.runs.front().is_some_and(|run| run.end <= self.sent) {
            self.runs.pop_front();
        }
        octets
    }

    /// Notes that the last `octets` that were made will not be sent.
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

    /// The headers that a Terminate carries about the response whose FPDU would have been sent next (RDMAP-079).
    pub(super) fn response_at_head(&self) -> Option<TerminatedHeaders> {
        let run = self
            .runs
            .iter()
            .find(|run| (run.start..run.end).contains(&self.sent))?;
        let each = fpdu::fpdu_len(TaggedHeader::LEN + run.chunk as usize) as u64;
        let before = u32::try_from((self.sent - run.start) / each).ok()?;
        Some(run.inbound.about(run.made + before * run.chunk))
    }

    /// Notes that the FPDU made last, which ends at `self.handed`, has `len` octets of this response, read in place.
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
        self.runs.push_back(ResponseRun {
            inbound: response.inbound,
            start,
            end: self.handed,
            made: response.made,
            chunk: len,
        });
    }

    pub(super) fn footprint(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
            + self.reads.capacity() * size_of::<OutboundRequest>()
            + self.responses.capacity() * size_of::<Response>()
            + self.runs.capacity() * size_of::<ResponseRun>()
    }
}

impl InboundRequest {
    /// The headers that a Terminate carries about this request after `made` octets of the response (RDMAPX-026).
    pub(super) fn about(&self, made: u32) -> TerminatedHeaders {
        let (length, read) = match self.asked {
            RequestHeader::Read(request) => (READ_REQUEST_LEN, Some(request.advanced(made))),
            RequestHeader::Atomic(_) => (ATOMIC_REQUEST_LEN, None),
        };
        TerminatedHeaders {
            header: Header::Untagged(self.header),
            length,
            read,
        }
    }
}
