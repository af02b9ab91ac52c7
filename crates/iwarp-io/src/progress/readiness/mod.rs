//! Readiness: sets of sources that report the ready ones, and wakers by which one thread makes a set ready for another.
//!
//! [`Readiness`] and [`Wake`] hide the operating system's readiness interface. The rest of the crate sees sets of sources,
//! edges and wake-ups.

#[cfg(target_os = "linux")]
pub mod epoll;
#[cfg(unix)]
pub mod event_descriptor;
pub mod flat;
pub mod interface;
#[cfg(unix)]
pub mod kqueue_rules;
#[cfg(unix)]
pub mod mio;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::io;
use std::time::Duration;

pub use crate::edges::{Edges, Ready};

/// The most sources that one call of [`Readiness::wait`] reports.
pub const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// A set of sources that can be waited on, and that can itself be a source of another set.
pub trait Readiness: Watch<Self> + Sized {
    /// The value by which a set identifies a source.
    type Id<'a>: Copy;
    /// The type that makes a set ready from another thread.
    type Waker: Wake<Self>;

    /// Makes an empty set of the same kind.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or memory left.
    fn another(&self) -> io::Result<Self>;
    /// Makes a waker for sets of this kind, which is not ready.
    ///
    /// # Errors
    ///
    /// Those of [`another`](Self::another).
    fn waker(&self) -> io::Result<Self::Waker>;
    /// Returns true if a nested set is reported for every event in it, even while no thread has taken the earlier events. If false, a
    /// nested set is reported once, and again only after a thread has waited on it: a thread that learns that a nested set is ready then
    /// has to wait on that set.
    fn reports_untaken(&self) -> bool;
    /// Returns true if a report of a stream is the last one until the stream is [armed](Self::arm).
    fn reports_once(&self) -> bool {
        false
    }
    /// Adds a stream, which is reported once per edge: for `READ` alone, or for `WRITE` as well. If the stream is ready already, that is
    /// reported too. A set that [reports once](Self::reports_once) reports no further edge before the stream was armed.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a source that is in the set already, here and in the other methods that add one; the errors of the system.
    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()>;
    /// Changes the edges for which a stream is reported, and examines its readiness anew.
    ///
    /// # Errors
    ///
    /// `NotFound` for a source that is not in the set, here and in the other methods that need one; the errors of the
    /// system.
    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()>;
    /// The caller has handled what was reported of a stream: a read has found it empty, or a send has found it full. From now on the next event
    /// is reported, and at once if it has happened already. For a stream that is not in the set this does nothing.
    fn arm(&self, _source: &impl Watch<Self>, _edges: Edges) {}
    /// Takes a stream out for a while, until it is added again: some thread still drives it meanwhile, without the set.
    fn set_aside(&self, source: &impl Watch<Self>) -> io::Result<()> {
        self.remove(source)
    }
    /// Adds a source that stays reported for as long as it is ready. A descriptor is taken to be ready until it is [armed](Self::arm), where
    /// sets [report once](Self::reports_once).
    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Adds a set. It is reported whenever something becomes ready in it, and at once if something is ready already.
    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Keeps a set added by [`add_set`](Self::add_set) from being reported.
    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Takes [`mute`](Self::mute) back, and examines readiness anew.
    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()>;
    /// Takes a source out.
    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()>;
    /// Waits for at most `limit` (`None`: without limit), calls `each` for the ready sources, and returns the number of calls. It may be 0
    /// before `limit` has passed. A source may be reported by two calls. If another thread waits on the same set, that thread may get all
    /// reports, and a call with a limit of zero then returns at once. A source that became ready before a call is reported by this call, or
    /// by one that has not returned yet.
    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize>;
}

/// An object that a set can report.
pub trait Watch<S: Readiness> {
    /// The value by which the set identifies the source.
    fn id(&self) -> S::Id<'_>;

    /// A domain is about to put the source into its set. Returns edges for which the set has to look as well. A source that can be ready
    /// without the system's knowledge returns one for which the system will report it at once.
    fn joins(&self) -> Edges {
        Edges::empty()
    }

    /// Returns true if the source is a stream over shared memory.
    fn has_bells(&self) -> bool {
        false
    }
}

/// Makes sets ready from another thread.
pub trait Wake<S: Readiness>: Watch<S> + Sized {
    /// Makes the waker ready. Many wakes before one [`clear`](Self::clear) count as one.
    fn wake(&self);
    /// Makes the waker unready again.
    fn clear(&self);
}
