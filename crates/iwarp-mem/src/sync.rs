//! The atomics of the pin protocol: the standard ones, or loom's when the model is checked.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};

/// Waits a little inside a loop that waits for a few instructions of another thread. It spins at first, because a copy is
/// short. Then it yields the processor, because the other thread may have lost its processor in the middle of a copy.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    #[cfg(not(loom))]
    turns: u32,
}

impl Backoff {
    /// Turns spent spinning before yielding.
    #[cfg(not(loom))]
    const SPINS: u32 = 128;

    /// One turn of waiting.
    #[cfg(not(loom))]
    pub(crate) fn turn(&mut self) {
        if self.turns < Self::SPINS {
            self.turns += 1;
            std::hint::spin_loop();
        } else {
            yield_now();
        }
    }

    /// One turn of waiting. The model only has to know that another thread must run.
    #[cfg(loom)]
    pub(crate) fn turn(&mut self) {
        yield_now();
    }
}
