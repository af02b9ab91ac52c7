//! Sizes of queues, and the results of the start-up.

use core::time::Duration;

use super::work::{Operation, Payload, PostError};
use crate::mpa::{Markers, Ready, Role};
use crate::rdmap::AtomicOp;
use crate::types::{ReadLimits, Sge};

/// Sizes of the queues of one connection. The connection allocates memory for these sizes when it is created, with depths
/// rounded up to powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueSizes {
    /// Initiator requests that may be outstanding.
    pub initiator_depth: u32,
    /// Receives that may be outstanding.
    pub receive_depth: u32,
    /// SGEs of one Send or Write.
    pub initiator_sges: u32,
    /// SGEs of one Receive.
    pub receive_sges: u32,
    /// SGEs of one Read; each becomes its own Read on the wire (RDMAP-053).
    pub read_sges: u32,
    /// Octets of inline data of one Send or Write.
    pub inline: u32,
    /// Octets of one request.
    pub max_transfer: u32,
}

impl QueueSizes {
    /// Octets of a Receive with these SGEs, if they keep to the limits.
    #[inline]
    pub(super) fn receive_length(&self, sges: &[Sge]) -> Result<u32, PostError> {
        if sges.len() > self.receive_sges as usize {
            return Err(PostError::TooManySges);
        }
        self.sum(sges)
    }

    /// Checks that a Receive with this many SGEs, of this many octets together, keeps to the limits.
    #[inline]
    pub(super) const fn check_receive(&self, sges: usize, length: u32) -> Result<(), PostError> {
        if sges > self.receive_sges as usize {
            return Err(PostError::TooManySges);
        }
        if length > self.max_transfer {
            return Err(PostError::TooLong);
        }
        Ok(())
    }

    /// Octets of an initiator request, if the request keeps to the limits.
    #[inline(always)]
    pub(super) fn length_of(&self, operation: &Operation<Payload<'_>>) -> Result<u32, PostError> {
        let (data, sges, inline) = match *operation {
            Operation::Send { data, .. }
            | Operation::SendImmediate { data, .. }
            | Operation::Write { data, .. }
            | Operation::WriteImmediate { data, .. } => (data, self.initiator_sges, self.inline),
            Operation::Read { sink, .. } => (sink, self.read_sges, 0),
            Operation::Atomic { sink, .. } => (sink, self.read_sges.min(1), 0),
            Operation::Immediate { .. } | Operation::Bind(_) | Operation::Invalidate(_) => {
                return Ok(0);
            }
        };
        let is_atomic = matches!(operation, Operation::Atomic { .. });
        let length = match data {
            Payload::Sges(list) if list.len() > sges as usize => Err(PostError::TooManySges),
            // Whatever its length: no limit is the reason.
            Payload::Sges(list) if is_atomic && total(list) != u64::from(AtomicOp::LEN) => {
                Err(PostError::WrongLength)
            }
            Payload::Sges(list) => self.sum(list),
            Payload::Inline(pieces) => {
                let length = pieces
                    .iter()
                    .try_fold(0usize, |sum, piece| sum.checked_add(piece.len()));
                length
                    .and_then(|length| u32::try_from(length).ok())
                    .filter(|length| *length <= inline.min(self.max_transfer))
                    .ok_or(PostError::TooLong)
            }
        }?;
        if is_atomic && length != AtomicOp::LEN {
            return Err(PostError::WrongLength);
        }
        Ok(length)
    }

    /// Octets of a list of SGEs, if one request may have as many octets. A message is shorter than 2^32 octets (DDP-041).
    #[inline]
    fn sum(&self, list: &[Sge]) -> Result<u32, PostError> {
        u32::try_from(total(list))
            .ok()
            .filter(|length| *length <= self.max_transfer)
            .ok_or(PostError::TooLong)
    }
}

/// Octets of a list of SGEs.
#[inline]
fn total(list: &[Sge]) -> u64 {
    list.iter().map(|sge| u64::from(sge.length)).sum()
}

/// The results of the start-up, and the choices of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamConfig {
    /// Which side this is.
    pub role: Role,
    /// CRCs are made and checked (MPA-035). Nothing else depends on this setting, and no event reports it (MPA-040).
    pub crc: bool,
    /// The directions with markers.
    pub markers: Markers,
    /// Read limits, both ways, set before the first message (RDMAP-110).
    pub limits: ReadLimits,
    /// The ready-to-receive message agreed on, if any.
    pub ready: Option<Ready>,
    /// How this side finds out whether the peer takes [announced Sends](Operation::SendImmediate).
    pub recognition: Recognition,
    /// How long an inbound Send may wait for a Receive (DDP-075). Zero ends the stream at once; [`Duration::MAX`] sets no
    /// limit.
    pub receive_wait: Duration,
    /// Which payload is copied into the batch for the transport's sake.
    pub copied: CopiedPayload,
    /// Payload shorter than this many octets is copied next to its header in any case.
    pub copied_below: u32,
    /// The requests that wait until the peer has placed Writes. No request does if the outbound read limit is 0 and confirmations count
    /// against it.
    pub confirmations: Confirmations,
    /// FPDUs of at least this many octets are placed while they arrive
    /// ([`Connection::next_place`](super::Connection::next_place)), if the stream has neither CRC nor markers. `usize::MAX`
    /// switches this off.
    pub early: usize,
}

/// What becomes of messages that this side cannot take, and of requests whose peer is gone. A property of the queue pair
/// ([`Connection::set_delivery`](super::Connection::set_delivery)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// A message that cannot be taken ends the stream, or waits. Requests fail with the peer.
    #[default]
    Reliable,
    /// Such messages are dropped, and the stream goes on. Requests complete with success when they are sent, and when they are dropped
    /// because the peer is gone. The peer serves no Reads and no Atomics, and neither does this side.
    Unreliable,
}

/// The requests that wait until the peer has placed Writes, and do not complete as soon as the transport has taken them (RDMAP-093).
///
/// A Read of no octets confirms the Writes before it, because the peer answers it after it has placed them (RFC 5040 section 5.5). A Read
/// or an Atomic of the client behind the Writes confirms them too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confirmations {
    /// None.
    #[default]
    Off,
    /// Each Write that has octets. Reads that confirm count against the outbound read limit.
    EachWrite,
    /// Each request that is not silent and has a Write before it that is not known to be placed, and each such Write itself. A Write
    /// with Immediate Data counts, and so does a Write of no octets. Silent Writes complete when the transport has taken them. One Read
    /// that confirms is outstanding at a time.
    OnDemand {
        /// The peer serves one Read more than was agreed on, so the Read that confirms does not count against the outbound read limit.
        apart: bool,
    },
}

/// How this side finds out whether the peer takes [announced Sends](Operation::SendImmediate), of which no standard knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recognition {
    /// The peer is taken for one that does not, and this side does not say that it does.
    #[default]
    Never,
    /// Both sides have agreed before the start.
    Agreed,
    /// By Writes of no octets, whose TO no receiver looks at (DDP-044, RDMAP-023). If the ready-to-receive message is a Write, the
    /// Initiator gives it [`TO_OF_INITIATOR`], and a Responder that finds this TO answers by a Write with [`TO_OF_RESPONDER`] as its first
    /// FPDU. The first FPDU decides at both ends. Without such a ready-to-receive message the peer is taken for one that does not.
    ByWrites,
}

/// The TO of the ready-to-receive Write of an Initiator that takes announced Sends: `softndSI`.
pub const TO_OF_INITIATOR: u64 = u64::from_be_bytes(*b"softndSI");
/// The TO of the first Write of a Responder that takes announced Sends and has found [`TO_OF_INITIATOR`]: `softndSR`.
pub const TO_OF_RESPONDER: u64 = u64::from_be_bytes(*b"softndSR");
/// The time for which an announced Send waits until the Initiator's peer has sent its first FPDU.
pub const RECOGNIZED_WITHIN: Duration = Duration::from_secs(10);

/// The payload that is copied into the batch for the transport's sake, and not read in place when it is sent. Short payload, payload with a
/// CRC and payload with markers inside is always copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopiedPayload {
    /// None of it.
    None,
    /// Payload at a place from which the transport would copy it slowly ([`Memory::is_slow_in_place`](crate::Memory::is_slow_in_place)).
    AtSlowPlaces,
    /// All of it, because the transport cannot read registered memory, or because it is captured.
    All,
}

/// How the peer's half of the stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamEnd {
    /// By a FIN, RFC 5044 section 7.2.
    Fin,
    /// Reset, timed out or otherwise lost.
    Reset,
}
