//! The ways to wait, each of which makes progress: polling, events, ports, futures, and a loop of the client's own.

mod common;

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use common::{ALL, Pair, Region, Side, pair};
use netdirect::{
    Affinity, CompletionPort, CompletionResult, Event, NotifyType, OpFlags, Overlapped,
    OverlappedFile, Status,
};
use rustix::event::{PollFd, PollFlags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Sends from the active to the passive side of a pair, whose Receive is posted into the region returned.
#[must_use]
fn send(pair: &Pair) -> Region {
    let target = pair.passive.region(8, ALL);
    send_into(pair, &target);
    target
}

fn send_into(pair: &Pair, target: &Region) {
    pair.passive_qp.receive(1, &[target.sge(0, 8)]).unwrap();
    pair.active_qp
        .send_inline(2, &[b"ping"], OpFlags::empty())
        .unwrap();
}

fn taken(pair: &Pair) {
    let mut result = [CompletionResult::default()];
    assert_eq!(pair.passive.cq.get_results(&mut result), 1);
    assert_eq!(result[0].bytes_transferred, 4);
}

fn armed(pair: &Pair, overlapped: &Overlapped) {
    let _ = pair.passive.cq.notify(NotifyType::Any, overlapped).unwrap();
}

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
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| overlapped.wait_timeout(common::LONG));
        let _target = send(&pair);
        assert_eq!(waiting.join().unwrap(), Some(Status::SUCCESS));
    });
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

#[test]
fn by_a_completion_port_with_several_threads() {
    let pair = pair();
    let target = pair.passive.region(8, ALL); // its Register would be a packet, too
    let port = CompletionPort::new();
    pair.passive.file.associate(&port, 7).unwrap();
    let overlapped = Overlapped::new();
    armed(&pair, &overlapped);
    let packets = std::thread::scope(|scope| {
        let worker =
            || scope.spawn(|| port.get(Some(common::LONG)).expect("a packet for everyone"));
        let workers = [worker(), worker(), worker()];
        send_into(&pair, &target);
        assert_eq!(overlapped.wait_timeout(common::LONG), Some(Status::SUCCESS));
        port.post(0, 1);
        port.post(0, 2);
        workers.map(|worker| worker.join().unwrap())
    });
    let ours = packets
        .iter()
        .filter(|packet| packet.key == 7 && packet.status == Status::SUCCESS);
    assert_eq!(ours.count(), 1);
    taken(&pair);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn by_awaiting_under_a_foreign_executor() {
    let pair = pair();
    let overlapped = Overlapped::new();
    armed(&pair, &overlapped);
    let _target = send(&pair);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(overlapped.into_future());
    let status = loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(status) => break status,
            Poll::Pending => std::thread::park_timeout(common::LONG),
        }
    };
    assert_eq!(status, Status::SUCCESS);
    taken(&pair);
}

#[test]
fn by_a_loop_of_the_clients_own_over_the_files_descriptor() {
    let pair = pair();
    let overlapped = Overlapped::new();
    let file = Arc::clone(&pair.passive.file);
    armed(&pair, &overlapped);
    let _ = file.as_fd();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&pair));
        while overlapped.is_pending() {
            let mut fds = [PollFd::from_borrowed_fd(
                OverlappedFile::as_fd(&*file).unwrap(),
                PollFlags::IN,
            )];
            rustix::event::poll(&mut fds, None).unwrap();
            file.progress();
        }
        let _target = sending.join().unwrap();
    });
    taken(&pair);
}

#[test]
fn two_threads_wait_for_two_things_on_one_file() {
    let pair = pair();
    let (results, ended) = (Overlapped::new(), Overlapped::new());
    armed(&pair, &results);
    let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| results.wait_timeout(common::LONG));
        let second = scope.spawn(|| ended.wait_timeout(common::LONG));
        let _target = send(&pair);
        assert_eq!(first.join().unwrap(), Some(Status::SUCCESS));
        common::run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
        assert_eq!(second.join().unwrap(), Some(Status::SUCCESS));
    });
    taken(&pair);
}

/// A pair whose passive side has polled through so many messages that its stream is not reported any more.
fn steadily_polled() -> (Pair, Region) {
    let pair = pair();
    let target = pair.passive.region(8, ALL);
    for _ in 0..200 {
        send_into(&pair, &target);
        let mut result = [CompletionResult::default()];
        while pair.passive.cq.get_results(&mut result) == 0 {
            std::hint::spin_loop();
        }
        while pair.active.cq.get_results(&mut result) == 0 {
            std::hint::spin_loop();
        }
    }
    (pair, target)
}

#[test]
fn after_polling_a_wait_is_woken() {
    for _ in 0..20 {
        let (pair, target) = steadily_polled();
        let overlapped = Overlapped::new();
        armed(&pair, &overlapped);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| overlapped.wait_timeout(common::LONG));
            send_into(&pair, &target);
            assert_eq!(waiting.join().unwrap(), Some(Status::SUCCESS));
        });
        taken(&pair);
    }
}

/// The last octet is looked at, and no call is made (TST-103).
#[test]
fn after_polling_memory_is_written_without_any_call() {
    for round in 1..20u8 {
        let (pair, target) = steadily_polled();
        pair.active_qp
            .write_inline(3, &[&[round; 8]], target.remote(0), OpFlags::empty())
            .unwrap();
        let begun = std::time::Instant::now();
        while target.buffer.to_vec() != [round; 8] {
            assert!(begun.elapsed() < common::LONG);
            std::thread::yield_now();
        }
    }
}

#[test]
fn after_polling_the_end_is_told() {
    for _ in 0..20 {
        let (pair, _target) = steadily_polled();
        let told = Overlapped::new();
        let _ = pair.passive_connector.notify_disconnect(&told).unwrap();
        let ended = Overlapped::new();
        let _ = pair.active_connector.disconnect(&ended).unwrap();
        assert_eq!(told.wait_timeout(common::LONG), Some(Status::SUCCESS));
        assert_eq!(ended.wait_timeout(common::LONG), Some(Status::SUCCESS));
    }
}

/// The processors that the calling thread may run on, of the first 64.
fn processors() -> u64 {
    let set = sched_getaffinity(None).unwrap();
    (0..64)
        .filter(|cpu| set.is_set(*cpu))
        .fold(0, |mask, cpu| mask | 1 << cpu)
}

/// What is told is where the background thread runs, which is where the adapter was opened.
#[test]
fn cq_003_cq_009_iw_043_notify_affinity_is_the_one_in_use() {
    let told = |wish| {
        let side = Side::new();
        let cq = side.adapter.create_completion_queue(&side.file, 1, wish);
        cq.unwrap().get_notify_affinity()
    };
    let expect = || match processors() {
        0 => Err(Status::NOT_SUPPORTED), // CQ-008: it may run on later ones only
        mask => Ok(Affinity { group: 0, mask }),
    };
    let all = sched_getaffinity(None).unwrap();
    let any = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
    for cpu in any.take(4) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
        let wish = Affinity {
            group: 0,
            mask: !processors(),
        };
        for wish in [wish, Affinity::default()] {
            assert_eq!(told(wish).map_err(|error| error.status()), expect());
        }
    }
    sched_setaffinity(None, &all).unwrap();
    assert_eq!(
        told(Affinity::default()).map_err(|error| error.status()),
        expect()
    );
}
