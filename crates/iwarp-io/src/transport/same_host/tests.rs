//! Offers and tokens of processes that do not keep the rules, and of processes that the connection does not concern.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp_mem::ring::{Ring, RingSize};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

use super::budget::Budget;
use super::counts::{Counts, TcpReason};
use super::meeting::Meeting;
use super::offer::{Offer, Token, name_of};
use crate::buffers::Buffers;
use crate::driver::Driver;
use crate::faults::FaultOwner;
use crate::memory::Table;
use crate::progress::readiness::{Edges, Readiness, Watch};
use crate::progress::set::Set;
use crate::setup::{
    Acceptor, AcceptorConfig, AcceptorOwner, HalfOpenLimits, Incoming, ReadLimits, ResponderConfig,
};
use crate::transport::local_ports::bind;
use crate::transport::purpose::Purpose;
use crate::transport::same_host::SameHost;
use crate::transport::shared_memory::tests::{
    LONG, accept, adapter, adapter_with, both, connect, counted, decided, listen, shared,
};
use crate::transport::{Listener, Paired, Wire};

const ANY: &str = "127.0.0.1:0";
/// How long a listener keeps an offer.
const LIVES: Duration = Duration::from_secs(10);

fn packet_socket() -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap()
}

fn unix_name(at: SocketAddr) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(name_of(at).as_bytes()).unwrap()
}

/// Connects to the name of the listener at this address.
fn reach(at: SocketAddr) -> OwnedFd {
    let socket = packet_socket();
    rustix::net::connect(&socket, &unix_name(at)).unwrap();
    socket
}

fn send(socket: &OwnedFd, packet: &[u8], files: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let packet = [IoSlice::new(packet)];
    rustix::net::sendmsg(socket, &packet, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Descriptors that a listener gets, and the end of a pipe by which a test sees whether it has closed them.
struct Watched {
    write: OwnedFd,
    read: PipeReader,
}

impl Watched {
    fn new() -> Self {
        let (read, write) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        Self {
            write: write.into(),
            read,
        }
    }

    fn files(&self, count: usize) -> Vec<BorrowedFd<'_>> {
        vec![self.write.as_fd(); count]
    }

    /// Closes the test's own descriptor. What is returned then says whether all others are closed.
    fn given_away(self) -> impl Fn() -> bool {
        let Self { write, read } = self;
        drop(write);
        move || match (&mut &read).read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }
}

/// A socket of TCP that has an address, and has not connected.
fn bound_socket() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&ANY.parse::<SocketAddr>().unwrap().into())
        .unwrap();
    let at = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, at)
}

fn connected(socket: socket2::Socket, to: SocketAddr) -> TcpStream {
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn offer_from(from: SocketAddr) -> Offer {
    Offer::new(from, RingSize::default()).unwrap()
}

/// A connection of a peer whose end of the rings is the test's.
struct ByHand {
    wire: Wire,
    tcp: TcpStream,
    memory: File,
    listener: Listener,
}

/// Where the words of the ring that the maker writes into lie in the file.
const TAIL: u64 = 0;
const CLOSED: u64 = 8;

impl ByHand {
    fn new() -> Self {
        let (transport, same_host) = adapter();
        let (listener, at) = listen(&transport, ANY);
        let (socket, from) = bound_socket();
        let offer = offer_from(from);
        let (ring, memory) = Ring::create(offer.size).unwrap();
        drop(ring);
        send(&reach(at), &offer.to_packet(), &[memory.as_fd()]).unwrap();
        let mut tcp = connected(socket, at);
        let wire = accept(&listener);
        let mut token = [0; Token::LEN];
        tcp.read_exact(&mut token).unwrap();
        assert_eq!(token, offer.first.0);
        tcp.write_all(&offer.second.0).unwrap();
        let wire = decided(wire).unwrap();
        assert!(wire.has_bells());
        assert_eq!(counted(&same_host), [("same_host.connections", 1)]);
        Self {
            wire,
            tcp,
            memory: memory.into(),
            listener,
        }
    }

    fn overwrite(&self, at: u64, word: u64) {
        self.memory.write_all_at(&word.to_ne_bytes(), at).unwrap();
    }

    /// The result of the first read that has one.
    fn read(&self, into: &mut [u8]) -> std::io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.wire.read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                read => return read,
            }
            assert!(begun.elapsed() < LONG, "nothing comes");
        }
    }
}

/// Each of them is dropped with all its descriptors. The connection that it was for is over TCP.
#[test]
fn an_offer_that_is_wrong_is_dropped_with_its_descriptors() {
    type Change = fn(&mut Vec<u8>);
    let size = u32::try_from(RingSize::default().octets()).unwrap();
    let packets: [(&str, Change, usize); 8] = [
        ("another version", |packet| packet[7] = b'2', 1),
        ("a piece", |packet| packet.truncate(Offer::LEN - 1), 1),
        ("too much", |packet| packet.push(0), 1),
        ("a size that no ring has", |packet| packet[29] = 1, 1),
        (
            "a token that begins as a frame",
            |packet| packet[46] = b'M',
            1,
        ),
        ("no descriptor", |_| {}, 0),
        ("two descriptors", |_| {}, 2),
        ("more descriptors than there is room for", |_| {}, 16),
    ];
    for (what, change, count) in packets {
        let (transport, same_host) = adapter();
        let (listener, at) = listen(&transport, ANY);
        let (socket, from) = bound_socket();
        let mut packet = offer_from(from).to_packet().to_vec();
        assert_eq!(packet[26..30], size.to_be_bytes());
        change(&mut packet);
        let watched = Watched::new();
        send(&reach(at), &packet, &watched.files(count)).unwrap();
        let closed = watched.given_away();
        let mut peer = connected(socket, at);
        peer.write_all(b"MPA").unwrap();
        let wire = decided(accept(&listener)).unwrap();
        assert!(!wire.has_bells(), "{what}");
        assert!(closed(), "{what}");
        let expected = [
            ("same_host.refused.bad_offer", 1),
            ("same_host.refused.no_offer", 1),
        ];
        assert_eq!(counted(&same_host), expected, "{what}");
    }
}

/// A listener maps no descriptor but a sealed memfd of the right length. It closes the others.
#[test]
fn an_offer_of_another_kind_of_memory_is_dropped_with_its_descriptor() {
    let size = RingSize::default();
    let (_, short) = Ring::create(RingSize::new(4096).unwrap()).unwrap();
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096 + 2 * size.octets() as u64).unwrap();
    for (what, memory) in [
        ("short", Some(short)),
        ("not sealed", Some(unsealed)),
        ("a pipe", None),
    ] {
        let (transport, same_host) = adapter();
        let (listener, at) = listen(&transport, ANY);
        let (socket, from) = bound_socket();
        let watched = Watched::new();
        let file = memory.as_ref().map_or(watched.write.as_fd(), AsFd::as_fd);
        send(&reach(at), &offer_from(from).to_packet(), &[file]).unwrap();
        let closed = watched.given_away();
        let mut peer = connected(socket, at);
        peer.write_all(b"MPA").unwrap();
        let wire = decided(accept(&listener)).unwrap();
        assert!(!wire.has_bells() && closed(), "{what}");
        let expected = [("same_host.refused.bad_offer", 1)];
        assert_eq!(counted(&same_host), expected, "{what}");
    }
}

/// It is kept for the time that offers have, and no longer. The connection from elsewhere is over TCP, and its peer gets no octet.
#[test]
fn an_offer_for_another_port_is_forgotten_after_its_time() {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let (_other, from) = bound_socket();
    let watched = Watched::new();
    send(&reach(at), &offer_from(from).to_packet(), &watched.files(1)).unwrap();
    let closed = watched.given_away();
    let mut peer = TcpStream::connect(at).unwrap();
    peer.write_all(b"MPA").unwrap();
    let before = Instant::now();
    let wire = decided(accept(&listener)).unwrap();
    assert_eq!(counted(&same_host), [("same_host.refused.no_offer", 1)]);
    let left = listener.forget_old(before + LIVES - LIVES / 4).unwrap();
    assert!(left >= LIVES / 4, "{left:?}");
    assert!(!closed(), "its connection may still come");
    assert_eq!(listener.forget_old(Instant::now() + LIVES), None);
    assert!(closed());
    wire.close_write().unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

/// What a listener holds is bounded, and so is the time. What it does not hold is in the socket, whose length the system bounds.
#[test]
fn a_flood_of_offers_is_held_in_part_and_then_forgotten() {
    const FLOOD: usize = 1000;
    // Nobody else has the port.
    let reserved = TcpListener::bind(ANY).unwrap();
    let at = reserved.local_addr().unwrap();
    let meeting = Meeting::open(at, LIVES).unwrap();
    let (counts, budget) = (Counts::default(), Budget::new(0));
    let look = || {
        let peer = "127.0.0.1:1".parse().unwrap();
        assert_eq!(
            meeting.take((at, peer), &counts, &budget).unwrap_err(),
            TcpReason::NoOffer
        );
        assert!(meeting.held() <= 64, "{}", meeting.held());
    };
    let watched = Watched::new();
    let mut looks = 0;
    for port in 0..FLOOD {
        let port = 2 + u16::try_from(port).unwrap();
        let packet = offer_from(SocketAddr::new(at.ip(), port)).to_packet();
        // The system lets a user have a limited number of descriptors in sockets.
        while send(&reach(at), &packet, &watched.files(1)) == Err(Errno::TOOMANYREFS) {
            look();
            looks += 1;
        }
    }
    let closed = watched.given_away();
    look();
    assert_eq!(meeting.held(), 64);
    assert!(!closed(), "64 a look");
    while looks < FLOOD / 64 {
        look();
        looks += 1;
    }
    assert!(!closed(), "the last ones are held");
    assert_eq!(meeting.forget_old(Instant::now() + LIVES), None);
    assert_eq!(meeting.held(), 0);
    assert!(closed());
}

/// More connectors than a listener holds offers of, all of them before the first is accepted.
#[test]
fn a_crowd_of_connectors_shares_memory() {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let active: Vec<Wire> = (0..150).map(|_| connect(&transport, at)).collect();
    for wire in active {
        both(wire, accept(&listener));
    }
    assert_eq!(counted(&same_host), [("same_host.connections", 300)]);
}

/// A connector that is between its connection to the name and its offer while a listener looks.
#[test]
fn a_connector_may_take_its_time_for_its_offer() {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let slow = reach(at);
    let never = reach(at);
    let ends = both(connect(&transport, at), accept(&listener));
    assert!(ends.iter().all(Wire::has_bells));
    drop(never);
    let (socket, from) = bound_socket();
    let offer = offer_from(from);
    let (_ring, memory) = Ring::create(offer.size).unwrap();
    send(&slow, &offer.to_packet(), &[memory.as_fd()]).unwrap();
    let mut peer = connected(socket, at);
    let wire = accept(&listener);
    let mut token = [1; Token::LEN];
    peer.read_exact(&mut token).unwrap();
    peer.write_all(&offer.second.0).unwrap();
    assert!(decided(wire).unwrap().has_bells());
    // The one that went without an offer is no fault.
    assert_eq!(counted(&same_host), [("same_host.connections", 3)]);
}

/// Octets reach the other end as they were sent, in both directions.
fn serves(active: &Wire, passive: &Wire) {
    for (from, to) in [(active, passive), (passive, active)] {
        assert_eq!(from.write(b"MPA frame").unwrap(), 9);
        let mut octets = [0; 32];
        while to.peek().is_err() {}
        assert_eq!(to.read(&mut octets).unwrap(), 9);
        assert_eq!(&octets[..9], b"MPA frame");
    }
}

/// A connection under way, for which another process has offered memory as well, behind the connector's own offer.
fn connecting_beside_a_foreign_offer() -> (SameHost, Listener, Wire) {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let active = connect(&transport, at);
    let offer = offer_from(active.addresses().0);
    let (_, memory) = Ring::create(offer.size).unwrap();
    send(&reach(at), &offer.to_packet(), &[memory.as_fd()]).unwrap();
    (same_host, listener, active)
}

/// A process offers its own memory for a connection that another one makes. If the listener takes that, the tokens do not meet.
#[test]
fn an_offer_for_somebody_elses_connection_leaves_it_on_tcp() {
    let (same_host, listener, active) = connecting_beside_a_foreign_offer();
    let passive = accept(&listener);
    let active = decided(active).unwrap();
    assert_eq!(active.write(b"MPA").unwrap(), 3);
    let passive = decided(passive).unwrap();
    assert!(!active.has_bells() && !passive.has_bells());
    assert_eq!(passive.read(&mut [0; 8]).unwrap(), 3);
    serves(&active, &passive);
    assert_eq!(counted(&same_host), [("same_host.refused.no_answer", 2)]);
}

/// As above, but the connector has not waited for the token.
#[test]
fn a_late_token_of_somebody_elses_offer_is_skipped_too() {
    let (same_host, listener, active) = connecting_beside_a_foreign_offer();
    let (active, paired) = active.pair(Instant::now());
    assert!(matches!(paired.unwrap(), Paired::Not { until: Some(_) }));
    let (active, paired) = active.pair(Instant::now() + LONG);
    assert_eq!(paired.unwrap(), Paired::MayWrite);
    assert_eq!(active.write(b"MPA").unwrap(), 3);
    let passive = decided(accept(&listener)).unwrap();
    let active = decided(active).unwrap();
    assert_eq!(passive.read(&mut [0; 8]).unwrap(), 3);
    serves(&active, &passive);
    assert_eq!(counted(&same_host), [("same_host.refused.no_answer", 2)]);
}

/// The connector's own offer comes behind the other one, and counts.
#[test]
fn an_offer_before_somebody_elses_connection_is_in_vain() {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let bound = bind(&transport, ANY.parse().unwrap(), Purpose::Connecting).unwrap();
    let watched = Watched::new();
    let packet = offer_from(bound.local().unwrap()).to_packet();
    send(&reach(at), &packet, &watched.files(1)).unwrap();
    let closed = watched.given_away();
    let dialer = bound.connect(at).unwrap();
    while !dialer.is_connected(Edges::WRITE).unwrap() {}
    let ends = both(dialer.into_wire().unwrap(), accept(&listener));
    assert!(ends.iter().all(Wire::has_bells) && closed());
    assert_eq!(counted(&same_host), [("same_host.connections", 2)]);
}

/// A process that has the name of a listener without having its port gets offers, and nothing comes of them.
#[test]
fn somebody_elses_name_leaves_connections_on_tcp() {
    let (transport, of_listener) = adapter();
    let bound = bind(&transport, ANY.parse().unwrap(), Purpose::Listening).unwrap();
    let at = bound.local().unwrap();
    let thief = packet_socket();
    rustix::net::bind(&thief, &unix_name(at)).unwrap();
    rustix::net::listen(&thief, 1).unwrap();
    let listener = bound.listen().unwrap();
    assert_eq!(counted(&of_listener), [("same_host.refused.system", 1)]);

    let (transport, of_connector) = adapter();
    let active = connect(&transport, at);
    let (active, paired) = active.pair(Instant::now());
    assert!(matches!(paired.unwrap(), Paired::Not { until: Some(_) }));
    let (active, paired) = active.pair(Instant::now() + LONG);
    assert_eq!(paired.unwrap(), Paired::MayWrite);
    assert_eq!(counted(&of_connector), [("same_host.refused.no_answer", 1)]);
    let passive = accept(&listener);
    assert!(!passive.is_unpaired());
    assert_eq!(active.write(b"MPA").unwrap(), 3);
    while passive.peek().is_err() {}
    assert_eq!(passive.read(&mut [0; 8]).unwrap(), 3);
    assert_eq!(passive.write(b"MPA").unwrap(), 3);
    let active = decided(active).unwrap();
    assert_eq!(active.read(&mut [0; 8]).unwrap(), 3);
    serves(&active, &passive);
    assert!(rustix::net::accept(&thief).is_ok(), "it has the offer");
}

/// The peer's first octets are not those of its token.
#[test]
fn a_listener_decides_by_the_first_octets() {
    for (octets, is_reset) in [
        (&b"MPA ID Req Frame"[..], false),
        (&[0; Token::LEN], true),
        (&[0, 1], true),
    ] {
        let (transport, _) = adapter();
        let (listener, at) = listen(&transport, ANY);
        let (socket, from) = bound_socket();
        let offer = offer_from(from);
        let (_ring, memory) = Ring::create(offer.size).unwrap();
        send(&reach(at), &offer.to_packet(), &[memory.as_fd()]).unwrap();
        let mut peer = connected(socket, at);
        let passive = accept(&listener);
        peer.write_all(octets).unwrap();
        match decided(passive) {
            Ok(wire) => assert!(!is_reset && !wire.has_bells(), "{octets:?}"),
            Err(error) => {
                assert!(is_reset, "{octets:?}: {error}");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            }
        }
    }
}

#[test]
fn a_peer_that_closes_its_ring_early_has_ended_its_direction_there() {
    let peer = ByHand::new();
    peer.memory.write_all_at(b"abc", 4096).unwrap();
    peer.overwrite(TAIL, 3);
    peer.overwrite(CLOSED, 1);
    let mut octets = [0; 8];
    assert_eq!(peer.read(&mut octets).unwrap(), 3);
    assert_eq!(&octets[..3], b"abc");
    assert_eq!(peer.read(&mut octets).unwrap(), 0);
    // What comes behind the end does not count.
    peer.wire.check().unwrap();
    assert_eq!(peer.wire.write(b"this direction goes on").unwrap(), 22);
}

#[test]
fn a_peer_that_breaks_the_rules_of_a_ring_is_reset() {
    for (at, word) in [(TAIL, 1 << 20), (TAIL, u64::MAX)] {
        let peer = ByHand::new();
        peer.overwrite(at, word);
        let error = peer.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    // The reader's index in the ring into which this end writes.
    let peer = ByHand::new();
    peer.overwrite(640, 1 << 40);
    let error = loop {
        if let Err(error) = peer.wire.write(&[7; 4096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    drop((peer.tcp, peer.listener));
}

/// A peer that takes nothing and is killed: the writer is woken, learns the end, and cannot write.
#[test]
fn a_peer_that_is_gone_with_a_full_ring_is_found() {
    let [active, passive] = shared();
    let set = Set::of_system().unwrap();
    let joins = Watch::<Set>::joins(&active);
    set.add_stream(&active, 1, Edges::READ | joins).unwrap();
    while active.write(&[7; 4096]).is_ok() {}
    assert_eq!(passive.write(b"last words").unwrap(), 10);
    drop(passive);
    let mut octets = [0; 32];
    let mut read = Vec::new();
    let mut waits = 0;
    loop {
        match active.read(&mut octets) {
            Ok(0) => break,
            Ok(count) => read.extend_from_slice(&octets[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                waits += usize::from(set.wait(Some(LONG), |_| {}).unwrap() == 0);
                // A wait may end early.
                assert!(waits < 3, "nothing was reported");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(read, b"last words");
    let error = active.write(&[7; 4096]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
}

struct NoOwner;

impl AcceptorOwner for NoOwner {
    fn requested(&self, _: Arc<Incoming>) {}

    fn ended(&self, _: u64) {}
}

#[derive(Debug)]
struct NoDevice;

impl FaultOwner for NoDevice {
    fn remove_device(&self) {}
}

/// Nobody connects any more after the connection by which the listener has taken the offer in.
#[test]
fn a_listener_forgets_offers_by_its_own_timer() {
    let lives = Duration::from_millis(50);
    let (transport, _) = adapter_with(|same_host| same_host.keep_offers_for(lives));
    let buffers = Buffers::new(Arc::new(Table::new()));
    let driver = Arc::new(Driver::start(transport, buffers, None).unwrap());
    let config = AcceptorConfig {
        responder: ResponderConfig {
            spares_crc: true,
            most: ReadLimits { ird: 1, ord: 1 },
            unstated: 1,
            request_within: None,
            ready_within: None,
        },
        faults: None,
        fault_owner: Arc::new(NoDevice),
    };
    let owner: Arc<dyn AcceptorOwner> = Arc::new(NoOwner);
    let acceptor = Acceptor::new(&driver, config, Arc::downgrade(&owner));
    let bound = bind(&driver.transport, ANY.parse().unwrap(), Purpose::Listening).unwrap();
    let at = bound.local().unwrap();
    let limits = HalfOpenLimits {
        total: 10,
        per_peer: 10,
    };
    acceptor.listen(vec![bound], Some(at), limits).unwrap();

    let (_other, from) = bound_socket();
    let watched = Watched::new();
    send(&reach(at), &offer_from(from).to_packet(), &watched.files(1)).unwrap();
    let closed = watched.given_away();
    let _peer = TcpStream::connect(at).unwrap();
    let begun = Instant::now();
    while !closed() {
        assert!(begun.elapsed() < LONG, "it is still held");
        std::thread::yield_now();
    }
    acceptor.close();
}
