//! A listener over QUIC in a simulated network, and peers of it that speak QUIC and nothing above it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp_io::environment::Environment;
use iwarp_io::simulation::{Conditions, World};
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::quic::Quic;
use iwarp_io::transport::quic::preamble::{Preamble, TAKEN};
use iwarp_io::transport::quic::security::Security;
use iwarp_io::transport::sim::DatagramSocket;
use iwarp_io::transport::{Listener, Transport, Wire};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError,
    StreamId, TransportConfig,
};

/// Where the listener is.
pub(crate) const LISTENER: SocketAddr = at(1, 7174);

/// An address of the network.
pub(crate) const fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port)
}

/// The listener and its network.
pub(crate) struct Net {
    pub(crate) world: World,
    listener: Listener,
    /// The streams that were accepted, the oldest first.
    pub(crate) wires: Vec<Wire>,
    _transport: Transport,
}

impl Net {
    pub(crate) fn new() -> Self {
        let world = World::new(1, Conditions::default());
        let environment = Environment::Sim(world.clone());
        let quic = Quic::new(environment, &Security::default()).expect("QUIC");
        let transport = Transport::Quic(quic);
        let bound = transport.bind(LISTENER, Purpose::Listening);
        let listener = bound.and_then(|bound| bound.listen());
        Self {
            world,
            listener: listener.expect("an address of its own"),
            wires: Vec::new(),
            _transport: transport,
        }
    }

    /// Lets the next thing happen, or a little time pass.
    pub(crate) fn step(&mut self, peers: &mut [&mut Peer]) {
        while let Ok(wire) = self.listener.accept() {
            self.wires.push(wire);
        }
        let now = self.world.now();
        let mut next = now + Duration::from_millis(5);
        for peer in peers {
            peer.drive(now);
            next = next.min(peer.deadline().unwrap_or(next));
        }
        self.world.step_until(Some(next));
    }

    /// Lets time pass until this holds.
    pub(crate) fn run(
        &mut self,
        peers: &mut [&mut Peer],
        mut holds: impl FnMut(&mut Self, &mut [&mut Peer]) -> bool,
    ) {
        let end = self.world.now() + Duration::from_secs(30);
        while !holds(self, peers) {
            assert!(self.world.now() < end, "it does not come so far");
            self.step(peers);
        }
    }

    /// A peer whose handshake is complete.
    pub(crate) fn connected(&mut self, address: SocketAddr) -> Peer {
        let mut peer = Peer::new(&self.world, address);
        peer.connect();
        self.run(&mut [&mut peer], |_, peers| {
            let connected = |event: &Event| matches!(event, Event::Connected);
            peers[0].events.iter().any(connected)
        });
        peer
    }

    /// An honest peer with a stream in use.
    pub(crate) fn neighbour(&mut self) -> Neighbour {
        let mut peer = self.connected(at(2, 5000));
        let preamble = Preamble {
            source: 5001,
            destination: LISTENER.port(),
        };
        let stream = peer.open(&preamble.encode()).expect("a first stream");
        let mut answer = Vec::new();
        self.run(&mut [&mut peer], |net, peers| {
            answer.extend(peers[0].read(stream));
            answer == TAKEN && !net.wires.is_empty()
        });
        let wire = self.wires.remove(0);
        let mut neighbour = Neighbour { peer, stream, wire };
        neighbour.assert_is_served(self);
        neighbour
    }
}

/// An honest peer.
pub(crate) struct Neighbour {
    pub(crate) peer: Peer,
    stream: StreamId,
    wire: Wire,
}

impl Neighbour {
    /// Octets pass in both directions.
    pub(crate) fn assert_is_served(&mut self, net: &mut Net) {
        let (stream, wire) = (self.stream, &self.wire);
        let sent = self.peer.connection().map(|connection| {
            let mut sending = connection.send_stream(stream);
            sending.write(b"there")
        });
        assert!(matches!(sent, Some(Ok(5))), "{sent:?}");
        assert_eq!(wire.write(b"back").expect("an open stream"), 4);
        let (mut there, mut back) = (Vec::new(), Vec::new());
        net.run(&mut [&mut self.peer], |_, peers| {
            read(wire, &mut there);
            back.extend(peers[0].read(stream));
            there == b"there" && back == b"back"
        });
    }
}

/// Reads what is there; true at the end.
pub(crate) fn read(wire: &Wire, octets: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match wire.read(&mut buffer) {
            Ok(0) => return true,
            Ok(count) => octets.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}

/// A peer that speaks QUIC.
pub(crate) struct Peer {
    endpoint: Endpoint,
    pub(crate) socket: DatagramSocket,
    config: ClientConfig,
    connections: HashMap<ConnectionHandle, Connection>,
    events: Vec<Event>,
    /// The datagrams that were sent.
    pub(crate) sent: Vec<Vec<u8>>,
}

impl Peer {
    fn new(world: &World, address: SocketAddr) -> Self {
        let security = Security::default();
        let mut config = security.client_config().expect("QUIC");
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(0_u8.into())
            .max_concurrent_uni_streams(0_u8.into())
            .keep_alive_interval(Some(Duration::from_secs(5)));
        config.transport_config(Arc::new(transport));
        let mut endpoint = security.endpoint_config().expect("QUIC");
        let [.., host] = match address.ip() {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(_) => [0; 4],
        };
        let seed = Some([host; 32]);
        endpoint.rng_seed(seed);
        Self {
            endpoint: Endpoint::new(Arc::new(endpoint), None, true, seed),
            socket: DatagramSocket::bind(world, address).expect("an address of its own"),
            config,
            connections: HashMap::new(),
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Begins to connect.
    pub(crate) fn connect(&mut self) -> ConnectionHandle {
        let (now, config) = (self.socket.world().now(), self.config.clone());
        let connected = self.endpoint.connect(now, config, LISTENER, "10.0.0.1");
        let (handle, connection) = connected.expect("an address to connect to");
        self.connections.insert(handle, connection);
        handle
    }

    /// The first packet of a new connection, which goes nowhere.
    pub(crate) fn first_packet(&mut self) -> Vec<u8> {
        let handle = self.connect();
        let mut connection = self.connections.remove(&handle).expect("a new one");
        let mut buffer = Vec::new();
        let now = self.socket.world().now();
        let transmit = connection.poll_transmit(now, 1, &mut buffer);
        buffer.truncate(transmit.expect("a first packet").size);
        buffer
    }

    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        self.connections.values_mut().next()
    }

    /// Opens a stream with these octets, if the other side permits one.
    pub(crate) fn open(&mut self, octets: &[u8]) -> Option<StreamId> {
        let connection = self.connection()?;
        let stream = connection.streams().open(Dir::Bi)?;
        // Octets that do not fit are left out.
        let _ = connection.send_stream(stream).write(octets);
        Some(stream)
    }

    /// The octets of a stream that can be read.
    pub(crate) fn read(&mut self, stream: StreamId) -> Vec<u8> {
        let mut octets = Vec::new();
        let Some(connection) = self.connection() else {
            return octets;
        };
        if let Ok(mut chunks) = connection.recv_stream(stream).read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                octets.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
        }
        octets
    }

    /// The code with which the other side has reset a stream.
    pub(crate) fn refused(&mut self, stream: StreamId) -> Option<u64> {
        let mut receiving = self.connection()?.recv_stream(stream);
        let mut chunks = receiving.read(true).ok()?;
        let next = chunks.next(usize::MAX);
        let _ = chunks.finalize();
        match next {
            Err(ReadError::Reset(code)) => Some(code.into_inner()),
            _ => None,
        }
    }

    fn drive(&mut self, now: Instant) {
        let mut buffer = vec![0; 65_536];
        while let Ok(received) = self.socket.recv_from(&mut buffer) {
            let (from, mut answer) = (received.from, Vec::new());
            let datagram = buffer[..received.len].into();
            let event = self
                .endpoint
                .handle(now, from, None, None, datagram, &mut answer);
            if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event
                && let Some(connection) = self.connections.get_mut(&handle)
            {
                connection.handle_event(event);
            }
        }
        for (handle, connection) in &mut self.connections {
            if connection.poll_timeout().is_some_and(|due| due <= now) {
                connection.handle_timeout(now);
            }
            let mut buffer = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
                // Probes of the path's MTU may be too long.
                let _ = self.socket.send_to(LISTENER, 0, &buffer[..transmit.size]);
                self.sent.push(buffer[..transmit.size].to_vec());
                buffer.clear();
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = connection.poll() {
                self.events.push(event);
            }
        }
        self.connections
            .retain(|_, connection| !connection.is_drained());
    }

    fn deadline(&mut self) -> Option<Instant> {
        let connections = self.connections.values_mut();
        connections.filter_map(Connection::poll_timeout).min()
    }
}
