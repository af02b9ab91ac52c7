//! A question to the system: is there a socket at a peer's address?

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::fd::{AsFd, BorrowedFd};
use socket2::SockRef;

use crate::error_number::Errno;
use crate::system_call::{errno, named};

/// A connected socket by which the system reports if there is a socket at the peer's address. A socket that serves many peers gets no such
/// report.
#[derive(Debug)]
pub(super) struct AddressProbe(UdpSocket);

impl AddressProbe {
    /// Sends one octet, which no endpoint of QUIC takes for a packet.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let udp = UdpSocket::bind(SocketAddr::new(local.ip(), 0)).map_err(named("bind"))?;
        udp.set_nonblocking(true).map_err(named("O_NONBLOCK"))?;
        udp.connect(remote).map_err(named("connect"))?;
        // If it cannot be sent, neither can the first packet of the handshake, whose error gives the reason.
        let _ = udp.send(&[0]);
        Ok(Self(udp))
    }

    /// The error that the system has learned.
    pub(super) fn error(&self) -> Option<io::Error> {
        let of_call = if cfg!(windows) {
            self.error_of_a_call()
        } else {
            None
        };
        of_call.or_else(|| SockRef::from(&self.0).take_error().ok().flatten())
    }

    /// The error that Windows reports to the next call that receives. For a closed port it is a reset.
    fn error_of_a_call(&self) -> Option<io::Error> {
        match self.0.recv(&mut [0; 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if errno(&error) == Some(Errno::CONNRESET) => {
                Some(Errno::CONNREFUSED.into())
            }
            other => other.err(),
        }
    }
}

impl AsFd for AddressProbe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
