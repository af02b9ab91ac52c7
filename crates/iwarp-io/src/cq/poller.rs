//! What a completion queue has besides its results: the domain that polls drive, and the queue pairs that end with the queue.

use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::driver::Driver;
use crate::living::Living;
use crate::progress::domain::Domain;
use crate::progress::waiters::Waiters;

/// A queue pair, as seen by the queues that end its connection when they break down.
pub trait QueueUser: Send + Sync {
    /// The queue has broken down. Called with no lock held.
    fn queue_broke(&self);
}

/// The queue pairs that use a queue.
#[derive(Debug, Default)]
pub struct QueueUsers(Mutex<Living<dyn QueueUser>>);

impl QueueUsers {
    /// Adds a queue pair.
    pub fn add(&self, user: Weak<dyn QueueUser>) {
        self.0.lock().add(user);
    }

    /// Ends the connections of all queue pairs, because the queue has broken down. Called with no lock held.
    pub fn end(&self) {
        let users = self.0.lock().take();
        users.for_each(|user| user.queue_broke());
    }
}

/// Drives the streams of a completion queue's queue pairs when the queue is polled.
#[derive(Debug)]
pub struct Poller {
    /// The queue pairs that end if the queue breaks down.
    pub users: QueueUsers,
    driver: Arc<Driver>,
    domain: Arc<Domain>,
    /// The threads that wait for the queue, and the queue's token there.
    waiters: (Arc<Waiters>, u64),
}

impl Poller {
    /// Makes a domain. Threads that wait among `waiters` drive it too while a request waits.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn new(driver: &Arc<Driver>, waiters: &Arc<Waiters>) -> io::Result<Self> {
        let domain = driver.domain(waiters)?;
        Ok(Self {
            users: QueueUsers::default(),
            driver: Arc::clone(driver),
            waiters: (Arc::clone(waiters), waiters.add_queue(&domain)),
            domain,
        })
    }

    /// The domain.
    #[inline]
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Wakes a thread that waits and drives, to look for unfinished work.
    pub fn wake(&self) {
        self.waiters.0.call_driver();
    }

    /// Notifies the domain that a request waits, or that none does: the `interest` of
    /// [`Queue`](super::Queue).
    #[inline]
    pub fn interest(&self) -> impl Fn(bool) {
        |waits| {
            if waits {
                self.domain.add_interest();
            } else {
                self.domain.drop_interest();
            }
        }
    }

    /// Makes the threads that wait drive the domain, if a request waits. Called after a request was made.
    #[inline]
    pub fn arm(&self) {
        let (waiters, token) = &self.waiters;
        if self.domain.has_interest() {
            waiters.arm(&self.domain, *token);
        }
    }

    /// Takes out as many results as there are and as fit into `results`, and returns their number. If there are none, drives the streams
    /// first. `take` takes results out of the queue.
    #[inline]
    pub fn poll<T>(&self, results: &mut [T], take: impl Fn(&mut [T]) -> usize) -> usize {
        self.driver.polled(&self.domain);
        let taken = take(results);
        // If there are results, the streams are not read, so that the client can handle its results first.
        if taken == results.len() || taken > 0 && !self.domain.has_unfinished() {
            self.domain.found();
            return taken;
        }
        if self.driver.driving(|| self.domain.poll()) {
            self.driver.notice(&self.domain);
        }
        let taken = taken + take(&mut results[taken..]);
        if taken > 0 {
            self.domain.found();
        }
        taken
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let (waiters, token) = &self.waiters;
        waiters.remove_queue(&self.domain, *token);
        self.driver.remove_domain(&self.domain);
    }
}
