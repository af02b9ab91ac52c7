//! The reason why a connection ended: who ended it, and by what.

use std::fmt;
use std::io;

use iwarp::{Fault, TerminateCode, mpa};

/// The reason why the connection of an endpoint ended. The first reason counts: what follows from it, such as the end of the stream after a
/// Terminate, does not replace it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The application of this side has disconnected, or released the endpoint.
    Disconnected,
    /// The peer has closed its direction in good order.
    PeerDisconnected,
    /// This side has found an error, and has sent a Terminate if the error has a [code](Fault::code).
    Fault(Fault),
    /// The peer has found an error, and has sent a Terminate.
    Terminated(TerminateCode),
    /// The peer has reset the stream.
    Reset,
    /// The peer has not answered for the time limit of the transport: TCP's keep-alive or user timeout, or QUIC's idle limit.
    Silent,
    /// The network or the system has ended the stream, with this error.
    Broken(String),
    /// The peer has not sent its ready-to-receive message in time.
    NotReady,
    /// A completion queue or the shared receive queue of this side has broken down.
    QueueBroke,
    /// The device of this side was removed.
    Removed,
}

/// The side that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// This side.
    ThisSide,
    /// The peer.
    Peer,
    /// Neither: the network or the system, or the peer was silent.
    Neither,
}

/// The end of the stream within an FPDU.
const CUT: Fault = Fault::Mpa(mpa::Error::Closed);

impl ConnectionEnd {
    /// The reason for a stream that an error has ended.
    pub(super) fn of_stream(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Reset,
            io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Broken(error.to_string()),
        }
    }

    /// The side that ended the connection.
    #[must_use]
    pub fn by(&self) -> EndedBy {
        match self {
            Self::PeerDisconnected | Self::Terminated(_) | Self::Reset | Self::Fault(CUT) => {
                EndedBy::Peer
            }
            Self::Disconnected
            | Self::Fault(_)
            | Self::NotReady
            | Self::QueueBroke
            | Self::Removed => EndedBy::ThisSide,
            Self::Silent | Self::Broken(_) => EndedBy::Neither,
        }
    }

    /// The code of the Terminate that was sent or received.
    #[must_use]
    pub fn terminate(&self) -> Option<TerminateCode> {
        match self {
            Self::Fault(fault) => fault.code(),
            Self::Terminated(code) => Some(*code),
            _ => None,
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("this side disconnected"),
            Self::PeerDisconnected => f.write_str("the peer disconnected"),
            Self::Fault(CUT) => f.write_str("the peer closed the stream in the middle of an FPDU"),
            Self::Fault(fault) => {
                let whose = match fault {
                    Fault::Local => "",
                    _ => " in what the peer sent",
                };
                write!(f, "this side found an error{whose}: {fault}")?;
                match fault.code() {
                    Some(code) => write!(f, "; it sent Terminate {code}"),
                    None => f.write_str("; no Terminate reports this"),
                }
            }
            Self::Terminated(code) => write!(
                f,
                "the peer found an error, most likely in what this side sent: it sent Terminate {code}"
            ),
            Self::Reset => f.write_str("the peer reset the connection, and gave no reason"),
            Self::Silent => f.write_str("the peer has not answered in time"),
            Self::Broken(error) => write!(f, "the network or this system ended it: {error}"),
            Self::NotReady => {
                f.write_str("the peer has not sent its ready-to-receive message in time")
            }
            Self::QueueBroke => f.write_str(
                "a completion queue or the shared receive queue of this side broke down",
            ),
            Self::Removed => f.write_str("the device of this side was removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use iwarp::{ddp, mpa};

    use super::*;
    use crate::error_number::{EPIPE, Errno};

    #[test]
    fn errors_of_the_stream_say_who_ended_it() {
        let rows = [
            (Error::from(Errno::CONNRESET), ConnectionEnd::Reset),
            (Error::from(EPIPE), ConnectionEnd::Reset),
            (ErrorKind::ConnectionReset.into(), ConnectionEnd::Reset),
            // Keep-alive and TCP's user timeout.
            (Error::from(Errno::TIMEDOUT), ConnectionEnd::Silent),
            (ErrorKind::TimedOut.into(), ConnectionEnd::Silent),
        ];
        for (error, end) in rows {
            assert_eq!(ConnectionEnd::of_stream(&error), end, "{error}");
        }
        let unreachable = Error::from(Errno::HOSTUNREACH);
        let end = ConnectionEnd::of_stream(&unreachable);
        assert_eq!(end.by(), EndedBy::Neither);
        assert!(end.to_string().contains(&unreachable.to_string()), "{end}");
    }

    #[test]
    fn a_fault_has_the_code_of_its_terminate() {
        let sent = [
            Fault::Mpa(mpa::Error::Crc),
            Fault::Truncated,
            Fault::Untagged(ddp::UntaggedError::TooLong),
            Fault::Local,
        ];
        for fault in sent {
            let end = ConnectionEnd::Fault(fault);
            assert_eq!(
                (end.by(), end.terminate()),
                (EndedBy::ThisSide, fault.code())
            );
            let code = fault.code().unwrap().to_string();
            assert!(end.to_string().contains(&code), "{end}");
        }
        let silent = ConnectionEnd::Fault(Fault::MalformedTerminate);
        assert_eq!((silent.by(), silent.terminate()), (EndedBy::ThisSide, None));
        let cut = ConnectionEnd::Fault(CUT);
        assert_eq!((cut.by(), cut.terminate()), (EndedBy::Peer, None));
    }
}
