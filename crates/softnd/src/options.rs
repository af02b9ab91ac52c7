//! What can be chosen when a provider is made.

use std::net::IpAddr;
use std::time::Duration;

use crate::capture::Capture;

/// How much a client may get away with (requirement AMB-071).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Runs every client known: surplus SGEs are granted, a Send waits a while for its Receive, local write permission
    /// makes a Read sink.
    #[default]
    Default,
    /// As narrow as the narrowest iWARP adapter: exactly the SGEs that were asked for, no wait for a Receive, Read
    /// sinks need `RDMA_READ_SINK` or `ALLOW_REMOTE_WRITE`, and a peer that answers a peer-to-peer Request without the
    /// ready-to-receive message is refused (RFC 6581 §9.2).
    Strict,
}

/// Time limits towards peers and for our own part of the start-up. `None` switches a limit off.
///
/// None of them runs while the local client thinks (IW-068).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The TCP connection: 21 s.
    pub connect: Option<Duration>,
    /// From the MPA Request to the complete Reply, which waits for the peer's application: 120 s.
    pub reply: Option<Duration>,
    /// From an accepted TCP connection to its complete MPA Request: 10 s.
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

/// The longest private data an adapter can be told to take: 512 octets less the four of RFC 6581.
pub const LONGEST_PRIVATE_DATA: u32 = 508;

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
    pub(crate) addresses: Option<Vec<IpAddr>>,
    pub(crate) private_data: u32,
    pub(crate) read_limit: u32,
    pub(crate) receive_wait: Option<Duration>,
    pub(crate) peer_to_peer: bool,
    pub(crate) revision_1_fallback: bool,
    pub(crate) segment: Option<u16>,
    pub(crate) timeouts: Timeouts,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::Default,
            crc: true,
            markers: false,
            capture: None,
            addresses: None,
            private_data: 248,
            read_limit: 128,
            receive_wait: None,
            peer_to_peer: true,
            revision_1_fallback: true,
            segment: None,
            timeouts: Timeouts::default(),
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

    /// Whether CRC32c is asked for (the default). Without, it is still used when the peer asks for it (RFC 5044 §7.1).
    #[must_use]
    pub fn crc(mut self, crc: bool) -> Self {
        self.crc = crc;
        self
    }

    /// Whether MPA markers are asked for in what the peer sends (not by default: they cost both sides a copy, and siw refuses
    /// them, PEER-006). They are sent whenever the peer asks for them (RFC 5044 §4.3).
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

    /// How long an inbound Send may wait for a Receive before the connection ends: 2 s, in the strict profile 0
    /// (AMB-008).
    #[must_use]
    pub fn receive_wait(mut self, wait: Duration) -> Self {
        self.receive_wait = Some(wait);
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

    /// The largest TCP segment, in octets (`TCP_MAXSEG`): FPDUs follow it. For tests of what happens on a path with
    /// small segments; without it the path decides.
    #[must_use]
    pub fn segment(mut self, octets: u16) -> Self {
        self.segment = Some(octets);
        self
    }

    /// Time limits of the start-up and of the tear-down.
    #[must_use]
    pub fn timeouts(mut self, change: impl FnOnce(&mut Timeouts)) -> Self {
        change(&mut self.timeouts);
        self
    }

    pub(crate) fn effective_receive_wait(&self) -> Duration {
        self.receive_wait.unwrap_or(match self.profile {
            Profile::Default => Duration::from_secs(2),
            Profile::Strict => Duration::ZERO,
        })
    }
}
