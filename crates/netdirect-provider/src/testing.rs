//! What the tests of this crate share.

use std::sync::Arc;
use std::time::Instant;

use netdirect::{Association, OverlappedFile, Result};

/// A file whose requests end without a thread that drives them.
#[derive(Debug, Default)]
struct IdleFile(Association);

impl OverlappedFile for IdleFile {
    fn association(&self) -> &Association {
        &self.0
    }

    fn progress(&self) {}

    fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> Result<()> {
        Ok(())
    }

    fn wake(&self) {}

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

pub(crate) fn file() -> Arc<dyn OverlappedFile> {
    Arc::new(IdleFile::default())
}
