//! The options of a transport over QUIC.

use std::ops::RangeInclusive;

#[cfg(not(feature = "udp"))]
pub use self::NoUndeliveredLimits as UndeliveredLimits;
#[cfg(feature = "udp")]
pub use super::account::UndeliveredLimits;
use crate::transport::congestion_control::CongestionControl;

/// The options of a transport.
#[derive(Clone, Debug, Default)]
pub struct QuicOptions {
    /// The limits of octets that cannot be delivered.
    pub undelivered: UndeliveredLimits,
    /// The sockets from which the transport connects have ports of this range, if there is one.
    pub ports: Option<RangeInclusive<u16>>,
    /// The congestion control.
    pub congestion: CongestionControl,
}

/// The limits of memory that peers over UDP may take. Without the feature `udp` there are no such peers.
#[cfg(not(feature = "udp"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoUndeliveredLimits(());

#[cfg(not(feature = "udp"))]
impl NoUndeliveredLimits {
    /// Limits of nothing.
    pub fn new(_socket: Option<u64>, _address: Option<u64>) -> Self {
        Self(())
    }
}
