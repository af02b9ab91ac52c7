//! The disturbances of a simulated network: latency, loss and other effects on its streams and datagrams.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A probability, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(u32);

impl Chance {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Every time.
    pub const ALWAYS: Self = Self(1_000_000);

    /// A probability of `count` in a million; more than a million counts as a million.
    pub const fn per_million(count: u32) -> Self {
        if count > Self::ALWAYS.0 {
            Self::ALWAYS
        } else {
            Self(count)
        }
    }

    /// The probability in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

/// The effects of a simulated network on every stream and every datagram that crosses it. The default network loses nothing, delivers
/// octets in segments of 1 to 1460 octets, and datagrams, after 5 to 50 µs, and never ends a stream by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conditions {
    /// The time from one end to the other, drawn for each segment and each datagram. Segments of one direction never overtake
    /// each other.
    pub latency: RangeInclusive<Duration>,
    /// Octets per second and direction of a stream, and per second of a socket that sends datagrams; 0 sets no limit.
    pub bandwidth: u64,
    /// The length of segments in octets, drawn for each segment: a stream is cut into these for its receiver.
    pub segment: RangeInclusive<usize>,
    /// The most octets that an end takes from its writer before any of them is delivered, and the most that it keeps for its reader.
    pub buffer: usize,
    /// The time for which the two addresses of a stream that was closed in good order cannot be used again for another one, at the end that
    /// closed first (TIME-WAIT).
    pub time_wait: Duration,
    /// The probability that a segment is late by a time from [`stall_time`](Self::stall_time).
    pub stall: Chance,
    /// The length of a stall.
    pub stall_time: RangeInclusive<Duration>,
    /// The probability that a segment is replaced by a reset, which both ends see.
    pub reset: Chance,
    /// The probability that a direction ends in front of a segment as if its writer had closed it; octets behind that are dropped.
    pub half_close: Chance,
    /// The probability that an attempt to connect is refused although there is a listener.
    pub refusal: Chance,
    /// The probability that an attempt to connect gets no answer at all.
    pub silence: Chance,
    /// The probability that a stream is established, but octets of the end that was connected to arrive late by a time from
    /// [`late_reply_time`](Self::late_reply_time): a peer whose application is slow to accept.
    pub late_reply: Chance,
    /// The delay of a peer that replies late.
    pub late_reply_time: RangeInclusive<Duration>,
    /// The probability that a stream is established, but no octets of the end that was connected to ever arrive, nor the end of that
    /// direction: a peer whose application hangs. Only a reset still arrives.
    pub no_reply: Chance,
    /// Hosts that cannot be reached: an attempt to connect to one of them fails with the system's error for that (`EHOSTUNREACH`), even if
    /// the address has an adapter, and so does sending a datagram there.
    pub unreachable: BTreeSet<IpAddr>,
    /// The probability that a datagram is lost.
    pub loss: Chance,
    /// The probability that a datagram arrives twice. Each copy has its own latency, and its own probability to be late or corrupted.
    pub duplication: Chance,
    /// The probability that a datagram is late by a time from [`reordering_time`](Self::reordering_time), so that later ones may overtake
    /// it.
    pub reordering: Chance,
    /// The delay of a reordered datagram.
    pub reordering_time: RangeInclusive<Duration>,
    /// The probability that one to eight bits of a datagram are flipped.
    pub corruption: Chance,
    /// The most octets of datagrams that a socket keeps for its reader. Datagrams beyond that are lost; 0 sets no limit.
    pub datagram_buffer: usize,
    /// The largest datagram in octets. Sending a larger one fails with the system's error for that (`EMSGSIZE`).
    pub largest_datagram: usize,
    /// The probability that a socket has no room for a datagram, so that sending it fails with `EWOULDBLOCK`.
    pub full_socket: Chance,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(5)..=Duration::from_micros(50),
            bandwidth: 0,
            segment: 1..=1460,
            buffer: 64 * 1024,
            time_wait: Duration::from_secs(60),
            stall: Chance::NEVER,
            stall_time: Duration::from_millis(1)..=Duration::from_millis(100),
            reset: Chance::NEVER,
            half_close: Chance::NEVER,
            refusal: Chance::NEVER,
            silence: Chance::NEVER,
            late_reply: Chance::NEVER,
            late_reply_time: Duration::from_secs(1)..=Duration::from_secs(600),
            no_reply: Chance::NEVER,
            unreachable: BTreeSet::new(),
            loss: Chance::NEVER,
            duplication: Chance::NEVER,
            reordering: Chance::NEVER,
            reordering_time: Duration::from_micros(50)..=Duration::from_millis(1),
            corruption: Chance::NEVER,
            datagram_buffer: 0,
            largest_datagram: 65_507, // the most that UDP over IPv4 carries
            full_socket: Chance::NEVER,
        }
    }
}
