//! The endpoint of a listener, and peers that speak QUIC and nothing above it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamId,
    VarInt,
};

use crate::progress::readiness::Edges;
use crate::progress::shared_descriptor::{CarriedSource, Carrier};
use crate::simulation::{Conditions, World};
use crate::transport::congestion_control::QuicAlgorithm;
use crate::transport::datagrams::{LONGEST_TRAIN, PlainSocket, Socket, Train};
use crate::transport::quic::account::UndeliveredLimits;
use crate::transport::quic::config::{self, Settings};
use crate::transport::quic::endpoint::{Outside, QuicEndpoint};
use crate::transport::quic::preamble::{ErrorCode, Preamble, TAKEN};
use crate::transport::quic::security::Security;
use crate::transport::quic::shared_socket::SharedSocket;
use crate::transport::sim::DatagramSocket;

/// The address at which the endpoint listens.
pub(super) const SERVER: SocketAddr = at([10, 0, 0, 1], 7174);

/// An address.
pub(super) const fn at(ip: [u8; 4], port: u16) -> SocketAddr {
    let [a, b, c, d] = ip;
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}

/// The endpoint of a listener.
pub(super) struct Rig {
    pub(super) world: World,
    socket: Socket,
    settings: Settings,
    pub(super) state: QuicEndpoint,
    /// All sources that were raised.
    pub(super) raised: Vec<(Arc<CarriedSource>, Edges)>,
}

fn source() -> Arc<CarriedSource> {
    let nobody: Weak<dyn Carrier> = Weak::<SharedSocket>::new();
    CarriedSource::silent(nobody)
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_security(&Security::default())
    }

    pub(super) fn with_security(security: &Security) -> Self {
        Self::limited(security, UndeliveredLimits::default())
    }

    /// An endpoint with these limits of octets that cannot be delivered.
    pub(super) fn limited(security: &Security, undelivered: UndeliveredLimits) -> Self {
        let world = World::new(7, Conditions::default());
        let socket = Socket::Plain(PlainSocket::of_world(&world, SERVER).unwrap());
        let settings = Settings::new(security, QuicAlgorithm::default()).unwrap();
        let server = settings.server(SERVER.ip(), SERVER.ip());
        let mut endpoint = security.endpoint_config().unwrap();
        config::endpoint(&mut endpoint, Some([1; 32]));
        let server = Some(server);
        let endpoint = Endpoint::new(Arc::new(endpoint), server, true, Some([1; 32]));
        let mut state = QuicEndpoint::new(
            endpoint,
            SERVER,
            security.failure_report(),
            (Arc::default(), Arc::clone(settings.in_flight())),
            undelivered,
        );
        state.listen(source()).unwrap();
        Self {
            world,
            socket,
            settings,
            state,
            raised: Vec::new(),
        }
    }

    pub(super) fn act<T>(&mut self, act: impl FnOnce(&mut QuicEndpoint, Outside<'_>) -> T) -> T {
        let outside = Outside {
            socket: &self.socket,
            now: self.world.now(),
            source: &source,
            settings: &self.settings,
        };
        let acted = act(&mut self.state, outside);
        while self.state.has_more_to_send() {
            self.state.send_more(outside);
        }
        self.raised.extend(self.state.take_raised());
        acted
    }

    /// Handles received datagrams and passed deadlines.
    pub(super) fn visit(&mut self) {
        self.act(|state, outside| state.send_owed(outside));
        let (mut buffer, mut received) = (vec![0; LONGEST_TRAIN], Vec::<Train>::new());
        while self.socket.receive(&mut buffer, &mut received).is_ok() {
            for train in received.clone() {
                self.act(|state, outside| state.received(outside, &train, &buffer[..train.len]));
            }
        }
        self.act(|state, outside| {
            state.take_in(outside);
            state.time_passed(outside);
        });
    }

    /// Lets this much time pass for the endpoint and these peers.
    pub(super) fn run(&mut self, peers: &mut [&mut Peer], time: Duration) {
        let end = self.world.now() + time;
        self.run_until(peers, end, |_, _| false);
    }

    /// Lets time pass until this holds, for a minute at most.
    #[track_caller]
    pub(super) fn run_to(
        &mut self,
        peers: &mut [&mut Peer],
        holds: impl FnMut(&mut Self, &mut [&mut Peer]) -> bool,
    ) {
        let end = self.world.now() + Duration::from_secs(60);
        assert!(self.run_until(peers, end, holds), "it does not come so far");
    }

    fn run_until(
        &mut self,
        peers: &mut [&mut Peer],
        end: Instant,
        mut holds: impl FnMut(&mut Self, &mut [&mut Peer]) -> bool,
    ) -> bool {
        loop {
            self.visit();
            let now = self.world.now();
            let mut next = end;
            for peer in peers.iter_mut() {
                peer.drive(now);
                next = next.min(peer.deadline().unwrap_or(end));
            }
            if holds(self, peers) {
                return true;
            }
            if now >= end {
                return false;
            }
            let next = next.min(self.state.next_deadline().unwrap_or(end));
            self.world.step_until(Some(next));
        }
    }

    /// Makes the endpoint find the socket full until its list of blocked datagrams is emptied.
    pub(super) fn fill_socket(&mut self) {
        let transmit = quinn_proto::Transmit {
            destination: SERVER,
            ecn: None,
            size: 1,
            segment_size: None,
            src_ip: None,
        };
        let octets = bytes::Bytes::from_static(&[0]);
        self.state.blocked.push_back((transmit, octets));
    }

    /// The number of refusals of this name.
    pub(super) fn refused(&self, name: &str) -> u64 {
        let counts = self.state.refusals.all();
        let count = counts.iter().find(|(known, _)| *known == name);
        count.expect("a counter").1
    }

    /// The stream that has waited longest for the listener.
    pub(super) fn accept(&mut self) -> usize {
        self.state.accept().expect("a stream waits")
    }
}

/// A peer that speaks QUIC.
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    pub(super) socket: DatagramSocket,
    pub(super) client: ClientConfig,
    pub(super) connections: HashMap<ConnectionHandle, Connection>,
    pub(super) events: Vec<Event>,
    /// Every datagram that was received and sent.
    pub(super) seen: Vec<Vec<u8>>,
}

impl Peer {
    pub(super) fn new(rig: &Rig, address: SocketAddr) -> Self {
        Self::with_security(rig, address, &Security::default())
    }

    pub(super) fn with_security(rig: &Rig, address: SocketAddr, security: &Security) -> Self {
        let settings = Settings::new(security, QuicAlgorithm::default()).unwrap();
        let client = settings.client(address.ip(), SERVER.ip());
        let mut endpoint = security.endpoint_config().unwrap();
        config::endpoint(&mut endpoint, Some([2; 32]));
        Self {
            endpoint: Endpoint::new(Arc::new(endpoint), None, true, Some([2; 32])),
            socket: DatagramSocket::bind(&rig.world, address).unwrap(),
            client,
            connections: HashMap::new(),
            events: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self) -> ConnectionHandle {
        let now = self.socket.world().now();
        let connected = self
            .endpoint
            .connect(now, self.client.clone(), SERVER, "10.0.0.1");
        let (handle, mut connection) = connected.unwrap();
        connection.set_receive_window(VarInt::MAX);
        self.connections.insert(handle, connection);
        handle
    }

    /// The only connection.
    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connections.values_mut().next().expect("a connection")
    }

    /// A connected peer.
    #[track_caller]
    pub(super) fn connected(rig: &mut Rig, address: SocketAddr) -> Self {
        let mut peer = Self::new(rig, address);
        peer.connect();
        rig.run_to(&mut [&mut peer], |_, peers| peers[0].is_connected());
        peer
    }

    pub(super) fn is_connected(&self) -> bool {
        let connected = |event: &Event| matches!(event, Event::Connected);
        self.events.iter().any(connected)
    }

    /// Opens a stream with these octets. `None` if the other side permits no more.
    pub(super) fn open(&mut self, octets: &[u8]) -> Option<StreamId> {
        let connection = self.connection();
        let stream = connection.streams().open(Dir::Bi)?;
        let written = connection.send_stream(stream).write(octets);
        assert!(written.is_ok() || octets.is_empty());
        Some(stream)
    }

    /// Opens a stream with a preamble.
    pub(super) fn open_with_preamble(&mut self, source: u16) -> Option<StreamId> {
        let destination = SERVER.port();
        let preamble = Preamble {
            source,
            destination,
        };
        self.open(&preamble.encode())
    }

    /// The octets of a stream that can be read.
    pub(super) fn read(&mut self, stream: StreamId) -> Vec<u8> {
        let mut octets = Vec::new();
        let mut receiving = self.connection().recv_stream(stream);
        if let Ok(mut chunks) = receiving.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                octets.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
        }
        octets
    }

    /// The codes with which streams were stopped.
    pub(super) fn stopped(&self) -> Vec<Option<ErrorCode>> {
        let stopped = self.events.iter().filter_map(|event| match event {
            Event::Stream(quinn_proto::StreamEvent::Stopped { error_code, .. }) => {
                Some(ErrorCode::from_number(error_code.into_inner()))
            }
            _ => None,
        });
        stopped.collect()
    }

    /// Resets a stream.
    pub(super) fn reset(&mut self, stream: StreamId) {
        let code = VarInt::from_u32(ErrorCode::Aborted.number());
        let _ = self.connection().send_stream(stream).reset(code);
        let _ = self.connection().recv_stream(stream).stop(code);
    }

    /// The datagrams that connections want to send now.
    pub(super) fn next_datagrams(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        for connection in self.connections.values_mut() {
            let mut buffer = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
                sent.push(buffer[..transmit.size].to_vec());
                buffer.clear();
            }
        }
        sent
    }

    /// The peer has another address from now on, and datagrams sent to the former one are lost.
    pub(super) fn move_to(&mut self, address: SocketAddr) {
        self.socket = DatagramSocket::bind(self.socket.world(), address).unwrap();
    }

    pub(super) fn drive(&mut self, now: Instant) {
        let mut buffer = vec![0; LONGEST_TRAIN];
        while let Ok(received) = self.socket.recv_from(&mut buffer) {
            let datagram = &buffer[..received.len];
            self.seen.push(datagram.to_vec());
            let from = received.from;
            let mut answer = Vec::new();
            let event = self
                .endpoint
                .handle(now, from, None, None, datagram.into(), &mut answer);
            if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event
                && let Some(connection) = self.connections.get_mut(&handle)
            {
                connection.handle_event(event);
            }
        }
        for connection in self.connections.values_mut() {
            if connection
                .poll_timeout()
                .is_some_and(|deadline| deadline <= now)
            {
                connection.handle_timeout(now);
            }
        }
        for datagram in self.next_datagrams(now) {
            // Probes of the path's MTU are too long for some paths.
            let _ = self.socket.send_to(SERVER, 0, &datagram);
            self.seen.push(datagram);
        }
        for (handle, connection) in &mut self.connections {
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
        let deadlines = self.connections.values_mut();
        deadlines.filter_map(Connection::poll_timeout).min()
    }
}

/// An honest peer with a stream that a listener has taken.
pub(super) struct Neighbour {
    pub(super) peer: Peer,
    pub(super) stream: StreamId,
    pub(super) flow: usize,
}

impl Neighbour {
    pub(super) fn new(rig: &mut Rig) -> Self {
        Self::at(rig, at([10, 0, 0, 2], 5000))
    }

    pub(super) fn at(rig: &mut Rig, address: SocketAddr) -> Self {
        let mut peer = Peer::connected(rig, address);
        let stream = peer.open_with_preamble(5001).unwrap();
        rig.run_to(&mut [&mut peer], |rig, _| rig.state.is_somebody_there());
        let flow = rig.accept();
        let mut answer = Vec::new();
        rig.run_to(&mut [&mut peer], |_, peers| {
            answer.extend(peers[0].read(stream));
            answer == TAKEN
        });
        let mut neighbour = Self { peer, stream, flow };
        neighbour.assert_is_served(rig);
        neighbour
    }

    /// Checks that octets arrive in both directions.
    #[track_caller]
    pub(super) fn assert_is_served(&mut self, rig: &mut Rig) {
        let (flow, stream) = (self.flow, self.stream);
        let sent = self.peer.connection().send_stream(stream).write(b"there");
        assert_eq!(sent, Ok(5));
        let (mut got, mut back) = (Vec::new(), Vec::new());
        rig.run_to(&mut [&mut self.peer], |rig, peers| {
            let mut octets = [0; 16];
            rig.act(|state, outside| {
                if let Ok(count) = state.read(flow, &mut octets) {
                    got.extend_from_slice(&octets[..count]);
                    if got == b"there" {
                        assert_eq!(state.write(flow, b"back").unwrap(), 4);
                    }
                }
                state.settle_flow(outside, flow);
            });
            back.extend(peers[0].read(stream));
            back == b"back"
        });
    }
}
