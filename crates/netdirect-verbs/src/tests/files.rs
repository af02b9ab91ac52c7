//! Two overlapped files of one adapter. One event channel reports events of the connections of both.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{CompletionPort, Overlapped, Packet, Started, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connections::newest;
use super::{HERE, Objects, fake};
use crate::sys::bindings as c;

/// A limit that only ends a hang.
const HANG: Duration = Duration::from_secs(60);

/// Waits like an event loop that watches this file and no other.
fn until_readable(descriptor: BorrowedFd<'_>) {
    let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
    let limit = Timespec::try_from(HANG).expect("small");
    let ready = poll(&mut watched, Some(&limit)).expect("polled");
    assert_eq!(ready, 1, "the descriptor is not readable");
}

/// The next packet has this key, and belongs to this request; the other port has none.
fn only_packet(port: &CompletionPort, key: u64, expected: &Overlapped, other: &CompletionPort) {
    let packet: Packet = port.get(Some(HANG)).expect("a packet");
    assert_eq!((packet.key, packet.status), (key, Status::SUCCESS));
    assert!(
        packet
            .overlapped
            .is_some_and(|ended| ended.is_same(expected))
    );
    assert!(port.is_empty() && other.is_empty());
}

#[test]
fn adpt_007_requests_end_at_the_file_of_their_object_though_one_channel_serves_both() {
    for listens_at_second in [false, true] {
        let _turn = fake::turn();
        let objects = Objects::new();
        let second = objects.adapter.create_overlapped_file().expect("a file");
        let (mut files, mut ports, mut keys) = (
            [Arc::clone(&objects.file), second],
            [CompletionPort::new(), CompletionPort::new()],
            [1, 2],
        );
        if listens_at_second {
            files.reverse();
            ports.reverse();
            keys.reverse();
        }
        for ((file, port), key) in files.iter().zip(&ports).zip(keys) {
            file.associate(port, key).expect("associated");
        }
        let listener = objects
            .adapter
            .create_listener(&files[0])
            .expect("a listener");
        listener.bind((HERE, 0).into()).expect("bound");
        listener.listen(4).expect("listens");
        let id = newest();
        let connector = objects.adapter.create_connector(&files[1]);
        let connector = connector.expect("a connector");

        // GetConnectionRequest is a request of the listener (LSTN-029).
        let asked = Overlapped::new();
        let started = listener.get_connection_request(&connector, &asked);
        assert_eq!(started, Ok(Started::Pending));
        fake::with(|world| {
            let event = c::RDMA_CM_EVENT_CONNECT_REQUEST;
            world.tell_with(id, event, 0, &[], (3, 5));
        });
        only_packet(&ports[0], keys[0], &asked, &ports[1]);

        // Accept is a request of the connector, and the loop that watches the connector's file learns of its end.
        let watched = Arc::clone(&files[1]);
        let descriptor = watched.as_fd().expect("a descriptor");
        let accepted = Overlapped::new();
        let started = connector.accept(&objects.qp, 1, 1, &[], &accepted);
        assert_eq!(started, Ok(Started::Pending));
        let id = newest();
        fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_ESTABLISHED, 0));
        while accepted.status() == Status::PENDING {
            until_readable(descriptor);
            watched.progress();
        }
        only_packet(&ports[1], keys[1], &accepted, &ports[0]);

        // The first thread to look takes the end of the connection, here one that waits at the listener's file.
        watched.progress();
        let ends = Overlapped::new();
        let started = connector.notify_disconnect(&ends);
        assert_eq!(started, Ok(Started::Pending));
        fake::with(|world| world.tell(id, c::RDMA_CM_EVENT_DISCONNECTED, 0));
        let done = || ends.status() != Status::PENDING;
        while !done() {
            files[0].progress();
        }
        until_readable(descriptor);
        only_packet(&ports[1], keys[1], &ends, &ports[0]);
    }
}
