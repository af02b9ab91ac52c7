//! Addresses, listeners and streams over QUIC.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use iwarp::{Span, TxBatch};
use iwarp_mem::{Sent, Table};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::adapter_sockets::AdapterSockets;
use super::addresses_in_use::{AddressInUse, ConnectionInUse};
use super::config;
use super::endpoint::QuicEndpoint;
use super::shared_socket::{SharedSocket, SharedSocketOwner};
use crate::progress::readiness::Edges;
use crate::progress::set::SourceId;
use crate::progress::shared_descriptor::CarriedSource;
use crate::transport::sim::World;

/// A reserved address.
#[derive(Debug)]
pub struct Bound {
    ports: Arc<AdapterSockets>,
    name: AddressInUse,
    /// The UDP socket of a listener.
    port: Option<ListeningPort>,
}

/// The UDP socket of a listener, which is closed if nobody listens or has a stream there when this is dropped.
#[derive(Debug)]
struct ListeningPort {
    port: Arc<SharedSocket>,
    ports: Arc<AdapterSockets>,
}

impl Drop for ListeningPort {
    fn drop(&mut self) {
        self.ports.unused(&self.port);
    }
}

impl Bound {
    /// For a connection: the address needs no socket of its own.
    pub(super) fn for_connecting(ports: Arc<AdapterSockets>, name: AddressInUse) -> Self {
        Self {
            ports,
            name,
            port: None,
        }
    }

    /// For a listener, on this socket.
    pub(super) fn for_listening(
        ports: Arc<AdapterSockets>,
        name: AddressInUse,
        port: Arc<SharedSocket>,
    ) -> Self {
        let port = ListeningPort {
            port,
            ports: Arc::clone(&ports),
        };
        Self {
            ports,
            name,
            port: Some(port),
        }
    }

    pub(in crate::transport) fn local(&self) -> SocketAddr {
        self.name.address()
    }

    pub(in crate::transport) fn connect(self, remote: SocketAddr) -> io::Result<Dialer> {
        let local = self.local();
        if super::addresses_in_use::is_apart(local.ip(), remote.ip()) {
            return Err(Errno::NETUNREACH.into());
        }
        let names = ConnectionInUse::new(self.ports.environment(), local, remote)?;
        let port = self.ports.socket_to_connect(local.ip())?;
        let source = port.source();
        port.moved();
        let flow = port.dial(Arc::clone(&source), (local, remote))?;
        Ok(Dialer(Wire {
            flow: StreamHandle { port, key: flow },
            source,
            addresses: (local, remote),
            name: Mutex::new(Some(self.name)),
            _names: Some(names),
        }))
    }

    pub(in crate::transport) fn listen(self) -> io::Result<Listener> {
        let held = self.port.ok_or(Errno::INVAL)?;
        let port = Arc::clone(&held.port);
        let source = port.source();
        port.with(|state, _| state.listen(Arc::clone(&source)))?;
        Ok(Listener {
            port,
            source,
            _name: self.name,
        })
    }
}

fn would_block<T>(outcome: &io::Result<T>) -> bool {
    matches!(outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// An attempt to connect.
#[derive(Debug)]
pub struct Dialer(Wire);

impl Dialer {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        self.0.id()
    }

    pub(in crate::transport) fn is_connected(&self) -> io::Result<bool> {
        let Wire { flow, .. } = &self.0;
        flow.port.with(|state, _| state.is_open(flow.key))
    }

    pub(in crate::transport) fn into_wire(self) -> Wire {
        self.0
    }

    pub(in crate::transport) fn reset(self) {
        self.0.reset();
    }
}

/// Where peers connect to.
#[derive(Debug)]
pub struct Listener {
    port: Arc<SharedSocket>,
    source: Arc<CarriedSource>,
    _name: AddressInUse,
}

impl Listener {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        SourceId::Carried(&self.source)
    }

    pub(in crate::transport) fn accept(&self) -> io::Result<Wire> {
        let accepted = self.port.with(|state, outside| {
            let mut accepted = state.accept();
            if would_block(&accepted) {
                self.port.visit(state, outside);
                accepted = state.accept();
                if !state.is_somebody_there() {
                    self.source.lower(Edges::READ);
                }
            }
            let key = accepted?;
            let flow = state.flow(key);
            io::Result::Ok((key, Arc::clone(&flow.source), (flow.local, flow.remote)))
        });
        let (key, source, addresses) = accepted?;
        let (local, remote) = addresses;
        Ok(Wire {
            // Peers on one host may have chosen the same port, because no system keeps their ports apart.
            _names: ConnectionInUse::new(self.port.environment(), local, remote).ok(),
            flow: StreamHandle {
                port: Arc::clone(&self.port),
                key,
            },
            source,
            addresses,
            name: Mutex::new(None),
        })
    }

    pub(in crate::transport) fn is_somebody_there(&self) -> bool {
        self.port.with(|state, _| state.is_somebody_there())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.port
            .with(|state, outside| state.stop_listening(outside));
    }
}

/// The end of a stream, which lets go of it when dropped.
#[derive(Debug)]
struct StreamHandle {
    port: Arc<SharedSocket>,
    key: usize,
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.port.moved();
        self.port
            .with(|state, outside| state.let_go(outside, self.key));
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Wire {
    flow: StreamHandle,
    source: Arc<CarriedSource>,
    addresses: (SocketAddr, SocketAddr),
    /// Held until our direction ends: the address can be bound again from then on.
    name: Mutex<Option<AddressInUse>>,
    _names: Option<ConnectionInUse>,
}

impl Wire {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        SourceId::Carried(&self.source)
    }

    pub(in crate::transport) fn world(&self) -> Option<&World> {
        self.flow.port.environment().world()
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }

    pub(in crate::transport) fn segment(&self) -> u32 {
        config::SEGMENT
    }

    pub(in crate::transport) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.reading(|state, key| state.read(key, into))
    }

    pub(in crate::transport) fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Option<usize>> {
        self.reading(|state, key| state.read_to_place(key, table, place, rest))
    }

    /// Unlike a read, a look leaves it to the sets to report what is there.
    pub(in crate::transport) fn peek(&self) -> io::Result<usize> {
        let StreamHandle { port, key } = &self.flow;
        port.with(|state, outside| {
            let mut peeked = state.peek(*key);
            if would_block(&peeked) {
                port.visit(state, outside);
                peeked = state.peek(*key);
            }
            peeked
        })
    }

    /// Reads, and once more after a visit of the socket if nothing is there.
    fn reading<T>(
        &self,
        mut read: impl FnMut(&mut QuicEndpoint, usize) -> io::Result<T>,
    ) -> io::Result<T> {
        let StreamHandle { port, key } = &self.flow;
        let outcome = port.with(|state, outside| {
            let mut outcome = read(state, *key);
            if would_block(&outcome) {
                port.visit(state, outside);
                // What the visit has found is taken here.
                state.not_raised(&self.source, Edges::READ);
                outcome = read(state, *key);
                if would_block(&outcome) {
                    self.source.lower(Edges::READ);
                }
            }
            state.settle_read(outside, *key);
            outcome
        });
        if outcome.is_ok() {
            port.moved();
        }
        outcome
    }

    pub(in crate::transport) fn check(&self) -> io::Result<()> {
        let StreamHandle { port, key } = &self.flow;
        port.with(|state, outside| {
            port.visit(state, outside);
            state.check(*key)
        })
    }

    pub(in crate::transport) fn write(&self, octets: &[u8]) -> io::Result<usize> {
        let StreamHandle { port, key } = &self.flow;
        let written = port.with(|state, outside| {
            let written = state.write(*key, octets);
            if written.as_ref().map_or(true, |count| *count < octets.len()) {
                self.source.lower(Edges::WRITE);
            }
            state.settle_flow(outside, *key);
            written
        });
        if written.is_ok() {
            port.moved();
        }
        written
    }

    pub(in crate::transport) fn send(
        &self,
        table: &Table,
        batch: &mut TxBatch,
    ) -> io::Result<(u64, Sent)> {
        let StreamHandle { port, key } = &self.flow;
        let sent = port.with(|state, outside| {
            let sent = state.send(*key, table, batch);
            if matches!(sent, Ok((_, Sent::WouldBlock))) {
                self.source.lower(Edges::WRITE);
            }
            state.settle_flow(outside, *key);
            sent
        });
        if matches!(sent, Ok((1.., _))) {
            port.moved();
        }
        sent
    }

    pub(in crate::transport) fn close_write(&self) -> io::Result<()> {
        *self.name.lock() = None;
        let StreamHandle { port, key } = &self.flow;
        port.moved();
        port.with(|state, outside| {
            let closed = state.finish(*key);
            state.settle_flow(outside, *key);
            closed
        })
    }

    pub(in crate::transport) fn end_is_under_way(&self) -> bool {
        let StreamHandle { port, key } = &self.flow;
        port.with(|state, _| state.end_is_under_way(*key))
    }

    pub(in crate::transport) fn break_off(&self) {
        *self.name.lock() = None;
        let StreamHandle { port, key } = &self.flow;
        port.moved();
        port.with(|state, outside| {
            state.break_off(*key);
            state.settle_flow(outside, *key);
        });
    }

    pub(in crate::transport) fn reset(self) {
        self.break_off();
    }
}
