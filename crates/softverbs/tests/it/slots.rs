//! A slot of a queue is used until the program has taken the completion of its request, in every state. So a completion queue as deep as all
//! its queues is never overrun.

use std::sync::Arc;

use softverbs::{
    CmEventKind, CmId, CompletionQueue, DeviceKind, Errno, QpAttributes, QpMask, QpOptions,
    QpState, QueuePair, RemotePlace, Result, SendData, SendOperation, Service, SharedReceiveQueue,
    SrqAttributes, WcOpcode, WcStatus, WorkCompletion,
};

use crate::common::{CAPS, End, Host, Pair, parameters, send_of};

/// The depth of each queue of [`CAPS`].
const DEPTH: usize = 32;

/// The posts that a program tries that polls nothing.
const ATTEMPTS: u64 = 3000;

/// Posts until the queue is full, and tries again. Returns the number of requests that were accepted.
fn fill(mut post: impl FnMut(u64) -> Result<()>) -> usize {
    let (mut accepted, mut refused) = (0, 0);
    for wr_id in 0..ATTEMPTS {
        match post(wr_id) {
            Ok(()) => (accepted, refused) = (accepted + 1, 0),
            Err(error) => {
                assert_eq!(error.errno(), Errno::NOMEM);
                refused += 1;
            }
        }
        if refused == 20 {
            break;
        }
    }
    accepted
}

fn receives(qp: &QueuePair) -> usize {
    fill(|wr_id| qp.post_receive(wr_id, &[]))
}

fn sends(qp: &QueuePair) -> usize {
    fill(|wr_id| qp.post_send(&send_of(wr_id, SendData::Inline(&[]))))
}

fn take_one(cq: &CompletionQueue) -> WorkCompletion {
    let mut one = [WorkCompletion::default()];
    while cq.poll(&mut one) == 0 {}
    one[0]
}

/// Takes all completions. Returns the numbers of those of Receives, and of others.
fn poll_all(cq: &CompletionQueue) -> [usize; 2] {
    let mut counts = [0; 2];
    let mut some = [WorkCompletion::default(); 8];
    loop {
        let taken = cq.poll(&mut some);
        if taken == 0 {
            return counts;
        }
        for one in &some[..taken] {
            counts[usize::from(one.opcode != WcOpcode::Receive)] += 1;
        }
    }
}

fn modify(qp: &Arc<QueuePair>, state: QpState) {
    let attributes = QpAttributes {
        state,
        port: 1,
        ..QpAttributes::default()
    };
    let mask = match state {
        QpState::Init => QpMask::STATE | QpMask::ACCESS_FLAGS | QpMask::PKEY_INDEX | QpMask::PORT,
        _ => QpMask::STATE,
    };
    qp.modify(&attributes, mask).unwrap();
}

/// A connection whose completion queues are as deep as the two queues of each queue pair, and no deeper.
fn exact(pair: &Pair) -> (End, End) {
    let ends = pair.connect();
    for end in [&ends.0, &ends.1] {
        end.cq.resize(u32::try_from(2 * DEPTH).unwrap()).unwrap();
    }
    ends
}

fn pairs(seed: u64) -> [Pair; 2] {
    [Pair::simulated(seed, DeviceKind::Iwarp), Pair::on_sockets()]
}

#[test]
fn a_program_that_polls_nothing_is_refused_while_it_is_connected() {
    for pair in pairs(80) {
        let (client, server) = exact(&pair);
        for end in [&client, &server] {
            assert_eq!(receives(&end.qp), DEPTH);
        }
        for end in [&client, &server] {
            assert_eq!(sends(&end.qp), DEPTH);
        }
        for end in [&client, &server] {
            for _ in 0..2 * DEPTH {
                let one = take_one(&end.cq);
                assert_eq!(one.status, WcStatus::Success);
                // Only of the kind whose completion was taken, and only one.
                let freed = match one.opcode {
                    WcOpcode::Receive => [1, 0],
                    _ => [0, 1],
                };
                assert_eq!([receives(&end.qp), sends(&end.qp)], freed);
            }
            assert!(!end.cq.is_broken());
        }
    }
}

/// Ends a connection of the client and the server.
type EndsConnection = fn(&Pair, &End, &End);

/// The ways in which a connection ends for the server.
const ENDS: [(&str, EndsConnection); 4] = [
    ("the peer disconnects", |pair, client, _| {
        client.id.disconnect().unwrap();
        pair.server.expect(CmEventKind::Disconnected);
    }),
    ("this side disconnects", |pair, _, server| {
        server.id.disconnect().unwrap();
        pair.client.expect(CmEventKind::Disconnected);
    }),
    ("the program moves the queue pair to ERR", |_, _, server| {
        modify(&server.qp, QpState::Err);
    }),
    ("a request of the peer is refused", |pair, client, _| {
        let nowhere = RemotePlace { addr: 0, rkey: 9 };
        let write = SendOperation::Write(nowhere);
        client
            .try_post(1, write, SendData::Inline(&[b"astray"]))
            .unwrap();
        pair.server.expect(CmEventKind::Disconnected);
    }),
];

#[test]
fn a_program_that_polls_nothing_is_refused_after_every_end() {
    for (how, end) in ENDS {
        for pair in pairs(81) {
            let (client, server) = exact(&pair);
            let mut ends_quietly = how == "the peer disconnects";
            let before = receives(&server.qp);
            end(&pair, &client, &server);
            assert_eq!(before + receives(&server.qp), DEPTH, "{how}");
            assert_eq!(sends(&server.qp), DEPTH, "{how}");
            for _ in 0..3 {
                for _ in 0..2 * DEPTH {
                    let one = take_one(&server.cq);
                    // The first request behind the peer's end fails.
                    let lost = std::mem::take(&mut ends_quietly) && one.opcode == WcOpcode::Send;
                    let status = if lost {
                        WcStatus::RetryExceeded
                    } else {
                        WcStatus::Flushed
                    };
                    assert_eq!(one.status, status, "{how}");
                    let freed = match one.opcode {
                        WcOpcode::Receive => [1, 0],
                        _ => [0, 1],
                    };
                    assert_eq!([receives(&server.qp), sends(&server.qp)], freed, "{how}");
                }
                assert_eq!(poll_all(&server.cq), [DEPTH; 2], "{how}");
                assert_eq!([receives(&server.qp), sends(&server.qp)], [DEPTH; 2]);
            }
            assert!(!server.cq.is_broken(), "{how}");
        }
    }
}

#[test]
fn a_program_that_polls_nothing_is_refused_before_the_connection() {
    let pair = Pair::simulated(82, DeviceKind::Roce);
    let (cq, _id, qp) = alone(&pair.server);
    modify(&qp, QpState::Init);
    assert_eq!(receives(&qp), DEPTH);
    modify(&qp, QpState::Err);
    assert_eq!([receives(&qp), sends(&qp)], [0, DEPTH]);
    assert_eq!(poll_all(&cq), [DEPTH; 2]);
    assert_eq!([receives(&qp), sends(&qp)], [DEPTH; 2]);
    assert!(!cq.is_broken());
}

/// An identifier's queue pair that is not connected, with a completion queue as deep as both queues.
fn alone(host: &Host) -> (Arc<CompletionQueue>, Arc<CmId>, Arc<QueuePair>) {
    let depth = u32::try_from(2 * DEPTH).unwrap();
    let cq = CompletionQueue::create(&host.context, depth, None).unwrap();
    let qp = with_queue(host, &cq);
    (cq, qp.0, qp.1)
}

fn with_queue(host: &Host, cq: &Arc<CompletionQueue>) -> (Arc<CmId>, Arc<QueuePair>) {
    let options = QpOptions {
        service: Service::Reliable,
        send_cq: cq.clone(),
        receive_cq: cq.clone(),
        srq: None,
        caps: CAPS,
        signal_all: true,
    };
    let id = CmId::create(&host.channel).unwrap();
    let qp = QueuePair::create(&host.pd, options).unwrap();
    (id, qp)
}

/// What a queue pair has left behind needs no room in the queue, and nobody gets it: a server whose peers come and go.
#[test]
fn completions_of_queue_pairs_that_were_destroyed_or_reset_are_dropped() {
    let pair = Pair::simulated(83, DeviceKind::Roce);
    let depth = u32::try_from(4 * DEPTH).unwrap();
    let cq = CompletionQueue::create(&pair.server.context, depth, None).unwrap();
    let (_id, lasting) = with_queue(&pair.server, &cq);
    modify(&lasting, QpState::Init);
    modify(&lasting, QpState::Err);
    assert_eq!([receives(&lasting), sends(&lasting)], [DEPTH; 2]);
    for round in 0..50 {
        let (_id, qp) = with_queue(&pair.server, &cq);
        for _ in 0..3 {
            modify(&qp, QpState::Init);
            assert_eq!(receives(&qp), DEPTH);
            modify(&qp, QpState::Err);
            assert_eq!([receives(&qp), sends(&qp)], [0, DEPTH]);
            if round % 2 == 0 {
                modify(&qp, QpState::Reset);
            }
            if round % 2 == 1 {
                break;
            }
        }
        qp.destroy().unwrap();
        assert_eq!([receives(&lasting), sends(&lasting)], [0; 2]);
    }
    let mut numbers = Vec::new();
    let mut some = [WorkCompletion::default(); 5];
    for _ in 0..100 {
        let taken = cq.poll(&mut some);
        numbers.extend(some[..taken].iter().map(|one| (one.qp_num, one.wr_id)));
    }
    assert_eq!(numbers.len(), 2 * DEPTH);
    assert!(numbers.iter().all(|(qp, _)| *qp == lasting.number()));
    let in_order = (0..DEPTH as u64).chain(0..DEPTH as u64);
    assert!(numbers.iter().map(|(_, wr_id)| *wr_id).eq(in_order));
    assert_eq!([receives(&lasting), sends(&lasting)], [DEPTH; 2]);
    assert!(!cq.is_broken());
}

/// Receives of a shared queue count until their completions are taken, or their queue pair is destroyed.
#[test]
fn shared_receives_hold_their_slots() {
    let attributes = SrqAttributes {
        max_wr: 8,
        max_sge: 1,
        limit: 0,
    };
    for pair in pairs(84) {
        let srq = SharedReceiveQueue::create(&pair.server.pd, attributes).unwrap();
        let cq = CompletionQueue::create(&pair.server.context, 8 + 2 * 32, None).unwrap();
        let buffer = rdma_buffer::Buffer::new(64);
        let region = pair.server.region(&buffer);
        let (listener, address) = pair.server.listen();
        let ends = [(); 2].map(|()| {
            let client = pair.client.resolved(address);
            let client = End::new(&pair.client, client, None);
            client.id.connect(&parameters(b"")).unwrap();
            let (id, _) = pair.server.request();
            let options = QpOptions {
                service: Service::Reliable,
                send_cq: cq.clone(),
                receive_cq: cq.clone(),
                srq: Some(srq.clone()),
                caps: CAPS,
                signal_all: true,
            };
            let qp = id.create_queue_pair(&pair.server.pd, options).unwrap();
            id.accept(&parameters(b"")).unwrap();
            pair.client.expect(CmEventKind::Established);
            pair.server.expect(CmEventKind::Established);
            (client, id, qp)
        });
        let post = || fill(|wr_id| srq.post_receive(wr_id, &[]));
        assert_eq!(post(), 8);
        let send = |client: &End| {
            client.post(1, SendOperation::Send, &[]);
            assert_eq!(client.statuses(1), [(1, WcStatus::Success)]);
        };
        for round in 0..10 {
            for (client, ..) in &ends {
                (0..4).for_each(|_| send(client));
            }
            assert_eq!(post(), 0, "round {round}");
            let mut left = 8;
            while left > 0 {
                let taken = cq.poll(&mut [WorkCompletion::default(); 1]);
                assert_eq!(post(), taken, "round {round}");
                left -= taken;
            }
        }
        // The first queue pair goes with four completions that were not taken. The second one's stay.
        for (client, ..) in &ends {
            (0..4).for_each(|_| send(client));
        }
        for (client, ..) in &ends {
            // The answer proves that the completions of the Sends before were placed.
            let from = RemotePlace {
                addr: region.first(),
                rkey: region.key(),
            };
            client.post(2, SendOperation::Read(from), &[client.sge(0, 8)]);
            assert_eq!(client.statuses(1), [(2, WcStatus::Success)]);
        }
        assert_eq!(post(), 0);
        ends[0].1.destroy_queue_pair().unwrap();
        assert_eq!(post(), 4);
        let mut left = 4;
        while left > 0 {
            let mut one = [WorkCompletion::default()];
            let taken = cq.poll(&mut one);
            assert!(taken == 0 || one[0].qp_num == ends[1].2.number());
            assert_eq!(post(), taken);
            left -= taken;
        }
        assert!(!cq.is_broken());
        drop(listener);
    }
}
