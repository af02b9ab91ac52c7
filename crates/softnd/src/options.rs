//! The options of a provider.

use std::net::IpAddr;
use std::time::Duration;

use netdirect::ReadLimits;

use crate::fault_plan;
use crate::limits::{LONGEST_PRIVATE_DATA, Limits};
use crate::peer::Peer;
use iwarp_io::capture::Capture;
use iwarp_io::faults::{Plan, PlanError};
use iwarp_io::protection_faults::FaultLimit;
use iwarp_io::transport::congestion_control::CongestionControl;
use iwarp_io::transport::quic::UndeliveredLimits;
use iwarp_io::transport::quic::security::Security;
use iwarp_io::transport::tcp::Boundaries;

/// The strictness of the provider towards its clients (AMB-071).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Runs every known client. A request may have more SGEs than its queue pair was created for. An inbound Send waits 2 s for
    /// a Receive. Memory registered with `ALLOW_LOCAL_WRITE` can be the sink of a Read.
    #[default]
    Default,
    /// Refuses everything that some iWARP adapter refuses. A queue pair accepts exactly the number of SGEs that the client asked for. An
    /// inbound Send without a Receive ends the connection at once. The sink of a Read needs `RDMA_READ_SINK` or `ALLOW_REMOTE_WRITE`. The
    /// passive side may not send first. Connect refuses a peer whose Reply to a peer-to-peer Request does not agree on a ready-to-receive
    /// message (RFC 6581 §9.2).
    Strict,
}

/// Time limits of connection set-up and of disconnection (MPA-093). `None` switches a limit off.
///
/// The time that the local client takes for its next call does not count (IW-068).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The time limit of the TCP connection. Default: 21 s.
    pub connect: Option<Duration>,
    /// The time from this side's MPA Request to the peer's complete MPA Reply. The peer replies when its application has called Accept or
    /// Reject. Default: no limit, because Connect does not fail merely because that application is slow (CONN-031). Keep-alive finds a host
    /// that has disappeared: over TCP by the system's probes, which begin after 60 s of silence, over UDP after 30 s. With a limit, Connect
    /// ends with [`IO_TIMEOUT`](netdirect::Status::IO_TIMEOUT) when the time is over.
    pub reply: Option<Duration>,
    /// The time from the first octet of the peer's MPA Reply to the last. A Reply that arrives octet by octet gets no more
    /// time. Default: 10 s (MPA-024).
    pub reply_frame: Option<Duration>,
    /// The time from an accepted TCP connection to the peer's complete MPA Request. A Request that arrives octet by octet gets
    /// no more time. Default: 10 s (MPA-023, MPA-024).
    pub request: Option<Duration>,
    /// The time from this side's Reply to the peer's ready-to-receive message. Default: 60 s.
    pub ready: Option<Duration>,
    /// The time that this side's ready-to-receive message waits for the client to call CompleteConnect. After this time the message is sent
    /// without that call. Default: 10 s (IW-067).
    pub hold_ready: Option<Duration>,
    /// The time that the peer may take to close its direction after this side has closed its own. After this time the stream is reset.
    /// Default: 10 s (IW-065).
    pub disconnect: Option<Duration>,
    /// The time that a connector waits for the listener to agree to shared memory, where a listener of this machine has the
    /// [option](Options::same_host), before the connection goes on over TCP. Default: 200 ms.
    pub same_host: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        Self {
            connect: seconds(21),
            reply: None,
            reply_frame: seconds(10),
            request: seconds(10),
            ready: seconds(60),
            hold_ready: seconds(10),
            disconnect: seconds(10),
            same_host: Some(Duration::from_millis(200)),
        }
    }
}

/// Times are cut to a year, so that adding them to the time of day cannot overflow.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Timeouts {
    /// Cuts each limit to a year, so that adding it to the time of day cannot overflow.
    fn cut(&mut self) {
        let Self {
            connect,
            reply,
            reply_frame,
            request,
            ready,
            hold_ready,
            disconnect,
            same_host,
        } = self;
        for limit in [
            connect,
            reply,
            reply_frame,
            request,
            ready,
            hold_ready,
            disconnect,
            same_host,
        ] {
            *limit = limit.map(|limit| limit.min(YEAR));
        }
    }
}

/// The options of a provider. The defaults suit every known peer.
///
/// ```
/// use softnd::{Options, Profile};
/// let options = Options::default().profile(Profile::Strict).crc(false);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    pub(crate) profile: Profile,
    pub(crate) crc: Option<bool>,
    pub(crate) same_host: Option<bool>,
    pub(crate) same_host_memory: Option<u64>,
    pub(crate) markers: bool,
    pub(crate) capture: Option<Capture>,
    pub(crate) faults: Option<Plan>,
    pub(crate) addresses: Option<Vec<IpAddr>>,
    pub(crate) private_data: u32,
    pub(crate) read_limit: u32,
    pub(crate) limits: Limits,
    pub(crate) receive_wait: Option<Duration>,
    pub(crate) confirm_writes: bool,
    pub(crate) peer_to_peer: bool,
    pub(crate) revision_1_fallback: bool,
    pub(crate) peer: Peer,
    pub(crate) peers: Vec<(IpAddr, u8, Peer)>,
    pub(crate) segment: Option<u16>,
    pub(crate) congestion: CongestionControl,
    pub(crate) boundaries: Boundaries,
    pub(crate) timeouts: Timeouts,
    pub(crate) half_open: Option<u32>,
    pub(crate) half_open_per_peer: Option<u32>,
    pub(crate) fault_limit: Option<FaultLimit>,
    pub(crate) security: Security,
    pub(crate) undelivered: Option<u64>,
    pub(crate) undelivered_per_peer: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::Default,
            crc: None,
            same_host: None,
            same_host_memory: None,
            markers: false,
            capture: None,
            faults: None,
            addresses: None,
            private_data: 248,
            read_limit: 128,
            limits: Limits::default(),
            receive_wait: None,
            confirm_writes: false,
            peer_to_peer: true,
            revision_1_fallback: true,
            peer: Peer::Any,
            peers: Vec::new(),
            segment: None,
            congestion: CongestionControl::default(),
            boundaries: Boundaries::OutsideCrcs,
            timeouts: Timeouts::default(),
            half_open: None,
            half_open_per_peer: None,
            fault_limit: None,
            security: Security::default(),
            undelivered: None,
            undelivered_per_peer: None,
        }
    }
}

impl Options {
    /// Sets the strictness of the provider towards its clients.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets whether this side asks for CRC32c (MPA-039). Default: true. With false, a connection still uses CRC32c when the peer asks for
    /// CRC32c (RFC 5044 §7.1).
    #[must_use]
    pub fn crc(mut self, crc: bool) -> Self {
        self.crc = Some(crc);
        self
    }

    /// Sets whether connections within this machine go through shared memory, where both ends have this option and belong to the same user.
    /// What they carry is as over TCP, and so are all rules; a connection for which it is not possible is over TCP. Only Linux has this.
    ///
    /// Nobody else sees the octets then: tools that look at the loopback interface, delay it, or filter it, have no effect. The option that
    /// nobody has set [`crc`](Self::crc) then asks for no CRCs. A [`segment`](Self::segment), [`markers`](Self::markers),
    /// [`whole_crcs(false)`](Self::whole_crcs) and a stated [`peer`](Self::peer) keep connections on TCP. Adapters over
    /// [UDP](crate::udp_provider) refuse the option, and simulated ones ignore it. Default: the environment variable `SOFTND_SAME_HOST`, `1` or
    /// `0`; without it false.
    #[must_use]
    pub fn same_host(mut self, same_host: bool) -> Self {
        self.same_host = Some(same_host);
        self
    }

    /// The memory that the rings of an adapter's connections [within this machine](Self::same_host) may take, in octets. An idle connection
    /// takes a page, and a busy one up to 260 KiB at each end. New connections beyond it are over TCP; connections that there are go on.
    /// Default: 256 MiB.
    #[must_use]
    pub fn same_host_memory(mut self, octets: u64) -> Self {
        self.same_host_memory = Some(octets);
        self
    }

    /// Returns true if this side asks for CRCs.
    pub(crate) fn asks_for_crcs(&self) -> bool {
        self.crc.unwrap_or(true)
    }

    /// Returns true if nobody has chosen CRCs, so that connections through shared memory do without. A fault plan may damage octets.
    pub(crate) fn spares_crcs(&self) -> bool {
        self.crc.is_none() && self.faults.is_none()
    }

    /// Returns true if the options are about TCP itself, so that connections have to be over TCP.
    pub(crate) fn shapes_tcp(&self) -> bool {
        self.segment.is_some()
            || self.markers
            || self.boundaries != Boundaries::OutsideCrcs
            || self.peer != Peer::Any
            || !self.peers.is_empty()
    }

    /// Sets whether this side asks the peer to send MPA markers. Default: false, because markers cost both sides a copy and siw refuses
    /// markers (PEER-006). This side sends markers whenever the peer asks for markers (RFC 5044 §4.3).
    #[must_use]
    pub fn markers(mut self, markers: bool) -> Self {
        self.markers = markers;
        self
    }

    /// Sets the certificates and the trust of adapters over [UDP](crate::udp_provider). Other adapters ignore this. Default: adapters of
    /// one process trust each other.
    #[must_use]
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Records everything that is sent and received in a capture. A capture ends at 1 GiB, unless
    /// [`CaptureOptions`](iwarp_io::capture::CaptureOptions) say otherwise.
    #[must_use]
    pub fn capture(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
        self
    }

    /// Sets the fault plan: the faults and the events at which they happen. Each adapter starts the plan anew when the adapter is opened.
    /// Without this option, adapters follow the plan in the environment variable `SOFTND_FAULTS`, if that variable is set. The variable
    /// holds the text of a plan, or `@` and the name of a file. The page "Fault plans" of the guide describes the language.
    ///
    /// ```
    /// let plan = "when 2nd Register called: fail with ND_NO_MEMORY".parse()?;
    /// let options = softnd::Options::default().faults(plan)?;
    /// # let _ = options;
    /// # Ok::<(), softnd::faults::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The plan names a call that this provider cannot make fail, an unknown status, or a status that is not an error.
    pub fn faults(mut self, plan: Plan) -> Result<Self, PlanError> {
        fault_plan::check(&plan)?;
        self.faults = Some(plan);
        Ok(self)
    }

    /// Serves only these local addresses. Default: all addresses of the host.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let addresses = addresses.into_iter();
        self.addresses = Some(addresses.map(|address| address.to_canonical()).collect());
        self
    }

    /// The longest private data that a client can send, in octets: `max_caller_data` and `max_callee_data` of the adapter. Default: 248,
    /// because some peers lose longer private data (IW-007). Maximum: [`LONGEST_PRIVATE_DATA`]. The adapter accepts up to 512 octets from
    /// any peer.
    #[must_use]
    pub fn private_data_limit(mut self, octets: u32) -> Self {
        self.private_data = octets.min(LONGEST_PRIVATE_DATA);
        self
    }

    /// The adapter's inbound read limit, which is its outbound read limit as well. Default: 128 Reads. Maximum: 255 Reads
    /// (IW-069).
    #[must_use]
    pub fn read_limit(mut self, reads: u32) -> Self {
        self.read_limit = reads.min(255);
        self
    }

    /// Lowers the adapter's other limits. A value above the default is cut to the default.
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self.limits = self.limits.possible();
        self
    }

    /// The time that an inbound Send may wait for a Receive before the connection ends (AMB-008). Default: 2 s, and 0 s in the strict
    /// profile.
    #[must_use]
    pub fn receive_wait(mut self, wait: Duration) -> Self {
        self.receive_wait = Some(wait);
        self
    }

    /// Sets whether a Write completes only when the peer has placed the data (AMB-002). Default: false. With this option, a Write that the
    /// peer refuses completes with `ND_ACCESS_VIOLATION`. Without this option, a Write completes when TCP has taken the data, and a refusal
    /// ends the connection later.
    ///
    /// The option adds a round trip to each Write. The endpoint sends a Read of 0 octets behind each run of up to 16 Writes,
    /// and completes these Writes when the peer answers the Read. Such a Read counts against the outbound read limit, as the
    /// client's own Reads do, but a read fence does not wait for it. Connect and Accept ask for read limits of at least 1, so
    /// that both sides can confirm Writes. When the peer serves no Reads, Writes complete as without the option, and a warning
    /// in the log says so.
    #[must_use]
    pub fn confirm_writes(mut self, confirm: bool) -> Self {
        self.confirm_writes = confirm;
        self
    }

    /// Sets whether Connect asks for the peer-to-peer mode of RFC 6581, with its ready-to-receive message. Default: true. With false, the
    /// passive side cannot send first, and the passive side's Accept does not wait for this side's CompleteConnect. A stated
    /// [`peer`](Self::peer) may need one or the other.
    #[must_use]
    pub fn peer_to_peer(mut self, ask: bool) -> Self {
        self.peer_to_peer = ask;
        self
    }

    /// Sets whether Connect tries once more with MPA revision 1 when the peer closes the stream on a Request of revision 2. Default: true.
    /// Over UDP there are no such peers, and this has no effect.
    #[must_use]
    pub fn revision_1_fallback(mut self, fallback: bool) -> Self {
        self.revision_1_fallback = fallback;
        self
    }

    /// States the iWARP stack of all peers, except the peers that [`Options::peer_at`] names.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// States the iWARP stack of the peers whose addresses begin with the first `bits` of `network`. The longest matching prefix decides;
    /// among equal prefixes, the last one given.
    #[must_use]
    pub fn peer_at(mut self, network: IpAddr, bits: u8, peer: Peer) -> Self {
        self.peers.push((network, bits, peer));
        self
    }

    /// The largest TCP segment, in octets (`TCP_MAXSEG`). FPDUs are cut to fit. Use this option to test how a path with small
    /// segments behaves. Windows has no such option, and an adapter with it does not open there. Default: the segment size of the path.
    #[must_use]
    pub fn segment(mut self, octets: u16) -> Self {
        self.segment = Some(octets);
        self
    }

    /// The congestion control of connections. Over TCP `system`, for the system's default also within this machine, or any name that the
    /// system permits (`net.ipv4.tcp_allowed_congestion_control` of Linux); over UDP `cubic`, `bbr` or `newreno`. Another name is refused when an
    /// adapter is opened. Default: the environment variable `SOFTND_CONGESTION`; without it, over TCP the system's default, but within this
    /// machine one that does not pace, and over UDP `cubic`. Simulated streams have none.
    #[must_use]
    pub fn congestion(mut self, name: &str) -> Self {
        self.congestion = CongestionControl::from_name(name);
        self
    }

    /// Sets whether TCP segments never begin inside the CRC field of an FPDU or the padding in front of the field (MPA-085), as far as the
    /// system allows that: Linux does. siw of Linux takes a CRC field that arrives in two pieces for a wrong one, and ends the connection.
    /// Without this, TCP cuts the stream anywhere. Default: `true`.
    #[must_use]
    pub fn whole_crcs(mut self, whole: bool) -> Self {
        self.boundaries = if whole {
            Boundaries::OutsideCrcs
        } else {
            Boundaries::Any
        };
        self
    }

    /// Changes the time limits of connection set-up and of disconnection. A limit above one year is cut to one year.
    #[must_use]
    pub fn timeouts(mut self, change: impl FnOnce(&mut Timeouts)) -> Self {
        change(&mut self.timeouts);
        self.timeouts.cut();
        self
    }

    /// The largest number of half-open connections of a listener. A connection is half-open until the peer has sent its whole
    /// MPA Request. When a new connection arrives at the limit, the listener takes the peer with the most half-open connections
    /// and resets the oldest of them (SEC-031). Default: 1,024, or a quarter of the process's descriptors if that is fewer.
    /// Minimum: 1.
    #[must_use]
    pub fn half_open_limit(mut self, connections: u32) -> Self {
        self.half_open = Some(connections);
        self
    }

    /// The largest number of half-open connections that one peer may have at a listener. A peer is one IPv4 address, or one
    /// IPv6 network with a prefix of 64 bits. When a peer exceeds the limit, the listener resets the oldest half-open
    /// connection of that peer. Default: half of [`half_open_limit`](Self::half_open_limit). Minimum: 1.
    #[must_use]
    pub fn half_open_limit_per_peer(mut self, connections: u32) -> Self {
        self.half_open_per_peer = Some(connections);
        self
    }

    /// Refuses new connections of a peer after this many protection faults of that peer, for `time` from the last of them (SEC-036). A
    /// protection fault is a message that names memory which the peer may not use; a guess of a token looks like that, and each ends its
    /// connection. Faults before a `time` without any do not count. A peer is one IPv4 address, or one IPv6 network with a prefix of 64
    /// bits. Connections that are open stay open. Default: no connection is refused. Minimum: 1 fault. Maximum: a time of one year.
    ///
    /// The counters `protection_faults` show the faults of each peer, even without this option.
    #[must_use]
    pub fn refuse_after_protection_faults(mut self, faults: u32, time: Duration) -> Self {
        let faults = faults.max(1);
        let time = time.min(YEAR);
        self.fault_limit = Some(FaultLimit { faults, time });
        self
    }

    /// The most memory, in octets, for what one UDP socket of an adapter has received and cannot deliver: octets behind a gap in their
    /// stream, and octets beyond the start-up of streams that the application has not accepted. Beyond it, connections with such octets are
    /// closed, those of the peer with most of them first, and the one whose gap is the oldest. Octets in order that wait for a Receive
    /// do not count. The counter `udp.closed_for_undelivered_octets` counts the closed connections. Default: 64 MiB. Minimum: 64 KiB.
    #[must_use]
    pub fn undelivered_limit(mut self, octets: u64) -> Self {
        self.undelivered = Some(octets);
        self
    }

    /// The part of [`undelivered_limit`](Self::undelivered_limit) that one peer may have. A peer is one IPv4 address, or one IPv6 network
    /// with a prefix of 64 bits. A peer may have up to three quarters of this in flight on a connection, besides what waits in order, so a
    /// fast path with a long delay needs more than the default. Default: an eighth of the limit of the socket. Minimum: 64 KiB.
    #[must_use]
    pub fn undelivered_limit_per_peer(mut self, octets: u64) -> Self {
        self.undelivered_per_peer = Some(octets);
        self
    }

    /// The limits of octets that cannot be delivered.
    pub(crate) fn undelivered_limits(&self) -> UndeliveredLimits {
        UndeliveredLimits::new(self.undelivered, self.undelivered_per_peer)
    }

    /// The stack of the peer at this address, as far as the options state it.
    pub(crate) fn peer_of(&self, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        let known = self.peers.iter();
        let matching = known.filter(|(network, bits, _)| is_within(address, *network, *bits));
        let best = matching.max_by_key(|(_, bits, _)| *bits);
        best.map_or(self.peer, |(_, _, peer)| *peer)
    }

    /// The options for connections to one peer.
    pub(crate) fn for_peer(&self, address: IpAddr) -> PeerOptions {
        let needs = self.peer_of(address).needs();
        let hold_ready = self.timeouts.hold_ready;
        PeerOptions {
            private_data: self.private_data.min(needs.private_data),
            peer_to_peer: needs.peer_to_peer.unwrap_or(self.peer_to_peer),
            markers: self.markers && needs.markers,
            revision_1_fallback: self.revision_1_fallback && needs.revision_1_fallback,
            hold_ready: match (hold_ready, needs.hold_ready) {
                (Some(own), Some(most)) => Some(own.min(most)),
                (own, most) => own.or(most),
            },
        }
    }

    /// The read limits that a Connect or Accept asks for.
    pub(crate) fn asked_limits(&self, inbound: u32, outbound: u32) -> ReadLimits {
        let least = u32::from(self.confirm_writes);
        ReadLimits {
            inbound: inbound.max(least),
            outbound: outbound.max(least),
        }
    }

    pub(crate) fn effective_receive_wait(&self) -> Duration {
        self.receive_wait.unwrap_or(match self.profile {
            Profile::Default => Duration::from_secs(2),
            Profile::Strict => Duration::ZERO,
        })
    }
}

/// The options for connections to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerOptions {
    pub(crate) private_data: u32,
    pub(crate) peer_to_peer: bool,
    pub(crate) markers: bool,
    pub(crate) revision_1_fallback: bool,
    pub(crate) hold_ready: Option<Duration>,
}

/// Returns true if the first `bits` of both addresses are equal.
fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differing = match (address, network.to_canonical()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= bits.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_known_by_the_longest_match() {
        let options = Options::default()
            .markers(true)
            .peer_to_peer(false)
            .private_data_limit(508)
            .peer(Peer::Cxgb4)
            .peer_at([10, 0, 0, 0].into(), 8, Peer::Siw)
            .peer_at([10, 1, 0, 0].into(), 16, Peer::Irdma)
            .peer_at([10, 1, 2, 3].into(), 32, Peer::Any)
            .peer_at("fe80::".parse().unwrap(), 10, Peer::Qed);
        let peer = |address: &str| options.peer_of(address.parse().unwrap());
        assert_eq!(peer("192.0.2.1"), Peer::Cxgb4);
        assert_eq!(peer("10.9.9.9"), Peer::Siw);
        assert_eq!(peer("::ffff:10.9.9.9"), Peer::Siw);
        assert_eq!(peer("10.1.2.4"), Peer::Irdma);
        assert_eq!(peer("10.1.2.3"), Peer::Any);
        assert_eq!(peer("fe80::1"), Peer::Qed);
        assert_eq!(peer("2001:db8::1"), Peer::Cxgb4);

        let for_peer = |address: &str| options.for_peer(address.parse().unwrap());
        let siw = for_peer("10.9.9.9");
        assert!(!siw.markers && !siw.revision_1_fallback && !siw.peer_to_peer);
        assert_eq!(siw.private_data, 251);
        let irdma = for_peer("10.1.2.4");
        assert!(irdma.markers && irdma.peer_to_peer);
        assert_eq!(irdma.hold_ready, Some(Duration::from_secs(10)));
        let patient = options.timeouts(|limits| limits.hold_ready = None);
        let any = patient.for_peer([10, 1, 2, 3].into());
        assert_eq!((any.private_data, any.hold_ready), (508, None));
        let irdma = patient.for_peer([10, 1, 2, 4].into());
        assert_eq!(irdma.hold_ready, Some(Duration::from_secs(10)));
    }
}
