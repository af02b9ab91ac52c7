//! The agreement of two sides by two frames: RFC 5044 §7.1, RFC 6581 §9.

use core::fmt;

use super::frame::{Enhanced, Frame, FrameKind, NOT_NEGOTIATED, ReadyKinds};
use super::reader::StartupError;
use crate::mpa::Error;
use crate::mpa::{Markers, Ready};
use crate::types::ReadLimits;

/// The results of the start-up, as one side sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Rev of both frames.
    pub revision: u8,
    /// CRCs are sent and checked in both directions (MPA-035).
    pub crc: bool,
    /// Inbound and outbound Reads of this side, without the ready-to-receive Read. If the peer exchanges no limits, these
    /// are this side's own.
    pub limits: ReadLimits,
    /// The ready-to-receive message, which is the Initiator's first FPDU. `None` if the sides agreed on none (A = 0, S = 0,
    /// Rev 1).
    pub ready: Option<Ready>,
    /// A of the Reply.
    pub peer_to_peer: bool,
    /// The directions with markers, by the peer's M and our own (MPA-032).
    pub markers: Markers,
}

impl Agreed {
    /// For a stream whose two ends are one connection, without a start-up: both need no agreement.
    #[must_use]
    pub const fn with_itself(crc: bool, limits: ReadLimits) -> Self {
        Self {
            revision: 2,
            crc,
            limits,
            ready: None,
            peer_to_peer: true,
            markers: Markers::NONE,
        }
    }
}

/// The offer of an Initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Rev: 1 or 2. Rev 2 is always sent with S = 1 (PEER-052). An Initiator that needs neither limits nor a
    /// ready-to-receive message asks for Rev 1 (MPA2-008).
    pub revision: u8,
    /// A: ask for a ready-to-receive message. Rev 2 only.
    pub peer_to_peer: bool,
    /// The types of ready-to-receive message that this side can send, at least one (MPA2-021).
    pub ready: ReadyKinds,
    /// C: ask for CRC. CRC is on as well if only the peer asks.
    pub crc: bool,
    /// M: ask for markers in what the peer sends. Some peers then refuse the connection (PEER-006).
    pub markers: bool,
    /// Inbound and outbound Reads, already cut to what the adapter can do. Rev 2 only.
    pub limits: ReadLimits,
    /// The application's Private Data.
    pub private_data: Vec<u8>,
}

/// Why a Reply leads to no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcludeError {
    /// R = 1. The application may see the frame's Private Data and limits (MPA2-011).
    Rejected,
    /// The Reply does not answer the Request: close.
    Malformed(StartupError),
    /// The Reply's ORD exceeds what this side can provide: Terminate 2/0/06 as the first FPDU, then close (MPA2-016).
    InsufficientIrd,
    /// The Reply allows no ready-to-receive message that this side sends: Terminate 2/0/07 as the first FPDU, then close
    /// (MPA2-029).
    NoReady,
}

impl ConcludeError {
    /// The MPA error to be sent in a Terminate, if a Terminate is to be sent (MPA2-037).
    #[must_use]
    pub const fn terminate(self) -> Option<Error> {
        match self {
            Self::Rejected | Self::Malformed(_) => None,
            Self::InsufficientIrd => Some(Error::InsufficientIrd),
            Self::NoReady => Some(Error::NoReady),
        }
    }
}

impl fmt::Display for ConcludeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected => f.write_str("the peer rejected the connection"),
            Self::Malformed(error) => error.fmt(f),
            Self::InsufficientIrd => Error::InsufficientIrd.fmt(f),
            Self::NoReady => Error::NoReady.fmt(f),
        }
    }
}

impl core::error::Error for ConcludeError {}

impl Offer {
    /// The Request frame (MPA-001, MPA-009): Rev 2 with S = 1, and with A = 1 every type of ready-to-receive message
    /// that we send (MPA2-021).
    #[must_use]
    pub fn request(&self) -> Frame {
        let enhanced = (self.revision >= 2).then(|| Enhanced {
            peer_to_peer: self.peer_to_peer,
            // MPA2-023
            rtr_send: self.peer_to_peer && self.ready.send,
            rtr_write: self.peer_to_peer && self.ready.write,
            rtr_read: self.peer_to_peer && self.ready.read,
            ird: wire_limit(self.limits.ird),
            ord: wire_limit(self.limits.ord),
        });
        Frame {
            kind: FrameKind::Request,
            markers: self.markers,
            crc: self.crc,
            rejected: false,
            revision: self.revision,
            enhanced,
            private_data: self.private_data.clone(),
        }
    }

    /// Returns true if the Request has A = 1.
    #[must_use]
    pub const fn asks_peer_to_peer(&self) -> bool {
        self.revision >= 2 && self.peer_to_peer
    }

    /// The agreement by a Reply to [`Offer::request`]. `max` has the adapter's limits: a Reply ORD above our IRD is accepted up to the
    /// adapter's limit (RFC 6581 §9.1).
    ///
    /// The Reply's A decides, even if it differs from the Request's (MPA2-022). With A = 0 there is no ready-to-receive
    /// message, and any first FPDU from us is legal. A strict caller compares [`Agreed::peer_to_peer`] with
    /// [`Offer::asks_peer_to_peer`] and sends Terminate 2/0/07.
    ///
    /// # Errors
    ///
    /// See [`ConcludeError`]. A rejection is reported as such, whatever else is wrong with the Reply.
    pub fn conclude(&self, reply: &Frame, max: ReadLimits) -> Result<Agreed, ConcludeError> {
        if reply.kind != FrameKind::Reply {
            return Err(ConcludeError::Malformed(StartupError::WrongKind(
                reply.kind,
            )));
        }
        if reply.rejected {
            return Err(ConcludeError::Rejected);
        }
        self.check_revision(reply)
            .map_err(ConcludeError::Malformed)?;
        let agreed = Agreed {
            revision: reply.revision,
            crc: self.crc || reply.crc,
            limits: self.limits,
            ready: None,
            peer_to_peer: false,
            markers: Markers {
                sent: reply.markers,
                received: self.markers,
            },
        };
        let Some(enhanced) = reply.enhanced else {
            return Ok(agreed); // RFC 5044 rules: a peer without limits
        };
        let ready = if enhanced.peer_to_peer {
            let common = enhanced.ready().and(self.ready); // MPA2-026, MPA2-027
            Some(common.preferred().ok_or(ConcludeError::NoReady)?)
        } else {
            None
        };
        let (ird, ord) = peer_limits(reply);
        if ird.is_some_and(|ird| ird > max.ird.max(self.limits.ird)) {
            return Err(ConcludeError::InsufficientIrd);
        }
        Ok(Agreed {
            // MPA2-015, MPA2-019, RDMAP-111
            limits: ReadLimits {
                ird: ird.unwrap_or(self.limits.ird),
                ord: ord.map_or(self.limits.ord, |ord| ord.min(self.limits.ord)),
            },
            ready,
            peer_to_peer: enhanced.peer_to_peer,
            ..agreed
        })
    }

    /// A Rev 1 Request is answered in Rev 1 (MPA2-036). A Rev 2 Request has S = 1. A Responder with Rev 2 answers with S =
    /// 1 (MPA2-006), others may answer in Rev 1 (OPEN-12).
    fn check_revision(&self, reply: &Frame) -> Result<(), StartupError> {
        match (reply.revision, reply.enhanced) {
            (revision, _) if revision > self.revision => Err(StartupError::ReplyRevision(revision)),
            (1, None) => Ok(()),
            (1, Some(_)) => Err(StartupError::EnhancedRevision),
            (2, Some(_)) => Ok(()),
            (2, None) => Err(StartupError::ReplyNotEnhanced),
            (revision, _) => Err(StartupError::ReplyRevision(revision)),
        }
    }
}

/// The terms on which a Responder accepts a Request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// C: ask for CRC. CRC is on as well if only the Request asks.
    pub crc: bool,
    /// M: ask for markers in what the peer sends.
    pub markers: bool,
    /// The types of ready-to-receive message that this side accepts, at least one (MPA2-024).
    pub ready: ReadyKinds,
    /// Inbound and outbound Reads of this side, already cut to the offer (see [`peer_limits`]) and the adapter.
    pub limits: ReadLimits,
    /// The application's Private Data.
    pub private_data: Vec<u8>,
}

/// The accepting Reply, and what holds from then on. Rev, S and A are the Request's (MPA2-005 to MPA2-007, MPA2-022). With
/// A = 1 exactly one type of ready-to-receive message is chosen, if possible one that was offered (PEER-031, MPA2-025).
/// Limits above the offer are cut to the offer (MPA2-012, MPA2-013, MPA2-034).
#[must_use]
pub fn accept(request: &Frame, with: &Acceptance) -> (Frame, Agreed) {
    let (ird, ord) = peer_limits(request);
    let cut = |own: u32, offered: Option<u32>| offered.map_or(own, |offered| own.min(offered));
    let ready = chosen_ready(request, with.ready);
    // RDMAP-111: the Reply carries these limits, from which the Initiator derives its own.
    let mut limits = ReadLimits {
        ird: cut(with.limits.ird, ird),
        ord: cut(with.limits.ord, ord),
    };
    if ready == Some(Ready::Read) && ird.is_some_and(|offered| offered > 0) {
        limits.ird = limits.ird.max(1); // MPA2-020: the Reply shows 1, so that the Initiator may send a Read later as well
    }
    let crc = request.crc || with.crc; // MPA-035; in the Reply as well, some take only the Reply's word
    let agreed = Agreed {
        revision: request.revision,
        crc,
        limits,
        ready,
        peer_to_peer: ready.is_some(),
        markers: Markers {
            sent: request.markers,
            received: with.markers,
        },
    };
    let mut reply = reply(request, (false, crc), limits, ready, &with.private_data);
    reply.markers = with.markers;
    (reply, agreed)
}

/// The rejecting Reply, with the application's Private Data (MPA-019). `limits` are this side's, and are not cut, because ORD may show the
/// Initiator which IRD would have been needed (MPA2-014). The connection is closed behind this Reply (OPEN-13).
#[must_use]
pub fn reject(request: &Frame, limits: ReadLimits, private_data: &[u8]) -> Frame {
    let ready = chosen_ready(request, ReadyKinds::UNSEEN);
    reply(request, (true, request.crc), limits, ready, private_data)
}

/// The limits in the peer's frame, from this side's point of view (swapped): its ORD is our IRD, its IRD our ORD. `None` if the frame
/// states no limit: Rev 1, S = 0, or [`NOT_NEGOTIATED`].
#[must_use]
pub fn peer_limits(frame: &Frame) -> (Option<u32>, Option<u32>) {
    let value = |word: u16| (word != NOT_NEGOTIATED).then(|| u32::from(word));
    frame.enhanced.map_or((None, None), |enhanced| {
        (value(enhanced.ord), value(enhanced.ird))
    })
}

/// The type of ready-to-receive message that a Reply to `request` shows. `None` if the Request asks for none. If the
/// Request offers none of `ours`, it is the preferred type of these, because a Reply with A = 1 shows at least one
/// (MPA2-025).
fn chosen_ready(request: &Frame, ours: ReadyKinds) -> Option<Ready> {
    let enhanced = request.enhanced.filter(|enhanced| enhanced.peer_to_peer)?;
    let common = enhanced.ready().and(ours).preferred();
    common.or(ours.preferred()).or(Some(Ready::Write))
}

fn reply(
    request: &Frame,
    (rejected, crc): (bool, bool),
    limits: ReadLimits,
    ready: Option<Ready>,
    private_data: &[u8],
) -> Frame {
    let enhanced = request.enhanced.map(|offered| Enhanced {
        peer_to_peer: offered.peer_to_peer,
        rtr_send: ready == Some(Ready::Send),
        rtr_write: ready == Some(Ready::Write),
        rtr_read: ready == Some(Ready::Read),
        ird: match offered.ord {
            NOT_NEGOTIATED => NOT_NEGOTIATED, // MPA2-017
            // MPA2-020, PEER-055: the Initiator has to have room for its ready-to-receive Read.
            _ if ready == Some(Ready::Read) => wire_limit(limits.ird).max(1),
            _ => wire_limit(limits.ird),
        },
        ord: match offered.ird {
            NOT_NEGOTIATED => NOT_NEGOTIATED, // MPA2-018
            _ => wire_limit(limits.ord),
        },
    });
    Frame {
        kind: FrameKind::Reply,
        markers: false,
        crc,
        rejected,
        revision: request.revision,
        enhanced,
        private_data: private_data.to_vec(),
    }
}

/// A limit of this side as encoded, cut to the largest number possible there, so that it never reads as [`NOT_NEGOTIATED`].
fn wire_limit(limit: u32) -> u16 {
    u16::try_from(limit)
        .unwrap_or(u16::MAX)
        .min(NOT_NEGOTIATED - 1)
}
