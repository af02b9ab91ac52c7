//! A peer that ends, and the Receives that its end leaves.

use softverbs::{
    AsyncEventKind, CmEventKind, CompletionQueue, DeviceKind, QpAttributes, QpMask, QpOptions,
    QpState, QueuePair, SendOperation, Service, SharedReceiveQueue, SrqAttributes, WcStatus,
    WorkCompletion,
};

use crate::common::{CAPS, End, Pair, parameters};

use WcStatus::{Flushed, RetryExceeded, Success};

/// The ways in which a peer ends.
#[derive(Clone, Copy, Debug)]
enum By {
    /// `rdma_disconnect`.
    Disconnect,
    /// The change of the peer's queue pair to RESET.
    Reset,
    /// The peer's program closes its device.
    Close,
}

const WAYS: [By; 3] = [By::Disconnect, By::Reset, By::Close];

fn change(qp: &std::sync::Arc<QueuePair>, state: QpState) {
    let attributes = QpAttributes {
        state,
        ..QpAttributes::default()
    };
    qp.modify(&attributes, QpMask::STATE).unwrap();
}

impl By {
    fn end(self, pair: &Pair, client: &End) {
        match self {
            Self::Disconnect => client.id.disconnect().unwrap(),
            Self::Reset => change(&client.qp, QpState::Reset),
            Self::Close => pair.client.context.close(),
        }
    }
}

/// The completions that are there.
fn found(end: &End) -> Vec<(u64, WcStatus)> {
    let mut all = Vec::new();
    let mut some = [WorkCompletion::default(); 8];
    loop {
        let taken = end.cq.poll(&mut some);
        all.extend(some[..taken].iter().map(|one| (one.wr_id, one.status)));
        if taken == 0 {
            return all;
        }
    }
}

fn receive(end: &End, wr_id: u64) {
    let place = end.sge(wr_id % 64 * 64, 64);
    end.qp.post_receive(wr_id, &[place]).unwrap();
}

#[test]
fn receives_stay_posted_until_the_program_disconnects() {
    let pairs = || [Pair::simulated(90, DeviceKind::Roce), Pair::on_sockets()];
    for (pair, by) in WAYS.iter().flat_map(|by| pairs().map(|pair| (pair, *by))) {
        let (client, server) = pair.connect();
        for wr_id in 0..20 {
            receive(&server, wr_id);
        }
        client.post(100, SendOperation::Send, &[client.sge(0, 8)]);
        assert_eq!(client.statuses(1), [(100, Success)]);
        by.end(&pair, &client);
        pair.server.expect(CmEventKind::Disconnected);
        assert_eq!(found(&server), [(0, Success)], "{by:?}");
        assert_eq!(server.qp.state(), QpState::Rts, "{by:?}");
        // As many more as there is room for.
        for wr_id in 20..33 {
            receive(&server, wr_id);
        }
        let full = server.qp.post_receive(33, &[]).unwrap_err();
        assert_eq!(full.errno(), softverbs::Errno::NOMEM, "{by:?}: {full}");
        assert_eq!(found(&server), [], "{by:?}");
        server.id.disconnect().unwrap();
        assert_eq!(server.qp.state(), QpState::Err, "{by:?}");
        let flushed: Vec<_> = (1..33).map(|wr_id| (wr_id, Flushed)).collect();
        assert_eq!(server.statuses(32), flushed, "{by:?}");
    }
}

/// Each way in which the program takes its Receives back.
#[test]
fn the_programs_own_end_takes_the_receives_back() {
    for (at, how) in ["error", "request", "reset", "destroy"]
        .into_iter()
        .enumerate()
    {
        let pair = Pair::simulated(91 + at as u64, DeviceKind::Roce);
        let (client, server) = pair.connect();
        receive(&server, 1);
        receive(&server, 2);
        client.id.disconnect().unwrap();
        pair.server.expect(CmEventKind::Disconnected);
        match how {
            "error" => {
                change(&server.qp, QpState::Err);
                assert_eq!(server.statuses(2), [(1, Flushed), (2, Flushed)]);
            }
            "request" => {
                server.post(3, SendOperation::Send, &[]);
                let mut ended = server.statuses(3);
                ended.sort_by_key(|(wr_id, _)| *wr_id);
                assert_eq!(ended, [(1, Flushed), (2, Flushed), (3, RetryExceeded)]);
                assert_eq!(server.qp.state(), QpState::Err);
            }
            "reset" => {
                change(&server.qp, QpState::Reset);
                assert_eq!(server.qp.state(), QpState::Reset);
                assert_eq!(found(&server), []);
            }
            _ => {
                server.qp.destroy().unwrap();
                assert_eq!(found(&server), []);
            }
        }
    }
}

/// A server that stops at the first failed completion misses none.
#[test]
fn a_server_that_polls_few_at_a_time_gets_every_message() {
    for seed in 0..100 {
        let pair = Pair::simulated(1000 + seed, DeviceKind::Roce);
        let (client, server) = pair.connect();
        for wr_id in 0..32 {
            receive(&server, wr_id);
        }
        for wr_id in 0..32 {
            client.post(wr_id, SendOperation::Send, &[client.sge(0, 8)]);
        }
        assert_eq!(client.completions(32).len(), 32);
        client.id.disconnect().unwrap();
        let (mut received, mut told) = (0, false);
        while received < 32 || !told {
            let mut some = [WorkCompletion::default(); 8];
            let taken = server.cq.poll(&mut some);
            for one in &some[..taken] {
                assert_eq!(one.status, Success, "seed {seed}: behind {received}");
                received += 1;
            }
            if pair.server.channel.has_event() {
                pair.server.expect(CmEventKind::Disconnected);
                told = true;
            }
        }
    }
}

#[test]
fn adapters_of_iwarp_flush_receives_at_the_peers_end() {
    for by in [By::Disconnect, By::Close] {
        let pair = Pair::simulated(95, DeviceKind::Iwarp);
        let (client, server) = pair.connect();
        receive(&server, 1);
        by.end(&pair, &client);
        pair.server.expect(CmEventKind::Disconnected);
        assert_eq!(server.statuses(1), [(1, Flushed)]);
        assert_eq!(server.qp.state(), QpState::Err);
    }
}

/// The event of the last shared Receive comes with ERR, and a Receive that was promised to the queue pair goes to another one.
#[test]
fn shared_receives_go_elsewhere_and_the_last_one_is_told_with_the_error() {
    let pair = Pair::simulated(96, DeviceKind::Roce);
    let host = &pair.server;
    let attributes = SrqAttributes {
        max_wr: 16,
        max_sge: 1,
        limit: 0,
    };
    let srq = SharedReceiveQueue::create(&host.pd, attributes).unwrap();
    let cq = CompletionQueue::create(&host.context, 64, None).unwrap();
    let (listener, address) = host.listen();
    let mut ends = Vec::new();
    for _ in 0..2 {
        let id = pair.client.resolved(address);
        let client = End::new(&pair.client, id, None);
        client.id.connect(&parameters(b"")).unwrap();
        let (id, _) = host.request();
        let options = QpOptions {
            service: Service::Reliable,
            send_cq: cq.clone(),
            receive_cq: cq.clone(),
            srq: Some(srq.clone()),
            caps: CAPS,
            signal_all: false,
        };
        let qp = id.create_queue_pair(&host.pd, options).unwrap();
        id.accept(&parameters(b"")).unwrap();
        pair.client.expect(CmEventKind::Established);
        host.expect(CmEventKind::Established);
        ends.push((client, id, qp));
    }
    let completions = |count: usize| {
        let mut all = Vec::new();
        let mut some = [WorkCompletion::default(); 8];
        while all.len() < count {
            let taken = cq.poll(&mut some);
            all.extend(some[..taken].iter().map(|one| (one.qp_num, one.status)));
        }
        all
    };
    let [(gone, gone_id, gone_qp), (other, _, other_qp)] = &ends[..] else {
        panic!("two connections");
    };
    // The message waits for a shared Receive; then the peer is gone.
    gone.post(1, SendOperation::Send, &[]);
    assert_eq!(gone.statuses(1), [(1, Success)]);
    other.post(2, SendOperation::Send, &[]);
    assert_eq!(other.statuses(1), [(2, Success)]);
    change(&gone.qp, QpState::Reset);
    host.expect(CmEventKind::Disconnected);
    srq.post_receive(1, &[]).unwrap();
    srq.post_receive(2, &[]).unwrap();
    let mut received = completions(1);
    if received[0].0 == gone_qp.number() {
        received = completions(1); // its message had come before the end
    }
    assert_eq!(received, [(other_qp.number(), Success)]);
    assert_eq!(gone_qp.state(), QpState::Rts);
    assert!(!host.context.has_event(), "no event before the error");
    gone_id.disconnect().unwrap();
    let event = host.context.get_async_event().unwrap();
    assert_eq!(event.kind(), AsyncEventKind::LastReceiveReached);
    event.acknowledge();
    listener.destroy().unwrap();
}
