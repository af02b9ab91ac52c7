//! GEN-015: the device under an adapter is removed. Calls that need the device fail, and pending requests end. Calls that release
//! objects still work. Other adapters see the end of their connections only.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{
    self, ALL, LONG, Pair, Region, Side, connect, end, idle, now, provider, raw, run, status,
};
use iwarp_io::setup::{Enhanced, Frame, FrameKind};
use netdirect::{
    Adapter, Affinity, CompletionPort, CompletionResult, Connector, Fault, Listener, NotifyType,
    OpFlags, Overlapped, QueuePair, QueuePairOptions, RequestType, SharedReceiveQueue,
    SharedReceiveQueueOptions, Started, Status,
};
use softnd::Options;

const AT_ONCE: Option<std::time::Duration> = Some(std::time::Duration::ZERO);

fn remove(adapter: &Arc<dyn Adapter>) -> Status {
    let extensions = adapter.extensions().expect("softnd has them");
    status(extensions.inject(Fault::RemoveDevice))
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// One adapter with objects in all the states in which calls are possible, and its peer.
struct Stage {
    side: Side,
    /// A connection with the peer.
    pair: Pair,
    region: Region,
    window: Arc<dyn netdirect::MemoryWindow>,
    srq: Arc<dyn SharedReceiveQueue>,
    idle: Arc<dyn Connector>,
    /// A connector whose Connect has succeeded, before CompleteConnect.
    answered: Arc<dyn Connector>,
    answered_qp: Arc<dyn QueuePair>,
    /// A connector that has a connection request of the peer.
    offered: Arc<dyn Connector>,
    bound: Arc<dyn Listener>,
    listening: Arc<dyn Listener>,
    fresh_qp: Arc<dyn QueuePair>,
    /// The objects of the peer, kept until the test ends.
    their_connectors: [Arc<dyn Connector>; 2],
    _their_qps: [Arc<dyn QueuePair>; 2],
    /// The peer's pending Accept of the connection of `answered`, and its pending Connect, whose request is in `offered`.
    accepts: Overlapped,
    asks: Overlapped,
}

impl Stage {
    fn new(side: Side) -> Self {
        let peer = Side::new();
        let pair = connect(side.clone(), peer.clone(), 4);
        let region = side.region(64, ALL);
        let window = side.adapter.create_memory_window().unwrap();
        let (their_listener, their_address) = peer.listener(0);
        let (answered, answered_qp) = (side.connector(), side.queue_pair());
        let (theirs, their_qp) = (peer.connector(), peer.queue_pair());
        let (connects, accepts) = (Overlapped::new(), Overlapped::new());
        let connecting = answered.connect(&answered_qp, their_address, 1, 1, &[], &connects);
        run(|overlapped| their_listener.get_connection_request(&theirs, overlapped)).unwrap();
        let _ = theirs.accept(&their_qp, 1, 1, &[], &accepts).unwrap();
        end(connecting, &connects).unwrap();

        let (listening, address) = side.listener(0);
        let (offered, asking, asking_qp) = (side.connector(), peer.connector(), peer.queue_pair());
        let asks = Overlapped::new();
        let _ = asking
            .connect(&asking_qp, address, 1, 1, b"please", &asks)
            .unwrap();
        run(|overlapped| listening.get_connection_request(&offered, overlapped)).unwrap();

        let bound = side.adapter.create_listener(&side.file).unwrap();
        bound.bind(any_port()).unwrap();
        Self {
            idle: side.connector(),
            fresh_qp: side.queue_pair(),

            pair,
            region,
            window,
            srq: shared_receive_queue(&side).unwrap(),
            answered,
            answered_qp,
            offered,
            bound,
            listening,
            their_connectors: [theirs, asking],
            _their_qps: [their_qp, asking_qp],
            accepts,
            asks,
            side,
        }
    }
}

fn shared_receive_queue(side: &Side) -> netdirect::Result<Arc<dyn SharedReceiveQueue>> {
    let options = SharedReceiveQueueOptions::default();
    side.adapter
        .create_shared_receive_queue(&side.file, options)
}

/// The status of an overlapped call: the immediate error, or the final status of the request.
fn overlapped(start: impl FnOnce(&Overlapped) -> netdirect::Result<Started>) -> Status {
    let overlapped = Overlapped::new();
    match start(&overlapped) {
        Ok(_) => overlapped.poll(),
        Err(error) => {
            assert!(!overlapped.is_pending(), "GEN-009");
            error.status()
        }
    }
}

type ClientCall = fn(&Stage) -> Status;

/// The calls that fail with ND_DEVICE_REMOVED, each with its row. GEN-015 covers calls without a separate row.
const CALLS: &[(&str, ClientCall)] = &[
    ("ADPT-003", |s| {
        status(s.side.adapter.create_overlapped_file())
    }),
    ("ADPT-024", |s| {
        let none = Affinity::default();
        status(
            s.side
                .adapter
                .create_completion_queue(&s.side.file, 4, none),
        )
    }),
    ("ADPT-032", |s| {
        status(s.side.adapter.create_memory_region(&s.side.file))
    }),
    ("ADPT-036", |s| {
        status(s.side.adapter.create_memory_window())
    }),
    ("ADPT-059", |s| {
        let (cq, options) = (&s.side.cq, QueuePairOptions::default());
        status(s.side.adapter.create_queue_pair(cq, cq, options))
    }),
    ("ADPT-081", |s| {
        status(s.side.adapter.create_connector(&s.side.file))
    }),
    ("ADPT-085", |s| {
        status(s.side.adapter.create_listener(&s.side.file))
    }),
    ("GEN-015 Query", |s| status(s.side.adapter.query())),
    ("GEN-015 QueryAddressList", |s| {
        status(s.side.adapter.query_address_list())
    }),
    ("CQ-007", |s| {
        match status(s.side.cq.get_notify_affinity()) {
            Status::NOT_SUPPORTED => Status::SUCCESS, // without removal
            other => other,
        }
    }),
    ("ADPT-046", |s| status(shared_receive_queue(&s.side))),
    ("ADPT-074", |s| {
        let (cq, options) = (&s.side.cq, QueuePairOptions::default());
        let adapter = &s.side.adapter;
        status(adapter.create_queue_pair_with_srq(cq, cq, &s.srq, options))
    }),
    ("SRQ-006", |s| {
        match status(s.srq.get_notify_affinity()) {
            Status::NOT_SUPPORTED => Status::SUCCESS, // without removal
            other => other,
        }
    }),
    ("SRQ-015", |s| status(s.srq.modify(8, 0))),
    ("SRQ-022", |s| overlapped(|o| s.srq.notify(o))),
    ("GEN-015 Receive of a shared queue", |s| {
        status(s.srq.receive(0, &[]))
    }),
    ("CQ-014", |s| status(s.side.cq.resize(128))),
    ("CQ-025", |s| {
        overlapped(|o| s.side.cq.notify(NotifyType::Errors, o))
    }),
    ("MR-010", |s| {
        let region = &s.region;
        overlapped(|o| region.region.register(&region.buffer, ALL, o))
    }),
    ("CONN-007", |s| status(s.idle.bind(any_port()))),
    ("CONN-019", |s| {
        let to = s.pair.listener.get_local_address().unwrap();
        overlapped(|o| s.idle.connect(&s.fresh_qp, to, 1, 1, &[], o))
    }),
    ("CONN-045", |s| {
        overlapped(|o| s.answered.complete_connect(o))
    }),
    ("CONN-053", |s| {
        overlapped(|o| s.offered.accept(&s.fresh_qp, 1, 1, &[], o))
    }),
    ("CONN-070", |s| status(s.offered.reject(&[]))),
    ("CONN-111", |s| {
        overlapped(|o| s.pair.active_connector.disconnect(o))
    }),
    ("GEN-015 NotifyDisconnect", |s| {
        overlapped(|o| s.pair.active_connector.notify_disconnect(o))
    }),
    ("GEN-015 Listener Bind", |s| {
        status(s.bound.bind(any_port()))
    }),
    ("GEN-015 Listen", |s| status(s.bound.listen(0))),
    ("LSTN-026", |s| {
        let connector: &Arc<dyn Connector> = &s.idle;
        overlapped(|o| s.listening.get_connection_request(connector, o))
    }),
    ("GEN-015 Send", |s| {
        status(s.pair.active_qp.send(1, &[], OpFlags::empty()))
    }),
    ("GEN-015 Receive", |s| {
        status(s.pair.active_qp.receive(1, &[]))
    }),
    ("GEN-015 Receive unconnected", |s| {
        status(s.answered_qp.receive(1, &[]))
    }),
    ("GEN-015 Read", |s| {
        let (qp, from) = (&s.pair.active_qp, Default::default());
        status(qp.read(1, &[], from, OpFlags::empty()))
    }),
    ("GEN-015 Write", |s| {
        let (qp, to) = (&s.pair.active_qp, Default::default());
        status(qp.write(1, &[], to, OpFlags::empty()))
    }),
    ("GEN-015 Invalidate", |s| {
        status(s.pair.active_qp.invalidate(1, &s.window, OpFlags::empty()))
    }),
    ("GEN-015 inject", |s| {
        let (queue, status) = (s.side.cq.clone(), Status::INTERNAL_ERROR);
        let fault = Fault::BreakCompletionQueue { queue, status };
        common::status(s.side.adapter.extensions().unwrap().inject(fault))
    }),
    ("GEN-015 inject a call", |s| {
        let call = netdirect::Call::Listen;
        let (nth, with) = (u32::MAX, Status::NO_MEMORY);
        let fault = Fault::Call {
            call,
            nth,
            status: with,
        };
        status(s.side.adapter.extensions().unwrap().inject(fault))
    }),
];

#[test]
fn rows_on_removal_all_calls_that_need_the_device_fail() {
    let stage = Stage::new(Side::new());
    assert_eq!(remove(&stage.side.adapter), Status::SUCCESS);
    for (row, act) in CALLS {
        assert_eq!(act(&stage), Status::DEVICE_REMOVED, "{row}");
    }
    assert_eq!(remove(&stage.side.adapter), Status::DEVICE_REMOVED);
    // The peer sees the end of its connections and requests.
    let asked = stage.asks.wait_timeout(LONG);
    assert_eq!(asked, Some(Status::CONNECTION_REFUSED));
    let answer = stage.their_connectors[1].get_private_data();
    assert!(answer.is_ok(), "refused with an answer, CONN-089");
    let accepted = stage.accepts.wait_timeout(LONG);
    assert_eq!(accepted, Some(Status::CONNECTION_ABORTED));
    let counters = stage.side.adapter.extensions().unwrap().counters();
    assert_eq!(counters.total("faults"), 1);
}

/// Makes these calls while another opened adapter with the same id is removed: no call reports a removal.
#[test]
fn other_adapters_go_on_working() {
    let (provider, removed) = {
        let provider = provider(Options::default());
        let id = provider.resolve_address(any_port()).unwrap();
        let removed = provider.open_adapter(id).unwrap();
        (provider, removed)
    };
    let id = provider.resolve_address(any_port()).unwrap();
    let stage = Stage::new(Side::on_adapter(provider.open_adapter(id).unwrap()));
    assert_eq!(remove(&removed), Status::SUCCESS);
    for (row, act) in CALLS {
        let answer = act(&stage);
        assert_ne!(answer, Status::DEVICE_REMOVED, "{row}");
    }
    // The device can be opened again, as if it had been plugged in again.
    let again = provider.open_adapter(id).unwrap();
    assert!(again.query().is_ok());
}

/// OVL-010, TST-030: every pending request has ended once the device is removed, whatever the request waited for.
#[test]
fn ovl_010_pending_requests_end() {
    let side = Side::new();
    let port = CompletionPort::new();
    side.file.associate(&port, 7).unwrap();
    let peer = Side::new();
    let pair = connect(side.clone(), peer.clone(), 4);
    while port.get(AT_ONCE).is_some() {}
    let start = |begin: &dyn Fn(&Overlapped) -> netdirect::Result<Started>| {
        let overlapped = Overlapped::new();
        assert_eq!(begin(&overlapped).unwrap(), Started::Pending);
        assert!(overlapped.is_pending());
        overlapped
    };
    let mut pending = Vec::new();
    for kind in [NotifyType::Any, NotifyType::Solicited, NotifyType::Errors] {
        pending.push(("CQ-025", start(&|o| side.cq.notify(kind, o))));
    }
    pending.push((
        "CONN-102",
        start(&|o| pair.active_connector.notify_disconnect(o)),
    ));

    // A Connect that the peer does not answer.
    let (mute, to) = raw::server();
    let (connecting, connecting_qp) = (side.connector(), side.queue_pair());
    pending.push((
        "CONN-019",
        start(&|o| connecting.connect(&connecting_qp, to, 1, 1, &[], o)),
    ));
    let mut stream = mute.accept();

    // An Accept whose peer does not call CompleteConnect.
    let (listener, address) = side.listener(0);
    let (asking, asking_qp, asks) = (peer.connector(), peer.queue_pair(), Overlapped::new());
    let _ = asking
        .connect(&asking_qp, address, 1, 1, &[], &asks)
        .unwrap();
    let (accepting, accepting_qp) = (side.connector(), side.queue_pair());
    run(|o| listener.get_connection_request(&accepting, o)).unwrap();
    pending.push((
        "CONN-053",
        start(&|o| accepting.accept(&accepting_qp, 1, 1, &[], o)),
    ));
    assert_eq!(asks.wait_timeout(LONG), Some(Status::SUCCESS));

    // Requests of GetConnectionRequest without a peer.
    let waiting = [side.connector(), side.connector()];
    for connector in &waiting {
        let request = start(&|o| listener.get_connection_request(connector, o));
        pending.push(("LSTN-026", request));
    }
    // A Disconnect that the peer does not answer.
    let held = hold(&side);
    pending.push(("CONN-111", start(&|o| held.connector.disconnect(o))));

    while port.get(AT_ONCE).is_some() {}
    assert!(pending.iter().all(|(_, request)| request.is_pending()));
    assert_eq!(remove(&side.adapter), Status::SUCCESS);
    for (row, request) in &pending {
        assert_eq!(request.status(), Status::DEVICE_REMOVED, "{row}");
        let later = [false, true].map(|wait| side.cq.get_overlapped_result(request, wait));
        assert_eq!(later, [Status::DEVICE_REMOVED; 2], "{row}");
    }
    stream.expect_reset();
    let packets: Vec<_> = std::iter::from_fn(|| port.get(AT_ONCE)).collect();
    assert_eq!(packets.len(), pending.len(), "AMB-023");
    assert!(
        packets
            .iter()
            .all(|packet| packet.status == Status::DEVICE_REMOVED)
    );
}

/// A connection of the side with a raw peer that never closes its direction.
struct Held {
    connector: Arc<dyn Connector>,
    qp: Arc<dyn QueuePair>,
    stream: raw::Peer,
}

fn hold(side: &Side) -> Held {
    let (server, to) = raw::server();
    let (connector, qp, connects) = (side.connector(), side.queue_pair(), Overlapped::new());
    let connecting = connector.connect(&qp, to, 1, 1, &[], &connects);
    let mut stream = server.accept();
    stream.receive(24);
    let reply = Frame {
        kind: FrameKind::Reply,
        markers: false,
        crc: true,
        rejected: false,
        revision: 2,
        enhanced: Some(Enhanced {
            peer_to_peer: true,
            rtr_send: false,
            rtr_write: true,
            rtr_read: false,
            ird: 1,
            ord: 1,
        }),
        private_data: Vec::new(),
    };
    let mut octets = Vec::new();
    reply.encode(&mut octets);
    stream.write_all(&octets).unwrap();
    end(connecting, &connects).unwrap();
    run(|o| connector.complete_connect(o)).unwrap();
    stream.receive(20);
    Held {
        connector,
        qp,
        stream,
    }
}

/// A queue pair that the client has released, and whose connection is still ending, ends with the device.
#[test]
fn a_released_queue_pair_ends_too() {
    let side = Side::new();
    let Held {
        connector,
        qp,
        mut stream,
    } = hold(&side);
    drop((connector, qp)); // disconnects: the peer sees the end of this side's direction
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(remove(&side.adapter), Status::SUCCESS);
    let began = now();
    while stream.write(&[0]).is_ok() {
        assert!(now() - began < LONG, "the stream was not reset");
        idle();
    }
}

/// Results queued before the removal can be fetched. Outstanding requests are cancelled. No result comes later.
#[test]
fn results_stay_and_outstanding_requests_are_cancelled() {
    let side = Side::new();
    let peer = Side::new();
    let pair = connect(side.clone(), peer.clone(), 4);
    let unconnected = side.queue_pair();
    peer_receives(&pair, 2);
    pair.active_qp.send(1, &[], OpFlags::empty()).unwrap();
    assert_eq!(peer.result().status, Status::SUCCESS); // the Send's own result is queued now, or when the connection ends
    for context in [2, 3] {
        pair.active_qp.receive(context, &[]).unwrap();
    }
    unconnected.receive(4, &[]).unwrap();
    let ended = Overlapped::new();
    let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();

    assert_eq!(remove(&side.adapter), Status::SUCCESS);
    let mut results = [CompletionResult::default(); 16];
    let mut count = 0;
    let began = now();
    while count < 4 {
        count += side.cq.get_results(&mut results[count..]);
        assert!(now() - began < LONG, "{count} results of 4");
    }
    assert_eq!(side.cq.get_results(&mut results[count..]), 0);
    let mut seen: Vec<_> = results[..count]
        .iter()
        .map(|result| (result.request_context, result.request_type, result.status))
        .collect();
    seen.sort_by_key(|(context, ..)| *context);
    let due = [
        (1, RequestType::Send, Status::SUCCESS),
        (2, RequestType::Receive, Status::CANCELED),
        (3, RequestType::Receive, Status::CANCELED),
        (4, RequestType::Receive, Status::CANCELED),
    ];
    assert_eq!(seen, due);
    // The peer sees an ordinary end of the connection.
    assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
    let flushed = peer.result();
    assert_eq!(
        (flushed.request_context, flushed.status),
        (1, Status::CANCELED)
    );
}

fn peer_receives(pair: &Pair, count: u64) {
    for context in 0..count {
        pair.passive_qp.receive(context, &[]).unwrap();
    }
}

/// GEN-015: calls that release objects work, and the client can use its memory again.
#[test]
fn clean_up_goes_on_working() {
    let stage = Stage::new(Side::new());
    assert_eq!(remove(&stage.side.adapter), Status::SUCCESS);
    let Stage {
        side, pair, region, ..
    } = &stage;
    assert_eq!(run(|o| region.region.deregister(o)), Ok(()));
    assert_eq!(status(pair.active_qp.flush()), Status::SUCCESS);
    assert_eq!(status(stage.fresh_qp.flush()), Status::SUCCESS);
    for cancelled in [
        side.cq.cancel_overlapped_requests(),
        pair.active_connector.cancel_overlapped_requests(),
        stage.listening.cancel_overlapped_requests(),
        region.region.cancel_overlapped_requests(),
    ] {
        assert_eq!(status(cancelled), Status::SUCCESS);
    }
    assert_eq!(Overlapped::new().wait(), Status::SUCCESS);
    // The connectors answer as connectors that never had a connection or an address.
    for connector in [&pair.active_connector, &stage.answered, &stage.offered] {
        let answers = [
            status(connector.get_read_limits()),
            status(connector.get_private_data()),
            status(connector.get_peer_address()),
            status(connector.get_local_address()),
        ];
        assert_eq!(answers, [Status::CONNECTION_INVALID; 4]);
    }
    assert_eq!(
        status(stage.listening.get_local_address()),
        Status::INVALID_DEVICE_STATE
    );
}
