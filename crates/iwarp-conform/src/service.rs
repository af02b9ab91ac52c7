//! The Send protocol by which a target offers memory and takes commands. `docs/check/iwarp-stack.md` describes it octet by
//! octet.
//!
//! Every message is one Send that begins with [`MAGIC`] and [`VERSION`], big-endian throughout. A Send that begins
//! otherwise is test data, which the target counts and does not answer. Private Data of the suite can carry a [`Wish`] in
//! the same form.

use crate::wire::crc32c;

/// The first four octets of every message.
pub const MAGIC: [u8; 4] = *b"iWcf";
/// The fifth octet.
pub const VERSION: u8 = 1;
/// Octets of a message that are not its body.
pub const HEADER: usize = 8;
/// Octets of a region in an [`Offer`].
pub const REGION: usize = 24;
/// Octets of the longest answer to [`Command::Peek`].
pub const LONGEST_PEEK: u16 = 512;

/// Octet `i` of the data that a target sends or writes on command.
pub fn pattern(at: usize) -> u8 {
    // A remainder of 251 fits.
    u8::try_from(at % 251).unwrap_or(0)
}

/// The first `length` octets of the pattern.
pub fn pattern_of(length: usize) -> Vec<u8> {
    (0..length).map(pattern).collect()
}

/// A command of the suite to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answer with the [`Offer`].
    Hello,
    /// Send the body back, without any header.
    Echo(Vec<u8>),
    /// Send one message of this many octets of the pattern, without any header.
    Emit {
        /// Octets.
        length: u32,
        /// Whether to use a Send with Solicited Event.
        solicited: bool,
    },
    /// Write the pattern to the suite's memory, then answer [`Answer::Done`].
    Write {
        /// Where.
        stag: u32,
        /// Where.
        to: u64,
        /// Octets.
        length: u32,
    },
    /// Read from the suite's memory, `count` times at once, then answer [`Answer::Done`] with the CRC32c of the last data.
    Read {
        /// From where.
        stag: u32,
        /// From where.
        to: u64,
        /// Octets, each time.
        length: u32,
        /// How often.
        count: u16,
    },
    /// Fill a region with an octet, then answer [`Answer::Done`].
    Fill {
        /// Index in the offer.
        region: u16,
        /// The octet.
        octet: u8,
    },
    /// Answer with octets of a region.
    Peek {
        /// Index in the offer.
        region: u16,
        /// From where in the region.
        offset: u64,
        /// Octets, at most [`LONGEST_PEEK`].
        length: u16,
    },
    /// Answer with a report on test data of this connection.
    Report,
    /// Answer [`Answer::Done`], and post no further Receive on this connection, also for this command.
    Hold,
    /// Disconnect in good order, without an answer.
    Close,
    /// Emit, then disconnect in good order at once.
    EmitAndClose {
        /// Octets.
        length: u32,
    },
}

/// A message of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to [`Command::Hello`], and the first message of a target that connects, which sends it unasked.
    Offer(Offer),
    /// The command was carried out, with its result if it has one.
    Done(u32),
    /// To [`Command::Peek`].
    Octets(Vec<u8>),
    /// To [`Command::Report`].
    Report(Report),
}

/// The offer of a target on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Receives that the target keeps posted.
    pub receives: u32,
    /// Octets of each Receive.
    pub receive_size: u32,
    /// Octets of Private Data that came with the connection.
    pub private_length: u32,
    /// Their CRC32c.
    pub private_crc: u32,
    /// Reads that the target may serve.
    pub ird: u16,
    /// Reads that the target may issue.
    pub ord: u16,
    /// Memory.
    pub regions: Vec<Region>,
}

/// Memory that a target offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The kind of the region.
    pub kind: RegionKind,
    /// The peer may read it.
    pub read: bool,
    /// The peer may write it.
    pub write: bool,
    /// The STag of the region.
    pub stag: u32,
    /// TO of its first octet.
    pub to: u64,
    /// Octets.
    pub length: u64,
}

/// The kind of memory behind a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Memory that all connections of the target share, and that stays while it runs.
    Shared,
    /// Memory of this connection that the peer may invalidate.
    Window,
}

/// Test data that came on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages that were not commands.
    pub messages: u32,
    /// Octets of the last one.
    pub length: u32,
    /// CRC32c of the last one.
    pub crc: u32,
}

/// The wishes of the suite to a listening target, in Private Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Reject the connection, with [`REJECTION`] as Private Data.
    Reject,
    /// Send the offer unasked, as soon as the connection is accepted.
    SpeakFirst,
}

/// Private Data of a rejection on demand.
pub const REJECTION: &[u8] = b"iWcf rejected as asked";

impl Wish {
    /// Encodes the wish as Private Data.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let kind = match self {
            Self::Reject => 0x41,
            Self::SpeakFirst => 0x42,
        };
        header(kind)
    }

    /// Returns the wish in this Private Data, if there is one.
    pub fn parse(private: &[u8]) -> Option<Self> {
        match split(private)?.0 {
            0x41 => Some(Self::Reject),
            0x42 => Some(Self::SpeakFirst),
            _ => None,
        }
    }
}

fn header(kind: u8) -> [u8; HEADER] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, VERSION, kind, 0, 0]
}

/// The kind and the body of a message; `None` for test data.
fn split(message: &[u8]) -> Option<(u8, &[u8])> {
    let (&[a, b, c, d, version, kind, _, _], body) = message.split_first_chunk()?;
    ([a, b, c, d] == MAGIC && version == VERSION).then_some((kind, body))
}

/// Takes big-endian numbers off the front of a body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (octets, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*octets)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

impl Command {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let message = |kind: u8, parts: &[&[u8]]| {
            let mut octets = header(kind).to_vec();
            parts.iter().for_each(|part| octets.extend(*part));
            octets
        };
        match self {
            Self::Hello => message(0x01, &[]),
            Self::Echo(body) => message(0x02, &[body]),
            Self::Emit { length, solicited } => {
                message(0x03, &[&length.to_be_bytes(), &[u8::from(*solicited)]])
            }
            Self::Write { stag, to, length } => message(
                0x04,
                &[
                    &stag.to_be_bytes(),
                    &to.to_be_bytes(),
                    &length.to_be_bytes(),
                ],
            ),
            Self::Read {
                stag,
                to,
                length,
                count,
            } => message(
                0x05,
                &[
                    &stag.to_be_bytes(),
                    &to.to_be_bytes(),
                    &length.to_be_bytes(),
                    &count.to_be_bytes(),
                ],
            ),
            Self::Fill { region, octet } => message(0x06, &[&region.to_be_bytes(), &[*octet]]),
            Self::Peek {
                region,
                offset,
                length,
            } => message(
                0x07,
                &[
                    &region.to_be_bytes(),
                    &offset.to_be_bytes(),
                    &length.to_be_bytes(),
                ],
            ),
            Self::Report => message(0x08, &[]),
            Self::Hold => message(0x09, &[]),
            Self::Close => message(0x0A, &[]),
            Self::EmitAndClose { length } => message(0x0B, &[&length.to_be_bytes()]),
        }
    }

    /// From a message; `None` for test data, and for commands that are unknown or cut short.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (kind, body) = split(message)?;
        let mut rest = Body(body);
        Some(match kind {
            0x01 => Self::Hello,
            0x02 => Self::Echo(body.to_vec()),
            0x03 => Self::Emit {
                length: rest.u32()?,
                solicited: rest.u8()? != 0,
            },
            0x04 => Self::Write {
                stag: rest.u32()?,
                to: rest.u64()?,
                length: rest.u32()?,
            },
            0x05 => Self::Read {
                stag: rest.u32()?,
                to: rest.u64()?,
                length: rest.u32()?,
                count: rest.u16()?,
            },
            0x06 => Self::Fill {
                region: rest.u16()?,
                octet: rest.u8()?,
            },
            0x07 => Self::Peek {
                region: rest.u16()?,
                offset: rest.u64()?,
                length: rest.u16()?,
            },
            0x08 => Self::Report,
            0x09 => Self::Hold,
            0x0A => Self::Close,
            0x0B => Self::EmitAndClose {
                length: rest.u32()?,
            },
            _ => return None,
        })
    }
}

impl Answer {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets;
        match self {
            Self::Offer(offer) => {
                octets = header(0x81).to_vec();
                offer.encode(&mut octets);
            }
            Self::Done(value) => {
                octets = header(0x84).to_vec();
                octets.extend(value.to_be_bytes());
            }
            Self::Octets(body) => {
                octets = header(0x87).to_vec();
                octets.extend(body);
            }
            Self::Report(report) => {
                octets = header(0x88).to_vec();
                for number in [report.messages, report.length, report.crc] {
                    octets.extend(number.to_be_bytes());
                }
            }
        }
        octets
    }

    /// From a message.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (kind, body) = split(message)?;
        let mut rest = Body(body);
        Some(match kind {
            0x81 => Self::Offer(Offer::decode(&mut rest)?),
            0x84 => Self::Done(rest.u32()?),
            0x87 => Self::Octets(body.to_vec()),
            0x88 => Self::Report(Report {
                messages: rest.u32()?,
                length: rest.u32()?,
                crc: rest.u32()?,
            }),
            _ => return None,
        })
    }
}

impl Offer {
    /// Adds the length and the CRC of the received Private Data.
    #[must_use]
    pub fn private(mut self, private: &[u8]) -> Self {
        self.private_length = u32::try_from(private.len()).unwrap_or(u32::MAX);
        self.private_crc = crc32c(private);
        self
    }

    fn encode(&self, octets: &mut Vec<u8>) {
        for number in [
            self.receives,
            self.receive_size,
            self.private_length,
            self.private_crc,
        ] {
            octets.extend(number.to_be_bytes());
        }
        let count = u16::try_from(self.regions.len()).unwrap_or(u16::MAX);
        for number in [self.ird, self.ord, count, 0] {
            octets.extend(number.to_be_bytes());
        }
        for region in self.regions.iter().take(count.into()) {
            let kind = match region.kind {
                RegionKind::Shared => 1,
                RegionKind::Window => 2,
            };
            octets.extend([
                kind,
                u8::from(region.read) | u8::from(region.write) << 1,
                0,
                0,
            ]);
            octets.extend(region.stag.to_be_bytes());
            octets.extend(region.to.to_be_bytes());
            octets.extend(region.length.to_be_bytes());
        }
    }

    fn decode(rest: &mut Body<'_>) -> Option<Self> {
        let mut offer = Self {
            receives: rest.u32()?,
            receive_size: rest.u32()?,
            private_length: rest.u32()?,
            private_crc: rest.u32()?,
            ird: rest.u16()?,
            ord: rest.u16()?,
            regions: Vec::new(),
        };
        let count = rest.u16()?;
        rest.u16()?;
        for _ in 0..count {
            let [kind, rights, _, _] = rest.take()?;
            let region = Region {
                kind: match kind {
                    2 => RegionKind::Window,
                    _ => RegionKind::Shared,
                },
                read: rights & 1 != 0,
                write: rights & 2 != 0,
                stag: rest.u32()?,
                to: rest.u64()?,
                length: rest.u64()?,
            };
            offer.regions.push(region);
        }
        Some(offer)
    }

    /// The first region of a kind with exactly these rights, and its index.
    pub fn region(&self, kind: RegionKind, read: bool, write: bool) -> Option<(u16, Region)> {
        let fits =
            |region: &Region| region.kind == kind && (region.read, region.write) == (read, write);
        let at = self.regions.iter().position(fits)?;
        Some((u16::try_from(at).ok()?, self.regions[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_come_back_as_they_went() {
        let commands = [
            Command::Hello,
            Command::Echo(b"x".to_vec()),
            Command::Emit {
                length: 7,
                solicited: true,
            },
            Command::Write {
                stag: 1,
                to: 2,
                length: 3,
            },
            Command::Read {
                stag: 1,
                to: 2,
                length: 3,
                count: 4,
            },
            Command::Fill {
                region: 1,
                octet: 2,
            },
            Command::Peek {
                region: 1,
                offset: 2,
                length: 3,
            },
            Command::Report,
            Command::Hold,
            Command::Close,
            Command::EmitAndClose { length: 9 },
        ];
        for command in commands {
            let octets = command.encode();
            assert_eq!(Command::decode(&octets), Some(command.clone()));
            for cut in 0..octets.len() {
                let cut = Command::decode(&octets[..cut]);
                assert!(
                    cut.is_none() || matches!(cut, Some(Command::Echo(_))),
                    "{command:?}"
                );
            }
        }
        let offer = Offer {
            receives: 8,
            receive_size: 4096,
            ird: 16,
            ord: 15,
            regions: vec![Region {
                kind: RegionKind::Window,
                read: true,
                write: false,
                stag: 0x0102_0304,
                to: 5,
                length: 6,
            }],
            ..Offer::default()
        }
        .private(b"123456789");
        assert_eq!(offer.private_crc, 0xE306_9283);
        for answer in [
            Answer::Offer(offer),
            Answer::Done(3),
            Answer::Octets(vec![1, 2]),
            Answer::Report(Report {
                messages: 1,
                length: 2,
                crc: 3,
            }),
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn test_data_is_no_command() {
        for data in [&b""[..], b"hello", b"iWcf", b"iWcf\x02\x01\0\0"] {
            assert_eq!(Command::decode(data), None);
        }
        assert_eq!(Wish::parse(&Wish::Reject.to_bytes()), Some(Wish::Reject));
    }
}
