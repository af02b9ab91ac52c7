//! Shortage of descriptors: how many the process may have, and who waits for one.
//!
//! The limit holds for the process. The list of waiters is therefore one for the process too, whatever adapters they belong
//! to.

use std::io;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::system_call;

/// Something that can go on once it gets one more descriptor.
pub trait Starved: Send + Sync {
    /// Called when a descriptor may be free. The caller may hold any lock, so the implementation takes no locks but those
    /// of timers.
    fn descriptor_freed(&self);
}

/// Whether an error means that the system, or the process, has no more of something that others may give back.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        system_call::errno(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

static WAITING: Mutex<Vec<Weak<dyn Starved>>> = Mutex::new(Vec::new());
/// The list is not empty.
static ANY: AtomicBool = AtomicBool::new(false);

/// The largest limit that macOS accepts for a process, whatever maximum it reports (`OPEN_MAX`).
const MOST: Option<u64> = if cfg!(target_vendor = "apple") {
    Some(10_240)
} else {
    None
};

/// The limits of open files. On Linux they are read from proc(5), because `getrlimit` cannot return an error, and some sandboxes refuse
/// the system call behind it.
fn limits() -> Rlimit {
    let text = std::fs::read_to_string("/proc/self/limits").ok();
    let of_proc = text.and_then(|text| parse(&text));
    of_proc.unwrap_or_else(|| getrlimit(Resource::Nofile))
}

/// The limits of open files in `/proc/self/limits`.
fn parse(text: &str) -> Option<Rlimit> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let mut limits = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    });
    Some(Rlimit {
        current: limits.next()??,
        maximum: limits.next()??,
    })
}

/// Raises the process's soft limit of descriptors to the hard limit, because every connected queue pair has a descriptor.
pub fn allow() {
    let mut limit = limits();
    let maximum = limit.maximum.into_iter().chain(MOST).min();
    let is_less = |current| maximum.is_none_or(|maximum| current < maximum);
    if limit.current.is_some_and(is_less) {
        limit.current = maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
    }
}

/// How many descriptors the process may have.
pub fn limit() -> usize {
    let limit = limits().current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// Notifies `starved` once, when the next of our sockets has been closed.
pub fn wait(starved: Weak<dyn Starved>) {
    let mut waiting = WAITING.lock();
    waiting.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&starved));
    waiting.push(starved);
    ANY.store(true, Ordering::SeqCst);
}

/// Tells the waiters that a socket was closed. A structure has this field behind its socket, so that the socket is dropped
/// first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_system_writes_them() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 unlimited            files \n";
        let limits = parse(text).unwrap();
        assert_eq!((limits.current, limits.maximum), (Some(1024), None));
        assert!(parse("Max open files").is_none());
        let known = getrlimit(Resource::Nofile);
        assert_eq!(limits_of(&super::limits()), limits_of(&known));
    }

    fn limits_of(limits: &Rlimit) -> (Option<u64>, Option<u64>) {
        (limits.current, limits.maximum)
    }
}
