//! Several threads use the same objects at the same time.

use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::ending::{
    ENDINGS, Ending, Watched, at_end, is_flushed, numbered, silent, watched,
};
use crate::common::message::{armed, send, send_into, steadily_polled, taken};
use crate::common::stream::{Bench, Driver, Stream, same, small_requests_get_through, without_crc};
use crate::common::{self, ALL, Caller, LONG, Side, end, pair, run, status};
use netdirect::{
    Adapter, CompletionPort, CompletionResult, Connector, Event, Fault, MrFlags, NotifyType,
    OpFlags, Overlapped, QueuePairOptions, Started, Status,
};
use softnd::Options;

#[test]
fn lstn_025_withdrawing_while_peers_arrive_loses_none() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (here, mut there) = (passive.connector(), passive.connector());
    let names: Vec<[u8; 1]> = (0..64).map(|name| [name]).collect();
    let arrived = AtomicUsize::new(0);
    let seen = std::thread::scope(|threads| {
        threads.spawn(|| {
            while arrived.load(Ordering::Relaxed) < names.len() {
                let _ = listener
                    .get_connection_request(&here, &Overlapped::new())
                    .unwrap();
                listener.withdraw(&here).unwrap();
            }
        });
        threads.spawn(|| {
            let callers = names.iter().map(|name| Caller::new(&active, address, name));
            let callers: Vec<_> = callers.collect();
            for caller in &callers {
                let refused = caller.connects.wait_timeout(common::LONG);
                assert_eq!(refused, Some(Status::CONNECTION_REFUSED));
            }
        });
        let mut seen = Vec::new();
        for _ in &names {
            run(|overlapped| listener.get_connection_request(&there, overlapped)).unwrap();
            let [name] = there.get_private_data().unwrap()[..] else {
                panic!("no name");
            };
            seen.push([name]);
            // Rejects the caller, so that its Connect ends, and waits for the next caller with a new connector.
            there.reject(b"").unwrap();
            arrived.fetch_add(1, Ordering::Relaxed);
            there = passive.connector();
        }
        seen
    });
    assert_eq!(seen.len(), names.len());
    assert!(names.iter().all(|name| seen.contains(name)));
}

/// A poller that finds a flushed Receive also finds that NotifyDisconnect has completed, even while other threads hold the
/// connector's lock. The thread that holds the lock then completes NotifyDisconnect.
#[test]
fn conn_106_a_poller_that_finds_the_flush_finds_notify_disconnect_done() {
    for round in 0..50 {
        let Watched {
            side,
            qp,
            connector,
            end,
            _peer,
        } = watched(ENDINGS[round % ENDINGS.len()]);
        qp.receive(5, &[]).unwrap();
        let port = CompletionPort::new();
        side.file.associate(&port, 0).unwrap();
        let event = Event::new();
        let notified = [
            Overlapped::with_event(&event).without_port(),
            Overlapped::new().without_port(),
            numbered(7),
        ];
        for overlapped in &notified {
            let _ = connector.notify_disconnect(overlapped).unwrap();
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let polls = scope.spawn(|| {
                while !is_flushed(&side.cq) {}
                let statuses = notified.each_ref().map(Overlapped::status);
                let event = event.wait_timeout(Duration::ZERO);
                let mut finished = Box::pin(notified[1].clone().into_future());
                let polled = finished
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                let packets = port.len();
                over.store(true, Ordering::Relaxed);
                (statuses, event, polled.is_ready(), packets)
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = connector.get_peer_address();
                }
            });
            scope.spawn(end);
            let found = polls.join().unwrap();
            assert_eq!(found, ([Status::SUCCESS; 3], true, true, 1), "{round}");
        });
    }
}

/// A thread that cancels has taken the requests of NotifyDisconnect and has ended the first of them when another thread finds the peer's
/// disconnect: the flush waits for the thread that cancels.
#[test]
fn conn_106_the_flush_waits_for_a_cancel_under_way() {
    let Watched {
        side,
        qp,
        connector,
        end,
        _peer,
    } = watched(Ending::Orderly);
    qp.receive(5, &[]).unwrap();
    let end = Mutex::new(Some(end));
    let seen = Arc::new(Mutex::new(None));
    let second = Overlapped::new();
    let (pending, found) = (second.clone(), seen.clone());
    let (cq, again) = (side.cq.clone(), connector.clone());
    let first = at_end(move || {
        let end = end.lock().unwrap().take().expect("told once");
        let ends = std::thread::spawn(end);
        // This request ends when the connector knows of the peer's disconnect.
        run(|overlapped| again.notify_disconnect(overlapped)).unwrap();
        *found.lock().unwrap() = Some((is_flushed(&cq), pending.status()));
        drop(ends); // not joined, because the peer's Disconnect may need the end of this side
    });
    let notified = [first, second];
    for overlapped in &notified {
        let _ = connector.notify_disconnect(overlapped).unwrap();
    }
    connector.cancel_overlapped_requests().unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((false, Status::PENDING)));
    for overlapped in &notified {
        assert_eq!(overlapped.status(), Status::CANCELED);
    }
    assert_eq!(side.result().status, Status::CANCELED);
}

/// A callback at the end of a request may use the connector, even when a call of the connector has ended the request.
#[test]
fn a_call_of_the_connector_ends_requests_with_no_lock_held() {
    let over = |act: Box<dyn FnOnce() + Send>| {
        let (sender, receiver) = crossbeam_channel::unbounded();
        std::thread::spawn(move || {
            act();
            sender.send(()).unwrap();
        });
        receiver.recv_timeout(common::LONG).expect("no deadlock");
    };
    let used = Arc::new(AtomicUsize::new(0));
    let use_at_end = |connector: &Arc<dyn Connector>| {
        let (used, connector) = (used.clone(), connector.clone());
        at_end(move || {
            connector.get_local_address().unwrap();
            used.fetch_add(1, Ordering::SeqCst);
        })
    };

    // Another thread may call the callback, so the test waits for it.
    let wait_for = |count| {
        while used.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
    };

    // Disconnect flushes the Receive.
    let (side, qp, connector, _client) = silent();
    qp.receive(5, &[]).unwrap();
    let results = use_at_end(&connector);
    let _ = side.cq.notify(NotifyType::Any, &results).unwrap();
    over(Box::new(move || {
        let _ = connector.disconnect(&Overlapped::new()).unwrap();
    }));
    wait_for(1);

    // CompleteConnect handles the octets that the peer has sent since the ready-to-receive message was sent without it.
    let soon = Some(Duration::from_millis(20));
    let active = Side::with(Options::default().timeouts(|limits| limits.hold_ready = soon));
    let passive = Side::new();
    let (listener, address) = passive.listener(0);
    let (here, there) = (active.connector(), passive.connector());
    let (active_qp, passive_qp) = (active.queue_pair(), passive.queue_pair());
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let connecting = here.connect(&active_qp, address, 1, 1, b"", &connects);
    end(arrival, &arrives).unwrap();
    let accepting = there.accept(&passive_qp, 1, 1, b"", &accepts);
    end(connecting, &connects).unwrap();
    end(accepting, &accepts).unwrap();
    active_qp.receive(1, &[]).unwrap();
    passive_qp.send(2, &[], OpFlags::empty()).unwrap();
    assert_eq!(passive.result().status, Status::SUCCESS);
    let results = use_at_end(&here);
    let _ = active.cq.notify(NotifyType::Any, &results).unwrap();
    over(Box::new(move || {
        run(|overlapped| here.complete_connect(overlapped)).unwrap();
    }));
    wait_for(2);
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn remove(adapter: &Arc<dyn Adapter>) -> Status {
    let extensions = adapter.extensions().expect("softnd has them");
    status(extensions.inject(Fault::RemoveDevice))
}

/// Threads make calls while another thread removes the device: each call ends, and each later call fails.
#[test]
fn removal_meets_calls_of_other_threads() {
    for round in 0..20 {
        let side = Side::new();
        let done = AtomicUsize::new(0);
        let act = |act: &dyn Fn() -> Status| {
            let began = Instant::now();
            loop {
                match act() {
                    Status::DEVICE_REMOVED => return,
                    _ => done.fetch_add(1, Ordering::Relaxed),
                };
                assert!(began.elapsed() < LONG, "round {round}: the calls go on");
            }
        };
        let ended = |start: &dyn Fn(&Overlapped) -> netdirect::Result<Started>| {
            let overlapped = Overlapped::new();
            match start(&overlapped) {
                Ok(_) => overlapped.wait_timeout(LONG).expect("the end of a request"),
                Err(error) => error.status(),
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| act(&|| meet(&side)));
            scope.spawn(|| act(&|| ended(&|o| side.cq.notify(NotifyType::Any, o))));
            scope.spawn(|| {
                let region = side.adapter.create_memory_region(&side.file);
                let Ok(region) = region else { return };
                let buffer = netdirect::Buffer::new(64);
                act(&|| {
                    let registered = ended(&|o| region.register(&buffer, MrFlags::empty(), o));
                    let _ = run(|o| region.deregister(o));
                    registered
                });
            });
            scope.spawn(|| {
                act(&|| {
                    let (cq, options) = (&side.cq, QueuePairOptions::default());
                    let made = side.adapter.create_queue_pair(cq, cq, options);
                    made.map_or_else(|error| error.status(), |qp| status(qp.receive(1, &[])))
                });
            });
            while done.load(Ordering::Relaxed) < 10 * round {
                thread::yield_now();
            }
            assert_eq!(remove(&side.adapter), Status::SUCCESS);
        });
    }
}

/// Connects the side with itself and sends a message. Returns the first status that is not success.
fn meet(side: &Side) -> Status {
    let talk = || -> Result<(), Status> {
        let failed = |error: netdirect::Error| error.status();
        let made = side.adapter.create_listener(&side.file);
        let listener = made.map_err(failed)?;
        listener.bind(any_port()).map_err(failed)?;
        listener.listen(0).map_err(failed)?;
        let to = listener
            .get_local_address()
            .map_err(|_| Status::DEVICE_REMOVED)?;
        let connector = || side.adapter.create_connector(&side.file).map_err(failed);
        let (active, passive) = (connector()?, connector()?);
        let options = QueuePairOptions::default();
        let qp = || {
            side.adapter
                .create_queue_pair(&side.cq, &side.cq, options)
                .map_err(failed)
        };
        let (active_qp, passive_qp) = (qp()?, qp()?);
        let (connects, accepts) = (Overlapped::new(), Overlapped::new());
        let connecting = active.connect(&active_qp, to, 1, 1, &[], &connects);
        run(|o| listener.get_connection_request(&passive, o))?;
        let accepting = passive.accept(&passive_qp, 1, 1, &[], &accepts);
        end(connecting, &connects)?;
        run(|o| active.complete_connect(o))?;
        end(accepting, &accepts)?;
        passive_qp.receive(1, &[]).map_err(failed)?;
        active_qp
            .send(2, &[], OpFlags::SILENT_SUCCESS)
            .map_err(failed)?;
        run(|o| active.disconnect(o))
    };
    talk().err().unwrap_or(Status::SUCCESS)
}

#[test]
fn small_reads_get_through_where_another_thread_polls() {
    let mut bench = Bench::new(&without_crc(), Stream::Write, Driver::Other);
    let (passive, over) = (same(&bench.bulk.passive), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let taken = passive
                    .cq
                    .get_results(&mut [CompletionResult::default(); 1]);
                assert_eq!(
                    taken, 0,
                    "Writes and Reads end at the side that asks for them"
                );
            }
        });
        // The thread ends with the test even if the measurement fails.
        let done = catch_unwind(AssertUnwindSafe(|| small_requests_get_through(&mut bench)));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

#[test]
fn by_waiting_while_another_thread_sends() {
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

#[test]
fn after_polling_a_wait_in_another_thread_is_woken() {
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

/// QP-028: a slot is free as soon as its result was taken, in whichever thread. Threads that post as many Receives as they have taken results
/// never find the queue full.
#[test]
fn qp_028_threads_that_take_results_find_the_slots_free() {
    const DEPTH: u64 = 32;
    let side = Side::new();
    let qp = side.queue_pair();
    (0..DEPTH).for_each(|context| qp.receive(context, &[]).unwrap());
    qp.flush().unwrap();
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut results = [CompletionResult::default(); 3];
                for _ in 0..2000 {
                    let taken = side.cq.get_results(&mut results);
                    (0..taken as u64).for_each(|context| qp.receive(context, &[]).unwrap());
                    qp.flush().unwrap();
                }
            });
        }
    });
    assert_eq!(side.results(32).len(), 32);
    assert_eq!(side.cq.get_results(&mut [CompletionResult::default()]), 0);
}
