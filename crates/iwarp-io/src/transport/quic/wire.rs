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
use crate::simulation::World;

/// A reserved address.
#[derive(Debug)]
pub struct Bound {
    sockets: Arc<AdapterSockets>,
    name: AddressInUse,
    /// The UDP socket of a listener.
    socket: Option<ListeningSocket>,
}

/// The UDP socket of a listener, which is closed if it has neither a listener nor a stream when this is dropped.
#[derive(Debug)]
struct ListeningSocket {
    socket: Arc<SharedSocket>,
    sockets: Arc<AdapterSockets>,
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        self.sockets.unused(&self.socket);
    }
}

impl Bound {
    /// For a connection: the address needs no separate socket.
    pub(super) fn for_connecting(sockets: Arc<AdapterSockets>, name: AddressInUse) -> Self {
        Self {
            sockets,
            name,
            socket: None,
        }
    }

    /// For a listener, on this socket.
    pub(super) fn for_listening(
        sockets: Arc<AdapterSockets>,
        name: AddressInUse,
        socket: Arc<SharedSocket>,
    ) -> Self {
        let socket = ListeningSocket {
            socket,
            sockets: Arc::clone(&sockets),
        };
        Self {
            sockets,
            name,
            socket: Some(socket),
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
        let names = ConnectionInUse::new(self.sockets.environment(), local, remote)?;
        let socket = self.sockets.socket_to_connect(local.ip())?;
        let source = socket.source();
        socket.moved();
        let flow = socket.dial(Arc::clone(&source), (local, remote))?;
        Ok(Dialer(Wire {
            flow: StreamHandle { socket, key: flow },
            source,
            addresses: (local, remote),
            name: Mutex::new(Some(self.name)),
            _names: Some(names),
        }))
    }

    pub(in crate::transport) fn listen(self) -> io::Result<Listener> {
        let held = self.socket.ok_or(Errno::INVAL)?;
        let socket = Arc::clone(&held.socket);
        let source = socket.source();
        socket.with(|state, _| state.listen(Arc::clone(&source)))?;
        Ok(Listener {
            socket,
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
        flow.socket.with(|state, _| state.is_open(flow.key))
    }

    pub(in crate::transport) fn into_wire(self) -> Wire {
        self.0
    }

    pub(in crate::transport) fn reset(self) {
        self.0.reset();
    }
}

/// A socket to which peers connect.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<SharedSocket>,
    source: Arc<CarriedSource>,
    _name: AddressInUse,
}

impl Listener {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        SourceId::Carried(&self.source)
    }

    pub(in crate::transport) fn accept(&self) -> io::Result<Wire> {
        let accepted = self.socket.with(|state, outside| {
            let mut accepted = state.accept();
            if would_block(&accepted) {
                self.socket.visit(state, outside);
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
            _names: ConnectionInUse::new(self.socket.environment(), local, remote).ok(),
            flow: StreamHandle {
                socket: Arc::clone(&self.socket),
                key,
            },
            source,
            addresses,
            name: Mutex::new(None),
        })
    }

    pub(in crate::transport) fn is_somebody_there(&self) -> bool {
        self.socket.with(|state, _| state.is_somebody_there())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.socket
            .with(|state, outside| state.stop_listening(outside));
    }
}

/// The end of a stream. Dropping the handle releases the end.
#[derive(Debug)]
struct StreamHandle {
    socket: Arc<SharedSocket>,
    key: usize,
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.socket.moved();
        self.socket
            .with(|state, outside| state.let_go(outside, self.key));
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Wire {
    flow: StreamHandle,
    source: Arc<CarriedSource>,
    addresses: (SocketAddr, SocketAddr),
    /// Held until this side's direction ends: the address can be bound again from then on.
    name: Mutex<Option<AddressInUse>>,
    _names: Option<ConnectionInUse>,
}

impl Wire {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        SourceId::Carried(&self.source)
    }

    pub(in crate::transport) fn world(&self) -> Option<&World> {
        self.flow.socket.environment().world()
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

    /// Unlike a read, a peek does not take the edge, so the sets still report the octets.
    pub(in crate::transport) fn peek(&self) -> io::Result<usize> {
        let StreamHandle { socket, key } = &self.flow;
        socket.with(|state, outside| {
            let mut peeked = state.peek(*key);
            if would_block(&peeked) {
                socket.visit(state, outside);
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
        let StreamHandle { socket, key } = &self.flow;
        let outcome = socket.with(|state, outside| {
            let mut outcome = read(state, *key);
            if would_block(&outcome) {
                socket.visit(state, outside);
                // The octets that the visit has found are read here.
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
            socket.moved();
        }
        outcome
    }

    pub(in crate::transport) fn check(&self) -> io::Result<()> {
        let StreamHandle { socket, key } = &self.flow;
        socket.with(|state, outside| {
            socket.visit(state, outside);
            state.check(*key)
        })
    }

    pub(in crate::transport) fn write(&self, octets: &[u8]) -> io::Result<usize> {
        let StreamHandle { socket, key } = &self.flow;
        let written = socket.with(|state, outside| {
            let written = state.write(*key, octets);
            if written.as_ref().map_or(true, |count| *count < octets.len()) {
                self.source.lower(Edges::WRITE);
            }
            state.settle_flow(outside, *key);
            written
        });
        if written.is_ok() {
            socket.moved();
        }
        written
    }

    pub(in crate::transport) fn send(
        &self,
        table: &Table,
        batch: &mut TxBatch,
    ) -> io::Result<(u64, Sent)> {
        let StreamHandle { socket, key } = &self.flow;
        let sent = socket.with(|state, outside| {
            let sent = state.send(*key, table, batch);
            if matches!(sent, Ok((_, Sent::WouldBlock))) {
                self.source.lower(Edges::WRITE);
            }
            state.settle_flow(outside, *key);
            sent
        });
        if matches!(sent, Ok((1.., _))) {
            socket.moved();
        }
        sent
    }

    pub(in crate::transport) fn close_write(&self) -> io::Result<()> {
        *self.name.lock() = None;
        let StreamHandle { socket, key } = &self.flow;
        socket.moved();
        socket.with(|state, outside| {
            let closed = state.finish(*key);
            state.settle_flow(outside, *key);
            closed
        })
    }

    pub(in crate::transport) fn end_is_under_way(&self) -> bool {
        let StreamHandle { socket, key } = &self.flow;
        socket.with(|state, _| state.end_is_under_way(*key))
    }

    pub(in crate::transport) fn break_off(&self) {
        *self.name.lock() = None;
        let StreamHandle { socket, key } = &self.flow;
        socket.moved();
        socket.with(|state, outside| {
            state.break_off(*key);
            state.settle_flow(outside, *key);
        });
    }

    pub(in crate::transport) fn reset(self) {
        self.break_off();
    }
}
