//! Which sources are ready: sets of them, and how one thread makes a set ready for another.
//!
//! Everything that knows an operating system's readiness interface sits behind [`Readiness`] and [`Wake`]; the rest of the
//! crate sees sets of sources, edges and wake-ups.

#[cfg(target_os = "linux")]
pub mod epoll;
pub mod interface;
pub mod kqueue_rules;
pub mod mio;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::io;
use std::time::Duration;

bitflags::bitflags! {
    /// What became possible on a source since it was last reported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Edges: u8 {
        /// Data, or the peer's end, can be read.
        const READ = 1;
        /// The socket takes data again after a short write, or a connect has finished.
        const WRITE = 2;
        /// The peer has closed or reset: read until the end is seen, a short read does not mean drained.
        const HANGUP = 4;
        /// Somebody left work behind while the source was locked.
        const KICK = 8;
    }
}

/// One ready source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The name under which it was added.
    pub token: u64,
    /// What became possible.
    pub edges: Edges,
}

/// How many sources one call of [`Readiness::wait`] reports at most.
pub const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// A set of sources that can be waited on, and that can itself be a source of another set.
pub trait Readiness: Watch<Self> + Sized {
    /// What a set knows a source by.
    type Id<'a>: Copy;
    /// What makes a set ready from another thread.
    type Waker: Wake<Self>;

    /// An empty set of the same kind.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or memory left.
    fn another(&self) -> io::Result<Self>;
    /// A waker for sets of this kind, which is not ready.
    ///
    /// # Errors
    ///
    /// As [`another`](Self::another).
    fn waker(&self) -> io::Result<Self::Waker>;
    /// Whether a nested set is reported for every event in it, even while no thread has taken the earlier events. Where this
    /// is false, a nested set is reported once, and again only after a thread has waited on it: a thread that learns that
    /// a nested set is ready then has to wait on that set.
    fn reports_untaken(&self) -> bool;
    /// Adds a stream, reported once per edge: for `READ` alone, or for `WRITE` as well. What it is ready for already is
    /// reported too.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a source that is in the set, here and in the other methods that add one; the system's.
    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()>;
    /// Changes what a stream is reported for; readiness is looked at anew.
    ///
    /// # Errors
    ///
    /// `NotFound` for a source that is not in the set, here and in the other methods that need one; the system's.
    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()>;
    /// Adds a source that stays reported for as long as it is ready.
    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Adds a set, reported whenever something becomes ready in it, and at once when something is ready already.
    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Keeps a set added by [`add_set`](Self::add_set) from being reported.
    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Takes [`mute`](Self::mute) back; readiness is looked at anew.
    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Takes a source out.
    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()>;
    /// Waits for at most `limit` (`None`: without limit), calls `each` for what is ready, and returns the number of calls. It
    /// may be 0 before `limit` has passed. A source that can be read and written may be reported by two calls. If another
    /// thread waits on the same set, that thread may be told everything; a call with a limit of zero then returns at once.
    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize>;
}

/// Something that a set can report.
pub trait Watch<S: Readiness> {
    /// What the set knows it by.
    fn id(&self) -> S::Id<'_>;
}

/// Makes sets ready from another thread.
pub trait Wake<S: Readiness>: Watch<S> + Sized {
    /// Makes it ready. Many wakes before one [`clear`](Self::clear) count as one.
    fn wake(&self);
    /// Makes it unready again.
    fn clear(&self);
}
