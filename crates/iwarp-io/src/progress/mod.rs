//! Progress: the choice of the thread that drives a stream, and the sets by which threads learn that streams are ready.
//!
//! The thread that waits is the thread that drives. A poll of a completion queue drives that queue's set. A thread that waits among
//! [`waiters`] drives the control set and the completion queues armed there. The [`background`] thread serves only the domains that no
//! other thread attends. `loom_model` runs all of them over a model of sets.

pub mod background;
mod cpu_placement;
pub mod domain;
pub(crate) mod helping;
pub mod interrupts;
#[cfg(all(test, loom))]
mod loom_model;
pub(crate) mod memberships;
pub mod polling;
pub mod readiness;
pub mod set;
pub mod shared_descriptor;
pub mod timers;
mod tokens;
pub mod turns;
pub mod waiters;

use readiness::BATCH;
pub use readiness::{Edges, Readiness, Ready, Wake, Watch};
pub use set::Set;
