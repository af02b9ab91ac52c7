//! Descriptors as something that runs out: how many there may be, and who waits for one.
//!
//! The limit is the process's, and so is the list of those who wait, whatever adapter they belong to.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Somebody who could go on with one more descriptor.
pub trait Starved: Send + Sync {
    /// A descriptor may be free. Called with any lock held, so that it takes none but those of timers.
    fn descriptor_freed(&self);
}

static WAITING: Mutex<Vec<Weak<dyn Starved>>> = Mutex::new(Vec::new());
/// The list is not empty.
static ANY: AtomicBool = AtomicBool::new(false);

/// What macOS allows a process at most, whatever it says the maximum is (`OPEN_MAX`).
const MOST: Option<u64> = if cfg!(target_vendor = "apple") {
    Some(10_240)
} else {
    None
};

/// Every connected queue pair has a descriptor: allows the process as many as it may allow itself.
pub fn allow() {
    let mut limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.into_iter().chain(MOST).min();
    let is_less = |current| maximum.is_none_or(|maximum| current < maximum);
    if limit.current.is_some_and(is_less) {
        limit.current = maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}

/// How many descriptors the process may have.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// Has `starved` told once, when the next of our sockets has been closed.
pub fn wait(starved: Weak<dyn Starved>) {
    let mut waiting = WAITING.lock();
    waiting.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&starved));
    waiting.push(starved);
    ANY.store(true, Ordering::SeqCst);
}

/// Belongs behind a socket in its structure: says that it was closed, when it was.
#[derive(Debug)]
pub struct Freed;

impl Drop for Freed {
    fn drop(&mut self) {
        if ANY.load(Ordering::Relaxed) {
            tell();
        }
    }
}

#[cold]
fn tell() {
    let waiting = {
        let mut waiting = WAITING.lock();
        ANY.store(false, Ordering::SeqCst);
        std::mem::take(&mut *waiting)
    };
    // Without the lock: the last reference to one of them may be the one that is made here.
    for starved in waiting {
        if let Some(starved) = starved.upgrade() {
            starved.descriptor_freed();
        }
    }
}
