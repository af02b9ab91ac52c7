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
        "the peer ended the connection: it says that the two sides have no cipher or signature in common (in its words, \u{fffd}[2J \
         one\u{fffd}two \u{fffd}): the two sides run versions that do not fit together; run the same version on both"
    );
    let error = ConnectionError::ApplicationClosed(ApplicationClose {
        error_code: 0x105u32.into(),
        reason: b"\x07".as_slice().into(),
    });
    let program = "closed by peer: its program has ended the connection with code 261";
    let remedy = "; look at what that side says";
    assert_eq!(
        explain(&error),
        format!("{program} (in its words, \u{fffd}){remedy}")
    );
    // Characters that reorder the text around them, and one noncharacter.
    let reordered = ConnectionError::ApplicationClosed(ApplicationClose {
        error_code: 0x105u32.into(),
        reason: "a\u{202e}b\u{2066}c\u{ffff}".into(),
    });
    assert_eq!(
        explain(&reordered),
        format!("{program} (in its words, a\u{fffd}b\u{fffd}c\u{fffd}){remedy}")
    );
}

#[test]
fn a_refusal_that_was_cut_is_still_understood() {
    let explained = |reason| explain(&closed(46, reason));
    let whole = explained(b"invalid peer certificate: Other(OtherError(the text))");
    assert_eq!(whole, "the peer ended the connection: the text");
    assert_eq!(
        explained(b"invalid peer certificate: Other(OtherError(the te"),
        "the peer ended the connection: the te"
    );
}

/// The match has no arm for others, so a new error must get a text.
#[test]
fn every_end_of_a_connection_has_words_of_our_own() {
    let ended = |error: &ConnectionError| match error {
        ConnectionError::VersionMismatch => "does not speak QUIC version 1",
        ConnectionError::TransportError(_) => "this side says that it got a frame that is damaged",
        ConnectionError::ConnectionClosed(_) => "the peer ended the connection: it says that",
        ConnectionError::ApplicationClosed(_) => "its program has ended the connection",
        ConnectionError::Reset => "has been started anew",
        ConnectionError::TimedOut => "has not answered in time",
        ConnectionError::LocallyClosed => "this side has closed",
        ConnectionError::CidsExhausted => "no numbers left",
    };
    for error in [
        ConnectionError::VersionMismatch,
        ConnectionError::TransportError(quinn_proto::TransportError {
            code: TransportErrorCode::FRAME_ENCODING_ERROR,
            frame: None,
            reason: "UnexpectedEnd".to_owned(),
        }),
        closed(51, b""),
        ConnectionError::ApplicationClosed(ApplicationClose {
            error_code: 0x100u32.into(),
            reason: b"".as_slice().into(),
        }),
        ConnectionError::Reset,
        ConnectionError::TimedOut,
        ConnectionError::LocallyClosed,
        ConnectionError::CidsExhausted,
    ] {
        let (said, wanted) = (explain(&error), ended(&error));
        assert!(said.contains(wanted), "{said}");
        assert_ne!(said, error.to_string());
    }
}
