//! One end of a QUIC connection: the socket, the state machine, and the steps of the loop that drives both.

use std::array;
use std::fmt;
use std::io::{Error, ErrorKind, IoSliceMut, Result};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Event, Incoming, ServerConfig, Transmit, VarInt,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::placed::PlacedMemory;
use super::security::NAME;
use super::settings::{LONGEST, bind, segments};

/// Buffers of one system call that receives. Each takes one datagram, or several of one size that the system has joined
/// (GRO).
const BATCH: usize = 8;

/// The size of such a buffer.
const BUFFER: usize = 1 << 16;

/// System calls that send, before the end looks for datagrams again.
const SENDS: usize = 20;

/// A socket and the connection on it.
pub(super) struct QuicEnd {
    socket: UdpSocket,
    state: UdpSocketState,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    is_connected: bool,
    /// Where datagrams are received.
    staging: PlacedMemory,
    /// Where the connection gets them from. Its memory is used again as soon as the data in it has been read. An allocator that
    /// gives memory back to the system after each datagram costs up to half of the rate.
    arrived: BytesMut,
    /// The datagrams of the next system call that sends.
    outgoing: Vec<u8>,
    /// The description of the datagrams in `outgoing` that are unsent, because the socket was full.
    held: Option<Transmit>,
    /// Datagrams that the endpoint sends for no connection.
    answer: Vec<u8>,
}

impl fmt::Debug for QuicEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicEnd")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl QuicEnd {
    /// An end at this address. With a configuration it accepts one connection.
    pub(super) fn bind(address: SocketAddr, server: Option<ServerConfig>) -> Result<Self> {
        let socket = bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        let may_discover = !state.may_fragment();
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(LONGEST).map_err(Error::other)?;
        let server = server.map(Arc::new);
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(config), server, may_discover, None),
            socket,
            state,
            connection: None,
            is_connected: false,
            staging: PlacedMemory::new(BATCH * BUFFER)
                .map_err(|_| Error::from(ErrorKind::OutOfMemory))?,
            arrived: BytesMut::with_capacity(2 * BATCH * BUFFER),
            outgoing: Vec::new(),
            held: None,
            answer: Vec::new(),
        })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, config: ClientConfig, to: SocketAddr) -> Result<()> {
        let begun = self.endpoint.connect(Instant::now(), config, to, NAME);
        self.connection = Some(begun.map_err(Error::other)?);
        Ok(())
    }

    /// The connection, between its handshake and its end.
    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        let (_, connection) = self.connection.as_mut()?;
        self.is_connected.then_some(connection)
    }

    #[cfg(test)]
    pub(super) fn datagram(&self) -> u16 {
        let connection = self.connection.as_ref();
        connection.map_or(0, |(_, connection)| connection.current_mtu())
    }

    /// Takes in the datagrams that are there. Returns whether there were some.
    pub(super) fn receive(&mut self) -> Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH];
        let mut chunks = self.staging.chunks_exact_mut(BUFFER);
        let mut buffers: [IoSliceMut<'_>; BATCH] =
            array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let received = self
            .state
            .recv((&self.socket).into(), &mut buffers, &mut metas);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        for (meta, at) in metas[..count].iter().zip((0..).step_by(BUFFER)) {
            self.arrived
                .extend_from_slice(&self.staging[at..at + meta.len]);
            let mut joined = self.arrived.split();
            while !joined.is_empty() {
                let datagram = joined.split_to(meta.stride.min(joined.len()));
                self.take(now, meta, datagram);
            }
        }
        self.see_events().map(|()| true)
    }

    fn take(&mut self, now: Instant, meta: &RecvMeta, datagram: BytesMut) {
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        self.answer.clear();
        let event =
            self.endpoint
                .handle(now, meta.addr, meta.dst_ip, ecn, datagram, &mut self.answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => match &mut self.connection {
                Some((own, connection)) if *own == handle => connection.handle_event(event),
                _ => {}
            },
            Some(DatagramEvent::NewConnection(incoming)) => self.take_connection(now, incoming),
            Some(DatagramEvent::Response(transmit)) => self.send_answer(&transmit),
            None => {}
        }
    }

    /// Takes a connection, in the place of one whose handshake is not over: that may be another program's, or have ended.
    fn take_connection(&mut self, now: Instant, incoming: Incoming) {
        if self.is_connected {
            let refusal = self.endpoint.refuse(incoming, &mut self.answer);
            return self.send_answer(&refusal);
        }
        match self.endpoint.accept(incoming, now, &mut self.answer, None) {
            Ok(accepted) => self.connection = Some(accepted),
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.send_answer(&transmit);
                }
            }
        }
    }

    /// Sends what the endpoint says for no connection. The peer asks again if it is lost.
    fn send_answer(&self, transmit: &Transmit) {
        let contents = &self.answer[..transmit.size];
        let _ = self
            .state
            .try_send((&self.socket).into(), &datagrams_of(transmit, contents));
    }

    /// Sends the datagrams that are due, and does what is due by the time. Returns whether there was anything.
    pub(super) fn send(&mut self) -> Result<bool> {
        let Some((_, connection)) = &mut self.connection else {
            return Ok(false);
        };
        let mut now = Instant::now();
        let mut any = false;
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
            any = true;
        }
        let most = self
            .state
            .max_gso_segments()
            .min(segments(connection.current_mtu().into()));
        for _ in 0..SENDS {
            let transmit = match self.held.take() {
                Some(held) => held,
                None => {
                    self.outgoing.clear();
                    match connection.poll_transmit(now, most, &mut self.outgoing) {
                        Some(transmit) => transmit,
                        None => break,
                    }
                }
            };
            let contents = &self.outgoing[..transmit.size];
            let sent = self
                .state
                .try_send((&self.socket).into(), &datagrams_of(&transmit, contents));
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.held = Some(transmit);
                    break;
                }
                // A datagram that finds out which size the path carries.
                Err(error) if quinn_udp::is_msg_size_err(&error) => {}
                Err(error) => return Err(error),
            }
            any = true;
            now = Instant::now();
        }
        if any {
            self.see_events()?;
        }
        Ok(any)
    }

    /// Sends and receives. If there is nothing to do, waits until there is, at most this long.
    pub(super) fn turn(&mut self, limit: Duration) -> Result<()> {
        let sent = self.send()?;
        if self.receive()? || sent {
            return Ok(());
        }
        self.wait(limit)
    }

    fn see_events(&mut self) -> Result<()> {
        let Some((handle, connection)) = &mut self.connection else {
            return Ok(());
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                // Another program does not get further than this, and another connection may come.
                Event::ConnectionLost { reason }
                    if connection.side().is_server() && !self.is_connected =>
                {
                    tracing::debug!(target: crate::log::TARGET, %reason, "a connection of another program has ended");
                    self.connection = None;
                    return Ok(());
                }
                Event::ConnectionLost { reason } => {
                    self.is_connected = false;
                    return Err(Error::new(ErrorKind::ConnectionAborted, reason));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The time at which something is due.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        let (_, connection) = self.connection.as_mut()?;
        connection.poll_timeout()
    }

    /// Sleeps until datagrams come, or the socket takes what it did not take before, or something is due, at most this long.
    fn wait(&mut self, limit: Duration) -> Result<()> {
        let due = self.next_deadline();
        let due = due.map(|at| at.saturating_duration_since(Instant::now()));
        let limit = due.map_or(limit, |due| due.min(limit));
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.held.is_some());
        let mut sources = [PollFd::new(&self.socket, flags)];
        let limit = Timespec::try_from(limit).map_err(Error::other)?;
        match poll(&mut sources, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for QuicEnd {
    /// Tells the other side, which need not wait for its time limit then.
    fn drop(&mut self) {
        if let Some((_, connection)) = &mut self.connection {
            connection.close(Instant::now(), VarInt::from_u32(0), Bytes::new());
            // The other side waits for its time limit if this gets lost.
            let _ = self.send();
        }
    }
}

fn datagrams_of<'a>(transmit: &Transmit, contents: &'a [u8]) -> quinn_udp::Transmit<'a> {
    let ecn = transmit.ecn.map(|ecn| ecn as u8);
    quinn_udp::Transmit {
        destination: transmit.destination,
        ecn: ecn.and_then(quinn_udp::EcnCodepoint::from_bits),
        contents,
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    }
}
