//! The number of forks that lie behind this process: what the child of a fork inherits is its parent's, and is not used.

#[cfg(unix)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks between this process and the one that has called [`watch`] first. Only equal or not equal matters: a fork may
/// count twice.
#[inline]
pub fn forked() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The process is the child of a fork.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on. Threads that come first at the same moment may both have them counted. With a `Once` a child that was forked in
/// this moment would wait for a thread that it does not have.
#[cfg(unix)]
pub fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.load(Ordering::Acquire) {
        // SAFETY: the function only counts, and the C library forgets it when the library that it is a part of is unloaded.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        IS_WATCHED.store(true, Ordering::Release);
    }
}

/// There are no forks.
#[cfg(not(unix))]
pub fn watch() {}

/// Counts a fork, for tests of what a child does.
#[doc(hidden)]
pub fn count_one() {
    in_child();
}
