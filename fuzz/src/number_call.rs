//! The private data by which queue pairs of verbs programs call each other, the header of their datagrams, and the messages by which the
//! connection manager finds queue pairs for datagrams.

use softverbs::{
    Call, CallError, CmMessage, DatagramHeader, HeaderError, MessageError, MessageKind,
};

/// Input: private data, a datagram, and a message.
///
/// What is parsed is encoded to the same octets, and an error says what was wrong with which of them.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn number_call(data: &[u8]) {
    call(data);
    datagram(data);
    message(data);
}

fn message(data: &[u8]) {
    match CmMessage::parse(data) {
        Ok(message) => {
            let encoded = message.encode();
            let end = 40 + message.private_data.len();
            assert_eq!(encoded[..end], data[..end]);
            assert_eq!(
                encoded.len(),
                data.len(),
                "behind a request's data there may be anything"
            );
            assert!(message.kind == MessageKind::Request || end == data.len());
            assert!(message.number < 1 << 24 && message.private_data.len() <= 508);
        }
        Err(MessageError::Foreign) => assert!(data.len() < 40 || !data.starts_with(b"UDCM")),
        Err(MessageError::Version(version)) => assert_eq!(data.get(4), Some(&version)),
        Err(MessageError::Kind(kind)) => assert_eq!(data.get(5), Some(&kind)),
        Err(MessageError::Length) => assert!(data.len() >= 40),
        Err(MessageError::Number(number)) => assert_eq!(data[16..20], number.to_be_bytes()),
    }
}

fn datagram(data: &[u8]) {
    match DatagramHeader::parse(data) {
        Ok((header, rest)) => {
            let mut encoded = header.encode();
            if header.immediate.is_none() {
                encoded[16..].copy_from_slice(&data[16..20]); // they mean nothing
            }
            assert_eq!([&encoded[..], rest].concat(), data);
            assert!(header.from < 1 << 24 && header.to < 1 << 24);
        }
        Err(HeaderError::Foreign) => assert!(data.len() < 20 || !data.starts_with(b"UD")),
        Err(HeaderError::Version(version)) => assert_eq!(data.get(2), Some(&version)),
        Err(HeaderError::Flags(flags)) => assert_eq!(data.get(3), Some(&flags)),
        Err(HeaderError::Length(length)) => assert!(length > 4096 && data.len() == length + 20),
        Err(HeaderError::Number(number)) => {
            let octets = number.to_be_bytes();
            assert!(octets[0] != 0 && (data[4..8] == octets || data[8..12] == octets));
        }
    }
}

fn call(data: &[u8]) {
    match Call::parse(data) {
        Ok(call) => {
            assert_eq!(call.encode(), data);
            assert!(call.from < 1 << 24 && call.to < 1 << 24);
        }
        Err(CallError::Foreign) => {
            assert!(data.len() != 44 || !(data.starts_with(b"QPN") || data.starts_with(b"QPU")))
        }
        Err(CallError::Version(version)) => assert_eq!(data.get(3), Some(&version)),
        Err(CallError::Number(number)) => {
            let octets = number.to_be_bytes();
            assert!(octets[0] != 0 && (data[4..8] == octets || data[8..12] == octets));
        }
    }
}
