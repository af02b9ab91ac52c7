//! Providers whose time is not the system's.

use std::fmt::Debug;
use std::time::Instant;

use crate::Result;

/// The world of a provider that lives in a simulation: it has a clock of its own, and stands still unless somebody moves it.
///
/// Everything in this crate that waits moves it: [`Overlapped`](crate::Overlapped), [`Event`](crate::Event),
/// [`CompletionPort`](crate::CompletionPort) and futures. Their time limits are limits in the simulation's time. A wait that
/// nothing in the simulation can ever end does not hang: it ends with
/// [`POSSIBLE_DEADLOCK`](crate::Status::POSSIBLE_DEADLOCK).
pub trait Simulation: Debug + Send + Sync {
    /// The simulation's time.
    fn now(&self) -> Instant;

    /// Lets the next thing happen.
    ///
    /// # Errors
    ///
    /// [`POSSIBLE_DEADLOCK`](crate::Status::POSSIBLE_DEADLOCK): nothing is left that could happen by itself. Another status
    /// when the calling thread may not move the simulation.
    fn step(&self) -> Result<()>;
}
