//! What processes of the same machine send to a listener that takes offers of shared memory: offers and first octets.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use iwarp_io::progress::Edges;
use iwarp_io::transport::local_ports::bind;
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::same_host::SameHost;
use iwarp_io::transport::tcp::{Tcp, TcpOptions};
use iwarp_io::transport::{Paired, Transport, Wire};
use iwarp_mem::ring::{Ring, RingSize};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};

use crate::input::Input;

const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A packet: the version, the address in its IPv6 form, the port, the octets of a ring, and two tokens.
const VERSION: &[u8] = b"softnd-1";
const TOKEN: usize = 16;
const PACKET: usize = 8 + 16 + 2 + 4 + 2 * TOKEN;

/// Only to end a hang.
const LONG: Duration = Duration::from_secs(60);

/// Input: how many offers there are (up to 3), and for each of them
///
/// - which descriptors come with it: the right memory, memory of another length or without seals, another kind, none, two;
/// - the first octet of each token and one more;
/// - how many octets of the packet change, where and to which value, and how many octets are left or too many.
///
/// Then the first octets of the connection: the right token, a part of it, or those of the rest of the input.
///
/// A connection is over shared memory only if the offer and both tokens are right. All others are over TCP, or reset. A connector that keeps the
/// rules is served afterwards.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn same_host(data: &[u8]) {
    let mut input = Input::new(data);
    let transport = transport();
    let bound = bind(&transport, HERE, Purpose::Listening).expect("a free port");
    let at = bound.local().expect("a bound socket");
    let listener = bound.listen().expect("a listener");

    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &HERE).expect("a free port");
    let from = rustix::net::getsockname(&socket).expect("a bound socket");
    let from = SocketAddr::try_from(from).expect("an address of IPv4");

    let mut taken = None;
    for _ in 0..input.octet() % 4 {
        let offer = Offer::read(&mut input, from);
        offer.send(at);
        // The last one for the connection counts.
        if offer.is_for(from) {
            taken = Some(offer);
        }
    }
    let expected = taken.filter(|offer| offer.memory.is_right(offer.size()));

    connect(&socket, at);
    // The peer's close is a reset, so that no port waits for late segments.
    let at_once = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&socket, at_once).expect("a socket");
    let mut peer = TcpStream::from(socket);
    let wire = accept(|| listener.accept());
    assert_eq!(wire.is_unpaired(), expected.is_some());
    match expected {
        Some(offer) => {
            let mut token = [0; TOKEN];
            peer.read_exact(&mut token).expect("the listener's token");
            assert_eq!(token[..], offer.token(0));
            first_octets(&mut input, &mut peer, wire, &offer.token(1));
        }
        None => {
            let (wire, paired) = wire.pair(Instant::now());
            assert_eq!(paired.expect("TCP"), Paired::Decided);
            assert!(!wire.has_bells());
        }
    }

    let connecting = bind(&transport, HERE, Purpose::Connecting).expect("a free port");
    let dialer = connecting.connect(at).expect("a listener");
    until(|| {
        dialer
            .is_connected(Edges::WRITE)
            .expect("a listener")
            .then_some(())
    });
    let passive = accept(|| listener.accept());
    let mut ends = [dialer.into_wire().expect("a connection"), passive].map(Some);
    until(|| {
        let mut is_done = true;
        for end in &mut ends {
            let (wire, paired) = end.take()?.pair(Instant::now());
            is_done &= paired.expect("both keep the rules") == Paired::Decided;
            *end = Some(wire);
        }
        is_done.then_some(())
    });
    for end in ends.into_iter().flatten() {
        assert!(end.has_bells());
        // As above: thousands of inputs would use up all ports.
        end.reset();
    }
}

/// TCP with the option, which waits for as long as the other end takes.
fn transport() -> Transport {
    let mut same_host = SameHost::if_possible().expect("Linux has it");
    same_host.wait_for(LONG);
    Transport::Tcp(Tcp::new(TcpOptions {
        same_host: Some(same_host),
        ..TcpOptions::default()
    }))
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "it takes too long");
        std::thread::yield_now();
    }
}

fn accept(mut accept: impl FnMut() -> std::io::Result<Wire>) -> Wire {
    until(|| match accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        accepted => Some(accepted.expect("a peer")),
    })
}

/// A signal of libFuzzer may interrupt the call, and the connection is then made without it.
fn connect(socket: &OwnedFd, to: SocketAddr) {
    match rustix::net::connect(socket, &to) {
        Err(Errno::INTR) => {
            let mut made = [PollFd::new(socket, PollFlags::OUT)];
            retry_on_intr(|| poll(&mut made, None)).expect("a socket can be polled");
            let error = rustix::net::sockopt::socket_error(socket).expect("a socket");
            error.expect("a listener");
        }
        made => made.expect("a listener"),
    }
}

/// The peer's first octets, and what the listener makes of them.
fn first_octets(input: &mut Input<'_>, peer: &mut TcpStream, wire: Wire, token: &[u8]) {
    let octets = match input.octet() % 4 {
        0 => token.to_vec(),
        1 => token[..usize::from(input.octet()) % TOKEN].to_vec(),
        2 => {
            let mut octets = token.to_vec();
            octets[usize::from(input.octet()) % TOKEN] ^= input.octet();
            octets
        }
        _ => input.rest().to_vec(),
    };
    peer.write_all(&octets).expect("the listener has not ended");
    let mut undecided = Some(wire);
    let mut step = || {
        let (wire, paired) = undecided.take()?.pair(Instant::now());
        match paired {
            Ok(Paired::Decided) => Some(Ok(wire)),
            Ok(paired) => {
                assert_eq!(paired, Paired::Not { until: None });
                undecided = Some(wire);
                None
            }
            Err(error) => Some(Err(error)),
        }
    };
    if octets.len() < TOKEN && octets == token[..octets.len()] {
        assert!(step().is_none(), "more may come");
        return;
    }
    match until(step) {
        Ok(wire) if octets[..TOKEN.min(octets.len())] == *token => assert!(wire.has_bells()),
        Ok(wire) => {
            assert_ne!(octets[0], 0);
            assert!(!wire.has_bells());
            let mut read = vec![0; octets.len()];
            let mut count = 0;
            while count < read.len() {
                count += until(|| wire.read(&mut read[count..]).ok());
            }
            assert_eq!(read, octets);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            assert!(octets[0] == 0 && !octets.starts_with(token));
        }
    }
}

/// The descriptors that come with an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Of a connection with rings of this many octets.
    Sealed(usize),
    Unsealed,
    Socket,
    None,
    Two,
}

impl Memory {
    /// Returns true if it is the memory of a connection with rings of this size.
    fn is_right(self, size: usize) -> bool {
        self == Self::Sealed(size)
    }

    fn make(self) -> Vec<OwnedFd> {
        let sealed = |octets| {
            let size = RingSize::new(octets).expect("a size of rings");
            Ring::create(size).expect("a system with memory").1
        };
        match self {
            Self::Sealed(octets) => vec![sealed(octets)],
            Self::Unsealed => {
                let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
                let file = rustix::fs::memfd_create("fuzz", flags).expect("a system with memory");
                rustix::fs::ftruncate(&file, 3 * 4096).expect("a file in memory");
                vec![file]
            }
            Self::Socket => {
                let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None);
                vec![socket.expect("a socket")]
            }
            Self::None => Vec::new(),
            Self::Two => vec![sealed(4096), sealed(4096)],
        }
    }
}

struct Offer {
    packet: Vec<u8>,
    memory: Memory,
}

impl Offer {
    fn read(input: &mut Input<'_>, from: SocketAddr) -> Self {
        let memory = match input.octet() % 8 {
            0..=2 => Memory::Sealed(4096),
            3 => Memory::Sealed(8192),
            4 => Memory::Unsealed,
            5 => Memory::Socket,
            6 => Memory::None,
            _ => Memory::Two,
        };
        let IpAddr::V4(ip) = from.ip() else {
            unreachable!("the peer's address is of IPv4");
        };
        let mut packet = [
            VERSION,
            &ip.to_ipv6_mapped().octets(),
            &from.port().to_be_bytes(),
            &4096_u32.to_be_bytes(),
        ]
        .concat();
        for _ in 0..2 {
            packet.push(0);
            packet.push(input.octet());
            packet.resize(packet.len() + TOKEN - 2, 0x77);
        }
        for _ in 0..input.octet() % 4 {
            let place = usize::from(input.octet()) % PACKET;
            packet[place] = input.octet();
        }
        match input.octet() {
            0..=127 => {}
            octet @ 128..=191 => packet.truncate(usize::from(octet - 128)),
            octet => packet.resize(PACKET + usize::from(octet - 191), 0),
        }
        Self { packet, memory }
    }

    /// Sends it to the name of the listener at this address. A packet without octets cannot be told from none.
    fn send(&self, at: SocketAddr) {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
        let socket = socket.expect("a socket");
        let name = format!("softnd-1/{at}");
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a short name");
        retry_on_intr(|| rustix::net::connect(&socket, &name)).expect("the listener's name");
        let files = self.memory.make();
        let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        let packet = [IoSlice::new(&self.packet)];
        rustix::net::sendmsg(&socket, &packet, &mut control, SendFlags::NOSIGNAL).expect("room");
    }

    /// Returns true if a listener takes it for a connection from this address.
    fn is_for(&self, from: SocketAddr) -> bool {
        let Ok(packet) = <&[u8; PACKET]>::try_from(&self.packet[..]) else {
            return false;
        };
        let ip: [u8; 16] = packet[8..24].try_into().expect("16 octets");
        let port = u16::from_be_bytes([packet[24], packet[25]]);
        packet.starts_with(VERSION)
            && RingSize::new(self.size()).is_some()
            && self.token(0)[0] == 0
            && self.token(1)[0] == 0
            && SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port) == from
            && !matches!(self.memory, Memory::None | Memory::Two)
    }

    fn size(&self) -> usize {
        let octets = self.packet[26..30].try_into().expect("a whole packet");
        usize::try_from(u32::from_be_bytes(octets)).expect("a processor of 64 bits")
    }

    fn token(&self, which: usize) -> Vec<u8> {
        let from = 30 + which * TOKEN;
        self.packet[from..from + TOKEN].to_vec()
    }
}
