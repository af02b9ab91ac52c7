//! How the two ends of a connection within one machine find each other: a packet to a socket that the listener has beside its TCP socket.
//!
//! Abstract names belong to the network namespace, as the loopback interface does. So processes that reach each other by it meet here, in
//! whatever other namespaces they are.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use iwarp_mem::ring::{Ring, RingSize};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use tracing::Span;

use crate::environment::Environment;
use crate::log::{span_between, targets};

use super::budget::{Budget, Share};
use super::counts::{Counts, TcpReason};
use super::offer::{Offer, Token, canonical, name_of, names_to};

/// The most offers that one look takes, and the most that wait for their connection.
const OFFERS: usize = 64;
/// The user ID that the kernel shows for users without a mapping in this user namespace.
static OVERFLOW_USER: LazyLock<u32> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let user = text.ok().and_then(|text| text.trim().parse().ok());
    user.unwrap_or(65534)
});

/// The rings of a connection, with what they take of the adapter's memory.
#[derive(Debug)]
pub struct SharedRing {
    ring: Ring,
    share: Share,
}

impl SharedRing {
    /// The memory that this end's ring takes by now, in octets. That of the words comes on top.
    pub(in crate::transport) fn set_memory(&self, octets: u64) {
        self.share.set(Ring::of_words() + octets);
    }
}

impl Deref for SharedRing {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.ring
    }
}

/// An offer that was sent, or the connector's end of its rings.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) ring: SharedRing,
    pub(super) first: Token,
    pub(super) second: Token,
}

/// An offer that was taken for a connection: the listener's end.
pub(super) type Taken = Offered;

/// Offers the listener at `to` memory for the connection from `from`, if it belongs to this user.
pub(super) fn offer(
    from: SocketAddr,
    to: SocketAddr,
    size: RingSize,
    budget: &Arc<Budget>,
) -> Result<Offered, TcpReason> {
    if from.ip().is_unspecified() || from.port() == 0 {
        return Err(TcpReason::NoAddress);
    }
    let ends = Some((from, to));
    let socket = packet_socket().map_err(refused_by("socket AF_UNIX", ends))?;
    reach(&socket, &names_to(to), ends)?;
    check_user(&socket, ends)?;
    let share = budget.take(Ring::of_words()).ok_or(TcpReason::Memory)?;
    let offer = Offer::new(from, size).map_err(refused_by("getrandom", ends))?;
    let (ring, file) = Ring::create(size).map_err(refused_by("shared memory", ends))?;
    let sent = send(&socket, &offer.to_packet(), &file);
    sent.map_err(refused_by("sendmsg SCM_RIGHTS", ends))?;
    Ok(Offered {
        ring: SharedRing { ring, share },
        first: offer.first,
        second: offer.second,
    })
}

/// Connects to the first of these names at which a process listens.
fn reach(socket: &impl AsFd, names: &[String], ends: Option<Ends>) -> Result<(), TcpReason> {
    for name in names {
        let connected = SocketAddrUnix::new_abstract_name(name.as_bytes())
            .and_then(|address| rustix::net::connect(socket, &address));
        match connected {
            Err(Errno::CONNREFUSED) => {}
            other => return other.map_err(refused_by("connect AF_UNIX", ends)),
        }
    }
    Err(TcpReason::NoName)
}

/// The local address of a connection, and the peer's.
type Ends = (SocketAddr, SocketAddr);

/// The system has refused what a connection over shared memory needs. `ends` are those of the connection, if it is one.
fn refused_by<E: Into<io::Error>>(
    call: &'static str,
    ends: Option<Ends>,
) -> impl Fn(E) -> TcpReason {
    move |error| {
        let error = error.into();
        let span = ends.map_or_else(Span::none, |(local, peer)| span_between(local, peer));
        limited!(warn, target: targets::CONNECT, parent: &span, call, %error, "no shared memory for a connection within this machine; it is over TCP");
        TcpReason::System
    }
}

pub(super) fn packet_socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Checks that the other end of the socket was made by a process of the same user.
fn check_user(socket: &impl AsFd, ends: Option<Ends>) -> Result<(), TcpReason> {
    let peer = iwarp_mem::socket_options::user_of_peer(socket.as_fd());
    let peer = peer.map_err(refused_by("getsockopt SO_PEERCRED", ends))?;
    let own = rustix::process::geteuid().as_raw();
    if peer == own && own != *OVERFLOW_USER {
        Ok(())
    } else {
        Err(TcpReason::OtherUser)
    }
}

fn send(socket: &impl AsFd, packet: &[u8], file: &OwnedFd) -> rustix::io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(Errno::NOBUFS);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags)?;
    Ok(())
}

/// What a connector has sent.
enum Received {
    Offer(Offer, OwnedFd),
    /// Nothing so far.
    Nothing,
    /// Nothing, and nothing follows.
    Withdrawn,
    Bad,
}

/// Receives a packet with one descriptor. All descriptors of another packet are closed.
fn receive(socket: &impl AsFd) -> Received {
    let mut packet = [0; Offer::LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let into = &mut [IoSliceMut::new(&mut packet)];
    let received = match rustix::net::recvmsg(socket, into, &mut control, flags) {
        Ok(received) => received,
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        Err(_) => return Received::Bad,
    };
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(of_message) = message {
            files.extend(of_message);
        }
    }
    if received.bytes == 0 && files.is_empty() {
        return Received::Withdrawn;
    }
    let offer = Offer::from_packet(&packet[..received.bytes.min(packet.len())]);
    let is_one = files.len() == 1;
    match offer.zip(files.pop().filter(|_| is_one)) {
        Some((offer, file)) => Received::Offer(offer, file),
        None => Received::Bad,
    }
}

/// What a listener holds for connections that it has not accepted yet, each with the time since when, the earliest first.
#[derive(Debug, Default)]
struct Waiting {
    offers: Vec<(Instant, Offer, OwnedFd)>,
    /// Connectors that have connected to the name, and have not sent their offer.
    silent: Vec<(Instant, OwnedFd)>,
}

impl Waiting {
    fn len(&self) -> usize {
        self.offers.len() + self.silent.len()
    }

    /// The times since when.
    fn times(&self) -> impl Iterator<Item = Instant> {
        let offers = self.offers.iter().map(|(since, ..)| *since);
        offers.chain(self.silent.iter().map(|(since, _)| *since))
    }

    /// Forgets what has waited since another time than these.
    fn keep(&mut self, is_kept: impl Fn(Instant) -> bool) {
        self.offers.retain(|(since, ..)| is_kept(*since));
        self.silent.retain(|(since, _)| is_kept(*since));
    }

    fn forget_earliest(&mut self) {
        if self.offers.is_empty() {
            self.silent.remove(0);
        } else {
            self.offers.remove(0);
        }
    }

    /// Receives the offer of a connector, if it is there.
    fn hear(&mut self, since: Instant, connector: OwnedFd, counts: &Counts) {
        match receive(&connector) {
            Received::Offer(offer, file) => {
                // A connector that offers again from the same port has given the connection before up.
                self.offers.retain(|(_, other, _)| other.from != offer.from);
                self.offers.push((since, offer, file));
            }
            Received::Nothing => self.silent.push((since, connector)),
            Received::Withdrawn => {}
            Received::Bad => counts.refused(TcpReason::BadOffer),
        }
    }

    /// Receives what silent connectors have sent meanwhile.
    fn hear_silent(&mut self, counts: &Counts) {
        for (since, connector) in std::mem::take(&mut self.silent) {
            self.hear(since, connector, counts);
        }
    }

    fn take(&mut self, from: SocketAddr) -> Option<(Offer, OwnedFd)> {
        let mut offers = self.offers.iter();
        let at = offers.position(|(_, offer, _)| offer.from == from)?;
        let (_, offer, file) = self.offers.remove(at);
        Some((offer, file))
    }
}

/// The socket at which a listener takes offers, and those whose connections it has not accepted yet. No set reports it: offers are taken when
/// a connection is accepted.
#[derive(Debug)]
pub struct Meeting {
    socket: OwnedFd,
    /// How long an offer waits for its connection.
    lives: Duration,
    /// At most [`OFFERS`].
    waiting: Mutex<Waiting>,
}

impl Meeting {
    /// Takes offers for the listener at this address, each of which waits `lives` for its connection.
    ///
    /// # Errors
    ///
    /// Those of the system; `AddrInUse` if another process has the name.
    pub(super) fn open(address: SocketAddr, lives: Duration) -> io::Result<Self> {
        let socket = packet_socket()?;
        let name = name_of(address);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, i32::MAX)?;
        Ok(Self {
            socket,
            lives,
            waiting: Mutex::default(),
        })
    }

    /// Takes the offer for the connection from `peer`, and maps its memory.
    pub(super) fn take(
        &self,
        addresses: Ends,
        counts: &Counts,
        budget: &Arc<Budget>,
    ) -> Result<Taken, TcpReason> {
        let now = Environment::System.now();
        let found = self.find(canonical(addresses.1), now, counts);
        let (offer, file) = found.ok_or(TcpReason::NoOffer)?;
        let share = budget.take(Ring::of_words());
        let share = share.ok_or(TcpReason::Memory)?;
        let ring = Ring::open(&file, offer.size).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => TcpReason::BadOffer,
            _ => refused_by("shared memory", Some(addresses))(error),
        })?;
        Ok(Taken {
            ring: SharedRing { ring, share },
            first: offer.first,
            second: offer.second,
        })
    }

    /// Forgets offers that have waited too long. Returns the time after which the next one has.
    pub(in crate::transport) fn forget_old(&self, now: Instant) -> Option<Duration> {
        let mut waiting = self.waiting.lock();
        waiting.keep(|since| self.is_young(since, now));
        let earliest = waiting.times().min()?;
        Some((earliest + self.lives).saturating_duration_since(now))
    }

    fn is_young(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) < self.lives
    }

    /// The number of offers and of silent connectors that are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Finds the offer for the connection from this address.
    ///
    /// No more connectors are accepted than can be held, unless the offer is not among those: connections are accepted about in the order of
    /// their offers, of which many may wait.
    fn find(&self, from: SocketAddr, now: Instant, counts: &Counts) -> Option<(Offer, OwnedFd)> {
        let mut waiting = self.waiting.lock();
        waiting.keep(|since| self.is_young(since, now));
        waiting.hear_silent(counts);
        let mut accepted = 0;
        loop {
            let mut is_last = accepted == OFFERS;
            while !is_last && waiting.len() < OFFERS {
                is_last = !self.accept(&mut waiting, now, counts);
                accepted += 1;
                is_last |= accepted == OFFERS;
            }
            let found = waiting.take(from);
            if found.is_some() || is_last {
                return found;
            }
            // The latest in place of the earliest.
            waiting.forget_earliest();
        }
    }

    /// Accepts a connector, and its offer if that is there. Returns false if none waits.
    fn accept(&self, waiting: &mut Waiting, now: Instant, counts: &Counts) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connector = match rustix::net::accept_with(&self.socket, flags) {
            Ok(connector) => connector,
            Err(Errno::AGAIN) => return false,
            Err(error) => {
                counts.refused(refused_by("accept4 AF_UNIX", None)(error));
                return false;
            }
        };
        match check_user(&connector, None) {
            Ok(()) => waiting.hear(now, connector, counts),
            Err(reason) => counts.refused(reason),
        }
        true
    }
}
