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

use crate::environment::Environment;
use crate::log::targets;

use super::budget::{Budget, Share};
use super::counts::{Counts, TcpReason};
use super::offer::{Offer, Token, canonical, name_of, names_to};

/// The most offers that one look takes, and the most that wait for their connection.
const OFFERS: usize = 64;
/// How long an offer waits for its connection.
const OFFER_LIVES: Duration = Duration::from_secs(10);

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
    let socket = packet_socket().map_err(|_| TcpReason::System)?;
    let connected = names_to(to).iter().any(|name| {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes());
        address.is_ok_and(|address| rustix::net::connect(&socket, &address).is_ok())
    });
    if !connected {
        return Err(TcpReason::NoName);
    }
    if !is_of_this_user(&socket) {
        return Err(TcpReason::OtherUser);
    }
    let share = budget.take(Ring::of_words()).ok_or(TcpReason::Memory)?;
    let offer = Offer::new(from, size).map_err(|_| TcpReason::System)?;
    let (ring, file) = Ring::create(size).map_err(|error| {
        limited!(warn, target: targets::CONNECT, %error, "no shared memory for a connection within this machine; it is over TCP");
        TcpReason::System
    })?;
    send(&socket, &offer.to_packet(), &file).map_err(|_| TcpReason::System)?;
    Ok(Offered {
        ring: SharedRing { ring, share },
        first: offer.first,
        second: offer.second,
    })
}

pub(super) fn packet_socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Returns true if the other end of the socket was made by a process of the same user.
fn is_of_this_user(socket: &impl AsFd) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(socket) else {
        return false;
    };
    let own = rustix::process::geteuid();
    peer.uid == own && own.as_raw() != *OVERFLOW_USER
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

/// Receives a packet with one descriptor. All descriptors of another packet are closed.
fn receive(socket: &impl AsFd) -> rustix::io::Result<Option<(Offer, OwnedFd)>> {
    let mut packet = [0; Offer::LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut packet)],
        &mut control,
        flags,
    )?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(of_message) = message {
            files.extend(of_message);
        }
    }
    let offer = Offer::from_packet(&packet[..received.bytes.min(packet.len())]);
    let is_one = files.len() == 1;
    Ok(offer.zip(files.pop().filter(|_| is_one)))
}

/// The socket at which a listener takes offers, and those whose connections it has not accepted yet. No set reports it: offers are taken when
/// a connection is accepted.
#[derive(Debug)]
pub struct Meeting {
    socket: OwnedFd,
    waiting: Mutex<Vec<(Instant, Offer, OwnedFd)>>,
}

impl Meeting {
    /// Takes offers for the listener at this address.
    ///
    /// # Errors
    ///
    /// Those of the system; `AddrInUse` if another process has the name.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = packet_socket()?;
        let name = name_of(address);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, i32::MAX)?;
        Ok(Self {
            socket,
            waiting: Mutex::default(),
        })
    }

    /// Takes the offer for the connection from `peer`, and maps its memory.
    pub(super) fn take(
        &self,
        peer: SocketAddr,
        counts: &Counts,
        budget: &Arc<Budget>,
    ) -> Result<Taken, TcpReason> {
        let now = Environment::System.now();
        let mut waiting = self.waiting.lock();
        self.take_in(&mut waiting, now, counts);
        let from = canonical(peer);
        let at = waiting.iter().position(|(_, offer, _)| offer.from == from);
        let (_, offer, file) = waiting.remove(at.ok_or(TcpReason::NoOffer)?);
        drop(waiting);
        let share = budget.take(Ring::of_words());
        let share = share.ok_or(TcpReason::Memory)?;
        let ring = Ring::open(&file, offer.size).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => TcpReason::BadOffer,
            _ => TcpReason::System,
        })?;
        Ok(Taken {
            ring: SharedRing { ring, share },
            first: offer.first,
            second: offer.second,
        })
    }

    /// Forgets offers that have waited too long. Returns the time after which those that are left have.
    pub(in crate::transport) fn forget_old(&self, now: Instant) -> Option<Duration> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(since, ..)| is_young(*since, now));
        (!waiting.is_empty()).then_some(OFFER_LIVES)
    }

    /// Takes in the offers that are there, the latest in place of the earliest.
    fn take_in(&self, waiting: &mut Vec<(Instant, Offer, OwnedFd)>, now: Instant, counts: &Counts) {
        waiting.retain(|(since, ..)| is_young(*since, now));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..OFFERS {
            let Ok(connector) = rustix::net::accept_with(&self.socket, flags) else {
                return;
            };
            if !is_of_this_user(&connector) {
                counts.refused(TcpReason::OtherUser);
                continue;
            }
            let Ok(Some((offer, file))) = receive(&connector) else {
                counts.refused(TcpReason::BadOffer);
                continue;
            };
            // A connector that offers again from the same port has given the connection before up.
            waiting.retain(|(_, other, _)| other.from != offer.from);
            if waiting.len() == OFFERS {
                waiting.remove(0);
            }
            waiting.push((now, offer, file));
        }
    }
}

fn is_young(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < OFFER_LIVES
}
