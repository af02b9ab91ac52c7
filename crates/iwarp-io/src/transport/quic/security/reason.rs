//! Texts for people about the end of a connection.

use quinn_proto::{ConnectionError, TransportErrorCode};

use super::words;
use crate::printable::printable;

/// The alerts of TLS (RFC 8446 §6.2) that have their own text here.
const CERTIFICATE_REQUIRED: u8 = 116;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// Explains why a connection has ended. Control characters, bidirectional ones and U+FFFE and U+FFFF in the peer's words are replaced.
pub(in super::super) fn explain(error: &ConnectionError) -> String {
    let text = match error {
        ConnectionError::VersionMismatch => "the peer does not speak QUIC version 1".to_owned(),
        ConnectionError::TransportError(error) => {
            let other = || words::of_code(error.code.into(), "this side", "");
            let ours = || without_wrapping(&error.reason).unwrap_or_else(other);
            of_handshake(error.code, "this side").unwrap_or_else(ours)
        }
        ConnectionError::ConnectionClosed(close) => {
            let said = String::from_utf8_lossy(&close.reason);
            let code = || words::of_code(close.error_code.into(), "it", &said);
            let other = || without_wrapping(&said).unwrap_or_else(code);
            let why = of_handshake(close.error_code, "the peer").unwrap_or_else(other);
            format!("the peer ended the connection: {why}")
        }
        ConnectionError::ApplicationClosed(close) => {
            let said = String::from_utf8_lossy(&close.reason);
            let said = match &*said {
                "" => String::new(),
                said => format!(" (in its words, {said})"),
            };
            format!(
                "closed by peer: its program has ended the connection with code {}{said}; look at what that side says",
                close.error_code
            )
        }
        ConnectionError::Reset => {
            "the peer does not know the connection: its program has been started anew".to_owned()
        }
        ConnectionError::TimedOut => {
            "the peer has not answered in time: check that it is alive, and that no firewall drops UDP"
                .to_owned()
        }
        ConnectionError::LocallyClosed => "this side has closed the connection".to_owned(),
        ConnectionError::CidsExhausted => {
            "there are no numbers left for connections: close some, or open another adapter".to_owned()
        }
    };
    text.chars().map(printable).collect()
}

/// Explains an alert of the handshake that `side` has raised.
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
