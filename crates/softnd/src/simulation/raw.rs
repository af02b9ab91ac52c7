//! Raw streams of a simulated network, which a program reads and writes itself.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};

use iwarp_io::progress::readiness::Edges;
use iwarp_io::simulation::World;
use iwarp_io::simulation::world::Stuck;
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::sim::DatagramSocket;
use iwarp_io::transport::{self, Transport};

use super::Simulation;

/// The number of ports that are tried for a stream.
const PORTS: usize = 16;

impl Simulation {
    /// Connects a raw stream from a host to an address, where an adapter's listener or a [`RawListener`] listens. The host need
    /// not have an adapter.
    ///
    /// A test uses a raw stream to act as a peer that breaks the protocol:
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use netdirect::Overlapped;
    /// use softnd::{Options, simulation::Simulation};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let simulation = Simulation::new(7);
    /// let adapter = simulation.open([10, 0, 0, 1], Options::default())?;
    /// let file = adapter.create_overlapped_file()?;
    /// let listener = adapter.create_listener(&file)?;
    /// listener.bind("10.0.0.1:7174".parse()?)?;
    /// listener.listen(0)?;
    ///
    /// let mut peer = simulation.dial_raw([10, 0, 0, 66], "10.0.0.1:7174".parse()?)?;
    /// peer.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    /// let mut answer = Vec::new();
    /// let _ = peer.read_to_end(&mut answer); // a reset also ends the stream
    /// assert_eq!(answer, b"", "closed without an answer");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` when there is no listener at the address; `NetworkUnreachable` when no route leads there; `Deadlock` when no
    /// event is left in the simulation that could bring an answer; `PermissionDenied` in a thread other than the simulation's.
    pub fn dial_raw(&self, from: impl Into<IpAddr>, to: SocketAddr) -> io::Result<RawStream> {
        let from = SocketAddr::new(from.into(), 0);
        let dial = || {
            let bound = self.transport().bind(from, Purpose::Connecting)?;
            bound.connect(to)
        };
        // Like a system, picks another port if a stream to the same address has this one.
        let is_taken = |error: &io::Error| error.kind() == ErrorKind::AddrNotAvailable;
        let mut attempts = (1..PORTS).map(|_| dial());
        let free = attempts.find(|dialed| !dialed.as_ref().is_err_and(is_taken));
        let dialer = free.unwrap_or_else(dial)?;
        let connected = || match dialer.is_connected(Edges::all())? {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        };
        blocking(&self.world, connected)?;
        Ok(RawStream::new(&self.world, dialer.into_wire()?))
    }

    /// Listens for raw streams at an address of any host. Port 0 picks a free port.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when there is a listener at the address already; `PermissionDenied` in a thread other than the simulation's.
    pub fn listen_raw(&self, at: SocketAddr) -> io::Result<RawListener> {
        let bound = self.transport().bind(at, Purpose::Listening)?;
        let address = bound.local()?;
        Ok(RawListener {
            world: self.world.clone(),
            listener: bound.listen()?,
            address,
        })
    }

    /// A socket for datagrams at an address of any host. Port 0 picks a free port. A test uses such a socket for a peer that speaks
    /// QUIC by itself.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when another such socket, or an adapter over UDP, has the address; `PermissionDenied` in a thread other than
    /// the simulation's.
    pub fn datagrams_raw(&self, at: SocketAddr) -> io::Result<DatagramSocket> {
        DatagramSocket::bind(&self.world, at)
    }

    fn transport(&self) -> Transport {
        Transport::Sim(self.world.clone())
    }
}

/// Repeats the attempt while it fails with `WouldBlock`, and runs the next event of the network before each repetition.
fn blocking<T>(world: &World, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
        if !world.step() {
            return Err(Stuck.into());
        }
    }
}

/// Accepts raw streams. [`Simulation::listen_raw`] creates a listener.
#[derive(Debug)]
pub struct RawListener {
    world: World,
    listener: transport::Listener,
    address: SocketAddr,
}

impl RawListener {
    /// The address that peers connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts the stream of the peer that has waited longest. Waits when no peer has connected yet.
    ///
    /// # Errors
    ///
    /// `Deadlock` when no event is left in the simulation that could bring a peer.
    pub fn accept(&self) -> io::Result<RawStream> {
        blocking(&self.world, || self.try_accept())
    }

    /// Accepts the stream of the peer that has waited longest, without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when no peer has connected yet.
    pub fn try_accept(&self) -> io::Result<RawStream> {
        let wire = self.listener.accept()?;
        Ok(RawStream::new(&self.world, wire))
    }
}

/// A stream between a program and a peer in the simulated network. [`Read`] and [`Write`] wait, and drive the simulation meanwhile.
/// They fail with `Deadlock` when no event is left that could end the wait.
///
/// Dropping the stream closes the stream. Octets that were written still arrive. As with TCP, unread octets turn the close into a
/// reset.
#[derive(Debug)]
pub struct RawStream {
    world: World,
    wire: transport::Wire,
}

impl RawStream {
    fn new(world: &World, wire: transport::Wire) -> Self {
        Self {
            world: world.clone(),
            wire,
        }
    }

    /// The address of this end.
    pub fn local_addr(&self) -> SocketAddr {
        self.wire.addresses().0
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.wire.addresses().1
    }

    /// Reads octets that have arrived. Returns 0 when the peer has closed its direction.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when no octets have arrived; `ConnectionReset` when the peer has reset the stream.
    pub fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wire.read(into)
    }

    /// Writes as many octets as there is room for.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is no room; `BrokenPipe` when the peer has reset the stream.
    pub fn try_write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.wire.write(octets)
    }

    /// Closes the direction from this end to the peer, behind the octets written so far.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` in a thread other than the simulation's.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.wire.close_write()
    }

    /// Resets the stream.
    pub fn reset(self) {
        self.wire.reset();
    }
}

impl Read for RawStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        blocking(&self.world, || self.wire.read(into))
    }
}

impl Write for RawStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        blocking(&self.world, || self.wire.write(octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
