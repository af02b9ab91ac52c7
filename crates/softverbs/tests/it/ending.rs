//! The end of a program.

use std::sync::Mutex;
use std::time::Duration;

use rdma_buffer::Buffer;
use softverbs::{
    AsyncEventKind, CmEventKind, CompletionQueue, ConnParameters, DeviceKind, Errno,
    ProcessOptions, SendOperation, Sge, WcStatus, vendor_err,
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

/// Sentences about ends of connections in the next test.
static ENDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn the_terminate_is_in_the_completions_that_it_fails_and_in_a_sentence() {
    let mut options = ProcessOptions::default();
    options.on_end = Some(|sentence| ENDS.lock().unwrap().push(sentence.to_owned()));
    let pair = Pair::simulated_with(83, options.clone(), options);
    let (client, server) = pair.connect();
    client.qp.post_receive(1, &[client.sge(0, 100)]).unwrap();
    server.qp.post_receive(2, &[server.sge(0, 8)]).unwrap();
    server.qp.post_receive(3, &[server.sge(0, 8)]).unwrap();
    client.post(4, SendOperation::Send, &[client.sge(0, 9)]);
    let sent = vendor_err::TERMINATE | 0x1205;
    let received = sent | vendor_err::FROM_PEER;
    let found = |end: &End, count| {
        let all = end.completions(count).into_iter();
        let all = all.map(|wc| (wc.wr_id, wc.status, wc.vendor_err(), wc.byte_len()));
        all.collect::<Vec<_>>()
    };
    let expected = [
        (2, WcStatus::LocalLength, sent, 0),
        (3, WcStatus::Flushed, sent, 0),
    ];
    assert_eq!(found(&server, 2), expected);
    let expected = [
        (4, WcStatus::Success, 0, 9),
        (1, WcStatus::Flushed, received, 0),
    ];
    assert_eq!(found(&client, 2), expected);
    let said = ENDS.lock().unwrap().join("\n");
    for words in ["this side found an error", "the peer found an error"] {
        assert!(said.contains(&format!("ended: {words}")), "{said}");
    }

    // Neither a disconnect of this side nor one of the peer is an error.
    let before = ENDS.lock().unwrap().len();
    let pair = {
        let mut options = ProcessOptions::default();
        options.on_end = Some(|sentence| ENDS.lock().unwrap().push(sentence.to_owned()));
        Pair::simulated_with(84, options.clone(), options)
    };
    let (client, server) = pair.connect();
    for end in [&client, &server] {
        end.qp.post_receive(1, &[end.sge(0, 100)]).unwrap();
    }
    client.id.disconnect().unwrap();
    pair.server.expect(CmEventKind::Disconnected);
    server.id.disconnect().unwrap();
    for end in [&client, &server] {
        assert_eq!(found(end, 1), [(1, WcStatus::Flushed, 0, 0)]);
    }
    assert_eq!(ENDS.lock().unwrap().len(), before);
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
