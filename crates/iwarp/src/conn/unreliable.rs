//! Unreliable delivery: what the peer sends and this side cannot take is dropped, and so are requests when the peer is gone.
//!
//! What breaks the protocol ends the stream as ever: framing, CRC, headers, numbers and offsets. The checks are those of reliable
//! delivery. A segment that fails one of them comes here, and here is decided which of the failures are the client's business:
//!
//! | message | dropped if |
//! |---|---|
//! | Send | it finds no Receive, or is longer than its Receive, or may not invalidate its STag |
//! | Immediate Data | it finds no Receive, or the Write before it was dropped |
//! | Write | its memory is refused |
//! | Read Request, Atomic Request | always, without an answer |
//!
//! A message is dropped from the segment on that fails, and its later segments are dropped whatever becomes of them. Octets of earlier
//! segments stay where they are: in the memory that a Write names, or in the Receive, which the next message takes.
//!
//! The peer never fails the queue pair. Its end, its Terminate, and a fault in what it sends end the stream; open requests are dropped,
//! later ones too, and Receives stay posted. Dropped requests succeed. An error of this side fails the connection as ever.

use super::arriving::ArrivingFpdu;
use super::config::{Confirmations, Delivery, StreamConfig};
use super::connection::Connection;
use super::fault::Fault;
use super::frame::to_u32;
use super::phase::Phase;
use super::rx::{SendUnderWay, TaggedUnderWay, WRITE_DROPPED, check_untagged};
use super::terminated::TerminatedHeaders;
use crate::ddp::{
    Header, LAST, Qn, Segment, TaggedError, TaggedSegment, UntaggedError, UntaggedSegment,
};
use crate::rdmap::{Opcode, OperationError, ProtectionError};
use crate::types::ReadLimits;

/// Returns true if a Send that fails in this way is dropped.
const fn is_send_dropped(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Untagged(UntaggedError::NoBuffer | UntaggedError::TooLong)
            | Fault::Protection(ProtectionError::CannotInvalidate)
    )
}

impl Connection {
    /// Sets what becomes of messages that this side cannot take, and of requests when the peer is gone. Called before the start.
    ///
    /// With [`Delivery::Unreliable`] Receives [stay](Self::keep_receives), Writes are done when they are sent, and the read limits are 0,
    /// so that a Read or an Atomic fails the connection: refuse them before the post.
    pub const fn set_delivery(&mut self, delivery: Delivery) {
        self.delivery = delivery;
        self.keeps_receives |= matches!(delivery, Delivery::Unreliable);
    }

    /// The configuration of a stream as the delivery has it.
    pub(super) const fn as_delivered(&self, config: StreamConfig) -> StreamConfig {
        match self.delivery {
            Delivery::Reliable => config,
            Delivery::Unreliable => StreamConfig {
                // No Read or Atomic of the peer finds a buffer.
                limits: ReadLimits { ird: 0, ord: 0 },
                confirmations: Confirmations::Off,
                ..config
            },
        }
    }

    /// A whole segment was not handled, because of `fault`.
    #[cold]
    pub(super) fn segment_fails(&mut self, fault: Fault, ulpdu: &[u8]) {
        if self.delivery == Delivery::Reliable {
            return self.fail_with(fault, TerminatedHeaders::ulpdu(ulpdu), None);
        }
        match self.drops(fault, ulpdu) {
            Ok(()) if !core::mem::replace(&mut self.rx.seen, true) => self.heard_first(ulpdu),
            Ok(()) => {}
            Err(fault) => self.fail_with(fault, TerminatedHeaders::ulpdu(ulpdu), None),
        }
    }

    /// Drops a segment, unless it breaks the protocol.
    fn drops(&mut self, fault: Fault, ulpdu: &[u8]) -> Result<(), Fault> {
        let segment = Segment::parse(ulpdu)?;
        let ulp = match &segment {
            Segment::Tagged(segment) => segment.ulp,
            Segment::Untagged(segment) => segment.ulp,
        };
        match (Opcode::parse(ulp)?, segment) {
            (Opcode::Write, Segment::Tagged(segment)) => self.drop_write(&segment),
            (opcode, Segment::Untagged(segment)) if opcode.is_send() => {
                self.drop_send(opcode, &segment, fault)
            }
            (opcode, Segment::Untagged(_)) if opcode.is_immediate() && is_no_buffer(fault) => {
                self.drop_number();
                Ok(())
            }
            (Opcode::ReadRequest | Opcode::AtomicRequest, _) if is_no_buffer(fault) => {
                self.rx.next_request();
                self.counters.dropped_messages += 1;
                Ok(())
            }
            _ => Err(fault),
        }
    }

    /// A segment of a Write that is dropped, or that is refused.
    fn drop_write(&mut self, segment: &TaggedSegment<'_>) -> Result<(), Fault> {
        if let Some(under_way) = self.rx.tagged {
            if under_way.opcode != Opcode::Write {
                return Err(OperationError::UnexpectedOpcode.into());
            }
            if under_way.stag != segment.stag {
                return Err(TaggedError::InvalidSTag.into());
            }
            if under_way.to != segment.to {
                return Err(TaggedError::Bounds.into());
            }
        }
        self.begin_dropped_write();
        self.rx.tagged = (!segment.last).then(|| TaggedUnderWay {
            opcode: Opcode::Write,
            stag: segment.stag,
            to: segment.to.wrapping_add(segment.payload.len() as u64),
            is_dropped: true,
        });
        Ok(())
    }

    fn begin_dropped_write(&mut self) {
        if !self.rx.tagged.is_some_and(|under_way| under_way.is_dropped) {
            self.counters.dropped_messages += 1;
            self.rx.written = WRITE_DROPPED;
        }
    }

    /// A segment of a Send that is dropped, or that fails in a way for which it is dropped.
    fn drop_send(
        &mut self,
        opcode: Opcode,
        segment: &UntaggedSegment<'_>,
        fault: Fault,
    ) -> Result<(), Fault> {
        let received = self.rx.received_of_send();
        check_untagged(segment, (Qn::SEND, self.rx.send_msn, received))?;
        let under_way = self.rx.send;
        if under_way.is_some_and(|send| send.opcode != opcode) {
            return Err(OperationError::UnexpectedOpcode.into());
        }
        let was_dropped = under_way.is_some_and(|send| send.is_dropped);
        if !was_dropped {
            if !is_send_dropped(fault) {
                return Err(fault);
            }
            self.counters.dropped_messages += 1;
            self.rx.announced = None; // its number goes with it
        }
        // DDP-041
        let received = received
            .checked_add(to_u32(segment.payload.len()))
            .ok_or(UntaggedError::TooLong)?;
        if segment.last {
            self.end_message();
        } else {
            self.rx.send = Some(SendUnderWay {
                opcode,
                received,
                is_dropped: true,
            });
        }
        Ok(())
    }

    /// Immediate Data that finds no Receive, or whose Write was dropped.
    #[cold]
    pub(super) fn drop_number(&mut self) {
        self.counters.dropped_messages += 1;
        self.rx.written = 0;
        self.end_message();
    }

    /// A segment that is placed while it arrives cannot be placed any further.
    #[cold]
    pub(super) fn early_fails(&mut self, fault: Fault, early: &ArrivingFpdu) {
        let is_dropped = self.delivery == Delivery::Unreliable
            && early.opcode == Opcode::Write
            && matches!(fault, Fault::Tagged(_));
        if !is_dropped {
            return self.fail_with(fault, Some(early.about()), None);
        }
        self.begin_dropped_write();
        if let Some(early) = &mut self.rx.early {
            early.is_dropped = true;
        }
    }

    /// Octets of a segment have arrived that is not placed any further: its last ones, if it is `whole`.
    #[cold]
    pub(super) fn drop_piece(&mut self, early: &ArrivingFpdu, whole: bool) {
        if !whole || !self.is_running() {
            return;
        }
        let Header::Tagged(header) = early.header else {
            return debug_assert!(false, "only Writes are dropped in part");
        };
        let is_last = header.control() & LAST != 0;
        self.rx.tagged = (!is_last).then(|| TaggedUnderWay {
            opcode: Opcode::Write,
            stag: header.stag(),
            to: header.to().wrapping_add(u64::from(early.size)),
            is_dropped: true,
        });
    }

    /// Drops all open requests, with success. After the start the stream carries nothing more.
    #[cold]
    pub(super) fn drop_requests(&mut self) {
        if self.phase != Phase::Idle {
            self.rx.peer_closed = true; // from now on every request is dropped
            self.enter(Phase::Closed);
        }
        self.counters.dropped_requests += self.initiator.drop_open();
    }
}

fn is_no_buffer(fault: Fault) -> bool {
    fault == UntaggedError::NoBuffer.into()
}
