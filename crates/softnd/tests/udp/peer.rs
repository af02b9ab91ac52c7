//! A peer over bare QUIC, driven by the test: it can do things that no adapter does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use iwarp_io::transport::quic::preamble::{ErrorCode, Preamble, TAKEN};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, ServerConfig, StreamEvent, StreamId, VarInt,
};
use softnd::security::Security;
use softnd::simulation::{DatagramSocket, Simulation};

use crate::common::LONG;

/// See the [module](self).
pub(crate) struct Peer {
    network: Simulation,
    /// The beginning of the network's time.
    begun: Instant,
    pub(crate) socket: DatagramSocket,
    endpoint: Endpoint,
    pub(crate) connections: BTreeMap<usize, Known>,
    /// Datagrams are neither sent nor received.
    pub(crate) silent: bool,
    /// This many datagrams that arrive next are lost.
    pub(crate) lose: usize,
    buffer: Vec<u8>,
}

/// A connection with what it has reported.
pub(crate) struct Known {
    handle: ConnectionHandle,
    pub(crate) quic: Connection,
    pub(crate) connected: bool,
    pub(crate) lost: Option<ConnectionError>,
    pub(crate) stopped: Vec<(StreamId, u64)>,
}

/// The octets that a stream of the peer has brought, up to now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) octets: Vec<u8>,
    pub(crate) end: Option<End>,
}

/// The way in which a direction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Reset(u64),
}

/// The code of an error.
pub(crate) fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u32(code.number())
}

impl Peer {
    /// A peer at this address.
    pub(crate) fn new(
        network: &Simulation,
        at: SocketAddr,
        config: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> Self {
        let endpoint = Endpoint::new(Arc::new(config), server.map(Arc::new), true, Some([7; 32]));
        Self {
            network: network.clone(),
            begun: Instant::now(),
            socket: network.datagrams_raw(at).unwrap(),
            endpoint,
            connections: BTreeMap::new(),
            silent: false,
            lose: 0,
            buffer: vec![0; 65_535],
        }
    }

    /// A server with the settings of an adapter.
    pub(crate) fn server(network: &Simulation, at: SocketAddr) -> Self {
        let security = Security::default();
        let (endpoint, server) = (security.endpoint_config(), security.server_config());
        Self::new(network, at, endpoint.unwrap(), server.ok())
    }

    /// A client with the settings of an adapter, which has begun to connect.
    pub(crate) fn client(network: &Simulation, from: SocketAddr, to: SocketAddr) -> Self {
        let security = Security::default();
        let client = security.client_config().unwrap();
        let mut peer = Self::new(network, from, security.endpoint_config().unwrap(), None);
        peer.connect(to, client);
        peer
    }

    pub(crate) fn now(&self) -> Instant {
        self.begun + self.network.time()
    }

    /// Begins to connect. Returns the number of the connection.
    pub(crate) fn connect(&mut self, to: SocketAddr, config: ClientConfig) -> usize {
        let now = self.now();
        let name = to.ip().to_string();
        let (handle, quic) = self.endpoint.connect(now, config, to, &name).unwrap();
        self.know(handle, quic)
    }

    fn know(&mut self, handle: ConnectionHandle, quic: Connection) -> usize {
        let known = Known {
            handle,
            quic,
            connected: false,
            lost: None,
            stopped: Vec::new(),
        };
        self.connections.insert(handle.0, known);
        handle.0
    }

    /// The only connection.
    pub(crate) fn only(&mut self) -> &mut Known {
        assert_eq!(self.connections.len(), 1);
        self.connections.values_mut().next().unwrap()
    }

    /// Handles arrived datagrams, and sends the pending ones.
    pub(crate) fn drive(&mut self) {
        if self.silent {
            return;
        }
        let now = self.now();
        let mut datagram = std::mem::take(&mut self.buffer);
        while let Ok(received) = self.socket.recv_from(&mut datagram) {
            if self.lose > 0 {
                self.lose -= 1;
                continue;
            }
            let data = BytesMut::from(&datagram[..received.len]);
            let mut answer = Vec::new();
            let event = self
                .endpoint
                .handle(now, received.from, None, None, data, &mut answer);
            let transmit = match event {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    match self.endpoint.accept(incoming, now, &mut answer, None) {
                        Ok((handle, quic)) => {
                            self.know(handle, quic);
                            None
                        }
                        Err(error) => error.response,
                    }
                }
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(known) = self.connections.get_mut(&handle.0) {
                        known.quic.handle_event(event);
                    }
                    None
                }
                Some(DatagramEvent::Response(transmit)) => Some(transmit),
                None => None,
            };
            if let Some(transmit) = transmit {
                let octets = &answer[..transmit.size];
                let _ = self.socket.send_to(transmit.destination, 0, octets);
            }
        }
        self.buffer = datagram;
        for known in self.connections.values_mut() {
            known.settle(now, &mut self.endpoint, &self.socket);
        }
    }

    /// Drives the peer and the network until `found` finds something.
    pub(crate) fn until<T>(&mut self, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let begun = self.network.time();
        loop {
            self.drive();
            if let Some(found) = found(self) {
                self.drive();
                return found;
            }
            assert!(self.network.time() - begun < LONG, "nothing happens");
            // No event of the network is left, but the peer may wait for a time.
            if !self.network.step() {
                self.network.pass(Duration::from_millis(10));
            }
        }
    }

    /// Drives the peer and the network until `is_so` returns true.
    pub(crate) fn until_true(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        self.until(|peer| is_so(peer).then_some(()));
    }

    /// Opens a stream and writes to it. The only connection is connected then.
    pub(crate) fn open(&mut self, octets: &[u8]) -> StreamId {
        let stream = self.until(|peer| {
            let known = peer.only();
            assert_eq!(known.lost, None);
            known.connected.then(|| known.quic.streams().open(Dir::Bi))
        });
        let stream = stream.expect("the adapter permits streams");
        self.write(stream, octets);
        stream
    }

    /// Opens a stream with a preamble, and waits for the answer.
    pub(crate) fn open_with_preamble(&mut self, source: u16, destination: u16) -> StreamId {
        let preamble = Preamble {
            source,
            destination,
        };
        let stream = self.open(&preamble.encode());
        assert_eq!(self.read_exact(stream, 4), TAKEN);
        stream
    }

    /// Takes the next stream that the adapter has opened on one of the connections, which is returned too.
    pub(crate) fn accept(&mut self) -> (usize, StreamId) {
        self.until(|peer| {
            let mut known = peer.connections.iter_mut();
            known.find_map(|(number, known)| {
                let stream = known.quic.streams().accept(Dir::Bi)?;
                Some((*number, stream))
            })
        })
    }

    /// The connection of a stream: the only one, or the one that was used last.
    fn last_connection(&mut self) -> &mut Known {
        self.connections.values_mut().next_back().unwrap()
    }

    pub(crate) fn write(&mut self, stream: StreamId, octets: &[u8]) {
        let written = self
            .last_connection()
            .quic
            .send_stream(stream)
            .write(octets);
        assert_eq!(written, Ok(octets.len()));
        self.drive();
    }

    /// Writes as many octets as the stream has room for. Returns their number.
    pub(crate) fn fill(&mut self, stream: StreamId) -> usize {
        let mut sending = self.last_connection().quic.send_stream(stream);
        let mut count = 0;
        while let Ok(more) = sending.write(&[0; 16 * 1024]) {
            count += more;
        }
        if count > 0 {
            self.drive();
        }
        count
    }

    pub(crate) fn finish(&mut self, stream: StreamId) {
        self.last_connection()
            .quic
            .send_stream(stream)
            .finish()
            .unwrap();
        self.drive();
    }

    pub(crate) fn reset(&mut self, stream: StreamId, error: ErrorCode) {
        self.last_connection()
            .quic
            .send_stream(stream)
            .reset(code(error))
            .unwrap();
        self.drive();
    }

    pub(crate) fn stop(&mut self, stream: StreamId, error: ErrorCode) {
        self.last_connection()
            .quic
            .recv_stream(stream)
            .stop(code(error))
            .unwrap();
        self.drive();
    }

    /// The code with which the adapter has announced that it reads no more of a stream.
    pub(crate) fn stopped(&mut self, stream: StreamId) -> Option<u64> {
        let mut stopped = self.last_connection().stopped.iter();
        let found = stopped.find(|(stopped_stream, _)| *stopped_stream == stream);
        found.map(|(_, code)| *code)
    }

    /// Takes the octets that a stream has brought.
    pub(crate) fn read(&mut self, stream: StreamId, limit: usize) -> Read {
        let mut read = Read::default();
        let known = self.last_connection();
        let mut receiving = known.quic.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else {
            return read;
        };
        while read.octets.len() < limit {
            match chunks.next(limit - read.octets.len()) {
                Ok(Some(chunk)) => read.octets.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    read.end = Some(End::Fin);
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    read.end = Some(End::Reset(code.into_inner()));
                    break;
                }
            }
        }
        let _ = chunks.finalize();
        read
    }

    /// Reads this many octets.
    pub(crate) fn read_exact(&mut self, stream: StreamId, count: usize) -> Vec<u8> {
        let mut octets = Vec::new();
        self.until(|peer| {
            let read = peer.read(stream, count - octets.len());
            octets.extend(read.octets);
            assert_eq!(read.end, None, "after {octets:02x?}");
            (octets.len() == count).then_some(())
        });
        octets
    }

    /// Reads up to the end.
    pub(crate) fn read_to_end(&mut self, stream: StreamId) -> Read {
        let mut all = Read::default();
        self.until(|peer| {
            let read = peer.read(stream, usize::MAX);
            all.octets.extend(read.octets);
            all.end = read.end;
            all.end
        });
        all
    }
}

impl Known {
    fn settle(&mut self, now: Instant, endpoint: &mut Endpoint, socket: &DatagramSocket) {
        while let Some(at) = self.quic.poll_timeout()
            && at <= now
        {
            self.quic.handle_timeout(now);
        }
        loop {
            while let Some(event) = self.quic.poll_endpoint_events() {
                if let Some(event) = endpoint.handle_event(self.handle, event) {
                    self.quic.handle_event(event);
                }
            }
            let mut octets = Vec::new();
            if let Some(transmit) = self.quic.poll_transmit(now, 1, &mut octets) {
                let octets = &octets[..transmit.size];
                let _ = socket.send_to(transmit.destination, 0, octets);
                continue;
            }
            match self.quic.poll() {
                None => return,
                Some(Event::Connected) => self.connected = true,
                Some(Event::ConnectionLost { reason }) => self.lost = Some(reason),
                Some(Event::Stream(StreamEvent::Stopped { id, error_code })) => {
                    self.stopped.push((id, error_code.into_inner()));
                }
                Some(_) => {}
            }
        }
    }
}
