//! The environment of an adapter: the system, with its clock and descriptors, or a simulated world.

use std::io;
use std::time::Instant;

use crate::progress::Set;
#[cfg(unix)]
use crate::progress::readiness::event_descriptor::EventDescriptor;
use crate::progress::vain_polls;
use crate::transport::sim::World;

/// The source of the time, readiness and random numbers of an adapter.
#[derive(Clone, Debug, Default)]
pub enum Environment {
    /// The system that the process runs on.
    #[default]
    System,
    /// A simulated world.
    Sim(World),
}

impl Environment {
    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Sim(world) => world.now(),
        }
    }

    /// An empty set of sources.
    ///
    /// # Errors
    ///
    /// Those of [`Set::of_system`], and those of the system when it has no descriptors or memory left.
    pub fn set(&self) -> io::Result<Set> {
        match self {
            Self::System => Set::of_system(),
            Self::Sim(world) => Ok(Set::of_world(world)),
        }
    }

    /// A descriptor by which a program learns that an event waits for it.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    #[cfg(unix)]
    pub fn event_descriptor(&self) -> io::Result<EventDescriptor> {
        match self {
            Self::System => EventDescriptor::of_system(),
            Self::Sim(_) => Ok(EventDescriptor::simulated()),
        }
    }

    /// A random number: an unpredictable one, or, in a simulated world, one that follows from its seed.
    ///
    /// # Errors
    ///
    /// Those of the system's source of random numbers.
    pub fn random(&self) -> io::Result<u64> {
        match self {
            Self::System => getrandom::u64().map_err(io::Error::from),
            Self::Sim(world) => Ok(world.random()),
        }
    }

    /// The simulated world, if the environment is one.
    pub fn world(&self) -> Option<&World> {
        match self {
            Self::System => None,
            Self::Sim(world) => Some(world),
        }
    }

    /// Called by a poll that has found nothing. If the process has one processor, other threads get it now and then
    /// ([`vain_polls`]). In a simulated world the next event happens, because only polls and waits move the world's clock.
    #[inline]
    pub fn polled_in_vain(&self) {
        match self {
            Self::System => vain_polls::polled_in_vain(),
            Self::Sim(world) => {
                world.step();
            }
        }
    }
}
