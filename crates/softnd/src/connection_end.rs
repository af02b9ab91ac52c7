//! The reasons why connections ended or were not made, in the form of `netdirect`.

use std::io;
use std::sync::Arc;

use iwarp_io::endpoint::{self as engine, ConnectionEnd as EngineEnd};
use iwarp_io::error_number::Errno;
use iwarp_io::setup::{ConnectFailure, InitiatorFailure, ResponderFailure, StreamEnd};
use iwarp_io::system_call::errno;
use netdirect::{ConnectionEnd, EndReason, EndedBy, TerminateCode};

use crate::qp::Qp;

/// The end of a queue pair's connection.
fn of_connection(end: &EngineEnd) -> ConnectionEnd {
    let by = match end.by() {
        engine::EndedBy::ThisSide => EndedBy::ThisSide,
        engine::EndedBy::Peer => EndedBy::Peer,
        engine::EndedBy::Neither => EndedBy::Neither,
    };
    let reason = match end {
        EngineEnd::Disconnected | EngineEnd::PeerDisconnected => EndReason::Disconnect,
        EngineEnd::Fault(_) | EngineEnd::Terminated(_) => EndReason::Terminate,
        EngineEnd::Reset => EndReason::Reset,
        EngineEnd::Silent => EndReason::Silence,
        EngineEnd::Broken(_) => EndReason::Network,
        EngineEnd::NotReady => EndReason::TimeLimit,
        EngineEnd::QueueBroke => EndReason::QueueBroke,
        EngineEnd::Removed => EndReason::Removed,
    };
    let ended = ConnectionEnd::new(by, reason, end.to_string());
    match end.terminate() {
        Some(code) => ended.terminate(code_of(code)),
        None => ended,
    }
}

/// The end of a queue pair's connection, if it has ended.
pub(crate) fn of_queue_pair(qp: &Arc<Qp>) -> Option<ConnectionEnd> {
    qp.connection_end().as_ref().map(of_connection)
}

/// The end of everything on an adapter whose device was removed.
pub(crate) fn of_removal() -> ConnectionEnd {
    of_connection(&EngineEnd::Removed)
}

/// The reason why a Connect has failed.
pub(crate) fn of_attempt(failure: &ConnectFailure) -> ConnectionEnd {
    let mut terminate = None;
    let (by, reason) = match failure {
        ConnectFailure::NoLocalAddress(_) | ConnectFailure::RefusedHere(_) => {
            (EndedBy::ThisSide, EndReason::Network)
        }
        ConnectFailure::Dialing(error) => of_dialing(error),
        ConnectFailure::RefusedByPlan => (EndedBy::Peer, EndReason::Refused),
        ConnectFailure::NotInTime(_) => (EndedBy::Neither, EndReason::TimeLimit),
        ConnectFailure::Exchange(failure) => match failure {
            InitiatorFailure::TimedOut => (EndedBy::Neither, EndReason::TimeLimit),
            InitiatorFailure::Rejected { private_data } => return rejected(private_data),
            InitiatorFailure::Malformed(_) => (EndedBy::ThisSide, EndReason::Terminate),
            InitiatorFailure::Unacceptable { why, .. } => {
                terminate = why
                    .terminate()
                    .map(|error| engine::TerminateCode::new(2, 0, error.code()));
                (EndedBy::ThisSide, EndReason::Terminate)
            }
            InitiatorFailure::Ended(end) => of_stream(*end),
        },
    };
    let end = ConnectionEnd::new(by, reason, failure.to_string());
    match terminate {
        Some(code) => end.terminate(code_of(code)),
        None => end,
    }
}

/// A Reply that rejects. A listener with a full backlog sends one without private data, and so may a program.
fn rejected(private_data: &[u8]) -> ConnectionEnd {
    let what = match private_data {
        [] => "the peer rejected the connection: its program did, or its backlog is full",
        _ => "the peer's program rejected the connection",
    };
    ConnectionEnd::new(EndedBy::Peer, EndReason::Rejected, what)
}

/// The reason why an Accept has failed.
pub(crate) fn of_accept(failure: &ResponderFailure) -> ConnectionEnd {
    let (by, reason) = match failure {
        ResponderFailure::TimedOut => (EndedBy::ThisSide, EndReason::TimeLimit),
        ResponderFailure::Ended(end) => of_stream(*end),
        _ => (EndedBy::ThisSide, EndReason::Terminate),
    };
    ConnectionEnd::new(by, reason, failure.to_string())
}

fn of_dialing(error: &io::Error) -> (EndedBy, EndReason) {
    match errno(error) {
        Some(Errno::CONNREFUSED) => (EndedBy::Peer, EndReason::Refused),
        Some(Errno::CONNRESET) => (EndedBy::Peer, EndReason::Reset),
        Some(Errno::TIMEDOUT) => (EndedBy::Neither, EndReason::Silence),
        _ => (EndedBy::Neither, EndReason::Network),
    }
}

fn of_stream(end: StreamEnd) -> (EndedBy, EndReason) {
    match end {
        StreamEnd::Fin => (EndedBy::Peer, EndReason::Disconnect),
        StreamEnd::Reset => (EndedBy::Peer, EndReason::Reset),
    }
}

fn code_of(code: engine::TerminateCode) -> TerminateCode {
    TerminateCode {
        layer: code.layer,
        etype: code.etype,
        code: code.code,
    }
}
