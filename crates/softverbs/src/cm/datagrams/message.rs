//! The octets of a request and of its answer.
//!
//! | octets | contents |
//! |---|---|
//! | 0 to 3 | `UDCM` |
//! | 4 | the version, 1 |
//! | 5 | 1 a request, 2 an answer that accepts, 3 one that rejects |
//! | 6 and 7 | the octets of private data |
//! | 8 to 15 | a random number of the side that asks, which the answer repeats |
//! | 16 to 19 | the number of the sender's queue pair, or 0 |
//! | 20 to 23 | its Q_Key |
//! | 24 to 39 | the GID at which the queue pair is reached |
//! | 40 on | private data; in a request zeros up to 548 octets |
//!
//! A request is as long as the longest answer, so a forged request cannot make a listener send more octets than it received.

use std::fmt;

use zerocopy::byteorder::{BE, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::device::{Gid, limits};

const MARK: [u8; 4] = *b"UDCM";
const VERSION: u8 = 1;

/// The octets in front of private data, and those of a request.
const HEAD: usize = size_of::<Octets>();
const REQUEST: usize = HEAD + limits::PRIVATE_DATA;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Octets {
    mark: [u8; 4],
    version: u8,
    kind: u8,
    length: U16<BE>,
    nonce: U64<BE>,
    number: U32<BE>,
    key: U32<BE>,
    gid: Gid,
}
const _: () = assert!(HEAD == 40);

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// Asks for the number of a queue pair.
    Request = 1,
    /// Has the number.
    Accepted = 2,
    /// The program refuses.
    Rejected = 3,
}

/// A request, or its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmMessage {
    /// The kind.
    pub kind: MessageKind,
    /// The number of the request.
    pub nonce: u64,
    /// The number of the sender's queue pair, or 0.
    pub number: u32,
    /// Its Q_Key.
    pub key: u32,
    /// The GID at which it is reached.
    pub gid: Gid,
    /// Octets of the program.
    pub private_data: Vec<u8>,
}

/// The reason why octets are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// They are not those of a connection manager.
    Foreign,
    /// They have a version that this library does not know.
    Version(u8),
    /// They have a kind that does not exist.
    Kind(u8),
    /// The length of private data does not fit, or a request is short.
    Length,
    /// The number of the queue pair has more than 24 bits.
    Number(u32),
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("the datagram is not that of a connection manager"),
            Self::Version(version) => write!(
                f,
                "the datagram has version {version} of the connection manager, and this side version {VERSION}"
            ),
            Self::Kind(kind) => write!(f, "there are no messages of the kind {kind}"),
            Self::Length => f.write_str("the length of the private data does not fit"),
            Self::Number(number) => write!(f, "{number:#x} is no number of a queue pair"),
        }
    }
}

impl CmMessage {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// See [`MessageError`].
    pub fn parse(datagram: &[u8]) -> Result<Self, MessageError> {
        let (head, rest) = Octets::ref_from_prefix(datagram).map_err(|_| MessageError::Foreign)?;
        if head.mark != MARK {
            return Err(MessageError::Foreign);
        }
        if head.version != VERSION {
            return Err(MessageError::Version(head.version));
        }
        let kind = match head.kind {
            1 => MessageKind::Request,
            2 => MessageKind::Accepted,
            3 => MessageKind::Rejected,
            other => return Err(MessageError::Kind(other)),
        };
        let length = usize::from(head.length.get());
        let fits = match kind {
            MessageKind::Request => datagram.len() == REQUEST && length <= rest.len(),
            _ => length == rest.len() && length <= limits::PRIVATE_DATA,
        };
        if !fits {
            return Err(MessageError::Length);
        }
        let number = head.number.get();
        if number >= 1 << 24 {
            return Err(MessageError::Number(number));
        }
        Ok(Self {
            kind,
            nonce: head.nonce.get(),
            number,
            key: head.key.get(),
            gid: head.gid,
            private_data: rest[..length].to_vec(),
        })
    }

    /// The octets. Private data is at most as long as the devices' limit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let length = self.private_data.len().min(limits::PRIVATE_DATA);
        let head = Octets {
            mark: MARK,
            version: VERSION,
            kind: self.kind as u8,
            length: u16::try_from(length).unwrap_or(u16::MAX).into(),
            nonce: self.nonce.into(),
            number: self.number.into(),
            key: self.key.into(),
            gid: self.gid,
        };
        let mut octets = [head.as_bytes(), &self.private_data[..length]].concat();
        if self.kind == MessageKind::Request {
            octets.resize(REQUEST, 0);
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageKind) -> CmMessage {
        CmMessage {
            kind,
            nonce: 0x0102_0304_0506_0708,
            number: 0xC0_0001,
            key: 0x0123_4567,
            gid: [9; 16],
            private_data: b"hello".to_vec(),
        }
    }

    #[test]
    fn what_was_encoded_is_parsed() {
        for kind in [
            MessageKind::Request,
            MessageKind::Accepted,
            MessageKind::Rejected,
        ] {
            let octets = message(kind).encode();
            assert_eq!(octets[..8], [b'U', b'D', b'C', b'M', 1, kind as u8, 0, 5]);
            let length = match kind {
                MessageKind::Request => 548,
                _ => 45,
            };
            assert_eq!(octets.len(), length);
            assert_eq!(CmMessage::parse(&octets), Ok(message(kind)));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for kind in [MessageKind::Request, MessageKind::Accepted] {
            let good = message(kind).encode();
            for length in 0..40 {
                assert_eq!(
                    CmMessage::parse(&good[..length]),
                    Err(MessageError::Foreign)
                );
            }
            for length in [good.len() - 1, good.len() + 1] {
                let mut other = good.clone();
                other.resize(length, 0);
                assert_eq!(CmMessage::parse(&other), Err(MessageError::Length));
            }
            let changed = |at: usize, octet: u8| {
                let mut octets = good.clone();
                octets[at] = octet;
                CmMessage::parse(&octets)
            };
            assert_eq!(changed(0, b'u'), Err(MessageError::Foreign));
            assert_eq!(changed(4, 2), Err(MessageError::Version(2)));
            assert_eq!(changed(5, 0), Err(MessageError::Kind(0)));
            assert_eq!(changed(6, 2), Err(MessageError::Length));
            assert_eq!(changed(16, 1), Err(MessageError::Number(0x1C0_0001)));
        }
    }
}
