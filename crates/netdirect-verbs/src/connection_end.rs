//! The reasons why connections ended or were not made, as far as verbs tell them.
//!
//! - The connection manager reports attempts that fail, with an errno or a reason of InfiniBand. Of a connection it reports the end, and on iWARP
//!   not the reason: a disconnect, a reset and a lost network are the same event.
//! - The first request that fails reports which side found an error. Only softnd's own libraries give the code of the Terminate, in `vendor_err`.
//! - Asynchronous events report errors that fail no request.
//!
//! `RDMA_CM_EVENT_TIMEWAIT_EXIT` follows an end, and says nothing about it.

use std::io;

use netdirect::{ConnectionEnd, EndReason, EndedBy, Status, TerminateCode};

use crate::handle::{CmEvent, CmEventKind, NotReady, QueuePairError, WorkCompletion};
use crate::quirks::Needs;
use crate::sys::bindings as c;

/// `vendor_err` of softnd's own libraries (`docs/use/verbs.md`): there was a Terminate, whose code is in the bits below.
const TERMINATE: u32 = 1 << 16;
/// The peer sent the Terminate.
const FROM_PEER: u32 = 1 << 17;

/// The reasons of a rejection on InfiniBand: nothing listens (`IB_CM_REJ_INVALID_SERVICE_ID`), and an application has rejected
/// (`IB_CM_REJ_CONSUMER_DEFINED`).
const NO_LISTENER: i32 = 8;
pub(crate) const REJECTED_BY_CLIENT: i32 = 28;

fn end(by: EndedBy, reason: EndReason, what: impl Into<String>) -> ConnectionEnd {
    ConnectionEnd::new(by, reason, what.into())
}

/// This side's program has ended the connection, or has given it up.
pub(crate) fn of_this_side(what: &'static str) -> ConnectionEnd {
    ConnectionEnd::new(EndedBy::ThisSide, EndReason::Disconnect, what)
}

/// A limit of this machine, or a refusal of the device or the system.
pub(crate) fn of_device(what: impl Into<String>) -> ConnectionEnd {
    end(EndedBy::ThisSide, EndReason::Network, what)
}

/// The device was removed.
pub(crate) fn of_removal() -> ConnectionEnd {
    end(
        EndedBy::ThisSide,
        EndReason::Removed,
        "the device of this side was removed",
    )
}

/// A completion queue or the shared receive queue has broken down.
pub(crate) fn of_broken_queue() -> ConnectionEnd {
    end(
        EndedBy::ThisSide,
        EndReason::QueueBroke,
        "a completion queue or the shared receive queue of this side broke down",
    )
}

/// A Connect whose call failed, or which an event without a reason of its own ended: by its errno, which may have either sign. 0 if there is
/// none.
pub(crate) fn of_errno(errno: i32) -> ConnectionEnd {
    let errno = errno.saturating_abs();
    let error = io::Error::from_raw_os_error(errno);
    match errno {
        libc::ECONNREFUSED => end(
            EndedBy::Peer,
            EndReason::Refused,
            "the peer's host refused the connection: nothing listens at the address, or a firewall refuses it",
        ),
        libc::ECONNRESET => end(
            EndedBy::Peer,
            EndReason::Reset,
            "the peer reset the connection before it answered",
        ),
        libc::ETIMEDOUT => end(
            EndedBy::Neither,
            EndReason::Silence,
            "the peer's host has not answered in time",
        ),
        libc::EADDRINUSE | libc::EADDRNOTAVAIL => {
            of_device(format!("the local address cannot be used: {error}"))
        }
        0 => end(
            EndedBy::Neither,
            EndReason::Network,
            "the connection was not made, and the device does not say why",
        ),
        _ => end(
            EndedBy::Neither,
            EndReason::Network,
            format!("the connection was not made: {error}"),
        ),
    }
}

/// An attempt that ends with this event.
pub(crate) fn of_attempt(event: &CmEvent, is_iwarp: bool) -> ConnectionEnd {
    match event.kind {
        CmEventKind::Rejected => rejected(event, is_iwarp),
        CmEventKind::Unresolved => {
            let error = io::Error::from_raw_os_error(event.status.saturating_abs());
            let what = format!("no way to the peer's host was found: {error}");
            end(EndedBy::Neither, EndReason::Network, what)
        }
        CmEventKind::Unreachable => end(
            EndedBy::Neither,
            EndReason::TimeLimit,
            "the peer has not answered the request for a connection in time",
        ),
        CmEventKind::Disconnected => end(
            EndedBy::Peer,
            EndReason::Disconnect,
            "the peer ended the connection before it answered",
        ),
        _ => of_errno(event.status),
    }
}

/// The connection manager also says that a peer rejects when nothing listens there. On iWARP the errno does not tell the two apart.
fn rejected(event: &CmEvent, is_iwarp: bool) -> ConnectionEnd {
    let by_program = match is_iwarp {
        true => !event.private_data.is_empty(),
        false => event.status == REJECTED_BY_CLIENT,
    };
    if by_program {
        let what = "the peer's program rejected the connection";
        return end(EndedBy::Peer, EndReason::Rejected, what);
    }
    if is_iwarp {
        let what = "the peer rejected the connection: its program did, its backlog is full, or nothing listens at the address; the device does not say which";
        return end(EndedBy::Peer, EndReason::Rejected, what);
    }
    if event.status == NO_LISTENER {
        let what = "the peer's host refused the connection: nothing listens at the address";
        return end(EndedBy::Peer, EndReason::Refused, what);
    }
    let what = format!(
        "the peer's connection manager rejected the connection, with reason {} of InfiniBand",
        event.status
    );
    end(EndedBy::Peer, EndReason::Rejected, what)
}

/// An Accept that ends with this event.
pub(crate) fn of_acceptance(event: &CmEvent) -> ConnectionEnd {
    match event.kind {
        CmEventKind::Unreachable => peer_not_ready(),
        CmEventKind::Failed if event.status.saturating_abs() == libc::ECONNRESET => end(
            EndedBy::Peer,
            EndReason::Reset,
            "the peer ended or reset the connection before it completed it",
        ),
        CmEventKind::Failed => of_errno(event.status),
        _ => peer_gone(),
    }
}

/// The time limit of an Accept.
pub(crate) fn peer_not_ready() -> ConnectionEnd {
    end(
        EndedBy::ThisSide,
        EndReason::TimeLimit,
        "the peer has not completed the connection in time",
    )
}

/// The peer has given up a connection that was not complete.
pub(crate) fn peer_gone() -> ConnectionEnd {
    end(
        EndedBy::Peer,
        EndReason::Disconnect,
        "the peer gave the connection up before it was complete",
    )
}

/// The last step of a connection has failed.
pub(crate) fn of_not_ready(error: &NotReady) -> ConnectionEnd {
    match error {
        NotReady::Gone(_) => peer_gone(),
        NotReady::Refused(error) => of_device(format!(
            "the device does not make the queue pair ready: {error}"
        )),
    }
}

/// An established connection whose end this event reports, and nothing has reported before.
pub(crate) fn of_peer(event: &CmEvent, is_iwarp: bool) -> ConnectionEnd {
    match (&event.kind, event.status.saturating_abs()) {
        (_, libc::ECONNRESET) => end(
            EndedBy::Peer,
            EndReason::Reset,
            "the peer reset the connection, and gave no reason",
        ),
        (CmEventKind::Unreachable, _) | (_, libc::ETIMEDOUT) => end(
            EndedBy::Neither,
            EndReason::Silence,
            "the peer has not answered in time",
        ),
        (CmEventKind::Failed, errno) => {
            let error = io::Error::from_raw_os_error(errno);
            let what = format!("the network or this system ended it: {error}");
            end(EndedBy::Neither, EndReason::Network, what)
        }
        _ if is_iwarp => end(
            EndedBy::Peer,
            EndReason::Disconnect,
            "the peer disconnected, or the connection was reset or lost; the device does not say which",
        ),
        _ => end(
            EndedBy::Peer,
            EndReason::Disconnect,
            "the peer disconnected",
        ),
    }
}

/// A request that has failed, and ended the connection. `None` if the result does not say why. `denied`: the request names memory that it may
/// not use.
pub(crate) fn of_completion(
    completion: &WorkCompletion,
    needs: &Needs,
    denied: bool,
) -> Option<ConnectionEnd> {
    let vendor = completion.vendor_err;
    if needs.tells_terminates {
        return (vendor & TERMINATE != 0).then(|| of_terminate(vendor));
    }
    let (by, what) = if needs.fails_vaguely {
        vague(completion, denied)?
    } else {
        found(completion.status)?
    };
    let reason = match completion.status {
        c::IBV_WC_RETRY_EXC_ERR | c::IBV_WC_RESP_TIMEOUT_ERR => EndReason::Silence,
        _ => EndReason::Terminate,
    };
    let vendor = match vendor {
        0 => String::new(),
        vendor => format!("; the device's own code is {vendor:#x}"),
    };
    Some(end(by, reason, format!("{what}{vendor}")))
}

/// The Terminate in `vendor_err` of softnd's own libraries.
fn of_terminate(vendor: u32) -> ConnectionEnd {
    let part = |shift: u32, bits: u32| u8::try_from(vendor >> shift & bits).unwrap_or(0);
    let code = TerminateCode {
        layer: part(12, 0xF),
        etype: part(8, 0xF),
        code: part(0, 0xFF),
    };
    let (by, what) = match vendor & FROM_PEER {
        0 => (EndedBy::ThisSide, "this side found an error: it"),
        _ => (
            EndedBy::Peer,
            "the peer found an error, most likely in what this side sent: it",
        ),
    };
    end(
        by,
        EndReason::Terminate,
        format!("{what} sent Terminate {code}"),
    )
    .terminate(code)
}

/// Which side found an error of which kind, by the status of a failed request. `None` if the request was only flushed.
fn found(status: c::ibv_wc_status) -> Option<(EndedBy, &'static str)> {
    Some(match status {
        c::IBV_WC_SUCCESS | c::IBV_WC_WR_FLUSH_ERR => return None,
        c::IBV_WC_LOC_LEN_ERR => (
            EndedBy::ThisSide,
            "this side found an error: a message was longer than its Receive, or a request longer than the device takes",
        ),
        c::IBV_WC_LOC_PROT_ERR => (
            EndedBy::ThisSide,
            "this side found an error: a request names memory that is not registered, or not with the right that is needed",
        ),
        c::IBV_WC_LOC_ACCESS_ERR => (
            EndedBy::ThisSide,
            "this side found an error: the peer asked for memory to which it has no right",
        ),
        c::IBV_WC_REM_ACCESS_ERR => (
            EndedBy::Peer,
            "the peer found an error: a request of this side asked for memory to which it has no right",
        ),
        c::IBV_WC_REM_INV_REQ_ERR => (
            EndedBy::Peer,
            "the peer found an error: a request of this side was invalid, or a message too long",
        ),
        c::IBV_WC_REM_OP_ERR | c::IBV_WC_REM_ABORT_ERR => {
            (EndedBy::Peer, "the peer could not carry a request out")
        }
        c::IBV_WC_RNR_RETRY_EXC_ERR => (
            EndedBy::Peer,
            "the peer had no Receive for a message in time",
        ),
        c::IBV_WC_RETRY_EXC_ERR | c::IBV_WC_RESP_TIMEOUT_ERR => {
            (EndedBy::Neither, "the peer has not answered in time")
        }
        _ => (
            EndedBy::ThisSide,
            "this side found an error: a request failed, and the device does not say more",
        ),
    })
}

/// As [`found`], for a driver that fails requests for one and the same reason.
fn vague(completion: &WorkCompletion, denied: bool) -> Option<(EndedBy, &'static str)> {
    Some(match completion.status {
        c::IBV_WC_LOC_QP_OP_ERR if denied => found(c::IBV_WC_LOC_PROT_ERR)?,
        c::IBV_WC_LOC_QP_OP_ERR => (
            EndedBy::Peer,
            "the peer found an error, or ended the connection while a request was under way; the device does not say which",
        ),
        c::IBV_WC_GENERAL_ERR => (
            EndedBy::ThisSide,
            "this side found an error in a message; the device does not say which",
        ),
        status => found(status)?,
    })
}

/// An asynchronous event about the queue pair. `None` if it does not say who found the error: on iWARP some drivers also report a Terminate of
/// the peer by `IBV_EVENT_QP_FATAL`.
pub(crate) fn of_queue_pair(error: QueuePairError, is_iwarp: bool) -> Option<ConnectionEnd> {
    let what = match error {
        QueuePairError::Fatal if is_iwarp => return None,
        QueuePairError::Fatal => "this side found an error in the queue pair (IBV_EVENT_QP_FATAL)",
        QueuePairError::Request => {
            "this side found an error: a request of the peer was invalid (IBV_EVENT_QP_REQ_ERR)"
        }
        QueuePairError::Access => {
            "this side found an error: the peer asked for memory to which it has no right (IBV_EVENT_QP_ACCESS_ERR)"
        }
    };
    Some(end(EndedBy::ThisSide, EndReason::Terminate, what))
}

/// A request of this side that the device never took, because it would have failed with this status.
pub(crate) fn of_request(status: Status) -> ConnectionEnd {
    let what = format!("this side found an error: one of its requests failed with {status}");
    end(EndedBy::ThisSide, EndReason::Terminate, what)
}

/// The error of a Connect or Accept that has failed for this reason.
pub(crate) fn error(status: Status, end: &ConnectionEnd) -> netdirect::Error {
    netdirect::Error::new(status, end.what().to_owned())
}

/// The reason why one connection has ended: the first one that was noted.
#[derive(Debug, Default)]
pub(crate) struct FirstReason(Option<ConnectionEnd>);

impl FirstReason {
    /// Notes a reason. Returns the first one.
    pub(crate) fn note(&mut self, end: ConnectionEnd) -> &ConnectionEnd {
        self.0.get_or_insert_with(|| {
            let terminate = end.terminate_code().map(tracing::field::display);
            tracing::info!(
                target: crate::log::TARGET,
                by = ?end.by(),
                terminate,
                "the connection ended: {end}"
            );
            end
        })
    }

    /// The first reason, if one was noted.
    pub(crate) fn get(&self) -> Option<&ConnectionEnd> {
        self.0.as_ref()
    }
}
