//! Shared receive queues, overrun completion queues, resizing, and queue pairs that are used again.

use std::sync::Arc;

use softverbs::{
    AsyncEventKind, CmEventKind, CompletionQueue, DeviceKind, Errno, QpAttributes, QpMask,
    QpOptions, QpState, SendOperation, Service, SharedReceiveQueue, SrqAttributes, WcStatus,
    WorkCompletion,
};

use crate::common::{CAPS, End, Host, Pair, errno, parameters};

const SRQ: SrqAttributes = SrqAttributes {
    max_wr: 16,
    max_sge: 2,
    limit: 0,
};

/// Connects a client to a queue pair of the server that draws from `srq`.
fn connect(pair: &Pair, srq: &Arc<SharedReceiveQueue>) -> (End, End) {
    let (listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    let client = End::new(&pair.client, client, None);
    client.id.connect(&parameters(b"")).unwrap();
    let (id, _) = pair.server.request();
    let cq = CompletionQueue::create(&pair.server.context, 64, None).unwrap();
    let options = QpOptions {
        service: Service::Reliable,
        send_cq: cq.clone(),
        receive_cq: cq.clone(),
        srq: Some(srq.clone()),
        caps: CAPS,
        signal_all: true,
    };
    let qp = id.create_queue_pair(&pair.server.pd, options).unwrap();
    qp.tag().set(70);
    let buffer = rdma_buffer::Buffer::new(4096);
    let server = End {
        region: pair.server.region(&buffer),
        id,
        qp,
        cq,
        buffer,
    };
    server.id.accept(&parameters(b"")).unwrap();
    pair.client.expect(CmEventKind::Established);
    pair.server.expect(CmEventKind::Established);
    listener.destroy().unwrap();
    (client, server)
}

fn event(host: &Host, kind: AsyncEventKind, tag: Option<u64>) {
    let event = host.context.get_async_event().unwrap();
    assert_eq!((event.kind(), event.tag()), (kind, tag));
    event.acknowledge();
}

#[test]
fn queue_pairs_draw_from_a_shared_queue_and_tell_of_its_limit_and_of_their_last_receive() {
    for pair in [Pair::simulated(60, DeviceKind::Roce), Pair::on_sockets()] {
        let srq = SharedReceiveQueue::create(&pair.server.pd, SRQ).unwrap();
        srq.tag().set(60);
        let ends = [connect(&pair, &srq), connect(&pair, &srq)];
        let (_, server) = &ends[0];
        assert_eq!(errno(server.qp.post_receive(1, &[])), Errno::INVAL);
        for wr_id in 0..3 {
            srq.post_receive(wr_id, &[server.sge(0, 64)]).unwrap();
        }
        srq.modify(None, Some(2)).unwrap();
        assert_eq!(srq.query().limit, 2);
        assert!(!pair.server.context.has_event());
        for (number, (client, server)) in (0..).zip(&ends) {
            client.post(number, SendOperation::Send, &[client.sge(0, 8)]);
            assert_eq!(client.statuses(1), [(number, WcStatus::Success)]);
            assert_eq!(server.statuses(1), [(number, WcStatus::Success)]);
        }
        event(&pair.server, AsyncEventKind::SharedReceiveLimit, Some(60));
        assert_eq!(srq.query().limit, 0);
        assert_eq!(errno(srq.destroy()), Errno::BUSY);
        ends[1].0.id.disconnect().unwrap();
        pair.server.expect(CmEventKind::Disconnected);
        ends[1].1.id.disconnect().unwrap();
        event(&pair.server, AsyncEventKind::LastReceiveReached, Some(70));
        for (_, server) in ends {
            server.id.destroy_queue_pair().unwrap();
            drop(server);
        }
        srq.destroy().unwrap();
    }
}

#[test]
fn an_overrun_queue_is_an_event_and_ends_its_queue_pairs() {
    let pair = Pair::simulated(61, DeviceKind::Roce);
    let (listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    let client = End::new(&pair.client, client, None);
    client.id.connect(&parameters(b"")).unwrap();
    let (id, _) = pair.server.request();
    let cq = CompletionQueue::create(&pair.server.context, 2, None).unwrap();
    cq.tag().set(61);
    let options = crate::common::options_over(&cq, true);
    let qp = id.create_queue_pair(&pair.server.pd, options).unwrap();
    for wr_id in 0..4 {
        qp.post_receive(wr_id, &[]).unwrap();
    }
    id.accept(&parameters(b"")).unwrap();
    pair.client.expect(CmEventKind::Established);
    pair.server.expect(CmEventKind::Established);
    for wr_id in 0..4 {
        client.post(wr_id, SendOperation::Send, &[]);
    }
    event(&pair.server, AsyncEventKind::CompletionQueueError, Some(61));
    pair.server.expect(CmEventKind::Disconnected);
    assert_eq!(qp.state(), QpState::Err);
    drop(listener);
}

#[test]
fn a_queue_grows_and_does_not_shrink_below_what_is_in_it() {
    let pair = Pair::simulated(62, DeviceKind::Roce);
    let (client, server) = pair.connect();
    for wr_id in 0..8 {
        server.qp.post_receive(wr_id, &[]).unwrap();
        client.post(wr_id, SendOperation::Send, &[]);
    }
    let mut first = [WorkCompletion::default()];
    while server.cq.poll(&mut first) == 0 {}
    assert_eq!(first[0].wr_id, 0);
    assert_eq!(client.completions(8).len(), 8);
    // All seven others have to be there.
    let spare = softverbs::EventChannel::create(&pair.server.process).unwrap();
    assert_eq!(errno(spare.get_event()), Errno::DEADLK);
    assert_eq!(errno(server.cq.resize(3)), Errno::INVAL);
    assert_eq!(errno(server.cq.resize(0)), Errno::INVAL);
    server.cq.resize(1000).unwrap();
    assert_eq!(server.statuses(7).len(), 7);
}

#[test]
fn a_queue_pair_is_used_again_after_a_reset() {
    for pair in [Pair::simulated(63, DeviceKind::Roce), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        server.qp.post_receive(1, &[server.sge(0, 8)]).unwrap();
        let attributes = QpAttributes {
            state: QpState::Reset,
            ..QpAttributes::default()
        };
        server.qp.modify(&attributes, QpMask::STATE).unwrap();
        assert_eq!(server.qp.state(), QpState::Reset);
        pair.client.expect(CmEventKind::Disconnected);
        assert_eq!(
            server.cq.poll(&mut [WorkCompletion::default(); 2]),
            0,
            "Receives vanish"
        );
        assert_eq!(errno(server.qp.post_receive(2, &[])), Errno::INVAL);
        assert_eq!(
            errno(server.try_post(3, SendOperation::Send, softverbs::SendData::Sges(&[]))),
            Errno::INVAL
        );
        drop(client);
    }
}

#[test]
fn a_queue_pair_without_a_connection_flushes_in_error() {
    let pair = Pair::simulated(64, DeviceKind::Roce);
    let id = pair.client.resolved(([10, 0, 0, 2], 7).into());
    let end = End::new(&pair.client, id, None);
    end.qp.post_receive(1, &[]).unwrap();
    let attributes = QpAttributes {
        state: QpState::Err,
        ..QpAttributes::default()
    };
    end.qp.modify(&attributes, QpMask::STATE).unwrap();
    assert_eq!(end.statuses(1), [(1, WcStatus::Flushed)]);
    end.post(2, SendOperation::Send, &[]);
    assert_eq!(end.statuses(1), [(2, WcStatus::Flushed)]);
    end.qp.post_receive(3, &[]).unwrap();
    assert_eq!(end.statuses(1), [(3, WcStatus::Flushed)]);
}
