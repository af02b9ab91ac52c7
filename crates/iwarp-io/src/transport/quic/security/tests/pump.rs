//! Two endpoints of QUIC, and the test passes datagrams between them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    Event, ServerConfig, StreamEvent,
};

use super::Security;

/// The address of the server. Test certificates are for this address.
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// One side: an endpoint and its connection.
pub(super) struct Side {
    endpoint: Endpoint,
    address: SocketAddr,
    pub(super) connection: Option<(ConnectionHandle, Connection)>,
    /// The events that the connection has reported.
    pub(super) events: Vec<Event>,
    /// The reason why the endpoint has not accepted a connection.
    pub(super) not_accepted: Option<ConnectionError>,
    /// The lengths of the datagrams that were sent.
    pub(super) sent: Vec<usize>,
}

impl Side {
    fn new(
        address: IpAddr,
        config: quinn_proto::EndpointConfig,
        server: Option<ServerConfig>,
    ) -> Self {
        let seed = [u8::from(server.is_some()); 32];
        Self {
            endpoint: Endpoint::new(config.into(), server.map(Arc::new), false, Some(seed)),
            address: SocketAddr::new(address, 4791),
            connection: None,
            events: Vec::new(),
            not_accepted: None,
            sent: Vec::new(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        let is_connected = |event: &Event| matches!(event, Event::Connected);
        self.events.iter().any(is_connected)
    }

    /// Returns true if the peer's stream was seen.
    pub(super) fn has_stream(&self) -> bool {
        let is_stream = |event: &Event| matches!(event, Event::Stream(StreamEvent::Opened { .. }));
        self.events.iter().any(is_stream)
    }

    /// The reason why the connection was lost, or not accepted.
    pub(super) fn error(&self) -> Option<&ConnectionError> {
        let lost = self.events.iter().find_map(|event| match event {
            Event::ConnectionLost { reason } => Some(reason),
            _ => None,
        });
        lost.or(self.not_accepted.as_ref())
    }

    /// The octets of all streams that the peer has opened, in the order of the streams.
    pub(super) fn received(&mut self) -> Vec<u8> {
        let (_, connection) = self.connection.as_mut().unwrap();
        let mut received = Vec::new();
        while let Some(stream) = connection.streams().accept(Dir::Bi) {
            let mut stream = connection.recv_stream(stream);
            let mut chunks = stream.read(true).unwrap();
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                received.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
        }
        received
    }

    /// Handles a datagram.
    fn handle(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = Vec::new();
        let event = self
            .endpoint
            .handle(now, from, None, None, datagram.into(), &mut buffer)?;
        let response = match event {
            DatagramEvent::NewConnection(incoming) => {
                match self.endpoint.accept(incoming, now, &mut buffer, None) {
                    Ok(connection) => {
                        self.connection = Some(connection);
                        None
                    }
                    Err(error) => {
                        self.not_accepted = Some(error.cause);
                        error.response
                    }
                }
            }
            DatagramEvent::ConnectionEvent(_, event) => {
                let (_, connection) = self.connection.as_mut().unwrap();
                connection.handle_event(event);
                None
            }
            DatagramEvent::Response(transmit) => Some(transmit),
        }?;
        Some(buffer[..response.size].to_vec())
    }

    /// Lets the connection work, and returns the datagrams that it sends.
    fn drive(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let Some((handle, connection)) = &mut self.connection else {
            return Vec::new();
        };
        let mut sent = Vec::new();
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = connection.poll() {
                // A client's first octets follow its certificate at once.
                if matches!(event, Event::Connected) && connection.side().is_client() {
                    write(connection, b"octets");
                }
                self.events.push(event);
            }
            let mut buffer = Vec::new();
            let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) else {
                return sent;
            };
            buffer.truncate(transmit.size);
            sent.push(buffer);
        }
    }
}

/// Opens a stream and writes to it.
pub(super) fn write(connection: &mut Connection, octets: &[u8]) {
    let stream = connection.streams().open(Dir::Bi);
    let stream = stream.expect("the server permits streams");
    let written = connection.send_stream(stream).write(octets);
    assert_eq!(written, Ok(octets.len()));
}

/// A client and a server.
pub(super) struct Pump {
    pub(super) client: Side,
    pub(super) server: Side,
    now: Instant,
    on_the_way: VecDeque<(bool, Vec<u8>)>,
}

impl Pump {
    /// The two sides of a handshake that has succeeded or failed.
    pub(super) fn shake_hands(client: &Security, server: &Security) -> Self {
        let mut pump = Self::between(
            client.client_config().unwrap(),
            server.server_config().unwrap(),
            &client.name_of(SERVER),
        );
        pump.run();
        pump
    }

    /// Like [`shake_hands`](Self::shake_hands), with peers of any implementation, before the first datagram.
    pub(super) fn between(client: ClientConfig, server: ServerConfig, name: &str) -> Self {
        let mut pump = Self::listening(server);
        pump.connect(client, name);
        pump
    }

    /// A server, and a client that has not connected to it.
    pub(super) fn listening(server: ServerConfig) -> Self {
        let config = || Security::default().endpoint_config().unwrap();
        Self::with_configs(config(), config(), server)
    }

    /// Like [`listening`](Self::listening), with settings of the endpoints.
    pub(super) fn with_configs(
        client: quinn_proto::EndpointConfig,
        server: quinn_proto::EndpointConfig,
        config: ServerConfig,
    ) -> Self {
        Self {
            client: Side::new(CLIENT, client, None),
            server: Side::new(SERVER, server, Some(config)),
            now: Instant::now(),
            on_the_way: VecDeque::new(),
        }
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, config: ClientConfig, name: &str) -> &mut Connection {
        let remote = self.server.address;
        let connection = self.client.endpoint.connect(self.now, config, remote, name);
        let (_, connection) = self.client.connection.insert(connection.unwrap());
        connection
    }

    /// Passes datagrams on until none is on the way. The clock does not advance.
    pub(super) fn run(&mut self) {
        loop {
            for (is_client, side) in [(true, &mut self.client), (false, &mut self.server)] {
                for datagram in side.drive(self.now) {
                    side.sent.push(datagram.len());
                    self.on_the_way.push_back((is_client, datagram));
                }
            }
            let Some((from_client, datagram)) = self.on_the_way.pop_front() else {
                return;
            };
            let (from, to) = match from_client {
                true => (self.client.address, &mut self.server),
                false => (self.server.address, &mut self.client),
            };
            if let Some(answer) = to.handle(self.now, from, &datagram) {
                self.on_the_way.push_back((!from_client, answer));
            }
        }
    }
}
