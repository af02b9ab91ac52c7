//! A UDP socket, with or without a fault plan.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use super::faulted_socket::FaultedSocket;
use super::plain_socket::{Outgoing, PlainSocket, Train};
use crate::progress::shared_descriptor::CarrierId;

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(PlainSocket),
    Faulted(Box<FaultedSocket>),
}

impl Socket {
    /// The socket of the system or of the simulated network.
    fn plain(&self) -> &PlainSocket {
        match self {
            Self::Plain(socket) => socket,
            Self::Faulted(faulted) => faulted.below(),
        }
    }

    /// See [`PlainSocket::id`].
    pub(crate) fn id(&self) -> CarrierId<'_> {
        self.plain().id()
    }

    /// See [`PlainSocket::is_simulated`].
    pub(crate) fn is_simulated(&self) -> bool {
        self.plain().is_simulated()
    }

    /// See [`PlainSocket::train`].
    pub(crate) fn train(&self) -> usize {
        self.plain().train()
    }

    /// See [`PlainSocket::take_refused`].
    pub(crate) fn take_refused(&self) -> Option<SocketAddr> {
        self.plain().take_refused()
    }

    /// See [`PlainSocket::receive`].
    pub(crate) fn receive(&self, buffers: &mut [u8], received: &mut Vec<Train>) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.receive(buffers, received),
            Self::Faulted(faulted) => faulted.receive(buffers, received),
        }
    }

    /// See [`PlainSocket::send`].
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.send(outgoing),
            Self::Faulted(faulted) => faulted.send(outgoing),
        }
    }

    /// The time at which [`receive`](Self::receive) has to be called, even if nothing arrives.
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Plain(_) => None,
            Self::Faulted(faulted) => faulted.next_deadline(now),
        }
    }
}
