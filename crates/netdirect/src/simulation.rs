//! Providers that run in simulated time.

use std::fmt::Debug;
use std::time::Instant;

use crate::Result;

/// The time of the simulation that a provider runs in, from [`OverlappedFile::simulation`](crate::OverlappedFile::simulation). A simulation
/// has its own clock, and nothing happens in it except during calls.
///
/// Every wait in this crate moves the simulation: waits on an [`Overlapped`](crate::Overlapped), an [`Event`](crate::Event)
/// or a [`CompletionPort`](crate::CompletionPort), and polls of a future. Time limits of waits are in the simulation's time.
/// A wait that nothing in the simulation can end does not hang: it ends with
/// [`POSSIBLE_DEADLOCK`](crate::Status::POSSIBLE_DEADLOCK).
///
/// The provider's own type for a network, such as softnd's `simulation::Simulation`, has more: it makes adapters, and changes what
/// the network does.
pub trait SimulatedTime: Debug + Send + Sync {
    /// The simulation's time.
    fn now(&self) -> Instant;

    /// Moves the simulation to its next event, or to `until` if that comes first.
    ///
    /// # Errors
    ///
    /// [`POSSIBLE_DEADLOCK`](crate::Status::POSSIBLE_DEADLOCK): no event is left. Another status if the calling thread may not
    /// move the simulation.
    fn step(&self, until: Option<Instant>) -> Result<()>;

    /// Makes this time an event of the simulation, which no step passes over. Returns a number for [`clear_alarm`](Self::clear_alarm). A
    /// time that has passed is no longer an event.
    fn set_alarm(&self, at: Instant) -> u64;

    /// Takes back an event of [`set_alarm`](Self::set_alarm). Does nothing if its time has passed.
    fn clear_alarm(&self, alarm: u64);
}
