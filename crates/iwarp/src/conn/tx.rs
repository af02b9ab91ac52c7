//! The outbound half: requests, answers to the peer's Reads and the Terminate become FPDUs.
//!
//! Messages are never interleaved (PEER-028, OPEN-10); own messages and answers take turns, so that neither starves the
//! other (SEC-037).

use std::collections::VecDeque;
use std::time::Instant;

use super::Connection;
use super::batch::{MAX_PARTS, TxBatch, TxLimit};
use super::config::Ready;
use super::end::{About, Failing, Phase};
use super::frame::{self, Budget};
use super::queues::Work;
use super::work::WqeStatus;
use crate::ddp::{Header, Qn, TaggedHeader, UntaggedHeader};
use crate::memory::{BindError, LocalAccess, Memory, Revoked, Span};
use crate::mpa::{Crc, fpdu};
use crate::rdmap::{Opcode, ProtectionError, ReadRequest, Terminate, TerminateCode, control};
use crate::types::{RemoteAddress, STag, Sge};

/// Payload below this is copied next to its header; from here on it has an I/O vector of its own, where it may.
const COPIED_BELOW: u32 = 4096;

/// What an empty tagged message names: adapters refuse STag 0 even there (PEER-035).
const NOWHERE: RemoteAddress = RemoteAddress {
    stag: STag(1),
    to: 0,
};

/// Octets of a Read Request: 18 of the DDP header, 28 of its own.
const READ_REQUEST_LEN: u16 = 46;
const _: () = assert!(READ_REQUEST_LEN as usize == UntaggedHeader::LEN + ReadRequest::LEN);

/// State of the outbound half.
#[derive(Debug)]
pub(super) struct Tx {
    /// The ready-to-receive message, until it is made.
    ready: Option<Ready>,
    send_msn: u32,
    read_msn: u32,
    /// How far the request under way has come.
    current: Option<Current>,
    /// Its buffers, checked.
    spans: Vec<Span>,
    /// Our Reads on the wire, in order.
    pub(super) reads: VecDeque<Outbound>,
    /// The peer's Reads to answer, in order.
    responses: VecDeque<Response>,
    /// Which octets of the stream belong to which answer, where they are read in place.
    runs: VecDeque<Run>,
    /// An answer goes before the next own message.
    response_turn: bool,
    /// Octets of the stream made, and taken by the transport.
    handed: u64,
    sent: u64,
    pub(super) failing: Option<Failing>,
    terminate: Option<Last>,
}

/// The Terminate, and where in the stream it stands once it is made.
#[derive(Clone, Copy, Debug)]
struct Last {
    terminate: Terminate,
    made_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Current {
    /// Octets of the request done.
    offset: u32,
    /// The SGE that goes on, and octets of it done.
    part: usize,
    skip: u32,
}

/// One of our Read Requests on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound {
    /// The request it belongs to; none for the ready-to-receive message.
    pub(super) request: Option<u64>,
    pub(super) sink: RemoteAddress,
    pub(super) span: Option<Span>,
    pub(super) size: u32,
    pub(super) received: u32,
    /// The last one of its request.
    pub(super) last: bool,
}

/// One Read Request of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) header: UntaggedHeader,
    pub(super) request: ReadRequest,
    pub(super) span: Option<Span>,
    /// It is the peer's ready-to-receive message.
    pub(super) is_ready: bool,
}

#[derive(Clone, Copy, Debug)]
struct Response {
    inbound: Inbound,
    made: u32,
}

/// FPDUs of one answer in a row, each with the same payload but perhaps the last.
#[derive(Clone, Copy, Debug)]
struct Run {
    inbound: Inbound,
    /// Where it stands in the stream.
    start: u64,
    end: u64,
    /// The answer's octets before it, and in each FPDU.
    made: u32,
    chunk: u32,
}

/// What the next FPDU is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Terminate,
    Ready,
    Response,
    Own,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Again,
    /// The limit or the batch is exhausted.
    Full,
}

impl Tx {
    pub(super) fn new(sges: usize, msn: u32) -> Self {
        Self {
            ready: None,
            send_msn: msn,
            read_msn: msn,
            current: None,
            spans: Vec::with_capacity(sges),
            reads: VecDeque::new(),
            responses: VecDeque::new(),
            runs: VecDeque::new(),
            response_turn: false,
            handed: 0,
            sent: 0,
            failing: None,
            terminate: None,
        }
    }

    pub(super) const fn queue_ready(&mut self, ready: Ready) {
        self.ready = Some(ready);
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

    pub(super) fn answer(&mut self, inbound: Inbound) {
        self.responses.push_back(Response { inbound, made: 0 });
    }

    /// Reads of the peer that count against its limit.
    pub(super) fn reads_to_answer(&self) -> usize {
        // The ready-to-receive message came first of all.
        let ready = self
            .responses
            .front()
            .is_some_and(|response| response.inbound.is_ready);
        self.responses.len() - usize::from(ready)
    }

    pub(super) fn responses_are_made(&self) -> bool {
        self.responses.is_empty()
    }

    pub(super) fn take_read(&mut self) -> Option<Outbound> {
        self.reads.pop_front()
    }

    pub(super) const fn sent(&self) -> u64 {
        self.sent
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
    }

    /// Nothing more is made, but for the Terminate.
    pub(super) fn stop(&mut self) {
        self.give_up_requests();
        self.ready = None;
        self.responses.clear();
        self.runs.clear();
    }

    fn take_transmitted(&mut self, octets: u64) -> u64 {
        let octets = octets.min(self.handed - self.sent);
        self.sent += octets;
        while self.runs.front().is_some_and(|run| run.end <= self.sent) {
            self.runs.pop_front();
        }
        octets
    }

    /// The last `octets` of what was made will not be sent.
    pub(super) fn withdraw(&mut self, octets: u64) -> u64 {
        let octets = octets.min(self.handed - self.sent);
        self.handed -= octets;
        if let Some(last) = &mut self.terminate
            && last.made_at.is_some_and(|at| at >= self.handed)
        {
            last.made_at = None; // it still has to go out
        }
        octets
    }

    pub(super) fn withdraw_all(&mut self) -> u64 {
        self.withdraw(self.handed - self.sent)
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
    fn note_run(&mut self, response: &Response, len: u32, start: u64) {
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
    /// What a Terminate says about this Read after `made` octets of the answer.
    fn about(&self, made: u32) -> About {
        About {
            header: Header::Untagged(self.header),
            length: READ_REQUEST_LEN,
            read: Some(self.request.advanced(made)),
        }
    }
}

impl Connection {
    /// Appends FPDUs to `out` until the limit or the batch is exhausted or there is nothing to send; returns how many.
    /// Carries out Binds and Invalidates when they are reached.
    pub fn poll_transmit(
        &mut self,
        _now: Instant,
        mem: &impl Memory,
        limit: TxLimit,
        out: &mut TxBatch,
    ) -> usize {
        let mut budget = Budget::new(limit);
        loop {
            self.settle();
            let step = match self.next_source() {
                Some(Source::Terminate) => self.send_terminate(&mut budget, out),
                Some(Source::Ready) => self.send_ready_message(&mut budget, out),
                Some(Source::Response) => self.send_response(mem, &mut budget, out),
                Some(Source::Own) => self.send_own(mem, &mut budget, out),
                None => Step::Full,
            };
            if step == Step::Full {
                return budget.fpdus();
            }
        }
    }

    /// The transport took the next `octets` of the stream: Sends and Writes that end there are complete.
    pub fn handle_transmitted(&mut self, octets: u64) {
        self.counters.sent.octets += self.tx.take_transmitted(octets);
        self.initiator.sent_up_to(self.tx.sent);
        self.settle();
    }

    /// What the next FPDU, or local request, comes from.
    pub(super) fn next_source(&self) -> Option<Source> {
        match self.phase {
            Phase::Idle | Phase::Closed => return None,
            Phase::Failed | Phase::Disconnected => {
                return self.tx.terminate_is_due().then_some(Source::Terminate);
            }
            Phase::Running => {}
        }
        if matches!(self.tx.failing, Some(Failing::Cut(_))) {
            return None; // `settle` ends the stream once all is sent
        }
        if self.is_fenced() {
            // MPA-031, IW-004
            let local = self
                .initiator
                .upcoming()
                .is_some_and(|request| request.work.is_local());
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
            return Some(Source::Ready);
        }
        match (self.may_start(), !self.tx.responses.is_empty()) {
            (true, true) if self.tx.response_turn => Some(Source::Response),
            (true, _) => Some(Source::Own),
            (false, true) => Some(Source::Response),
            (false, false) => None,
        }
    }

    /// A message of our own has begun and is not finished.
    pub(super) fn is_in_message(&self) -> bool {
        self.tx.current.is_some_and(|current| current.offset > 0) && !self.reads_next()
    }

    /// The upcoming request is a Read: each of its parts is a message of its own.
    fn reads_next(&self) -> bool {
        self.initiator
            .upcoming()
            .is_some_and(|request| matches!(request.work, Work::Read { .. }))
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
        !matches!(request.work, Work::Read { .. }) || self.may_read()
    }

    /// One more Read may be on the wire (RDMAP-047, IW-013). The ready-to-receive message is outside the client's limit,
    /// but a peer that takes one Read at a time has to answer it first.
    fn may_read(&self) -> bool {
        if self.rx.peer_closed {
            return false; // nobody answers it: `settle` flushes it when it is the oldest (IW-023)
        }
        let ord = self.config.limits.ord as usize;
        let ready = self
            .tx
            .reads
            .front()
            .is_some_and(|read| read.request.is_none());
        let open = self.tx.reads.len() - usize::from(ready);
        ord == 0 || (open < ord && !(ready && ord == 1))
    }

    fn send_own(&mut self, mem: &impl Memory, budget: &mut Budget, out: &mut TxBatch) -> Step {
        if self.tx.current.is_none() && !self.begin(mem) {
            return Step::Again;
        }
        if self.reads_next() {
            self.send_read_request(budget, out)
        } else {
            self.send_segment(mem, budget, out)
        }
    }

    /// Begins the upcoming request: carries out a local one, checks the buffers of the others. False when there is no
    /// message to send for it.
    fn begin(&mut self, mem: &impl Memory) -> bool {
        let at = self.initiator.next;
        let request = *self.initiator.get(at);
        let need = match request.work {
            Work::Bind(bind) => {
                self.finish_local(mem.bind(&bind, self.scope));
                return false;
            }
            Work::Invalidate(window) => {
                self.finish_local(mem.unbind(window, self.scope));
                return false;
            }
            Work::Read { .. } if self.config.limits.ord == 0 => {
                self.tx.failing = Some(Failing::Unstarted(WqeStatus::InvalidRequest)); // AMB-045
                return false;
            }
            Work::Read { .. } => LocalAccess::ReadSink,
            Work::Send { .. } | Work::Write { .. } => LocalAccess::Read,
        };
        self.tx.spans.clear();
        for sge in self.initiator.sges(at) {
            let span = match sge.length {
                0 => Ok(Span::new(0, 0, 0, 0, 0)), // holds the place, never used
                _ => mem.check_local(*sge, need, self.scope.pd),
            };
            let Ok(span) = span else {
                self.tx.spans.clear();
                self.tx.failing = Some(Failing::Unstarted(WqeStatus::LocalAccess));
                return false;
            };
            self.tx.spans.push(span);
        }
        if need == LocalAccess::ReadSink {
            self.initiator.open_reads += 1;
        }
        self.tx.current = Some(Current::default());
        true
    }

    fn finish_local(&mut self, result: Result<(), BindError>) {
        match result {
            Ok(()) => self.initiator.finish_local(),
            Err(BindError::InvalidState) => {
                self.tx.failing = Some(Failing::Unstarted(WqeStatus::InvalidRequest));
            }
            Err(BindError::Access) => {
                self.tx.failing = Some(Failing::Unstarted(WqeStatus::LocalAccess));
            }
        }
    }

    /// The next segment of the Send or Write under way.
    fn send_segment(&mut self, mem: &impl Memory, budget: &mut Budget, out: &mut TxBatch) -> Step {
        let at = self.initiator.next;
        let request = *self.initiator.get(at);
        let Some(current) = self.tx.current else {
            return Step::Again;
        };
        let left = request.length - current.offset;
        let header_len = match request.work {
            Work::Write { .. } => TaggedHeader::LEN,
            _ => UntaggedHeader::LEN,
        };
        let must_copy = self.must_copy() || request.inline;
        let most = budget.payload(header_len).min(left);
        let in_place = !must_copy
            && most >= COPIED_BELOW
            && parts(&self.tx.spans, current, most) <= MAX_PARTS - 2;
        let len = if in_place {
            most
        } else {
            most.min(frame::copied_at_most(out, header_len))
        };
        if !budget.admits(header_len, len) || !frame::fits(out, header_len, len, in_place) {
            return Step::Full;
        }
        let last = len == left;
        let (tagged, untagged);
        let header: &[u8] = match request.work {
            Work::Write { remote } => {
                let to = remote.to.wrapping_add(u64::from(current.offset));
                tagged = TaggedHeader::new(last, control(Opcode::Write), remote.stag, to);
                tagged.as_bytes()
            }
            Work::Send {
                solicited,
                invalidate,
            } => {
                let opcode = Opcode::send(solicited, invalidate.is_some());
                let word = invalidate.map_or(0, |stag| stag.0);
                let msn = self.tx.send_msn;
                untagged =
                    UntaggedHeader::new(last, control(opcode), word, Qn::SEND, msn, current.offset);
                untagged.as_bytes()
            }
            _ => return Step::Again, // not a message of segments
        };
        let result = if in_place {
            let spans = pieces(&self.tx.spans, current, len);
            Ok(frame::put_in_place(out, header, len, spans))
        } else if request.inline {
            let from = current.offset as usize;
            let data = &self.initiator.inline(at)[from..from + len as usize];
            frame::put_copied(out, self.config.crc, header, len, |buffer, sum| {
                buffer.copy_from_slice(data);
                if let Some(sum) = sum {
                    sum.update(buffer);
                }
                Ok(())
            })
        } else {
            let spans = pieces(&self.tx.spans, current, len);
            frame::put_copied(out, self.config.crc, header, len, |buffer, sum| {
                fetch_all(mem, spans, buffer, sum)
            })
        };
        match result {
            Ok(octets) => {
                self.made(budget, octets, len);
                self.advance(current, len, last);
            }
            Err(Revoked) if current.offset == 0 => {
                self.tx.current = None;
                self.tx.failing = Some(Failing::Unstarted(WqeStatus::LocalAccess));
            }
            Err(Revoked) => self.tx.failing = Some(Failing::Cut(WqeStatus::LocalAccess)),
        }
        Step::Again
    }

    /// `len` octets of the message under way are made.
    fn advance(&mut self, mut current: Current, len: u32, last: bool) {
        if !last {
            current.offset += len;
            current.skip += len;
            while let Some(span) = self.tx.spans.get(current.part)
                && current.skip >= span.len()
            {
                current.skip -= span.len();
                current.part += 1;
            }
            self.tx.current = Some(current);
            return;
        }
        if matches!(
            self.initiator.get(self.initiator.next).work,
            Work::Write { .. }
        ) {
            self.counters.sent.writes += 1;
        } else {
            self.counters.sent.sends += 1;
            self.tx.send_msn = self.tx.send_msn.wrapping_add(1); // DDP-032
        }
        self.finish_current();
    }

    /// All of the request under way is made.
    fn finish_current(&mut self) {
        self.initiator.handed_over(self.tx.handed);
        self.tx.current = None;
        self.tx.spans.clear();
        self.tx.response_turn = true;
    }

    /// The next Read Request of the Read under way: one for each SGE (IW-047), one for an empty Read.
    fn send_read_request(&mut self, budget: &mut Budget, out: &mut TxBatch) -> Step {
        let at = self.initiator.next;
        let request = *self.initiator.get(at);
        let (Work::Read { remote }, Some(mut current)) = (request.work, self.tx.current) else {
            return Step::Again;
        };
        let sges = self.initiator.sges(at);
        let part = (current.part..sges.len()).find(|part| sges[*part].length > 0);
        let (sink, span, size) = match part {
            Some(part) => {
                let Sge {
                    token,
                    address,
                    length,
                } = sges[part];
                let sink = RemoteAddress {
                    stag: token,
                    to: address,
                };
                (sink, Some(self.tx.spans[part]), length)
            }
            None => (NOWHERE, None, 0),
        };
        let to = remote.to.wrapping_add(u64::from(current.offset));
        let source = RemoteAddress {
            stag: remote.stag,
            to,
        };
        let last = size == request.length - current.offset;
        if !self.put_read_request(ReadRequest { sink, size, source }, budget, out) {
            return Step::Full;
        }
        self.tx.reads.push_back(Outbound {
            request: Some(at),
            sink,
            span,
            size,
            received: 0,
            last,
        });
        if last {
            self.finish_current();
        } else {
            current.offset += size;
            current.part = part.map_or(current.part, |part| part + 1);
            self.tx.current = Some(current);
            self.tx.response_turn = true;
        }
        Step::Again
    }

    fn put_read_request(
        &mut self,
        request: ReadRequest,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let ulp = control(Opcode::ReadRequest);
        let header = UntaggedHeader::new(true, ulp, 0, Qn::READ_REQUEST, self.tx.read_msn, 0);
        let made = self.put_small(header.as_bytes(), &request.to_bytes(), budget, out);
        if made {
            self.tx.read_msn = self.tx.read_msn.wrapping_add(1);
            self.counters.sent.read_requests += 1;
        }
        made
    }

    /// RFC 6581 section 9.2, as a zero-length message.
    fn send_ready_message(&mut self, budget: &mut Budget, out: &mut TxBatch) -> Step {
        let made = match self.tx.ready {
            None => return Step::Again,
            Some(Ready::Write) => {
                let header =
                    TaggedHeader::new(true, control(Opcode::Write), NOWHERE.stag, NOWHERE.to);
                let made = self.put_small(header.as_bytes(), &[], budget, out);
                self.counters.sent.writes += u64::from(made);
                made
            }
            Some(Ready::Read) => {
                let request = ReadRequest {
                    sink: NOWHERE,
                    size: 0,
                    source: NOWHERE,
                };
                let made = self.put_read_request(request, budget, out);
                if made {
                    self.tx.reads.push_back(Outbound {
                        request: None,
                        sink: NOWHERE,
                        span: None,
                        size: 0,
                        received: 0,
                        last: true,
                    });
                }
                made
            }
            Some(Ready::Send) => {
                let ulp = control(Opcode::Send);
                let header = UntaggedHeader::new(true, ulp, 0, Qn::SEND, self.tx.send_msn, 0);
                let made = self.put_small(header.as_bytes(), &[], budget, out);
                if made {
                    self.tx.send_msn = self.tx.send_msn.wrapping_add(1);
                    self.counters.sent.sends += 1;
                }
                made
            }
        };
        if !made {
            return Step::Full;
        }
        self.tx.ready = None;
        Step::Again
    }

    /// The next segment of the answer to the peer's oldest Read (RFC 5040 section 5.2.2).
    fn send_response(&mut self, mem: &impl Memory, budget: &mut Budget, out: &mut TxBatch) -> Step {
        let Some(&response) = self.tx.responses.front() else {
            return Step::Again;
        };
        let ReadRequest { sink, size, .. } = response.inbound.request;
        let left = size - response.made;
        let most = budget.payload(TaggedHeader::LEN).min(left);
        let in_place = !self.must_copy() && most >= COPIED_BELOW;
        let copied = frame::copied_at_most(out, TaggedHeader::LEN);
        let len = if in_place { most } else { most.min(copied) };
        if !budget.admits(TaggedHeader::LEN, len)
            || !frame::fits(out, TaggedHeader::LEN, len, in_place)
        {
            return Step::Full;
        }
        let last = len == left;
        // RDMAP-035: the sink is copied, not interpreted.
        let to = sink.to.wrapping_add(u64::from(response.made));
        let header = TaggedHeader::new(last, control(Opcode::ReadResponse), sink.stag, to);
        let span = response
            .inbound
            .span
            .filter(|_| len > 0)
            .map(|span| span.slice(response.made, len));
        let result = if in_place {
            Ok(frame::put_in_place(
                out,
                header.as_bytes(),
                len,
                span.into_iter(),
            ))
        } else {
            frame::put_copied(
                out,
                self.config.crc,
                header.as_bytes(),
                len,
                |buffer, sum| fetch_all(mem, span.into_iter(), buffer, sum),
            )
        };
        let Ok(octets) = result else {
            // The source was deregistered under the Read: RDMAP-066, RDMAP-079.
            let about = response.inbound.about(response.made);
            self.fail_with(ProtectionError::InvalidSTag.into(), Some(about), None);
            return Step::Again;
        };
        let start = self.tx.handed;
        self.made(budget, octets, len);
        if in_place {
            self.tx.note_run(&response, len, start);
        }
        if last {
            self.tx.responses.pop_front();
            self.tx.response_turn = false;
            self.counters.sent.read_responses += 1;
        } else if let Some(response) = self.tx.responses.front_mut() {
            response.made += len;
        }
        Step::Again
    }

    /// The last FPDU of the stream (RDMAP-071).
    fn send_terminate(&mut self, budget: &mut Budget, out: &mut TxBatch) -> Step {
        let Some(last) = self.tx.terminate else {
            return Step::Full;
        };
        let (octets, len) = last.terminate.to_bytes();
        let start = self.tx.handed;
        if !self.put_small(TERMINATE_HEADER.as_bytes(), &octets[..len], budget, out) {
            return Step::Full;
        }
        self.tx.terminate = Some(Last {
            made_at: Some(start),
            ..last
        });
        self.counters.sent.terminates += 1;
        Step::Again
    }

    /// A message of one segment whose payload is made here.
    fn put_small(
        &mut self,
        header: &[u8],
        payload: &[u8],
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let Ok(len) = u32::try_from(payload.len()) else {
            return false;
        };
        if !budget.admits(header.len(), len) || !frame::fits(out, header.len(), len, false) {
            return false;
        }
        let made = frame::put_copied(out, self.config.crc, header, len, |buffer, sum| {
            buffer.copy_from_slice(payload);
            if let Some(sum) = sum {
                sum.update(buffer);
            }
            Ok(())
        });
        if let Ok(octets) = made {
            self.made(budget, octets, 0);
        }
        made.is_ok()
    }

    fn made(&mut self, budget: &mut Budget, octets: usize, payload: u32) {
        budget.spend(octets);
        self.tx.handed += octets as u64;
        self.counters.sent.fpdus += 1;
        self.counters.sent.payload += u64::from(payload);
    }

    /// Payload may not be read in place: its sum or a capture needs a private copy.
    const fn must_copy(&self) -> bool {
        self.config.crc || self.config.private_payload
    }
}

/// Untagged, QN 2, MSN 1, MO 0, L 1 (RDMAP-070).
const TERMINATE_HEADER: UntaggedHeader =
    UntaggedHeader::new(true, control(Opcode::Terminate), 0, Qn::TERMINATE, 1, 0);

/// A whole FPDU with a Terminate without headers, for a side that ends the stream before it has a connection to end: the
/// Initiator that cannot live with a Reply, 2/0/05 to 2/0/07 (RFC 6581 sections 8 and 9).
pub fn terminate_frame(code: TerminateCode, crc: bool) -> Vec<u8> {
    let (octets, len) = Terminate::new(code).to_bytes();
    let mut ulpdu = TERMINATE_HEADER.to_bytes().to_vec();
    ulpdu.extend_from_slice(&octets[..len]);
    let mut frame = Vec::with_capacity(fpdu::fpdu_len(ulpdu.len()));
    fpdu::put(&mut frame, &ulpdu, crc);
    frame
}

/// The parts of buffers that hold the next `len` octets of a message.
fn pieces(spans: &[Span], current: Current, len: u32) -> impl Iterator<Item = Span> {
    let mut skip = current.skip;
    let mut left = len;
    spans[current.part.min(spans.len())..]
        .iter()
        .filter_map(move |span| {
            let here = (span.len() - skip).min(left);
            let piece = span.slice(skip, here);
            skip = 0;
            left -= here;
            (here > 0).then_some(piece)
        })
}

fn parts(spans: &[Span], current: Current, len: u32) -> usize {
    pieces(spans, current, len).count()
}

/// Copies all pieces one behind the other, summing on the way.
fn fetch_all(
    mem: &impl Memory,
    pieces: impl Iterator<Item = Span>,
    buffer: &mut [u8],
    mut sum: Option<&mut Crc>,
) -> Result<(), Revoked> {
    let mut rest = buffer;
    for piece in pieces {
        let (here, behind) = rest.split_at_mut(piece.len() as usize);
        mem.fetch(piece, here, sum.as_deref_mut())?;
        rest = behind;
    }
    Ok(())
}
