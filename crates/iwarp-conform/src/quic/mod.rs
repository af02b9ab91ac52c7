//! The raw peer's own side of iWARP over QUIC, as `docs/internals/iwarp-over-quic.md` specifies it: a UDP socket with QUIC connections, and
//! streams that begin with a preamble.
//!
//! Nothing happens between the calls of the suite, which has one thread: each call that reads, writes or waits drives the socket.

mod tls;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, IdleTimeout, ReadError, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig,
    VarInt, WriteError,
};

pub use self::tls::Trusts;

/// The version of the preamble and of its answer.
const VERSION: u8 = 1;
/// The answer to a preamble.
const TAKEN: [u8; 4] = [VERSION, 0, 0, 0];
const PREAMBLE: usize = 8;

/// A stream is not read any more, or the connection is not used any more.
const CLOSED: VarInt = VarInt::from_u32(0x100);
/// The connection, or the attempt at one, was broken off.
const ABORTED: VarInt = VarInt::from_u32(0x101);

/// How long a stream that is dropped may take until its last octets have arrived.
const LAST_OCTETS: Duration = Duration::from_secs(1);

/// A UDP socket of the suite, with its connections.
#[derive(Clone)]
pub struct Quic(Rc<RefCell<Socket>>);

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quic")
            .field(&self.0.borrow().socket)
            .finish()
    }
}

impl Quic {
    /// A socket from which the suite connects to targets at addresses of this kind.
    ///
    /// # Errors
    ///
    /// Those of the system and of the cryptography.
    pub fn connecting(target: SocketAddr, trusts: Trusts) -> io::Result<Self> {
        let local: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let mut client = ClientConfig::new(tls::client(trusts)?);
        client.transport_config(transport(0));
        Socket::bind(local, Some(client), None, Vec::new())
    }

    /// A socket at which the suite listens for a target, with a certificate that is made now.
    ///
    /// # Errors
    ///
    /// As [`Quic::connecting`].
    pub fn listening(address: SocketAddr) -> io::Result<Self> {
        let (certificate, crypto) = tls::server()?;
        let mut server = ServerConfig::with_crypto(crypto);
        server.transport_config(transport(256));
        Socket::bind(address, None, Some(server), certificate)
    }

    /// The address of the socket.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.borrow().socket.local_addr()
    }

    /// The certificate that a listening socket shows, as DER.
    pub fn certificate(&self) -> Vec<u8> {
        self.0.borrow().certificate.clone()
    }

    /// Opens a stream to a target, and waits for the answer to its preamble.
    pub(crate) fn open(&self, target: SocketAddr, limit: Duration) -> io::Result<QuicStream> {
        let end = Instant::now() + limit;
        let handle = self.connected(target, end)?;
        let id = self.until(end, |socket| {
            let link = socket.links.get_mut(&handle).ok_or_else(gone)?;
            link.check()?;
            Ok(link.quic.streams().open(Dir::Bi))
        })?;
        let stream = self.stream(handle, id, limit);
        let mut preamble = vec![VERSION, 0];
        preamble.extend(self.0.borrow_mut().next_name().to_be_bytes());
        preamble.extend(target.port().to_be_bytes());
        preamble.extend([0, 0]);
        stream.write_all(&preamble)?;
        let mut answer = [0; TAKEN.len()];
        stream.read_whole(&mut answer, end).map_err(|error| {
            let what = format!("no answer to the preamble of a stream: {error}");
            io::Error::new(error.kind(), what)
        })?;
        if answer != TAKEN {
            let what = format!("the answer to the preamble of a stream is {answer:02x?}");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        Ok(stream)
    }

    /// The connection to a target: the one that there is, or a new one.
    fn connected(&self, target: SocketAddr, end: Instant) -> io::Result<ConnectionHandle> {
        let known = self.0.borrow_mut().connection_to(target);
        let handle = match known {
            Some(handle) => handle,
            None => self.0.borrow_mut().connect(target)?,
        };
        self.until(end, |socket| {
            let link = socket.links.get(&handle).ok_or_else(gone)?;
            link.check()?;
            Ok(link.is_connected.then_some(()))
        })?;
        Ok(handle)
    }

    /// Waits for the next stream of a target, and answers its preamble. Skips streams that the target has reset meanwhile, up to
    /// `given_up` of them.
    pub(crate) fn accept(&self, limit: Duration, given_up: usize) -> io::Result<QuicStream> {
        let end = Instant::now() + limit;
        let mut left = given_up;
        loop {
            let (handle, id) = self.until(end, |socket| Ok(socket.arrived.pop_front()))?;
            match Self::take(self.stream(handle, id, limit), end) {
                Err(error) if error.kind() == ErrorKind::ConnectionReset && left > 0 => {
                    left -= 1;
                }
                taken => return taken,
            }
        }
    }

    /// Answers the preamble of a stream.
    fn take(stream: QuicStream, end: Instant) -> io::Result<QuicStream> {
        let mut preamble = [0; PREAMBLE];
        stream.read_whole(&mut preamble, end)?;
        let [version, flags, source @ ..] = preamble;
        if version != VERSION || flags != 0 || source[..2] == [0, 0] || source[4..] != [0, 0] {
            let what = format!("a stream begins with {preamble:02x?}, which is no preamble");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        stream.write_all(&TAKEN)?;
        Ok(stream)
    }

    fn stream(&self, handle: ConnectionHandle, id: StreamId, limit: Duration) -> QuicStream {
        QuicStream {
            quic: self.clone(),
            handle,
            id,
            limit,
            is_finished: false,
            is_over: false,
        }
    }

    /// Drives the socket until `look` has an answer, or until this time.
    fn until<T>(
        &self,
        end: Instant,
        mut look: impl FnMut(&mut Socket) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut socket = self.0.borrow_mut();
        loop {
            socket.send(Instant::now());
            if let Some(found) = look(&mut socket)? {
                // The look may have given the connection something to send.
                socket.send(Instant::now());
                return Ok(found);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            socket.receive(left)?;
        }
    }
}

/// The parameters of a connection on which the other side may open this many streams. An opener keeps it alive.
fn transport(streams: u32) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(30_000))))
        .keep_alive_interval((streams == 0).then_some(Duration::from_secs(10)));
    Arc::new(config)
}

fn gone() -> io::Error {
    ErrorKind::ConnectionReset.into()
}

/// See [`Quic`].
struct Socket {
    socket: UdpSocket,
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    certificate: Vec<u8>,
    /// Ordered, so that runs with the same events are the same.
    links: BTreeMap<ConnectionHandle, Link>,
    /// Streams of targets that were not accepted yet.
    arrived: VecDeque<(ConnectionHandle, StreamId)>,
    /// The ND port that the next stream names as its source.
    name: u16,
    buffer: Vec<u8>,
}

/// One QUIC connection.
struct Link {
    quic: Connection,
    remote: SocketAddr,
    is_connected: bool,
    /// Why the connection has ended.
    lost: Option<String>,
    /// Streams all of whose octets have arrived, or whose octets are not wanted.
    settled: BTreeSet<StreamId>,
}

impl Link {
    fn new(quic: Connection, remote: SocketAddr) -> Self {
        Self {
            quic,
            remote,
            is_connected: false,
            lost: None,
            settled: BTreeSet::new(),
        }
    }

    /// Fails when the connection has ended.
    fn check(&self) -> io::Result<()> {
        match &self.lost {
            Some(why) => Err(io::Error::new(ErrorKind::ConnectionReset, why.clone())),
            None => Ok(()),
        }
    }
}

impl Socket {
    fn bind(
        address: SocketAddr,
        client: Option<ClientConfig>,
        server: Option<ServerConfig>,
        certificate: Vec<u8>,
    ) -> io::Result<Quic> {
        let config = Arc::new(EndpointConfig::default());
        Ok(Quic(Rc::new(RefCell::new(Self {
            socket: UdpSocket::bind(address)?,
            endpoint: Endpoint::new(config, server.map(Arc::new), false, None),
            client,
            certificate,
            links: BTreeMap::new(),
            arrived: VecDeque::new(),
            name: 49_152,
            buffer: vec![0; 1 << 16],
        }))))
    }

    /// A number that names this side's end of a connection.
    fn next_name(&mut self) -> u16 {
        self.name = self.name.checked_add(1).unwrap_or(49_152);
        self.name
    }

    fn connection_to(&self, target: SocketAddr) -> Option<ConnectionHandle> {
        let mut links = self.links.iter();
        let found = links.find(|(_, link)| link.remote == target && link.lost.is_none());
        found.map(|(handle, _)| *handle)
    }

    fn connect(&mut self, target: SocketAddr) -> io::Result<ConnectionHandle> {
        let client = self.client.clone().ok_or(ErrorKind::Unsupported)?;
        let (handle, quic) = self
            .endpoint
            .connect(Instant::now(), client, target, &target.ip().to_string())
            .map_err(io::Error::other)?;
        self.links.insert(handle, Link::new(quic, target));
        Ok(handle)
    }

    /// Sends what there is to send, and does what is due by now.
    fn send(&mut self, now: Instant) {
        let handles: Vec<_> = self.links.keys().copied().collect();
        for handle in handles {
            self.settle(handle);
            let Some(link) = self.links.get_mut(&handle) else {
                continue;
            };
            if link.quic.poll_timeout().is_some_and(|at| at <= now) {
                link.quic.handle_timeout(now);
            }
            let mut packet = Vec::new();
            while let Some(transmit) = link.quic.poll_transmit(now, 1, &mut packet) {
                // Unsent datagrams are lost, which QUIC repairs.
                let _ = self
                    .socket
                    .send_to(&packet[..transmit.size], transmit.destination);
                packet.clear();
            }
            self.settle(handle);
        }
        self.links.retain(|_, link| !link.quic.is_drained());
    }

    /// Takes in what has become of a connection.
    fn settle(&mut self, handle: ConnectionHandle) {
        let Some(link) = self.links.get_mut(&handle) else {
            return;
        };
        while let Some(event) = link.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                link.quic.handle_event(event);
            }
        }
        while let Some(event) = link.quic.poll() {
            match event {
                Event::Connected => link.is_connected = true,
                Event::ConnectionLost { reason } => link.lost = Some(reason.to_string()),
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = link.quic.streams().accept(Dir::Bi) {
                        self.arrived.push_back((handle, id));
                    }
                }
                Event::Stream(StreamEvent::Finished { id } | StreamEvent::Stopped { id, .. }) => {
                    link.settled.insert(id);
                }
                _ => {}
            }
        }
    }

    /// Waits for a datagram for at most this long, or until something is due, and takes it in.
    fn receive(&mut self, limit: Duration) -> io::Result<()> {
        let now = Instant::now();
        let due = self
            .links
            .values_mut()
            .filter_map(|link| link.quic.poll_timeout());
        let due = due.min().map(|at| at.saturating_duration_since(now));
        let limit = due.map_or(limit, |due| due.min(limit));
        // A limit of 0 would mean no limit.
        self.socket
            .set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let (count, from) = match self.socket.recv_from(&mut self.buffer) {
            Ok(received) => received,
            // An error of the network is one of an earlier datagram.
            Err(_) => return Ok(()),
        };
        let now = Instant::now();
        let datagram = BytesMut::from(&self.buffer[..count]);
        let mut answer = Vec::new();
        match self
            .endpoint
            .handle(now, from, None, None, datagram, &mut answer)
        {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = self.links.get_mut(&handle) {
                    link.quic.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, &mut answer, None) {
                    Ok((handle, quic)) => {
                        self.links.insert(handle, Link::new(quic, from));
                    }
                    Err(error) => self.answer(error.response.as_ref(), &answer),
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(Some(&transmit), &answer),
            None => {}
        }
        Ok(())
    }

    /// Sends what belongs to no connection. The peer asks again if it is lost.
    fn answer(&self, transmit: Option<&Transmit>, octets: &[u8]) {
        if let Some(transmit) = transmit {
            let _ = self
                .socket
                .send_to(&octets[..transmit.size], transmit.destination);
        }
    }
}

impl Drop for Socket {
    /// Closes the connections of all targets, which would otherwise wait for their idle timeout.
    fn drop(&mut self) {
        let now = Instant::now();
        for link in self.links.values_mut() {
            link.quic.close(now, CLOSED, Bytes::new());
        }
        self.send(now);
    }
}

/// A stream behind its preamble and the answer.
#[derive(Debug)]
pub struct QuicStream {
    quic: Quic,
    handle: ConnectionHandle,
    id: StreamId,
    /// How long a write may take.
    limit: Duration,
    /// This side has ended its direction.
    is_finished: bool,
    /// Both directions have ended.
    is_over: bool,
}

impl QuicStream {
    pub(crate) fn limit_writes(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Calls `act` until it has an answer, with the connection of this stream.
    fn act<T>(
        &self,
        end: Instant,
        mut act: impl FnMut(&mut Connection, StreamId) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        self.quic.until(end, |socket| {
            let link = socket.links.get_mut(&self.handle).ok_or_else(gone)?;
            match act(&mut link.quic, self.id)? {
                Some(done) => Ok(Some(done)),
                // Octets that arrived before the end of the connection can still be read.
                None => link.check().map(|()| None),
            }
        })
    }

    pub(crate) fn write_all(&self, octets: &[u8]) -> io::Result<()> {
        let mut rest = octets;
        while !rest.is_empty() {
            let end = Instant::now() + self.limit;
            let written = self.act(end, |quic, id| match quic.send_stream(id).write(rest) {
                Ok(count) => Ok(Some(count)),
                Err(WriteError::Blocked) => Ok(None),
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    Err(ErrorKind::BrokenPipe.into())
                }
            })?;
            rest = &rest[written..];
        }
        Ok(())
    }

    pub(crate) fn read(&self, into: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.act(Instant::now() + limit, |quic, id| {
            let mut stream = quic.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else {
                return Ok(Some(0));
            };
            let next = chunks.next(into.len());
            let _ = chunks.finalize();
            match next {
                Ok(Some(chunk)) => {
                    into[..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    Ok(Some(chunk.bytes.len()))
                }
                Ok(None) => Ok(Some(0)),
                Err(ReadError::Blocked) => Ok(None),
                Err(ReadError::Reset(_)) => Err(gone()),
            }
        })
    }

    fn read_whole(&self, mut into: &mut [u8], end: Instant) -> io::Result<()> {
        while !into.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let count = self.read(into, left)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            into = &mut into[count..];
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            self.now(|quic, id| drop(quic.send_stream(id).finish()));
        }
    }

    pub(crate) fn reset(&mut self) {
        self.is_over = true;
        self.now(|quic, id| {
            let _ = quic.send_stream(id).reset(ABORTED);
            let _ = quic.recv_stream(id).stop(ABORTED);
        });
    }

    /// Does something that does not wait, and sends what comes of it.
    fn now(&self, act: impl FnOnce(&mut Connection, StreamId)) {
        let mut socket = self.quic.0.borrow_mut();
        if let Some(link) = socket.links.get_mut(&self.handle) {
            act(&mut link.quic, self.id);
        }
        socket.send(Instant::now());
    }
}

impl Drop for QuicStream {
    /// Ends what is open in good order, and waits for a moment until the last octets have arrived.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.finish();
        self.now(|quic, id| drop(quic.recv_stream(id).stop(CLOSED)));
        let _ = self.quic.until(Instant::now() + LAST_OCTETS, |socket| {
            let link = socket.links.get_mut(&self.handle).ok_or_else(gone)?;
            link.check()?;
            Ok(link.settled.remove(&self.id).then_some(()))
        });
    }
}
