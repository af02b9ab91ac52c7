//! Events of the connection manager: kinds of events, and the parameters of connections.

use std::time::Duration;

use iwarp_io::setup::ReadLimits;

use crate::ah::AddressVector;
use crate::device::limits;
use crate::error::Error;

/// The kind of an event, with the values of `enum rdma_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CmEventKind {
    /// An address was resolved.
    AddrResolved = 0,
    /// An address cannot be resolved.
    AddrError = 1,
    /// A route was resolved.
    RouteResolved = 2,
    /// A route cannot be resolved.
    RouteError = 3,
    /// A peer asks for a connection.
    ConnectRequest = 4,
    /// The peer has accepted, and the program completes the connection by `rdma_establish`.
    ConnectResponse = 5,
    /// A connection was not made, because of an error.
    ConnectError = 6,
    /// The peer cannot be reached, or does not answer.
    Unreachable = 7,
    /// The peer has rejected the connection, or does not listen.
    Rejected = 8,
    /// A connection is established.
    Established = 9,
    /// A connection has ended.
    Disconnected = 10,
    /// The device was removed.
    DeviceRemoval = 11,
    /// The queue pair of an ended connection may be used again.
    TimewaitExit = 15,
    /// Names have addresses (`rdma_resolve_addrinfo`).
    AddrInfoResolved = 16,
    /// Names have no addresses.
    AddrInfoError = 17,
    /// The program has written the event itself (`rdma_write_cm_event`).
    User = 18,
}

/// The parameters of a connection, as in `struct rdma_conn_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnParameters {
    /// Octets for the peer's program, or from it.
    pub private_data: Vec<u8>,
    /// Reads of the peer that this side serves at a time.
    pub responder_resources: u8,
    /// Reads of this side that may be outstanding at a time.
    pub initiator_depth: u8,
    /// The queue pair, if the program has not made one for the identifier.
    pub qp_num: u32,
    /// How often an adapter sends data again that the peer does not acknowledge. See [`CmId::set_ack_timeout`](super::CmId::set_ack_timeout).
    pub retry_count: u8,
    /// How often an adapter sends a message again for which the peer has no Receive; [`ENDLESS`](Self::ENDLESS) means without end.
    pub rnr_retry_count: u8,
    /// The peer's queue pair for datagrams, in events of identifiers of [`PortSpace::Udp`](super::PortSpace::Udp).
    pub datagrams: Option<DatagramParameters>,
}

/// The queue pair for datagrams of a peer, as in `struct rdma_ud_param`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramParameters {
    /// The address, by which an address handle is made; without contents in the event of a request.
    pub address: AddressVector,
    /// The number of the queue pair.
    pub number: u32,
    /// Its Q_Key.
    pub key: u32,
}

impl ConnParameters {
    /// The parameters of a program that states none: as many Reads as the device allows, and no private data.
    pub fn unstated() -> Self {
        let most = u8::try_from(limits::READS).unwrap_or(u8::MAX);
        Self {
            responder_resources: most,
            initiator_depth: most,
            retry_count: 7,
            rnr_retry_count: Self::ENDLESS,
            ..Self::default()
        }
    }

    /// The parameters of a peer in the program's event.
    pub(super) fn of_peer(private_data: Vec<u8>, limits: ReadLimits) -> Self {
        let limit = |limit: u32| u8::try_from(limit).unwrap_or(u8::MAX);
        Self {
            private_data,
            responder_resources: limit(limits.ird),
            initiator_depth: limit(limits.ord),
            ..Self::default()
        }
    }

    /// The [`rnr_retry_count`](Self::rnr_retry_count) without end.
    pub const ENDLESS: u8 = 7;

    /// The time after which a connection ends whose peer acknowledges nothing, if the program has set the time limit of an
    /// acknowledgement to 2^`ack_timeout` times 4.096 µs. `None` if there is no such time, or if the peer may be without Receives without
    /// end: TCP cannot tell a peer that has no room from one that is gone.
    pub(super) fn gives_up_after(&self, ack_timeout: Option<u8>) -> Option<Duration> {
        let exponent = ack_timeout.filter(|exponent| *exponent > 0)?;
        if self.rnr_retry_count >= Self::ENDLESS {
            return None;
        }
        let once = 4096_u64.checked_shl(exponent.into())?;
        Some(Duration::from_nanos(once) * (u32::from(self.retry_count) + 1))
    }

    /// The Reads of both sides, as many as the device allows.
    pub(super) fn read_limits(&self) -> ReadLimits {
        let most = limits::READS;
        ReadLimits {
            ird: u32::from(self.responder_resources).min(most),
            ord: u32::from(self.initiator_depth).min(most),
        }
    }
}

/// The contents of the event that answered the last call of a synchronous identifier. It needs no acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEvent {
    /// The kind.
    pub kind: CmEventKind,
    /// 0, a negative errno, or a reason for which a peer rejects.
    pub status: i32,
    /// The parameters.
    pub parameters: ConnParameters,
    /// The failure that the event reports, in words, where more is known than kind and status say.
    pub cause: Option<Error>,
}

/// The status of an event for an error: a negative errno.
pub(super) fn status_of(errno: rustix::io::Errno) -> i32 {
    -errno.raw_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_acknowledgement_counts_once_for_each_attempt() {
        let after = |exponent, retry_count, rnr_retry_count| {
            let parameters = ConnParameters {
                retry_count,
                rnr_retry_count,
                ..ConnParameters::default()
            };
            parameters.gives_up_after(exponent)
        };
        assert_eq!(
            after(Some(14), 0, 0),
            Some(Duration::from_nanos(67_108_864))
        );
        assert_eq!(after(Some(1), 6, 6), Some(Duration::from_nanos(7 * 8192)));
        assert_eq!(
            after(Some(31), u8::MAX, 0),
            Some(Duration::from_nanos(4096 << 31) * 256)
        );
        for none in [
            after(None, 7, 0),
            after(Some(0), 7, 0),
            after(Some(14), 7, 7),
        ] {
            assert_eq!(none, None);
        }
        assert_eq!(ConnParameters::unstated().gives_up_after(Some(14)), None);
    }
}
