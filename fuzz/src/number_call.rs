//! The private data by which queue pairs of verbs programs call each other.

use softverbs::{Call, CallError};

/// Input: private data.
///
/// What is parsed is encoded to the same octets, and an error says what was wrong with which of them.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn number_call(data: &[u8]) {
    match Call::parse(data) {
        Ok(call) => {
            assert_eq!(call.encode(), data);
            assert!(call.from < 1 << 24 && call.to < 1 << 24);
        }
        Err(CallError::Foreign) => assert!(data.len() != 44 || !data.starts_with(b"QPN")),
        Err(CallError::Version(version)) => assert_eq!(data.get(3), Some(&version)),
        Err(CallError::Number(number)) => {
            let octets = number.to_be_bytes();
            assert!(octets[0] != 0 && (data[4..8] == octets || data[8..12] == octets));
        }
    }
}
