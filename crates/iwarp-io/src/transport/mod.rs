//! Byte streams under a connection, over more than one transport.
//!
//! # What a transport provides
//!
//! Each transport has a folder with the same five types, and an enum here has a variant for each of them, so that calls on the data
//! path are dispatched statically:
//!
//! | type | what it is | becomes |
//! |---|---|---|
//! | [`tcp::Tcp`], [`quic::Quic`], [`World`] | the transport of one adapter | [`Bound`], by [`Transport::bind`] |
//! | [`Bound`] | a local address that is reserved | [`Dialer`] by `connect`, [`Listener`] by `listen` |
//! | [`Dialer`] | an attempt to connect | [`Wire`] by `into_wire`, when `is_connected` |
//! | [`Listener`] | a socket to which peers connect | [`Wire`]s, by `accept` |
//! | [`Wire`] | a connection's octets | |
//!
//! The last four are in the folder's `wire.rs`. [`Stream`](stream::Stream) is a wire with its capture and its faults; the rest of the crate
//! uses streams. Every transport keeps these promises:
//!
//! - **No call blocks.** A call that cannot be completed yet returns [`WouldBlock`](io::ErrorKind::WouldBlock).
//! - **Readiness is reported in edges.** A dialer, a listener and a wire can be [watched](Watch). A set reports each of them once for
//!   everything that arrived since the last report. The thread that gets the report continues until nothing is left, or records that
//!   something is.
//! - **Octets arrive in order, once, or the wire breaks.** After the peer's `close_write` reads give 0; after a reset an error. Octets
//!   that arrived before a reset may be lost.
//! - **[`send`](Wire::send) reads memory as late as possible.** Payload of the batch is read from registered memory during the call, if the
//!   transport [reaches memory](Wire::reaches_memory); otherwise the batch holds copies.
//! - **Dropping closes, [`reset`](Wire::reset) breaks.** Octets sent before a close arrive; the peer sees a reset at once.
//! - **Addresses are NetworkDirect's**: an IP address and a port of 16 bits, one connection for each pair of them, and
//!   [`local_ports`] draws ephemeral ones.
//! - **Memory is bounded.** A transport holds octets that the peer has not taken up to a limit; beyond it, writes are `WouldBlock`.
//! - **Time comes from the [`Environment`].** It is the system's clock, or the virtual clock of a simulated network.

pub mod both_ports;
pub mod chosen_congestion;
pub mod chosen_same_host;
pub mod congestion_control;
pub mod datagrams;
mod faulted;
pub mod local_ports;
#[cfg(all(test, unix))]
pub mod pipe;
mod port_range;
pub mod purpose;
pub mod quic;
pub mod same_host;
pub mod shared_memory;
pub mod sim;
pub mod stream;
pub mod tcp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp::{Span, TxBatch};
use iwarp_mem::{Acknowledgements, Received, Sent, Table};

use purpose::Purpose;
use same_host::PairingStep;

use crate::environment::Environment;
use crate::faults::Faults;
use crate::progress::background::Background;
use crate::progress::domain::Domain;
use crate::progress::readiness::{Edges, Watch};
use crate::progress::set::{Set, SourceId};
use crate::simulation::World;

/// The transport of an adapter.
#[derive(Clone, Debug)]
pub enum Transport {
    /// The system's TCP.
    Tcp(tcp::Tcp),
    /// A simulated network.
    Sim(World),
    /// QUIC, over the system's UDP or simulated datagrams.
    Quic(quic::Quic),
    /// A pipe, for tests.
    #[cfg(all(test, unix))]
    Pipe(pipe::Pipes),
}

impl Transport {
    /// The environment of an adapter with this transport.
    pub fn environment(&self) -> Environment {
        match self {
            Self::Tcp(_) => Environment::System,
            Self::Sim(world) => Environment::Sim(world.clone()),
            Self::Quic(quic) => quic.environment().clone(),
            #[cfg(all(test, unix))]
            Self::Pipe(_) => Environment::System,
        }
    }

    /// The name of the transport, for the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Sim(_) => "sim",
            Self::Quic(_) => "udp",
            #[cfg(all(test, unix))]
            Self::Pipe(_) => "pipe",
        }
    }

    /// The name of the transport of every connection; `None` if some may be over shared memory.
    pub fn name_of_all(&self) -> Option<&'static str> {
        match self {
            Self::Tcp(tcp) if tcp.may_share_memory() => None,
            _ => Some(self.name()),
        }
    }

    /// Applies the faults of this plan to datagrams, if the transport sends any. Called before sockets are opened.
    pub fn follow(&self, faults: &Arc<Faults>) {
        if let Self::Quic(quic) = self {
            quic.follow(faults);
        }
    }

    /// Sets the domain and the thread that drive the transport while no thread drives its streams.
    pub(crate) fn driven_by(&self, control: &Arc<Domain>, background: &Arc<Background>) {
        if let Self::Quic(quic) = self {
            quic.driven_by(control, background);
        }
    }

    /// The names and values of the transport's counters.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let quic = match self {
            Self::Quic(quic) => Some(quic.counters()),
            _ => None,
        };
        let tcp = match self {
            Self::Tcp(tcp) => tcp.counters(),
            _ => Vec::new(),
        };
        quic.into_iter().flatten().chain(tcp)
    }

    /// Ends the transport's work outside its streams. Octets already sent have some time left to arrive.
    pub(crate) fn end(&self) {
        if let Self::Quic(quic) = self {
            quic.end();
        }
    }

    /// Reserves a local address, whose port is not 0.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, and those of the transport.
    pub fn bind(&self, address: SocketAddr, purpose: Purpose) -> io::Result<Bound> {
        Ok(match self {
            Self::Tcp(tcp) => Bound::Tcp(tcp.bind(address)?),
            Self::Sim(world) => Bound::Sim(sim::Bound::new(world, address)?),
            Self::Quic(quic) => Bound::Quic(quic.bind(address, purpose)?),
            #[cfg(all(test, unix))]
            Self::Pipe(pipes) => Bound::Pipe(pipes.bind(address)?),
        })
    }

    /// Reserves a local address to connect from, whose port the system chooses: as late as it can, so that connections to different peers
    /// may have one port.
    ///
    /// # Errors
    ///
    /// Those of the transport; QUIC refuses.
    pub fn bind_any_port(&self, ip: IpAddr) -> io::Result<Bound> {
        let address = SocketAddr::new(ip, 0);
        match self {
            Self::Tcp(tcp) => Ok(Bound::Tcp(tcp.bind_any_port(address)?)),
            Self::Quic(_) => Err(io::ErrorKind::Unsupported.into()),
            _ => self.bind(address, Purpose::Connecting),
        }
    }

    /// Like [`bind`](Self::bind), but refuses a port that connections which have ended still hold.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, and those of the transport.
    pub fn bind_fresh(&self, address: SocketAddr, purpose: Purpose) -> io::Result<Bound> {
        match self {
            Self::Tcp(tcp) => Ok(Bound::Tcp(tcp.bind_fresh(address)?)),
            _ => self.bind(address, purpose),
        }
    }
}

/// A local address that is reserved until this is dropped or used.
#[derive(Debug)]
pub enum Bound {
    /// Of TCP.
    Tcp(tcp::Bound),
    /// Of a simulated network.
    Sim(sim::Bound),
    /// Of QUIC.
    Quic(quic::Bound),
    /// A pipe, for tests.
    #[cfg(all(test, unix))]
    Pipe(pipe::Bound),
}

impl Bound {
    /// The address.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn local(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(bound) => bound.local(),
            Self::Sim(bound) => Ok(bound.local()),
            Self::Quic(bound) => Ok(bound.local()),
            #[cfg(all(test, unix))]
            Self::Pipe(bound) => Ok(bound.local()),
        }
    }

    /// Begins to connect.
    ///
    /// # Errors
    ///
    /// An error that is known at once. `EADDRNOTAVAIL` or `EADDRINUSE` if the two addresses already have a connection.
    pub fn connect(self, remote: SocketAddr) -> io::Result<Dialer> {
        Ok(match self {
            Self::Tcp(bound) => Dialer::Tcp(bound.connect(remote)?),
            Self::Sim(bound) => Dialer::Sim(bound.connect(remote)?),
            Self::Quic(bound) => Dialer::Quic(Box::new(bound.connect(remote)?)),
            #[cfg(all(test, unix))]
            Self::Pipe(bound) => Dialer::Pipe(bound.connect(remote)?),
        })
    }

    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    pub fn listen(self) -> io::Result<Listener> {
        Ok(match self {
            Self::Tcp(bound) => Listener::Tcp(bound.listen()?),
            Self::Sim(bound) => Listener::Sim(bound.listen()?),
            Self::Quic(bound) => Listener::Quic(bound.listen()?),
            #[cfg(all(test, unix))]
            Self::Pipe(bound) => Listener::Pipe(bound.listen()?),
        })
    }
}

/// An attempt to connect. Dropping it gives the attempt up.
#[derive(Debug)]
pub enum Dialer {
    /// Over TCP.
    Tcp(tcp::Dialer),
    /// In a simulated network.
    Sim(sim::Dialer),
    /// Over QUIC.
    Quic(Box<quic::Dialer>),
    /// A pipe, for tests.
    #[cfg(all(test, unix))]
    Pipe(pipe::Dialer),
}

impl Dialer {
    /// Returns true if the connection is established, given the edges that were reported of the attempt.
    ///
    /// # Errors
    ///
    /// The reason why the attempt failed.
    pub fn is_connected(&self, edges: Edges) -> io::Result<bool> {
        match self {
            Self::Tcp(dialer) => dialer.is_connected(edges),
            Self::Sim(dialer) => dialer.is_connected(),
            Self::Quic(dialer) => dialer.is_connected(),
            #[cfg(all(test, unix))]
            Self::Pipe(_) => Ok(true),
        }
    }

    /// The local address, where connecting has chosen its port.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(dialer) => dialer.local(),
            Self::Sim(_) | Self::Quic(_) => None,
            #[cfg(all(test, unix))]
            Self::Pipe(_) => None,
        }
    }

    /// Returns the connection, once it is established. It takes the dialer's place in every set.
    ///
    /// # Errors
    ///
    /// Those of the transport, also if the peer has disconnected.
    pub fn into_wire(self) -> io::Result<Wire> {
        Ok(match self {
            Self::Tcp(dialer) => Wire::Tcp(dialer.into_wire()?),
            Self::Sim(dialer) => Wire::Sim(dialer.into_wire()),
            Self::Quic(dialer) => Wire::Quic(Box::new(dialer.into_wire())),
            #[cfg(all(test, unix))]
            Self::Pipe(dialer) => Wire::Pipe(dialer.into_wire()),
        })
    }

    /// Gives the attempt up. If the peer has seen the attempt, it sees a reset.
    pub fn reset(self) {
        match self {
            Self::Tcp(dialer) => dialer.reset(),
            Self::Sim(dialer) => dialer.reset(),
            Self::Quic(dialer) => dialer.reset(),
            #[cfg(all(test, unix))]
            Self::Pipe(dialer) => drop(dialer),
        }
    }
}

impl Watch<Set> for Dialer {
    fn id(&self) -> SourceId<'_> {
        match self {
            Self::Tcp(dialer) => dialer.id(),
            Self::Sim(dialer) => SourceId::Sim(dialer.source()),
            Self::Quic(dialer) => dialer.id(),
            #[cfg(all(test, unix))]
            Self::Pipe(dialer) => dialer.id(),
        }
    }
}

/// A socket to which peers connect.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(tcp::Listener),
    /// In a simulated network.
    Sim(sim::Listener),
    /// Over QUIC.
    Quic(quic::Listener),
    /// A pipe, for tests.
    #[cfg(all(test, unix))]
    Pipe(pipe::Listener),
}

impl Listener {
    /// Accepts the peer that has waited longest.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if no peer waits, `ConnectionAborted` if the peer has disconnected, and those of the transport.
    pub fn accept(&self) -> io::Result<Wire> {
        Ok(match self {
            Self::Tcp(listener) => Wire::Tcp(listener.accept()?),
            Self::Sim(listener) => Wire::Sim(listener.accept()?),
            Self::Quic(listener) => Wire::Quic(Box::new(listener.accept()?)),
            #[cfg(all(test, unix))]
            Self::Pipe(listener) => Wire::Pipe(listener.accept()?),
        })
    }

    /// Drops offers of shared memory whose connection has not come in time. Returns the time after which to call this again, if offers are
    /// left.
    pub fn forget_old(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::Tcp(listener) => listener.forget_old(now),
            _ => None,
        }
    }

    /// Returns true if a peer waits.
    pub fn is_somebody_there(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener.is_somebody_there(),
            Self::Sim(listener) => listener.is_somebody_there(),
            Self::Quic(listener) => listener.is_somebody_there(),
            #[cfg(all(test, unix))]
            Self::Pipe(listener) => listener.is_somebody_there(),
        }
    }
}

impl Watch<Set> for Listener {
    fn id(&self) -> SourceId<'_> {
        match self {
            Self::Tcp(listener) => listener.id(),
            Self::Sim(listener) => SourceId::Sim(listener.source()),
            Self::Quic(listener) => listener.id(),
            #[cfg(all(test, unix))]
            Self::Pipe(listener) => listener.id(),
        }
    }
}

/// What is known of a connection that may be over shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paired {
    /// Nothing yet. Do not read or write; call [`pair`](Wire::pair) again at this time, or when something has arrived.
    Not {
        /// The time, if there is a limit.
        until: Option<Instant>,
    },
    /// The connection uses TCP. A late token may still arrive in front of the peer's first octets, so do not read.
    MayWrite,
    /// All of it.
    Decided,
}

/// The octets of a connection, as the transport carries them. Dropping it closes the connection.
#[derive(Debug)]
pub enum Wire {
    /// Over TCP.
    Tcp(tcp::Wire),
    /// In a simulated network.
    Sim(sim::Wire),
    /// Over QUIC.
    Quic(Box<quic::Wire>),
    /// Within this machine, over shared memory.
    Shared(Box<shared_memory::Wire>),
    /// A pipe, for tests.
    #[cfg(all(test, unix))]
    Pipe(pipe::Wire),
}

impl Wire {
    /// The local and the remote address.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self {
            Self::Tcp(wire) => wire.addresses(),
            Self::Sim(wire) => wire.addresses(),
            Self::Quic(wire) => wire.addresses(),
            Self::Shared(wire) => wire.addresses(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.addresses(),
        }
    }

    /// The simulated world of the connection, if it is in one.
    pub fn world(&self) -> Option<&World> {
        match self {
            Self::Tcp(_) => None,
            Self::Sim(wire) => Some(wire.world()),
            Self::Quic(wire) => wire.world(),
            Self::Shared(_) => None,
            #[cfg(all(test, unix))]
            Self::Pipe(_) => None,
        }
    }

    /// Returns true if the transport can send from registered memory and receive into it. If not, all octets pass through buffers.
    pub fn reaches_memory(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Quic(_) | Self::Shared(_) => true,
            Self::Sim(_) => false,
            #[cfg(all(test, unix))]
            Self::Pipe(_) => true,
        }
    }

    /// Returns true if payload is best read straight to its place whenever that is known, because the octets are in the process already.
    pub fn holds_octets(&self) -> bool {
        matches!(self, Self::Quic(_) | Self::Shared(_))
    }

    /// Returns true if sets report the wire by bells. A report may then mean octets, room or both, and a thread that polls finds octets and room
    /// without a report.
    #[inline]
    pub fn has_bells(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Sets whether a thread polls the stream, so that no set has to report it.
    pub fn set_polled(&self, is_polled: bool) {
        if let Self::Shared(wire) = self {
            wire.set_polled(is_polled);
        }
    }

    /// Returns true if a read has taken a bell since the last call. The bell may have meant room to send, and no set will report it again.
    #[inline]
    pub fn take_room_report(&self) -> bool {
        match self {
            Self::Shared(wire) => wire.take_room_report(),
            _ => false,
        }
    }

    /// Takes the bells that have come. Returns true if there were any: they may have meant octets or room. `None` if no bell will come any more.
    pub fn take_bells(&self) -> Option<bool> {
        match self {
            Self::Shared(wire) => wire.take_all_bells(),
            _ => Some(false),
        }
    }

    /// Returns true if a read that was shorter than it could be has found all that there is. Otherwise only a read that finds nothing has.
    #[inline]
    pub fn short_read_is_last(&self) -> bool {
        match self {
            Self::Shared(wire) => wire.short_read_is_last(),
            _ => true,
        }
    }

    /// Lets the peer send `octets` before they are read, if the transport has a window that the system can widen without ending its own
    /// adjustment. The caller reads afterwards, because octets that arrive meanwhile may not be reported.
    pub fn open_window(&self, octets: i32) {
        match self {
            Self::Tcp(wire) => wire.open_window(octets),
            Self::Quic(_) | Self::Shared(_) | Self::Sim(_) => {}
            #[cfg(all(test, unix))]
            Self::Pipe(_) => {}
        }
    }

    /// What the peer's system has acknowledged; `None` where nobody says so.
    pub fn acknowledgements(&self) -> Option<Acknowledgements> {
        match self {
            Self::Tcp(wire) => wire.acknowledgements(),
            _ => None,
        }
    }

    /// Asks the peer's system whether it is there while nothing is sent, so that a host that is gone ends the connection within twice this
    /// time; without a time, as ever. Only over TCP.
    pub fn ask_within(&self, time: Option<Duration>) {
        if let Self::Tcp(wire) = self {
            wire.ask_within(time);
        }
    }

    /// Ends the connection once octets that were sent have waited for this long for the peer's acknowledgement, or for room at the peer
    /// (RFC 5482, the user timeout of TCP). Where the system or the transport has no such limit, the connection has its own one.
    pub fn give_up_after(&self, limit: Duration) {
        match self {
            Self::Tcp(wire) => wire.give_up_after(limit),
            Self::Shared(wire) => wire.give_up_after(limit),
            Self::Quic(_) | Self::Sim(_) => {}
            #[cfg(all(test, unix))]
            Self::Pipe(_) => {}
        }
    }

    /// Decides, as far as what has arrived allows, whether a connection within this machine is over shared memory.
    pub fn pair(self, now: Instant) -> (Self, io::Result<Paired>) {
        let Self::Tcp(mut wire) = self else {
            return (self, Ok(Paired::Decided));
        };
        let Some(mut pairing) = wire.take_pairing() else {
            return (Self::Tcp(wire), Ok(Paired::Decided));
        };
        match pairing.step(&wire, now) {
            Ok(PairingStep::Plain) => (Self::Tcp(wire), Ok(Paired::Decided)),
            Ok(PairingStep::Shared(ring)) => {
                let wire = Box::new(shared_memory::Wire::new(wire, ring));
                (Self::Shared(wire), Ok(Paired::Decided))
            }
            Ok(PairingStep::Undecided) => {
                let paired = match pairing.until() {
                    None if pairing.is_late() => Paired::MayWrite,
                    until => Paired::Not { until },
                };
                wire.put_pairing(pairing);
                (Self::Tcp(wire), Ok(paired))
            }
            Err(error) => (Self::Tcp(wire), Err(error)),
        }
    }

    /// The time of the next [`look`](Self::look).
    #[inline]
    pub fn looks_at(&self) -> Option<Instant> {
        match self {
            Self::Shared(wire) => wire.looks_at(),
            _ => None,
        }
    }

    /// Does what time alone makes necessary. A peer that has taken no octets for too long is found by the next write.
    pub fn look(&self, now: Instant) {
        if let Self::Shared(wire) = self {
            wire.look(now);
        }
    }

    /// Returns true if it is not decided whether the connection is over shared memory, or may not be: [`pair`](Self::pair) comes first.
    pub fn is_unpaired(&self) -> bool {
        matches!(self, Self::Tcp(wire) if wire.is_unpaired())
    }

    /// The name of the transport, for the log and for users: `tcp`, `udp`, `sim`, or `shm` for shared memory.
    pub fn transport_name(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Sim(_) => "sim",
            Self::Quic(_) => "udp",
            Self::Shared(_) => "shm",
            #[cfg(all(test, unix))]
            Self::Pipe(_) => "pipe",
        }
    }

    /// The longest segment of the path in octets, if known.
    pub fn segment(&self) -> Option<u32> {
        match self {
            Self::Tcp(wire) => wire.segment(),
            Self::Sim(wire) => wire.segment(),
            Self::Quic(wire) => Some(wire.segment()),
            Self::Shared(wire) => wire.segment(),
            #[cfg(all(test, unix))]
            Self::Pipe(_) => None,
        }
    }

    /// The core on which the kernel received the last data, if known.
    pub fn incoming_core(&self) -> Option<usize> {
        match self {
            Self::Tcp(wire) => wire.incoming_core(),
            Self::Shared(_) => None,
            Self::Sim(_) | Self::Quic(_) => None,
            #[cfg(all(test, unix))]
            Self::Pipe(_) => None,
        }
    }

    /// Reads what has arrived, at most `into.len()` octets. 0 is the end of the peer's direction.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, or the error that broke the connection.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(wire) => wire.read(into),
            Self::Sim(wire) => wire.read(into),
            Self::Quic(wire) => wire.read(into),
            Self::Shared(wire) => wire.read(into),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.read(into),
        }
    }

    /// Like [`read`](Self::read), but puts the first octets into registered memory at `place` and the others into `rest`. If the memory was
    /// revoked or unmapped, nothing is read. A transport that [cannot do this](Self::reaches_memory) reports the memory as revoked.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Received> {
        match self {
            Self::Tcp(wire) => wire.read_to_place(table, place, rest),
            Self::Quic(wire) => {
                let octets = wire.read_to_place(table, place, rest)?;
                Ok(octets.map_or(Received::Revoked, Received::Octets))
            }
            Self::Shared(wire) => wire.read_to_place(table, place, rest),
            Self::Sim(_) => Ok(Received::Revoked),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.read_to_place(table, place, rest),
        }
    }

    /// Checks whether octets, or the end of the peer's direction, have arrived, without taking them.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if neither has arrived.
    pub fn peek(&self) -> io::Result<usize> {
        match self {
            Self::Tcp(wire) => wire.peek(),
            Self::Sim(wire) => wire.peek(),
            Self::Quic(wire) => wire.peek(),
            Self::Shared(wire) => wire.peek(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.peek(),
        }
    }

    /// Checks that the connection is not broken, without reading. A reset is found also behind octets that wait to be read.
    /// The orderly end of the peer's direction is no error. Over TCP only for a connection whose own direction is open.
    ///
    /// # Errors
    ///
    /// The error that broke the connection. Only the first call after that needs to return it: the caller ends the stream.
    pub fn check(&self) -> io::Result<()> {
        match self {
            Self::Tcp(wire) => wire.check(),
            Self::Sim(wire) => wire.check(),
            Self::Quic(wire) => wire.check(),
            Self::Shared(wire) => wire.check(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.check(),
        }
    }

    /// Sends as many of these octets as possible, and returns their number.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, or the error that broke the connection.
    pub fn write(&self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(wire) => wire.write(octets),
            Self::Sim(wire) => wire.write(octets),
            Self::Quic(wire) => wire.write(octets),
            Self::Shared(wire) => wire.write(octets),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.write(octets),
        }
    }

    /// Sends as much of a batch as possible.
    ///
    /// # Errors
    ///
    /// Those of `iwarp_mem::io::send`.
    #[inline(always)] // called once, on the path of each post
    pub fn send(&self, table: &Table, batch: &mut TxBatch) -> io::Result<(u64, Sent)> {
        match self {
            Self::Tcp(wire) => wire.send(table, batch),
            Self::Sim(wire) => wire.send(batch),
            Self::Quic(wire) => wire.send(table, batch),
            Self::Shared(wire) => wire.send(table, batch),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.send(table, batch),
        }
    }

    /// Ends this side's direction, behind everything that was sent.
    ///
    /// # Errors
    ///
    /// The connection was broken before.
    pub fn close_write(&self) -> io::Result<()> {
        match self {
            Self::Tcp(wire) => wire.close_write(),
            Self::Sim(wire) => wire.close_write(),
            Self::Quic(wire) => wire.close_write(),
            Self::Shared(wire) => wire.close_write(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.close_write(),
        }
    }

    /// Returns true if the transport reports when the peer has everything that was sent, and if the end of this side's direction arrives
    /// even if octets are left unread. With TCP, octets that are unread when a socket is closed make the close a reset.
    pub fn knows_arrival(&self) -> bool {
        matches!(self, Self::Quic(_))
    }

    /// Returns true if this side's direction has ended and the peer's transport has not confirmed that end, although it has room for it.
    /// After that confirmation, or when the stream breaks, the sets report the wire as readable. False if the transport does not
    /// [know](Self::knows_arrival).
    pub fn end_is_under_way(&self) -> bool {
        match self {
            Self::Quic(wire) => wire.end_is_under_way(),
            Self::Tcp(_) | Self::Shared(_) | Self::Sim(_) => false,
            #[cfg(all(test, unix))]
            Self::Pipe(_) => false,
        }
    }

    /// Makes the connection end with a reset, now or when the wire is dropped.
    pub(super) fn break_off(&self) {
        match self {
            Self::Tcp(wire) => wire.break_off(),
            Self::Sim(wire) => wire.break_off(),
            Self::Quic(wire) => wire.break_off(),
            Self::Shared(wire) => wire.break_off(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.break_off(),
        }
    }

    /// Ends the connection at once, with a reset.
    pub fn reset(self) {
        match self {
            Self::Tcp(wire) => wire.reset(),
            Self::Sim(wire) => wire.reset(),
            Self::Quic(wire) => wire.reset(),
            Self::Shared(wire) => wire.reset(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => drop(wire),
        }
    }
}

impl Watch<Set> for Wire {
    fn id(&self) -> SourceId<'_> {
        match self {
            Self::Tcp(wire) => wire.id(),
            Self::Sim(wire) => SourceId::Sim(wire.source()),
            Self::Quic(wire) => wire.id(),
            Self::Shared(wire) => wire.id(),
            #[cfg(all(test, unix))]
            Self::Pipe(wire) => wire.id(),
        }
    }

    fn joins(&self) -> Edges {
        match self {
            Self::Shared(wire) => wire.joins_set(),
            _ => Edges::empty(),
        }
    }

    fn has_bells(&self) -> bool {
        self.has_bells()
    }
}

#[cfg(all(test, unix))]
mod tests;
