//! The protocol of `nd cat`, version 3. Integers are big-endian.
//!
//! # Set-up
//!
//! The sender connects with an [`Offer`] as private data. The receiver accepts with an [`Answer`] or rejects with a
//! [`Refusal`], whose text the sender shows. All three begin with the same fields in every version, so that each version
//! can refuse every other:
//!
//! | octets | field |
//! |---|---|
//! | 8 | magic, `ND cat\r\n` |
//! | 2 | version of the protocol |
//! | 1 | 1 offer, 2 answer, 3 refusal |
//!
//! An offer goes on with mode (1: 1 send, 2 write, 3 read), block length (4), number of blocks (4), size (8), ring address (8) and ring
//! token (4). The size is that of the file, all ones if unknown: the sender sends exactly this many octets or gives up, and the receiver
//! ends a transfer that is longer or shorter. An answer repeats mode, block length and number of blocks, the latter two as offered or
//! smaller (in mode read: as offered), then ring address and token. A refusal goes on with a reserved octet and UTF-8 text. The ring is the
//! advertised memory, *number of blocks* times *block length* octets: the receiver's in mode write, the sender's in mode read; in mode send
//! both fields are 0.
//!
//! # Transfer
//!
//! The file is cut into blocks of at most the block length, and at least one octet. Block *i* uses slot *i* mod *number of
//! blocks*. A slot is used again only after the receiver has freed it, so that there is always room for what is sent. Each
//! side keeps enough Receives posted for everything that the other may send: one message per slot and two more. Messages:
//!
//! | kind | from | meaning |
//! |---|---|---|
//! | 1 data | sender | the block in this slot follows in this message (mode send) |
//! | 2 written | sender | the block has been written to its slot of the receiver's ring (mode write) |
//! | 3 ready | sender | the block can be read from its slot of the sender's ring (mode read) |
//! | 4 free | receiver | the slot may be used again |
//! | 5 end | sender | the whole file was sent; its length and SHA-256 |
//! | 6 verdict | receiver | the whole file has arrived under its final name; its length and SHA-256 |
//! | 7 abort | both | this side gives up; the reason in UTF-8 |
//!
//! Each has a header of 16 octets: kind (1), reserved (3), slot (4), and length (8) of the block, the file or the text. End
//! and verdict are followed by the digest (32). The sender disconnects after the verdict; both then know that the digests
//! are equal.

use netdirect::{RemoteAddress, RemoteToken};

use super::args::Via;

const MAGIC: [u8; 8] = *b"ND cat\r\n";

/// The version of this program.
pub(crate) const VERSION: u16 = 3;

const OFFER: u8 = 1;
const ANSWER: u8 = 2;
const REFUSAL: u8 = 3;

/// Octets in front of a block or a digest.
pub(crate) const HEADER: usize = 16;

/// Octets of the longest message that is not data.
pub(crate) const MAX_MESSAGE: usize = 256;

/// The largest block and the most blocks to which a receiver agrees. This bounds its memory.
pub(crate) const MAX_BLOCK: u32 = 1 << 20;
pub(crate) const MAX_BLOCKS: u32 = 64;
pub(crate) const MAX_RING: u64 = 16 << 20;

/// Means that the size is unknown.
const UNKNOWN: u64 = u64::MAX;

/// Text in a refusal or an abort is cut to this.
const MAX_TEXT: usize = 200;

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// The proposal of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) via: Via,
    pub(crate) shape: Shape,
    /// The size of the file, if it is known.
    pub(crate) size: Option<u64>,
    /// The sender's ring, in mode read.
    pub(crate) ring: RemoteAddress,
}

/// The block length and the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) block: u32,
    pub(crate) blocks: u32,
}

impl Shape {
    /// Octets in a ring.
    pub(crate) fn octets(self) -> u64 {
        u64::from(self.block) * u64::from(self.blocks)
    }

    /// Returns true if this side can serve this shape within its limits.
    pub(crate) fn is_sound(self) -> bool {
        (1..=MAX_BLOCK).contains(&self.block)
            && (1..=MAX_BLOCKS).contains(&self.blocks)
            && self.octets() <= MAX_RING
    }

    /// The smaller of each.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            block: self.block.min(other.block),
            blocks: self.blocks.min(other.blocks),
        }
    }

    fn within(self, other: Self) -> bool {
        self.block <= other.block && self.blocks <= other.blocks
    }
}

/// The agreement of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) via: Via,
    pub(crate) shape: Shape,
    /// The receiver's ring, in mode write.
    pub(crate) ring: RemoteAddress,
}

/// Why the receiver does not want the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
}

impl Offer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = preamble(OFFER, mode(self.via));
        out.extend(self.shape.block.to_be_bytes());
        out.extend(self.shape.blocks.to_be_bytes());
        out.extend(self.size.unwrap_or(UNKNOWN).to_be_bytes());
        out.extend(self.ring.to_bytes());
        out
    }

    /// Reads an offer; the error is the reason for the refusal.
    pub(crate) fn decode(octets: &[u8]) -> Result<Self, String> {
        let (mut rest, mode) = open(octets, OFFER)?;
        let offer = (|| {
            let via = rest.u8().and_then(|_| via(mode))?;
            let shape = Shape {
                block: rest.u32()?,
                blocks: rest.u32()?,
            };
            Some(Self {
                via,
                shape,
                size: rest.u64().map(|size| (size != UNKNOWN).then_some(size))?,
                ring: rest.remote()?,
            })
        })();
        let offer = offer.ok_or("the offer cannot be read, or names an unknown mode")?;
        if offer.shape.is_sound() {
            Ok(offer)
        } else {
            Err("the offer asks for too much memory, or none".to_owned())
        }
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = preamble(ANSWER, mode(self.via));
        out.extend(self.shape.block.to_be_bytes());
        out.extend(self.shape.blocks.to_be_bytes());
        out.extend(self.ring.to_bytes());
        out
    }

    /// Reads the answer to `offer`. An answer that exceeds the offer is refused, and the reason is returned.
    pub(crate) fn decode(octets: &[u8], offer: &Offer) -> Result<Self, String> {
        let (mut rest, mode) = open(octets, ANSWER)?;
        let answer = (|| {
            let via = rest.u8().and_then(|_| via(mode))?;
            let shape = Shape {
                block: rest.u32()?,
                blocks: rest.u32()?,
            };
            Some(Self {
                via,
                shape,
                ring: rest.remote()?,
            })
        })();
        let answer = answer.ok_or("the answer cannot be read")?;
        let fixed = offer.via != Via::Read || answer.shape == offer.shape;
        if answer.via == offer.via
            && answer.shape.is_sound()
            && answer.shape.within(offer.shape)
            && fixed
        {
            Ok(answer)
        } else {
            Err("the answer does not fit the offer".to_owned())
        }
    }
}

impl Refusal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = preamble(REFUSAL, 0);
        out.extend(cut(&self.reason));
        out
    }

    /// The text of a refusal. `None` if this is not a refusal of any version.
    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let (magic, rest) = octets.split_first_chunk::<8>()?;
        match rest {
            [_, _, REFUSAL, _, text @ ..] if *magic == MAGIC => Some(Self {
                reason: lossy(text),
            }),
            _ => None,
        }
    }
}

fn preamble(kind: u8, mode: u8) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_be_bytes());
    out.extend([kind, mode]);
    out
}

/// Checks the fields with which all private data begins. Returns the mode, and the octets behind it.
fn open(octets: &[u8], kind: u8) -> Result<(Input<'_>, u8), String> {
    let mut input = Input(octets);
    if input.take::<8>() != Some(MAGIC) {
        return Err("the peer is not `nd cat`".to_owned());
    }
    match input.u16() {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "this side speaks version {VERSION} of the protocol, not {other}"
            ));
        }
        None => return Err("the private data ends too soon".to_owned()),
    }
    match input.0 {
        [found, mode, ..] if *found == kind => {
            let mode = *mode;
            input.u8();
            Ok((input, mode))
        }
        _ => Err("the private data is of another kind".to_owned()),
    }
}

fn mode(via: Via) -> u8 {
    match via {
        Via::Send => 1,
        Via::Write => 2,
        Via::Read => 3,
    }
}

fn via(mode: u8) -> Option<Via> {
    match mode {
        1 => Some(Via::Send),
        2 => Some(Via::Write),
        3 => Some(Via::Read),
        _ => None,
    }
}

/// A message of the transfer. For `Data` this is only the header; the block lies behind the header in the Receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A block in mode send.
    Data(Block),
    /// A block in mode write.
    Written(Block),
    /// A block in mode read.
    Ready(Block),
    /// The slot may be used again.
    Free(u32),
    /// The whole file was sent.
    End(Whole),
    /// The whole file has arrived.
    Verdict(Whole),
    /// The other side gives up.
    Abort(String),
}

/// A piece of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) slot: u32,
    pub(crate) length: u32,
}

/// The whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) length: u64,
    pub(crate) digest: Digest,
}

impl Message {
    /// The octets of the message. For `Data` the octets of the header.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Data(block) => header(1, block.slot, block.length.into()),
            Self::Written(block) => header(2, block.slot, block.length.into()),
            Self::Ready(block) => header(3, block.slot, block.length.into()),
            Self::Free(slot) => header(4, *slot, 0),
            Self::End(whole) => [&header(5, 0, whole.length)[..], &whole.digest].concat(),
            Self::Verdict(whole) => [&header(6, 0, whole.length)[..], &whole.digest].concat(),
            Self::Abort(text) => [&header(7, 0, cut(text).len() as u64)[..], cut(text)].concat(),
        }
    }

    /// Reads a message of `total` octets, of which `octets` are the first, up to [`MAX_MESSAGE`]. `None` if the lengths
    /// contradict each other.
    pub(crate) fn decode(octets: &[u8], total: u32) -> Option<Self> {
        let mut input = Input(octets);
        let [kind, 0, 0, 0] = input.take()? else {
            return None;
        };
        let (slot, length) = (input.u32()?, input.u64()?);
        let behind = u64::from(total).checked_sub(HEADER as u64)?;
        let block = || {
            Some(Block {
                slot,
                length: u32::try_from(length).ok()?,
            })
        };
        let message = match (kind, behind) {
            (1, n) if n == length => Self::Data(block()?),
            (2, 0) => Self::Written(block()?),
            (3, 0) => Self::Ready(block()?),
            (4, 0) if length == 0 => Self::Free(slot),
            (5, 32) if slot == 0 => Self::End(Whole {
                length,
                digest: input.take()?,
            }),
            (6, 32) if slot == 0 => Self::Verdict(Whole {
                length,
                digest: input.take()?,
            }),
            (7, n) if slot == 0 && n == length && n == input.0.len() as u64 => {
                Self::Abort(lossy(input.0))
            }
            _ => return None,
        };
        Some(message)
    }
}

fn header(kind: u8, slot: u32, length: u64) -> Vec<u8> {
    let mut out = vec![kind, 0, 0, 0];
    out.extend(slot.to_be_bytes());
    out.extend(length.to_be_bytes());
    out
}

/// At most [`MAX_TEXT`] octets of whole characters.
fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..boundary(text)]
}

/// The end of the last whole character within [`MAX_TEXT`].
fn boundary(text: &str) -> usize {
    (0..=text.len().min(MAX_TEXT))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn lossy(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text[..boundary(&text)].to_owned()
}

/// Octets from the peer, taken from the front.
#[derive(Clone, Copy)]
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[octet]| octet)
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

    fn remote(&mut self) -> Option<RemoteAddress> {
        self.take().map(RemoteAddress::from_bytes)
    }
}

/// The ring fields of mode send, and of the side that advertises nothing.
pub(crate) const NO_RING: RemoteAddress = RemoteAddress {
    address: 0,
    token: RemoteToken(0),
};

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
