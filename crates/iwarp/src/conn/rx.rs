//! State of the inbound half.

use core::time::Duration;
use std::time::Instant;

use super::arriving::ArrivingFpdu;
use super::fault::Fault;
use super::phase::Cause;
use super::terminated::TerminatedHeaders;
use crate::ddp::{Qn, UntaggedError, UntaggedSegment};
use crate::memory::Span;
use crate::mpa::fpdu;
use crate::rdmap::Opcode;
use crate::types::STag;

/// In the place of the octets that a Write has placed: the Write was dropped.
pub(super) const WRITE_DROPPED: u64 = u64::MAX;

/// State of the inbound half.
#[derive(Debug)]
pub(super) struct Rx {
    /// Next message number of QN 0. Each queue and each direction has its own numbers (DDP-033).
    pub(super) send_msn: u32,
    /// Next message number of QN 1.
    pub(super) read_msn: u32,
    /// Next message number of QN 3.
    pub(super) atomic_msn: u32,
    /// The current Send, if its last segment has not come.
    pub(super) send: Option<SendUnderWay>,
    /// The current tagged message.
    pub(super) tagged: Option<TaggedUnderWay>,
    /// Buffers of the current Receive, once the first payload has arrived.
    pub(super) spans: Vec<Span>,
    /// The FPDU that is placed while it arrives, until its end is here.
    pub(super) early: Option<ArrivingFpdu>,
    /// A good FPDU has arrived.
    pub(super) seen: bool,
    pub(super) stall: Option<Stall>,
    pub(super) wanted: usize,
    /// The peer's FIN has arrived, or waits behind a stalled message.
    pub(super) peer_closed: bool,
    pub(super) end_waits: bool,
    /// From then on no request of this side is carried out, though responses may still have to leave.
    pub(super) flushed: bool,
    /// A Read Request that is refused once the earlier ones are answered (RDMAP-034). What follows it is dropped.
    pub(super) refusal: Option<(Fault, TerminatedHeaders)>,
    /// Why the stream failed.
    pub(super) cause: Option<Cause>,
    /// Octets that the last Write has placed. 0 if Immediate Data has followed, and [`WRITE_DROPPED`] if the Write was dropped.
    pub(super) written: u64,
    /// The octets that have announced the next Send.
    pub(super) announced: Option<[u8; 4]>,
    /// When the owner first passed the time while an announced Send waited for the peer's first FPDU.
    pub(super) unheard_since: Option<Instant>,
    /// Position in the stream of the first octet of the input, as markers count it.
    pub(super) origin: u64,
    /// How far the stream was looked at while a Send waits.
    pub(super) ahead: Option<Ahead>,
    /// The ULPDU of an FPDU with markers inside. Empty between two calls.
    pub(super) unmarked: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SendUnderWay {
    pub(super) opcode: Opcode,
    pub(super) received: u32,
    /// Its segments are not placed, and it is not delivered.
    pub(super) is_dropped: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TaggedUnderWay {
    pub(super) opcode: Opcode,
    pub(super) stag: STag,
    /// Where the next segment has to begin.
    pub(super) to: u64,
    /// Its segments are not placed.
    pub(super) is_dropped: bool,
}

/// The wait of an inbound Send for a Receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    /// When the owner first passed the time after the wait had begun.
    pub(super) since: Option<Instant>,
    pub(super) about: Option<TerminatedHeaders>,
}

/// How far the stream was looked at, while a Send waits for a Receive and until all before is handled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// Octets of the stream before the first FPDU that was not looked at.
    pub(super) until: u64,
    /// The Read Response that is under way there.
    pub(super) tagged: Option<TaggedUnderWay>,
    /// The next FPDU is wrong, and has to wait for its turn.
    pub(super) is_over: bool,
}

/// How a segment was handled.
pub(super) enum Handled {
    Done,
    /// The segment waits for a Receive and has to be passed again.
    Stalled,
}

impl Rx {
    pub(super) fn new(receive_sges: usize, msn: u32, origin: u64) -> Self {
        Self {
            send_msn: msn,
            read_msn: msn,
            atomic_msn: msn,
            send: None,
            tagged: None,
            spans: Vec::with_capacity(receive_sges),
            early: None,
            seen: false,
            stall: None,
            wanted: fpdu::MIN_LEN,
            peer_closed: false,
            flushed: false,
            end_waits: false,
            refusal: None,
            cause: None,
            written: 0,
            announced: None,
            unheard_since: None,
            origin,
            ahead: None,
            unmarked: Vec::new(),
        }
    }

    /// A Read or Atomic Request has been taken.
    pub(super) const fn next_request(&mut self) {
        self.read_msn = self.read_msn.wrapping_add(1);
    }

    /// An Atomic Response has been taken.
    pub(super) const fn next_atomic_response(&mut self) {
        self.atomic_msn = self.atomic_msn.wrapping_add(1);
    }

    /// Checks that an Atomic Response is the next one, has one segment, and is not inside another untagged message.
    pub(super) fn check_atomic_response(
        &self,
        segment: &UntaggedSegment<'_>,
    ) -> Result<(), UntaggedError> {
        check_untagged(segment, (Qn::ATOMIC_RESPONSE, self.atomic_msn, 0))?;
        self.check_single(segment)
    }

    /// Checks that a message has one segment and is not inside another untagged message.
    pub(super) const fn check_single(
        &self,
        segment: &UntaggedSegment<'_>,
    ) -> Result<(), UntaggedError> {
        if !segment.last {
            return Err(UntaggedError::InvalidMo); // RDMAP-032
        }
        if self.send.is_some() {
            return Err(UntaggedError::InvalidQn); // DDP-030, OPEN-10
        }
        Ok(())
    }

    /// Octets of the current Send.
    pub(super) fn received_of_send(&self) -> u32 {
        self.send.map_or(0, |send| send.received)
    }

    /// The buffer of the current Receive that takes octet `at` of the message, from this octet on. `None` behind the last
    /// buffer.
    pub(super) fn rest_of_sge(&self, at: u32) -> Option<Span> {
        let mut skip = at;
        for span in &self.spans {
            if let Some(rest) = span.len().checked_sub(skip).filter(|rest| *rest > 0) {
                return Some(span.slice(skip, rest));
            }
            skip -= span.len();
        }
        None
    }

    /// `received` octets of a Send have arrived, and more follow.
    pub(super) const fn send_goes_on(&mut self, opcode: Opcode, received: u32) {
        self.send = Some(SendUnderWay {
            opcode,
            received,
            is_dropped: false,
        });
    }

    /// `octets` more of a Write are placed, which begins with them or is under way.
    #[inline]
    pub(super) const fn placed_of_write(&mut self, octets: u32) {
        if self.tagged.is_none() {
            self.written = 0;
        }
        self.written += octets as u64;
    }

    /// The next segment of a tagged message has to begin at `to`.
    pub(super) const fn tagged_goes_on(&mut self, opcode: Opcode, stag: STag, to: u64) {
        self.tagged = Some(TaggedUnderWay {
            opcode,
            stag,
            to,
            is_dropped: false,
        });
    }

    /// Returns true if an inbound Send has found no Receive.
    pub(super) const fn has_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// When the Send that found no Receive will have waited for `wait`. The wait begins `now`, unless it has begun before.
    /// `None` if the clock cannot represent the end of the wait.
    pub(super) fn deadline(&mut self, now: Instant, wait: Duration) -> Option<Instant> {
        let since = self.stall.as_mut()?.since.get_or_insert(now);
        since.checked_add(wait)
    }

    pub(super) fn stalled_segment(&self) -> Option<TerminatedHeaders> {
        self.stall.and_then(|stall| stall.about)
    }

    /// Takes in no more messages. Messages received in part stay incomplete.
    pub(super) fn stop(&mut self) {
        self.send = None;
        self.tagged = None;
        self.early = None;
        self.stall = None;
        self.ahead = None;
        self.refusal = None;
        // The end of the stream waited behind octets that are dropped now.
        self.peer_closed |= core::mem::take(&mut self.end_waits);
        self.wanted = 1;
    }

    pub(super) fn footprint(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.unmarked.capacity()
    }
}

/// Checks the queue, the number and the offset of an untagged segment (DDP-022, DDP-060, DDP-062, DDP-064, DDP-077; the
/// opcode's queue, RDMAP-005, RDMAP-006).
pub(super) fn check_untagged(
    segment: &UntaggedSegment<'_>,
    (qn, msn, mo): (Qn, u32, u32),
) -> Result<(), UntaggedError> {
    if segment.qn != qn {
        return Err(UntaggedError::InvalidQn);
    }
    if segment.msn != msn {
        return Err(UntaggedError::MsnRange);
    }
    if segment.mo != mo {
        return Err(UntaggedError::InvalidMo);
    }
    Ok(())
}

/// Checks that a message without ULP payload ends with its header. RDMAP's own untagged buffer for it is as long as the
/// header (RFC 5040 sections 4.2 and 5.2.1), and a longer message does not fit: RFC 5041 section 7.1, check 4 (RDMAP-011,
/// DDP-063).
pub(super) const fn check_header_length(
    segment: &UntaggedSegment<'_>,
    header: usize,
) -> Result<(), UntaggedError> {
    if segment.payload.len() > header {
        return Err(UntaggedError::TooLong);
    }
    Ok(())
}
