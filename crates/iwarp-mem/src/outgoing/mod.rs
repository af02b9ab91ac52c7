//! What is sent: a batch of the engine, or one that a test has filled by hand.

use iwarp::{PieceRef, Revoked, Span, TxBatch};

/// The operations of a batch.
pub(crate) trait Outgoing {
    fn is_empty(&self) -> bool;
    /// See [`TxBatch::octets`].
    fn octets(&self) -> Option<&[u8]> {
        None
    }
    fn pieces(&self) -> impl Iterator<Item = (PieceRef<'_>, bool)>;
    /// See [`TxBatch::whole_crcs`].
    fn whole_crcs(&self, segment: u32) -> u64;
    fn advance(&mut self, octets: u64);
    fn revoke(&mut self);
    fn abandon(&mut self);
    fn head_is_cut(&self) -> bool;
    fn make_head_private(
        &mut self,
        fetch: impl FnMut(Span, &mut [u8]) -> Result<(), Revoked>,
    ) -> Result<(), Revoked>;
}

impl Outgoing for TxBatch {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn octets(&self) -> Option<&[u8]> {
        Self::octets(self)
    }

    fn pieces(&self) -> impl Iterator<Item = (PieceRef<'_>, bool)> {
        Self::pieces(self)
    }

    fn whole_crcs(&self, segment: u32) -> u64 {
        Self::whole_crcs(self, segment)
    }

    fn advance(&mut self, octets: u64) {
        Self::advance(self, octets);
    }

    fn revoke(&mut self) {
        Self::revoke(self);
    }

    fn abandon(&mut self) {
        Self::abandon(self);
    }

    fn head_is_cut(&self) -> bool {
        Self::head_is_cut(self)
    }

    fn make_head_private(
        &mut self,
        fetch: impl FnMut(Span, &mut [u8]) -> Result<(), Revoked>,
    ) -> Result<(), Revoked> {
        Self::make_head_private(self, fetch)
    }
}

#[cfg(all(test, not(any(loom, miri))))]
pub(crate) mod by_hand;
