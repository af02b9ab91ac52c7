//! The inbound half: places payload, delivers Receives, and queues the peer's Reads.
//!
//! All checks of a segment come before its first octet is placed. With CRC on, the CRC of the whole FPDU is checked first
//! (MPA-060).

use super::config::{Delivery, StreamEnd};
use super::connection::Connection;
use super::fault::{Fault, read_refused, write_refused};
use super::frame::to_u32;
use super::phase::Phase;
use super::receives::ReceiveSource;
use super::rx::{Handled, Stall, TaggedUnderWay, check_header_length, check_untagged};
use super::terminated::TerminatedHeaders;
use super::tx::{InboundRequest, RequestHeader, RequestPurpose};
use super::work::WqeStatus;
use crate::ddp::{Qn, Segment, TaggedError, TaggedSegment, UntaggedError, UntaggedSegment};
use crate::memory::{Access, LocalAccess, Memory, MessageEnd, Revoked, Span};
use crate::mpa::Role;
use crate::rdmap::{Opcode, OperationError, ProtectionError, ReadRequest, Terminate};
use crate::types::{RemoteAddress, STag};

impl Connection {
    /// Takes in what the transport received, and returns how many octets were consumed. The rest is the beginning of an
    /// FPDU, or everything behind a Send that waits for a Receive. Pass the rest again, together with what comes after it.
    /// So an FPDU may come in any pieces (MPA-072), and no octet is handled twice (DDP-011).
    ///
    /// A Send takes the oldest Receive of the connection, or one of `receives` if the connection has none. Where both have
    /// none, [`Event::Stalled`](super::Event::Stalled) is raised.
    ///
    /// Not to be called before [`Connection::start`]. After the end of the stream all octets are taken and dropped
    /// (DDP-071).
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> usize {
        self.handle_fpdus(u64::MAX, input, mem, receives)
    }

    /// As [`handle_bytes`](Self::handle_bytes), but handles at most this many FPDUs. An FPDU costs time however short it is, so a
    /// caller that serves many streams bounds its turns by FPDUs as well as by octets. If
    /// [`counters`](Self::counters) have grown by this many FPDUs, the rest may begin with whole ones.
    pub fn handle_fpdus(
        &mut self,
        most: u64,
        input: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> usize {
        debug_assert!(self.phase != Phase::Idle, "octets before the start");
        debug_assert!(self.rx.ahead.is_none(), "these octets were kept");
        if self.phase == Phase::Idle {
            return 0;
        }
        if self.is_stalled() {
            self.receive.current_or_drawn(receives, &self.sizes);
        }
        // DDP gets ULPDUs without markers, length, PAD and CRC (MPA-073).
        let last = self.counters.received.fpdus.saturating_add(most);
        let mut at = if self.config.markers.received {
            self.take_marked_frames(last, input, mem, receives)
        } else {
            self.take_frames(last, input, mem, receives)
        };
        if !self.is_receiving() {
            self.counters.dropped_octets += (input.len() - at) as u64;
            at = input.len();
        }
        self.settle();
        if self.rx.end_waits && self.counters.received.fpdus < last {
            self.handle_stream_end(StreamEnd::Fin, input.len() - at);
        }
        at
    }

    /// The shortest input with which [`Connection::handle_bytes`] can make progress.
    pub const fn wanted(&self) -> usize {
        self.rx.wanted
    }

    /// Returns true if arriving octets are handled, not dropped.
    pub(super) const fn is_receiving(&self) -> bool {
        matches!(self.phase, Phase::Running) && self.rx.refusal.is_none()
    }

    // Inlined, as is the code for Sends, because a call per FPDU costs measurable time. The second caller is the deframer
    // for markers.
    #[inline(always)]
    pub(super) fn handle_ulpdu(
        &mut self,
        ulpdu: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> Result<Handled, Fault> {
        // Checks fields, version and opcode (RDMAP-013, RDMAP-088). The handler of each message checks the rest.
        let segment = Segment::parse(ulpdu)?;
        let ulp = match &segment {
            Segment::Tagged(segment) => segment.ulp,
            Segment::Untagged(segment) => segment.ulp,
        };
        let opcode = Opcode::parse(ulp)?;
        let handled = match (opcode, segment) {
            (Opcode::Terminate, segment) => return self.receive_terminate(&segment),
            (Opcode::Write, Segment::Tagged(segment)) => self.receive_write(&segment, mem),
            (Opcode::ReadResponse, Segment::Tagged(segment)) => {
                self.receive_read_response(&segment, ulpdu, mem)
            }
            // RDMAP-004, RDMAP-088, OPEN-01
            (Opcode::Write | Opcode::ReadResponse, Segment::Untagged(_))
            | (_, Segment::Tagged(_)) => Err(OperationError::UnexpectedOpcode.into()),
            (Opcode::ReadRequest, Segment::Untagged(segment)) => {
                self.receive_read_request(&segment, ulpdu, mem)
            }
            (Opcode::AtomicRequest, Segment::Untagged(segment)) => {
                self.receive_atomic_request(&segment, ulpdu, mem)
            }
            (Opcode::AtomicResponse, Segment::Untagged(segment)) => {
                self.receive_atomic_response(&segment, ulpdu, mem)
            }
            (Opcode::Immediate | Opcode::ImmediateSolicited, Segment::Untagged(segment)) => {
                self.receive_immediate(opcode, &segment, ulpdu, receives)
            }
            (_, Segment::Untagged(segment)) => {
                self.receive_send(opcode, &segment, ulpdu, mem, receives)
            }
        }?;
        // A message that waits for a Receive lets the Responder send as well, because the client may wait for this before
        // it posts a Receive.
        if !core::mem::replace(&mut self.rx.seen, true) {
            self.heard_first(ulpdu);
        }
        #[cfg(planted_bugs)]
        self.heard_later(ulpdu);
        Ok(handled)
    }

    /// RFC 5040 section 5.1: placed, never delivered (RDMAP-021).
    pub(super) fn receive_write(
        &mut self,
        segment: &TaggedSegment<'_>,
        mem: &impl Memory,
    ) -> Result<Handled, Fault> {
        self.continue_tagged(Opcode::Write, segment)?;
        // Empty segments are not checked (DDP-044, RDMAP-023).
        if let Some(len) = payload_len(segment.payload) {
            let at = RemoteAddress {
                stag: segment.stag,
                to: segment.to,
            };
            // DDP-066, DDP-069, RDMAP-025: only what is allowed is placed
            let span = self
                .check_remote(mem, at, len, Access::RemoteWrite)
                .map_err(write_refused)?;
            let Ok(()) = mem.place(span, segment.payload, end(segment.last)) else {
                return Err(TaggedError::InvalidSTag.into()); // the memory was revoked since the check
            };
            self.counters.received.payload += u64::from(len);
        }
        self.rx.placed_of_write(to_u32(segment.payload.len()));
        self.advance_tagged(Opcode::Write, segment);
        if segment.last {
            self.counters.received.writes += 1;
        }
        Ok(Handled::Done)
    }

    /// Checks that one tagged message comes at a time (OPEN-10), all of it through one STag (RDMAP-020) and without gaps
    /// (DDP-025, DDP-027, DDP-029).
    pub(super) fn continue_tagged(
        &self,
        opcode: Opcode,
        segment: &TaggedSegment<'_>,
    ) -> Result<(), Fault> {
        match self.rx.tagged {
            Some(under_way) if under_way.opcode != opcode || under_way.is_dropped => {
                Err(OperationError::UnexpectedOpcode.into()) // `drops` looks at what is dropped
            }
            Some(under_way) if under_way.stag != segment.stag => {
                Err(TaggedError::InvalidSTag.into())
            }
            Some(under_way) if under_way.to != segment.to => Err(TaggedError::Bounds.into()),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn advance_tagged(&mut self, opcode: Opcode, segment: &TaggedSegment<'_>) {
        self.rx.tagged = (!segment.last).then(|| TaggedUnderWay {
            opcode,
            stag: segment.stag,
            // The placed octets did not wrap, and an empty segment adds nothing.
            to: segment.to.wrapping_add(segment.payload.len() as u64),
            is_dropped: false,
        });
    }

    /// RFC 5040 section 5.2.2: a Read Response goes exactly where the oldest Read said (RDMAP-030, RDMAP-051), in order
    /// (RDMAP-095), and has exactly as many octets as were asked for (RDMAP-036). Returns the place, which a Read of no
    /// octets does not have.
    pub(super) fn check_read_response(
        &self,
        segment: &TaggedSegment<'_>,
        len: u32,
        last: bool,
    ) -> Result<Option<Span>, Fault> {
        self.continue_tagged(Opcode::ReadResponse, segment)?;
        let asked = self.tx.oldest_asked();
        let Some(read) = asked.filter(|read| read.atomic.is_none()) else {
            return Err(OperationError::UnexpectedOpcode.into()); // RDMAP-050, OPEN-02
        };
        let left = read.size - read.received;
        if read.size > 0 {
            if segment.stag != read.sink.stag {
                return Err(TaggedError::InvalidSTag.into());
            }
            if segment.to != read.sink.to.wrapping_add(u64::from(read.received)) {
                return Err(TaggedError::Bounds.into());
            }
        }
        if len > left || (last && len != left) {
            return Err(TaggedError::Bounds.into());
        }
        Ok(read.span.map(|span| span.slice(read.received, len)))
    }

    pub(super) fn receive_read_response(
        &mut self,
        segment: &TaggedSegment<'_>,
        ulpdu: &[u8],
        mem: &impl Memory,
    ) -> Result<Handled, Fault> {
        let len = to_u32(segment.payload.len());
        let place = self.check_read_response(segment, len, segment.last)?;
        if let Some(place) = place.filter(|_| len > 0)
            && !(planted!(LastSegmentNotPlaced) && segment.last && len > 40)
            && mem.place(place, segment.payload, end(segment.last)) == Err(Revoked)
        {
            self.read_sink_is_gone(ulpdu);
            return Ok(Handled::Done);
        }
        self.advance_tagged(Opcode::ReadResponse, segment);
        self.counters.received.payload += u64::from(len);
        if segment.last {
            self.counters.received.read_responses += 1;
            self.finish_read(); // RDMAP-052
        } else if let Some(read) = self.tx.reads.front_mut() {
            read.received += len;
        }
        Ok(Handled::Done)
    }

    /// The client has deregistered or unmapped the sink under its own Read.
    pub(super) fn read_sink_is_gone(&mut self, ulpdu: &[u8]) {
        let slot = self
            .tx
            .reads
            .front()
            .and_then(|read| read.purpose.request());
        let failed = slot.map(|at| (at, WqeStatus::LocalAccess));
        let about = self.about(ulpdu);
        self.fail_with(TaggedError::InvalidSTag.into(), about, failed);
    }

    /// The oldest Read or Atomic on the wire was answered in full.
    pub(super) fn finish_read(&mut self) {
        let Some(read) = self.tx.take_read() else {
            return;
        };
        match read.purpose {
            RequestPurpose::Ready => {}
            RequestPurpose::Confirmation(before) => {
                self.tx.is_confirming = false;
                self.initiator.confirm(before);
            }
            RequestPurpose::Request(at) => {
                self.initiator.confirm(at);
                if read.last {
                    self.initiator.finish_read(at);
                }
            }
        }
    }

    /// Checks that a segment of QN 0 continues the current message, or begins the next one.
    #[inline]
    pub(super) fn check_on_send_queue(
        &self,
        opcode: Opcode,
        segment: &UntaggedSegment<'_>,
    ) -> Result<u32, Fault> {
        let received = self.rx.send.map_or(0, |send| send.received);
        check_untagged(segment, (Qn::SEND, self.rx.send_msn, received))?;
        if let Some(send) = self.rx.send
            && (send.opcode != opcode || send.is_dropped)
        {
            return Err(OperationError::UnexpectedOpcode.into()); // DDP-025; `drops` looks at what is dropped
        }
        Ok(received)
    }

    /// Checks that a segment of QN 1 is the next request and the only segment of it.
    pub(super) fn check_on_request_queue(
        &self,
        segment: &UntaggedSegment<'_>,
    ) -> Result<(), UntaggedError> {
        check_untagged(segment, (Qn::READ_REQUEST, self.rx.read_msn, 0))?;
        self.rx.check_single(segment)
    }

    /// The last segment of a message is here. The message takes the current Receive, however short the message is (RDMAP-060), if it takes
    /// one.
    pub(super) fn end_message(&mut self) {
        self.rx.stall = None;
        self.rx.send = None;
        self.rx.spans.clear();
        self.rx.send_msn = self.rx.send_msn.wrapping_add(1); // DDP-032
    }

    /// RFC 5040 section 5.3: a Send is delivered in the order sent (RDMAP-063), when all of it is placed (DDP-049), and
    /// once (DDP-048).
    #[inline(always)]
    pub(super) fn receive_send(
        &mut self,
        opcode: Opcode,
        segment: &UntaggedSegment<'_>,
        ulpdu: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> Result<Handled, Fault> {
        let received = self.check_on_send_queue(opcode, segment)?;
        let Some((receive, sges)) = self.receive.current_or_drawn(receives, &self.sizes) else {
            return self.stall(ulpdu);
        };
        self.rx.stall = None;
        let capacity = receive.length;
        let alone = match sges {
            [sge] => Some(*sge),
            _ => None,
        };
        let len = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        let Some(total) = received.checked_add(len).filter(|total| *total <= capacity) else {
            return self.receive_is_too_short(ulpdu);
        };
        let placed = match alone {
            // Most messages: a whole one, whose place is looked up for this segment alone.
            Some(sge) if segment.last && received == 0 && len > 0 => mem
                .place_local(sge, self.receive_pd, segment.payload)
                .is_ok(),
            _ => len == 0 || self.place_send(received, segment, mem),
        };
        if !placed {
            self.receive_fails(WqeStatus::LocalAccess, Fault::Local, ulpdu);
            return Ok(Handled::Done);
        }
        if !segment.last {
            self.rx.send_goes_on(opcode, total);
            self.counters.received.payload += u64::from(len);
            return Ok(Handled::Done);
        }
        if let Some(number) = self.rx.announced {
            return self.receive_announced(opcode, total, len, number);
        }
        let stag = STag(segment.ulp_word); // RDMAP-010; of other Sends not looked at (RDMAP-009)
        if opcode.is_invalidating() && mem.invalidate_remote(stag, self.scope).is_err() {
            return Err(ProtectionError::CannotInvalidate.into()); // RDMAP-065, RDMAP-067
        }
        self.end_message();
        let invalidated = opcode.is_invalidating().then_some(stag);
        self.receive
            .deliver(total, opcode.is_solicited(), invalidated); // DDP-050, DDP-051
        self.counters.received.payload += u64::from(len);
        self.counters.received.sends += 1;
        Ok(Handled::Done)
    }

    /// All of a Send is placed that Immediate Data has announced.
    #[cold]
    fn receive_announced(
        &mut self,
        opcode: Opcode,
        total: u32,
        len: u32,
        number: [u8; 4],
    ) -> Result<Handled, Fault> {
        if opcode.is_invalidating() {
            return Err(OperationError::UnexpectedOpcode.into());
        }
        self.rx.announced = None;
        self.end_message();
        self.receive
            .deliver_announced(total, opcode.is_solicited(), number);
        self.counters.received.payload += u64::from(len);
        self.counters.received.sends += 1;
        Ok(Handled::Done)
    }

    /// A Send is longer than the current Receive, which fails (DDP-063, RDMAP-062), unless the Send is dropped.
    #[cold]
    fn receive_is_too_short(&mut self, ulpdu: &[u8]) -> Result<Handled, Fault> {
        let fault = UntaggedError::TooLong.into();
        if self.delivery == Delivery::Unreliable {
            return Err(fault);
        }
        self.receive_fails(WqeStatus::ReceiveTooShort, fault, ulpdu);
        Ok(Handled::Done)
    }

    /// No Receive is posted: the stream fails (DDP-061), or waits for as long as the configuration allows (DDP-075).
    pub(super) fn stall(&mut self, ulpdu: &[u8]) -> Result<Handled, Fault> {
        if self.config.receive_wait.is_zero() || self.delivery == Delivery::Unreliable {
            return Err(UntaggedError::NoBuffer.into());
        }
        if self.rx.stall.is_none() {
            self.rx.stall = Some(Stall {
                since: None,
                about: TerminatedHeaders::ulpdu(ulpdu),
            });
            self.counters.stalls += 1;
        }
        Ok(Handled::Stalled)
    }

    /// The current Receive fails, and the stream with it (RFC 5040 section 7.1).
    pub(super) fn receive_fails(&mut self, status: WqeStatus, fault: Fault, ulpdu: &[u8]) {
        self.receive.fail(status);
        let about = self.about(ulpdu);
        self.fail_with(fault, about, None);
    }

    /// The headers of the segment that is being handled. If the segment is placed in pieces, the headers with which it
    /// came.
    fn about(&self, ulpdu: &[u8]) -> Option<TerminatedHeaders> {
        match &self.rx.early {
            Some(early) => Some(early.about()),
            None => TerminatedHeaders::ulpdu(ulpdu),
        }
    }

    /// Looks up the SGEs of the current Receive, unless that was done before. False if a buffer may not be written.
    pub(super) fn find_receive(&mut self, mem: &impl Memory) -> bool {
        if !self.rx.spans.is_empty() {
            return true;
        }
        let Some((_, sges)) = self.receive.current() else {
            return false;
        };
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            match mem.check_local(*sge, LocalAccess::Write, self.receive_pd) {
                Ok(span) => self.rx.spans.push(span),
                Err(_) => {
                    self.rx.spans.clear();
                    return false;
                }
            }
        }
        true
    }

    /// Copies a segment into the SGEs of the current Receive. False if a buffer may not be written.
    fn place_send(
        &mut self,
        received: u32,
        segment: &UntaggedSegment<'_>,
        mem: &impl Memory,
    ) -> bool {
        if !self.find_receive(mem) {
            return false;
        }
        let mut at = received;
        let mut payload = segment.payload;
        while let Some(span) = self.rx.rest_of_sge(at) {
            let (here, rest) = payload.split_at(payload.len().min(span.len() as usize));
            let len = to_u32(here.len());
            let ends = end(segment.last && rest.is_empty());
            if mem.place(span.slice(0, len), here, ends) == Err(Revoked) {
                return false;
            }
            payload = rest;
            at += len;
            if payload.is_empty() {
                break;
            }
        }
        payload.is_empty()
    }

    /// RFC 5040 section 5.2.1. QN 1 has as many buffers as were agreed on (RDMAP-031, RDMAP-048, SEC-011). A Read is
    /// answered without the client (RDMAP-033), in order (RDMAP-034), and behind everything that came before it (RDMAP-096).
    fn receive_read_request(
        &mut self,
        segment: &UntaggedSegment<'_>,
        ulpdu: &[u8],
        mem: &impl Memory,
    ) -> Result<Handled, Fault> {
        self.check_on_request_queue(segment)?;
        let Some(request) = ReadRequest::parse(segment.payload) else {
            check_header_length(segment, ReadRequest::LEN)?;
            return Err(OperationError::UnexpectedOpcode.into()); // RDMAP-011
        };
        // PEER-033, PEER-063: the first Read of no octets is a ready-to-receive message, whatever was agreed on, and does
        // not count against the client's limit.
        let is_ready = !self.rx.seen && self.config.role == Role::Responder && request.size == 0;
        if !is_ready && self.tx.reads_to_answer() >= self.config.limits.ird as usize {
            return Err(UntaggedError::NoBuffer.into()); // RDMAP-049, OPEN-05
        }
        let span = match request.size {
            0 => None, // RDMAP-039
            // RDMAP-042, RDMAP-043, RDMAP-045
            size => match self.check_remote(mem, request.source, size, Access::RemoteRead) {
                Ok(span) => Some(span),
                Err(error) => return self.refuse_request(read_refused(error).into(), ulpdu),
            },
        };
        self.tx.answer(InboundRequest {
            header: segment.header(),
            asked: RequestHeader::Read(request),
            span,
            is_ready,
        });
        self.rx.next_request();
        self.counters.received.read_requests += 1;
        Ok(Handled::Done)
    }

    /// Refuses a request, once those before it are answered (RDMAP-034).
    pub(super) fn refuse_request(&mut self, fault: Fault, ulpdu: &[u8]) -> Result<Handled, Fault> {
        let about = TerminatedHeaders::ulpdu(ulpdu).filter(|_| !self.tx.responses_are_made());
        let Some(about) = about else {
            return Err(fault);
        };
        self.rx.refusal = Some((fault, about));
        Ok(Handled::Done)
    }

    /// RFC 5040 section 5.4. A malformed Terminate closes the stream without an answer (RDMAP-086). A Terminate takes no
    /// buffer, so it can always be taken (RDMAP-072).
    fn receive_terminate(&mut self, segment: &Segment<'_>) -> Result<Handled, Fault> {
        let Segment::Untagged(segment) = segment else {
            return Err(Fault::MalformedTerminate);
        };
        let placed = check_untagged(segment, (Qn::TERMINATE, 1, 0)); // RDMAP-070
        let first = !self.rx.seen && self.config.role == Role::Responder;
        let terminate = Terminate::parse(segment.payload, first);
        match (placed, segment.last, terminate) {
            (Ok(()), true, Some(terminate)) => {
                self.counters.received.terminates += 1;
                self.terminated(terminate);
                Ok(Handled::Done)
            }
            _ => Err(Fault::MalformedTerminate),
        }
    }
}

/// The length of a payload that is not empty. It came in an FPDU, whose length has 16 bits.
fn payload_len(payload: &[u8]) -> Option<u32> {
    u32::try_from(payload.len()).ok().filter(|len| *len > 0)
}

const fn end(last: bool) -> MessageEnd {
    if last {
        MessageEnd::Last
    } else {
        MessageEnd::More
    }
}
