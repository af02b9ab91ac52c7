//! Every interleaving of ends, waits and posts, up to a bound on preemptions. A lost wake-up is a deadlock that loom reports.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p netdirect --test loom --release`.
#![cfg(loom)]

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Instant;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use netdirect::{
    Association, CompletionPort, Event, Overlapped, OverlappedFile, PendingOverlapped, Status,
};

/// A file whose work, if it has any, is to end one request.
struct File {
    association: Association,
    work: Mutex<Option<PendingOverlapped>>,
    lock: Mutex<()>,
    woken: Condvar,
}

impl File {
    fn idle() -> Arc<dyn OverlappedFile> {
        Self::with_work(None)
    }

    fn with_work(work: Option<PendingOverlapped>) -> Arc<dyn OverlappedFile> {
        Arc::new(Self {
            association: Association::new(),
            work: Mutex::new(work),
            lock: Mutex::new(()),
            woken: Condvar::new(),
        })
    }
}

impl OverlappedFile for File {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        let work = self.work.lock().unwrap().take();
        if let Some(pending) = work {
            pending.complete(Status::SUCCESS);
        }
    }

    fn park(&self, done: &dyn Fn() -> bool, _deadline: Option<Instant>) -> netdirect::Result<()> {
        self.progress();
        let mut guard = self.lock.lock().unwrap();
        while !done() {
            guard = self.woken.wait(guard).unwrap();
        }
        Ok(())
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        unreachable!("nobody watches a model")
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("File")
    }
}

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn wait_sees_the_end() {
    model(|| {
        let file = File::idle();
        let overlapped = Overlapped::new();
        let pending = overlapped.begin(&file).unwrap();
        let ender = thread::spawn(move || pending.complete(Status::REMOTE_ERROR));
        assert_eq!(overlapped.wait(), Status::REMOTE_ERROR);
        ender.join().unwrap();
    });
}

#[test]
fn event_is_signalled_after_the_status() {
    model(|| {
        let file = File::idle();
        let event = Event::new();
        let overlapped = Overlapped::with_event(&event);
        let pending = overlapped.begin(&file).unwrap();
        let ender = thread::spawn(move || pending.complete(Status::IO_TIMEOUT));
        event.wait();
        assert_eq!(overlapped.status(), Status::IO_TIMEOUT);
        ender.join().unwrap();
    });
}

#[test]
fn get_on_the_file_that_ends() {
    model(|| {
        let (file, port) = (File::idle(), CompletionPort::new());
        file.associate(&port, 1).unwrap();
        let overlapped = Overlapped::new();
        let pending = overlapped.begin(&file).unwrap();
        let ender = thread::spawn(move || pending.complete(Status::CANCELED));
        let packet = port.get(None).unwrap();
        assert_eq!(packet.status, Status::CANCELED);
        assert_eq!(
            overlapped.status(),
            Status::CANCELED,
            "a packet is not ahead of its status"
        );
        ender.join().unwrap();
    });
}

#[test]
fn get_parked_on_another_file() {
    model(|| {
        let (one, two, port) = (File::idle(), File::idle(), CompletionPort::new());
        one.associate(&port, 1).unwrap();
        two.associate(&port, 2).unwrap();
        let pending = Overlapped::new().begin(&two).unwrap();
        let ender = thread::spawn(move || pending.complete(Status::SUCCESS));
        assert_eq!(port.get(None).unwrap().key, 2);
        ender.join().unwrap();
        drop(one);
    });
}

#[test]
fn get_without_files_meets_post() {
    model(|| {
        let port = CompletionPort::new();
        let poster = thread::spawn({
            let port = port.clone();
            move || port.post(0, 7)
        });
        assert_eq!(port.get(None).unwrap().user, 7);
        poster.join().unwrap();
    });
}

#[test]
fn two_getters_share_two_posts() {
    model(|| {
        let port = CompletionPort::new();
        let getter = thread::spawn({
            let port = port.clone();
            move || port.get(None).unwrap().user
        });
        let poster = thread::spawn({
            let port = port.clone();
            move || {
                port.post(0, 1);
                port.post(0, 2);
            }
        });
        let mine = port.get(None).unwrap().user;
        let other = getter.join().unwrap();
        assert_eq!(mine + other, 3);
        poster.join().unwrap();
    });
}

#[test]
fn two_getters_on_a_file_share_an_end_and_a_post() {
    model(|| {
        let (file, port) = (File::idle(), CompletionPort::new());
        file.associate(&port, 0).unwrap();
        let overlapped = Overlapped::new();
        overlapped.set_user(1);
        let pending = overlapped.begin(&file).unwrap();
        let getter = thread::spawn({
            let port = port.clone();
            move || port.get(None).unwrap().user
        });
        let poster = thread::spawn({
            let port = port.clone();
            move || {
                pending.complete(Status::SUCCESS);
                port.post(0, 2);
            }
        });
        let mine = port.get(None).unwrap().user;
        assert_eq!(mine + getter.join().unwrap(), 3);
        poster.join().unwrap();
    });
}

#[test]
fn file_tied_while_a_thread_sleeps() {
    model(|| {
        let (file, port) = (File::idle(), CompletionPort::new());
        let pending = Overlapped::new().begin(&file).unwrap();
        let tier = thread::spawn({
            let port = port.clone();
            move || {
                file.associate(&port, 3).unwrap();
                pending.complete(Status::SUCCESS);
            }
        });
        assert_eq!(port.get(None).unwrap().key, 3);
        tier.join().unwrap();
    });
}

#[test]
fn file_tied_while_a_thread_sleeps_is_driven_by_that_thread() {
    model(|| {
        let (carrier, port) = (File::idle(), CompletionPort::new());
        carrier.associate(&port, 4).unwrap();
        let pending = Overlapped::new().begin(&carrier).unwrap();
        // Only driving `file` ends the request, and only the thread asleep on `lone` can drive it.
        let lone = CompletionPort::new();
        let file = File::with_work(Some(pending));
        let tier = thread::spawn({
            let (lone, file) = (lone.clone(), file.clone());
            move || file.associate(&lone, 5).unwrap()
        });
        let poster = thread::spawn({
            let (port, lone) = (port.clone(), lone.clone());
            move || {
                assert_eq!(port.get(None).unwrap().key, 4);
                lone.post(0, 6);
            }
        });
        assert_eq!(lone.get(None).unwrap().user, 6);
        tier.join().unwrap();
        poster.join().unwrap();
        drop(file);
    });
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn future_is_ready_or_woken_once() {
    model(|| {
        let file = File::idle();
        let overlapped = Overlapped::new();
        let pending = overlapped.begin(&file).unwrap();
        let ender = thread::spawn(move || pending.complete(Status::SUCCESS));
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(overlapped.into_future());
        let first = future.as_mut().poll(&mut context);
        ender.join().unwrap();
        let expected = usize::from(first.is_pending());
        assert_eq!(wakes.0.load(Ordering::SeqCst), expected);
        assert_eq!(
            future.as_mut().poll(&mut context),
            Poll::Ready(Status::SUCCESS)
        );
    });
}

/// A sink is called after the status and the packet are there, and before `complete` returns, no matter which threads wait
/// meanwhile.
#[test]
fn sink_is_told_last_and_before_the_end_returns() {
    model(|| {
        let (file, port) = (File::idle(), CompletionPort::new());
        file.associate(&port, 1).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let overlapped = Overlapped::with_sink({
            let count = count.clone();
            Arc::new(move |_: Status| {
                count.fetch_add(1, Ordering::SeqCst);
            })
        });
        let pending = overlapped.begin(&file).unwrap();
        let ender = thread::spawn({
            let count = count.clone();
            move || {
                pending.complete(Status::SUCCESS);
                assert_eq!(count.load(Ordering::SeqCst), 1);
            }
        });
        if count.load(Ordering::SeqCst) == 1 {
            assert_eq!(overlapped.status(), Status::SUCCESS);
            assert_eq!(port.len(), 1);
        }
        assert_eq!(port.get(None).unwrap().status, Status::SUCCESS);
        ender.join().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    });
}

/// The sink gets each of two requests once, also when a thread that saw the first one end begins the second one before the sink was called.
#[test]
fn sink_of_an_overlapped_that_is_used_again_at_once() {
    model(|| {
        let file = File::idle();
        let count = Arc::new(AtomicUsize::new(0));
        let overlapped = Overlapped::with_sink({
            let count = count.clone();
            Arc::new(move |status: Status| {
                let weight = if status == Status::SUCCESS { 1 } else { 16 };
                count.fetch_add(weight, Ordering::SeqCst);
            })
        });
        let pending = overlapped.begin(&file).unwrap();
        let ender = thread::spawn(move || pending.complete(Status::SUCCESS));
        assert_eq!(overlapped.wait(), Status::SUCCESS);
        overlapped.begin(&file).unwrap().complete(Status::CANCELED);
        ender.join().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 17);
    });
}

#[test]
fn future_dropped_while_the_request_ends() {
    model(|| {
        let file = File::idle();
        let overlapped = Overlapped::new();
        let pending = overlapped.begin(&file).unwrap();
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut future = Box::pin((&overlapped).into_future());
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        let ender = thread::spawn(move || pending.complete(Status::SUCCESS));
        drop(future);
        ender.join().unwrap();
        assert!(wakes.0.load(Ordering::SeqCst) <= 1);
        drop(waker);
        assert_eq!(Arc::strong_count(&wakes), 1, "no waker is left behind");
    });
}
