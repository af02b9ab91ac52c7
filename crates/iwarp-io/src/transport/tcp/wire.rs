//! TCP over the system's sockets.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iwarp::{Span, TxBatch};
use iwarp_mem::{Acknowledgements, Received, Sent, Table};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::polled::reported;
use super::system::{self, of_connection, release, reset};
use super::{Boundaries, TcpOptions};
use crate::descriptors::Freed;
use crate::log::{connection_span, span_between, targets};
use crate::progress::readiness::{Edges, Watch};
use crate::progress::set::{Set, SourceId};
use crate::system_call::{is_refusal, named};
use crate::transport::congestion_control::{CongestionControl, invalid};
use crate::transport::same_host::{FirstOctets, Meeting, Pairing, SameHost};

/// The number of connections that the system holds until they are accepted: as many as it allows (`net.core.somaxconn`).
const SYSTEM_BACKLOG: i32 = i32::MAX;

/// TCP with its options.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    options: TcpOptions,
}

/// The options of a connected socket.
#[derive(Clone, Debug)]
struct WireOptions {
    boundaries: Boundaries,
    /// The user has chosen a congestion control, or that of the system, so that none is set within this machine.
    keeps_congestion: bool,
    same_host: Option<SameHost>,
}

impl Tcp {
    /// TCP with these options.
    pub fn new(options: TcpOptions) -> Self {
        Self { options }
    }

    /// Returns true if connections may be over shared memory.
    pub(in crate::transport) fn may_share_memory(&self) -> bool {
        self.options.same_host.is_some()
    }

    /// The names and values of the counters.
    pub(in crate::transport) fn counters(&self) -> Vec<(&'static str, u64)> {
        let same_host = self.options.same_host.as_ref();
        same_host.map_or_else(Vec::new, SameHost::counters)
    }

    /// Reserves a local address. A port in use is refused. A port that only old connections in TIME-WAIT hold is not, where the system lets
    /// others have it.
    pub(in crate::transport) fn bind(&self, address: SocketAddr) -> io::Result<Bound> {
        let socket = socket(address)?;
        system::bind(&socket, address)?;
        self.bound(socket)
    }

    /// Like [`bind`](Self::bind), but refuses a port that old connections hold. If a program has bound such a port with address reuse
    /// before it connected, as siw does, Linux before 6.8 lets later binds with reuse have the port too, whichever connections hold it.
    pub(in crate::transport) fn bind_fresh(&self, address: SocketAddr) -> io::Result<Bound> {
        let socket = socket(address)?;
        system::bind_fresh(&socket, address)?;
        self.bound(socket)
    }

    /// Reserves an address without a port, which connecting chooses.
    pub(in crate::transport) fn bind_any_port(&self, address: SocketAddr) -> io::Result<Bound> {
        let socket = socket(address)?;
        // Without this option, binding chooses the port, and no other connection from this address has it.
        system::choose_port_late(&socket);
        socket.bind(&address.into()).map_err(named("bind"))?;
        self.bound(socket)
    }

    fn bound(&self, socket: Socket) -> io::Result<Bound> {
        if let Some(segment) = self.options.segment {
            system::limit_segment(&socket, segment)?;
        }
        if let CongestionControl::Named(name) = &self.options.congestion {
            // Connections that a listener accepts inherit it.
            set_congestion(&socket, name)?;
        }
        let options = WireOptions {
            boundaries: self.options.boundaries,
            keeps_congestion: self.options.congestion != CongestionControl::Unset,
            same_host: self.options.same_host.clone(),
        };
        Ok(Bound(EndingSocket::new(socket), options))
    }
}

/// The time without traffic after which the system asks whether the peer is there. Interval and number of the questions behind the first one
/// are those of most systems.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const OTHERS_INTERVAL: Duration = Duration::from_secs(75);
const OTHERS_RETRIES: u32 = 9;

/// A socket for `address`, not yet bound.
fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = system::socket(Domain::for_address(address))?;
    if address.is_ipv6() {
        // A socket is bound to one address, so this option matters only for the unspecified one.
        let _ = socket.set_only_v6(true);
    }
    Ok(socket)
}

/// A socket that ends when this is dropped, even if the child of a fork holds its descriptor: nobody can connect to it any more, an attempt
/// to connect is given up, and its port can be bound again. Closing the descriptor alone would do this only when the child closes it too.
#[derive(Debug)]
struct EndingSocket(Option<Socket>);

impl EndingSocket {
    fn new(socket: Socket) -> Self {
        Self(Some(socket))
    }

    /// The socket, which goes on.
    fn take(mut self) -> Socket {
        self.0.take().expect("taken once")
    }
}

impl Deref for EndingSocket {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        self.0.as_ref().expect("taken with the value itself")
    }
}

impl Drop for EndingSocket {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            release(socket);
            // Fails if the socket is only bound.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn no_address() -> io::Error {
    io::Error::other("the address of a socket is neither IPv4 nor IPv6")
}

/// A bound socket.
#[derive(Debug)]
pub struct Bound(EndingSocket, WireOptions);

impl Bound {
    pub(in crate::transport) fn local(&self) -> io::Result<SocketAddr> {
        let local = self.0.local_addr().map_err(named("getsockname"))?;
        local.as_socket().ok_or_else(no_address)
    }

    pub(in crate::transport) fn connect(self, remote: SocketAddr) -> io::Result<Dialer> {
        // The listener has the offer when it accepts the connection.
        let offered = match &self.1.same_host {
            Some(same_host) => same_host.offer(self.local()?, remote),
            None => None,
        };
        system::will_connect(&self.0, remote);
        match self.0.connect(&remote.into()) {
            Err(error) if system::is_under_way(&error) => {}
            other => other.map_err(named("connect"))?,
        }
        Ok(Dialer(self.0, self.1, offered.map(Box::new)))
    }

    pub(in crate::transport) fn listen(self) -> io::Result<Listener> {
        system::share_with_old_connections(&self.0);
        self.0.listen(SYSTEM_BACKLOG).map_err(named("listen"))?;
        let meeting = match &self.1.same_host {
            Some(same_host) => same_host.meet(self.local()?),
            None => None,
        };
        Ok(Listener(self.0, self.1, meeting))
    }
}

/// A socket that connects.
#[derive(Debug)]
pub struct Dialer(EndingSocket, WireOptions, Option<Box<Pairing>>);

impl Dialer {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        Watch::<Set>::id(&*self.0)
    }

    pub(in crate::transport) fn is_connected(&self, edges: Edges) -> io::Result<bool> {
        let error = self.0.take_error().map_err(named("getsockopt SO_ERROR"))?;
        if let Some(error) = error {
            return Err(error);
        }
        match self.0.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if is_refusal(&error) => Err(named("getpeername")(error)),
            // The socket has no peer yet.
            Err(_) if !edges.contains(Edges::HANGUP) => Ok(false),
            Err(_) => Err(Errno::CONNREFUSED.into()),
        }
    }

    pub(in crate::transport) fn local(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()?.as_socket()
    }

    pub(in crate::transport) fn into_wire(self) -> io::Result<Wire> {
        let mut wire = Wire::new(self.0.take(), &self.1)?;
        wire.pairing = self.2;
        Ok(wire)
    }

    pub(in crate::transport) fn reset(self) {
        reset(&*self.0);
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener(EndingSocket, WireOptions, Option<Meeting>);

impl Listener {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        Watch::<Set>::id(&*self.0)
    }

    pub(in crate::transport) fn accept(&self) -> io::Result<Wire> {
        let (socket, peer) = self
            .0
            .accept()
            .map_err(|error| system::of_accept(named("accept")(error)))?;
        let mut wire = Wire::new(socket, &self.1).map_err(|error| {
            if is_refusal(&error) {
                return error;
            }
            // The peer has reset the connection before it was accepted.
            let span = peer.as_socket().map(|peer| connection_span(Some("tcp"), peer));
            let span = span.as_ref().and_then(tracing::Span::id);
            tracing::debug!(target: targets::CONNECT, parent: span, %error, "an accepted connection was gone at once");
            io::Error::from(io::ErrorKind::ConnectionAborted)
        })?;
        if let (Some(same_host), Some(meeting)) = (&self.1.same_host, &self.2) {
            wire.pairing = same_host
                .take(meeting, &wire, wire.addresses())
                .map(Box::new);
        }
        Ok(wire)
    }

    /// Forgets offers that have waited too long. Returns the time after which those that are left have.
    pub(in crate::transport) fn forget_old(&self, now: Instant) -> Option<Duration> {
        self.2.as_ref()?.forget_old(now)
    }

    pub(in crate::transport) fn is_somebody_there(&self) -> bool {
        !reported(&*self.0, PollFlags::IN).is_empty()
    }
}

/// A connected, non-blocking socket.
#[derive(Debug)]
pub struct Wire {
    tcp: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    boundaries: Boundaries,
    /// The length of segments when it was last asked for; at first 0.
    segment: AtomicU32,
    /// What is not decided about the connection, within one machine.
    pairing: Option<Box<Pairing>>,
    /// This field is behind the socket, so that it is dropped after the socket.
    _freed: Freed,
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl Wire {
    /// Takes over a socket whose TCP connection is established.
    fn new(socket: Socket, options: &WireOptions) -> io::Result<Self> {
        let tcp = TcpStream::from(socket);
        tcp.set_nonblocking(true).map_err(named("ioctl FIONBIO"))?;
        let local = tcp.local_addr().map_err(named("getsockname"))?;
        let peer = tcp.peer_addr().map_err(named("getpeername"))?;
        tune(&tcp, (local, peer));
        if peer.ip().is_loopback() && !options.keeps_congestion {
            do_not_pace(&SockRef::from(&tcp));
        }
        Ok(Self {
            tcp,
            local,
            peer,
            boundaries: options.boundaries,
            segment: AtomicU32::new(0),
            pairing: None,
            _freed: Freed,
        })
    }

    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        SourceId::Descriptor(self.tcp.as_fd())
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.peer)
    }

    pub(in crate::transport) fn segment(&self) -> Option<u32> {
        let segment = system::segment(&self.tcp)?;
        self.segment.store(segment, Ordering::Relaxed);
        Some(segment)
    }

    #[cfg(target_os = "linux")]
    pub(in crate::transport) fn incoming_core(&self) -> Option<usize> {
        let core = rustix::net::sockopt::socket_incoming_cpu(&self.tcp).ok()?;
        usize::try_from(core).ok()
    }

    /// Only Linux reports it.
    #[cfg(not(target_os = "linux"))]
    pub(in crate::transport) fn incoming_core(&self) -> Option<usize> {
        None
    }

    #[inline]
    pub(in crate::transport) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            // This is a bare system call, because the standard library's call is a cancellation point of threads, which
            // costs time.
            match rustix::net::recv(&self.tcp, &mut *into, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Ok((0, _)) if !into.is_empty() => {
                    return system::check_end(&self.tcp).map(|()| 0);
                }
                Ok((count, _)) => return Ok(count),
                Err(error) => return Err(of_connection(named("recvfrom")(error))),
            }
        }
    }

    pub(in crate::transport) fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Received> {
        let received = iwarp_mem::io::receive(self.tcp.as_fd(), table, place, rest);
        if matches!(received, Ok(Received::Octets(0))) {
            system::check_end(&self.tcp)?;
        }
        received.map_err(of_connection)
    }

    /// If the system refuses, the connection is at times slower than it could be.
    #[cfg(target_os = "linux")]
    pub(in crate::transport) fn open_window(&self, octets: i32) {
        let _ = iwarp_mem::socket_options::open_window(self.tcp.as_fd(), octets);
    }

    /// Other systems have no option that widens the window and lets it grow by itself afterwards.
    #[cfg(not(target_os = "linux"))]
    pub(in crate::transport) fn open_window(&self, _octets: i32) {}

    /// If the system refuses, it ends the connection after its own time.
    #[cfg(target_os = "linux")]
    pub(in crate::transport) fn give_up_after(&self, limit: Duration) {
        // The system counts milliseconds, and takes 0 for its own time.
        let limit = limit.max(Duration::from_millis(1));
        if let Err(error) = SockRef::from(&self.tcp).set_tcp_user_timeout(Some(limit)) {
            let error = named("setsockopt TCP_USER_TIMEOUT")(error);
            lacks_option(&error, self.addresses());
        }
    }

    pub(in crate::transport) fn acknowledgements(&self) -> Option<Acknowledgements> {
        system::acknowledgements(&self.tcp)
    }

    /// Asks the peer's system whether it is there: after half of the time without traffic, so that this ends a connection within twice the
    /// time. Without a time, as for other connections.
    pub(in crate::transport) fn ask_within(&self, time: Option<Duration>) {
        let asks = TcpKeepalive::new();
        // The system counts whole seconds, at least one and at most 32,767.
        let seconds = |time: Duration| {
            let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            Duration::from_secs(whole.clamp(1, 32_767))
        };
        let asks = match time {
            None => asks
                .with_time(KEEP_ALIVE)
                .with_interval(OTHERS_INTERVAL)
                .with_retries(OTHERS_RETRIES),
            Some(time) => {
                let asks = asks.with_time(seconds(time / 2));
                asks.with_interval(seconds(time / 4)).with_retries(2)
            }
        };
        if let Err(error) = SockRef::from(&self.tcp).set_tcp_keepalive(&asks) {
            lacks_option(&error, self.addresses());
        }
    }

    /// Other systems have no such option.
    #[cfg(not(target_os = "linux"))]
    pub(in crate::transport) fn give_up_after(&self, _limit: Duration) {}

    /// The number of octets that the system keeps for a reader.
    #[cfg(all(test, target_os = "linux"))]
    pub(in crate::transport) fn receive_buffer(&self) -> io::Result<usize> {
        SockRef::from(&self.tcp).recv_buffer_size()
    }

    pub(in crate::transport) fn peek(&self) -> io::Result<usize> {
        self.peek_at(&mut [0])
    }

    /// The error of the socket alone would not do: Linux also reports errors there that TCP itself tolerates, such as a host that cannot be
    /// reached for now.
    pub(in crate::transport) fn check(&self) -> io::Result<()> {
        if !system::is_broken(&self.tcp) {
            return Ok(());
        }
        let error = self.tcp.take_error()?;
        Err(error.unwrap_or_else(|| Errno::CONNRESET.into()))
    }

    pub(in crate::transport) fn write(&self, octets: &[u8]) -> io::Result<usize> {
        iwarp_mem::io::send_frame(
            self.tcp.as_fd(),
            octets,
            self.boundaries == Boundaries::OutsideCrcs,
        )
        .map_err(|error| of_connection(named("sendto")(error)))
    }

    /// The length of the segments into which TCP cuts the batch. It is asked for only if the batch is longer than a segment was.
    #[inline]
    fn segment_of(&self, batch: &TxBatch) -> Option<u32> {
        let known = self.segment.load(Ordering::Relaxed);
        if batch.remaining() <= u64::from(known) {
            return Some(known);
        }
        self.segment()
    }

    #[inline]
    pub(in crate::transport) fn send(
        &self,
        table: &Table,
        batch: &mut TxBatch,
    ) -> io::Result<(u64, Sent)> {
        let segment = match self.boundaries {
            Boundaries::OutsideCrcs => self.segment_of(batch),
            Boundaries::Any => None,
        };
        iwarp_mem::io::send(self.tcp.as_fd(), table, batch, segment).map_err(of_connection)
    }

    pub(in crate::transport) fn close_write(&self) -> io::Result<()> {
        release(&self.tcp);
        self.tcp.shutdown(std::net::Shutdown::Write)
    }

    pub(in crate::transport) fn break_off(&self) {
        release(&self.tcp);
        let _ = SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
    }

    /// Returns true if something is not decided about the connection.
    pub(in crate::transport) fn is_unpaired(&self) -> bool {
        self.pairing.is_some()
    }

    /// Takes out what is not decided.
    pub(in crate::transport) fn take_pairing(&mut self) -> Option<Box<Pairing>> {
        self.pairing.take()
    }

    /// Puts back what is not decided yet.
    pub(in crate::transport) fn put_pairing(&mut self, pairing: Box<Pairing>) {
        self.pairing = Some(pairing);
    }

    /// Resets the connection.
    pub(in crate::transport) fn cut(&self) {
        release(&self.tcp);
        reset(&self.tcp);
    }

    pub(in crate::transport) fn reset(self) {
        self.cut();
    }
}

impl FirstOctets for Wire {
    fn peek_at(&self, into: &mut [u8]) -> io::Result<usize> {
        self.tcp.peek(into).map_err(of_connection)
    }

    fn take(&self, into: &mut [u8]) -> io::Result<usize> {
        self.read(into)
    }

    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        self.write(octets)
    }
}

/// The options that all connections of this crate set on TCP. A connection works without them, and not every system has them.
fn tune(tcp: &TcpStream, addresses: (SocketAddr, SocketAddr)) {
    let socket = SockRef::from(tcp);
    let options = [
        // MPA-085: the end of a batch is not held back until the next FPDU.
        tcp.set_nodelay(true)
            .map_err(named("setsockopt TCP_NODELAY")),
        // Keep-alives find dead hosts without another time limit (IW-068).
        socket
            .set_tcp_keepalive(&system::keep_alive(KEEP_ALIVE, OTHERS_INTERVAL))
            .map_err(named("setsockopt SO_KEEPALIVE or TCP_KEEPIDLE")),
    ];
    for error in options.into_iter().filter_map(Result::err) {
        lacks_option(&error, addresses);
    }
}

#[cold]
fn lacks_option(error: &io::Error, (local, peer): (SocketAddr, SocketAddr)) {
    tracing::debug!(
        target: targets::CONNECT,
        parent: &span_between(local, peer),
        %error,
        "a connection is without an option of TCP"
    );
}

/// Checks that the system permits the congestion control of this name.
///
/// # Errors
///
/// `InvalidInput`, with those that the system permits; an error of the system that has no socket left.
pub fn permits_congestion(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    set_congestion(&socket.map_err(named("socket"))?, name)
}

/// Gives a socket the congestion control of this name.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
fn set_congestion(socket: &Socket, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        let allowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
        let permitted = match std::fs::read_to_string(allowed) {
            Ok(names) => format!("it permits {}", names.trim()),
            Err(_) => "another one may be permitted".to_owned(),
        };
        invalid(format!(
            "the system does not permit the congestion control {name:?} ({error}): {permitted}"
        ))
    })
}

/// Other systems have no option for the congestion control.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn set_congestion(_: &Socket, name: &str) -> io::Result<()> {
    Err(invalid(format!(
        "this system lets no program choose the congestion control {name:?}"
    )))
}

/// Switches a connection within this machine to a congestion control that does not pace, as bbr does, because nothing can
/// be congested there. If the system refuses both or has neither, the connection works nevertheless.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
fn do_not_pace(socket: &SockRef<'_>) {
    let _ = socket
        .set_tcp_congestion(b"cubic")
        .or_else(|_| socket.set_tcp_congestion(b"reno"));
}

/// Other systems have no option for the congestion control.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn do_not_pace(_: &SockRef<'_>) {}
