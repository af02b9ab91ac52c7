//! Queued Binds and Invalidates whose regions or windows are released or deregistered before the request is executed (MR-026,
//! MR-034, MW-011, MW-014, AMB-011, RES-015).

use std::sync::Arc;

use crate::common::{self, ALL, Region, Side, connect, pair, run};
use netdirect::{
    CompletionResult, Connector, MemoryWindow, MrFlags, OpFlags, Overlapped, QueuePair,
    RemoteAddress, RequestType, Status,
};
use softnd::Options;

const BOTH: OpFlags = OpFlags::ALLOW_READ.union(OpFlags::ALLOW_WRITE);

/// A connection whose passive side may not send until the active side completes its Connect: no ready-to-receive message was agreed on
/// (IW-004). Binds and Invalidates behind a Send wait as long.
struct Fenced {
    active: Side,
    passive: Side,
    active_qp: Arc<dyn QueuePair>,
    qp: Arc<dyn QueuePair>,
    active_connector: Arc<dyn Connector>,
    connector: Arc<dyn Connector>,
}

impl Fenced {
    fn new() -> Self {
        Self::with(Side::new())
    }

    fn with(passive: Side) -> Self {
        let options = Options::default()
            .peer_to_peer(false)
            .timeouts(|limits| limits.hold_ready = None);
        let active = Side::with(options);
        let (listener, address) = passive.listener(0);
        let (active_qp, qp) = (active.queue_pair(), passive.queue_pair());
        let (active_connector, connector) = (active.connector(), passive.connector());
        let (arrives, connects) = (Overlapped::new(), Overlapped::new());
        let arrival = listener.get_connection_request(&connector, &arrives);
        let connecting = active_connector.connect(&active_qp, address, 4, 4, b"", &connects);
        common::end(arrival, &arrives).unwrap();
        run(|overlapped| connector.accept(&qp, 4, 4, b"", overlapped)).unwrap();
        common::end(connecting, &connects).unwrap();
        Self {
            active,
            passive,
            active_qp,
            qp,
            active_connector,
            connector,
        }
    }

    /// Posts a Send that waits for the active side. The requests posted after it wait as well.
    fn block(&self) {
        self.active_qp.receive(100, &[]).unwrap();
        self.qp.send(100, &[], OpFlags::empty()).unwrap();
    }

    /// Lets the passive side send.
    fn open(&self) {
        run(|overlapped| self.active_connector.complete_connect(overlapped)).unwrap();
    }

    fn window(&self) -> Arc<dyn MemoryWindow> {
        self.passive.adapter.create_memory_window().unwrap()
    }

    fn bind(&self, context: u64, region: &Region, window: &Arc<dyn MemoryWindow>) {
        bind(&self.qp, context, region, window);
    }

    /// The next results of the passive side: contexts and statuses.
    fn results(&self, count: usize) -> Vec<(u64, Status)> {
        statuses(&self.passive.results(count))
    }

    /// The connection still carries data both ways.
    fn assert_alive(&self) {
        self.active_qp.receive(201, &[]).unwrap();
        self.qp.receive(202, &[]).unwrap();
        self.qp.send(203, &[], OpFlags::empty()).unwrap();
        self.active_qp.send(204, &[], OpFlags::empty()).unwrap();
        let mut here = self.results(2);
        here.sort_unstable();
        assert_eq!(here, [(202, Status::SUCCESS), (203, Status::SUCCESS)]);
    }
}

fn bind(qp: &Arc<dyn QueuePair>, context: u64, region: &Region, window: &Arc<dyn MemoryWindow>) {
    let address = region.buffer.address();
    qp.bind(context, &region.region, window, address, 64, BOTH)
        .unwrap();
}

/// Contexts and statuses, after a check that each request may end with its status (RES-015).
fn statuses(results: &[CompletionResult]) -> Vec<(u64, Status)> {
    for result in results {
        assert!(result.request_type.allows(result.status), "{result:?}");
    }
    let context_and_status = |result: &CompletionResult| (result.request_context, result.status);
    results.iter().map(context_and_status).collect()
}

fn deregister(region: &Region) -> Result<(), Status> {
    run(|overlapped| region.region.deregister(overlapped))
}

const SENT: (u64, Status) = (100, Status::SUCCESS);

#[test]
fn mr_026_mw_011_a_queued_bind_keeps_its_region() {
    let pair = Fenced::new();
    let region = pair.passive.region(64, ALL);
    let window = pair.window();
    pair.block();
    pair.bind(1, &region, &window);
    assert_eq!(deregister(&region), Err(Status::DEVICE_BUSY));
    pair.open();
    assert_eq!(pair.results(2), [SENT, (1, Status::SUCCESS)]);
    assert_eq!(deregister(&region), Err(Status::DEVICE_BUSY));
    pair.qp.invalidate(2, &window, OpFlags::empty()).unwrap();
    assert_eq!(pair.results(1), [(2, Status::SUCCESS)]);
    assert_eq!(deregister(&region), Ok(()));
    pair.assert_alive();
}

/// Binds that are posted in a row are gathered, and executed by the next poll. Deregister is called after each Bind.
#[test]
fn mr_026_a_bind_in_a_gathered_row_keeps_its_region() {
    let pair = pair();
    let regions: Vec<_> = (0..8).map(|_| pair.active.region(64, ALL)).collect();
    for round in 0..20 {
        let windows = [(); 8].map(|()| pair.active.adapter.create_memory_window().unwrap());
        for ((context, region), window) in (0..).zip(&regions).zip(&windows) {
            bind(&pair.active_qp, context, region, window);
            assert_eq!(deregister(region), Err(Status::DEVICE_BUSY), "{round}");
        }
        let ended = statuses(&pair.active.results(8));
        let all: Vec<_> = (0..8).map(|context| (context, Status::SUCCESS)).collect();
        assert_eq!(ended, all);
        drop(windows);
        for region in &regions {
            assert_eq!(deregister(region), Ok(()));
            let again =
                |overlapped: &Overlapped| region.region.register(&region.buffer, ALL, overlapped);
            run(again).unwrap(); // MR-029
        }
    }
}

#[test]
fn mr_026_binds_that_are_given_up_keep_no_region() {
    for how in ["flush", "disconnect", "release"] {
        let pair = Fenced::new();
        let region = pair.passive.region(64, ALL);
        let window = pair.window();
        pair.block();
        pair.bind(1, &region, &window);
        let overlapped = Overlapped::new();
        let Fenced {
            passive,
            qp,
            connector,
            ..
        } = pair;
        match how {
            "flush" => qp.flush().unwrap(),
            // Disconnect ends when the active side ends its direction, which it does not do yet.
            "disconnect" => drop(connector.disconnect(&overlapped).unwrap()),
            _ => drop(qp),
        }
        let ended = statuses(&passive.results(2));
        assert_eq!(
            ended,
            [(100, Status::CANCELED), (1, Status::CANCELED)],
            "{how}"
        );
        assert_eq!(deregister(&region), Ok(()), "{how}");
    }
}

#[test]
fn mr_026_a_bind_that_was_not_taken_keeps_no_region() {
    let side = Side::new();
    let region = side.region(64, ALL);
    let window = side.adapter.create_memory_window().unwrap();
    let qp = side.queue_pair();
    let address = region.buffer.address();
    let posted = qp.bind(1, &region.region, &window, address, 64, BOTH);
    assert_eq!(common::status(posted), Status::CONNECTION_INVALID); // QP-036
    assert_eq!(deregister(&region), Ok(()));
}

#[test]
fn mw_014_a_window_released_while_its_bind_waits_ends_nothing() {
    let pair = Fenced::new();
    let region = pair.passive.region(64, ALL);
    let (released, kept) = (pair.window(), pair.window());
    pair.block();
    pair.bind(1, &region, &released);
    pair.bind(2, &region, &kept);
    pair.bind(3, &region, &pair.window());
    drop(released);
    assert_eq!(deregister(&region), Err(Status::DEVICE_BUSY), "one is left");
    drop(kept);
    assert_eq!(
        deregister(&region),
        Ok(()),
        "a released window holds nothing"
    );
    pair.open();
    let ended = [
        (1, Status::SUCCESS),
        (2, Status::SUCCESS),
        (3, Status::SUCCESS),
    ];
    assert_eq!(pair.results(4), [&[SENT], &ended[..]].concat());
    pair.assert_alive();
}

#[test]
fn mw_014_a_window_released_while_its_invalidate_waits_ends_nothing() {
    let pair = Fenced::new();
    let region = pair.passive.region(64, ALL);
    let window = pair.window();
    pair.bind(1, &region, &window);
    assert_eq!(
        pair.results(1),
        [(1, Status::SUCCESS)],
        "nothing stands before it"
    );
    pair.block();
    pair.qp.invalidate(2, &window, OpFlags::empty()).unwrap();
    pair.bind(3, &region, &window);
    pair.qp.invalidate(4, &window, OpFlags::empty()).unwrap();
    drop(window);
    assert_eq!(deregister(&region), Ok(()));
    pair.open();
    let ended = [
        (2, Status::SUCCESS),
        (3, Status::SUCCESS),
        (4, Status::SUCCESS),
    ];
    assert_eq!(pair.results(4), [&[SENT], &ended[..]].concat());
    pair.assert_alive();
}

#[test]
fn mr_028_a_region_released_while_binds_to_it_wait_ends_nothing() {
    let pair = Fenced::new();
    let (gone, other) = (pair.passive.region(64, ALL), pair.passive.region(64, ALL));
    let windows = [pair.window(), pair.window(), pair.window()];
    pair.block();
    for (context, window) in (1..).zip(&windows) {
        pair.bind(context, &gone, window);
    }
    pair.qp
        .invalidate(4, &windows[0], OpFlags::empty())
        .unwrap();
    drop(gone);
    pair.bind(5, &other, &windows[0]);
    pair.open();
    let ended: Vec<_> = (1..6).map(|context| (context, Status::SUCCESS)).collect();
    assert_eq!(pair.results(6), [&[SENT], &ended[..]].concat());
    // Both windows can be bound again: the one that was invalidated and the one that was not.
    pair.qp
        .invalidate(6, &windows[1], OpFlags::empty())
        .unwrap();
    pair.bind(7, &other, &windows[1]);
    pair.bind(8, &other, &windows[2]);
    let ended: Vec<_> = (6..9).map(|context| (context, Status::SUCCESS)).collect();
    assert_eq!(pair.results(3), ended);
    pair.assert_alive();
}

#[test]
fn mr_028_the_token_of_a_window_whose_region_was_released_opens_nothing() {
    let pair = Fenced::new();
    let gone = pair.passive.region(64, ALL);
    let (window, buffer) = (pair.window(), gone.buffer.clone());
    pair.block();
    pair.bind(1, &gone, &window);
    let there = RemoteAddress {
        address: buffer.address(),
        token: window.get_remote_token(),
    };
    drop(gone);
    pair.open();
    assert_eq!(pair.results(2), [SENT, (1, Status::SUCCESS)]);
    let source = pair.active.region(64, ALL);
    assert_eq!(pair.active.result().request_context, 100);
    source.buffer.fill(7);
    let sge = [source.sge(0, 64)];
    pair.active_qp
        .write(1, &sge, there, OpFlags::SILENT_SUCCESS)
        .unwrap();
    pair.active_qp
        .read(2, &sge, there, OpFlags::empty())
        .unwrap();
    pair.qp.receive(2, &[]).unwrap();
    assert_eq!(
        pair.results(1),
        [(2, Status::CANCELED)],
        "the connection has ended"
    );
    assert_eq!(buffer.to_vec(), [0; 64]);
}

#[test]
fn mr_028_a_region_released_while_an_invalidate_waits_ends_nothing() {
    let pair = Fenced::new();
    let region = pair.passive.region(64, ALL);
    let window = pair.window();
    pair.bind(1, &region, &window);
    assert_eq!(pair.results(1), [(1, Status::SUCCESS)]);
    pair.block();
    pair.qp.invalidate(2, &window, OpFlags::empty()).unwrap();
    drop(region);
    pair.open();
    assert_eq!(pair.results(2), [SENT, (2, Status::SUCCESS)]);
    pair.assert_alive();
    // QP-050: the window is not bound any more.
    pair.qp.invalidate(3, &window, OpFlags::empty()).unwrap();
    assert_eq!(pair.results(1), [(3, Status::INVALID_DEVICE_REQUEST)]);
}

#[test]
fn mw_003_a_window_moves_to_another_region_in_the_order_of_the_queue() {
    let pair = Fenced::new();
    let (from, to) = (pair.passive.region(64, ALL), pair.passive.region(64, ALL));
    let window = pair.window();
    pair.bind(1, &from, &window);
    assert_eq!(pair.results(1), [(1, Status::SUCCESS)]);
    pair.block();
    pair.qp.invalidate(2, &window, OpFlags::empty()).unwrap();
    pair.bind(3, &to, &window);
    assert_eq!(
        deregister(&from),
        Err(Status::DEVICE_BUSY),
        "still bound to it"
    );
    assert_eq!(
        deregister(&to),
        Err(Status::DEVICE_BUSY),
        "about to be bound to it"
    );
    pair.open();
    let ended = [SENT, (2, Status::SUCCESS), (3, Status::SUCCESS)];
    assert_eq!(pair.results(3), ended);
    assert_eq!(deregister(&from), Ok(()));
    assert_eq!(deregister(&to), Err(Status::DEVICE_BUSY));
    pair.assert_alive();
}

#[test]
fn mw_002_a_window_goes_to_the_queue_pair_whose_bind_comes_first() {
    let side = Side::new();
    let waits = Fenced::with(side.clone());
    let goes = connect(Side::new(), side, 4);
    let region = waits.passive.region(64, ALL);
    let window = waits.window();
    waits.block();
    waits.bind(1, &region, &window);
    bind(&goes.passive_qp, 2, &region, &window);
    assert_eq!(waits.results(1), [(2, Status::SUCCESS)]);
    // The other one is a Bind of a bound window (QP-043), and keeps the region until it has ended.
    goes.passive_qp
        .invalidate(3, &window, OpFlags::empty())
        .unwrap();
    assert_eq!(waits.results(1), [(3, Status::SUCCESS)]);
    assert_eq!(deregister(&region), Err(Status::DEVICE_BUSY));
    bind(&goes.passive_qp, 4, &region, &window);
    assert_eq!(waits.results(1), [(4, Status::SUCCESS)]);
    waits.open();
    assert_eq!(
        waits.results(2),
        [SENT, (1, Status::INVALID_DEVICE_REQUEST)]
    );
    // The binding on the first connection is unchanged.
    goes.passive_qp
        .invalidate(5, &window, OpFlags::empty())
        .unwrap();
    assert_eq!(waits.results(1), [(5, Status::SUCCESS)]);
    assert_eq!(deregister(&region), Ok(()));
}

/// Requests with SGEs do not keep their regions registered: they end with an access violation when they are executed.
#[test]
fn mr_034_requests_that_name_a_deregistered_region_fail_in_their_turn() {
    for kind in [RequestType::Send, RequestType::Write, RequestType::Read] {
        let pair = Fenced::new();
        let (local, peer) = (pair.passive.region(64, ALL), pair.active.region(64, ALL));
        let sge = [local.sge(0, 64)];
        pair.block();
        let (none, qp) = (OpFlags::empty(), &pair.qp);
        match kind {
            RequestType::Send => qp.send(1, &sge, none).unwrap(),
            RequestType::Write => qp.write(1, &sge, peer.remote(0), none).unwrap(),
            _ => qp.read(1, &sge, peer.remote(0), none).unwrap(),
        }
        qp.send(2, &[], none).unwrap();
        assert_eq!(deregister(&local), Ok(()), "{kind}");
        pair.open();
        let ended = [SENT, (1, Status::ACCESS_VIOLATION), (2, Status::CANCELED)];
        assert_eq!(pair.results(3), ended, "{kind}");
        assert_eq!(peer.buffer.to_vec(), [0; 64], "{kind}");
    }
    let pair = pair();
    let local = pair.passive.region(64, ALL);
    pair.passive_qp.receive(1, &[local.sge(0, 64)]).unwrap();
    assert_eq!(deregister(&local), Ok(()));
    pair.active_qp
        .send_inline(2, &[b"too late"], OpFlags::empty())
        .unwrap();
    assert_eq!(
        statuses(&pair.passive.results(1)),
        [(1, Status::ACCESS_VIOLATION)]
    );
    assert_eq!(local.buffer.to_vec(), [0; 64]);
}

/// Releasing a region has the effect of deregistering the region, for requests with SGEs as well.
#[test]
fn mr_028_requests_that_name_a_released_region_fail_in_their_turn() {
    let pair = Fenced::new();
    let local = pair.passive.region(64, MrFlags::empty());
    let sge = [local.sge(0, 64)];
    pair.block();
    pair.qp.send(1, &sge, OpFlags::empty()).unwrap();
    drop(local);
    pair.open();
    assert_eq!(pair.results(2), [SENT, (1, Status::ACCESS_VIOLATION)]);
}
