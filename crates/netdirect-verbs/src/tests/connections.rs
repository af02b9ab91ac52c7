//! Connections, from both sides.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use netdirect::{LocalToken, Overlapped, ReadLimits, Sge, Started, Status};

use netdirect_provider::ProviderAdapter as _;

use super::{HERE, Objects, PEER, eventually, fake, open};
use crate::options::Options;
use crate::sys::bindings as c;

const SGE: Sge = Sge {
    address: 4096,
    length: 8,
    token: LocalToken(1),
};

/// The identifier that was made last.
pub(super) fn newest() -> usize {
    fake::with(|world| *world.ids.last().expect("an identifier"))
}

/// Connects, and waits until the driver was called. Returns the request, and the identifier.
pub(super) fn connecting(objects: &Objects, private_data: &[u8]) -> (Overlapped, usize) {
    let overlapped = objects.connect(private_data);
    fake::until(|world| world.calls.contains(&"connect"));
    (overlapped, newest())
}

#[test]
fn some_drivers_tell_the_limits_in_each_others_place_when_a_connection_is_established() {
    for (vendor, found) in [
        (0x62_6D_74, (4, 2)),
        (0x8086, (4, 2)),
        (0x1077, (4, 2)),
        (0x1425, (2, 4)),
    ] {
        let _turn = fake::turn();
        fake::with(|world| world.vendor_id = vendor);
        let objects = Objects::new();
        let overlapped = objects.connect(b"from the caller");
        fake::until(|world| world.calls.contains(&"connect"));
        let sent_data = fake::with(|world| world.sent_data.take());
        assert_eq!(sent_data, Some((b"from the caller".to_vec(), 4, 2)));
        let id = newest();
        fake::with(|world| {
            let data = b"from the callee";
            world.tell_with(id, c::RDMA_CM_EVENT_ESTABLISHED, 0, data, (2, 4));
        });
        assert_eq!(overlapped.wait(), Status::SUCCESS);
        assert_eq!(
            objects.connector.get_private_data(),
            Ok(b"from the callee".to_vec())
        );
        // Cut to this side's request, which is 4 inbound and 2 outbound.
        let (inbound, outbound): (u32, u32) = found;
        let limits = ReadLimits {
            inbound: inbound.min(4),
            outbound: outbound.min(2),
        };
        assert_eq!(objects.connector.get_read_limits(), Ok(limits));
    }
}

#[test]
fn conn_023_a_refusal_within_the_call_is_one_like_a_refusal_by_an_event() {
    let _turn = fake::turn();
    let objects = Objects::new();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let first = fake::with(|world| world.posted.back().copied()).expect("posted");
    fake::with(|world| world.connect_returns = libc::ECONNREFUSED);
    let overlapped = objects.connect(&[]);
    assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
    // The Receive waits on another queue pair of the device, and another attempt may follow.
    let again = fake::with(|world| world.posted.back().copied()).expect("posted");
    assert_ne!(first.pair, again.pair);
    assert_eq!(first.id, again.id);
    fake::with(|world| {
        world.connect_returns = 0;
        world.calls.clear();
    });
    let (overlapped, id) = connecting(&objects, &[]);
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_REJECTED, -libc::ECONNREFUSED));
    assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
}

#[test]
fn conn_089_the_data_of_a_rejection_can_be_read() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let (overlapped, id) = connecting(&objects, &[]);
    fake::with(|world| {
        let event = c::RDMA_CM_EVENT_REJECTED;
        world.tell_with(id, event, -libc::ECONNRESET, b"no", (0, 0));
    });
    assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
    assert_eq!(objects.connector.get_private_data(), Ok(b"no".to_vec()));
}

#[test]
fn statuses_of_attempts_that_fail_are_told_by_their_events() {
    for (event, errno, status) in [
        (
            c::RDMA_CM_EVENT_UNREACHABLE,
            libc::ETIMEDOUT,
            Status::IO_TIMEOUT,
        ),
        (
            c::RDMA_CM_EVENT_ROUTE_ERROR,
            libc::ENETUNREACH,
            Status::NETWORK_UNREACHABLE,
        ),
        (
            c::RDMA_CM_EVENT_ADDR_ERROR,
            libc::ETIMEDOUT,
            Status::HOST_UNREACHABLE,
        ),
        (
            c::RDMA_CM_EVENT_CONNECT_ERROR,
            libc::EINVAL,
            Status::CONNECTION_REFUSED,
        ),
    ] {
        let _turn = fake::turn();
        let objects = Objects::new();
        let (overlapped, id) = connecting(&objects, &[]);
        fake::with(|world| world.tell(id, event, -errno));
        assert_eq!(overlapped.wait(), status, "event {event}");
    }
}

#[test]
fn conn_017_more_private_data_than_the_device_takes_is_decided_first() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let overlapped = Overlapped::new();
    let refused = objects
        .connector
        .connect(&objects.qp, PEER, 0, 0, &[0; 249], &overlapped);
    assert_eq!(
        refused.map_err(|error| error.status()),
        Err(Status::INVALID_BUFFER_SIZE)
    );
    assert!(!fake::with(|world| world.calls.contains(&"connect")));
}

#[test]
fn a_cancelled_connect_ends_at_once_though_the_driver_waits() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let overlapped = objects.connect(&[]);
    fake::until(|world| world.calls.contains(&"connect"));
    objects
        .connector
        .cancel_overlapped_requests()
        .expect("cancelled");
    assert_eq!(overlapped.status(), Status::CANCELED);
    // The queue pair can be connected by another connector.
    let other = objects.adapter.create_connector(&objects.file);
    let other = other.expect("a connector");
    fake::with(|world| world.calls.clear());
    let started = other.connect(&objects.qp, PEER, 0, 0, &[], &overlapped);
    assert_eq!(started, Ok(Started::Pending));
    fake::until(|world| world.calls.contains(&"connect"));
}

#[test]
fn conn_106_the_end_of_a_connection_is_told_and_cancels_requests() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let ends = Overlapped::new();
    let _ = objects.connector.notify_disconnect(&ends).expect("started");
    let id = newest();
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_DISCONNECTED, 0));
    assert_eq!(ends.wait(), Status::SUCCESS);
    let result = objects.result();
    assert_eq!(
        (result.request_context, result.status),
        (1, Status::CANCELED)
    );
    // After the peer's end requests are cancelled as well (AMB-046).
    objects
        .qp
        .send(2, &[SGE], netdirect::OpFlags::empty())
        .expect("posted");
    let result = objects.result();
    assert_eq!(
        (result.request_context, result.status),
        (2, Status::CANCELED)
    );
}

#[test]
fn ovl_001_cancel_ends_a_disconnect_under_way_with_all_notifications() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let [first, disconnect, last] = std::array::from_fn(|_| Overlapped::new());
    let connector = &objects.connector;
    let _ = connector.notify_disconnect(&first).expect("started");
    let _ = connector.disconnect(&disconnect).expect("started");
    let _ = connector.notify_disconnect(&last).expect("started");
    connector.cancel_overlapped_requests().expect("cancelled");
    for request in [&first, &disconnect, &last] {
        assert_eq!(request.status(), Status::CANCELED);
    }
    // The connection has ended nevertheless.
    objects.qp.receive(1, &[SGE]).expect("posted");
    assert_eq!(objects.result().status, Status::CANCELED);
    let peer = connector.get_peer_address();
    assert_eq!(
        peer.map_err(|error| error.status()),
        Err(Status::CONNECTION_INVALID)
    );
}

#[test]
fn conn_106_flushed_requests_tell_the_end_before_the_event_does() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let ends = Overlapped::new();
    let _ = objects.connector.notify_disconnect(&ends).expect("started");
    fake::with(|world| {
        let post = *world.posted.back().expect("posted");
        world.complete(post, c::IBV_WC_WR_FLUSH_ERR, 0);
    });
    let result = objects.result();
    assert_eq!(
        (result.request_context, result.status),
        (1, Status::CANCELED)
    );
    assert_eq!(ends.status(), Status::SUCCESS);
}

/// A listener with a peer's request in the connector.
pub(super) fn requested(objects: &Objects) {
    requested_with(objects, b"hello");
}

/// Like [`requested`], with this private data.
pub(super) fn requested_with(objects: &Objects, data: &[u8]) {
    let listener = objects
        .adapter
        .create_listener(&objects.file)
        .expect("a listener");
    listener.bind((HERE, 0).into()).expect("bound");
    listener.listen(4).expect("listens");
    let id = newest();
    let overlapped = Overlapped::new();
    let _ = listener
        .get_connection_request(&objects.connector, &overlapped)
        .expect("started");
    fake::with(|world| {
        let event = c::RDMA_CM_EVENT_CONNECT_REQUEST;
        world.tell_with(id, event, 0, data, (3, 5));
    });
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    // The adapter's thread may hold the listener for longer than this function does.
    drop(listener);
    fake::until(|world| !world.ids.contains(&id));
}

#[test]
fn a_peers_request_is_accepted_with_the_limits_of_both() {
    let _turn = fake::turn();
    let objects = Objects::new();
    requested(&objects);
    assert_eq!(objects.connector.get_private_data(), Ok(b"hello".to_vec()));
    let limits = ReadLimits {
        inbound: 3,
        outbound: 5,
    };
    assert_eq!(objects.connector.get_read_limits(), Ok(limits));
    let overlapped = Overlapped::new();
    let accepted = objects
        .connector
        .accept(&objects.qp, 16, 1, b"welcome", &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    let sent_data = fake::with(|world| world.sent_data.take());
    assert_eq!(sent_data, Some((b"welcome".to_vec(), 3, 1)));
    assert_eq!(overlapped.status(), Status::PENDING);
    let id = newest();
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_ESTABLISHED, 0));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    objects
        .qp
        .send(1, &[SGE], netdirect::OpFlags::empty())
        .expect("connected");
}

#[test]
fn limits_that_irdma_does_not_tell_with_a_request_are_the_adapters() {
    for (vendor_id, found) in [(0x8086, (16, 16)), (0x1077, (3, 5)), (0x1425, (3, 5))] {
        let _turn = fake::turn();
        fake::with(|world| world.vendor_id = vendor_id);
        let objects = Objects::new();
        requested(&objects);
        let limits = ReadLimits {
            inbound: found.0,
            outbound: found.1,
        };
        assert_eq!(objects.connector.get_read_limits(), Ok(limits));
        let overlapped = Overlapped::new();
        let (connector, qp) = (&objects.connector, &objects.qp);
        let accepted = connector.accept(qp, 2, 1, &[], &overlapped);
        assert_eq!(accepted, Ok(Started::Pending));
        assert_eq!(
            fake::with(|world| world.sent_data.take()),
            Some((Vec::new(), 2, 1))
        );
    }
}

#[test]
fn siw_always_has_a_place_for_the_ready_to_receive_read() {
    for (vendor_id, inbound) in [(None, 1), (Some(0x8086), 0)] {
        let _turn = fake::turn();
        if let Some(vendor_id) = vendor_id {
            fake::with(|world| world.vendor_id = vendor_id);
        }
        let objects = Objects::new();
        requested(&objects);
        let overlapped = Overlapped::new();
        let accepted = objects
            .connector
            .accept(&objects.qp, 0, 1, &[], &overlapped);
        assert_eq!(accepted, Ok(Started::Pending));
        let sent_data = fake::with(|world| world.sent_data.take());
        assert_eq!(sent_data, Some((Vec::new(), inbound, 1)));
        let limits = objects.connector.get_read_limits();
        assert_eq!(limits.map(|limits| limits.inbound), Ok(0));
    }
}

/// A connection of TCP on which the peer has sent octets that were not read.
fn with_unread_octets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((HERE, 0)).expect("a listener");
    let mut there = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let (here, _) = listener.accept().expect("a connection");
    there.write_all(b"a first message").expect("sent");
    here.peek(&mut [0]).expect("received");
    (here, there)
}

/// Accepts the peer of this connection, and returns the requests that this posts.
fn posted_by_accept(objects: &Objects, tcp: &TcpStream, outbound: u32) -> Vec<fake::Post> {
    let v4 = |address| match address {
        Ok(SocketAddr::V4(address)) => address,
        other => panic!("an address of IPv4, not {other:?}"),
    };
    let addresses = (v4(tcp.local_addr()), v4(tcp.peer_addr()));
    fake::with(|world| world.addresses = Some(addresses));
    requested(objects);
    let overlapped = Overlapped::new();
    let (connector, qp) = (&objects.connector, &objects.qp);
    let accepted = connector.accept(qp, 1, outbound, &[], &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    let id = newest();
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_ESTABLISHED, 0));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    fake::with(|world| world.posted.drain(..).collect())
}

#[test]
fn siw_is_made_to_read_what_it_has_left_untouched() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let (here, _there) = with_unread_octets();
    let posted = posted_by_accept(&objects, &here, 1);
    let [read] = posted[..] else {
        panic!("one request, not {posted:?}");
    };
    assert_eq!((read.opcode, read.entries), (c::IBV_WR_RDMA_READ, 1));
    assert_eq!(read.flags & c::IBV_SEND_SIGNALED, 0);
    // The client sees only its own requests, whatever the outcome of this one.
    let flags = netdirect::OpFlags::empty();
    objects.qp.send(9, &[SGE], flags).expect("posted");
    let send = super::last_post();
    fake::with(|world| {
        world.complete(read, c::IBV_WC_WR_FLUSH_ERR, 0);
        world.complete(send, c::IBV_WC_WR_FLUSH_ERR, 0);
    });
    let result = objects.result();
    assert_eq!(
        (result.request_context, result.status),
        (9, Status::CANCELED)
    );
    assert_eq!(objects.results(), []);
}

#[test]
fn nothing_is_read_where_nothing_was_left_or_no_read_is_allowed() {
    for (vendor_id, is_read, outbound) in [
        (None, true, 1),          // Everything was read.
        (None, false, 0),         // The client wants no Reads.
        (Some(0x1425), false, 1), // The driver reads by itself.
    ] {
        let _turn = fake::turn();
        if let Some(vendor_id) = vendor_id {
            fake::with(|world| world.vendor_id = vendor_id);
        }
        let objects = Objects::new();
        let (mut here, _there) = with_unread_octets();
        if is_read {
            here.read_exact(&mut [0; 15]).expect("received");
        }
        assert_eq!(posted_by_accept(&objects, &here, outbound), []);
    }
}

#[test]
fn conn_059_accept_does_not_wait_for_ever() {
    let _turn = fake::turn();
    let options = Options::default().timeouts(|limits| limits.ready = Some(Duration::ZERO));
    let objects = Objects::with(&options);
    requested(&objects);
    fake::with(|world| world.calls.clear());
    let overlapped = Overlapped::new();
    let (connector, qp) = (&objects.connector, &objects.qp);
    let accepted = connector.accept(qp, 1, 1, &[], &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    assert_eq!(overlapped.wait(), Status::IO_TIMEOUT);
    let refused = connector.notify_disconnect(&Overlapped::new());
    assert_eq!(
        refused.map_err(|error| error.status()),
        Err(Status::CONNECTION_INVALID)
    );
    // siw stops the kernel if the queue pair fails before the connection is established: the identifier ends first.
    fake::until(|world| world.calls.contains(&"destroy pair"));
    let calls = fake::with(|world| world.calls.clone());
    let of_end = ["fail", "destroy id", "destroy pair"];
    let of_end = calls.into_iter().filter(|call| of_end.contains(call));
    assert_eq!(of_end.collect::<Vec<_>>(), ["destroy id", "destroy pair"]);
}

#[test]
fn conn_059_accept_waits_for_ever_where_the_user_says_so() {
    let _turn = fake::turn();
    let objects = Objects::with(&Options::default().timeouts(|limits| limits.ready = None));
    requested(&objects);
    let overlapped = Overlapped::new();
    let (connector, qp) = (&objects.connector, &objects.qp);
    let accepted = connector.accept(qp, 1, 1, &[], &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    // When the adapter's thread takes the second event, it has checked its times.
    for _ in 0..2 {
        fake::with(|world| world.tell_of_device(c::IBV_EVENT_PORT_ACTIVE));
        fake::until(|world| !world.has_device_events());
    }
    assert_eq!(overlapped.status(), Status::PENDING);
    let id = newest();
    fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_ESTABLISHED, 0));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
}

#[test]
fn conn_061_a_peer_that_was_gone_at_accept_aborts_it() {
    let _turn = fake::turn();
    let objects = Objects::new();
    requested(&objects);
    fake::with(|world| world.accept_returns = libc::ECONNRESET);
    let overlapped = Overlapped::new();
    let accepted = objects
        .connector
        .accept(&objects.qp, 1, 1, &[], &overlapped);
    assert_eq!(accepted, Ok(Started::Pending));
    assert_eq!(overlapped.wait(), Status::CONNECTION_ABORTED);
}

#[test]
fn a_peers_request_is_rejected_with_data() {
    let _turn = fake::turn();
    let objects = Objects::new();
    requested(&objects);
    objects.connector.reject(b"no").expect("rejected");
    let (sent_data, rejected) =
        fake::with(|world| (world.sent_data.take(), world.calls.contains(&"reject")));
    assert!(rejected);
    assert_eq!(sent_data.expect("data").0, b"no");
}

#[test]
fn a_disconnect_ends_after_the_results_though_another_thread_ends_the_queue_pair() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let id = newest();
    fake::with(|world| {
        world.calls.clear();
        world.holds_pairs = true;
        world.tell(id, c::RDMA_CM_EVENT_DISCONNECTED, 0);
    });
    fake::until(|world| world.calls.contains(&"destroy pair"));
    let overlapped = Overlapped::new();
    let _ = objects.connector.disconnect(&overlapped).expect("started");
    assert_eq!(overlapped.status(), Status::PENDING);
    fake::with(|world| world.holds_pairs = false);
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    let results = objects.results();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].status, Status::CANCELED);
}

#[test]
fn nothing_is_left_of_a_queue_pair_that_is_released_while_an_attempt_fails() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let (overlapped, id) = connecting(&objects, &[]);
    fake::with(|world| {
        world.calls.clear();
        world.holds_new_pairs = true;
        world.tell(id, c::RDMA_CM_EVENT_REJECTED, -libc::ECONNREFUSED);
    });
    fake::until(|world| world.calls.contains(&"create pair"));
    let Objects { qp, cq, .. } = objects;
    drop(qp);
    fake::with(|world| world.holds_new_pairs = false);
    assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
    assert!(eventually(|| fake::with(|world| world.pairs.is_empty())));
    drop(cq);
}

#[test]
fn a_flush_beside_a_connect_ends_this_connect_and_no_later_one() {
    let _turn = fake::turn();
    let objects = Objects::new();
    objects.qp.receive(1, &[SGE]).expect("posted");
    fake::with(|world| {
        world.calls.clear();
        world.holds_new_pairs = true;
    });
    let first = std::thread::scope(|scope| {
        let flush = scope.spawn(|| objects.qp.flush());
        fake::until(|world| world.calls.contains(&"create pair"));
        let first = objects.connect(&[]);
        fake::until(|world| world.calls.contains(&"connect"));
        fake::with(|world| world.holds_new_pairs = false);
        flush.join().expect("ended").expect("flushed");
        first
    });
    assert_eq!(first.status(), Status::CANCELED);
    let result = objects.result();
    assert_eq!(
        (result.request_context, result.status),
        (1, Status::CANCELED)
    );
    let connector = objects.adapter.create_connector(&objects.file);
    let connector = connector.expect("a connector");
    fake::with(|world| world.calls.clear());
    let second = Overlapped::new();
    let started = connector.connect(&objects.qp, PEER, 0, 0, &[], &second);
    assert_eq!(started, Ok(Started::Pending));
    super::complete_connect(&*connector, &second);
}

#[test]
fn a_peer_is_reached_from_the_address_that_the_system_routes_from() {
    let _turn = fake::turn();
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let core = open(vec![other, HERE], &Options::default());
    assert_eq!(core.local_address_for(HERE), Some(HERE));
    // An address that is not routed from an address of the adapter, or not at all.
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(core.local_address_for(elsewhere), Some(other));
    assert_eq!(
        core.local_address_for(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        None
    );
}
