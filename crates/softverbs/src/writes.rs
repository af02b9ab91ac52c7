//! When Writes are done, and the Reads of no octets that confirm them.

use iwarp_io::setup::{Confirmations, ReadLimits};

use crate::device::DeviceKind;

/// When a Write is done, and so when a signalled request behind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCompletion {
    /// When TCP has taken it, as on adapters for iWARP.
    Sent,
    /// When it is in the peer's memory, as on adapters for RoCE: a signalled request of any kind succeeds when all Writes before it are
    /// placed. A Read of no octets confirms them. Towards a peer that serves no Reads a Write is done when it is sent.
    Placed,
}

impl WriteCompletion {
    /// That of adapters of this kind.
    pub const fn of(kind: DeviceKind) -> Self {
        match kind {
            DeviceKind::Roce => Self::Placed,
            DeviceKind::Iwarp => Self::Sent,
        }
    }

    /// The requests that wait for Writes. A peer that is known to be a device for RoCE of this library serves one Read more than it states.
    pub(crate) const fn confirmations(self, peer_is_known: bool) -> Confirmations {
        match self {
            Self::Sent => Confirmations::Off,
            Self::Placed => Confirmations::OnDemand {
                apart: peer_is_known,
            },
        }
    }
}

/// The limits that a device states. One for RoCE states at least one Read in each direction, so that Writes can be confirmed.
pub(crate) fn stated(kind: DeviceKind, limits: ReadLimits) -> ReadLimits {
    match kind {
        DeviceKind::Roce => ReadLimits {
            ird: limits.ird.max(1),
            ord: limits.ord.max(1),
        },
        DeviceKind::Iwarp => limits,
    }
}

/// The limits that a device keeps after it has agreed on `limits`. One for RoCE serves one Read more, because a peer that knows it confirms
/// its Writes by this Read.
pub(crate) const fn kept(kind: DeviceKind, limits: ReadLimits) -> ReadLimits {
    match kind {
        DeviceKind::Roce => ReadLimits {
            ird: limits.ird + 1,
            ..limits
        },
        DeviceKind::Iwarp => limits,
    }
}
