//! Connections over InfiniBand and RoCE.

use netdirect::{Fault, OpFlags, Overlapped, RemoteAddress, Started, Status};

use super::connections::{connecting, newest, requested_with};
use super::{Objects, eventually, fake};
use crate::sys::bindings as c;

/// Objects of an adapter that does not speak iWARP.
fn objects() -> Objects {
    fake::with(|world| {
        world.is_infiniband = true;
        world.vendor_id = 0x02C9;
    });
    Objects::new()
}

/// Data in a field of `SIZE` octets, which ends with the mark of its length.
fn field<const SIZE: usize>(data: &[u8]) -> [u8; SIZE] {
    let mut field = [0; SIZE];
    field[..data.len()].copy_from_slice(data);
    let length = u8::try_from(data.len()).expect("short");
    field[SIZE - 4..].copy_from_slice(&[0xD2, 0x4E, length, !length]);
    field
}

/// The field of a message, with no mark.
fn unmarked<const SIZE: usize>(data: &[u8]) -> [u8; SIZE] {
    let mut field = [0; SIZE];
    field[..data.len()].copy_from_slice(data);
    field
}

fn private_data() -> Vec<u8> {
    let sent_data = fake::with(|world| world.sent_data.take());
    sent_data.expect("private data").0
}

/// Objects that a peer has asked for a connection, and the Accept that answers it.
fn accepting() -> (Objects, Overlapped) {
    let objects = objects();
    requested_with(&objects, &[]);
    let overlapped = Overlapped::new();
    let (connector, qp) = (&objects.connector, &objects.qp);
    let accepted = connector.accept(qp, 1, 1, &[], &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    (objects, overlapped)
}

/// Connects, and makes the peer answer with this field.
fn answered(objects: &Objects, reply: &[u8]) -> Overlapped {
    let (overlapped, id) = connecting(objects, b"from the caller");
    fake::with(|world| {
        let event = c::RDMA_CM_EVENT_CONNECT_RESPONSE;
        world.tell_with(id, event, 0, reply, (4, 2));
    });
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    overlapped
}

/// Connects, and completes the connection.
fn connected() -> Objects {
    let objects = objects();
    let overlapped = answered(&objects, &[]);
    let completed = objects.connector.complete_connect(&overlapped);
    assert_eq!(completed, Ok(Started::Pending));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    objects
}

const REMOTE: u32 = c::IBV_ACCESS_REMOTE_READ | c::IBV_ACCESS_REMOTE_WRITE;

#[test]
fn infiniband_has_a_third_step() {
    let _turn = fake::turn();
    let objects = objects();
    let info = objects.adapter.query().expect("the limits");
    assert_eq!((info.max_caller_data, info.max_callee_data), (56, 148));
    let overlapped = answered(&objects, &[]);
    fake::with(|world| world.changes.clear());
    let _ = objects
        .connector
        .complete_connect(&overlapped)
        .expect("started");
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    // The port and the partition key of the route come first.
    let wanted = [
        (c::IBV_QPS_INIT, REMOTE, 16, 16),
        (c::IBV_QPS_RTR, c::IBV_ACCESS_REMOTE_WRITE, 16, 16),
        (c::IBV_QPS_RTS, c::IBV_ACCESS_REMOTE_WRITE, 16, 16),
    ];
    fake::with(|world| {
        assert_eq!(world.changes, wanted);
        assert!(world.calls.contains(&"establish"));
    });
}

#[test]
fn a_queue_pair_that_accepts_has_the_limits_of_the_accept() {
    let _turn = fake::turn();
    let objects = objects();
    requested_with(&objects, b"hello");
    fake::with(|world| world.changes.clear());
    let overlapped = Overlapped::new();
    let accepted = objects
        .connector
        .accept(&objects.qp, 2, 1, &[], &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    let changes = fake::with(|world| world.changes.clone());
    let found: Vec<_> = changes
        .iter()
        .map(|(state, _, inbound, outbound)| (*state, *inbound, *outbound))
        .collect();
    let states = [c::IBV_QPS_INIT, c::IBV_QPS_RTR, c::IBV_QPS_RTS];
    assert_eq!(found, states.map(|state| (state, 2, 1)));
}

#[test]
fn a_peer_may_make_atomics_where_the_device_has_them() {
    for has_atomics in [false, true] {
        let _turn = fake::turn();
        fake::with(|world| world.has_atomics = has_atomics);
        let _objects = connected();
        let changes = fake::with(|world| world.changes.clone());
        let mut inits = changes.iter().filter(|change| change.0 == c::IBV_QPS_INIT);
        let atomic = c::IBV_ACCESS_REMOTE_ATOMIC;
        assert!(inits.clone().count() > 1);
        let last = inits.next_back().expect("one");
        assert_eq!(last.1 & atomic != 0, has_atomics, "{changes:?}");
    }
}

#[test]
fn the_length_of_private_data_is_told_to_the_passive_side_and_back() {
    let _turn = fake::turn();
    let objects = objects();
    let overlapped = answered(&objects, &field::<196>(b"from the callee"));
    assert_eq!(private_data(), field::<56>(b"from the caller"));
    let found = objects.connector.get_private_data();
    assert_eq!(found, Ok(b"from the callee".to_vec()));
    drop(overlapped);
}

#[test]
fn the_length_of_private_data_is_told_to_the_active_side_and_back() {
    let _turn = fake::turn();
    let objects = objects();
    requested_with(&objects, &field::<56>(b"hello"));
    assert_eq!(objects.connector.get_private_data(), Ok(b"hello".to_vec()));
    let overlapped = Overlapped::new();
    let accepted = objects
        .connector
        .accept(&objects.qp, 1, 1, b"welcome", &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    assert_eq!(private_data(), field::<196>(b"welcome"));
}

#[test]
fn the_length_of_a_rejections_data_is_told() {
    let _turn = fake::turn();
    let objects = objects();
    requested_with(&objects, &[]);
    objects.connector.reject(b"no").expect("rejected");
    assert_eq!(private_data(), field::<148>(b"no"));
}

#[test]
fn a_peer_without_a_place_gets_no_private_data_at_all() {
    let _turn = fake::turn();
    // The client releases the connector.
    let objects = objects();
    requested_with(&objects, &[]);
    let Objects { connector, .. } = objects;
    drop(connector);
    assert_eq!(private_data(), field::<148>(&[]));
}

/// Makes the peer reject a Connect, for this reason and with this field. Returns the private data.
fn rejected(reason: i32, data: &[u8]) -> Vec<u8> {
    let objects = objects();
    let (overlapped, id) = connecting(&objects, &[]);
    fake::with(|world| {
        world.tell_with(id, c::RDMA_CM_EVENT_REJECTED, reason, data, (0, 0));
    });
    assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
    let data = objects.connector.get_private_data();
    data.expect("something has come from the peer")
}

#[test]
fn only_a_rejection_by_a_program_has_private_data() {
    let _turn = fake::turn();
    assert_eq!(rejected(28, &field::<148>(b"no")), b"no");
    let other = unmarked::<148>(b"no");
    assert_eq!(rejected(28, &other), other);
    // There is no listener.
    assert_eq!(rejected(8, &unmarked::<148>(&[])), []);
}

#[test]
fn the_end_of_a_connection_is_answered_because_the_peer_waits_for_that() {
    let end = |objects: &Objects| {
        let ends = Overlapped::new();
        let _ = objects.connector.notify_disconnect(&ends).expect("started");
        let id = newest();
        fake::with(|world| {
            world.calls.clear();
            world.tell(id, c::RDMA_CM_EVENT_DISCONNECTED, 0);
        });
        assert_eq!(ends.wait(), Status::SUCCESS);
        fake::with(|world| world.calls.contains(&"disconnect"))
    };
    let _turn = fake::turn();
    assert!(end(&connected()));
    fake::until_closed();
    fake::with(|world| (world.is_infiniband, world.vendor_id) = (false, 0x62_6D_74));
    assert!(!end(&Objects::connected()));
}

/// Makes the queue pair of a connection fail, by `fail`. The client and the peer are notified.
fn peer_is_told(objects: &Objects, fail: impl FnOnce(&mut fake::World)) {
    let ends = Overlapped::new();
    let _ = objects.connector.notify_disconnect(&ends).expect("started");
    fake::with(|world| {
        world.calls.clear();
        fail(world);
    });
    let _ = objects.results();
    assert_eq!(ends.wait(), Status::SUCCESS);
    assert!(fake::with(|world| world.calls.contains(&"disconnect")));
}

#[test]
fn the_peer_is_told_when_a_queue_pair_fails() {
    let _turn = fake::turn();
    // A request reports it.
    let objects = connected();
    objects.qp.receive(1, &[]).expect("posted");
    let post = super::last_post();
    peer_is_told(&objects, |world| {
        world.complete(post, c::IBV_WC_LOC_PROT_ERR, 0);
    });
    drop(objects);
    fake::until_closed();
    // The device reports it, if no request is outstanding.
    let objects = connected();
    peer_is_told(&objects, |world| {
        world.tell_of_pair(c::IBV_EVENT_QP_ACCESS_ERR);
    });
}

#[test]
fn the_peer_is_told_when_this_side_fails_the_queue_pair() {
    let _turn = fake::turn();
    // A completion queue breaks down.
    let objects = connected();
    let ends = Overlapped::new();
    let _ = objects.connector.notify_disconnect(&ends).expect("started");
    fake::with(|world| world.calls.clear());
    let fault = Fault::BreakCompletionQueue {
        queue: objects.cq.clone(),
        status: Status::INTERNAL_ERROR,
    };
    let extensions = objects.adapter.extensions().expect("some");
    extensions.inject(fault).expect("broken");
    assert_eq!(ends.status(), Status::SUCCESS);
    assert!(fake::with(|world| world.calls.contains(&"disconnect")));
    drop(objects);
    fake::until_closed();
    // A request fails before the driver sees it: no Reads were agreed on.
    let objects = self::objects();
    let (overlapped, id) = connecting(&objects, &[]);
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_CONNECT_RESPONSE, 0));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    let _ = objects
        .connector
        .complete_connect(&overlapped)
        .expect("started");
    let ends = Overlapped::new();
    let _ = objects.connector.notify_disconnect(&ends).expect("started");
    fake::with(|world| world.calls.clear());
    let from = RemoteAddress::default();
    let posted = objects.qp.read(1, &[], from, OpFlags::empty());
    posted.expect("posted");
    assert_eq!(ends.status(), Status::SUCCESS);
    let result = objects.result();
    let found = (result.request_context, result.status);
    assert_eq!(found, (1, Status::INVALID_DEVICE_REQUEST)); // AMB-045
    let calls = fake::with(|world| world.calls.clone());
    assert_eq!(calls, ["fail", "disconnect"]);
}

/// The events of a peer that gives up after its request.
const GIVES_UP: [u32; 4] = [
    c::RDMA_CM_EVENT_DISCONNECTED,
    c::RDMA_CM_EVENT_REJECTED,
    c::RDMA_CM_EVENT_UNREACHABLE,
    c::RDMA_CM_EVENT_CONNECT_ERROR,
];

#[test]
fn conn_055_a_peer_that_has_given_up_cannot_be_accepted() {
    for event in GIVES_UP {
        let _turn = fake::turn();
        let objects = objects();
        requested_with(&objects, &[]);
        let id = newest();
        fake::with(|world| {
            world.calls.clear();
            world.tell(id, event, 0);
        });
        let has_gone = || fake::with(|world| !world.ids.contains(&id));
        assert!(eventually(has_gone), "event {event}");
        let overlapped = Overlapped::new();
        let (connector, qp) = (&objects.connector, &objects.qp);
        let refused = connector.accept(qp, 1, 1, &[], &overlapped);
        let refused = refused.map_err(|error| error.status());
        assert_eq!(refused, Err(Status::CONNECTION_ABORTED));
    }
}

#[test]
fn a_peer_that_has_given_up_leaves_the_backlog() {
    for event in GIVES_UP {
        let _turn = fake::turn();
        let objects = objects();
        let listener = objects.adapter.create_listener(&objects.file);
        let listener = listener.expect("a listener");
        listener.bind((super::HERE, 0).into()).expect("bound");
        listener.listen(1).expect("listens");
        let id = newest();
        let core = objects.core();
        fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_CONNECT_REQUEST, 0));
        assert!(eventually(|| core.owned_connections() == 2));
        let request = newest();
        fake::with(|world| world.tell(request, event, 0));
        assert!(
            eventually(|| core.owned_connections() == 1),
            "event {event}"
        );
    }
}

#[test]
fn a_connection_whose_peer_gives_up_at_last_has_ended() {
    for event in GIVES_UP {
        let _turn = fake::turn();
        let objects = connected();
        let ends = Overlapped::new();
        let _ = objects.connector.notify_disconnect(&ends).expect("started");
        let id = newest();
        fake::with(|world| world.tell(id, event, 0));
        let has_ended = || ends.status() != Status::PENDING;
        assert!(eventually(has_ended), "event {event}");
        assert_eq!(ends.status(), Status::SUCCESS);
    }
}

#[test]
fn irdma_tells_the_limits_as_they_are_over_roce() {
    let _turn = fake::turn();
    fake::with(|world| (world.is_infiniband, world.vendor_id) = (true, 0x8086));
    let objects = Objects::new();
    requested_with(&objects, &[]);
    let found = objects.connector.get_read_limits().expect("limits");
    assert_eq!((found.inbound, found.outbound), (3, 5));
}

#[test]
fn amb_008_a_message_waits_two_seconds_for_a_receive() {
    let waits = || {
        let (timers, receives) = fake::with(|world| {
            let timers = std::mem::take(&mut world.receive_timers);
            (timers, world.sent_receive_options.take())
        });
        // The code of 327.68 ms.
        assert_eq!(timers, [30]);
        assert_eq!(receives, Some((6, false)));
    };
    let _turn = fake::turn();
    let objects = connected();
    waits();
    drop(objects);
    fake::until_closed();
    let (_objects, _) = accepting();
    waits();
}

#[test]
fn a_queue_pair_that_the_device_does_not_make_ready_is_no_peer_that_is_gone() {
    let _turn = fake::turn();
    let objects = objects();
    let overlapped = answered(&objects, &[]);
    fake::with(|world| {
        world.ready_returns = libc::ENOMEM;
        world.calls.clear();
    });
    let connector = &objects.connector;
    let _ = connector.complete_connect(&overlapped).expect("started");
    assert_eq!(overlapped.status(), Status::INSUFFICIENT_RESOURCES);
    assert!(fake::with(|world| world.calls.contains(&"disconnect")));
    // The connector is finished (CONN-047).
    let ends = connector.notify_disconnect(&Overlapped::new());
    let ends = ends.map_err(|error| error.status());
    assert_eq!(ends, Err(Status::CONNECTION_INVALID));
    drop(objects);
    fake::until_closed();
    let (_objects, overlapped) = accepting();
    assert_eq!(overlapped.status(), Status::INSUFFICIENT_RESOURCES);
}
