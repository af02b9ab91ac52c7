//! Completion queues with entries that the owner defines: the [`Queue`], its ring, the faults that a plan has for it, and the results of a
//! queue of requests that were not taken yet. From a [`RemovableQueue`] results can be removed. A [`Poller`] drives streams when a queue is
//! polled.
//!
//! By the trait [`Entry`] the owner defines how an entry is stored, and which entries are solicited. A queue ends with a [`Reason`], a
//! number that only the owner interprets.

mod entry;
mod planned_faults;
mod poller;
mod queue;
mod removable;
mod ring;
mod untaken;

#[cfg(test)]
mod test_entry;

pub use entry::{Entry, NotifyOn, Reason, Word};
pub use planned_faults::PlannedFaults;
pub use poller::{Poller, QueueUser, QueueUsers};
pub use queue::{CompletedNotifies, Queue};
pub use removable::RemovableQueue;
pub use ring::{CannotResize, GREATEST_DEPTH};
pub use untaken::{Untaken, each_run};
