//! Sets of mio that follow a rule of kqueue on every system, so that the tests can be run under that rule on Linux.
//!
//! A kqueue inside another kqueue is reported when its first source becomes ready. It is not reported again, whatever else
//! becomes ready in it, until a thread has waited on it and has taken all events. epoll reports a nested set for every
//! event in it. A thread that leaves the events in a nested set is therefore woken by the next one on Linux, and would
//! sleep for ever on a system with kqueue. Over these sets the thread sleeps for ever on Linux as well.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::mio::{Mio, Pipe};
use super::{BATCH, Edges, Readiness, Ready, Wake, Watch};

/// A set of sources.
#[derive(Debug)]
pub struct KqueueRules {
    set: Mio,
    waits: Arc<Waits>,
    /// The sets in this one, by their tokens.
    nested: Mutex<HashMap<u64, Nested>>,
}

/// Counts the times that a set was emptied.
#[derive(Debug, Default)]
struct Waits {
    /// Threads that wait on the set.
    waiting: AtomicUsize,
    /// Waits that left no event in the set.
    emptied: AtomicU64,
}

/// A set that other sets report.
#[derive(Debug)]
struct Nested {
    waits: Arc<Waits>,
    /// The value of `emptied` when the set was reported last.
    reported: Option<u64>,
}

/// The value by which a set identifies a source.
#[derive(Clone, Copy, Debug)]
pub struct Id<'a> {
    descriptor: BorrowedFd<'a>,
    /// The waits of the source, if the source is a set.
    waits: Option<&'a Arc<Waits>>,
}

/// A set identifies everything that has a descriptor by this descriptor.
impl<T: AsFd> Watch<KqueueRules> for T {
    fn id(&self) -> Id<'_> {
        Id {
            descriptor: self.as_fd(),
            waits: None,
        }
    }
}

impl Watch<Self> for KqueueRules {
    fn id(&self) -> Id<'_> {
        Id {
            descriptor: self.descriptor(),
            waits: Some(&self.waits),
        }
    }
}

impl KqueueRules {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// Those of [`Mio::new`].
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            set: Mio::new()?,
            waits: Arc::default(),
            nested: Mutex::default(),
        })
    }

    /// The descriptor by which others can watch the set.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Returns true if kqueue would report what epoll has reported.
    fn is_reported(&self, token: u64) -> bool {
        let mut nested = self.nested.lock();
        let Some(nested) = nested.get_mut(&token) else {
            return true;
        };
        // A thread that waits on the nested set at this moment may have taken the earlier events.
        let waiting = nested.waits.waiting.load(Ordering::SeqCst) > 0;
        let emptied = nested.waits.emptied.load(Ordering::SeqCst);
        let before = nested.reported.replace(emptied);
        waiting || before != Some(emptied)
    }
}

impl Readiness for KqueueRules {
    type Id<'a> = Id<'a>;
    type Waker = Pipe;

    fn another(&self) -> io::Result<Self> {
        Self::new()
    }

    fn waker(&self) -> io::Result<Pipe> {
        self.set.waker()
    }

    fn reports_untaken(&self) -> bool {
        false
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.set.add_stream(&source.id().descriptor, token, edges)
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        let descriptor = source.id().descriptor;
        self.set.change_stream(&descriptor, token, edges)
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        // The set is examined anew after each report, as on a system with kqueue.
        self.set.add_level(&source.id().descriptor, token)
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        let id = source.id();
        let mut nested = self.nested.lock();
        self.set.add_set(&id.descriptor, token)?;
        if let Some(waits) = id.waits {
            let waits = Arc::clone(waits);
            let reported = None;
            nested.insert(token, Nested { waits, reported });
        }
        Ok(())
    }

    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.set.mute(&source.id().descriptor, token)
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        let mut nested = self.nested.lock();
        self.set.unmute(&source.id().descriptor, token)?;
        if let Some(nested) = nested.get_mut(&token) {
            nested.reported = None;
        }
        Ok(())
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        let id = source.id();
        let mut nested = self.nested.lock();
        if let Some(waits) = id.waits {
            nested.retain(|_, nested| !Arc::ptr_eq(&nested.waits, waits));
        }
        self.set.remove(&id.descriptor)
    }

    fn wait(&self, limit: Option<Duration>, mut each: impl FnMut(Ready)) -> io::Result<usize> {
        let end = limit.map(|limit| Instant::now() + limit);
        let mut left = limit;
        loop {
            let mut reported = 0;
            self.waits.waiting.fetch_add(1, Ordering::SeqCst);
            let waited = self.set.wait_alone(left, |ready| {
                if self.is_reported(ready.token) {
                    reported += 1;
                    each(ready);
                }
            });
            // In this order, because an additional report between the two does no harm.
            if matches!(waited, Ok(Some(count)) if count < BATCH) {
                self.waits.emptied.fetch_add(1, Ordering::SeqCst);
            }
            self.waits.waiting.fetch_sub(1, Ordering::SeqCst);
            let found = waited?.unwrap_or(0);
            left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // The thread continues to sleep if kqueue would not have reported the event.
            if reported > 0 || found == 0 || left == Some(Duration::ZERO) {
                return Ok(reported);
            }
        }
    }
}

impl Wake<KqueueRules> for Pipe {
    fn wake(&self) {
        self.wake();
    }

    fn clear(&self) {
        self.clear();
    }
}
