//! Why a connection has ended, in words for people.

use quinn_proto::{ConnectionError, TransportErrorCode};

use crate::printable::printable;

/// The alerts of TLS (RFC 8446 §6.2) that have words of their own here.
const CERTIFICATE_REQUIRED: u8 = 116;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// Says why a connection has ended. Control characters, bidirectional ones and U+FFFE and U+FFFF in the peer's words are replaced.
///
/// ```
/// use iwarp_io::transport::quic::security::explain;
/// use quinn_proto::ConnectionError;
/// assert_eq!(explain(&ConnectionError::VersionMismatch), "the peer does not speak QUIC version 1");
/// ```
#[must_use]
pub fn explain(error: &ConnectionError) -> String {
    let text = match error {
        ConnectionError::VersionMismatch => "the peer does not speak QUIC version 1".to_owned(),
        ConnectionError::TransportError(error) => {
            let other = || without_wrapping(&error.reason).unwrap_or_else(|| error.to_string());
            of_handshake(error.code, "this side").unwrap_or_else(other)
        }
        ConnectionError::ConnectionClosed(close) => {
            let said = String::from_utf8_lossy(&close.reason);
            let other = || without_wrapping(&said).unwrap_or_else(|| close.to_string());
            let why = of_handshake(close.error_code, "the peer").unwrap_or_else(other);
            format!("the peer ended the connection: {why}")
        }
        error => error.to_string(),
    };
    text.chars().map(printable).collect()
}

/// What an alert of the handshake means that `side` has raised.
fn of_handshake(code: TransportErrorCode, side: &str) -> Option<String> {
    if code == TransportErrorCode::crypto(CERTIFICATE_REQUIRED) {
        return Some(format!(
            "{side} demands a certificate of clients, and the client shows none"
        ));
    }
    if code == TransportErrorCode::crypto(NO_APPLICATION_PROTOCOL) {
        return Some(
            "the two sides have no protocol in common (ALPN; iWARP is iwarp/1)".to_owned(),
        );
    }
    None
}

/// The text of a [refusal](super::verify) without what rustls writes around it.
fn without_wrapping(reason: &str) -> Option<String> {
    let (_, refusal) = reason.split_once("Other(OtherError(")?;
    // The reason of a close frame may be cut.
    Some(refusal.strip_suffix("))").unwrap_or(refusal).to_owned())
}
