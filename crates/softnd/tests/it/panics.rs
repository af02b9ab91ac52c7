//! A panic in a thread that drives an adapter's connections ends the adapter, and no request is left without an end.

use crossbeam_channel::{Receiver, unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::common::ending::at_end;
use crate::common::{LONG, Side, connect, pair, status};
use netdirect::{CompletionResult, NotifyType, OpFlags, Overlapped, QueuePair, Started, Status};

/// An adapter with requests that only its removal ends, and one whose end panics.
struct Stage {
    side: Side,
    qp: Arc<dyn QueuePair>,
    pending: Vec<Overlapped>,
    /// Receives a message just before the panic.
    panics: Receiver<()>,
    /// Makes the peer end the connection, so that the panic comes.
    end: Option<Box<dyn FnOnce()>>,
    _objects: Box<dyn std::any::Any>,
}

impl Stage {
    fn new() -> Self {
        let pair = pair();
        let side = pair.passive.clone();
        // A connection whose peer stays.
        let other = connect(Side::new(), side.clone(), 4);
        let (sender, panics) = unbounded();
        let panicking = at_end(move || {
            let _ = sender.send(());
            panic!("planted in the end of a request");
        });
        let notified = pair.passive_connector.notify_disconnect(&panicking);
        assert_eq!(notified.unwrap(), Started::Pending);

        let [asks, results, ends] = [(); 3].map(|()| Overlapped::new());
        let (listener, _) = side.listener(0);
        let connector = side.connector();
        let asked = listener.get_connection_request(&connector, &asks);
        let awaited = side.cq.notify(NotifyType::Any, &results);
        let watched = other.passive_connector.notify_disconnect(&ends);
        for started in [asked, awaited, watched] {
            assert_eq!(started.unwrap(), Started::Pending);
        }
        let qp = pair.passive_qp.clone();
        let (peer, peers_end) = (pair.active_connector.clone(), Overlapped::new());
        Self {
            side,
            qp,
            pending: vec![asks, results, ends],
            panics,
            end: Some(Box::new(move || {
                let _ = peer.disconnect(&peers_end).unwrap();
            })),
            _objects: Box::new((pair, other, listener, connector)),
        }
    }

    fn assert_ended(&self) {
        for pending in &self.pending {
            assert_eq!(pending.wait_timeout(LONG), Some(Status::DEVICE_REMOVED));
        }
        let Self { side, qp, .. } = self;
        assert_eq!(status(side.adapter.query()), Status::DEVICE_REMOVED);
        let sent = qp.send(1, &[], OpFlags::empty());
        assert_eq!(status(sent), Status::DEVICE_REMOVED);
        let notified = side.cq.notify(NotifyType::Any, &Overlapped::new());
        assert_eq!(status(notified), Status::DEVICE_REMOVED);
    }
}

#[test]
fn gen_015_a_panic_of_the_background_thread_removes_the_device() {
    let mut stage = Stage::new();
    stage.end.take().expect("once")();
    // This thread drives nothing, so that the background thread finds the end of the connection.
    stage.panics.recv_timeout(LONG).expect("the request ends");
    stage.assert_ended();
}

#[test]
fn gen_015_a_panic_of_a_thread_that_polls_removes_the_device() {
    let mut stage = Stage::new();
    // No other thread drives the connections that this thread polls.
    let mut results = [CompletionResult::default(); 4];
    let mut poll = || stage.side.cq.get_results(&mut results);
    poll();
    stage.end.take().expect("once")();
    let begun = std::time::Instant::now();
    let mut polled = Ok(0);
    while stage.panics.try_recv().is_err() && polled.is_ok() {
        assert!(begun.elapsed() < LONG, "the request does not end");
        polled = catch_unwind(AssertUnwindSafe(&mut poll));
    }
    stage.assert_ended();
}
