//! A stream without RDMA, at one side: TCP or QUIC.

use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use nd_base::errors::{self, Failure};

use super::link::congestion;
use super::quic::QuicStream;
use super::spec::Spec;

/// A connected stream, which spins or sleeps as the row says.
#[derive(Debug)]
pub(super) enum BareStream {
    Tcp(TcpStream),
    Quic(Box<QuicStream>),
}

impl BareStream {
    /// Takes over a connected socket.
    pub(super) fn tcp(socket: TcpStream, spec: &Spec, limit: Duration) -> errors::Result<Self> {
        let spins = !spec.mode.sleeps();
        let explain = |error| Failure::socket("set up a socket to compare with", &error);
        socket.set_nodelay(true).map_err(explain)?;
        socket.set_nonblocking(spins).map_err(explain)?;
        socket.set_read_timeout(Some(limit)).map_err(explain)?;
        socket.set_write_timeout(Some(limit)).map_err(explain)?;
        Ok(Self::Tcp(socket))
    }

    /// The name of the congestion control.
    pub(super) fn congestion(&self) -> String {
        match self {
            Self::Tcp(socket) => congestion(socket),
            Self::Quic(stream) => stream.congestion().to_owned(),
        }
    }

    /// Sends octets of this part of the memory. Returns how many.
    #[inline]
    pub(super) fn write(&mut self, memory: &Bytes, part: Range<usize>) -> Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(&memory[part]),
            Self::Quic(stream) => stream.write(memory, part),
        }
    }

    /// Reads the octets that are there. Returns how many; 0 at the end of the stream.
    #[inline]
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(into),
            Self::Quic(stream) => stream.read(into),
        }
    }

    /// Goes on until the other side has everything, where this process does that and not the system.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Quic(stream) => stream.finish(),
        }
    }

    /// Answers what comes, for at most this long. Returns whether this process does that and not the system.
    pub(super) fn attend(&mut self, limit: Duration) -> Result<bool> {
        match self {
            Self::Tcp(_) => Ok(false),
            Self::Quic(stream) => stream.attend(limit).map(|()| true),
        }
    }
}
