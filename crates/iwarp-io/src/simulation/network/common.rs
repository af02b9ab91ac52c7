//! State that the streams and the datagrams of a network share: the clock, future events, random numbers, and changes to be reported.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use crate::simulation::{Chance, Conditions};

/// The range from which a port is picked for port 0 (IW-052).
pub(super) const EPHEMERAL: RangeInclusive<u16> = 49152..=65535;

/// One end of a stream. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndId(pub(super) u64);

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerId(pub(super) u64);

/// A socket for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatagramSocketId(pub(super) u64);

/// A datagram, in the form that its receiver gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The address of the sender, as the receiver sees it.
    pub from: SocketAddr,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// The payload.
    pub octets: Vec<u8>,
}

/// A change at an end, a listener or a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The end has octets, the peer's end, or an error to be read.
    Readable(EndId),
    /// The end accepts octets again, or its attempt to connect has finished.
    Writable(EndId),
    /// The peer has ended its direction, or the stream broke.
    Hangup(EndId),
    /// A peer waits to be accepted.
    Arrived(ListenerId),
    /// The socket has a datagram to be taken, or an address at which there was no socket.
    Received(DatagramSocketId),
}

/// A future event.
#[derive(Debug)]
pub(super) enum NetworkEvent {
    /// An attempt to connect reaches the other side.
    Asked(EndId),
    /// The other side's answer is back.
    Answered(EndId, Result<(), Errno>),
    Data(EndId, Vec<u8>),
    Fin(EndId),
    Reset(EndId),
    /// A datagram reaches its destination.
    Datagram {
        to: SocketAddr,
        datagram: Datagram,
    },
    /// A sender of datagrams learns that no socket has a remote address.
    Refused {
        sender: SocketAddr,
        remote: SocketAddr,
    },
}

impl NetworkEvent {
    /// Returns true if the event is one of a stream, and not of a datagram.
    pub(super) fn is_of_stream(&self) -> bool {
        !matches!(self, Self::Datagram { .. } | Self::Refused { .. })
    }
}

/// The numbers of disturbances of the network's streams and datagrams, by its [`Conditions`] or by a caller's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Disturbances {
    /// Segments that were late.
    pub stalls: u64,
    /// Streams that were reset.
    pub resets: u64,
    /// Directions that were closed.
    pub half_closes: u64,
    /// Attempts to connect that were refused.
    pub refusals: u64,
    /// Attempts to connect that got no answer.
    pub silences: u64,
    /// Streams on which the end that was connected to replied late.
    pub late_replies: u64,
    /// Streams on which the end that was connected to never replied.
    pub missing_replies: u64,
    /// Datagrams that were lost by [chance](Conditions::loss).
    pub losses: u64,
    /// Datagrams that arrived twice.
    pub duplications: u64,
    /// Datagrams that were late, so that later ones could overtake them.
    pub reorderings: u64,
    /// Datagrams of which bits were flipped.
    pub corruptions: u64,
    /// Datagrams for which their receiver had no room.
    pub overflows: u64,
    /// Datagrams that were too large to be sent.
    pub oversizes: u64,
    /// Datagrams between hosts that were cut off from each other.
    pub cuts: u64,
    /// Changes of the address of a socket for datagrams.
    pub rebinds: u64,
    /// Datagrams to an address that a socket had before its address was changed.
    pub strays: u64,
}

/// State that streams and datagrams share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) now: Duration,
    random: Xoshiro256PlusPlus,
    pub(super) conditions: Conditions,
    /// Future events, by time and serial number.
    pub(super) events: BTreeMap<(Duration, u64), NetworkEvent>,
    /// The number of events of streams.
    pub(super) stream_events: usize,
    /// The last number given to a socket, an end or an event.
    serial: u64,
    pub(super) notices: VecDeque<Notice>,
    pub(super) disturbances: Disturbances,
}

impl Common {
    pub(super) fn new(seed: u64, conditions: Conditions) -> Self {
        Self {
            now: Duration::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            conditions,
            events: BTreeMap::new(),
            stream_events: 0,
            serial: 0,
            notices: VecDeque::new(),
            disturbances: Disturbances::default(),
        }
    }

    /// A number that was not given out before.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Picks an ephemeral port: the first one, beginning at a random one, for which `take` returns true because it took the address.
    pub(super) fn pick_port(
        &mut self,
        ip: IpAddr,
        mut take: impl FnMut(SocketAddr) -> bool,
    ) -> io::Result<SocketAddr> {
        let count = u32::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
        let start = self.draw(0..=u64::from(count - 1));
        for step in 0..u64::from(count) {
            let offset = u16::try_from((start + step) % u64::from(count)).unwrap_or(0);
            let candidate = SocketAddr::new(ip, EPHEMERAL.start() + offset);
            if take(candidate) {
                return Ok(candidate);
            }
        }
        Err(Errno::ADDRINUSE.into())
    }

    /// The time for which a link is busy with `len` octets.
    pub(super) fn carried(&self, len: usize) -> Duration {
        match self.conditions.bandwidth {
            0 => Duration::ZERO,
            rate => Duration::from_nanos((len as u64).saturating_mul(1_000_000_000) / rate.max(1)),
        }
    }

    pub(super) fn schedule(&mut self, at: Duration, event: NetworkEvent) {
        let serial = self.next_serial();
        self.stream_events += usize::from(event.is_of_stream());
        self.events.insert((at, serial), event);
    }

    pub(super) fn latency(&mut self) -> Duration {
        self.draw_time(self.conditions.latency.clone())
    }

    pub(super) fn happens(&mut self, chance: Chance) -> bool {
        // No random number is drawn for a disturbance that is off, so that adding a disturbance to the code does not change
        // runs without it.
        match chance {
            Chance::NEVER => false,
            chance => self.draw(0..=999_999) < u64::from(chance.millionths()),
        }
    }

    pub(super) fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    pub(super) fn draw_time(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let nanos = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.draw(nanos(range.start())..=nanos(range.end())))
    }

    pub(super) fn draw_length(&mut self, range: RangeInclusive<usize>) -> usize {
        let drawn = self.draw(*range.start() as u64..=*range.end() as u64);
        usize::try_from(drawn).unwrap_or(usize::MAX).max(1)
    }

    /// A random index into a list of this length.
    pub(super) fn draw_index(&mut self, len: usize) -> usize {
        let drawn = self.draw(0..=(len as u64).saturating_sub(1));
        usize::try_from(drawn).unwrap_or(0)
    }

    /// A number of a range. If the range is empty, its start.
    pub(super) fn draw(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = range.end().saturating_sub(*range.start());
        if span == 0 {
            return *range.start();
        }
        // The bias of a remainder is below 2^-32 for the ranges in use.
        range.start() + self.random.next_u64() % span.saturating_add(1).max(1)
    }
}

/// Returns true if a route leads from one address to the other: between two families there is none, and loopback addresses reach each other
/// only.
pub(super) fn has_route(one: SocketAddr, other: SocketAddr) -> bool {
    let route = |address: SocketAddr| (address.is_ipv4(), address.ip().is_loopback());
    route(one) == route(other)
}
