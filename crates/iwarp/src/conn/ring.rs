//! Rings of a power of two of slots. Positions only grow.

use std::collections::TryReserveError;
use std::fmt;

use zerocopy::FromZeros as _;

/// There is no memory for the queues of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no memory for the queues")
    }
}

impl std::error::Error for OutOfMemory {}

impl From<TryReserveError> for OutOfMemory {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

/// `count` times `each` copies of a value.
pub(super) fn filled<T: Copy>(
    value: T,
    count: usize,
    each: usize,
) -> Result<Box<[T]>, OutOfMemory> {
    let length = count.checked_mul(each).ok_or(OutOfMemory)?;
    let mut list = Vec::new();
    list.try_reserve_exact(length)?;
    list.resize(length, value);
    Ok(list.into())
}

/// `count` times `each` zeros, which the system has not given memory for before they are written to.
pub(super) fn zeros(count: usize, each: usize) -> Result<Box<[u8]>, OutOfMemory> {
    let length = count.checked_mul(each).ok_or(OutOfMemory)?;
    <[u8]>::new_box_zeroed_with_elems(length).map_err(|_| OutOfMemory)
}

/// Slots for a queue of this depth: a power of two, so that no access to a request costs a division.
pub(super) const fn slots_for(depth: u32) -> usize {
    (depth as usize).next_power_of_two()
}

/// The slot of a position in a ring of this many slots.
#[expect(clippy::cast_possible_truncation, reason = "below a usize")]
pub(super) const fn slot_of(at: u64, slots: usize) -> usize {
    at as usize & (slots - 1)
}
