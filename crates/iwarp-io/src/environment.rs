//! The environment of an adapter: the system, with its clock and descriptors, or a simulated world.

use std::io;
use std::time::Instant;

use crate::simulation::World;
use crate::vain_polls;

/// The source of the time and the random numbers of an adapter. Its sets are [`Set::in_environment`](crate::progress::Set::in_environment) this.
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
