//! TCP of Unix.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use iwarp_mem::Acknowledgements;
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::polled::reported;
use crate::system_call::named;

/// A socket that does not block, not yet bound.
pub(super) fn socket(domain: Domain) -> io::Result<Socket> {
    #[cfg(not(target_vendor = "apple"))]
    let kind = Type::STREAM.nonblocking();
    #[cfg(target_vendor = "apple")]
    let kind = Type::STREAM;
    let socket = Socket::new(domain, kind, Some(Protocol::TCP)).map_err(named("socket"))?;
    // On this system socket(2) has no flag for that.
    #[cfg(target_vendor = "apple")]
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Binds a socket, also to a port that only old connections in TIME-WAIT hold.
///
/// If the plain attempt fails, a second attempt asks for address reuse, and switches it off again at once. A live socket then still
/// refuses later binds, with reuse or without. [`release`] switches reuse on again before a connection ends.
pub(super) fn bind(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match bind_fresh(socket, address) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {
            // On a system that reuses no addresses the port is taken.
            socket.set_reuse_address(true).map_err(|_| error)?;
            socket.bind(&address.into()).map_err(named("bind"))?;
            let reused = socket.set_reuse_address(false);
            reused.map_err(named("setsockopt SO_REUSEADDR"))
        }
        other => other,
    }
}

/// Like [`bind`], but refuses a port that old connections hold.
pub(super) fn bind_fresh(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.bind(&address.into()).map_err(named("bind"))
}

/// Lets a listener have a port on which connections of an earlier listener are still in TIME-WAIT. A system that refuses this reports it when
/// the socket listens, if it matters.
pub(super) fn share_with_old_connections(socket: &Socket) {
    let _ = socket.set_reuse_address(true);
}

/// Lets the port be bound again while the connection that is about to end stays in TIME-WAIT (IW-054).
pub(super) fn release(socket: &impl AsFd) {
    let _ = rustix::net::sockopt::set_socket_reuseaddr(socket, true);
}

/// Resets a connection, even if the child of a fork holds its descriptor.
pub(super) fn reset(socket: &impl AsFd) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    // Where the system does not reset a connection for this, it does when the descriptor is closed.
    let _ = rustix::net::connect_unspec(socket);
}

/// Prepares a socket for connecting to `remote`.
pub(super) fn will_connect(_: &Socket, _remote: SocketAddr) {}

/// Returns true if an attempt to connect goes on.
pub(super) fn is_under_way(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INPROGRESS)
}

/// Limits the segments of a socket's connections to this many octets.
pub(super) fn limit_segment(socket: &Socket, segment: u16) -> io::Result<()> {
    socket.set_tcp_mss(segment.into()).map_err(|error| {
        let what = format!("TCP does not take segments of {segment} octets: {error}");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

/// The length of a connection's segments.
pub(super) fn segment(socket: &impl AsFd) -> Option<u32> {
    SockRef::from(socket).tcp_mss().ok()
}

/// Returns true if a connection is broken.
pub(super) fn is_broken(socket: &impl AsFd) -> bool {
    !reported(socket, PollFlags::empty()).is_empty()
}

/// A read has found the end of the stream, which no reset can look like.
#[inline]
pub(super) fn check_end(_: &impl AsFd) -> io::Result<()> {
    Ok(())
}

/// An error of a listener.
pub(super) fn of_accept(error: io::Error) -> io::Error {
    error
}

/// An error of a connected socket.
#[inline]
pub(super) fn of_connection(error: io::Error) -> io::Error {
    error
}

/// When an idle connection asks if its peer is there; the system has an interval for the repetitions.
pub(super) fn keep_alive(time: Duration, _interval: Duration) -> TcpKeepalive {
    TcpKeepalive::new().with_time(time)
}

/// Lets connecting choose the port, not binding.
pub(super) fn choose_port_late(socket: &Socket) {
    let _ = iwarp_mem::socket_options::choose_port_late(socket);
}

/// What the peer's system has acknowledged; `None` where the system does not say so.
pub(super) fn acknowledgements(socket: &impl AsFd) -> Option<Acknowledgements> {
    iwarp_mem::socket_options::acknowledgements(socket).ok()
}
