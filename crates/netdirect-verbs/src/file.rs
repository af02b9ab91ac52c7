//! The overlapped file: threads wait here for requests, and do the provider's work while they wait.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netdirect::{Association, OverlappedFile, Result};
use netdirect_provider::owned;
use parking_lot::{Condvar, Mutex};
use rustix::event::Timespec;

use crate::core::Core;
use crate::driver::WatchSet;

/// An overlapped file. One of the threads that wait on it watches the descriptors; the others wait for that one.
#[derive(Debug)]
pub(crate) struct File {
    core: Arc<Core>,
    association: Association,
    set: WatchSet,
    /// For an event loop: `set`, and a separate wake-up.
    outside: WatchSet,
    is_watched: AtomicBool,
    waiters: Mutex<Waiters>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiters {
    /// A thread watches the descriptors.
    has_watcher: bool,
}

impl File {
    pub(crate) fn new(core: Arc<Core>) -> io::Result<Self> {
        let file = Self {
            association: Association::default(),
            set: WatchSet::new()?,
            outside: WatchSet::new()?,
            is_watched: AtomicBool::new(false),
            waiters: Mutex::default(),
            changed: Condvar::new(),
            core,
        };
        for (token, descriptor) in file.core.control() {
            file.set.watch(descriptor, token)?;
        }
        file.outside.watch(file.set.descriptor(), 1)?;
        Ok(file)
    }

    /// Also watches this descriptor, whose source has this token at the adapter's driver.
    pub(crate) fn watch(&self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.set.watch(descriptor, token)
    }

    pub(crate) fn unwatch(&self, descriptor: BorrowedFd<'_>) {
        self.set.unwatch(descriptor);
    }

    /// Serves the sources that are ready, or become ready within a time. Only the watcher resets wake-ups, which are for the watcher.
    fn serve(&self, limit: Option<&Timespec>, is_watcher: bool) {
        let mut tokens = [0; 16];
        let mut count = 0;
        self.set.wait(limit, |token| {
            tokens[count] = token;
            count += 1;
        });
        if is_watcher {
            self.set.reset();
        }
        if self.core.device.is_removed() {
            for (_, descriptor) in self.core.control() {
                self.set.unwatch(descriptor);
            }
        }
        for token in &tokens[..count] {
            self.core.driver.dispatch(*token);
        }
    }
}

/// The time until the deadline; `None` without a deadline.
fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

owned!(File of Core: |file| &file.core);

impl OverlappedFile for File {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        if self.is_watched.load(Ordering::SeqCst) {
            self.outside.reset();
        }
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.serve(Some(&none), false);
    }

    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> Result<()> {
        loop {
            let mut waiters = self.waiters.lock();
            // Under the lock that `wake` takes, or as the watcher that `wake` wakes.
            if done() {
                return Ok(());
            }
            let left = left(deadline);
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            if waiters.has_watcher {
                match deadline {
                    Some(deadline) => drop(self.changed.wait_until(&mut waiters, deadline)),
                    None => self.changed.wait(&mut waiters),
                }
                continue;
            }
            waiters.has_watcher = true;
            drop(waiters);
            if !done() {
                let limit = left.and_then(|left| Timespec::try_from(left).ok());
                self.serve(limit.as_ref(), true);
            }
            self.waiters.lock().has_watcher = false;
            self.changed.notify_all();
        }
    }

    fn wake(&self) {
        let waiters = self.waiters.lock();
        if waiters.has_watcher {
            self.set.wake();
        }
        drop(waiters);
        self.changed.notify_all();
        if self.is_watched.load(Ordering::SeqCst) {
            self.outside.wake();
        }
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_watched.store(true, Ordering::SeqCst);
        Some(self.outside.descriptor())
    }
}
