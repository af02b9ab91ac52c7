//! Conversion of the errors of the system and of the engine to the statuses of ND2.

use std::io;

use iwarp_io::descriptors::is_shortage;
use iwarp_io::endpoint::{PostError, RequestKind, WqeStatus};
use iwarp_io::error_number::{ENOMEM, Errno};
use iwarp_io::system_call::{errno, is_refusal};
use iwarp_io::transport::local_ports::BindError;
use netdirect::{Error, RequestType, Status};

pub(crate) use netdirect_provider::{fail, removed};

/// The status of a Connect whose TCP connection failed (CONN-021 to CONN-024).
fn connect_status(error: &io::Error) -> Status {
    match errno(error) {
        // EINVAL: no route leads from the local address to the peer, for example from a loopback address.
        Some(Errno::NETUNREACH | Errno::NETDOWN | Errno::INVAL | Errno::AFNOSUPPORT) => {
            Status::NETWORK_UNREACHABLE
        }
        // EMSGSIZE: the path's datagrams are too short for QUIC.
        Some(Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::MSGSIZE) => Status::HOST_UNREACHABLE,
        Some(Errno::TIMEDOUT) => Status::IO_TIMEOUT,
        // The four-tuple is in use (AMB-026).
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => Status::ADDRESS_ALREADY_EXISTS,
        _ if is_shortage(error) => Status::INSUFFICIENT_RESOURCES,
        // A route, a firewall or another rule of this machine forbids a call, or the system lacks it. ND2's page of Connect has no status
        // for this.
        _ if is_refusal(error) => Status::HOST_UNREACHABLE,
        _ => Status::CONNECTION_REFUSED,
    }
}

/// The error of a Connect whose transport did not connect, with the transport's message.
pub(crate) fn connect_error(error: &io::Error) -> Error {
    Error::new(connect_status(error), error.to_string())
}

/// The status of a Bind or Listen that the system refused (CONN-008, LSTN-006).
pub(crate) fn bind_status(error: &io::Error) -> Status {
    match errno(error) {
        Some(Errno::ADDRINUSE) => Status::SHARING_VIOLATION,
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT) => Status::INVALID_ADDRESS,
        _ if is_refusal(error) => Status::UNSUCCESSFUL,
        _ => Status::INSUFFICIENT_RESOURCES,
    }
}

/// The error of a Bind that failed.
pub(crate) fn bind_error(error: &BindError) -> Error {
    let status = match error {
        BindError::Refused(_, error) if error.kind() == io::ErrorKind::InvalidInput => {
            Status::INVALID_PARAMETER // the transport refuses an option of the socket
        }
        BindError::Refused(_, error) => bind_status(error),
        BindError::Random(_) => Status::INSUFFICIENT_RESOURCES,
        BindError::NoPort | BindError::RangeInUse(_) => Status::TOO_MANY_ADDRESSES,
    };
    Error::new(status, error.to_string())
}

/// The error of a call that could not create an object. The system lacks memory (ADPT-002, ADPT-021) or another resource, or the
/// process has an invalid option.
pub(crate) fn shortage(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| {
        let status = match errno(&error) {
            Some(ENOMEM) => Status::NO_MEMORY,
            _ if is_refusal(&error) => Status::UNSUCCESSFUL,
            None if error.kind() == io::ErrorKind::InvalidInput => Status::INVALID_PARAMETER,
            // softnd itself lacks this on this system.
            None if error.kind() == io::ErrorKind::Unsupported => Status::NOT_SUPPORTED,
            _ => Status::INSUFFICIENT_RESOURCES,
        };
        Error::new(status, format!("{what}: {error}"))
    }
}

/// The host has no memory for the queues of an object. Not every page lists [`Status::NO_MEMORY`].
pub(crate) fn no_memory<E: std::fmt::Display>(
    status: Status,
    what: &'static str,
) -> impl Fn(E) -> Error {
    move |error| Error::new(status, format!("{what}: {error}"))
}

/// The error of a request that the engine refused (QP-011 to QP-014, and the rows of the other requests).
pub(crate) fn post_error(error: PostError) -> Error {
    let (status, what) = match error {
        PostError::NotConnected => (
            Status::CONNECTION_INVALID,
            "the queue pair is not connected",
        ),
        PostError::QueueFull => (
            Status::NO_MORE_ENTRIES,
            "the queue is full; get results first, or create the queue with a larger depth",
        ),
        PostError::TooManySges => (
            Status::DATA_OVERRUN,
            "the request has more SGEs than the queue was created for",
        ),
        PostError::NotRecognized => (
            Status::NOT_SUPPORTED,
            "Sends with Immediate Data are not part of NetworkDirect",
        ),
        PostError::WrongLength => (
            Status::INVALID_PARAMETER_3,
            "the sink of an Atomic has 8 octets",
        ),
        PostError::TooLong => (
            Status::BUFFER_OVERFLOW,
            "the request has more data than MaxTransferLength, or more inline data than the queue pair was created for",
        ),
    };
    Error::new(status, what)
}

/// The status of a result (section 7.1 of the requirement catalogue).
pub(crate) fn result_status(status: WqeStatus) -> Status {
    match status {
        WqeStatus::Success => Status::SUCCESS,
        WqeStatus::Flushed => Status::CANCELED,
        WqeStatus::LocalAccess | WqeStatus::RemoteAccess => Status::ACCESS_VIOLATION, // AMB-002
        WqeStatus::RemoteError | WqeStatus::RemoteInvalidRequest => Status::REMOTE_ERROR,
        WqeStatus::ReceiveTooShort => Status::BUFFER_OVERFLOW, // AMB-006
        WqeStatus::InvalidRequest => Status::INVALID_DEVICE_REQUEST, // AMB-011, AMB-045, RES-015
        WqeStatus::NoReceive => Status::IO_TIMEOUT,            // AMB-008
        // Receives of ND2 do not outlive the peer's end.
        WqeStatus::PeerEnded | WqeStatus::Internal => Status::INTERNAL_ERROR,
    }
}

/// The kind of a result.
pub(crate) fn request_type(kind: RequestKind) -> RequestType {
    match kind {
        RequestKind::Receive => RequestType::Receive,
        RequestKind::Send => RequestType::Send,
        RequestKind::Bind => RequestType::Bind,
        RequestKind::Invalidate => RequestType::Invalidate,
        RequestKind::Read => RequestType::Read,
        RequestKind::Write => RequestType::Write,
        RequestKind::Immediate => RequestType::SendImmediate,
        RequestKind::FetchAdd | RequestKind::CompareSwap => RequestType::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use iwarp_io::error_number::{ENFILE, EPERM};

    use super::*;

    #[test]
    fn adpt_021_adpt_022_want_of_memory_is_told_from_want_of_descriptors() {
        let status = |errno: Errno| shortage("cannot")(errno.into()).status();
        assert_eq!(status(ENOMEM), Status::NO_MEMORY);
        for other in [Errno::MFILE, ENFILE, Errno::NOBUFS, Errno::AGAIN] {
            assert_eq!(status(other), Status::INSUFFICIENT_RESOURCES);
        }
    }

    #[test]
    fn what_softnd_does_not_have_on_a_system_is_no_want() {
        let error = shortage("cannot open the adapter")(io::ErrorKind::Unsupported.into());
        assert_eq!(error.status(), Status::NOT_SUPPORTED);
    }

    #[test]
    fn conn_021_conn_022_a_peer_that_cannot_be_reached_has_an_address_all_the_same() {
        let rows = [
            (Errno::NETUNREACH, Status::NETWORK_UNREACHABLE),
            (Errno::NETDOWN, Status::NETWORK_UNREACHABLE),
            (Errno::INVAL, Status::NETWORK_UNREACHABLE),
            (Errno::AFNOSUPPORT, Status::NETWORK_UNREACHABLE),
            (Errno::HOSTUNREACH, Status::HOST_UNREACHABLE),
            (Errno::HOSTDOWN, Status::HOST_UNREACHABLE),
            (Errno::MSGSIZE, Status::HOST_UNREACHABLE),
            (Errno::ACCESS, Status::HOST_UNREACHABLE),
            (EPERM, Status::HOST_UNREACHABLE),
            (Errno::TIMEDOUT, Status::IO_TIMEOUT),
            (Errno::CONNREFUSED, Status::CONNECTION_REFUSED),
            (Errno::CONNRESET, Status::CONNECTION_REFUSED),
        ];
        for (errno, status) in rows {
            assert_eq!(connect_status(&errno.into()), status, "{errno:?}");
        }
    }
}
