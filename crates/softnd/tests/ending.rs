//! The end of a connection: who is told of it, and in which order.

mod common;

use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use common::{Side, end, pair, run};
use iwarp::mpa::startup::{Frame, FrameKind};
use netdirect::{
    CompletionPort, CompletionQueue, CompletionResult, Connector, Event, LocalToken, NotifyType,
    OpFlags, Overlapped, QueuePair, RemoteAddress, Sge, Status,
};
use socket2::SockRef;
use softnd::Options;

/// The ends that a connection can come to without this side's Disconnect.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The peer disconnects.
    Orderly,
    /// The peer's end of the stream is a reset.
    Reset,
    /// The peer finds an error and sends a Terminate.
    Terminate,
    /// This side finds an error in what the peer sent.
    Fault,
    /// A request of this side fails.
    Request,
}

const ENDINGS: [Ending; 5] = [
    Ending::Orderly,
    Ending::Reset,
    Ending::Terminate,
    Ending::Fault,
    Ending::Request,
];

/// One end of a connection, and what ends it.
struct Watched {
    side: Side,
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
    end: Box<dyn FnOnce() + Send>,
    /// The other end, which lives as long as this one.
    _peer: Box<dyn Any + Send>,
}

/// A Write to memory that nobody has registered; its success is not reported.
fn write_astray(qp: &Arc<dyn QueuePair>) {
    let nowhere = RemoteAddress {
        address: 0,
        token: netdirect::RemoteToken(0xDEAD_BEEF),
    };
    qp.write_inline(99, &[b"astray"], nowhere, OpFlags::SILENT_SUCCESS)
        .unwrap();
}

fn watched(ending: Ending) -> Watched {
    if let Ending::Reset = ending {
        return reset_by_hand();
    }
    let pair = pair();
    let (active, passive) = (pair.active_qp.clone(), pair.passive_qp.clone());
    let (side, qp, connector) = match ending {
        Ending::Terminate => (&pair.active, &pair.active_qp, &pair.active_connector),
        _ => (&pair.passive, &pair.passive_qp, &pair.passive_connector),
    };
    let (side, qp, connector) = (side.clone(), qp.clone(), connector.clone());
    let peer = pair.active_connector.clone();
    let end = move || match ending {
        Ending::Orderly => run(|overlapped| peer.disconnect(overlapped)).unwrap(),
        Ending::Terminate | Ending::Fault => write_astray(&active),
        Ending::Request => {
            let unknown = Sge {
                address: 0,
                length: 1,
                token: LocalToken(0xDEAD_BEEF),
            };
            passive.send(98, &[unknown], OpFlags::empty()).unwrap();
        }
        Ending::Reset => unreachable!("made by hand"),
    };
    let keep: (Side, Arc<dyn QueuePair>, Arc<dyn Connector>) = match ending {
        Ending::Terminate => (pair.passive, pair.passive_qp, pair.passive_connector),
        _ => (pair.active, pair.active_qp, pair.active_connector),
    };
    Watched {
        side,
        qp,
        connector,
        end: Box::new(end),
        _peer: Box::new(keep),
    }
}

/// Offered a connection by a client made by hand.
fn offered_by_hand() -> (Side, Arc<dyn Connector>, TcpStream) {
    let side = Side::new();
    let (listener, address) = side.listener(0);
    let connector = side.connector();
    let arrives = Overlapped::new();
    let arrival = listener.get_connection_request(&connector, &arrives);
    let request = Frame {
        kind: FrameKind::Request,
        markers: false,
        crc: false,
        rejected: false,
        revision: 1,
        enhanced: None,
        private_data: Vec::new(),
    };
    let mut octets = Vec::new();
    request.encode(&mut octets);
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(&octets).unwrap();
    end(arrival, &arrives).unwrap();
    (side, connector, client)
}

/// Connected with a client made by hand, which ends with a reset.
fn reset_by_hand() -> Watched {
    let (side, qp, connector, mut client) = silent();
    client.read_exact(&mut [0; 20]).unwrap();
    let end = move || {
        SockRef::from(&client)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(client);
    };
    Watched {
        side,
        qp,
        connector,
        end: Box::new(end),
        _peer: Box::new(()),
    }
}

/// Takes what is in the queue; whether the flush of the Receive is among it.
fn is_flushed(cq: &Arc<dyn CompletionQueue>) -> bool {
    let mut results = [CompletionResult::default(); 8];
    let count = cq.get_results(&mut results);
    results[..count]
        .iter()
        .any(|result| result.status == Status::CANCELED)
}

#[test]
fn conn_106_notify_disconnect_comes_before_the_flush_in_a_completion_port() {
    const RESULTS: u64 = 1;
    const DISCONNECT: u64 = 2;
    for ending in ENDINGS {
        for notify_first in [false, true] {
            let watched = watched(ending);
            let port = CompletionPort::new();
            watched.side.file.associate(&port, 0).unwrap();
            watched.qp.receive(5, &[]).unwrap();
            let (results, disconnect) = (Overlapped::new(), Overlapped::new());
            results.set_user(RESULTS);
            disconnect.set_user(DISCONNECT);
            let notify = || watched.side.cq.notify(NotifyType::Any, &results).unwrap();
            let _ = notify_first.then(notify);
            let _ = watched.connector.notify_disconnect(&disconnect).unwrap();
            let _ = (!notify_first).then(notify);
            (watched.end)();
            for expected in [DISCONNECT, RESULTS] {
                let packet = port.get(Some(common::LONG)).expect("the end is told");
                assert_eq!(
                    (packet.user, packet.status),
                    (expected, Status::SUCCESS),
                    "{ending:?}"
                );
            }
        }
    }
}

/// Whoever finds a flushed Receive finds NotifyDisconnect done, also while other threads use the connector, so that
/// whoever holds it has to do what the driver of the queue pair found out.
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

/// Code of the application's that runs when a request ends, in the thread that ends it.
struct AtEnd<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for AtEnd<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Has `act` called at the end of the request of `overlapped`, which is in flight.
fn at_end(overlapped: &Overlapped, act: impl Fn() + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(AtEnd(act)));
    let mut finished = Box::pin(overlapped.into_future());
    let polled = finished.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    std::mem::forget(finished); // dropped, it would take its waker back
}

/// Each request of NotifyDisconnect is told before anything of the flush can be seen, not only the first.
#[test]
fn conn_106_the_flush_cannot_be_seen_while_notify_disconnect_is_being_told() {
    for ending in ENDINGS {
        let watched = watched(ending);
        watched.qp.receive(5, &[]).unwrap();
        let results = Overlapped::new();
        let _ = watched.side.cq.notify(NotifyType::Any, &results).unwrap();
        let notified = [Overlapped::new(), Overlapped::new()];
        let seen = Arc::new(Mutex::new(Vec::new()));
        for overlapped in &notified {
            let _ = watched.connector.notify_disconnect(overlapped).unwrap();
            let (cq, seen, results) = (watched.side.cq.clone(), seen.clone(), results.clone());
            at_end(overlapped, move || {
                let mut row = [CompletionResult::default(); 8];
                let count = cq.get_results(&mut row);
                seen.lock().unwrap().push((count, results.status()));
            });
        }
        (watched.end)();
        assert_eq!(results.wait_timeout(common::LONG), Some(Status::SUCCESS));
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen, [(0, Status::PENDING); 2], "{ending:?}");
        assert!(is_flushed(&watched.side.cq), "{ending:?}");
    }
}

/// A thread that cancels has taken the requests of NotifyDisconnect and told the first of them when the peer's
/// disconnect is found by another: the flush waits for the thread that cancels.
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
    let notified = [Overlapped::new(), Overlapped::new()];
    for overlapped in &notified {
        let _ = connector.notify_disconnect(overlapped).unwrap();
    }
    let end = Mutex::new(Some(end));
    let seen = Arc::new(Mutex::new(None));
    let (second, found) = (notified[1].clone(), seen.clone());
    let (cq, again) = (side.cq.clone(), connector.clone());
    at_end(&notified[0], move || {
        let end = end.lock().unwrap().take().expect("told once");
        let ends = std::thread::spawn(end);
        // Ends when the connector knows of the peer's disconnect.
        run(|overlapped| again.notify_disconnect(overlapped)).unwrap();
        *found.lock().unwrap() = Some((is_flushed(&cq), second.status()));
        drop(ends); // the peer's own Disconnect may need this side's end
    });
    connector.cancel_overlapped_requests().unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((false, Status::PENDING)));
    for overlapped in &notified {
        assert_eq!(overlapped.status(), Status::CANCELED);
    }
    assert_eq!(side.result().status, Status::CANCELED);
}

/// The flush waits for nobody where nobody asked to be notified, or where the connector is gone.
#[test]
fn conn_106_the_flush_comes_without_notify_disconnect() {
    for ending in ENDINGS {
        for released in [false, true] {
            let watched = watched(ending);
            watched.qp.receive(5, &[]).unwrap();
            if released {
                drop(watched.connector);
            }
            (watched.end)();
            while !is_flushed(&watched.side.cq) {
                std::thread::yield_now();
            }
        }
    }
}

/// The connector is released by the application in the middle of being told of the end.
#[test]
fn conn_106_the_flush_comes_when_the_connector_goes_while_it_tells() {
    for ending in ENDINGS {
        let watched = watched(ending);
        watched.qp.receive(5, &[]).unwrap();
        let notified = Overlapped::new();
        let _ = watched.connector.notify_disconnect(&notified).unwrap();
        let connector = Mutex::new(Some(watched.connector));
        at_end(&notified, move || drop(connector.lock().unwrap().take()));
        (watched.end)();
        assert_eq!(notified.wait_timeout(common::LONG), Some(Status::SUCCESS));
        while !is_flushed(&watched.side.cq) {
            std::thread::yield_now();
        }
    }
}

/// A connection with a client made by hand, which ends it only when it is dropped.
fn silent() -> (Side, Arc<dyn QueuePair>, Arc<dyn Connector>, TcpStream) {
    let (side, connector, client) = offered_by_hand();
    let qp = side.queue_pair();
    run(|overlapped| connector.accept(&qp, 0, 0, b"", overlapped)).unwrap();
    (side, qp, connector, client)
}

/// The `user` values and statuses of the packets in a port, in their order.
fn told(port: &CompletionPort) -> Vec<(u64, Status)> {
    let packets = std::iter::from_fn(|| port.get(Some(Duration::ZERO)));
    packets.map(|packet| (packet.user, packet.status)).collect()
}

fn numbered(user: u64) -> Overlapped {
    let overlapped = Overlapped::new();
    overlapped.set_user(user);
    overlapped
}

/// OVL-001: in the order in which the requests were made, whatever they are.
#[test]
fn ovl_001_requests_of_a_connector_are_cancelled_in_order() {
    for released in [false, true] {
        let (side, _qp, connector, _client) = silent();
        let port = CompletionPort::new();
        side.file.associate(&port, 0).unwrap();
        let _ = connector.notify_disconnect(&numbered(1)).unwrap();
        let _ = connector.notify_disconnect(&numbered(2)).unwrap();
        let _ = connector.disconnect(&numbered(3)).unwrap();
        let _ = connector.notify_disconnect(&numbered(4)).unwrap();
        if released {
            drop(connector);
        } else {
            connector.cancel_overlapped_requests().unwrap();
        }
        let cancelled = [1, 2, 3, 4].map(|user| (user, Status::CANCELED));
        assert_eq!(told(&port), cancelled);
    }
}

/// AMB-033: NotifyDisconnect has ended when the own Disconnect ends, and the flush has been seen.
#[test]
fn amb_033_disconnect_ends_after_the_flush_and_notify_disconnect() {
    let (side, qp, connector, client) = silent();
    let port = CompletionPort::new();
    side.file.associate(&port, 0).unwrap();
    qp.receive(5, &[]).unwrap();
    let _ = connector.notify_disconnect(&numbered(1)).unwrap();
    let _ = side.cq.notify(NotifyType::Any, &numbered(2)).unwrap();
    let _ = connector.disconnect(&numbered(3)).unwrap();
    assert_eq!(told(&port), [(2, Status::SUCCESS)]);
    drop(client);
    for expected in [1, 3] {
        let packet = port.get(Some(common::LONG)).expect("the end is told");
        assert_eq!((packet.user, packet.status), (expected, Status::SUCCESS));
    }
}

/// What a connector tells of its peer, and of itself.
fn answers(connector: &Arc<dyn Connector>) -> [Status; 3] {
    [
        common::status(connector.get_read_limits()),
        common::status(connector.get_peer_address()),
        common::status(connector.get_local_address()),
    ]
}

const NOTHING: [Status; 3] = [Status::CONNECTION_INVALID; 3];

/// CONN-110, CONN-105: NotifyDisconnect ends with `ND_CANCELED` by a cancel only.
#[test]
fn conn_110_disconnect_is_cancelled_when_the_queue_pair_is_released() {
    let (side, qp, connector, _client) = silent();
    let port = CompletionPort::new();
    side.file.associate(&port, 0).unwrap();
    let _ = connector.notify_disconnect(&numbered(1)).unwrap();
    let _ = connector.disconnect(&numbered(2)).unwrap();
    assert_eq!(told(&port), []);
    drop(qp);
    assert_eq!(told(&port), [(1, Status::SUCCESS), (2, Status::CANCELED)]);
    assert_disconnected(&connector);
}

/// Catalogue, state D.
fn assert_disconnected(connector: &Arc<dyn Connector>) {
    assert_eq!(answers(connector), NOTHING);
    let again = common::status(connector.disconnect(&Overlapped::new()));
    assert_eq!(again, Status::CONNECTION_INVALID);
    let notified = Overlapped::new();
    let _ = connector.notify_disconnect(&notified).unwrap();
    assert_eq!(notified.status(), Status::SUCCESS);
}

/// CONN-116: the implicit disconnect, of a live connection and of one that the peer has ended.
#[test]
fn conn_116_a_released_queue_pair_leaves_its_connector_disconnected() {
    for ended in [false, true] {
        let (side, qp, connector, client) = silent();
        let port = CompletionPort::new();
        side.file.associate(&port, 0).unwrap();
        qp.receive(5, &[]).unwrap();
        let _ = connector.notify_disconnect(&numbered(1)).unwrap();
        let _ = side.cq.notify(NotifyType::Any, &numbered(2)).unwrap();
        assert_eq!(answers(&connector), [Status::SUCCESS; 3]);
        if ended {
            drop(client);
            let _ = connector.notify_disconnect(&numbered(0)).unwrap();
            port.get(Some(common::LONG)).expect("the end is told");
        }
        drop(qp);
        let told = told(&port);
        if !ended {
            assert_eq!(told, [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
        }
        assert_eq!(side.result().status, Status::CANCELED);
        assert_disconnected(&connector);
    }
}

/// CONN-078, CONN-094, CONN-099.
#[test]
fn conn_099_a_dead_connector_has_no_peer() {
    let (_side, connector, _client) = offered_by_hand();
    assert_eq!(answers(&connector), [Status::SUCCESS; 3]);
    connector.reject(b"").unwrap();
    assert_eq!(answers(&connector), NOTHING);

    let pair = pair();
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(answers(&pair.active_connector), NOTHING);

    // Given up by the release of the queue pair between Connect and CompleteConnect.
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (here, there) = (active.connector(), passive.connector());
    let (arrives, connects) = (Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let qp = active.queue_pair();
    let connecting = here.connect(&qp, address, 1, 1, b"", &connects);
    end(arrival, &arrives).unwrap();
    let passive_qp = passive.queue_pair();
    let _ = there
        .accept(&passive_qp, 1, 1, b"", &Overlapped::new())
        .unwrap();
    end(connecting, &connects).unwrap();
    assert_eq!(answers(&here), [Status::SUCCESS; 3]);
    drop(qp);
    assert_eq!(answers(&here), NOTHING);
}

/// What runs when a request ends may use the connector, also where a call of the connector has ended the request.
#[test]
fn a_call_of_the_connector_ends_requests_with_no_lock_held() {
    let over = |act: Box<dyn FnOnce() + Send>| {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            act();
            tell.send(()).unwrap();
        });
        told.recv_timeout(common::LONG).expect("no deadlock");
    };
    let used = Arc::new(AtomicUsize::new(0));
    let use_at_end = |overlapped: &Overlapped, connector: &Arc<dyn Connector>| {
        let (used, connector) = (used.clone(), connector.clone());
        at_end(overlapped, move || {
            connector.get_local_address().unwrap();
            used.fetch_add(1, Ordering::SeqCst);
        });
    };

    // Another thread may have delivered it.
    let wait_for = |count| {
        while used.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
    };

    // Disconnect flushes the Receive.
    let (side, qp, connector, _client) = silent();
    qp.receive(5, &[]).unwrap();
    let results = Overlapped::new();
    let _ = side.cq.notify(NotifyType::Any, &results).unwrap();
    use_at_end(&results, &connector);
    over(Box::new(move || {
        let _ = connector.disconnect(&Overlapped::new()).unwrap();
    }));
    wait_for(1);

    // CompleteConnect takes in what the peer has sent since the ready-to-receive message left without it.
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
    let results = Overlapped::new();
    let _ = active.cq.notify(NotifyType::Any, &results).unwrap();
    use_at_end(&results, &here);
    over(Box::new(move || {
        run(|overlapped| here.complete_connect(overlapped)).unwrap();
    }));
    wait_for(2);
}
