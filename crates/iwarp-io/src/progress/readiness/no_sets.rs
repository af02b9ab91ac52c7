//! Windows, where softnd cannot wait for sockets yet. The types of Unix' sets exist here without values, so none of their methods can be
//! called. Making a set fails with [`refused`].
//!
//! docs/internals/progress.md lists the requirements of readiness on Windows.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd};

use super::{Edges, Readiness, Ready, Wake, Watch};

/// The error that explains why there are no sets of the system's sources.
///
/// # Errors
///
/// Always `Unsupported`.
pub fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "softnd cannot use the sockets of Windows yet; use the simulated network (softnd+sim://), or another system",
    ))
}

/// The interfaces of other systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoInterface {
    /// mio.
    Mio,
    /// mio with a rule of kqueue.
    KqueueRules,
}

impl NoInterface {
    /// Fails, whatever the environment asks for.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn chosen() -> io::Result<Self> {
        refused()
    }
}

/// A set type without values.
#[derive(Debug)]
pub struct NoSet(Infallible);

/// A waker type without values.
#[derive(Debug)]
pub struct NoWaker(Infallible);

impl AsFd for NoSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

impl AsFd for NoWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

impl<T: AsFd> Watch<NoSet> for T {
    fn id(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl NoSet {
    /// Fails.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn new() -> io::Result<Self> {
        refused()
    }

    /// The handle by which others can watch the set.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

impl Readiness for NoSet {
    type Id<'a> = BorrowedFd<'a>;
    type Waker = NoWaker;

    fn another(&self) -> io::Result<Self> {
        match self.0 {}
    }

    fn waker(&self) -> io::Result<NoWaker> {
        match self.0 {}
    }

    fn reports_untaken(&self) -> bool {
        match self.0 {}
    }

    fn add_stream(&self, _: &impl Watch<Self>, _: u64, _: Edges) -> io::Result<()> {
        match self.0 {}
    }

    fn change_stream(&self, _: &impl Watch<Self>, _: u64, _: Edges) -> io::Result<()> {
        match self.0 {}
    }

    fn add_level(&self, _: &impl Watch<Self>, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    fn add_set(&self, _: &impl Watch<Self>, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    fn mute(&self, _: &impl Watch<Self>, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    fn unmute(&self, _: &impl Watch<Self>, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    fn remove(&self, _: &impl Watch<Self>) -> io::Result<()> {
        match self.0 {}
    }

    fn wait(&self, _: Option<Duration>, _: impl FnMut(Ready)) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Wake<NoSet> for NoWaker {
    fn wake(&self) {
        match self.0 {}
    }

    fn clear(&self) {
        match self.0 {}
    }
}
