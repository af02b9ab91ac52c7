//! What can be chosen when a provider is made.

use std::net::IpAddr;
use std::time::Duration;

use netdirect::ReadLimits;

use crate::fault_names;
use crate::limits::{LONGEST_PRIVATE_DATA, Limits};
use crate::peer::Peer;
use iwarp_io::capture::Capture;
use iwarp_io::faults::{Plan, PlanError};
use iwarp_io::setup::HalfOpenLimits;

/// How much a client may get away with (requirement AMB-071).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Runs every client known: surplus SGEs are granted, a Send waits a while for its Receive, local write permission
    /// makes a Read sink.
    #[default]
    Default,
    /// As narrow as the narrowest iWARP adapter: exactly the SGEs that were asked for, no wait for a Receive, Read
    /// sinks need `RDMA_READ_SINK` or `ALLOW_REMOTE_WRITE`, the passive side may not send first, and a peer that
    /// answers a peer-to-peer Request without the ready-to-receive message is refused (RFC 6581 §9.2).
    Strict,
}

/// Time limits towards peers and for our own part of the start-up (MPA-093). `None` switches a limit off.
///
/// None of them runs while the local client thinks (IW-068).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The TCP connection: 21 s.
    pub connect: Option<Duration>,
    /// From the MPA Request to the complete Reply, which waits for the peer's application: 120 s (MPA-024).
    pub reply: Option<Duration>,
    /// From an accepted TCP connection to its complete MPA Request, however it trickles in: 10 s (MPA-023, MPA-024).
    pub request: Option<Duration>,
    /// From our Reply to the peer's ready-to-receive message: 60 s.
    pub ready: Option<Duration>,
    /// How long our own ready-to-receive message is held back for a client that does not complete its Connect, before
    /// it is sent all the same: 10 s (IW-067).
    pub hold_ready: Option<Duration>,
    /// From our end of a connection to the peer's, then the stream is reset: 10 s (IW-065).
    pub disconnect: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        Self {
            connect: seconds(21),
            reply: seconds(120),
            request: seconds(10),
            ready: seconds(60),
            hold_ready: seconds(10),
            disconnect: seconds(10),
        }
    }
}

impl Timeouts {
    /// Cuts each limit to a year, so that adding it to the time of day cannot overflow.
    fn cut(&mut self) {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let Self {
            connect,
            reply,
            request,
            ready,
            hold_ready,
            disconnect,
        } = self;
        for limit in [connect, reply, request, ready, hold_ready, disconnect] {
            *limit = limit.map(|limit| limit.min(YEAR));
        }
    }
}

/// Half-open connections of a listener, unless told otherwise.
const HALF_OPEN: usize = 1024;

/// Options of a provider, all with good defaults.
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
    pub(crate) crc: bool,
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
    pub(crate) timeouts: Timeouts,
    pub(crate) half_open: Option<u32>,
    pub(crate) half_open_per_peer: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::Default,
            crc: true,
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
            timeouts: Timeouts::default(),
            half_open: None,
            half_open_per_peer: None,
        }
    }
}

impl Options {
    /// How much a client may get away with.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Whether CRC32c is asked for (the default, MPA-039). Without, it is still used when the peer asks for it (RFC
    /// 5044 §7.1).
    #[must_use]
    pub fn crc(mut self, crc: bool) -> Self {
        self.crc = crc;
        self
    }

    /// Whether MPA markers are asked for in what the peer sends (not by default: they cost both sides a copy, and siw
    /// refuses them, PEER-006). They are sent whenever the peer asks for them (RFC 5044 §4.3).
    #[must_use]
    pub fn markers(mut self, markers: bool) -> Self {
        self.markers = markers;
        self
    }

    /// Writes everything sent and received to a capture.
    #[must_use]
    pub fn capture(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
        self
    }

    /// What is to go wrong, and when: each adapter that is opened follows the plan from its start. Without, adapters follow the
    /// plan in the environment variable `SOFTND_FAULTS`, its text or `@` and a file, if there is one. The page "Fault plans" of
    /// the guide has the language.
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
    /// The plan names a call that cannot be made to fail here, or a status that is none or no error.
    pub fn faults(mut self, plan: Plan) -> Result<Self, PlanError> {
        fault_names::check(&plan)?;
        self.faults = Some(plan);
        Ok(self)
    }

    /// Serves these local addresses only, instead of all that the host has.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = Some(addresses.into_iter().collect());
        self
    }

    /// The private data limit that the adapter states, in octets: 248 unless told otherwise, because some peers lose
    /// more (IW-007); at most [`LONGEST_PRIVATE_DATA`]. 512 octets are taken from any peer.
    #[must_use]
    pub fn private_data_limit(mut self, octets: u32) -> Self {
        self.private_data = octets.min(LONGEST_PRIVATE_DATA);
        self
    }

    /// The adapter's inbound and outbound read limit: 128 unless told otherwise, at most 255 (IW-069).
    #[must_use]
    pub fn read_limit(mut self, reads: u32) -> Self {
        self.read_limit = reads.min(255);
        self
    }

    /// What else the adapter can do at most. What is more than the default is cut to it.
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self.limits = self.limits.possible();
        self
    }

    /// How long an inbound Send may wait for a Receive before the connection ends: 2 s, in the strict profile 0
    /// (AMB-008).
    #[must_use]
    pub fn receive_wait(mut self, wait: Duration) -> Self {
        self.receive_wait = Some(wait);
        self
    }

    /// Whether a Write completes only when the peer has placed it (not by default: AMB-002). A Write that the peer refuses
    /// then completes with `ND_ACCESS_VIOLATION` itself; without, a Write completes when TCP has taken it, and a refusal ends
    /// the connection later.
    ///
    /// It costs a round trip: a Read of no octets goes behind the Writes, one for up to 16 in a row, and they complete when it
    /// is answered. Such a Read counts against the outbound read limit, beside the client's own, but a read fence does not
    /// wait for it. Connect and Accept ask for limits of 1 at least, so that both sides can confirm. Towards a peer that
    /// serves no Reads all the same, Writes complete as without the option, and a log line says so.
    #[must_use]
    pub fn confirm_writes(mut self, confirm: bool) -> Self {
        self.confirm_writes = confirm;
        self
    }

    /// Whether Connect asks for the peer-to-peer handshake with its ready-to-receive message (the default). Without,
    /// the passive side cannot send first and its Accept does not wait for our CompleteConnect.
    #[must_use]
    pub fn peer_to_peer(mut self, ask: bool) -> Self {
        self.peer_to_peer = ask;
        self
    }

    /// Whether Connect tries once more with MPA revision 1 when the peer closes on revision 2 (the default).
    #[must_use]
    pub fn revision_1_fallback(mut self, fallback: bool) -> Self {
        self.revision_1_fallback = fallback;
        self
    }

    /// What all peers are known to be, unless [`Options::peer_at`] says otherwise.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// What the peers are known to be whose addresses begin with the first `bits` of `network`. The longest match
    /// counts, and of several that are equal the last.
    #[must_use]
    pub fn peer_at(mut self, network: IpAddr, bits: u8, peer: Peer) -> Self {
        self.peers.push((network, bits, peer));
        self
    }

    /// The largest TCP segment, in octets (`TCP_MAXSEG`): FPDUs follow it. For tests of what happens on a path with
    /// small segments; without it the path decides.
    #[must_use]
    pub fn segment(mut self, octets: u16) -> Self {
        self.segment = Some(octets);
        self
    }

    /// Time limits of the start-up and of the tear-down. One of more than a year is cut to a year.
    #[must_use]
    pub fn timeouts(mut self, change: impl FnOnce(&mut Timeouts)) -> Self {
        change(&mut self.timeouts);
        self.timeouts.cut();
        self
    }

    /// How many half-open connections a listener has at most, at least 1: those whose peer has not sent its whole MPA
    /// Request yet. Where there are as many, the oldest one of the peer that has the most gives way to a newcomer, with a
    /// reset (SEC-031). 1,024 unless told otherwise, and no more than a quarter of the descriptors of the process.
    #[must_use]
    pub fn half_open_limit(mut self, connections: u32) -> Self {
        self.half_open = Some(connections);
        self
    }

    /// How many of them one peer may have, at least 1: one IPv4 address, or one IPv6 network of 64 bits. A newcomer beyond
    /// that takes the place of the peer's oldest one. Half of [`half_open_limit`](Self::half_open_limit) unless told
    /// otherwise.
    #[must_use]
    pub fn half_open_limit_per_peer(mut self, connections: u32) -> Self {
        self.half_open_per_peer = Some(connections);
        self
    }

    /// The limits of half-open connections where the process may have so many descriptors.
    pub(crate) fn half_open_limits(&self, descriptors: usize) -> HalfOpenLimits {
        let total = self
            .half_open
            .map_or((descriptors / 4).min(HALF_OPEN), |connections| {
                connections as usize
            });
        let total = total.max(1);
        let per_peer = self
            .half_open_per_peer
            .map_or(total / 2, |connections| connections as usize);
        HalfOpenLimits {
            total,
            per_peer: per_peer.clamp(1, total),
        }
    }

    /// What a peer is known to be.
    pub(crate) fn peer_of(&self, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        let known = self.peers.iter();
        let matching = known.filter(|(network, bits, _)| is_within(address, *network, *bits));
        let best = matching.max_by_key(|(_, bits, _)| *bits);
        best.map_or(self.peer, |(_, _, peer)| *peer)
    }

    /// The options as they hold for one peer.
    pub(crate) fn for_peer(&self, address: IpAddr) -> PeerOptions {
        let needs = self.peer_of(address).needs();
        let hold_ready = self.timeouts.hold_ready;
        PeerOptions {
            private_data: self.private_data.min(needs.private_data),
            peer_to_peer: self.peer_to_peer || needs.peer_to_peer,
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

/// The options as they hold for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerOptions {
    pub(crate) private_data: u32,
    pub(crate) peer_to_peer: bool,
    pub(crate) markers: bool,
    pub(crate) revision_1_fallback: bool,
    pub(crate) hold_ready: Option<Duration>,
}

/// The first `bits` of both are equal.
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
    fn half_open_connections_leave_descriptors_for_others() {
        let limits = |options: &Options, descriptors| {
            let HalfOpenLimits { total, per_peer } = options.half_open_limits(descriptors);
            (total, per_peer)
        };
        let default = Options::default();
        assert_eq!(limits(&default, 1 << 20), (1024, 512));
        assert_eq!(limits(&default, 1024), (256, 128));
        assert_eq!(limits(&default, 3), (1, 1));
        let told = Options::default().half_open_limit(5000);
        assert_eq!(limits(&told, 1024), (5000, 2500));
        let told = told.half_open_limit_per_peer(9000);
        assert_eq!(limits(&told, 1024), (5000, 5000));
        let told = Options::default()
            .half_open_limit(0)
            .half_open_limit_per_peer(0);
        assert_eq!(limits(&told, 1024), (1, 1));
    }

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
