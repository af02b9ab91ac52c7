//! Raw peers: sockets of the system, or raw streams of the test's own simulated network. The test's own thread drives them in both
//! cases. A test therefore reads a peer's answer only after it has sent the question.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use softnd::simulation::{RawListener, RawStream};

use super::{LONG, SIMULATED, network};

/// One end of a stream.
#[derive(Debug)]
pub enum Peer {
    Tcp(TcpStream),
    Sim(RawStream),
}

/// Connects from 127.0.0.1.
pub fn dial(to: SocketAddr) -> Peer {
    dial_from(Ipv4Addr::LOCALHOST.into(), to)
}

/// Connects from another loopback address.
pub fn dial_from(from: IpAddr, to: SocketAddr) -> Peer {
    if SIMULATED {
        return Peer::Sim(network().dial_raw(from, to).unwrap());
    }
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    Peer::tcp(socket.into())
}

impl Peer {
    fn tcp(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self::Tcp(stream)
    }

    pub fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Tcp(stream) => stream.local_addr().unwrap(),
            Self::Sim(stream) => stream.local_addr(),
        }
    }

    pub fn peer_addr(&self) -> SocketAddr {
        match self {
            Self::Tcp(stream) => stream.peer_addr().unwrap(),
            Self::Sim(stream) => stream.peer_addr(),
        }
    }

    /// Reads this many octets.
    pub fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut octets = vec![0; count];
        self.read_exact(&mut octets).unwrap();
        octets
    }

    /// Reads all octets until the stream is closed or reset.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.read_to_end(&mut rest) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        rest
    }

    /// Reads to the end, which has to be a reset. Wine may take a reset for an orderly end (`tests/wine/reset.c`).
    pub fn expect_reset(&mut self) {
        match self.read_to_end(&mut Vec::new()) {
            Ok(_) => assert!(cfg!(windows) && matches!(self, Self::Tcp(_)), "orderly"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }

    /// Reads what has arrived; `WouldBlock` when nothing has.
    pub fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true).unwrap();
                let read = stream.read(into);
                stream.set_nonblocking(false).unwrap();
                read
            }
            Self::Sim(stream) => stream.try_read(into),
        }
    }

    /// Writes as many octets as there is room for, in a simulated network.
    pub fn try_write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(_) => unreachable!("a socket of the system waits for room"),
            Self::Sim(stream) => stream.try_write(octets),
        }
    }

    /// Ends the direction of this end.
    pub fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Sim(stream) => stream.shutdown_write(),
        }
    }

    /// Ends the stream with a reset.
    pub fn reset(self) {
        match self {
            Self::Tcp(stream) => SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap(),
            Self::Sim(stream) => stream.reset(),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Sim(stream) => stream.read(into),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(octets),
            Self::Sim(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket to which peers connect: 127.0.0.1 and a free port.
#[derive(Debug)]
pub enum Server {
    Tcp(TcpListener),
    Sim(RawListener),
}

/// A server, and its address.
pub fn server() -> (Server, SocketAddr) {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    if SIMULATED {
        let listener = network().listen_raw(any).unwrap();
        let address = listener.local_addr();
        return (Server::Sim(listener), address);
    }
    let listener = TcpListener::bind(any).unwrap();
    let address = listener.local_addr().unwrap();
    (Server::Tcp(listener), address)
}

impl Server {
    /// The peer that has connected first, if there is one, in a simulated network.
    pub fn try_accept(&self) -> Option<Peer> {
        match self {
            Self::Tcp(_) => unreachable!("a socket of the system waits for a peer"),
            Self::Sim(listener) => listener.try_accept().ok().map(Peer::Sim),
        }
    }

    pub fn accept(&self) -> Peer {
        match self {
            Self::Tcp(listener) => Peer::tcp(listener.accept().unwrap().0),
            Self::Sim(listener) => Peer::Sim(listener.accept().unwrap()),
        }
    }
}
