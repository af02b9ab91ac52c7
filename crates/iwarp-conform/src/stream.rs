//! The byte stream under a connection of the raw peer: TCP, or a stream of QUIC.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

#[cfg(feature = "udp")]
use crate::quic::QuicStream;

/// One byte stream. Dropping it ends both directions in good order.
#[derive(Debug)]
pub enum Stream {
    /// Of TCP.
    Tcp(TcpStream),
    /// Of QUIC, behind the preamble and its answer.
    #[cfg(feature = "udp")]
    Quic(QuicStream),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl Stream {
    /// Sets the time limit of each write, and has octets leave at once.
    ///
    /// # Errors
    ///
    /// If the socket does not accept its options.
    pub(crate) fn prepare(&mut self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(limit))
            }
            #[cfg(feature = "udp")]
            Self::Quic(stream) => {
                stream.limit_writes(limit);
                Ok(())
            }
        }
    }

    /// Sends all of these octets.
    pub(crate) fn write_all(&mut self, octets: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(octets),
            #[cfg(feature = "udp")]
            Self::Quic(stream) => stream.write_all(octets),
        }
    }

    /// Waits for at most this long, which is not zero, for octets. Returns how many were read; 0 at the end.
    pub(crate) fn read(&mut self, into: &mut [u8], limit: Duration) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.read(into)
            }
            #[cfg(feature = "udp")]
            Self::Quic(stream) => stream.read(into, limit),
        }
    }

    /// Ends this side's direction.
    pub(crate) fn finish(&mut self) {
        match self {
            // A stream that has ended already needs no shutdown.
            Self::Tcp(stream) => drop(stream.shutdown(Shutdown::Write)),
            #[cfg(feature = "udp")]
            Self::Quic(stream) => stream.finish(),
        }
    }

    /// Ends both directions by a reset.
    pub(crate) fn reset(&mut self) {
        match self {
            // If the option does not exist, the stream ends in the ordinary way, when it is dropped.
            Self::Tcp(stream) => {
                let _ = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
            }
            #[cfg(feature = "udp")]
            Self::Quic(stream) => stream.reset(),
        }
    }
}
