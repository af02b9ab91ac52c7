//! The reason why a connection ended, which ND2 does not tell.

use std::borrow::Cow;
use std::fmt;

/// The reason why a connection ended, or was not made: who ended it, by what, and a sentence for people. From
/// [`QueuePair::connection_end`](crate::QueuePair::connection_end) and [`Connector::connection_end`](crate::Connector::connection_end).
///
/// The first reason counts. What follows from it, such as the end of the stream after a Terminate, does not replace it.
///
/// ```
/// use netdirect::{ConnectionEnd, EndReason, EndedBy, TerminateCode};
///
/// let end = ConnectionEnd::new(EndedBy::Peer, EndReason::Terminate, "the peer found an error: it sent Terminate 1/2/05")
///     .terminate(TerminateCode { layer: 1, etype: 2, code: 5 });
/// assert_eq!(end.by(), EndedBy::Peer);
/// assert_eq!(end.terminate_code().unwrap().to_string(), "1/2/05");
/// assert_eq!(end.to_string(), "the peer found an error: it sent Terminate 1/2/05");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionEnd {
    by: EndedBy,
    reason: EndReason,
    terminate: Option<TerminateCode>,
    what: Cow<'static, str>,
}

/// The side that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndedBy {
    /// This side: its application, its provider or its adapter.
    ThisSide,
    /// The peer.
    Peer,
    /// Neither: the network or this system did, or the peer was silent.
    Neither,
}

/// The event that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// One side disconnected in good order.
    Disconnect,
    /// One side found an error, and its Terminate says which ([`ConnectionEnd::terminate_code`]). Without a code no Terminate was sent.
    Terminate,
    /// The connection was reset, without a reason.
    Reset,
    /// The network or this system ended the connection.
    Network,
    /// The peer has not answered for the time limit of the transport: TCP's keep-alive, or QUIC's idle limit.
    Silence,
    /// A time limit of the set-up has passed.
    TimeLimit,
    /// A completion queue or the shared receive queue broke down.
    QueueBroke,
    /// The adapter was removed.
    Removed,
    /// The peer rejected the connection: its application did, or, where the peer sent no private data, its backlog may be full. iWARP does not
    /// tell these two apart.
    Rejected,
    /// The peer's host refused the connection: nothing listens at the address.
    Refused,
}

/// The code of a Terminate message (RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 5044 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TerminateCode {
    /// The layer that found the error: 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// The error type within the layer.
    pub etype: u8,
    /// The error code within the type.
    pub code: u8,
}

impl EndedBy {
    /// All sides. Their order does not change.
    pub const ALL: &[Self] = &[Self::ThisSide, Self::Peer, Self::Neither];
}

impl EndReason {
    /// All reasons. Their order does not change: new ones are added at the end.
    pub const ALL: &[Self] = &[
        Self::Disconnect,
        Self::Terminate,
        Self::Reset,
        Self::Network,
        Self::Silence,
        Self::TimeLimit,
        Self::QueueBroke,
        Self::Removed,
        Self::Rejected,
        Self::Refused,
    ];
}

impl ConnectionEnd {
    /// An end without a Terminate. `what` is one line without a full stop that says who did what.
    pub fn new(by: EndedBy, reason: EndReason, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            by,
            reason,
            terminate: None,
            what: what.into(),
        }
    }

    /// Adds the code of the Terminate.
    #[must_use]
    pub fn terminate(mut self, code: TerminateCode) -> Self {
        self.terminate = Some(code);
        self
    }

    /// The side that ended the connection.
    pub fn by(&self) -> EndedBy {
        self.by
    }

    /// The event that ended the connection.
    pub fn reason(&self) -> EndReason {
        self.reason
    }

    /// The code of the Terminate that the side which ended the connection sent, if it sent one.
    pub fn terminate_code(&self) -> Option<TerminateCode> {
        self.terminate
    }

    /// What a user can do about it, as one line without a full stop.
    pub fn hint(&self) -> &'static str {
        const OTHER_SIDE: &str = "look at what the other side says";
        match (self.reason, self.terminate) {
            (EndReason::Terminate, Some(code)) => code.hint(),
            (EndReason::Terminate, None) => {
                "write a capture and look at it with Wireshark: one side breaks the rules of iWARP"
            }
            (EndReason::Disconnect, _) if self.by == EndedBy::ThisSide => {
                "look at why this side ended the connection"
            }
            (EndReason::Disconnect, _) => OTHER_SIDE,
            (EndReason::Reset, _) => {
                "look at what the other side says: its program may have ended, or a firewall may have reset the connection"
            }
            (EndReason::Network, _) => "check the network and the system's limits",
            (EndReason::Silence, _) => {
                "check that the other host is up, and that no firewall drops packets"
            }
            (EndReason::TimeLimit, _) => {
                "check that the other side is alive and that it is an iWARP peer, not some other service"
            }
            (EndReason::QueueBroke, _) => {
                "create the queue with room for the results of all requests"
            }
            (EndReason::Removed, _) => "release the adapter's objects, and open another adapter",
            (EndReason::Rejected, _) => {
                "check address and port, and look at what the program that listens there says"
            }
            (EndReason::Refused, _) => {
                "start the receiver first, and check address and port: some other service may listen there"
            }
        }
    }

    /// The sentence for people.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl TerminateCode {
    fn hint(self) -> &'static str {
        match (self.layer, self.etype, self.code) {
            (0, 1, _) | (1, 1, 0..=3) => {
                "check the token, the address, the length and the rights of the memory that the request names"
            }
            (1, 2, 2) => "post Receives before the other side sends",
            (1, 2, 5) => "post longer Receives, or send shorter messages",
            (2, 0, 2) => {
                "octets have changed on the way, or one side computes CRCs wrongly: compare captures of both sides"
            }
            (0, 0, _) | (1, 0, _) | (2, 0, 5) => {
                "look at the first request that failed on the side that sent the Terminate"
            }
            (2, 0, 6) => "lower the read limits of one side",
            _ => {
                "write a capture and look at it with Wireshark: one side breaks the rules of iWARP"
            }
        }
    }
}

impl fmt::Display for TerminateCode {
    /// As in the RFCs' tables, in hexadecimal: layer/type/code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{:x}/{:02x}", self.layer, self.etype, self.code)
    }
}
