//! An FPDU whose payload goes to its place while the FPDU still arrives (`placement`).

use super::fault::Fault;
use super::terminated::TerminatedHeaders;
use crate::ddp::{Header, Segment, TaggedSegment, UntaggedSegment};
use crate::memory::Span;
use crate::mpa::fpdu;
use crate::rdmap::Opcode;

/// How many octets of payload wait for the end of their FPDU: a word.
pub(super) const KEPT: u32 = 8;

/// An FPDU whose header is here and was checked, and whose payload still arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivingFpdu {
    pub(super) header: Header,
    pub(super) opcode: Opcode,
    /// Octets of the ULPDU.
    pub(super) length: u16,
    /// Octets of payload, and how many of them are in their place.
    pub(super) size: u32,
    pub(super) placed: u32,
    /// The place of a tagged segment. `None` for a Send, which goes to its Receive.
    pub(super) target: Option<Span>,
    /// The rest of the segment is not placed.
    pub(super) is_dropped: bool,
}

impl ArrivingFpdu {
    pub(super) const fn about(&self) -> TerminatedHeaders {
        TerminatedHeaders {
            header: self.header,
            length: self.length,
            read: None,
        }
    }

    pub(super) const fn left(&self) -> u32 {
        self.size - self.placed
    }

    /// Payload that need not wait for the end of the FPDU.
    pub(super) const fn free(&self) -> u32 {
        self.left().saturating_sub(KEPT)
    }

    /// Octets of the FPDU that are still to come.
    pub(super) const fn rest(&self) -> usize {
        let ulpdu = self.length as usize;
        let trailer = fpdu::fpdu_len(ulpdu) - fpdu::HEADER_LEN - ulpdu;
        self.left() as usize + trailer
    }

    /// The next octets of payload as their own segment.
    pub(super) fn piece<'a>(&self, payload: &'a [u8]) -> Result<Segment<'a>, Fault> {
        let ends = payload.len() == self.left() as usize;
        Ok(match self.header {
            Header::Tagged(header) => {
                let whole = TaggedSegment::checked(header, payload)?;
                Segment::Tagged(TaggedSegment {
                    last: whole.last && ends,
                    to: whole.to.wrapping_add(u64::from(self.placed)), // checked not to wrap
                    ..whole
                })
            }
            Header::Untagged(header) => {
                let whole = UntaggedSegment::checked(header, payload)?;
                Segment::Untagged(UntaggedSegment {
                    last: whole.last && ends,
                    mo: whole.mo.wrapping_add(self.placed),
                    ..whole
                })
            }
        })
    }
}
