//! Objects that other objects use: a parent with children is not destroyed, and an object with events that the program has not
//! acknowledged waits for the acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use iwarp_io::sync::{self, Condvar, Mutex};

use crate::error::{Errno, Result, fail};

/// Counts the objects that use another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users(Arc<AtomicUsize>);

impl Users {
    /// Counts one user until the value is dropped.
    pub(crate) fn add(&self) -> User {
        self.0.fetch_add(1, Ordering::Relaxed);
        User {
            count: Arc::clone(&self.0),
            counts: AtomicBool::new(true),
        }
    }

    /// Returns true while there are users.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// Fails with EBUSY while there are users. `what` names the object, and `by` its users.
    pub(crate) fn check_none(&self, what: &str, by: &str) -> Result<()> {
        match self.0.load(Ordering::Acquire) {
            0 => Ok(()),
            count => fail(
                Errno::BUSY,
                format!("{what} is in use by {count} {by}: destroy them first"),
            ),
        }
    }
}

/// One user, until it is released or dropped. An object that the program has destroyed no longer counts, even if a connection that is about
/// to end keeps it.
#[derive(Debug)]
pub(crate) struct User {
    count: Arc<AtomicUsize>,
    counts: AtomicBool,
}

impl User {
    pub(crate) fn release(&self) {
        if self.counts.swap(false, Ordering::Relaxed) {
            self.count.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.release();
    }
}

/// A number that the caller stores at an object, 0 at first. The C library keeps the address of its structure there, and finds it again in
/// events.
#[derive(Debug, Default)]
pub struct Tag(AtomicU64);

impl Tag {
    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Changes the number.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

/// An object as the subject of events. It is not destroyed before its events are acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    pub(crate) tag: Tag,
    pub(crate) acknowledgements: Acknowledgements,
}

/// The events of one object: those that the program has received and not acknowledged, and whether there may be more.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    /// Events that were handed out and not acknowledged.
    open: Mutex<u64>,
    none_open: Condvar,
    /// The program destroys the object, and gets no more events of it. Set and read with a queue of events locked.
    has_ended: sync::AtomicBool,
}

impl Acknowledgements {
    /// An event was handed out. Called with its queue locked.
    pub(crate) fn handed_out(&self) {
        *self.open.lock() += 1;
    }

    /// The object has no more events. Called with a queue of its events locked.
    pub(crate) fn end(&self) {
        // The lock of the queue orders this before every later push to the queue.
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Returns true once the object has no more events. Called with the queue locked to which an event would go.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The program has acknowledged this many events.
    pub(crate) fn acknowledge(&self, count: u64) {
        let mut open = self.open.lock();
        *open = open.saturating_sub(count);
        if *open == 0 {
            self.none_open.notify_all();
        }
    }

    /// Waits until every event is acknowledged. In a simulation, where no other thread could do that, fails instead.
    pub(crate) fn wait(&self, is_simulated: bool) -> Result<()> {
        let mut open = self.open.lock();
        if *open > 0 && is_simulated {
            return fail(
                Errno::DEADLK,
                format!(
                    "{} events are not acknowledged: acknowledge them first",
                    *open
                ),
            );
        }
        while *open > 0 {
            open = self.none_open.wait(open, None);
        }
        Ok(())
    }
}
