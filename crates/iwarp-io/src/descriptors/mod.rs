//! Shortage of descriptors: the limit of the process, and the list of those that wait for a descriptor.
//!
//! The limit holds for the process. Therefore one list of waiters serves all adapters of the process.

#[cfg(unix)]
mod limits;

use std::io;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error_number::{ENFILE, ENOMEM, Errno};
use crate::system_call;

#[cfg(unix)]
pub use limits::{allow, limit};

/// Windows has no limit of handles that a process could raise.
#[cfg(windows)]
pub fn allow() {}

/// The number of sockets that the process may have. The system limits them only by its memory.
#[cfg(windows)]
pub fn limit() -> usize {
    usize::MAX
}

/// An object that can continue once it gets one more descriptor.
pub trait Starved: Send + Sync {
    /// Called when a descriptor may be free. The caller may hold any lock, so the implementation takes no locks but those of timers.
    fn descriptor_freed(&self);
}

/// Returns true if an error means that the system, or the process, has run out of something that others may give back.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        system_call::errno(error),
        Some(Errno::MFILE | ENFILE | Errno::NOBUFS | ENOMEM)
    )
}

static WAITING: Mutex<Vec<Weak<dyn Starved>>> = Mutex::new(Vec::new());
/// The list is not empty.
static ANY: AtomicBool = AtomicBool::new(false);

/// Notifies `starved` once, when the next socket of this crate has been closed.
pub fn wait(starved: Weak<dyn Starved>) {
    let mut waiting = WAITING.lock();
    waiting.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&starved));
    waiting.push(starved);
    ANY.store(true, Ordering::SeqCst);
}

/// Notifies the waiters that a socket was closed. A structure has this field behind its socket, so that the socket is dropped first.
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
    // The lock is not held here, because the reference made here may be the last one to a waiter.
    for starved in waiting {
        if let Some(starved) = starved.upgrade() {
            starved.descriptor_freed();
        }
    }
}
