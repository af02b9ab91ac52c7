//! Sizes and limits of the stream. `docs/reports/performance-details.md` has what they were chosen by.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn_proto::congestion::CubicConfig;
use quinn_proto::{MtuDiscoveryConfig, TransportConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::perf::spec::Spec;

/// The name of the congestion control.
pub(super) const CONGESTION: &str = "cubic";

/// The datagrams of one system call, which the system cuts (GSO), have at most this many octets together.
const OFFLOAD: usize = 65_507;

/// The most datagrams of one system call.
const SEGMENTS: usize = 64;

/// The largest datagram, where nothing limits it. Two of them make a system call.
const DATAGRAM: u16 = 32_752;

/// The longest datagram that is received.
pub(super) const LONGEST: u16 = 65_527;

/// The size with which a connection begins, and that every path carries.
const LEAST_DATAGRAM: u16 = 1200;

/// Octets that may be on their way, or wait to be read, on the stream.
const WINDOW: u32 = 4 << 20;

/// The congestion window at the beginning.
const INITIAL_WINDOW: u64 = 256 << 10;

/// The size of the socket's buffers. Where the system allows less, they are as large as it allows.
const SOCKET_BUFFER: usize = 2 << 20;

/// The largest datagram of a row. `--segment` limits it as it limits the segments of TCP.
fn datagram(spec: &Spec) -> u16 {
    spec.segment
        .map_or(DATAGRAM, |segment| segment.clamp(LEAST_DATAGRAM, DATAGRAM))
}

/// Returns how many datagrams one system call sends.
pub(super) fn segments(datagram: usize) -> usize {
    (OFFLOAD / datagram.max(1)).clamp(1, SEGMENTS)
}

/// The settings for a peer at this address. Within the machine datagrams have their size from the beginning, because a
/// connection that always has something to send does not try larger ones.
pub(super) fn transport(spec: &Spec, peer: IpAddr) -> Arc<TransportConfig> {
    let datagram = datagram(spec);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(datagram);
    let mut congestion = CubicConfig::default();
    congestion.initial_window(INITIAL_WINDOW);
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(None)
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .initial_mtu(if peer.is_loopback() {
            datagram
        } else {
            LEAST_DATAGRAM
        })
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(congestion));
    Arc::new(config)
}

/// A socket at this address.
pub(super) fn bind(address: SocketAddr) -> std::io::Result<std::net::UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
