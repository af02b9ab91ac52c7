//! A file whose work is closures, and an executor.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Instant;

use netdirect::{Association, OverlappedFile};

type Work = Box<dyn FnOnce() + Send>;

/// Requests are ended by closures, which run in whatever thread drives the file: the smallest provider there can be.
pub(crate) struct MockFile {
    association: Association,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Calls of `hand_over`.
    handed_over: AtomicUsize,
    #[cfg(unix)]
    fd: std::fs::File,
}

#[derive(Default)]
struct Inner {
    work: VecDeque<Work>,
    sleeping: usize,
}

impl MockFile {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            association: Association::new(),
            inner: Mutex::default(),
            changed: Condvar::new(),
            handed_over: AtomicUsize::new(0),
            #[cfg(unix)]
            fd: std::fs::File::open("/dev/null").expect("every Unix has it"),
        })
    }

    pub(crate) fn shared() -> (Arc<Self>, Arc<dyn OverlappedFile>) {
        let file = Self::new();
        (file.clone(), file)
    }

    /// Work for the next thread that drives the file.
    pub(crate) fn submit(&self, work: impl FnOnce() + Send + 'static) {
        self.inner.lock().unwrap().work.push_back(Box::new(work));
        self.changed.notify_all();
    }

    /// Returns how often a thread has handed its work over.
    pub(crate) fn handed_over(&self) -> usize {
        self.handed_over.load(Ordering::SeqCst)
    }

    /// Blocks until this many threads sleep in `park`.
    pub(crate) fn wait_for_sleepers(&self, count: usize) {
        let mut inner = self.inner.lock().unwrap();
        while inner.sleeping < count {
            inner = self.changed.wait(inner).unwrap();
        }
    }
}

impl OverlappedFile for MockFile {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        loop {
            let work = self.inner.lock().unwrap().work.pop_front();
            let Some(work) = work else { return };
            work(); // without the lock: it completes requests, which wakes this file
        }
    }

    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> netdirect::Result<()> {
        loop {
            self.progress();
            // `done` is asked under the lock that `wake` takes, so a wake-up between asking and sleeping cannot be lost.
            let mut inner = self.inner.lock().unwrap();
            if done() {
                return Ok(());
            }
            if !inner.work.is_empty() {
                continue;
            }
            inner.sleeping += 1;
            self.changed.notify_all(); // for wait_for_sleepers
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut inner = match left {
                None => self.changed.wait(inner).unwrap(),
                Some(left) => self.changed.wait_timeout(inner, left).unwrap().0,
            };
            inner.sleeping -= 1;
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(());
            }
        }
    }

    fn wake(&self) {
        drop(self.inner.lock().unwrap());
        self.changed.notify_all();
    }

    fn hand_over(&self) {
        self.handed_over.fetch_add(1, Ordering::SeqCst);
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.fd))
    }
}

impl fmt::Debug for MockFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MockFile")
    }
}

/// Counts wake-ups, and wakes the thread it was made in.
pub(crate) struct Counter {
    pub(crate) wakes: AtomicUsize,
    thread: Thread,
}

impl Counter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            wakes: AtomicUsize::new(0),
            thread: std::thread::current(),
        })
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// An executor of one task, which polls only when it was woken.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let counter = Counter::new();
    let waker = counter.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let mut seen = 0;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while counter.wakes.load(Ordering::SeqCst) == seen {
            std::thread::park();
        }
        seen = counter.wakes.load(Ordering::SeqCst);
    }
}
