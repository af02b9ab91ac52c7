//! A TCP relay between two peers that stops in the middle of a stream, at a place that the test chooses.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Relays one connection; holds back what the client sends after the first octets.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    reached: Receiver<[TcpStream; 2]>,
}

/// A relay that has passed on its limit of octets, and passes on no more.
#[derive(Debug)]
pub struct Middle {
    streams: [TcpStream; 2],
}

impl Proxy {
    /// Listens on a free port, connects to `target`, and relays everything from there, and the first `octets` from the
    /// client.
    ///
    /// # Panics
    /// If this machine has no loopback interface.
    pub fn start(target: SocketAddr, octets: usize) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on the loopback interface");
        let address = listener.local_addr().expect("a listener has an address");
        let (sender, reached) = unbounded();
        thread::spawn(move || relay(&listener, target, octets, &sender));
        Self { address, reached }
    }

    /// The address to which the client connects.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the client has sent more than is relayed. `None` if the connection ends before that.
    pub fn middle(&self) -> Option<Middle> {
        self.reached.recv().ok().map(|streams| Middle { streams })
    }
}

impl Middle {
    /// Closes both connections.
    pub fn close(&self) {
        for stream in &self.streams {
            // Fails when the peer was quicker.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends octets that no iWARP peer sends, in place of those that were held back, and then ends the stream.
    pub fn garble(&mut self) {
        // Both fail if the peer finds the error before it has all octets.
        let _ = self.streams[1].write_all(&noise(100_000));
        let _ = self.streams[1].shutdown(Shutdown::Write);
    }
}

/// Octets without a pattern, always the same ones.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut octets = Vec::with_capacity(length + 8);
    while octets.len() < length {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        octets.extend_from_slice(&state.to_le_bytes());
    }
    octets.truncate(length);
    octets
}

/// Ends, without an error, when one of the two peers ends. The tests check how the peers react.
fn relay(
    listener: &TcpListener,
    target: SocketAddr,
    octets: usize,
    reached: &Sender<[TcpStream; 2]>,
) -> Option<()> {
    let (mut client, _) = listener.accept().ok()?;
    let mut server = TcpStream::connect(target).ok()?;
    let (mut from, mut to) = (server.try_clone().ok()?, client.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let passed = std::io::copy(
        &mut Read::by_ref(&mut client).take(octets as u64),
        &mut server,
    )
    .ok()?;
    // One more octet shows that the client has not ended there.
    let mut more = [0];
    if passed < octets as u64 || client.read(&mut more).ok()? == 0 {
        server.shutdown(Shutdown::Write).ok()?;
        return None;
    }
    reached.send([client, server]).ok()
}
