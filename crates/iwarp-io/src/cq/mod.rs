//! Completion queues over entries of the owner's: the [`Queue`], its ring, and results that a fault plan holds back.
//!
//! The owner says by the trait [`Entry`] how an entry is stored, and which entries are solicited. Why a queue ends is a
//! [`Reason`], a number that means something to the owner alone.

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
