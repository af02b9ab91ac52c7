//! A completion queue from which results can be removed that their client will not take, because it has destroyed their queue pair.
//!
//! Results cannot be taken out of the middle of a ring that other threads use. So a removal takes all results out, drops those to be removed
//! and sets the others aside, where takers find them first. Removals are rare, so takers pay for one load.
//!
//! A taker may take results out of the ring while a removal sets older ones aside. It notices that afterwards by the version: the removal
//! changes the version before it moves the head of the ring, and the taker reads it after it has moved the head. Then it puts its results
//! among those set aside and takes from these, so that no thread sees a result before an older one that it has not seen.

use std::collections::{TryReserveError, VecDeque};
use std::ops::Deref;

use super::ring::CannotResize;
use super::{CompletedNotifies, Entry, NotifyOn, Queue};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A [`Queue`] with [`remove`](Self::remove).
#[derive(Debug)]
pub struct RemovableQueue<E: Entry, R> {
    queue: Queue<E, R>,
    /// The number of removals, times 2, and [`SET_ASIDE`]. Changes only while `aside` is locked.
    version: AtomicU64,
    /// Results that were set aside, with their numbers, in order.
    aside: Mutex<VecDeque<(u64, E::Result)>>,
}

/// The bit of the version that is set while results are, or are about to be, set aside.
const SET_ASIDE: u64 = 1;
/// A removal adds this.
const REMOVAL: u64 = 2;

/// Everything that does not take results.
impl<E: Entry, R> Deref for RemovableQueue<E, R> {
    type Target = Queue<E, R>;

    fn deref(&self) -> &Queue<E, R> {
        &self.queue
    }
}

impl<E: Entry<Result: Copy + Default>, R> RemovableQueue<E, R> {
    /// See [`Queue::new`].
    ///
    /// # Errors
    ///
    /// See [`Queue::new`].
    pub fn new(depth: u32) -> Result<Self, TryReserveError> {
        Ok(Self {
            queue: Queue::new(depth)?,
            version: AtomicU64::new(0),
            aside: Mutex::new(VecDeque::new()),
        })
    }

    /// See [`Queue::take`].
    #[inline]
    pub fn take(&self, results: &mut [E::Result]) -> usize {
        let version = self.version.load(Ordering::Acquire);
        if version & SET_ASIDE != 0 {
            return self.take_aside(None, results);
        }
        let (first, count) = self.queue.take_row(results);
        if count > 0 && self.version.load(Ordering::Acquire) != version {
            return self.take_aside(Some((first, count)), results);
        }
        count
    }

    /// Takes first what was set aside. A row that was taken out of the ring before is in `results`, and belongs among the results that were
    /// set aside.
    #[cold]
    fn take_aside(&self, row: Option<(u64, usize)>, results: &mut [E::Result]) -> usize {
        let mut aside = self.aside.lock();
        if let Some((first, count)) = row {
            let at = aside.partition_point(|(number, _)| *number < first);
            for (index, result) in results[..count].iter().enumerate() {
                aside.insert(at + index, (first + index as u64, *result));
            }
        }
        let count = aside.len().min(results.len());
        for (to, (_, result)) in results.iter_mut().zip(aside.drain(..count)) {
            *to = result;
        }
        self.note(&aside);
        if aside.is_empty() {
            return count + self.queue.take(&mut results[count..]);
        }
        count
    }

    /// Notes whether results are set aside.
    fn note(&self, aside: &VecDeque<(u64, E::Result)>) {
        let version = self.version.load(Ordering::Relaxed) & !SET_ASIDE;
        let flag = if aside.is_empty() { 0 } else { SET_ASIDE };
        self.version.store(version | flag, Ordering::Release);
    }

    /// Drops all results for which `is_removed` returns true, and returns their numbers.
    pub fn remove(&self, is_removed: impl Fn(&E::Result) -> bool) -> Vec<u64> {
        let mut aside = self.aside.lock();
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store((version + REMOVAL) | SET_ASIDE, Ordering::Release);
        let mut removed = Vec::new();
        aside.retain(|(number, result)| {
            let goes = is_removed(result);
            if goes {
                removed.push(*number);
            }
            !goes
        });
        let mut row = [E::Result::default(); 16];
        loop {
            let (first, count) = self.queue.take_row(&mut row);
            if count == 0 {
                break;
            }
            for (number, result) in (first..).zip(&row[..count]) {
                if is_removed(result) {
                    removed.push(number);
                } else {
                    aside.push_back((number, *result));
                }
            }
        }
        self.note(&aside);
        removed
    }

    /// See [`Queue::taken`]. Results that were set aside are not taken.
    pub fn taken(&self) -> u64 {
        let taken = self.queue.taken();
        if self.version.load(Ordering::Acquire) & SET_ASIDE == 0 {
            return taken;
        }
        let aside = self.aside.lock();
        let oldest = aside.front().map(|(number, _)| *number);
        oldest.unwrap_or_else(|| self.queue.taken())
    }

    /// See [`Queue::notify`]. Results that were set aside are not taken.
    pub fn notify(
        &self,
        kind: NotifyOn,
        request: R,
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        self.queue
            .notify_since(self.taken(), kind, request, interest)
    }

    /// See [`Queue::resize`].
    ///
    /// # Errors
    ///
    /// See [`Queue::resize`].
    pub fn resize(&self, depth: u32) -> Result<(), CannotResize> {
        let aside = self.aside.lock();
        self.queue.resize_besides(depth, aside.len())
    }
}

#[cfg(all(test, loom))]
mod loom_model;
#[cfg(all(test, not(loom)))]
mod tests;
