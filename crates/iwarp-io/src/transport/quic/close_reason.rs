//! What the end of a QUIC connection means for its streams.

use quinn_proto::{ConnectionError, TransportErrorCode};
use rustix::io::Errno;

use super::security::explain;

/// The error with which streams end, as TCP has it. `established` says whether the connection had come up.
pub(super) fn errno(reason: &ConnectionError, established: bool) -> Errno {
    match reason {
        ConnectionError::TimedOut => Errno::TIMEDOUT,
        _ if !established => Errno::CONNREFUSED,
        ConnectionError::LocallyClosed => Errno::CONNABORTED,
        _ => Errno::CONNRESET,
    }
}

/// What to tell the operator, if the reason is one that somebody has to see to.
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

/// The reason in words for people. Of the peer's words there are not more than a line.
pub(super) fn words(reason: &ConnectionError) -> String {
    const MOST: usize = 400;
    let words = explain(reason);
    match words.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
