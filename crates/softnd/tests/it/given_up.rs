//! Connections that end while they are made.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, LONG, SIMULATED, Side, end, run, status, wait};
use netdirect::{
    CompletionResult, Connector, Fault, Listener, OpFlags, Overlapped, QueuePair, Status,
};
use softnd::Options;

/// A connection on which Accept is pending: Connect has succeeded, and CompleteConnect was not called.
struct HalfMade {
    active: Side,
    passive: Side,
    active_qp: Arc<dyn QueuePair>,
    passive_qp: Arc<dyn QueuePair>,
    active_connector: Arc<dyn Connector>,
    /// The request of Accept.
    accepts: Overlapped,
    passive_connector: Arc<dyn Connector>,
    listener: Arc<dyn Listener>,
}

impl HalfMade {
    /// Makes such a connection, with two Receives on the passive queue pair.
    fn new(active: Options, passive: Options) -> Self {
        let (active, passive) = (Side::with(active), Side::with(passive));
        let (listener, address) = passive.listener(0);
        let (active_qp, passive_qp) = (active.queue_pair(), passive.queue_pair());
        passive_qp.receive(1, &[]).unwrap();
        passive_qp.receive(2, &[]).unwrap();
        let (active_connector, passive_connector) = (active.connector(), passive.connector());
        let [arrives, connects, accepts] = [(); 3].map(|()| Overlapped::new());
        let arrival = listener.get_connection_request(&passive_connector, &arrives);
        let connecting = active_connector.connect(&active_qp, address, 4, 4, &[], &connects);
        end(arrival, &arrives).unwrap();
        let _ = passive_connector
            .accept(&passive_qp, 4, 4, &[], &accepts)
            .unwrap();
        end(connecting, &connects).unwrap();
        Self {
            active,
            passive,
            active_qp,
            passive_qp,
            active_connector,
            accepts,
            passive_connector,
            listener,
        }
    }

    /// Completes the connection, whose peer has disconnected, and lets the client learn of that as of any other end.
    fn complete_and_see_the_end(&self) {
        let connector = &self.active_connector;
        let completed = run(|overlapped| connector.complete_connect(overlapped));
        assert_eq!(completed, Ok(()));
        let notified = run(|overlapped| connector.notify_disconnect(overlapped));
        assert_eq!(notified, Ok(()));
        let disconnected = run(|overlapped| connector.disconnect(overlapped));
        assert_eq!(disconnected, Ok(()));
    }
}

#[test]
fn conn_042_conn_047_complete_connect_succeeds_although_the_queue_pair_is_dead() {
    let made = HalfMade::new(Options::default(), Options::default());
    let fault = Fault::BreakCompletionQueue {
        queue: made.active.cq.clone(),
        status: Status::INTERNAL_ERROR,
    };
    let extensions = made.active.adapter.extensions().unwrap();
    extensions.inject(fault).unwrap();
    made.complete_and_see_the_end();
    assert_eq!(wait(&made.accepts), Status::CONNECTION_ABORTED);
}

#[test]
fn conn_042_conn_047_complete_connect_succeeds_although_the_peer_has_reset() {
    let soon = Some(Duration::from_millis(1));
    let options = Options::default().timeouts(|limits| limits.hold_ready = soon);
    let made = HalfMade::new(options, Options::default());
    // Accept ends when softnd has sent the ready-to-receive message without waiting for CompleteConnect.
    assert_eq!(wait(&made.accepts), Status::SUCCESS);
    let extensions = made.passive.adapter.extensions().unwrap();
    extensions.inject(Fault::RemoveDevice).unwrap();
    if SIMULATED {
        common::network().pass(LONG);
    }
    made.complete_and_see_the_end();
}

/// The active queue pair breaks down before softnd would send the ready-to-receive message without CompleteConnect.
#[test]
fn conn_042_conn_047_complete_connect_succeeds_where_no_early_message_could_leave() {
    let soon = Some(Duration::from_millis(1));
    let options = Options::default().timeouts(|limits| limits.hold_ready = soon);
    let made = HalfMade::new(options, Options::default());
    let fault = Fault::BreakCompletionQueue {
        queue: made.active.cq.clone(),
        status: Status::INTERNAL_ERROR,
    };
    let extensions = made.active.adapter.extensions().unwrap();
    extensions.inject(fault).unwrap();
    // Accept ends in any case: with the message, if it was sent before the breakdown, or with the end of the connection.
    wait(&made.accepts);
    made.complete_and_see_the_end();
}

#[test]
fn qp_004_flush_ends_an_accept_that_is_pending() {
    let made = HalfMade::new(Options::default(), Options::default());
    assert!(made.accepts.is_pending());
    made.passive_qp.flush().unwrap();
    assert_eq!(made.accepts.status(), Status::CANCELED);
    let mut results = [CompletionResult::default(); 4];
    assert_eq!(
        made.passive.cq.get_results(&mut results),
        2,
        "QP-005: in the call"
    );
    assert!(
        results[..2]
            .iter()
            .all(|result| result.status == Status::CANCELED)
    );
    made.passive_qp.receive(3, &[]).unwrap();
    assert_eq!(made.passive.result().status, Status::CANCELED);
    made.complete_and_see_the_end();
    let late = made.active_qp.send(1, &[], OpFlags::empty());
    assert_eq!(status(late), Status::CONNECTION_INVALID);
}

/// The passive side's Accept has ended with success, so for its client the connection exists and ends.
#[test]
fn conn_068_a_reject_after_the_ready_message_ends_the_connection() {
    let soon = Some(Duration::from_millis(1));
    let options = Options::default().timeouts(|limits| limits.hold_ready = soon);
    let made = HalfMade::new(options, Options::default());
    assert_eq!(wait(&made.accepts), Status::SUCCESS);
    let (here, there) = (&made.active_connector, &made.passive_connector);
    let notified = Overlapped::new();
    let _ = there.notify_disconnect(&notified).unwrap();
    here.reject(b"too late").unwrap();
    assert_eq!(wait(&notified), Status::SUCCESS);
    // Private data of the active side's Reject goes nowhere.
    assert_eq!(there.get_private_data().unwrap(), b"");
    assert_eq!(made.passive.result().status, Status::CANCELED);
    let completed = run(|overlapped| here.complete_connect(overlapped));
    assert_eq!(completed, Err(Status::CONNECTION_INVALID));
    let address = made.listener.get_local_address().unwrap();
    let other = made.active.connector();
    let again = run(|overlapped| other.connect(&made.active_qp, address, 0, 0, &[], overlapped));
    assert_eq!(again, Err(Status::INVALID_DEVICE_STATE));
}
