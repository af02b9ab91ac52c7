//! The end of a program.

use std::time::Duration;

use rdma_buffer::Buffer;
use softverbs::{
    AsyncEventKind, CmEventKind, CompletionQueue, ConnParameters, DeviceKind, Errno, SendOperation,
    Sge, WcStatus,
};

use crate::common::{End, Pair, errno, parameters};

#[test]
fn what_was_posted_before_the_program_exits_arrives() {
    for pair in [Pair::simulated(80, DeviceKind::Roce), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        for wr_id in 0..32 {
            let place = server.sge(wr_id * 2048, 2048);
            server.qp.post_receive(wr_id, &[place]).unwrap();
        }
        for wr_id in 0..32 {
            let from = client.sge(wr_id * 2048, 2048);
            client.post(wr_id, SendOperation::Send, &[from]);
        }
        pair.client.process.finish(Duration::from_secs(60));
        let received = server.statuses(32);
        assert!(
            received
                .iter()
                .all(|(_, status)| *status == WcStatus::Success)
        );
        pair.server.expect(CmEventKind::Disconnected);
    }
}

#[test]
fn a_process_without_connections_ends_at_once() {
    let pair = Pair::simulated(81, DeviceKind::Roce);
    pair.client.process.finish(Duration::from_secs(2));
}

#[test]
fn devices_that_broke_say_so_and_refuse_new_objects() {
    let pair = Pair::simulated(82, DeviceKind::Roce);
    let context = &pair.client.context;
    assert!(!context.has_event());
    for _ in 0..2 {
        pair.client.process.break_down();
    }
    let event = context.get_async_event().unwrap();
    assert_eq!(event.kind(), AsyncEventKind::DeviceFatal);
    event.acknowledge();
    assert!(!context.has_event(), "it is one event");
    let refused = CompletionQueue::create(context, 16, None);
    assert_eq!(errno(refused), Errno::IO);
}

/// Only Linux has the limit. The peer posts no Receive, so its window closes.
#[cfg(target_os = "linux")]
#[test]
fn a_peer_that_acknowledges_nothing_ends_the_connection_if_the_program_limits_the_time() {
    let pair = Pair::on_sockets();
    let (_listener, address) = pair.server.listen();
    let id = pair.client.resolved(address);
    assert_eq!(errno(id.set_ack_timeout(32)), Errno::INVAL);
    id.set_ack_timeout(8).unwrap();
    let client = End::new(&pair.client, id, None);
    let limited = ConnParameters {
        rnr_retry_count: 0,
        ..parameters(b"")
    };
    client.id.connect(&limited).unwrap();
    let (id, _) = pair.server.request();
    let server = End::new(&pair.server, id, None);
    server.id.accept(&parameters(b"")).unwrap();
    pair.client.expect(CmEventKind::Established);
    // More than the buffers of any system hold.
    let buffer = Buffer::new(4 << 20);
    let region = pair.client.region(&buffer);
    for wr_id in 0..32 {
        let from = Sge {
            addr: region.first(),
            length: 4 << 20,
            lkey: region.key(),
        };
        client.post(wr_id, SendOperation::Send, &[from]);
    }
    pair.client.expect(CmEventKind::Disconnected);
    let statuses = client.statuses(32);
    let (_, last) = statuses.last().unwrap();
    assert_eq!(*last, WcStatus::Flushed, "{statuses:?}");
}
