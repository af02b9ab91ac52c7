//! The operations of completion ports.

use std::collections::VecDeque;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Awaited, CompletionPort, OverlappedFile, Packet, Tied};
use crate::{Result, Status};

/// Whom to wake for a packet, once no lock is held.
#[must_use]
pub(crate) struct Sleepers(Awaited, Vec<Arc<dyn OverlappedFile>>);

impl Sleepers {
    pub(crate) fn wake(self) {
        for file in self.1 {
            file.wake_for(&[self.0]);
        }
    }
}

impl CompletionPort {
    /// A port without files or packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a packet of the application's own (`PostQueuedCompletionStatus`).
    pub fn post(&self, key: u64, user: u64) {
        let packet = Packet {
            key,
            overlapped: None,
            status: Status::SUCCESS,
            user,
        };
        self.push(packet, None).wake();
    }

    /// Takes the oldest packet (`GetQueuedCompletionStatus`). If there is none, the call waits up to `timeout`, or without a
    /// limit for `None`. Returns `None` if the time has run out, or if nothing in a [simulation](crate::SimulatedTime) can
    /// queue a packet any more.
    ///
    /// While there is no packet, the calling thread runs the providers of the associated files. With a limit of zero it does
    /// the work that is ready, once. Any number of threads may call `get`. Each thread sleeps on one of the files, and the
    /// threads spread over the files. On a file on which no thread sleeps, the provider's own thread does the work; the
    /// packets then wake threads that sleep on other files.
    ///
    /// A thread that sleeps on a file keeps the file alive until the thread wakes up.
    pub fn get(&self, timeout: Option<Duration>) -> Option<Packet> {
        self.take(timeout, VecDeque::pop_front)
    }

    /// Moves up to `limit` packets to the end of `packets` (`GetQueuedCompletionStatusEx`), and returns their number. Waits
    /// for the first packet as [`get`](Self::get) does, and returns 0 if the time has run out.
    pub fn get_many(
        &self,
        packets: &mut Vec<Packet>,
        limit: usize,
        timeout: Option<Duration>,
    ) -> usize {
        if limit == 0 {
            return 0;
        }
        let taken = self.take(timeout, |queue| {
            let count = queue.len().min(limit);
            packets.extend(queue.drain(..count));
            (count > 0).then_some(count)
        });
        taken.unwrap_or(0)
    }

    /// The number of packets in the queue.
    pub fn len(&self) -> usize {
        self.0.queued.load(Ordering::SeqCst)
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A file was tied to this port. Threads that slept because there was no file now drive it.
    pub(crate) fn attach(&self, file: &Arc<dyn OverlappedFile>) {
        let mut state = self.0.state.lock();
        state.files.retain(|tied| tied.file.strong_count() > 0);
        state.files.push(Tied {
            file: Arc::downgrade(file),
            parked: 0,
        });
        drop(state);
        self.0.posted.notify_all();
    }

    /// Queues a packet. The threads to be woken are returned, as the caller may hold a lock; those parked on `completing`
    /// are not among them, because the caller wakes that file anyway.
    pub(crate) fn push(
        &self,
        packet: Packet,
        completing: Option<&Arc<dyn OverlappedFile>>,
    ) -> Sleepers {
        let mut state = self.0.state.lock();
        state.packets.push_back(packet);
        self.0.queued.store(state.packets.len(), Ordering::SeqCst);
        if state.idle > 0 {
            self.0.posted.notify_one();
        }
        let parked = state
            .files
            .iter()
            .filter(|tied| tied.parked > 0 && !completing.is_some_and(|file| tied.is_file(file)));
        let files = parked.filter_map(|tied| tied.file.upgrade()).collect();
        Sleepers(self.awaited(), files)
    }

    /// The reason of the wait of a thread that waits for a packet.
    pub(crate) fn awaited(&self) -> Awaited {
        Awaited::new(&self.0)
    }

    fn take<T>(
        &self,
        timeout: Option<Duration>,
        mut pop: impl FnMut(&mut VecDeque<Packet>) -> Option<T>,
    ) -> Option<T> {
        let deadline = timeout.and_then(|limit| self.now().checked_add(limit));
        loop {
            if let Some(taken) = self.pop(&mut pop) {
                return Some(taken);
            }
            let expired = deadline.is_some_and(|deadline| deadline <= self.now());
            if expired {
                for file in self.files() {
                    file.progress();
                }
                if self.is_empty() && timeout == Some(Duration::ZERO) {
                    self.polled_in_vain();
                }
                return self.pop(&mut pop);
            }
            match self.choose() {
                Some(place) => {
                    if self.drive(&place, deadline).is_err() {
                        return self.pop(&mut pop);
                    }
                }
                None => self.sleep(deadline),
            }
        }
    }

    /// The time, which is that of a simulation if one of the files lives in one.
    fn now(&self) -> Instant {
        let simulated = self.files().into_iter();
        let mut simulated = simulated.filter(|file| file.simulation().is_some());
        simulated
            .next()
            .map_or_else(Instant::now, |file| file.now())
    }

    /// A look that waits for nothing has found no packet, and others may follow. In a simulation time passes, so that a loop of such looks
    /// ends. Other providers may let other threads run.
    fn polled_in_vain(&self) {
        for file in self.files() {
            match file.simulation() {
                Some(simulation) => drop(simulation.step(None)),
                None => file.polled_in_vain(),
            }
        }
    }

    fn pop<T>(&self, pop: &mut impl FnMut(&mut VecDeque<Packet>) -> Option<T>) -> Option<T> {
        let mut state = self.0.state.lock();
        let taken = pop(&mut state.packets);
        self.0.queued.store(state.packets.len(), Ordering::SeqCst);
        taken
    }

    fn files(&self) -> Vec<Arc<dyn OverlappedFile>> {
        self.0
            .state
            .lock()
            .files
            .iter()
            .filter_map(|tied| tied.file.upgrade())
            .collect()
    }

    /// The file to park on: the one with the fewest threads, so that threads spread over files. From here on `push` wakes it.
    fn choose(&self) -> Option<Parked<'_>> {
        let mut state = self.0.state.lock();
        let mut tied: Vec<_> = state
            .files
            .iter_mut()
            .filter(|tied| tied.file.strong_count() > 0)
            .collect();
        tied.sort_by_key(|tied| tied.parked);
        let chosen = tied
            .into_iter()
            .find_map(|tied| tied.file.upgrade().map(|file| (tied, file)));
        let (tied, file) = chosen?;
        tied.parked += 1;
        Some(Parked { port: self, file })
    }

    fn drive(&self, place: &Parked<'_>, deadline: Option<Instant>) -> Result<()> {
        // The other files are driven here once; later a completion on one of them wakes this thread by way of `push`.
        for file in self.files() {
            if !same(Arc::as_ptr(&file), Arc::as_ptr(&place.file)) {
                file.progress();
            }
        }
        let done = || !self.is_empty();
        if done() {
            return Ok(());
        }
        place.file.park_for(self.awaited(), &done, deadline)
    }

    /// Waits for a packet or a file.
    fn sleep(&self, deadline: Option<Instant>) {
        let mut state = self.0.state.lock();
        state.files.retain(|tied| tied.file.strong_count() > 0);
        // Both are looked at again under the lock that `push` and `attach` take, so that neither can slip in between.
        if state.packets.is_empty() && state.files.is_empty() {
            state.idle += 1;
            state = self.0.posted.wait(state, deadline);
            state.idle -= 1;
        }
    }
}

/// A thread's place on a file, from `choose` until it is dropped.
struct Parked<'a> {
    port: &'a CompletionPort,
    file: Arc<dyn OverlappedFile>,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let mut state = self.port.0.state.lock();
        if let Some(tied) = state.files.iter_mut().find(|tied| tied.is_file(&self.file)) {
            tied.parked -= 1;
        }
        // The lock is released before the file is, which may run the provider's code.
    }
}

impl Tied {
    fn is_file(&self, file: &Arc<dyn OverlappedFile>) -> bool {
        same(self.file.as_ptr(), Arc::as_ptr(file))
    }
}

/// Returns true if two pointers mean one file: by address alone, as one type may have several vtables.
fn same(a: *const dyn OverlappedFile, b: *const dyn OverlappedFile) -> bool {
    ptr::addr_eq(a, b)
}

impl fmt::Debug for CompletionPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionPort")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
