//! The private data of the start-up between two queue pairs that name each other.
//!
//! | octets | contents |
//! |---|---|
//! | 0 to 2 | `QPN` between reliable queue pairs, `QPU` between unreliable ones |
//! | 3 | the version, 2 |
//! | 4 to 7 | the number of the queue pair that connects |
//! | 8 to 11 | the number of the queue pair that is called |
//! | 12 to 27 | the GID of the side that connects |
//! | 28 to 43 | the GID of the side that is called |

use std::fmt;

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::device::Gid;

const RELIABLE: [u8; 3] = *b"QPN";
const UNRELIABLE: [u8; 3] = *b"QPU";
/// Sides of version 2 take Sends with a number, and serve one Read more than they state.
const VERSION: u8 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Octets {
    mark: [u8; 3],
    version: u8,
    from: U32<BE>,
    to: U32<BE>,
    from_gid: Gid,
    to_gid: Gid,
}
const _: () = assert!(size_of::<Octets>() == 44);

/// The contents of the private data: who calls whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The queue pairs are unreliable ones.
    pub is_unreliable: bool,
    /// The number of the queue pair that connects.
    pub from: u32,
    /// The number of the queue pair that is called.
    pub to: u32,
    /// The GID of the side that connects.
    pub from_gid: Gid,
    /// The GID of the side that is called.
    pub to_gid: Gid,
}

/// The reason why private data is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// It is not that of a queue pair that calls another one.
    Foreign,
    /// It has a version that this library does not know.
    Version(u8),
    /// A number has more than 24 bits.
    Number(u32),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("the caller does not name queue pairs"),
            Self::Version(version) => {
                write!(
                    f,
                    "the caller has version {version} of the start-up, and this side version {VERSION}"
                )
            }
            Self::Number(number) => write!(f, "{number:#x} is no number of a queue pair"),
        }
    }
}

impl Call {
    /// Reads private data.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn parse(private_data: &[u8]) -> Result<Self, CallError> {
        let octets = Octets::ref_from_bytes(private_data).map_err(|_| CallError::Foreign)?;
        let is_unreliable = match octets.mark {
            RELIABLE => false,
            UNRELIABLE => true,
            _ => return Err(CallError::Foreign),
        };
        if octets.version != VERSION {
            return Err(CallError::Version(octets.version));
        }
        let number = |number: U32<BE>| {
            let number = number.get();
            match number < 1 << 24 {
                true => Ok(number),
                false => Err(CallError::Number(number)),
            }
        };
        Ok(Self {
            is_unreliable,
            from: number(octets.from)?,
            to: number(octets.to)?,
            from_gid: octets.from_gid,
            to_gid: octets.to_gid,
        })
    }

    /// The private data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let octets = Octets {
            mark: match self.is_unreliable {
                false => RELIABLE,
                true => UNRELIABLE,
            },
            version: VERSION,
            from: self.from.into(),
            to: self.to.into(),
            from_gid: self.from_gid,
            to_gid: self.to_gid,
        };
        octets.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        Call {
            is_unreliable: false,
            from: 0xC0_0001,
            to: 0xC0_0102,
            from_gid: [1; 16],
            to_gid: [2; 16],
        }
    }

    #[test]
    fn what_was_encoded_is_parsed() {
        let octets = call().encode();
        assert_eq!(octets[..4], *b"QPN\x02");
        assert_eq!(octets[4..12], [0, 0xC0, 0, 1, 0, 0xC0, 1, 2]);
        assert_eq!(Call::parse(&octets), Ok(call()));
        let unreliable = Call {
            is_unreliable: true,
            ..call()
        };
        assert_eq!(unreliable.encode()[..4], *b"QPU\x02");
        assert_eq!(Call::parse(&unreliable.encode()), Ok(unreliable));
    }

    #[test]
    fn anything_else_is_no_call() {
        let good = call().encode();
        for length in [0, 3, 43] {
            assert_eq!(Call::parse(&good[..length]), Err(CallError::Foreign));
        }
        assert_eq!(
            Call::parse(&[&good[..], &[0]].concat()),
            Err(CallError::Foreign)
        );
        let changed = |at: usize, octet: u8| {
            let mut octets = good.clone();
            octets[at] = octet;
            Call::parse(&octets)
        };
        assert_eq!(changed(0, b'q'), Err(CallError::Foreign));
        assert_eq!(changed(3, 1), Err(CallError::Version(1)));
        assert_eq!(changed(4, 1), Err(CallError::Number(0x1C0_0001)));
        assert_eq!(changed(8, 9), Err(CallError::Number(0x9C0_0102)));
    }
}
