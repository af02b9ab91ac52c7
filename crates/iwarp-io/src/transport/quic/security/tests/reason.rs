use quinn_proto::{ApplicationClose, ConnectionClose, ConnectionError, TransportErrorCode};

use super::*;

fn closed(alert: u8, reason: &'static [u8]) -> ConnectionError {
    ConnectionError::ConnectionClosed(ConnectionClose {
        error_code: TransportErrorCode::crypto(alert),
        frame_type: None,
        reason: reason.into(),
    })
}

#[test]
fn the_words_of_a_peer_cannot_confuse_a_terminal() {
    let error = closed(40, b"\x1b[2J one\ntwo \xff");
    assert_eq!(
        explain(&error),
        "the peer ended the connection: the cryptographic handshake failed: error 40: \u{fffd}[2J one\u{fffd}two \u{fffd}"
    );
    let error = ConnectionError::ApplicationClosed(ApplicationClose {
        error_code: 0x105u32.into(),
        reason: b"\x07".as_slice().into(),
    });
    assert_eq!(explain(&error), "closed by peer: \u{fffd} (code 261)");
    // Characters that reorder what stands around them, and one that is none.
    let reordered = ConnectionError::ApplicationClosed(ApplicationClose {
        error_code: 0x105u32.into(),
        reason: "a\u{202e}b\u{2066}c\u{ffff}".into(),
    });
    assert_eq!(
        explain(&reordered),
        "closed by peer: a\u{fffd}b\u{fffd}c\u{fffd} (code 261)"
    );
}

#[test]
fn a_refusal_that_was_cut_is_still_understood() {
    let told = |reason| explain(&closed(46, reason));
    let whole = told(b"invalid peer certificate: Other(OtherError(the text))");
    assert_eq!(whole, "the peer ended the connection: the text");
    assert_eq!(
        told(b"invalid peer certificate: Other(OtherError(the te"),
        "the peer ended the connection: the te"
    );
    assert_eq!(explain(&ConnectionError::TimedOut), "timed out");
}
