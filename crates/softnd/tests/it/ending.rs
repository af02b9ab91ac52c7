//! The end of a connection: the requests that report the end, and their order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::ending::{
    ENDINGS, at_end, is_flushed, numbered, offered_by_hand, silent, watched,
};
use crate::common::{self, Side, end, idle, pair, pair_with, run, wait};
use netdirect::{
    CompletionPort, CompletionResult, Connector, NotifyType, OpFlags, Overlapped, Status,
};
use softnd::Options;

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

/// All requests of NotifyDisconnect complete before any flushed request can be seen.
#[test]
fn conn_106_the_flush_cannot_be_seen_while_notify_disconnect_is_being_told() {
    for ending in ENDINGS {
        let watched = watched(ending);
        watched.qp.receive(5, &[]).unwrap();
        let results = Overlapped::new();
        let _ = watched.side.cq.notify(NotifyType::Any, &results).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let (cq, seen, results) = (watched.side.cq.clone(), seen.clone(), results.clone());
            let overlapped = at_end(move || {
                let mut row = [CompletionResult::default(); 8];
                let count = cq.get_results(&mut row);
                seen.lock().unwrap().push((count, results.status()));
            });
            let _ = watched.connector.notify_disconnect(&overlapped).unwrap();
        }
        (watched.end)();
        assert_eq!(results.wait_timeout(common::LONG), Some(Status::SUCCESS));
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen, [(0, Status::PENDING); 2], "{ending:?}");
        assert!(is_flushed(&watched.side.cq), "{ending:?}");
    }
}

/// Flushed requests can be seen at once if no request of NotifyDisconnect is pending, or if the connector was released.
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
                idle();
            }
        }
    }
}

/// The application releases the connector while the connector reports the end.
#[test]
fn conn_106_the_flush_comes_when_the_connector_goes_while_it_tells() {
    for ending in ENDINGS {
        let watched = watched(ending);
        watched.qp.receive(5, &[]).unwrap();
        let held = Arc::new(Mutex::new(Some(watched.connector.clone())));
        let notified = at_end(move || drop(held.lock().unwrap().take()));
        let _ = watched.connector.notify_disconnect(&notified).unwrap();
        drop(watched.connector);
        (watched.end)();
        assert_eq!(notified.wait_timeout(common::LONG), Some(Status::SUCCESS));
        while !is_flushed(&watched.side.cq) {
            idle();
        }
    }
}

/// The `user` values and statuses of the packets in a port, in their order.
fn packets(port: &CompletionPort) -> Vec<(u64, Status)> {
    let packets = std::iter::from_fn(|| port.get(Some(Duration::ZERO)));
    packets.map(|packet| (packet.user, packet.status)).collect()
}

/// OVL-001: requests of all kinds complete in the order in which they were made.
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
        assert_eq!(packets(&port), cancelled);
    }
}

/// AMB-033: when this side's Disconnect ends, NotifyDisconnect has ended, and the flush has been seen.
#[test]
fn amb_033_disconnect_ends_after_the_flush_and_notify_disconnect() {
    let (side, qp, connector, client) = silent();
    let port = CompletionPort::new();
    side.file.associate(&port, 0).unwrap();
    qp.receive(5, &[]).unwrap();
    let _ = connector.notify_disconnect(&numbered(1)).unwrap();
    let _ = side.cq.notify(NotifyType::Any, &numbered(2)).unwrap();
    let _ = connector.disconnect(&numbered(3)).unwrap();
    assert_eq!(packets(&port), [(2, Status::SUCCESS)]);
    drop(client);
    for expected in [1, 3] {
        let packet = port.get(Some(common::LONG)).expect("the end is told");
        assert_eq!((packet.user, packet.status), (expected, Status::SUCCESS));
    }
}

/// The statuses of the calls that return the read limits and addresses of a connector.
fn answers(connector: &Arc<dyn Connector>) -> [Status; 3] {
    [
        common::status(connector.get_read_limits()),
        common::status(connector.get_peer_address()),
        common::status(connector.get_local_address()),
    ]
}

const NOTHING: [Status; 3] = [Status::CONNECTION_INVALID; 3];

/// CONN-110, CONN-105: only a cancel ends NotifyDisconnect with `ND_CANCELED`.
#[test]
fn conn_110_disconnect_is_cancelled_when_the_queue_pair_is_released() {
    let (side, qp, connector, _client) = silent();
    let port = CompletionPort::new();
    side.file.associate(&port, 0).unwrap();
    let _ = connector.notify_disconnect(&numbered(1)).unwrap();
    let _ = connector.disconnect(&numbered(2)).unwrap();
    assert_eq!(packets(&port), []);
    drop(qp);
    assert_eq!(
        packets(&port),
        [(1, Status::SUCCESS), (2, Status::CANCELED)]
    );
    assert_disconnected(&connector);
}

/// Asserts that the connector is disconnected: state D of the requirement catalogue.
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
        let taken = packets(&port);
        if !ended {
            assert_eq!(taken, [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
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

    // The connection ends because the queue pair is released between Connect and CompleteConnect.
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

/// Also if only a time limit would end the wait of a Send for a Receive.
#[test]
fn iw_026_amb_008_a_reset_is_noticed_behind_a_send_that_waits_for_a_receive() {
    let resets = "when 2nd Send sent: reset".parse().unwrap();
    let patient = Options::default().receive_wait(Duration::MAX);
    let pair = pair_with(Options::default().faults(resets).unwrap(), patient);
    let notified = Overlapped::new();
    let connector = &pair.passive_connector;
    let _ = connector.notify_disconnect(&notified).unwrap();
    for context in 0..2 {
        pair.active_qp
            .send_inline(context, &[b"no Receive"], OpFlags::empty())
            .unwrap();
    }
    assert_eq!(wait(&notified), Status::SUCCESS);
    pair.passive_qp.receive(5, &[]).unwrap();
    assert_eq!(pair.passive.result().status, Status::CANCELED);
}
