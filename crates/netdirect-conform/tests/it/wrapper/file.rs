//! Overlapped files, for rules about clients that give them up.

#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use netdirect::{Association, OverlappedFile, Result, SimulatedTime};

/// The client's reference to a file. Objects made with the file have the file inside.
#[derive(Debug)]
pub(super) struct BrokenFile {
    pub(super) inner: Arc<dyn OverlappedFile>,
}

impl OverlappedFile for BrokenFile {
    fn association(&self) -> &Association {
        self.inner.association()
    }

    fn progress(&self) {
        self.inner.progress();
    }

    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> Result<()> {
        self.inner.park(done, deadline)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }

    fn simulation(&self) -> Option<Arc<dyn SimulatedTime>> {
        self.inner.simulation()
    }
}
