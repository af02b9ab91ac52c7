//! Payload that goes to its place while its FPDU still arrives.
//!
//! The CRC of an FPDU is checked before any of the FPDU is placed (MPA-060). Without CRC and markers, the connection checks
//! the segment, for its whole length, as soon as the header is here. It then places payload as it comes: by a copy of what
//! was received, or by a read of the transport straight to the place ([`Connection::direct_placement`]).
//!
//! Each piece is handled as its own segment, because a sender may end a segment wherever it likes. Terminates and counters show the segment
//! as it came. The last octets of the segment wait until all of it is here, so that the last word of a message is stored last and in one
//! piece.

use super::arriving::{ArrivingFpdu, KEPT};
use super::connection::Connection;
use super::fault::Fault;
use super::frame::to_u32;
use super::receives::{OwnQueue, ReceiveSource};
use super::rx::Handled;
use super::work::WqeStatus;
use crate::ddp::{Header, Segment, TaggedError};
use crate::memory::{Access, Memory, Span};
use crate::mpa::fpdu;
use crate::rdmap::{Opcode, OperationError};
use crate::types::RemoteAddress;

/// The place where the next octets of the stream belong, for one read of the transport. Dropping it changes nothing.
#[derive(Debug)]
pub struct DirectPlacement<'a> {
    connection: &'a mut Connection,
    place: Span,
}

impl DirectPlacement<'_> {
    /// The place. If its memory was revoked meanwhile, read elsewhere and call [`Connection::handle_bytes`], which finds
    /// out.
    pub const fn place(&self) -> Span {
        self.place
    }

    /// The next `octets` of the stream were read into the front of the place. What was read behind the place goes to
    /// [`Connection::handle_bytes`].
    ///
    /// # Panics
    ///
    /// If the place is shorter.
    pub fn placed(self, octets: u32) {
        assert!(
            octets <= self.place.len(),
            "more than there was a place for"
        );
        self.connection.handle_placed(octets);
    }

    /// The transport cannot write to the place, which is registered but not mapped. The connection fails as if the memory had
    /// been revoked: the Receive or the Read that the octets belong to fails, and the peer gets a Terminate. The octets of the FPDU
    /// that still arrive are dropped.
    pub fn refused(self) {
        self.connection.handle_refused();
    }
}

impl Connection {
    /// Where the next octets of the stream belong, if that is known before they are here.
    ///
    /// Known for FPDUs of at least [`StreamConfig::early`](super::StreamConfig::early) octets, when
    /// [`Connection::handle_bytes`] has taken all it was given.
    #[inline]
    pub fn next_place(&self) -> Option<Span> {
        let early = self.rx.early.as_ref().filter(|early| !early.is_dropped)?;
        let free = early.free();
        if free == 0 {
            return None;
        }
        if let Some(target) = early.target {
            return Some(target.slice(early.placed, free));
        }
        let span = self.rx.rest_of_sge(self.rx.received_of_send())?;
        Some(span.slice(0, free.min(span.len())))
    }

    /// [`next_place`](Self::next_place), for a transport that can read straight into it.
    #[inline]
    pub fn direct_placement(&mut self) -> Option<DirectPlacement<'_>> {
        let place = self.next_place()?;
        Some(DirectPlacement {
            connection: self,
            place,
        })
    }

    fn handle_placed(&mut self, octets: u32) {
        let Some(early) = self.rx.early.as_mut() else {
            return debug_assert!(false, "there was a place");
        };
        early.placed += octets;
        let (opcode, header, placed) = (early.opcode, early.header, early.placed);
        self.rx.wanted = early.rest();
        self.counters.received.payload += u64::from(octets);
        if opcode == Opcode::Write {
            self.rx.placed_of_write(octets);
        }
        match header {
            Header::Tagged(header) => {
                let to = header.to().wrapping_add(u64::from(placed));
                self.rx.tagged_goes_on(opcode, header.stag(), to);
            }
            Header::Untagged(_) => {
                let received = self.rx.received_of_send() + octets;
                self.rx.send_goes_on(opcode, received);
            }
        }
        if opcode == Opcode::ReadResponse
            && let Some(read) = self.tx.reads.front_mut()
        {
            read.received += octets;
        }
    }

    #[cold]
    fn handle_refused(&mut self) {
        let Some(early) = &self.rx.early else {
            return debug_assert!(false, "there was a place");
        };
        match early.opcode {
            Opcode::Write => {
                let early = *early;
                self.early_fails(TaggedError::InvalidSTag.into(), &early);
            }
            Opcode::ReadResponse => self.read_sink_is_gone(&[]),
            _ => self.receive_fails(WqeStatus::LocalAccess, Fault::Local, &[]),
        }
    }

    /// Begins to place an FPDU of `octets`, if that is possible. `input` is the front of the FPDU, and shorter. Returns how
    /// many octets of `input` were consumed.
    pub(super) fn begin_early(
        &mut self,
        input: &[u8],
        octets: usize,
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> usize {
        if octets < self.config.early || !self.rx.seen {
            return 0;
        }
        let Some(early) = self.early(input, mem, receives) else {
            return 0;
        };
        let payload_at = fpdu::HEADER_LEN + early.header.as_bytes().len();
        self.rx.wanted = early.rest();
        self.rx.early = Some(early);
        payload_at + self.continue_early(&input[payload_at..], mem)
    }

    /// Checks a whole segment, of which the header is here. A segment that does not pass, or of a kind that is not placed
    /// early, is handled when all of it is here.
    fn early(
        &mut self,
        input: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> Option<ArrivingFpdu> {
        let (length, ulpdu) = input.split_first_chunk()?;
        let length = u16::from_be_bytes(*length);
        let (header, _) = Header::split(ulpdu).ok()?;
        let size = usize::from(length).checked_sub(header.as_bytes().len())?;
        let size = u32::try_from(size).ok().filter(|size| *size > KEPT)?;
        let opcode = Opcode::parse(header.ulp_control()).ok()?;
        let early = ArrivingFpdu {
            header,
            opcode,
            length,
            size,
            placed: 0,
            target: None,
            is_dropped: false,
        };
        let target = match (opcode, early.piece(&[]).ok()?) {
            (Opcode::Write, Segment::Tagged(segment)) => {
                self.continue_tagged(opcode, &segment).ok()?;
                let at = RemoteAddress {
                    stag: segment.stag,
                    to: segment.to,
                };
                let access = Access::RemoteWrite;
                Some(self.check_remote(mem, at, size, access).ok()?)
            }
            (Opcode::ReadResponse, Segment::Tagged(segment)) => {
                let last = header.control() & crate::ddp::LAST != 0;
                Some(self.check_read_response(&segment, size, last).ok()??)
            }
            (opcode, Segment::Untagged(segment)) if opcode.is_send() => {
                let received = self.check_on_send_queue(opcode, &segment).ok()?;
                let (receive, _) = self.receive.current_or_drawn(receives, &self.sizes)?;
                let capacity = receive.length;
                received
                    .checked_add(size)
                    .filter(|total| *total <= capacity)?;
                if !self.find_receive(mem) {
                    return None;
                }
                None
            }
            _ => return None,
        };
        Some(ArrivingFpdu { target, ..early })
    }

    /// Places the octets of the arriving FPDU that are here, if there is one. Returns how many octets were consumed.
    #[inline]
    pub(super) fn continue_early(&mut self, input: &[u8], mem: &impl Memory) -> usize {
        let Some(early) = self.rx.early else {
            return 0;
        };
        let whole = input.len() >= early.rest();
        let payload = if whole {
            early.left()
        } else {
            early.free().min(to_u32(input.len()))
        };
        if early.is_dropped {
            self.drop_piece(&early, whole);
        } else if payload > 0 {
            let handled = self.handle_piece(&early, &input[..payload as usize], mem);
            if let Err(fault) = handled {
                self.early_fails(fault, &early);
                if whole {
                    self.drop_piece(&early, true);
                }
            }
        }
        if whole {
            // The last piece may have ended the stream, and the FPDU with it.
            if self.rx.early.take().is_some() {
                self.rx.wanted = fpdu::MIN_LEN;
            }
            self.counters.received.fpdus += 1;
            self.counters.received.octets += fpdu::fpdu_len(usize::from(early.length)) as u64;
            return early.rest();
        }
        if let Some(early) = &mut self.rx.early {
            early.placed += payload;
            self.rx.wanted = early.rest();
        }
        payload as usize
    }

    fn handle_piece(
        &mut self,
        early: &ArrivingFpdu,
        payload: &[u8],
        mem: &impl Memory,
    ) -> Result<Handled, Fault> {
        match (early.opcode, early.piece(payload)?) {
            (Opcode::Write, Segment::Tagged(segment)) => self.receive_write(&segment, mem),
            (_, Segment::Tagged(segment)) => self.receive_read_response(&segment, &[], mem),
            (opcode, Segment::Untagged(segment)) if opcode.is_send() => {
                // The Send has had its Receive from its first octet on.
                self.receive_send(opcode, &segment, &[], mem, OwnQueue)
            }
            (_, Segment::Untagged(_)) => {
                debug_assert!(false, "only Sends, Writes and Read Responses begin early");
                Err(OperationError::UnexpectedOpcode.into())
            }
        }
    }
}
