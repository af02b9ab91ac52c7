//! Providers that run in simulated time.

use std::fmt::Debug;
use std::time::Instant;

use crate::Result;

/// The time of the simulation that a provider runs in, from [`OverlappedFile::simulation`](crate::OverlappedFile::simulation). A
/// simulation has a clock of its own, and nothing happens in it except during calls.
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

    /// Makes this time an event of the simulation, which no step passes over. Returns a number for
    /// [`clear_alarm`](Self::clear_alarm). A time that has come is no event.
    fn set_alarm(&self, at: Instant) -> u64;

    /// Takes an event back that [`set_alarm`](Self::set_alarm) has made. Nothing happens if its time has come.
    fn clear_alarm(&self, alarm: u64);
}
