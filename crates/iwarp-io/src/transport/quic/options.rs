//! The options of a transport over QUIC.

use std::ops::RangeInclusive;

use super::account::UndeliveredLimits;
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
