//! The end of a program.

use std::time::Duration;

use softverbs::{
    AsyncEventKind, CmEventKind, CompletionQueue, DeviceKind, Errno, SendOperation, WcStatus,
};

use crate::common::{Pair, errno};

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
