//! A batch for tests.

use std::collections::VecDeque;
use std::ops::Range;

use iwarp::{PieceRef, Revoked, Span};

use super::Outgoing;

/// A batch like the engine's, filled by hand.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: VecDeque<(Part, bool)>,
    pub(crate) cut: bool,
    pub(crate) abandoned: bool,
}

pub(crate) enum Part {
    Bytes(Range<usize>),
    Payload(Span),
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(range) => range.len(),
            Self::Payload(span) => span.len() as usize,
        }
    }

    fn skip(&mut self, octets: usize) {
        match self {
            Self::Bytes(range) => range.start += octets,
            Self::Payload(span) => {
                let octets = u32::try_from(octets).unwrap();
                *span = span.slice(octets, span.len() - octets);
            }
        }
    }
}

impl Batch {
    pub(crate) fn push_bytes(&mut self, octets: &[u8], last: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(octets);
        self.parts
            .push_back((Part::Bytes(start..self.bytes.len()), last));
    }

    pub(crate) fn push_payload(&mut self, span: Span, last: bool) {
        self.parts.push_back((Part::Payload(span), last));
    }

    /// No piece of a cut FPDU is in registered memory.
    pub(crate) fn cut_is_private(&self) -> bool {
        let mut rest = self.parts.iter().take_while(|(_, last)| !last);
        let last = self.parts.iter().find(|(_, last)| *last);
        let private = |(part, _): &(Part, bool)| matches!(part, Part::Bytes(_));
        !self.cut || (rest.all(private) && last.is_none_or(private))
    }
}

impl Outgoing for Batch {
    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn pieces(&self) -> impl Iterator<Item = (PieceRef<'_>, bool)> {
        self.parts.iter().map(|(part, last)| match part {
            Part::Bytes(range) => (PieceRef::Bytes(&self.bytes[range.clone()]), *last),
            Part::Payload(span) => (PieceRef::Payload(*span), *last),
        })
    }

    fn whole_crcs(&self, _segment: u32) -> u64 {
        u64::MAX
    }

    fn advance(&mut self, octets: u64) {
        let mut octets = usize::try_from(octets).unwrap();
        while let Some((part, last)) = self.parts.front_mut() {
            if octets < part.len() {
                part.skip(octets);
                self.cut |= octets > 0;
                return;
            }
            octets -= part.len();
            self.cut = !*last;
            self.parts.pop_front();
        }
        assert_eq!(octets, 0, "advanced by more than there was");
    }

    fn revoke(&mut self) {
        assert!(!self.cut);
        self.parts.clear();
    }

    fn abandon(&mut self) {
        self.parts.clear();
        self.abandoned = true;
    }

    fn head_is_cut(&self) -> bool {
        self.cut
    }

    fn make_head_private(
        &mut self,
        mut fetch: impl FnMut(Span, &mut [u8]) -> Result<(), Revoked>,
    ) -> Result<(), Revoked> {
        for (part, last) in &mut self.parts {
            if let Part::Payload(span) = *part {
                let start = self.bytes.len();
                self.bytes.resize(start + span.len() as usize, 0);
                fetch(span, &mut self.bytes[start..])?;
                *part = Part::Bytes(start..self.bytes.len());
            }
            if *last {
                break;
            }
        }
        Ok(())
    }
}
