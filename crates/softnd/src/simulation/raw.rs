//! Streams of a simulated network that a program reads and writes itself.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};

use iwarp_io::progress::readiness::Edges;
use iwarp_io::transport::sim::World;
use iwarp_io::transport::sim::world::Stuck;
use iwarp_io::transport::{self, Transport};

use super::Simulation;

impl Simulation {
    /// Connects a raw stream from a host to an address: to an adapter's listener, or to one made by
    /// [`listen_raw`](Self::listen_raw). The host need not have an adapter.
    ///
    /// A raw stream is how a test plays a peer that breaks the rules:
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
    /// let _ = peer.read_to_end(&mut answer); // a reset is an end, too
    /// assert_eq!(answer, b"", "closed without a word");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` when nobody listens there, `NetworkUnreachable` when no route leads there, `Deadlock` when nothing is left
    /// in the simulation that could answer, and `PermissionDenied` in another thread than the simulation's.
    pub fn dial_raw(&self, from: impl Into<IpAddr>, to: SocketAddr) -> io::Result<RawStream> {
        let bound = self.transport().bind((from.into(), 0).into())?;
        let dialer = bound.connect(to)?;
        let connected = || match dialer.is_connected(Edges::all())? {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        };
        blocking(&self.world, connected)?;
        Ok(RawStream::new(&self.world, dialer.into_wire()?))
    }

    /// Listens for raw streams at an address of any host; port 0 picks a free one.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, and `PermissionDenied` in another thread than the simulation's.
    pub fn listen_raw(&self, at: SocketAddr) -> io::Result<RawListener> {
        let bound = self.transport().bind(at)?;
        let address = bound.local()?;
        Ok(RawListener {
            world: self.world.clone(),
            listener: bound.listen()?,
            address,
        })
    }

    fn transport(&self) -> Transport {
        Transport::Sim(self.world.clone())
    }
}

/// Tries until something else than `WouldBlock` comes out, and lets the next thing happen in between.
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

/// Takes raw streams in; made by [`Simulation::listen_raw`].
#[derive(Debug)]
pub struct RawListener {
    world: World,
    listener: transport::Listener,
    address: SocketAddr,
}

impl RawListener {
    /// Where peers connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The peer that has waited longest; waits for one.
    ///
    /// # Errors
    ///
    /// `Deadlock` when nothing is left in the simulation by which a peer could come.
    pub fn accept(&self) -> io::Result<RawStream> {
        blocking(&self.world, || self.try_accept())
    }

    /// The same without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nobody waits.
    pub fn try_accept(&self) -> io::Result<RawStream> {
        let wire = self.listener.accept()?;
        Ok(RawStream::new(&self.world, wire))
    }
}

/// A stream between a program and a peer in the simulated network. [`Read`] and [`Write`] wait, which lets the simulation go on,
/// and fail with `Deadlock` when nothing is left in it that could end the wait.
///
/// A stream that is dropped is closed: what was written still arrives, and what was not read makes the end a reset, as with
/// TCP.
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

    /// Its own address.
    pub fn local_addr(&self) -> SocketAddr {
        self.wire.addresses().0
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.wire.addresses().1
    }

    /// Reads what has arrived; 0 is the peer's end.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing has, `ConnectionReset`.
    pub fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wire.read(into)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, `BrokenPipe` when the peer has reset the stream.
    pub fn try_write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.wire.write(octets)
    }

    /// Ends this end's direction, behind what was written.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` in another thread than the simulation's.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.wire.close_write()
    }

    /// Ends the stream at once; the peer sees a reset.
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
