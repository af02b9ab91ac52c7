//! Listeners, and the cleanup of connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use netdirect::{Fault, Listener, Overlapped, Status};

use super::connections::{connecting, newest, requested};
use super::{HERE, Objects, eventually, fake, open};
use crate::options::Options;
use crate::sys::bindings as c;

/// A listener that listens, with the place of its identifier.
fn listener(objects: &Objects) -> (Arc<dyn Listener>, usize) {
    let listener = objects.adapter.create_listener(&objects.file);
    let listener = listener.expect("a listener");
    listener.bind((HERE, 0).into()).expect("bound");
    listener.listen(4).expect("listens");
    (listener, newest())
}

fn ask(listener: usize) {
    let event = c::RDMA_CM_EVENT_CONNECT_REQUEST;
    fake::with(|world| world.tell(listener, event, 0));
}

#[test]
fn nothing_is_left_of_connections_that_are_over() {
    type Case = (&'static str, fn(&Objects));
    let cases: [Case; 6] = [
        ("a Connect that has failed", |objects| {
            let (overlapped, id) = connecting(objects, &[]);
            fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_REJECTED, -libc::ECONNREFUSED));
            assert_eq!(overlapped.wait(), Status::CONNECTION_REFUSED);
        }),
        ("a Connect under way", |objects| {
            let _ = objects.connect(&[]);
            fake::until(|world| world.calls.contains(&"connect"));
        }),
        ("a connection", |objects| {
            let overlapped = objects.connect(&[]);
            super::complete_connect(&*objects.connector, &overlapped);
        }),
        ("a peer's request that nobody has answered", requested),
        ("a peer's request that was rejected", |objects| {
            requested(objects);
            objects.connector.reject(&[]).expect("rejected");
        }),
        ("the removal of the device", |objects| {
            let overlapped = objects.connect(&[]);
            super::complete_connect(&*objects.connector, &overlapped);
            let extensions = objects.adapter.extensions().expect("some");
            extensions.inject(Fault::RemoveDevice).expect("removed");
        }),
    ];
    for (what, case) in cases {
        let _turn = fake::turn();
        let objects = Objects::new();
        let core = objects.core();
        case(&objects);
        let Objects { qp, connector, .. } = objects;
        drop((connector, qp));
        // The adapter's thread may still hold the connector.
        assert!(eventually(|| core.owned_connections() == 0), "{what}");
    }
}

#[test]
fn nothing_is_left_of_requests_that_leave_the_backlog() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let core = objects.core();
    let (listener, id) = listener(&objects);
    ask(id);
    let first = newest();
    ask(id);
    assert!(eventually(|| core.owned_connections() == 3));
    // The first peer gives up, the second one is rejected with the listener.
    fake::with(|world| {
        world.calls.clear();
        world.tell(first, c::RDMA_CM_EVENT_DISCONNECTED, 0);
    });
    fake::until(|world| !world.ids.contains(&first));
    assert_eq!(core.owned_connections(), 2);
    drop(listener);
    assert_eq!(core.owned_connections(), 0);
}

#[test]
fn a_request_that_is_taken_back_stays_the_listeners_when_the_connector_goes() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let (listener, id) = listener(&objects);
    let asked = |connector| {
        let overlapped = Overlapped::new();
        let _ = listener
            .get_connection_request(connector, &overlapped)
            .expect("started");
        overlapped
    };
    let first = asked(&objects.connector);
    ask(id);
    assert_eq!(first.wait(), Status::SUCCESS);
    let request = newest();
    listener.withdraw(&objects.connector).expect("taken back");
    let core = objects.core();
    let Objects {
        adapter,
        file,
        connector,
        ..
    } = objects;
    drop(connector);
    // The peer gives up, and the listener is notified.
    fake::with(|world| {
        world.calls.clear();
        world.tell(request, c::RDMA_CM_EVENT_DISCONNECTED, 0);
    });
    fake::until(|world| !world.ids.contains(&request));
    let next = adapter.create_connector(&file).expect("a connector");
    let second = Overlapped::new();
    let _ = listener
        .get_connection_request(&next, &second)
        .expect("started");
    assert_eq!(second.status(), Status::PENDING);
    drop((next, core));
}

const UNSPECIFIED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A listener of an adapter with two addresses.
fn of_two_addresses() -> (Objects, Arc<dyn Listener>) {
    let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let objects = Objects::on_adapter(open(vec![HERE, second], &Options::default()));
    let listener = objects.adapter.create_listener(&objects.file);
    (objects, listener.expect("a listener"))
}

#[test]
fn a_listen_that_fails_can_be_tried_again() {
    let _turn = fake::turn();
    let (objects, listener) = of_two_addresses();
    listener.bind(UNSPECIFIED).expect("bound");
    let bound = listener.get_local_address();
    fake::with(|world| {
        world.calls.clear();
        world.listen_returns.extend([0, libc::EADDRINUSE]);
    });
    let refused = listener.listen(4).map_err(|error| error.status());
    assert_eq!(refused, Err(Status::SHARING_VIOLATION));
    // There is no listener on the first address either, and none of its requests waits for an answer.
    let calls = fake::with(|world| world.calls.clone());
    assert_eq!(calls, ["destroy id", "destroy id"]);
    assert_eq!(objects.core().owned_connections(), 0);
    assert_eq!(listener.get_local_address(), bound);
    listener.listen(4).expect("listens");
    let overlapped = Overlapped::new();
    let _ = listener
        .get_connection_request(&objects.connector, &overlapped)
        .expect("started");
    ask(newest());
    assert_eq!(overlapped.wait(), Status::SUCCESS);
}

#[test]
fn a_listener_whose_address_was_lost_by_a_listen_can_be_bound_again() {
    let _turn = fake::turn();
    let (_objects, listener) = of_two_addresses();
    listener.bind(UNSPECIFIED).expect("bound");
    fake::with(|world| {
        world.listen_returns.push_back(libc::EADDRINUSE);
        world.bind_returns.push_back(libc::EADDRINUSE);
    });
    let refused = listener.listen(4).map_err(|error| error.status());
    assert_eq!(refused, Err(Status::SHARING_VIOLATION));
    let unbound = listener.get_local_address().map_err(|error| error.status());
    assert_eq!(unbound, Err(Status::INVALID_DEVICE_STATE));
    listener.bind(UNSPECIFIED).expect("bound");
    listener.listen(4).expect("listens");
}

#[test]
fn a_port_that_is_picked_is_free_on_all_addresses() {
    let _turn = fake::turn();
    let (_objects, listener) = of_two_addresses();
    fake::with(|world| world.bind_returns.extend([0, libc::EADDRINUSE]));
    listener.bind(UNSPECIFIED).expect("another port");
    assert_eq!(fake::with(|world| world.ids.len()), 2);
    listener.listen(4).expect("listens");
}
