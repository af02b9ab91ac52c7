//! Rings of a power of two of slots. Positions only grow.

/// Slots for a queue of this depth: a power of two, so that no access to a request costs a division.
pub(super) const fn slots_for(depth: u32) -> usize {
    (depth as usize).next_power_of_two()
}

/// The slot of a position in a ring of so many slots.
#[expect(clippy::cast_possible_truncation, reason = "below a usize")]
pub(super) const fn slot_of(at: u64, slots: usize) -> usize {
    at as usize & (slots - 1)
}
