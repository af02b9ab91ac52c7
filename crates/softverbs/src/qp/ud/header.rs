//! The header in front of the octets of a datagram.
//!
//! | octets | contents |
//! |---|---|
//! | 0 and 1 | `UD` |
//! | 2 | the version, 1 |
//! | 3 | flags: 1 a number for the program follows, 2 solicited |
//! | 4 to 7 | the number of the queue pair that sends |
//! | 8 to 11 | the number of the queue pair that receives |
//! | 12 to 15 | the Q_Key |
//! | 16 to 19 | the number for the program, or zeros |

use std::fmt;

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MARK: [u8; 2] = *b"UD";
const VERSION: u8 = 1;
const IMMEDIATE: u8 = 1;
const SOLICITED: u8 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Octets {
    mark: [u8; 2],
    version: u8,
    flags: u8,
    from: U32<BE>,
    to: U32<BE>,
    key: U32<BE>,
    immediate: [u8; 4],
}
const _: () = assert!(size_of::<Octets>() == DatagramHeader::LENGTH);

/// The contents of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// The number of the queue pair that sends.
    pub from: u32,
    /// The number of the queue pair that receives.
    pub to: u32,
    /// The Q_Key.
    pub key: u32,
    /// The number for the program.
    pub immediate: Option<[u8; 4]>,
    /// The peer's completion is a solicited one.
    pub solicited: bool,
}

/// The reason why a datagram has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is not that of a queue pair.
    Foreign,
    /// It has a version that this library does not know.
    Version(u8),
    /// It has flags that do not exist.
    Flags(u8),
    /// A number has more than 24 bits.
    Number(u32),
    /// The message has more octets than InfiniBand's largest MTU.
    Length(usize),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("the datagram does not name queue pairs"),
            Self::Version(version) => write!(
                f,
                "the datagram has version {version} of the header, and this side version {VERSION}"
            ),
            Self::Flags(flags) => write!(f, "the header has flags that do not exist: {flags:#x}"),
            Self::Length(length) => write!(
                f,
                "the message has {length} octets, and a datagram at most {}",
                DatagramHeader::LONGEST
            ),
            Self::Number(number) => write!(f, "{number:#x} is no number of a queue pair"),
        }
    }
}

impl DatagramHeader {
    /// The octets of a header. They fit, with those of UDP and IPv6, into what the MTU of a port leaves of that of its interface.
    pub const LENGTH: usize = 20;

    /// The most octets of a message: InfiniBand's largest MTU.
    pub const LONGEST: usize = 4096;

    /// Reads the header of a datagram. Returns it, and the octets behind it.
    ///
    /// # Errors
    ///
    /// See [`HeaderError`].
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let (octets, rest) = Octets::ref_from_prefix(datagram).map_err(|_| HeaderError::Foreign)?;
        if octets.mark != MARK {
            return Err(HeaderError::Foreign);
        }
        if octets.version != VERSION {
            return Err(HeaderError::Version(octets.version));
        }
        if octets.flags & !(IMMEDIATE | SOLICITED) != 0 {
            return Err(HeaderError::Flags(octets.flags));
        }
        if rest.len() > Self::LONGEST {
            return Err(HeaderError::Length(rest.len()));
        }
        let number = |number: U32<BE>| match number.get() {
            number if number < 1 << 24 => Ok(number),
            number => Err(HeaderError::Number(number)),
        };
        let header = Self {
            from: number(octets.from)?,
            to: number(octets.to)?,
            key: octets.key.get(),
            immediate: (octets.flags & IMMEDIATE != 0).then_some(octets.immediate),
            solicited: octets.flags & SOLICITED != 0,
        };
        Ok((header, rest))
    }

    /// The octets of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let immediate = self.immediate.map_or(0, |_| IMMEDIATE);
        let solicited = match self.solicited {
            true => SOLICITED,
            false => 0,
        };
        let octets = Octets {
            mark: MARK,
            version: VERSION,
            flags: immediate | solicited,
            from: self.from.into(),
            to: self.to.into(),
            key: self.key.into(),
            immediate: self.immediate.unwrap_or_default(),
        };
        zerocopy::transmute!(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> DatagramHeader {
        DatagramHeader {
            from: 0xC0_0001,
            to: 0xC0_0102,
            key: 0x1111_1111,
            immediate: Some([1, 2, 3, 4]),
            solicited: true,
        }
    }

    #[test]
    fn what_was_encoded_is_parsed() {
        let octets = header().encode();
        assert_eq!(octets[..4], *b"UD\x01\x03");
        assert_eq!(octets[4..12], [0, 0xC0, 0, 1, 0, 0xC0, 1, 2]);
        assert_eq!(octets[12..], [0x11, 0x11, 0x11, 0x11, 1, 2, 3, 4]);
        let datagram = [&octets[..], b"hello"].concat();
        assert_eq!(
            DatagramHeader::parse(&datagram),
            Ok((header(), &b"hello"[..]))
        );
        let plain = DatagramHeader {
            immediate: None,
            solicited: false,
            ..header()
        };
        assert_eq!(DatagramHeader::parse(&plain.encode()), Ok((plain, &[][..])));
        assert_eq!(plain.encode()[16..], [0; 4]);
    }

    #[test]
    fn anything_else_is_refused() {
        let good = header().encode();
        for length in 0..DatagramHeader::LENGTH {
            assert_eq!(
                DatagramHeader::parse(&good[..length]),
                Err(HeaderError::Foreign)
            );
        }
        let changed = |at: usize, octet: u8| {
            let mut octets = good;
            octets[at] = octet;
            DatagramHeader::parse(&octets).map(|(header, _)| header)
        };
        assert_eq!(changed(0, b'u'), Err(HeaderError::Foreign));
        assert_eq!(changed(2, 2), Err(HeaderError::Version(2)));
        assert_eq!(changed(3, 4), Err(HeaderError::Flags(4)));
        assert_eq!(changed(4, 1), Err(HeaderError::Number(0x1C0_0001)));
        assert_eq!(changed(8, 9), Err(HeaderError::Number(0x9C0_0102)));
        let mut long = good.to_vec();
        long.resize(DatagramHeader::LENGTH + DatagramHeader::LONGEST, 0);
        assert!(DatagramHeader::parse(&long).is_ok());
        long.push(0);
        assert_eq!(DatagramHeader::parse(&long), Err(HeaderError::Length(4097)));
    }
}
