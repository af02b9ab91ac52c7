//! Makes FPDUs from requests, from the peer's Reads and from faults. `outbound` says which comes next.

use super::batch::{MAX_PARTS, TxBatch};
use super::connection::Connection;
use super::frame::{self, Budget, Framing};
use super::phase::FailingRequest;
use super::tx::{
    OutboundRequest, QueuedTerminate, RequestHeader, RequestProgress, RequestPurpose,
    TransmitProgress,
};
use super::work::{Operation, WqeStatus};
use crate::ddp::{Qn, TaggedHeader, UntaggedHeader};
use crate::memory::{BindError, LocalAccess, Memory, Revoked, Span};
use crate::mpa::{Crc, Ready, fpdu, marker};
use crate::rdmap::{Opcode, ProtectionError, ReadRequest, Terminate, TerminateCode, control};
use crate::types::{RemoteAddress, STag, Sge};

/// The address in an empty tagged message. Adapters refuse STag 0 even there (PEER-035).
const NOWHERE: RemoteAddress = RemoteAddress {
    stag: STag(1),
    to: 0,
};

/// A message of segments, as its headers have it.
#[derive(Clone, Copy)]
enum Message {
    /// A Send, with the value of its STag field (RDMAP-008, RDMAP-010).
    Send { opcode: Opcode, word: u32 },
    /// A Write, with the address of its first octet.
    Write {
        remote: RemoteAddress,
        /// Immediate Data of the same request follows.
        is_followed: bool,
    },
}

impl Connection {
    /// Makes the next FPDU of the upcoming request, or carries a local request out.
    pub(super) fn send_own(
        &mut self,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let message = match self.initiator.get(self.initiator.next).operation {
            Operation::Immediate { data, .. }
            | Operation::WriteImmediate {
                immediate: data, ..
            } if self.seems_to_announce(data) => {
                self.tx.failing = Some(FailingRequest::Unstarted(WqeStatus::InvalidRequest));
                return TransmitProgress::Again;
            }
            Operation::Send {
                solicited,
                invalidate,
                ..
            } => Message::Send {
                opcode: Opcode::send(solicited, invalidate.is_some()),
                word: invalidate.map_or(0, |stag| stag.0),
            },
            Operation::SendImmediate {
                number, solicited, ..
            } => {
                let is_announced = self.tx.current.is_some_and(|current| current.is_half_done);
                if !is_announced {
                    return self.announce(number, mem, budget, out);
                }
                Message::Send {
                    opcode: Opcode::send(solicited, false),
                    word: 0,
                }
            }
            Operation::Write { remote, .. } => Message::Write {
                remote,
                is_followed: false,
            },
            Operation::WriteImmediate {
                remote,
                immediate,
                solicited,
                ..
            } => {
                let is_written = self.tx.current.is_some_and(|current| current.is_half_done);
                if is_written {
                    return self.send_immediate((immediate, solicited), mem, budget, out);
                }
                Message::Write {
                    remote: match self.initiator.get(self.initiator.next).length {
                        0 => NOWHERE,
                        _ => remote,
                    },
                    is_followed: true,
                }
            }
            Operation::Read { remote, .. } => {
                return self.send_read_request(remote, mem, budget, out);
            }
            Operation::Immediate { data, solicited } => {
                return self.send_immediate((data, solicited), mem, budget, out);
            }
            Operation::Atomic { op, remote, .. } => {
                return self.send_atomic_request((op, remote), mem, budget, out);
            }
            Operation::Bind(bind) => return self.finish_local(mem.bind(&bind, self.scope)),
            Operation::Invalidate(_) if planted!(InvalidateForgotten) => {
                return self.finish_local(Ok(()));
            }
            Operation::Invalidate(window) => {
                return self.finish_local(mem.unbind(window, self.scope));
            }
        };
        self.send_segment(message, mem, budget, out)
    }

    /// The progress of the upcoming request. If the request has not begun, its buffers are checked and it begins. `None` if
    /// a buffer does not pass.
    #[inline(never)]
    pub(super) fn begun(
        &mut self,
        mem: &impl Memory,
        need: LocalAccess,
    ) -> Option<RequestProgress> {
        self.begun_here(mem, need)
    }

    /// As [`begun`](Self::begun), inlined for Sends and Writes, because a call per FPDU costs measurable time.
    #[inline(always)]
    fn begun_here(&mut self, mem: &impl Memory, need: LocalAccess) -> Option<RequestProgress> {
        if self.tx.current.is_some() {
            return self.tx.current;
        }
        let at = self.initiator.next;
        if need == LocalAccess::ReadSink && self.config.limits.ord == 0 {
            self.tx.failing = Some(FailingRequest::Unstarted(WqeStatus::InvalidRequest)); // RFC 5040 section 6.1
            return None;
        }
        self.tx.spans.clear();
        for sge in self.initiator.sges(at) {
            let span = match sge.length {
                0 => Ok(Span::new(0, 0, 0, 0, 0)), // only counts, is never read
                _ => mem.check_local(*sge, need, self.scope.pd),
            };
            let Ok(span) = span else {
                self.tx.spans.clear();
                self.tx.failing = Some(FailingRequest::Unstarted(WqeStatus::LocalAccess));
                return None;
            };
            self.tx.spans.push(span);
        }
        if need == LocalAccess::ReadSink {
            self.initiator.open_reads += 1;
        }
        self.tx.current = Some(RequestProgress::default());
        self.tx.current
    }

    fn finish_local(&mut self, result: Result<(), BindError>) -> TransmitProgress {
        match result {
            Ok(()) => {
                let asks = self.initiator.finish_local(self.tx.handed);
                if self.initiator.confirms_on_demand() {
                    self.tx.count_unconfirmed(asks);
                }
            }
            // Not LocalAccess: no memory was to be read or written.
            Err(BindError::InvalidState | BindError::Access) => {
                self.tx.failing = Some(FailingRequest::Unstarted(WqeStatus::InvalidRequest));
            }
        }
        TransmitProgress::Again
    }

    /// Makes the next segment of the current Send or Write. Segments cover the message in rising order (DDP-042, DDP-046).
    /// A message of no octets has one segment (DDP-043). One request is one message (RDMAP-012), and a Write goes to one
    /// STag (RDMAP-020).
    fn send_segment(
        &mut self,
        message: Message,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let Some(current) = self.begun_here(mem, LocalAccess::Read) else {
            return TransmitProgress::Again;
        };
        let at = self.initiator.next;
        let request = self.initiator.get(at);
        let inline = request.inline;
        let left = request.length - current.offset;
        let header_len = match message {
            Message::Write { .. } => TaggedHeader::LEN,
            Message::Send { .. } => UntaggedHeader::LEN,
        };
        let most = budget.payload(header_len, left);
        let in_place = if self.must_copy() || inline || most < self.config.copied_below {
            None
        } else {
            let parts = match &*self.tx.spans {
                [_] => 1,
                spans => pieces(spans, current, most).count(),
            };
            let spans = || pieces(&self.tx.spans, current, most);
            let fits = parts <= MAX_PARTS - 2;
            (fits && !self.is_slow_in_place(mem, budget, header_len, spans)).then_some(parts)
        };
        let len = match in_place {
            Some(_) => most,
            None => most.min(budget.copied_at_most(header_len)),
        };
        if !budget.admits(header_len, len) || !frame::fits(out, budget, header_len, len, in_place) {
            return TransmitProgress::Full;
        }
        let last = len == left; // DDP-021
        let (tagged, untagged);
        let header: &[u8] = match message {
            Message::Write { remote, .. } => {
                let to = remote.to.wrapping_add(u64::from(current.offset));
                tagged = TaggedHeader::new(last, control(Opcode::Write), remote.stag, to);
                tagged.as_bytes()
            }
            Message::Send { opcode, word } => {
                let msn = self.tx.send_msn; // DDP-034: the next one begins when the last segment is made
                // DDP-035
                untagged =
                    UntaggedHeader::new(last, control(opcode), word, Qn::SEND, msn, current.offset);
                untagged.as_bytes()
            }
        };
        let result = if in_place.is_some() {
            let spans = pieces(&self.tx.spans, current, len);
            Ok(frame::put_in_place(out, header, len, spans))
        } else if inline {
            let from = current.offset as usize;
            let data = &self.initiator.inline(at)[from..from + len as usize];
            frame::put_copied(out, self.framing(), header, len, |buffer, sum| {
                buffer.copy_from_slice(data);
                if let Some(sum) = sum {
                    sum.update(buffer);
                }
                Ok(())
            })
        } else {
            let spans = pieces(&self.tx.spans, current, len);
            frame::put_copied(out, self.framing(), header, len, |buffer, sum| {
                fetch_all(mem, spans, buffer, sum)
            })
        };
        match result {
            Ok(octets) => {
                self.made(budget, octets, len);
                self.advance(message, current, len, last);
            }
            Err(Revoked) if current.offset == 0 => {
                self.tx.current = None;
                self.tx.failing = Some(FailingRequest::Unstarted(WqeStatus::LocalAccess));
            }
            Err(Revoked) => self.tx.failing = Some(FailingRequest::Cut(WqeStatus::LocalAccess)),
        }
        TransmitProgress::Again
    }

    /// Notes that `len` more octets of the current message are made.
    #[inline]
    fn advance(&mut self, message: Message, mut current: RequestProgress, len: u32, last: bool) {
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
        let Message::Write { is_followed, .. } = message else {
            return self.finish_message(false);
        };
        if is_followed {
            self.counters.sent.writes += 1;
            current.offset += len;
            current.is_half_done = true;
            self.tx.current = Some(current);
            return;
        }
        self.finish_message(true);
    }

    /// Notes that all of the current message is made: of a Write, or of a Send.
    #[inline]
    pub(super) fn finish_message(&mut self, is_write: bool) {
        if is_write {
            let request = self.initiator.get(self.initiator.next);
            self.counters.sent.writes += 1;
            self.tx.unconfirmed += u32::from(request.confirmed);
        } else {
            self.counters.sent.sends += 1;
            self.tx.send_msn = self.tx.send_msn.wrapping_add(1); // DDP-032, RDMAP-069
        }
        self.finish_current();
    }

    /// Notes that all of the current request is made.
    pub(super) fn finish_current(&mut self) {
        let asks = self.initiator.handed_over(self.tx.handed);
        if self.initiator.confirms_on_demand() {
            self.tx.count_unconfirmed(asks);
        }
        self.tx.current = None;
        self.tx.spans.clear();
        self.tx.response_turn = true;
    }

    /// Makes the next Read Request of the current Read. There is one for each SGE that is not empty (RDMAP-053), and one
    /// for a Read of no octets.
    fn send_read_request(
        &mut self,
        remote: RemoteAddress,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let Some(mut current) = self.begun(mem, LocalAccess::ReadSink) else {
            return TransmitProgress::Again;
        };
        let at = self.initiator.next;
        let length = self.initiator.get(at).length;
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
        let last = size == length - current.offset;
        if !self.put_read_request(ReadRequest { sink, size, source }, budget, out) {
            return TransmitProgress::Full;
        }
        self.tx.reads.push_back(OutboundRequest {
            purpose: RequestPurpose::Request(at),
            sink,
            span,
            size,
            received: 0,
            last,
            atomic: None,
            end: self.tx.handed,
        });
        self.tx.unconfirmed = 0; // its answer confirms the Writes before it
        if last {
            self.finish_current();
        } else {
            current.offset += size;
            current.part = part.map_or(current.part, |part| part + 1);
            self.tx.current = Some(current);
            self.tx.response_turn = true;
        }
        TransmitProgress::Again
    }

    fn put_read_request(
        &mut self,
        request: ReadRequest,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let made = self.put_request(Opcode::ReadRequest, &request.to_bytes(), budget, out);
        self.counters.sent.read_requests += u64::from(made);
        made
    }

    /// A message of one segment on QN 1, its Invalidate STag zero (RDMAP-008, RDMAPX-003).
    pub(super) fn put_request(
        &mut self,
        opcode: Opcode,
        payload: &[u8],
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let msn = self.tx.read_msn;
        let header = UntaggedHeader::new(true, control(opcode), 0, Qn::READ_REQUEST, msn, 0);
        let made = self.put_small(header.as_bytes(), payload, budget, out);
        if made {
            self.tx.read_msn = self.tx.read_msn.wrapping_add(1);
        }
        made
    }

    /// RFC 6581 section 9.2, as a zero-length message.
    pub(super) fn send_ready_message(
        &mut self,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let made = match self.tx.ready {
            None => return out_of_turn(),
            Some(Ready::Write) => {
                let header = empty_write(self.ready_to());
                let made = self.put_small(header.as_bytes(), &[], budget, out);
                self.counters.sent.writes += u64::from(made);
                made
            }
            Some(Ready::Read) => self.put_empty_read(RequestPurpose::Ready, budget, out),
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
            return TransmitProgress::Full;
        }
        self.tx.ready = None;
        TransmitProgress::Again
    }

    /// Makes a Read of no octets behind the Writes made so far. The peer answers when it has placed these Writes (RFC 5040
    /// section 5.5).
    #[cold]
    #[inline(never)]
    pub(super) fn send_confirmation(
        &mut self,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let before = RequestPurpose::Confirmation(self.initiator.next);
        if !self.put_empty_read(before, budget, out) {
            return TransmitProgress::Full;
        }
        self.tx.unconfirmed = 0;
        self.tx.is_confirming = self.initiator.confirms_on_demand();
        self.tx.response_turn = true;
        TransmitProgress::Again
    }

    /// A Read of no octets, which belongs to no request.
    #[inline(never)]
    fn put_empty_read(
        &mut self,
        purpose: RequestPurpose,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let request = ReadRequest {
            sink: NOWHERE,
            size: 0,
            source: NOWHERE,
        };
        let made = self.put_read_request(request, budget, out);
        if made {
            self.tx.reads.push_back(OutboundRequest {
                purpose,
                sink: NOWHERE,
                span: None,
                size: 0,
                received: 0,
                last: true,
                atomic: None,
                end: self.tx.handed,
            });
        }
        made
    }

    /// Makes the next segment of the response to the peer's oldest Read (RFC 5040 section 5.2.2). The response to a Read of
    /// no octets is only a header (RDMAP-040).
    pub(super) fn send_response(
        &mut self,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let Some(&response) = self.tx.responses.front() else {
            return out_of_turn();
        };
        let ReadRequest { sink, size, .. } = match response.inbound.asked {
            RequestHeader::Read(request) => request,
            RequestHeader::Atomic(request) => {
                return self.send_atomic_response(response.inbound, request, mem, budget, out);
            }
        };
        let left = size - response.made;
        let most = budget.payload(TaggedHeader::LEN, left);
        let source = response.inbound.span;
        let spans = |len| {
            source
                .map(|span| span.slice(response.made, len))
                .into_iter()
        };
        let in_place = !self.must_copy()
            && most >= self.config.copied_below
            && !self.is_slow_in_place(mem, budget, TaggedHeader::LEN, || spans(most));
        let copied = budget.copied_at_most(TaggedHeader::LEN);
        let len = if in_place { most } else { most.min(copied) };
        if !budget.admits(TaggedHeader::LEN, len)
            || !frame::fits(out, budget, TaggedHeader::LEN, len, in_place.then_some(1))
        {
            return TransmitProgress::Full;
        }
        let last = len == left; // DDP-021
        // RDMAP-035: the sink is copied, not interpreted.
        let to = sink.to.wrapping_add(u64::from(response.made));
        let header = TaggedHeader::new(last, control(Opcode::ReadResponse), sink.stag, to);
        let span = source
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
                self.framing(),
                header.as_bytes(),
                len,
                |buffer, sum| fetch_all(mem, span.into_iter(), buffer, sum),
            )
        };
        let Ok(octets) = result else {
            // The source was deregistered during the Read: RDMAP-066, RDMAP-079.
            let about = response.inbound.about(response.made);
            self.fail_with(ProtectionError::InvalidSTag.into(), Some(about), None);
            return TransmitProgress::Again;
        };
        let start = self.tx.handed;
        self.made(budget, octets, len);
        if in_place {
            self.tx.note_run(&response, len, start);
        }
        if last {
            self.tx.answered();
            self.counters.sent.read_responses += 1;
        } else if let Some(response) = self.tx.responses.front_mut() {
            response.made += len;
        }
        TransmitProgress::Again
    }

    /// The last FPDU of the stream (RDMAP-071).
    pub(super) fn send_terminate(
        &mut self,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        let Some(last) = self.tx.terminate else {
            return out_of_turn();
        };
        let (octets, len) = last.terminate.to_bytes();
        let start = self.tx.handed;
        if !self.put_small(TERMINATE_HEADER.as_bytes(), &octets[..len], budget, out) {
            return TransmitProgress::Full;
        }
        self.tx.terminate = Some(QueuedTerminate {
            made_at: Some(start),
            ..last
        });
        self.counters.sent.terminates += 1;
        TransmitProgress::Again
    }

    /// A message of one segment whose payload is made here.
    pub(super) fn put_small(
        &mut self,
        header: &[u8],
        payload: &[u8],
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let Ok(len) = u32::try_from(payload.len()) else {
            return false;
        };
        if !budget.admits(header.len(), len) || !frame::fits(out, budget, header.len(), len, None) {
            return false;
        }
        let made = frame::put_copied(out, self.framing(), header, len, |buffer, sum| {
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

    #[inline]
    pub(super) fn made(&mut self, budget: &mut Budget, octets: usize, payload: u32) {
        budget.spend(octets);
        self.tx.handed += octets as u64;
        self.counters.sent.fpdus += 1;
        self.counters.sent.payload += u64::from(payload);
    }

    /// Returns true if payload has to be copied, because a CRC, a capture or markers in the middle need a private copy.
    const fn must_copy(&self) -> bool {
        self.tx.copies
    }

    /// Returns true if the transport's copy of the next payload would be slow if it read one of these parts in place.
    #[inline]
    fn is_slow_in_place<S: Iterator<Item = Span>>(
        &self,
        mem: &impl Memory,
        budget: &Budget,
        header_len: usize,
        spans: impl FnOnce() -> S,
    ) -> bool {
        self.has_slow_places()
            && has_slow(
                mem,
                budget.octets() + fpdu::HEADER_LEN + header_len,
                spans(),
            )
    }

    /// The framing of the next FPDU.
    #[inline]
    pub(super) fn framing(&self) -> Framing {
        Framing {
            crc: self.config.crc,
            markers: self.config.markers.sent, // MPA-032, MPA-034
            position: self.tx.handed,
        }
    }
}

/// A Write of no octets, whose TO means nothing to the receiver's memory.
pub(super) const fn empty_write(to: u64) -> TaggedHeader {
    TaggedHeader::new(true, control(Opcode::Write), NOWHERE.stag, to)
}

/// A source has nothing to make an FPDU from. `next_source` never chooses such a source.
#[cold]
fn out_of_turn() -> TransmitProgress {
    debug_assert!(false, "nothing is there to be sent");
    TransmitProgress::Full
}

/// Untagged, QN 2, MSN 1, MO 0, L 1, Invalidate STag zero (RDMAP-007, RDMAP-008, RDMAP-070).
const TERMINATE_HEADER: UntaggedHeader =
    UntaggedHeader::new(true, control(Opcode::Terminate), 0, Qn::TERMINATE, 1, 0);

/// A whole FPDU with a Terminate without headers, for an Initiator that has no [`Connection`] yet: it ends the stream
/// because it cannot accept the Reply, 2/0/05 to 2/0/07 (RFC 6581 sections 8 and 9).
///
/// `crc` and `markers` are what the two start-up frames ask for in this direction (MPA2-037).
pub fn terminate_frame(code: TerminateCode, crc: bool, markers: bool) -> Vec<u8> {
    let (octets, len) = Terminate::new(code).to_bytes();
    let mut ulpdu = TERMINATE_HEADER.to_bytes().to_vec();
    ulpdu.extend_from_slice(&octets[..len]);
    let mut frame = Vec::with_capacity(fpdu::fpdu_len(ulpdu.len()));
    if markers {
        marker::put(&mut frame, &ulpdu, crc, 0);
    } else {
        fpdu::put(&mut frame, &ulpdu, crc);
    }
    frame
}

/// The parts of buffers that hold the next `len` octets of a message.
#[inline]
fn pieces(spans: &[Span], current: RequestProgress, len: u32) -> impl Iterator<Item = Span> {
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

/// Returns true if one of these pieces, which lie one behind the other in the stream, is slow in place.
#[inline(never)]
fn has_slow(mem: &impl Memory, mut ahead: usize, mut pieces: impl Iterator<Item = Span>) -> bool {
    pieces.any(|piece| {
        let slow = mem.is_slow_in_place(piece, ahead);
        ahead += piece.len() as usize;
        slow
    })
}

/// Copies all pieces, one behind the other, and adds them to the CRC.
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
