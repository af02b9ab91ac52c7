//! The system's answers to the datagrams of a handshake.

use std::io;

use rustix::io::Errno;

use crate::descriptors::is_shortage;
use crate::system_call::errno;

/// The number of datagrams of a handshake in a row that the system may refuse before the handshake ends, if earlier ones were sent. A
/// network may be away for a moment.
const IN_A_ROW: u32 = 3;

/// The call by which datagrams are sent.
pub(super) const SENDING: &str = "sendmsg";

/// The call by which datagrams are received.
pub(super) const RECEIVING: &str = if cfg!(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd"
)) {
    "recvmmsg"
} else {
    "recvmsg"
};

/// The result of giving datagrams to the socket.
#[derive(Debug)]
pub(super) enum Handed {
    /// The socket has accepted them, or they count as lost on the way.
    Left,
    /// The socket is full.
    Full,
    /// This machine does not send them.
    Refused(Errno),
}

impl Handed {
    pub(super) fn from_outcome(outcome: io::Result<()>) -> Self {
        match outcome {
            Ok(()) => Self::Left,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Full,
            // A shortage passes. A refused or reset connection is a report about an address to which a datagram was sent before.
            Err(error) if is_shortage(&error) => Self::Left,
            Err(error) => match errno(&error) {
                None | Some(Errno::INTR | Errno::CONNREFUSED | Errno::CONNRESET) => Self::Left,
                Some(errno) => Self::Refused(errno),
            },
        }
    }
}

/// The results of sending the datagrams of a handshake.
#[derive(Debug, Default)]
pub(super) struct HandshakeSends {
    has_left: bool,
    /// The number of datagrams refused since the last one that was sent.
    refused: u32,
}

impl HandshakeSends {
    pub(super) fn left(&mut self) {
        *self = Self {
            has_left: true,
            refused: 0,
        };
    }

    pub(super) fn refused(&mut self) {
        self.refused += 1;
    }

    /// Returns true if the handshake can no longer succeed.
    pub(super) fn are_hopeless(&self) -> bool {
        let most = if self.has_left { IN_A_ROW } else { 1 };
        self.refused >= most
    }
}
