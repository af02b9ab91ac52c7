//! The rules of overlapped requests: GEN-006 to GEN-011, OVL rows, TST-002 to TST-010, AMB-065, AMB-068, AMB-069.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use crate::common::{Counter, MockFile, block_on};
use netdirect::{
    CompletionPort, Error, Event, Overlapped, OverlappedFile, OverlappedObject, Result, Started,
    Status, ext,
};
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_assert_eq, prop_oneof, proptest};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
/// Only a bug waits for its end.
const LONG: Duration = Duration::from_secs(60);

/// An object that does not know any request: what is asked of it is answered from the `Overlapped` (OVL-023).
#[derive(Debug)]
struct Stranger;

impl OverlappedObject for Stranger {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn never_used_is_success_without_waiting() {
    // TST-005
    let overlapped = Overlapped::new();
    assert_eq!(overlapped.status(), Status::SUCCESS);
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    assert_eq!(
        Stranger.get_overlapped_result(&overlapped, true),
        Status::SUCCESS
    );
    assert_eq!(block_on(overlapped.into_future()), Status::SUCCESS);
}

#[test]
fn status_is_pending_then_exactly_the_final_one() {
    // OVL-005, OVL-007, OVL-016, GEN-012: also unknown statuses
    let (_, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    for status in Status::ALL
        .iter()
        .copied()
        .filter(|status| *status != Status::PENDING)
    {
        let pending = overlapped.begin(&file).unwrap();
        assert!(
            pending.is_request_of(&overlapped.clone())
                && !pending.is_request_of(&Overlapped::new())
        );
        assert!(overlapped.is_pending());
        assert_eq!(overlapped.status(), Status::PENDING);
        assert_eq!(
            Stranger.get_overlapped_result(&overlapped, false),
            Status::PENDING
        );
        assert_eq!(overlapped.wait_timeout(Duration::ZERO), None);
        pending.complete(status);
        assert_eq!(overlapped.status(), status);
        assert_eq!(Stranger.get_overlapped_result(&overlapped, false), status);
        assert_eq!(overlapped.wait(), status);
    }
    overlapped
        .begin(&file)
        .unwrap()
        .complete(Status::from_bits(0xC123_4567));
    assert_eq!(overlapped.wait(), Status::from_bits(0xC123_4567));
}

#[test]
fn the_result_has_the_providers_explanation_until_the_next_request() {
    let (_, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    assert_eq!(overlapped.result(), Ok(()));
    let pending = overlapped.begin(&file).unwrap();
    assert_eq!(overlapped.result(), Err(Status::PENDING.into()));
    let refused = Error::new(Status::CONNECTION_REFUSED, "nobody listens");
    pending.complete(refused.clone());
    assert_eq!(overlapped.status(), Status::CONNECTION_REFUSED);
    assert_eq!(overlapped.result(), Err(refused.clone()));
    assert_eq!(
        ext::wait(Ok(Started::Pending), &overlapped),
        Err(refused.clone())
    );
    assert_eq!(
        block_on(ext::finished(Ok(Started::Pending), &overlapped)),
        Err(refused)
    );
    let pending = overlapped.begin(&file).unwrap();
    assert_eq!(overlapped.result(), Err(Status::PENDING.into()));
    drop(pending);
    assert_eq!(overlapped.result(), Err(Status::CANCELED.into()));
}

#[test]
fn each_start_on_a_port_is_one_packet_there_however_it_ends() {
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 7).unwrap();
    let overlapped = Overlapped::new();
    overlapped.set_user(3);
    ext::start_on(&port, 7, 3, Ok(Started::Done)).unwrap();
    let pending = overlapped.begin(&file).unwrap();
    ext::start_on(&port, 7, 3, Ok(Started::Pending)).unwrap();
    assert_eq!(port.len(), 1, "the pending one has not ended");
    pending.complete(Status::CANCELED);
    let seen = [(); 2].map(|()| port.get(AT_ONCE).unwrap());
    let seen = seen.map(|packet| (packet.key, packet.user, packet.status));
    assert_eq!(seen, [(7, 3, Status::SUCCESS), (7, 3, Status::CANCELED)]);
    let refused = Error::from(Status::CONNECTION_INVALID);
    let started = ext::start_on(&port, 7, 3, Err(refused.clone()));
    assert_eq!((started, port.len()), (Err(refused), 0));
}

#[test]
fn in_flight_twice_is_refused_and_harms_nobody() {
    // TST-024: Disconnect and Deregister with one OVERLAPPED
    let (_, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let first = overlapped.begin(&file).unwrap();
    let second = overlapped.begin(&file).unwrap_err();
    assert_eq!(second.status(), Status::INVALID_PARAMETER_MIX);
    assert!(overlapped.is_pending());
    first.complete(Status::IO_TIMEOUT);
    assert_eq!(overlapped.status(), Status::IO_TIMEOUT);
}

#[test]
fn used_again_on_another_object_after_its_end() {
    // OVL-022
    let (_, one) = MockFile::shared();
    let (other_mock, other) = MockFile::shared();
    let overlapped = Overlapped::new();
    overlapped
        .begin(&one)
        .unwrap()
        .complete(Status::CONNECTION_REFUSED);
    let pending = overlapped.begin(&other).unwrap();
    assert_eq!(overlapped.status(), Status::PENDING);
    other_mock.submit(move || pending.complete(Status::SUCCESS));
    assert_eq!(overlapped.wait(), Status::SUCCESS); // drives the second file
}

#[test]
fn waiting_drives_the_file_and_needs_no_event() {
    // AMB-068, OVL-011
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    mock.submit(move || pending.complete(Status::HOST_UNREACHABLE));
    assert!(overlapped.is_pending(), "nobody drives yet");
    assert_eq!(overlapped.wait(), Status::HOST_UNREACHABLE);
}

#[test]
fn polling_drives_the_file() {
    // TST-114
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let ways: [fn(&Overlapped) -> Status; 3] = [
        |o| o.poll(),
        |o| Stranger.get_overlapped_result(o, false),
        |o| o.wait_timeout(Duration::ZERO).unwrap(),
    ];
    for wait in ways {
        let pending = overlapped.begin(&file).unwrap();
        mock.submit(move || pending.complete(Status::CANCELED));
        assert_eq!(wait(&overlapped), Status::CANCELED);
    }
}

#[test]
fn a_thread_asleep_on_the_file_is_woken_by_an_end_elsewhere() {
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn({
                let o = overlapped.clone();
                move || o.wait()
            })
        })
        .collect();
    mock.wait_for_sleepers(3);
    pending.complete(Status::REMOTE_ERROR);
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Status::REMOTE_ERROR);
    }
}

#[test]
fn waiting_with_a_limit_ends_by_the_limit() {
    let (_, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    assert_eq!(overlapped.wait_timeout(Duration::from_millis(2)), None);
    assert!(overlapped.is_pending());
    drop(pending);
    assert_eq!(
        overlapped.wait_timeout(Duration::MAX),
        Some(Status::CANCELED)
    );
}

#[test]
fn dropped_request_is_cancelled_and_notified() {
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 5).unwrap();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    drop(overlapped.begin(&file).unwrap());
    assert_eq!(overlapped.status(), Status::CANCELED);
    assert!(event.wait_timeout(Duration::ZERO));
    assert_eq!(port.get(AT_ONCE).unwrap().status, Status::CANCELED);
}

#[test]
fn ended_before_the_method_returned_is_notified_all_the_same() {
    // TST-003, AMB-065: the method completes the request, then returns Pending
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 9).unwrap();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    overlapped.set_user(77);
    overlapped.begin(&file).unwrap().complete(Status::SUCCESS);
    let packet = port
        .get(AT_ONCE)
        .expect("the packet is there before the method returns (TST-030)");
    assert_eq!(
        (packet.key, packet.status, packet.user),
        (9, Status::SUCCESS, 77)
    );
    assert!(packet.overlapped.unwrap().is_same(&overlapped));
    assert!(event.wait_timeout(Duration::ZERO));
    assert!(port.is_empty(), "exactly one packet");
}

#[test]
fn done_or_failed_at_once_tells_nobody_but_leaves_its_status() {
    // GEN-008, GEN-009, TST-006
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 0).unwrap();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    overlapped
        .begin(&file)
        .unwrap()
        .complete(Status::DEVICE_BUSY);
    assert!(port.get(AT_ONCE).is_some() && event.wait_timeout(Duration::ZERO));
    for status in [Status::SUCCESS, Status::CONNECTION_INVALID] {
        overlapped.begin(&file).unwrap().abandon(status);
        assert_eq!(overlapped.status(), status);
        assert_eq!(overlapped.wait(), status);
        assert!(port.get(AT_ONCE).is_none());
        assert!(!event.wait_timeout(Duration::ZERO));
    }
}

#[test]
fn a_thread_that_waits_already_is_released_by_abandon() {
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    let waiter = thread::spawn({
        let o = overlapped.clone();
        move || o.wait()
    });
    mock.wait_for_sleepers(1);
    pending.abandon(Status::NO_MEMORY);
    assert_eq!(waiter.join().unwrap(), Status::NO_MEMORY);
}

#[test]
fn low_bit_event_keeps_the_packet_away_but_not_the_event() {
    // OVL-021, TST-009
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 0).unwrap();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event).without_port();
    overlapped.begin(&file).unwrap().complete(Status::SUCCESS);
    assert!(port.get(AT_ONCE).is_none());
    event.wait();
    assert_eq!(overlapped.wait(), Status::SUCCESS);
}

#[test]
fn beginning_resets_the_event() {
    let (_, file) = MockFile::shared();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    overlapped.begin(&file).unwrap().complete(Status::SUCCESS);
    let pending = overlapped.begin(&file).unwrap();
    assert!(
        !event.wait_timeout(Duration::ZERO),
        "the signal of the first request is gone"
    );
    pending.complete(Status::SUCCESS);
    assert!(event.wait_timeout(Duration::ZERO));
    assert!(!event.wait_timeout(Duration::ZERO), "auto-reset");
}

#[test]
fn event_is_set_for_a_thread_that_waits_on_it() {
    let (_, file) = MockFile::shared();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    let pending = overlapped.begin(&file).unwrap();
    let waiter = thread::spawn({
        let overlapped = overlapped.clone();
        move || {
            overlapped.event().unwrap().wait();
            overlapped.status()
        }
    });
    pending.complete(Status::CONNECTION_ABORTED);
    assert_eq!(
        waiter.join().unwrap(),
        Status::CONNECTION_ABORTED,
        "the status is there before the event"
    );
}

#[test]
fn a_thread_hands_its_work_over_before_it_sleeps_on_an_event() {
    let (mock, file) = MockFile::shared();
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    overlapped.begin(&file).unwrap().complete(Status::SUCCESS);
    event.wait(); // is set already
    assert!(!event.wait_timeout(Duration::ZERO)); // does not sleep
    let pending = overlapped.begin(&file).unwrap();
    assert_eq!(mock.handed_over(), 0);
    thread::scope(|scope| {
        scope.spawn(|| assert!(event.wait()));
        while mock.handed_over() == 0 {
            thread::yield_now();
        }
        pending.complete(Status::SUCCESS);
    });
    assert_eq!(mock.handed_over(), 1);

    // The work is handed over to the file of the last request.
    let (other, other_file) = MockFile::shared();
    let pending = overlapped.begin(&other_file).unwrap();
    assert!(!event.wait_timeout(Duration::from_millis(1)));
    assert_eq!((mock.handed_over(), other.handed_over()), (1, 1));
    drop((pending, file, mock, other_file, other));
    assert!(event.wait()); // set by the end of the request
    assert!(!event.wait_timeout(Duration::from_millis(1))); // there is no file any more
}

#[test]
fn a_task_hands_its_work_over_whenever_it_waits() {
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    let waker = Counter::new().into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!((&overlapped).into_future());
    for polls in 1..=3 {
        assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(mock.handed_over(), polls);
    }
    pending.complete(Status::SUCCESS);
    let ended = future.as_mut().poll(&mut context);
    assert_eq!(ended, Poll::Ready(Status::SUCCESS));
    assert_eq!(mock.handed_over(), 3);
}

#[test]
fn a_request_that_only_a_sink_waits_for_hands_its_work_over_at_once() {
    let (mock, file) = MockFile::shared();
    let sink = Arc::new(|_: Status| {});
    drop(Overlapped::new().begin(&file).unwrap());
    assert_eq!(mock.handed_over(), 0);
    drop(Overlapped::with_sink(sink.clone()).begin(&file).unwrap());
    assert_eq!(mock.handed_over(), 1);
    // With an event too, because a program need not wait for the event.
    let both = Overlapped::with_event_and_sink(&Event::new(), sink);
    drop(both.begin(&file).unwrap());
    assert_eq!(mock.handed_over(), 2);
}

#[test]
fn an_event_is_set_before_the_sink_of_the_same_request_is_called() {
    let (_, file) = MockFile::shared();
    let event = Event::new();
    let seen = Arc::new(AtomicBool::new(false));
    let sink = {
        let (event, seen) = (event.clone(), Arc::clone(&seen));
        move |_: Status| seen.store(event.wait_timeout(Duration::ZERO), Ordering::SeqCst)
    };
    let overlapped = Overlapped::with_event_and_sink(&event, Arc::new(sink));
    event.set();
    let pending = overlapped.begin(&file).unwrap();
    assert!(!event.wait_timeout(Duration::ZERO));
    pending.complete(Status::SUCCESS);
    assert!(seen.load(Ordering::SeqCst));
}

#[test]
fn awaited_under_an_executor_that_polls_only_when_woken() {
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let background = thread::spawn({
        let over = over.clone();
        move || {
            while !over.load(Ordering::SeqCst) {
                file.park(&|| over.load(Ordering::SeqCst), None).unwrap();
            }
        }
    });
    mock.wait_for_sleepers(1);
    mock.submit(move || pending.complete(Status::CONNECTION_REFUSED));
    assert_eq!(
        block_on(async { (&overlapped).await }),
        Status::CONNECTION_REFUSED
    );
    over.store(true, Ordering::SeqCst);
    mock.wake();
    background.join().unwrap();
}

#[test]
fn each_task_is_woken_once_and_only_by_its_latest_waker() {
    let (_, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    let (old, new, other, gone) = (
        Counter::new(),
        Counter::new(),
        Counter::new(),
        Counter::new(),
    );
    let mut future = pin!(overlapped.clone().into_future());
    let mut second = pin!(overlapped.clone().into_future());
    let mut dropped = Box::pin((&overlapped).into_future());
    let mut poll = |waker: &Arc<Counter>| {
        let waker = waker.clone().into();
        future.as_mut().poll(&mut Context::from_waker(&waker))
    };
    assert_eq!(poll(&old), Poll::Pending);
    assert_eq!(poll(&new), Poll::Pending); // as after moving to another task
    assert_eq!(
        second
            .as_mut()
            .poll(&mut Context::from_waker(&other.clone().into())),
        Poll::Pending
    );
    assert_eq!(
        dropped
            .as_mut()
            .poll(&mut Context::from_waker(&gone.clone().into())),
        Poll::Pending
    );
    drop(dropped);
    assert_eq!(
        Arc::strong_count(&gone),
        1,
        "a dropped future leaves no waker behind"
    );
    pending.complete(Status::SUCCESS);
    let counts = [&old, &new, &other, &gone].map(|counter| counter.wakes.load(Ordering::SeqCst));
    assert_eq!(counts, [0, 1, 1, 0]);
    assert_eq!(poll(&new), Poll::Ready(Status::SUCCESS));
    assert_eq!(Arc::strong_count(&new), 1);
}

#[test]
fn a_dropped_handle_breaks_nothing() {
    // The request keeps its record; nothing of the caller is needed to end it.
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 1).unwrap();
    let pending = Overlapped::new().begin(&file).unwrap();
    drop(file); // TST-026: the handle is closed before the objects
    pending.complete(Status::SUCCESS);
    assert_eq!(port.get(AT_ONCE).unwrap().key, 1);
}

#[test]
fn request_in_flight_keeps_the_file_and_its_end_lets_go() {
    let (mock, file) = MockFile::shared();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    drop(file);
    assert_eq!(Arc::strong_count(&mock), 2);
    pending.complete(Status::SUCCESS);
    assert_eq!(Arc::strong_count(&mock), 1);
}

#[test]
fn reused_at_once_by_another_thread_notifies_in_order() {
    // A thread that sees the end by polling and starts the next request must not overtake the packet of the first.
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 0).unwrap();
    let overlapped = Overlapped::new();
    for _ in 0..500 {
        let first = overlapped.begin(&file).unwrap();
        let reuser = thread::spawn({
            let (overlapped, file) = (overlapped.clone(), file.clone());
            move || {
                while overlapped.is_pending() {
                    std::hint::spin_loop();
                }
                overlapped.begin(&file).unwrap().complete(Status::CANCELED);
            }
        });
        first.complete(Status::SUCCESS);
        reuser.join().unwrap();
        let statuses = [port.get(AT_ONCE), port.get(AT_ONCE)].map(|packet| packet.unwrap().status);
        assert_eq!(statuses, [Status::SUCCESS, Status::CANCELED]);
    }
}

#[test]
fn a_sink_is_told_each_end_once_after_status_event_and_packet() {
    // TST-030
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 3).unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::new(OnceLock::<Overlapped>::new());
    let overlapped = Overlapped::with_sink({
        let (reported, own, port) = (reported.clone(), own.clone(), port.clone());
        Arc::new(move |status: Status| {
            let own = own.get().unwrap();
            reported
                .lock()
                .unwrap()
                .push((status, own.status(), port.len()));
        })
    });
    own.set(overlapped.clone()).unwrap();
    for status in [Status::SUCCESS, Status::CANCELED, Status::DEVICE_REMOVED] {
        overlapped.begin(&file).unwrap().complete(status);
        // The sink was called before `complete` returned.
        assert_eq!(
            std::mem::take(&mut *reported.lock().unwrap()),
            [(status, status, 1)]
        );
        assert_eq!(port.get(AT_ONCE).unwrap().status, status);
    }
    drop(overlapped.begin(&file).unwrap());
    assert_eq!(
        reported.lock().unwrap()[0].0,
        Status::CANCELED,
        "a dropped request ends as well"
    );
}

#[test]
fn a_sink_is_not_told_of_what_ended_in_its_method() {
    // GEN-008, GEN-009
    let (_, file) = MockFile::shared();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let overlapped = Overlapped::with_sink({
        let reported = reported.clone();
        Arc::new(move |status: Status| reported.lock().unwrap().push(status))
    });
    overlapped.begin(&file).unwrap().abandon(Status::SUCCESS);
    overlapped
        .begin(&file)
        .unwrap()
        .abandon(Status::DEVICE_BUSY);
    assert_eq!(*reported.lock().unwrap(), []);
    overlapped.begin(&file).unwrap().complete(Status::SUCCESS);
    assert_eq!(*reported.lock().unwrap(), [Status::SUCCESS]);
}

#[test]
fn a_sink_may_begin_the_next_request_and_end_others() {
    // As a provider does that wraps another one: the inner end is the outer end.
    let (_, file) = MockFile::shared();
    let outer = Overlapped::new();
    let outer_request = Mutex::new(Some(outer.begin(&file).unwrap()));
    let own = Arc::new(OnceLock::<Overlapped>::new());
    let next = Arc::new(Mutex::new(None));
    let inner = Overlapped::with_sink({
        let (own, next, file) = (own.clone(), next.clone(), file.clone());
        Arc::new(move |status: Status| {
            if let Some(request) = outer_request.lock().unwrap().take() {
                request.complete(status);
                *next.lock().unwrap() = Some(own.get().unwrap().begin(&file).unwrap());
            }
        })
    });
    own.set(inner.clone()).unwrap();
    inner
        .begin(&file)
        .unwrap()
        .complete(Status::HOST_UNREACHABLE);
    assert_eq!(outer.status(), Status::HOST_UNREACHABLE);
    assert!(inner.is_pending());
    next.lock()
        .unwrap()
        .take()
        .unwrap()
        .complete(Status::SUCCESS);
    assert_eq!(inner.status(), Status::SUCCESS);
}

#[test]
fn a_sink_that_panics_keeps_the_end_from_nobody() {
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 0).unwrap();
    let overlapped = Overlapped::with_sink(Arc::new(|_: Status| panic!("the sink of a test")));
    let pending = overlapped.begin(&file).unwrap();
    let waiter = thread::spawn({
        let overlapped = overlapped.clone();
        move || overlapped.wait_timeout(LONG)
    });
    let ended = thread::spawn(move || pending.complete(Status::IO_TIMEOUT));
    assert!(ended.join().is_err());
    assert_eq!(waiter.join().unwrap(), Some(Status::IO_TIMEOUT));
    assert_eq!(port.get(AT_ONCE).unwrap().status, Status::IO_TIMEOUT);
    overlapped.begin(&file).unwrap().abandon(Status::SUCCESS);
}

#[derive(Clone, Copy, Debug)]
enum End {
    Complete(Status),
    Drop,
    Abandon(Status),
}

fn ends() -> impl Strategy<Value = End> {
    let status = || {
        (0..Status::ALL.len())
            .prop_map(|at| Status::ALL[at])
            .prop_filter("no final status", |status| *status != Status::PENDING)
    };
    prop_oneof![
        status().prop_map(End::Complete),
        Just(End::Drop),
        status().prop_map(End::Abandon),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Packets and sink agree on which requests were notified, and on their statuses and order.
    #[test]
    fn a_sink_hears_what_the_port_hears(ends in proptest::collection::vec(ends(), 0..20)) {
        let (_, file) = MockFile::shared();
        let port = CompletionPort::new();
        file.associate(&port, 0).unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let overlapped = Overlapped::with_sink({
            let reported = reported.clone();
            Arc::new(move |status: Status| reported.lock().unwrap().push(status))
        });
        let mut expected = Vec::new();
        for end in ends {
            let request = overlapped.begin(&file).unwrap();
            match end {
                End::Complete(status) => {
                    request.complete(status);
                    expected.push(status);
                }
                End::Drop => {
                    drop(request);
                    expected.push(Status::CANCELED);
                }
                End::Abandon(status) => request.abandon(status),
            }
        }
        let packets: Vec<_> = std::iter::from_fn(|| port.get(AT_ONCE)).map(|packet| packet.status).collect();
        prop_assert_eq!(&packets, &expected);
        prop_assert_eq!(&*reported.lock().unwrap(), &expected);
    }
}
