//! Which sources are ready: sets of them, and how one thread makes a set ready for another.
//!
//! Everything that knows an operating system's readiness interface sits behind [`Readiness`] and [`Wake`]; the rest of the
//! crate sees sets of sources, edges and wake-ups.

pub mod epoll;

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
    /// Adds a stream, reported once per edge: for `READ` alone, or for `WRITE` as well. What it is ready for already is
    /// reported too.
    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()>;
    /// Changes what a stream is reported for; readiness is looked at anew.
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
    /// Waits for at most `limit` (`None`: without limit) and hands every ready source to `each`; returns how many.
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
