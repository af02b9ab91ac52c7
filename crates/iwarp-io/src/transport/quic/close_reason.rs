//! The effect of the end of a QUIC connection on its streams.

use quinn_proto::{ConnectionError, TransportErrorCode};
use rustix::io::Errno;

use super::security::explain;

/// The error with which streams end, as TCP has it. `established` is true if the connection had been established.
pub(super) fn errno(reason: &ConnectionError, established: bool) -> Errno {
    match reason {
        ConnectionError::TimedOut => Errno::TIMEDOUT,
        _ if !established => Errno::CONNREFUSED,
        ConnectionError::LocallyClosed => Errno::CONNABORTED,
        _ => Errno::CONNRESET,
    }
}

/// Returns a text for the operator, if the reason is one that an operator should act on.
pub(super) fn complaint(reason: &ConnectionError) -> Option<String> {
    let tell = match reason {
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::CidsExhausted => true,
        ConnectionError::ConnectionClosed(close) => {
            close.error_code != TransportErrorCode::CONNECTION_REFUSED
                && close.error_code != TransportErrorCode::NO_ERROR
        }
        _ => false,
    };
    tell.then(|| words(reason))
}

/// Returns the reason as text for people. It contains at most a line of the peer's words.
pub(super) fn words(reason: &ConnectionError) -> String {
    const MOST: usize = 400;
    let words = explain(reason);
    match words.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
