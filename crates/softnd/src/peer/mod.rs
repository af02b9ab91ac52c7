//! Other iWARP stacks and their quirks. The page Peers of the book (`docs/check/peers.md`) has a row for each quirk, with its source and
//! with softnd's treatment of it. The code cites the row's ID where it obeys the row.
//!
//! MPA does not carry the name of a peer's stack. The defaults of [`Options`](crate::Options) therefore suit all known stacks.
//! [`Options::peer`](crate::Options::peer) states the stack of all peers, and [`Options::peer_at`](crate::Options::peer_at) the stack of
//! the peers at some addresses. [`Peer::needs`] has the differences in softnd's behaviour for a stated stack. All other rows
//! apply to every peer.
//!
//! ```
//! use softnd::{Options, peer::Peer};
//!
//! // Allow more private data than some peers take, and state that the peers of one network run siw.
//! let options = Options::default().private_data_limit(508).peer_at([192, 0, 2, 0].into(), 24, Peer::Siw);
//! assert_eq!(Peer::Siw.needs().private_data, 251);
//! # let _ = options;
//! ```

use std::fmt;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// An iWARP stack that a peer may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// Unknown. The defaults suit all stacks.
    #[default]
    Any,
    /// Linux's software stack, `drivers/infiniband/sw/siw`.
    Siw,
    /// Chelsio T4 and later, `drivers/infiniband/hw/cxgb4`.
    Cxgb4,
    /// Intel E810 and X722, `drivers/infiniband/hw/irdma`, and its predecessors i40iw and nes.
    Irdma,
    /// QLogic and Marvell FastLinQ in iWARP mode, `drivers/net/ethernet/qlogic/qed`.
    Qed,
}

/// The differences in softnd's behaviour towards a peer whose stack is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// The longest private data that the peer accepts, in octets. Calls with longer private data fail.
    pub private_data: u32,
    /// Ask for peer-to-peer mode. `None`: as in [`Options::peer_to_peer`](crate::Options::peer_to_peer).
    pub peer_to_peer: Option<bool>,
    /// The peer accepts a request for markers, which [`Options::markers`](crate::Options::markers) switches on.
    pub markers: bool,
    /// A peer that closes on revision 2 may speak revision 1 only, so that one more attempt makes sense.
    pub revision_1_fallback: bool,
    /// The longest time that the ready-to-receive message may wait for the client. `None`: no limit of the peer.
    pub hold_ready: Option<Duration>,
}

impl Peer {
    /// All known stacks.
    pub const KNOWN: [Self; 4] = [Self::Siw, Self::Cxgb4, Self::Irdma, Self::Qed];

    /// The differences in softnd's behaviour towards this peer.
    #[must_use]
    pub const fn needs(self) -> Needs {
        let any = Needs {
            private_data: crate::limits::LONGEST_PRIVATE_DATA,
            peer_to_peer: None,
            markers: true,
            revision_1_fallback: true,
            hold_ready: None,
        };
        // 255 octets, less the four that RFC 6581 uses.
        const SHORT: u32 = 251;
        match self {
            Self::Any | Self::Qed => any,
            Self::Siw => Needs {
                private_data: SHORT,        // PEER-004
                peer_to_peer: Some(false),  // PEER-090
                markers: false,             // PEER-006
                revision_1_fallback: false, // siw speaks revision 2, and closes for other reasons
                ..any
            },
            Self::Cxgb4 => Needs {
                private_data: SHORT, // PEER-038
                ..any
            },
            Self::Irdma => Needs {
                private_data: SHORT,                       // PEER-059
                peer_to_peer: Some(true),                  // PEER-050
                hold_ready: Some(Duration::from_secs(10)), // PEER-085
                ..any
            },
        }
    }

    /// The driver's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Siw => "siw",
            Self::Cxgb4 => "cxgb4",
            Self::Irdma => "irdma",
            Self::Qed => "qed",
        }
    }

    /// The peer of this name; `i40iw` and `nes` are [`Peer::Irdma`], `qedr` is [`Peer::Qed`].
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "any" => Some(Self::Any),
            "siw" => Some(Self::Siw),
            "cxgb4" => Some(Self::Cxgb4),
            "irdma" | "i40iw" | "nes" => Some(Self::Irdma),
            "qed" | "qedr" => Some(Self::Qed),
            _ => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
