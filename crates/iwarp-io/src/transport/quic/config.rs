//! Windows, sizes and limits of QUIC.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{
    ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    VarInt,
};

use super::congestion::{Congestion, InFlight};
use super::connection_ids::ConnectionIds;
use super::security::{Security, SecurityError};
use super::watched_session::Watched;
use crate::transport::congestion_control::QuicAlgorithm;

/// The segment that FPDUs are cut for, in octets. FPDUs need not match packets, so the longest FPDU is the best one.
pub(super) const SEGMENT: u32 = 65_535;

/// The most octets that a peer may have in flight on one stream: those sent and not read.
pub(super) const STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// The most octets that all streams of a connection may have waiting to be sent or acknowledged.
const SEND_WINDOW: u64 = 64 * 1024 * 1024;

/// Streams that a peer may have open on one connection.
pub(super) const STREAMS: u32 = 16 * 1024;

/// Streams that a peer may have open at the beginning. QUIC holds some 85 octets for each stream that a peer may open, for each
/// connection and before its handshake is complete.
pub(super) const FIRST_STREAMS: u32 = 256;

/// Returns the number of streams that a peer with `open` ones may have: there is always room for twice as many, up to [`STREAMS`].
pub(super) fn streams(open: usize) -> u32 {
    let twice = open.saturating_mul(2).next_power_of_two();
    u32::try_from(twice).map_or(STREAMS, |twice| twice.clamp(FIRST_STREAMS, STREAMS))
}

/// A connection is lost after this time without a packet from the peer.
const IDLE: Duration = Duration::from_secs(30);

/// The interval at which the side that opened a connection sends a keep-alive packet.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The side that opened a connection closes it after this time without a stream.
pub(super) const UNUSED: Duration = Duration::from_secs(10);

/// Streams of peers whose preamble is incomplete, for one connection.
pub(super) const ARRIVING: usize = 1024;

/// Streams that wait to be accepted, for one listener.
pub(super) const BACKLOG: usize = 4096;

/// Connections of peers to one socket whose handshake is not complete. Beyond half of this number a peer has to prove its address first
/// (Retry); beyond all of it newcomers are ignored.
pub(super) const HANDSHAKES: usize = 1024;

/// The number of them that one address may have beyond half of all.
pub(super) const HANDSHAKES_OF_ONE: usize = 32;

/// The time limit of the handshake of a peer.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time after which another handshake of this side is tried, which may take twice as long. The address of this side may have changed,
/// so that the peer ignores the rest of the first one.
pub(super) const ATTEMPT: Duration = Duration::from_secs(3);

/// Connections of peers to one socket.
pub(super) const CONNECTIONS: usize = 16 * 1024;

/// The number of them that one address may have.
pub(super) const CONNECTIONS_OF_ONE: usize = 1024;

/// The time for which a peer may keep a connection without a stream that has a whole preamble.
pub(super) const WITHOUT_STREAMS: Duration = Duration::from_secs(30);

/// The octets that a peer may have in flight on a connection at the beginning.
pub(super) const FIRST_WINDOW: u32 = 64 * 1024;

/// The octets of a stream that are taken before the listener has accepted it: more than a preamble and the longest MPA Request.
pub(super) const AHEAD: usize = 1024;

/// The octets that a peer may have in flight on a connection with `in_use` streams in use of which it has read `read` octets. Twice the
/// window of each stream, because the peer learns that an eighth of all was read when an eighth is full.
pub(super) fn room(in_use: usize, read: u64) -> u64 {
    let most = (in_use as u64).saturating_mul(2 * u64::from(STREAM_WINDOW));
    let grown = read
        .saturating_mul(2)
        .saturating_add(u64::from(FIRST_WINDOW));
    grown.min(most.max(u64::from(FIRST_WINDOW)))
}

/// The most octets of a stream that are taken at once, or one FPDU more.
pub(super) const GATHERED: usize = 256 * 1024;

/// The greatest length of an FPDU, in octets: the longest ULPDU with its length, padding and CRC.
pub(super) const LONGEST_FPDU: usize = 2 + 65_535 + 3 + 4;

/// A stream that is given at most this many octets at a time is sent before others.
pub(super) const URGENT: usize = 8 * 1024;

/// The time for which a stream without a user may still send its last octets.
pub(super) const ORPHAN: Duration = Duration::from_secs(60);

/// The settings of an adapter's connections.
#[derive(Clone)]
pub(super) struct Settings {
    /// For connections with other machines.
    far: Sides,
    /// For connections within this machine.
    near: Sides,
    in_flight: Arc<InFlight>,
}

/// The settings for the two sides of a connection.
#[derive(Clone)]
struct Sides {
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

impl Settings {
    /// # Errors
    ///
    /// Those of `security`.
    pub(super) fn new(
        security: &Security,
        algorithm: QuicAlgorithm,
    ) -> Result<Self, SecurityError> {
        let client = ClientConfig::new(Arc::new(Watched(security.client_crypto()?)));
        let server = security.server_config_with(|crypto| Arc::new(Watched(crypto)))?;
        let in_flight = InFlight::new(
            LOCAL_IN_FLIGHT,
            LOCAL_IN_FLIGHT_BESIDE_SMALL,
            u64::from(LOCAL_DATAGRAM),
        );
        let in_flight = Arc::new(in_flight);
        let sides = |within_machine: Option<&Arc<InFlight>>| {
            let (mut client, mut server) = (client.clone(), server.clone());
            client.transport_config(transport(true, algorithm, within_machine));
            server.transport_config(transport(false, algorithm, within_machine));
            Sides {
                client,
                server: Arc::new(server),
            }
        };
        Ok(Self {
            far: sides(None),
            near: sides(Some(&in_flight)),
            in_flight,
        })
    }

    /// The most octets that connections within this machine may have in flight.
    pub(super) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    fn for_route(&self, local: IpAddr, remote: IpAddr) -> &Sides {
        if remote.is_loopback() || remote == local {
            &self.near
        } else {
            &self.far
        }
    }

    /// The settings for a connection that is opened here.
    pub(super) fn client(&self, local: IpAddr, remote: IpAddr) -> ClientConfig {
        self.for_route(local, remote).client.clone()
    }

    /// The settings for a connection that a peer has opened.
    pub(super) fn server(&self, local: IpAddr, remote: IpAddr) -> Arc<ServerConfig> {
        Arc::clone(&self.for_route(local, remote).server)
    }
}

/// The parameters of a connection. Only the opener keeps it alive. A connection within one machine begins with a large window and may use
/// datagrams longer than those of networks.
fn transport(
    opener: bool,
    algorithm: QuicAlgorithm,
    within_machine: Option<&Arc<InFlight>>,
) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let streams = VarInt::from_u32(if opener { 0 } else { FIRST_STREAMS });
    let mut discovery = MtuDiscoveryConfig::default();
    if within_machine.is_some() {
        discovery.upper_bound(LOCAL_DATAGRAM);
    }
    let first_window = within_machine.map(|_| LOCAL_WINDOW);
    let congestion = Congestion::new(algorithm, first_window, within_machine);
    config
        .congestion_controller_factory(Arc::new(congestion))
        .max_concurrent_bidi_streams(streams)
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(FIRST_WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(opener.then_some(KEEP_ALIVE))
        .mtu_discovery_config(Some(discovery));
    Arc::new(config)
}

/// The congestion window at the beginning, within one machine, in octets.
const LOCAL_WINDOW: u64 = 256 * 1024;

/// The most octets in flight within one machine: small messages wait behind all of them. Fewer cost bandwidth.
const LOCAL_IN_FLIGHT: u64 = 1024 * 1024;

/// The most octets in flight while small messages are in use: two of the longest datagrams. A datagram with a small message may be the
/// third one.
const LOCAL_IN_FLIGHT_BESIDE_SMALL: u64 = 64 * 1024;

/// The longest datagram within one machine, in octets. Two of them make a train.
const LOCAL_DATAGRAM: u16 = 32_752;

/// The longest payload of a datagram that is received, in octets.
const LONGEST: u16 = 65_527;

/// The most octets that one system call may send, however many datagrams these are.
pub(super) const OFFLOAD: usize = 65_507;

/// Sets the parameters that all connections of a socket share.
pub(super) fn endpoint(config: &mut EndpointConfig, seed: Option<[u8; 32]>) {
    config.rng_seed(seed);
    config.cid_generator(move || Box::new(ConnectionIds::new(seed)));
    config
        .max_udp_payload_size(LONGEST)
        .expect("a length that QUIC allows");
}

#[cfg(test)]
mod tests {
    use super::super::security::ALPN;
    use super::*;

    /// The values of this implementation in `docs/internals/iwarp-over-quic.md`.
    #[test]
    fn the_values_are_those_of_the_specification() {
        let page = include_str!("../../../pages/iwarp-over-quic.md");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let mebi = 1024 * 1024;
        let (window, sending) = (STREAM_WINDOW / mebi, SEND_WINDOW / u64::from(mebi));
        let (idle, alive) = (IDLE.as_secs(), KEEP_ALIVE.as_secs());
        let (first, twice) = (FIRST_WINDOW / 1024, 2 * window);
        let alpn: Vec<_> = ALPN.iter().map(|octet| format!("{octet:02x}")).collect();
        for said in [
            format!("(octets `{}`)", alpn.join(" ")),
            format!("more than 0 from the acceptor | 0 | {FIRST_STREAMS} |"),
            format!("at first {FIRST_STREAMS} streams and always twice as many as are open"),
            format!("`_remote` | at least 4096 | {window} MiB | {window} MiB |"),
            format!("| `max_idle_timeout` | **should** be present | {idle} s | {idle} s |"),
            format!("| any | {LONGEST} | {LONGEST} |"),
            format!("sends a PING after {alive} s of silence"),
            format!("its window of received octets (*softnd*: {window} MiB)"),
            format!("to {sending} MiB for each QUIC connection"),
            format!("given at most {} KiB at a time", URGENT / 1024),
            format!(
                "keeps at most {} MiB in flight there",
                LOCAL_IN_FLIGHT / u64::from(mebi)
            ),
            format!(
                "and {} KiB, and one datagram with a small message, while small messages are in use",
                LOCAL_IN_FLIGHT_BESIDE_SMALL / 1024
            ),
            format!(
                "`initial_max_data` | see [section 6](#6-flow-control) | {first} KiB | {first} KiB |"
            ),
            format!("room for more: {first} KiB and twice what was read, at most {twice} MiB"),
            format!("after a time (*softnd*: {} s)", UNUSED.as_secs()),
            format!("{} s until it is complete", ATTEMPT.as_secs()),
            format!("for each UDP socket | {HANDSHAKES} |"),
            format!("has to prove its address | {} |", HANDSHAKES / 2),
            format!("| QUIC connections, for each UDP socket | {CONNECTIONS} |"),
            format!("for each QUIC connection | {FIRST_STREAMS} at first, up to {STREAMS} |"),
            format!("preamble is incomplete, for each QUIC connection | {ARRIVING} |"),
            format!("wait to be accepted, for each listener | {BACKLOG} |"),
        ] {
            assert!(page.contains(&said), "the page does not say: {said}");
        }
    }
}
