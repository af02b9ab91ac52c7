//! RFC 7306 in both directions: Atomics (section 5) and Immediate Data (section 6).
//!
//! An Atomic shares the queue, the message numbers and the order of the responses with Reads. It is checked when it arrives
//! and carried out when its response is made, so that it never overtakes an earlier Read of the peer (RDMAPX-013).
//!
//! Nothing here is inlined, to keep the code short that every message goes through.

use super::batch::TxBatch;
use super::connection::Connection;
use super::fault::{Fault, read_refused};
use super::frame::{self, Budget};
use super::receives::ReceiveSource;
use super::rx::{Handled, WRITE_DROPPED, check_header_length};
use super::terminated::TerminatedHeaders;
use super::tx::{InboundRequest, OutboundRequest, RequestHeader, RequestPurpose, TransmitProgress};
use super::work::{IMMEDIATE_LEN, WqeStatus};
use crate::ddp::{self, Qn, UntaggedError, UntaggedHeader, UntaggedSegment};
use crate::memory::{Access, AtomicError, LocalAccess, Memory, MessageEnd, Revoked};
use crate::rdmap::{
    AtomicOp, AtomicRequest, AtomicResponse, Opcode, OperationError, ProtectionError, control,
};
use crate::types::RemoteAddress;

/// Octets of an Atomic Response header.
const RESPONSE_LEN: u32 = 12;
const _: () = assert!(RESPONSE_LEN as usize == AtomicResponse::LEN);

impl Connection {
    /// RFC 7306 section 6.3: Immediate Data takes a Receive as a Send does, in order with Sends and behind every Write that
    /// came before (RDMAPX-024), and places nothing.
    #[inline(never)]
    pub(super) fn receive_immediate(
        &mut self,
        opcode: Opcode,
        segment: &UntaggedSegment<'_>,
        ulpdu: &[u8],
        receives: impl ReceiveSource,
    ) -> Result<Handled, Fault> {
        self.check_on_send_queue(opcode, segment)?;
        if segment.payload.len() > IMMEDIATE_LEN {
            return Err(UntaggedError::TooLong.into()); // RDMAPX-023
        }
        let Some(data) = segment.payload.first_chunk().filter(|_| segment.last) else {
            return Err(OperationError::Unspecified.into()); // RDMAPX-023
        };
        if self.take_announcement(*data)? {
            return Ok(Handled::Done);
        }
        if self.rx.written == WRITE_DROPPED {
            self.drop_number();
            return Ok(Handled::Done);
        }
        if self
            .receive
            .current_or_drawn(receives, &self.sizes)
            .is_none()
        {
            return self.stall(ulpdu);
        }
        self.end_message();
        let written = u32::try_from(std::mem::take(&mut self.rx.written)).unwrap_or(u32::MAX);
        self.receive
            .deliver_immediate(*data, opcode.is_solicited(), written); // RDMAPX-022, RDMAPX-025
        self.counters.received.immediates += 1;
        Ok(Handled::Done)
    }

    /// RFC 7306 section 5.2.1. The Atomic is answered without the client (RDMAPX-008). It is carried out when it is
    /// answered, behind everything that came before (RDMAPX-016).
    #[inline(never)]
    pub(super) fn receive_atomic_request(
        &mut self,
        segment: &UntaggedSegment<'_>,
        ulpdu: &[u8],
        mem: &impl Memory,
    ) -> Result<Handled, Fault> {
        self.check_on_request_queue(segment)?; // RDMAPX-004
        check_header_length(segment, AtomicRequest::LEN)?;
        let request = AtomicRequest::parse(segment.payload)?;
        // RDMAPX-006: in addition to the Reads, as many Atomics as Reads.
        if self.tx.atomics_to_answer() >= self.config.limits.ird as usize {
            return Err(UntaggedError::NoBuffer.into());
        }
        match self.check_remote(mem, request.target, AtomicOp::LEN, Access::Atomic) {
            Ok(span) => {
                self.tx.answer(InboundRequest {
                    header: segment.header(),
                    asked: RequestHeader::Atomic(request),
                    span: Some(span),
                    is_ready: false,
                });
                self.rx.next_request();
                self.counters.received.atomic_requests += 1;
                Ok(Handled::Done)
            }
            Err(error) => self.refuse_request(read_refused(error).into(), ulpdu), // RDMAPX-011
        }
    }

    /// RFC 7306 section 5.2.2.
    #[inline(never)]
    pub(super) fn receive_atomic_response(
        &mut self,
        segment: &UntaggedSegment<'_>,
        ulpdu: &[u8],
        mem: &impl Memory,
    ) -> Result<Handled, Fault> {
        self.rx.check_atomic_response(segment)?; // RDMAPX-005, RDMAPX-014
        check_header_length(segment, AtomicResponse::LEN)?;
        let Some(response) = AtomicResponse::parse(segment.payload) else {
            return Err(OperationError::UnexpectedOpcode.into());
        };
        let Some(asked) = self.tx.oldest_asked() else {
            return Err(UntaggedError::NoBuffer.into()); // RDMAPX-007
        };
        let (Some(id), Some(span)) = (asked.atomic, asked.span) else {
            return Err(OperationError::UnexpectedOpcode.into()); // a Read is due: RFC 7306 section 5.4
        };
        if response.id != id {
            return Err(OperationError::Unspecified.into()); // RDMAPX-012
        }
        let slot = asked.purpose.request();
        let octets = response.value.to_ne_bytes();
        if mem.place(span, &octets, MessageEnd::Last) == Err(Revoked) {
            // The client has deregistered the sink under its own Atomic.
            let failed = slot.map(|at| (at, WqeStatus::LocalAccess));
            self.fail_with(Fault::Local, TerminatedHeaders::ulpdu(ulpdu), failed);
            return Ok(Handled::Done);
        }
        self.rx.next_atomic_response();
        self.counters.received.atomic_responses += 1;
        self.finish_read(); // RDMAPX-017
        Ok(Handled::Done)
    }

    /// The Immediate Data that is the upcoming request.
    #[inline(never)]
    pub(super) fn send_immediate(
        &mut self,
        (data, solicited): ([u8; IMMEDIATE_LEN], bool),
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        if self.begun(mem, LocalAccess::Read).is_none() {
            return TransmitProgress::Again;
        }
        let ulp = control(Opcode::immediate(solicited));
        // RDMAPX-003: no Invalidate STag
        let header = UntaggedHeader::new(true, ulp, 0, Qn::SEND, self.tx.send_msn, 0);
        if !self.put_small(header.as_bytes(), &data, budget, out) {
            return TransmitProgress::Full;
        }
        self.tx.send_msn = self.tx.send_msn.wrapping_add(1); // RDMAPX-022
        self.counters.sent.immediates += 1;
        self.finish_current();
        TransmitProgress::Again
    }

    /// Sends the Atomic Request of the next request in the queue.
    #[inline(never)]
    pub(super) fn send_atomic_request(
        &mut self,
        (op, target): (AtomicOp, RemoteAddress),
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        if self.begun(mem, LocalAccess::ReadSink).is_none() {
            return TransmitProgress::Again;
        }
        let at = self.initiator.next;
        let request = AtomicRequest {
            id: self.tx.read_msn,
            op,
            target,
        };
        if !self.put_request(Opcode::AtomicRequest, &request.to_bytes(), budget, out) {
            return TransmitProgress::Full;
        }
        self.counters.sent.atomic_requests += 1;
        self.tx.reads.push_back(OutboundRequest {
            purpose: RequestPurpose::Request(at),
            sink: RemoteAddress::default(),
            span: self.tx.spans.first().copied(),
            size: AtomicOp::LEN,
            received: 0,
            last: true,
            atomic: Some(request.id),
            end: self.tx.handed,
        });
        self.tx.unconfirmed = 0; // its answer confirms the Writes before it
        self.finish_current();
        TransmitProgress::Again
    }

    /// Carries out the peer's Atomic that is next to be answered, and answers it.
    #[inline(never)]
    pub(super) fn send_atomic_response(
        &mut self,
        inbound: InboundRequest,
        request: AtomicRequest,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        // An Atomic that cannot be answered now is not carried out now.
        if !budget.admits(UntaggedHeader::LEN, RESPONSE_LEN)
            || !frame::fits(out, budget, UntaggedHeader::LEN, RESPONSE_LEN, None)
        {
            return TransmitProgress::Full;
        }
        let done = match inbound.span {
            Some(span) => {
                if planted!(AtomicTwice) {
                    let _ = mem.atomic(span, request.op);
                }
                mem.atomic(span, request.op)
            }
            None => Err(AtomicError::Revoked),
        };
        let value = match done {
            Ok(value) => value,
            Err(error) => {
                let fault: Fault = match error {
                    AtomicError::Revoked => ProtectionError::InvalidSTag.into(),
                    AtomicError::Misaligned => OperationError::Stream.into(), // RDMAPX-010
                };
                self.fail_with(fault, Some(inbound.about(0)), None);
                return TransmitProgress::Again;
            }
        };
        let response = AtomicResponse {
            id: request.id,
            value,
        };
        let ulp = control(Opcode::AtomicResponse);
        let msn = self.tx.atomic_msn;
        let header = UntaggedHeader::new(true, ulp, 0, Qn::ATOMIC_RESPONSE, msn, 0); // RDMAPX-003
        if !self.put_small(header.as_bytes(), &response.to_bytes(), budget, out) {
            debug_assert!(false, "there was room");
            self.fail(Fault::Local, None);
            return TransmitProgress::Again;
        }
        self.tx.atomic_msn = self.tx.atomic_msn.wrapping_add(1);
        self.counters.sent.atomic_responses += 1;
        self.tx.answered();
        TransmitProgress::Again
    }
}

impl UntaggedSegment<'_> {
    /// The header, as a Terminate carries it.
    pub(super) const fn header(&self) -> ddp::UntaggedHeader {
        ddp::UntaggedHeader::new(
            self.last,
            self.ulp,
            self.ulp_word,
            self.qn,
            self.msn,
            self.mo,
        )
    }
}
