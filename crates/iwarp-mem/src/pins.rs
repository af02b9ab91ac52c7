//! The pins that hold registered memory while its octets are sent.

use iwarp::{Revoked, Span};
use smallvec::SmallVec;

use crate::table::{Held, Table};

/// As many pins are kept without an allocation.
const PINS: usize = 64;

/// Pins of one call, released when this is dropped. Neighbouring pieces of one region share a pin. There are more than [`PINS`] only for an FPDU of more pieces, and only
/// then this allocates.
pub(crate) struct Pins<'t>(SmallVec<[Held<'t>; PINS]>);

impl<'t> Pins<'t> {
    pub(crate) fn new() -> Self {
        Self(SmallVec::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= PINS
    }

    /// Pins the memory of `at` and returns its address.
    pub(crate) fn pin(&mut self, table: &'t Table, at: Span) -> Result<*mut u8, Revoked> {
        if let Some(held) = self.0.last().filter(|held| held.covers(at)) {
            return held.address(at);
        }
        let held = table.pin(at)?;
        let address = held.address(at)?;
        self.0.push(held);
        Ok(address)
    }

    /// Releases all pins but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// The pin that holds the memory of `at`.
    pub(crate) fn find(&self, at: Span) -> Result<&Held<'t>, Revoked> {
        self.0.iter().find(|held| held.covers(at)).ok_or(Revoked)
    }

    /// The address of pinned memory.
    pub(crate) fn address(&self, at: Span) -> Result<*mut u8, Revoked> {
        self.find(at)?.address(at)
    }

    pub(crate) fn copy_out(&self, at: Span, into: &mut [u8]) -> Result<(), Revoked> {
        self.find(at)?.copy_out(at, into, None)
    }
}
