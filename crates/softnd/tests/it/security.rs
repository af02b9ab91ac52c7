//! The requirements of RFC 5042 for a provider, between peers that do not trust each other (docs/use/security.md).

use crate::common::*;
use netdirect::{
    Affinity, CompletionResult, NotifyType, OpFlags, Overlapped, QueuePairOptions, RequestType,
    SharedReceiveQueueOptions, Status,
};

const NONE: OpFlags = OpFlags::empty();

/// Two connections of one server: each has a different side as client, and the server's region is open to both.
fn two_clients(server: &Side, limit: u32) -> [Pair; 2] {
    let listener = server.listener(0);
    [(); 2].map(|()| {
        let client = Side::new();
        let queue_pair = client.queue_pair();
        connect_through(client, server.clone(), queue_pair, limit, listener.clone())
    })
}

/// SEC-012, SEC-013: each connection has a separate queue of Read Requests. A peer that has as many Reads outstanding as it may, and more
/// that wait, takes no place from another peer.
#[test]
fn sec_012_sec_013_a_peer_with_many_reads_takes_no_place_from_others() {
    const LONG_READ: usize = 64 * 1024;
    let server = Side::new();
    let [greedy, modest] = two_clients(&server, 2);
    let source = server.region(LONG_READ, ALL);
    source.buffer.write(0, b"for everybody");
    let sink = greedy.active.region(LONG_READ, ALL);
    for context in 0..16 {
        let sges = [sink.sge(0, LONG_READ)];
        let qp = &greedy.active_qp;
        qp.read(context, &sges, source.remote(0), NONE).unwrap();
    }
    let own = modest.active.region(16, ALL);
    let qp = &modest.active_qp;
    qp.read(77, &[own.sge(0, 13)], source.remote(0), NONE)
        .unwrap();
    assert_eq!(modest.active.result().status, Status::SUCCESS);
    assert_eq!(own.buffer.to_vec()[..13], *b"for everybody");
    let ended = greedy.active.results(16);
    let ended = ended
        .iter()
        .map(|result| (result.request_context, result.status));
    assert!(ended.eq((0..16).map(|context| (context, Status::SUCCESS))));
}

/// SEC-014: each result of a shared receive queue names its queue pair, so that an application sees which peer uses more than its share,
/// and can end that connection alone.
#[test]
fn sec_014_results_of_a_shared_receive_queue_name_who_took_the_receive() {
    let server = Side::new();
    let options = SharedReceiveQueueOptions::default().queue_depth(16);
    let srq = server
        .adapter
        .create_shared_receive_queue(&server.file, options);
    let srq = srq.unwrap();
    let memory = server.region(16 * 16, ALL);
    for context in 0..10 {
        let at = usize::try_from(context).unwrap() * 16;
        srq.receive(context, &[memory.sge(at, 16)]).unwrap();
    }
    let (listener, address) = server.listener(0);
    let clients = [1, 2].map(|name| {
        let client = Side::new();
        let options = QueuePairOptions::default()
            .context(name)
            .initiator_queue_depth(4);
        let theirs = server
            .adapter
            .create_queue_pair_with_srq(&server.cq, &server.cq, &srq, options);
        let theirs = theirs.unwrap();
        let (qp, active, passive) = (client.queue_pair(), client.connector(), server.connector());
        let [arrives, connects, accepts] = [(); 3].map(|()| Overlapped::new());
        let arrival = listener.get_connection_request(&passive, &arrives);
        let connecting = active.connect(&qp, address, 1, 1, &[], &connects);
        end(arrival, &arrives).unwrap();
        let accepting = passive.accept(&theirs, 1, 1, &[], &accepts);
        end(connecting, &connects).unwrap();
        run(|overlapped| active.complete_connect(overlapped)).unwrap();
        end(accepting, &accepts).unwrap();
        (client, qp, theirs, active, passive)
    });
    for number in 0..9 {
        let (_, qp, ..) = &clients[usize::from(number == 4)];
        qp.send_inline(number, &[b"a message"], NONE).unwrap();
    }
    let mut taken = [0, 0];
    for result in server.results(9) {
        assert_eq!(result.status, Status::SUCCESS);
        taken[usize::try_from(result.queue_pair_context).unwrap() - 1] += 1;
    }
    assert_eq!(taken, [8, 1]);
    // The connection that took most is ended; the other one continues.
    run(|overlapped| clients[0].4.disconnect(overlapped)).unwrap();
    clients[1]
        .1
        .send_inline(10, &[b"still here"], NONE)
        .unwrap();
    loop {
        let result = server.result();
        if result.request_type == RequestType::Receive && result.status == Status::SUCCESS {
            assert_eq!(result.queue_pair_context, 2);
            break;
        }
    }
}

/// SEC-018: a completion queue as deep as all queues whose requests complete in it never overflows, even if no result is taken before all
/// have ended.
#[test]
fn sec_018_a_completion_queue_as_deep_as_all_requests_does_not_overflow() {
    let side = Side::new();
    let cq = side
        .adapter
        .create_completion_queue(&side.file, 12, Affinity::default())
        .unwrap();
    let errors = Overlapped::new();
    let _ = cq.notify(NotifyType::Errors, &errors).unwrap();
    let queue_pairs = [(); 3].map(|()| {
        let options = QueuePairOptions::default()
            .receive_queue_depth(4)
            .initiator_queue_depth(4);
        side.adapter.create_queue_pair(&cq, &cq, options).unwrap()
    });
    for (number, qp) in (0..).zip(&queue_pairs) {
        for context in 0..4 {
            qp.receive(4 * number + context, &[]).unwrap();
        }
        qp.flush().unwrap();
    }
    let mut results = [CompletionResult::default(); 16];
    assert_eq!(cq.get_results(&mut results), 12);
    let contexts = results[..12].iter().map(|result| result.request_context);
    assert!(contexts.eq(0..12));
    assert!(
        results[..12]
            .iter()
            .all(|result| result.status == Status::CANCELED)
    );
    cq.resize(16).unwrap();
    assert_eq!(errors.poll(), Status::PENDING);
}
