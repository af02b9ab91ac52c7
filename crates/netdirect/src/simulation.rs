//! Providers that run in simulated time.

use std::fmt::Debug;
use std::time::Instant;

use crate::Result;

/// The simulation that a provider runs in. A simulation has a clock of its own, and nothing happens in it except during calls.
///
/// Every wait in this crate moves the simulation: waits on an [`Overlapped`](crate::Overlapped), an [`Event`](crate::Event)
/// or a [`CompletionPort`](crate::CompletionPort), and polls of a future. Time limits of waits are in the simulation's time.
/// A wait that nothing in the simulation can end does not hang: it ends with
/// [`POSSIBLE_DEADLOCK`](crate::Status::POSSIBLE_DEADLOCK).
pub trait Simulation: Debug + Send + Sync {
    /// The simulation's time.
    fn now(&self) -> Instant;

    /// Moves the simulation to its next event, or to `until` if that comes first.
    ///
    /// # Errors
    ///
    /// [`POSSIBLE_DEADLOCK`](crate::Status::POSSIBLE_DEADLOCK): no event is left. Another status if the calling thread may not
    /// move the simulation.
    fn step(&self, until: Option<Instant>) -> Result<()>;
}
