//! What is known of other iWARP stacks: their quirks as data, each with its source and with what is done about it.
//!
//! Nothing on the wire names a peer. So the defaults of [`Options`](crate::Options) suit all of them, and a peer is
//! known only where somebody says so: [`Options::peer`](crate::Options::peer) for all there are,
//! [`Options::peer_at`](crate::Options::peer_at) for those at an address. What is then done differently is told by
//! [`Peer::needs`]; all else of the table holds towards anyone.
//!
//! ```
//! use softnd::{Options, peer::Peer};
//!
//! // More private data than every peer takes, but not towards the adapters of that network.
//! let options = Options::default().private_data_limit(508).peer_at([192, 0, 2, 0].into(), 24, Peer::Siw);
//! assert_eq!(Peer::Siw.needs().private_data, 251);
//! # let _ = options;
//! ```

use std::fmt;
use std::time::Duration;

mod quirks;
#[cfg(test)]
mod tests;

pub use quirks::{QUIRKS, Quirk};

/// An iWARP stack that others are known to meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// Not known: the defaults suit all.
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

/// What is done differently towards a peer that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Octets of the client's private data that arrive whole; more is refused at the call.
    pub private_data: u32,
    /// A Request has to ask for peer-to-peer, whatever the option says.
    pub peer_to_peer: bool,
    /// Markers may be asked for where the option says so.
    pub markers: bool,
    /// A peer that closes on revision 2 may speak revision 1 only: one more attempt makes sense.
    pub revision_1_fallback: bool,
    /// The ready-to-receive message may be held back so long at most.
    pub hold_ready: Option<Duration>,
}

impl Peer {
    /// All that are known.
    pub const KNOWN: [Self; 4] = [Self::Siw, Self::Cxgb4, Self::Irdma, Self::Qed];

    /// What is done differently towards it.
    #[must_use]
    pub const fn needs(self) -> Needs {
        let any = Needs {
            private_data: crate::limits::LONGEST_PRIVATE_DATA,
            peer_to_peer: false,
            markers: true,
            revision_1_fallback: true,
            hold_ready: None,
        };
        // 255 octets, of which RFC 6581 takes four.
        const SHORT: u32 = 251;
        match self {
            Self::Any | Self::Qed => any,
            Self::Siw => Needs {
                private_data: SHORT,        // PEER-004
                markers: false,             // PEER-006
                revision_1_fallback: false, // it speaks revision 2, a close says something else
                ..any
            },
            Self::Cxgb4 => Needs {
                private_data: SHORT, // PEER-038
                ..any
            },
            Self::Irdma => Needs {
                private_data: SHORT,                       // PEER-059
                peer_to_peer: true,                        // PEER-050
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
