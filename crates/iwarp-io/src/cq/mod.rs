//! Completion queues with entries that the owner defines: the [`Queue`], its ring, and results that a fault plan holds back.
//!
//! By the trait [`Entry`] the owner defines how an entry is stored, and which entries are solicited. A queue ends with a [`Reason`], a
//! number that only the owner interprets.

mod entry;
mod held_results;
mod queue;
mod ring;

#[cfg(test)]
mod test_entry;

pub use entry::{Entry, NotifyOn, Reason, Word};
pub use held_results::HeldResults;
pub use queue::{CompletedNotifies, Queue};
pub use ring::{CannotResize, GREATEST_DEPTH};
