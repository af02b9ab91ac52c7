//! TCP of Windows (Winsock).

use std::io;
use std::net::SocketAddr;
use std::os::windows::io::AsSocket;
use std::time::Duration;

use iwarp_mem::Acknowledgements;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::polled::reported;
use crate::error_number::EPIPE;
use crate::system_call::named;

/// The length of segments where the system does not tell it: that of Ethernet with IPv4.
const USUAL_SEGMENT: u32 = 1460;

/// A socket that does not block, not yet bound.
pub(super) fn socket(domain: Domain) -> io::Result<Socket> {
    let socket =
        Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(named("WSASocket"))?;
    socket
        .set_nonblocking(true)
        .map_err(named("ioctlsocket FIONBIO"))?;
    Ok(socket)
}

/// Binds a socket of TCP or UDP that shares its port with nobody. A port that another program has to itself, and one that the system keeps
/// for others (Hyper-V), are refused with WSAEACCES, which means that the port is in use.
pub(in crate::transport) fn bind_alone(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    iwarp_mem::socket_options::refuse_sharing(socket.as_socket())
        .map_err(named("setsockopt SO_EXCLUSIVEADDRUSE"))?;
    socket
        .bind(&address.into())
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ACCESS) => Errno::ADDRINUSE.into(),
            _ => named("bind")(error),
        })
}

/// Binds a socket. Whether connections of an old listener keep its port, the system decides.
pub(super) fn bind(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    bind_fresh(socket, address)
}

/// As [`bind`].
pub(super) fn bind_fresh(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    bind_alone(socket, address)
}

/// An exclusive socket cannot ask for reuse.
pub(super) fn share_with_old_connections(_: &Socket) {}

/// As [`share_with_old_connections`].
pub(super) fn release(_: &impl AsSocket) {}

/// Resets a connection, when the socket is closed.
pub(super) fn reset(socket: &impl AsSocket) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// Prepares a socket for connecting to `remote`. The system tries a port that refuses three times, within 2 s; on this machine once is
/// enough. Windows before 10 tries as often as ever.
pub(super) fn will_connect(socket: &Socket, remote: SocketAddr) {
    if remote.ip().is_loopback() {
        let _ = iwarp_mem::socket_options::repeat_no_syn(socket.as_socket());
    }
}

/// Returns true if an attempt to connect goes on.
pub(super) fn is_under_way(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::WOULDBLOCK)
}

/// Fails: the system has no such option.
pub(super) fn limit_segment(_: &Socket, segment: u16) -> io::Result<()> {
    let what = format!(
        "Windows lets no program choose the length of TCP's segments ({segment} octets): leave out the option for it"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// The length of a connection's segments.
pub(super) fn segment(socket: &impl AsSocket) -> Option<u32> {
    let told = iwarp_mem::socket_options::path_segment(socket.as_socket()).ok();
    Some(told.filter(|octets| *octets > 0).unwrap_or(USUAL_SEGMENT))
}

/// Returns true if a connection is broken. The system also reports the peer's orderly end as a hang-up, which a read tells from a reset,
/// unless octets wait in front of it.
pub(super) fn is_broken(socket: &impl AsSocket) -> bool {
    let socket = socket.as_socket();
    let reported = reported(&socket, PollFlags::empty());
    if reported.is_empty() || reported.contains(PollFlags::ERR) {
        return !reported.is_empty();
    }
    match rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK) {
        Ok(_) => false,
        Err(error) => error != Errno::WOULDBLOCK,
    }
}

/// A read has found the end of the stream. Under wine a reset that somebody has asked the system about looks like that.
#[cold]
pub(super) fn check_end(socket: &impl AsSocket) -> io::Result<()> {
    if reported(&socket.as_socket(), PollFlags::empty()).contains(PollFlags::ERR) {
        return Err(Errno::CONNRESET.into());
    }
    Ok(())
}

/// An error of a listener, as other systems number it: that the peer was gone before its connection was accepted.
pub(super) fn of_accept(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::CONNRESET | Errno::NOTCONN) => Errno::CONNABORTED.into(),
        _ => error,
    }
}

/// An error of a connected socket, as other systems number it: that TCP has given up, or that this end sends no more.
#[cold]
pub(super) fn of_connection(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::CONNABORTED | Errno::NETRESET) => Errno::CONNRESET.into(),
        Some(Errno::SHUTDOWN) => EPIPE.into(),
        _ => error,
    }
}

/// When an idle connection asks if its peer is there. The library passes an interval of 0 for the repetitions where none is given.
pub(super) fn keep_alive(time: Duration, interval: Duration) -> TcpKeepalive {
    TcpKeepalive::new().with_time(time).with_interval(interval)
}

/// The system has no option for that.
pub(super) fn choose_port_late(_: &Socket) {}

/// The system does not say it.
pub(super) fn acknowledgements(_: &impl AsSocket) -> Option<Acknowledgements> {
    None
}
