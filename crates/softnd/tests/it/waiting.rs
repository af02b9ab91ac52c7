//! The ways to wait, each of which makes progress: polling, events, ports, futures, and a loop of the client.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::common::message::{armed, send, send_into, steadily_polled, taken};
use crate::common::{self, idle, now, pair};
use netdirect::{CompletionResult, Event, OpFlags, Overlapped, Status};

#[test]
fn by_polling_the_completion_queue() {
    let pair = pair();
    let _target = send(&pair);
    let mut result = [CompletionResult::default()];
    while pair.passive.cq.get_results(&mut result) == 0 {
        std::hint::spin_loop();
    }
    assert_eq!(result[0].bytes_transferred, 4);
}

#[test]
fn by_waiting_on_the_overlapped() {
    let pair = pair();
    let overlapped = Overlapped::new();
    armed(&pair, &overlapped);
    let _target = send(&pair);
    assert_eq!(common::wait(&overlapped), Status::SUCCESS);
    taken(&pair);
}

#[test]
fn by_asking_in_a_loop() {
    let pair = pair();
    let overlapped = Overlapped::new();
    armed(&pair, &overlapped);
    let _target = send(&pair);
    while overlapped.poll() == Status::PENDING {
        std::hint::spin_loop(); // TST-114
    }
    taken(&pair);
}

#[test]
fn by_an_event_that_the_background_sets() {
    let pair = pair();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    armed(&pair, &overlapped);
    let _target = send(&pair);
    assert!(event.wait_timeout(common::LONG));
    taken(&pair);
}

/// The thread to wake, and a flag that is set when it was woken.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

impl Unpark {
    fn park(&self) {
        let begun = now();
        while !self.1.swap(false, Ordering::Acquire) {
            assert!(now() - begun < common::LONG, "nobody was woken");
            if common::SIMULATED {
                idle();
            } else {
                std::thread::park_timeout(common::LONG);
            }
        }
    }
}

#[test]
fn by_awaiting_under_a_foreign_executor() {
    let pair = pair();
    let overlapped = Overlapped::new();
    armed(&pair, &overlapped);
    let _target = send(&pair);
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(overlapped.into_future());
    let status = loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(status) => break status,
            Poll::Pending => unpark.park(),
        }
    };
    assert_eq!(status, Status::SUCCESS);
    taken(&pair);
}

#[test]
fn after_polling_a_wait_is_woken() {
    for _ in 0..20 {
        let (pair, target) = steadily_polled();
        let overlapped = Overlapped::new();
        armed(&pair, &overlapped);
        send_into(&pair, &target);
        assert_eq!(common::wait(&overlapped), Status::SUCCESS);
        taken(&pair);
    }
}

/// The client waits by reading the last octet of its memory, without any call of the adapter (TST-103).
#[test]
fn after_polling_memory_is_written_without_any_call() {
    for round in 1..20u8 {
        let (pair, target) = steadily_polled();
        pair.active_qp
            .write_inline(3, &[&[round; 8]], target.remote(0), OpFlags::empty())
            .unwrap();
        let begun = now();
        while target.buffer.to_vec() != [round; 8] {
            assert!(now() - begun < common::LONG);
            idle();
        }
    }
}

#[test]
fn after_polling_the_end_is_told() {
    for _ in 0..20 {
        let (pair, _target) = steadily_polled();
        let notice = Overlapped::new();
        let _ = pair.passive_connector.notify_disconnect(&notice).unwrap();
        let ended = Overlapped::new();
        let _ = pair.active_connector.disconnect(&ended).unwrap();
        assert_eq!(notice.wait_timeout(common::LONG), Some(Status::SUCCESS));
        assert_eq!(ended.wait_timeout(common::LONG), Some(Status::SUCCESS));
    }
}
