//! A slot of a queue is used until the client has taken the result of its request (QP-013, QP-028, SRQ-029). So a completion queue as deep as
//! all its queues never overflows (SEC-018), whatever a client that takes no results posts, and however its connection ends.

use netdirect::{
    Affinity, CompletionQueue, CompletionResult, NotifyType, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, RequestType, Result, SharedReceiveQueueOptions, Status,
};
use std::sync::Arc;

use crate::common::ending::{ENDINGS, Watched, silent, watched};
use crate::common::*;

const NONE: OpFlags = OpFlags::empty();

/// The depth of each queue of [`Side::queue_pair`].
const DEPTH: usize = 32;

/// The posts that a client tries that takes no results.
const ATTEMPTS: u64 = 3000;

/// Posts until the queue is full, and tries again. Returns the number of requests that were accepted.
fn fill(mut post: impl FnMut(u64) -> Result<()>) -> usize {
    let (mut accepted, mut refused) = (0, 0);
    for context in 0..ATTEMPTS {
        match post(context) {
            Ok(()) => (accepted, refused) = (accepted + 1, 0),
            Err(error) => {
                assert_eq!(error.status(), Status::NO_MORE_ENTRIES);
                refused += 1;
            }
        }
        if refused == 20 {
            break;
        }
    }
    accepted
}

fn receive(qp: &Arc<dyn QueuePair>) -> impl FnMut(u64) -> Result<()> {
    move |context| qp.receive(context, &[])
}

fn send(qp: &Arc<dyn QueuePair>) -> impl FnMut(u64) -> Result<()> {
    move |context| qp.send_inline(context, &[], NONE)
}

/// A request that ends if the queue breaks down.
fn breakdown(cq: &Arc<dyn CompletionQueue>) -> Overlapped {
    let overlapped = Overlapped::new();
    let _ = cq.notify(NotifyType::Errors, &overlapped).unwrap();
    overlapped
}

/// Takes all results that are there. Returns the numbers of those of Receives, and of others.
fn take_all(cq: &Arc<dyn CompletionQueue>) -> [usize; 2] {
    let mut counts = [0; 2];
    let mut results = [CompletionResult::default(); 16];
    loop {
        let taken = cq.get_results(&mut results);
        if taken == 0 {
            return counts;
        }
        for result in &results[..taken] {
            counts[usize::from(result.request_type != RequestType::Receive)] += 1;
        }
    }
}

/// After the end of a connection a client may post. It gets a result for each request that is accepted, and no more than there is room for.
fn ends(name: &str, watched: Watched) {
    let Watched {
        side,
        qp,
        connector,
        end,
        _peer,
    } = watched;
    side.cq.resize(u32::try_from(2 * DEPTH).unwrap()).unwrap();
    let broken = breakdown(&side.cq);
    let before = fill(receive(&qp));
    end();
    run(|overlapped| connector.notify_disconnect(overlapped)).unwrap();
    let after = fill(receive(&qp));
    assert!(
        before + after >= DEPTH - 1 && before + after <= DEPTH,
        "{name}"
    );
    fill(send(&qp));
    // Everything is full, and has ended.
    assert_eq!(take_all(&side.cq), [DEPTH; 2], "{name}");
    for _ in 0..3 {
        assert_eq!(fill(receive(&qp)), DEPTH, "{name}");
        assert_eq!(fill(send(&qp)), DEPTH, "{name}");
        // Each result that is taken frees one slot of its kind, and none of the other.
        for _ in 0..2 * DEPTH {
            let result = side.result();
            assert_eq!(result.status, Status::CANCELED, "{name}");
            let freed = match result.request_type {
                RequestType::Receive => [1, 0],
                _ => [0, 1],
            };
            assert_eq!([fill(receive(&qp)), fill(send(&qp))], freed, "{name}");
        }
        assert_eq!(take_all(&side.cq), [DEPTH; 2], "{name}");
    }
    assert_eq!(broken.poll(), Status::PENDING, "{name}");
}

#[test]
fn sec_018_a_client_that_takes_no_results_is_refused_after_every_end() {
    for ending in ENDINGS {
        let name = format!("{ending:?}");
        ends(&name, watched(ending));
    }
}

/// The peer says nothing and ends nothing, until it is gone.
#[test]
fn sec_018_a_client_with_a_silent_peer_is_refused() {
    let (side, qp, connector, peer) = silent();
    side.cq.resize(u32::try_from(2 * DEPTH).unwrap()).unwrap();
    let broken = breakdown(&side.cq);
    for _ in 0..3 {
        fill(receive(&qp));
        fill(send(&qp));
    }
    peer.reset();
    run(|overlapped| connector.notify_disconnect(overlapped)).unwrap();
    fill(receive(&qp));
    fill(send(&qp));
    assert_eq!(take_all(&side.cq), [DEPTH; 2]);
    assert_eq!(broken.poll(), Status::PENDING);
}

#[test]
fn sec_018_a_client_that_has_disconnected_is_refused() {
    let pair = pair();
    let (side, qp) = (&pair.active, &pair.active_qp);
    side.cq.resize(u32::try_from(2 * DEPTH).unwrap()).unwrap();
    let broken = breakdown(&side.cq);
    assert_eq!(fill(receive(qp)), DEPTH);
    assert_eq!(fill(send(qp)), DEPTH);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(fill(receive(qp)), 0);
    assert_eq!(status(qp.send(1, &[], NONE)), Status::CONNECTION_INVALID);
    assert_eq!(take_all(&side.cq), [DEPTH; 2]);
    assert_eq!(fill(receive(qp)), DEPTH);
    assert_eq!(take_all(&side.cq), [DEPTH, 0]);
    assert_eq!(broken.poll(), Status::PENDING);
}

#[test]
fn sec_018_a_client_that_was_never_connected_is_refused() {
    let side = Side::new();
    side.cq.resize(u32::try_from(DEPTH).unwrap()).unwrap();
    let broken = breakdown(&side.cq);
    let qp = side.queue_pair();
    for _ in 0..3 {
        assert_eq!(fill(receive(&qp)), DEPTH);
        qp.flush().unwrap();
        assert_eq!(fill(receive(&qp)), 0);
        assert_eq!(side.result().status, Status::CANCELED);
        assert_eq!(fill(receive(&qp)), 1);
        qp.flush().unwrap();
        assert_eq!(take_all(&side.cq), [DEPTH, 0]);
    }
    assert_eq!(broken.poll(), Status::PENDING);
}

/// Neither side takes a result for a while: the data moves, and no more requests are accepted than the queues have slots.
#[test]
fn sec_018_two_clients_that_take_no_results_are_refused_while_they_are_connected() {
    let pair = pair();
    let cqs = [&pair.active.cq, &pair.passive.cq];
    for cq in cqs {
        cq.resize(u32::try_from(2 * DEPTH).unwrap()).unwrap();
    }
    let broken = cqs.map(breakdown);
    for qp in [&pair.active_qp, &pair.passive_qp] {
        assert_eq!(fill(receive(qp)), DEPTH);
    }
    for qp in [&pair.active_qp, &pair.passive_qp] {
        assert_eq!(fill(send(qp)), DEPTH);
    }
    for (side, qp) in [
        (&pair.active, &pair.active_qp),
        (&pair.passive, &pair.passive_qp),
    ] {
        for _ in 0..2 * DEPTH {
            let result = side.result();
            assert_eq!(result.status, Status::SUCCESS);
            // Only of the kind whose result was taken, and only one.
            if result.request_type == RequestType::Receive {
                assert_eq!([fill(receive(qp)), fill(send(qp))], [1, 0]);
            } else {
                assert_eq!([fill(receive(qp)), fill(send(qp))], [0, 1]);
            }
        }
    }
    assert_eq!(broken.map(|broken| broken.poll()), [Status::PENDING; 2]);
}

/// Each kind of request holds its slot. Silent ones that succeed give theirs back by themselves.
#[test]
fn qp_073_requests_of_every_kind_hold_their_slots_and_silent_ones_do_not() {
    let pair = pair();
    let qp = &pair.active_qp;
    let own = pair.active.region(64, ALL);
    let target = pair.passive.region(64, ALL);
    let window = pair.active.adapter.create_memory_window().unwrap();
    let (address, allow) = (own.buffer.address(), OpFlags::ALLOW_READ);
    let remote = target.remote(0);
    let kinds: [&dyn Fn(u64, OpFlags) -> Result<()>; 4] = [
        &|context, flags| qp.write_inline(context, &[b"12"], remote, flags),
        &|context, flags| qp.read(context, &[own.sge(0, 8)], remote, flags),
        &|context, flags| qp.bind(context, &own.region, &window, address, 64, allow | flags),
        &|context, flags| qp.invalidate(context, &window, flags),
    ];
    let silent = OpFlags::SILENT_SUCCESS;
    for post in kinds {
        // A window is bound once, so the other kinds of requests fill the rest.
        post(0, NONE).unwrap();
        let rest = |context| qp.write_inline(context, &[b"3"], remote, NONE);
        assert_eq!(fill(rest), DEPTH - 1);
        for _ in 0..DEPTH {
            assert_eq!(pair.active.result().status, Status::SUCCESS);
            assert_eq!(fill(rest), 1);
        }
        assert_eq!(pair.active.results(DEPTH).len(), DEPTH);
    }
    kinds[2](0, NONE).unwrap();
    for context in 0..4 * DEPTH as u64 {
        // Only a completion that was taken says that those before it are done.
        for _ in 0..DEPTH / 2 {
            kinds[0](context, silent).unwrap();
        }
        kinds[1](context, NONE).unwrap();
        let results = pair.active.results(if context == 0 { 2 } else { 1 });
        assert_eq!(results.last().unwrap().request_context, context);
    }
}

/// The results of a shared queue's Receives are in the completion queues of the queue pairs that have used them.
#[test]
fn srq_029_shared_receives_hold_their_slots_whichever_queue_pair_uses_them() {
    let server = Side::new();
    let options = SharedReceiveQueueOptions::default().queue_depth(8);
    let adapter = &server.adapter;
    let srq = adapter.create_shared_receive_queue(&server.file, options);
    let srq = srq.unwrap();
    let receive = |context| srq.receive(context, &[]);
    let (listener, address) = server.listener(0);
    let ends = [(); 2].map(|()| {
        let cq = adapter.create_completion_queue(&server.file, 8, Affinity::default());
        let side = Side {
            cq: cq.unwrap(),
            ..server.clone()
        };
        let options = QueuePairOptions::default().initiator_queue_depth(1);
        let theirs = adapter.create_queue_pair_with_srq(&side.cq, &server.cq, &srq, options);
        let theirs = theirs.unwrap();
        let client = Side::new();
        let (qp, active, passive) = (client.queue_pair(), client.connector(), server.connector());
        let [arrives, connects, accepts] = [(); 3].map(|()| Overlapped::new());
        let arrival = listener.get_connection_request(&passive, &arrives);
        let connecting = active.connect(&qp, address, 1, 1, &[], &connects);
        end(arrival, &arrives).unwrap();
        let accepting = passive.accept(&theirs, 1, 1, &[], &accepts);
        end(connecting, &connects).unwrap();
        run(|overlapped| active.complete_connect(overlapped)).unwrap();
        end(accepting, &accepts).unwrap();
        (side, client, qp, theirs, (active, passive))
    });
    let broken = [0, 1].map(|at| breakdown(&ends[at].0.cq));
    assert_eq!(fill(receive), 8);
    for round in 0..20 {
        // Each client uses half of them.
        for (_, client, qp, ..) in &ends {
            (0..4).for_each(|context| qp.send_inline(context, &[], NONE).unwrap());
            assert_eq!(client.results(4).len(), 4);
        }
        assert_eq!(fill(receive), 0, "round {round}");
        for at in [0, 1, 1, 0, 0, 0, 1, 1] {
            assert_eq!(ends[at].0.result().status, Status::SUCCESS);
            assert_eq!(fill(receive), 1, "round {round}");
        }
    }
    // A queue pair ends with a Receive that it has used, whose result still counts.
    let [(first, client, qp, theirs, connectors), other] = ends;
    qp.send_inline(1, &[], NONE).unwrap();
    assert_eq!(client.result().status, Status::SUCCESS);
    run(|overlapped| connectors.1.disconnect(overlapped)).unwrap();
    drop((theirs, connectors));
    let used = first.cq.get_results(&mut [CompletionResult::default(); 8]);
    assert_eq!(fill(receive), used);
    assert_eq!(broken.map(|broken| broken.poll()), [Status::PENDING; 2]);
    drop(other);
}
