//! Shared receive queues.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, ALL, LONG, Region, SIMULATED, Side, end, run, status, wait};
use netdirect::{
    CompletionResult, Connector, Fault, Listener, OpFlags, Overlapped, QueuePair, QueuePairOptions,
    RequestType, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};
use softnd::{Options, Profile};

const NONE: OpFlags = OpFlags::empty();

fn sizes(depth: u32) -> SharedReceiveQueueOptions {
    SharedReceiveQueueOptions::default().queue_depth(depth)
}

fn create(
    side: &Side,
    options: SharedReceiveQueueOptions,
) -> netdirect::Result<Arc<dyn SharedReceiveQueue>> {
    side.adapter
        .create_shared_receive_queue(&side.file, options)
}

fn queue_pair(side: &Side, srq: &Arc<dyn SharedReceiveQueue>, context: u64) -> Arc<dyn QueuePair> {
    let options = QueuePairOptions::default()
        .initiator_queue_depth(32)
        .context(context);
    let qp = side
        .adapter
        .create_queue_pair_with_srq(&side.cq, &side.cq, srq, options);
    qp.unwrap()
}

/// A server whose queue pairs share their Receives, and its clients. The context of a server's queue pair is its number.
struct Shared {
    server: Side,
    srq: Arc<dyn SharedReceiveQueue>,
    clients: Side,
    /// The two ends of each connection: of the clients, and of the server.
    queue_pairs: Vec<[Arc<dyn QueuePair>; 2]>,
    connectors: Vec<[Arc<dyn Connector>; 2]>,
    _listener: Arc<dyn Listener>,
    target: Region,
}

impl Shared {
    fn new(connections: u64, depth: u32) -> Self {
        Self::with(Options::default(), connections, sizes(depth))
    }

    fn with(options: Options, connections: u64, sizes: SharedReceiveQueueOptions) -> Self {
        Self::between([Side::with(options), Side::new()], connections, sizes)
    }

    fn between(
        [server, clients]: [Side; 2],
        connections: u64,
        sizes: SharedReceiveQueueOptions,
    ) -> Self {
        let srq = create(&server, sizes).unwrap();
        let (listener, address) = server.listener(0);
        let (mut queue_pairs, mut connectors) = (Vec::new(), Vec::new());
        for number in 0..connections {
            let both = [clients.queue_pair(), queue_pair(&server, &srq, number)];
            let (active, passive) = (clients.connector(), server.connector());
            let [arrives, connects, accepts] = [(); 3].map(|()| Overlapped::new());
            let arrival = listener.get_connection_request(&passive, &arrives);
            let connecting = active.connect(&both[0], address, 4, 4, &[], &connects);
            end(arrival, &arrives).unwrap();
            let accepting = passive.accept(&both[1], 4, 4, &[], &accepts);
            end(connecting, &connects).unwrap();
            run(|overlapped| active.complete_connect(overlapped)).unwrap();
            end(accepting, &accepts).unwrap();
            queue_pairs.push(both);
            connectors.push([active, passive]);
        }
        Self {
            target: server.region(4096, ALL),
            server,
            srq,
            clients,
            queue_pairs,
            connectors,
            _listener: listener,
        }
    }

    /// Posts a Receive of 16 octets, whose memory no other Receive of the test names.
    fn post(&self, context: u64) {
        let at = usize::try_from(context).unwrap() % 256 * 16;
        let sge = self.target.sge(at, 16);
        self.srq.receive(context, &[sge]).unwrap();
    }

    fn send(&self, client: usize, data: &[u8]) {
        let qp = &self.queue_pairs[client][0];
        qp.send_inline(client as u64, &[data], NONE).unwrap();
    }

    /// The next result of the server: its context, its queue pair, its status and its octets.
    fn received(&self) -> (u64, u64, Status, u32) {
        let result = self.server.result();
        assert_eq!(result.request_type, RequestType::Receive);
        (
            result.request_context,
            result.queue_pair_context,
            result.status,
            result.bytes_transferred,
        )
    }

    /// Waits until everything that can happen without a further call has happened, as far as a test can see that on a real network: each
    /// client has a Read answered, which the server's adapter does by itself.
    fn settle(&self, clients: &[usize]) {
        let sink = self.clients.region(16, ALL);
        for client in clients {
            let qp = &self.queue_pairs[*client][0];
            qp.read(77, &[sink.sge(0, 8)], self.target.remote(0), NONE)
                .unwrap();
            while self.clients.result().request_context != 77 {}
        }
    }
}

#[test]
fn adpt_041_adpt_044_adpt_045_info_016_sizes_up_to_the_limits() {
    let side = Side::new();
    let info = side.adapter.query().unwrap();
    let most = info.max_shared_receive_queue_depth;
    assert!(most >= 4096, "{most} Receives");
    let create_with = |depth, sges| create(&side, sizes(depth).max_request_sge(sges));
    assert_eq!(
        status(create_with(most, info.max_receive_sge)),
        Status::SUCCESS
    );
    assert_eq!(status(create_with(1, 0)), Status::SUCCESS);
    assert_eq!(
        status(create_with(most + 1, 1)),
        Status::INVALID_PARAMETER_3
    );
    assert_eq!(status(create_with(0, 1)), Status::INVALID_PARAMETER_3);
    let above = info.max_receive_sge + 1;
    assert_eq!(status(create_with(16, above)), Status::INVALID_PARAMETER_4);
    let foreign = Side::new();
    let file = &foreign.file;
    let refused = side.adapter.create_shared_receive_queue(file, sizes(16));
    assert_eq!(status(refused), Status::INVALID_HANDLE); // ADPT-086
}

#[test]
fn srq_001_adpt_066_an_adapter_may_have_no_shared_receive_queues() {
    let options = Options::default().limits(|limits| limits.shared_receive_queue_depth = 0);
    let (without, with) = (Side::with(options), Side::new());
    let info = without.adapter.query().unwrap();
    assert_eq!(info.max_shared_receive_queue_depth, 0);
    assert_eq!(status(create(&without, sizes(1))), Status::NOT_SUPPORTED);
    let srq = create(&with, sizes(1)).unwrap();
    let options = QueuePairOptions::default();
    let (adapter, cq) = (&without.adapter, &without.cq);
    let refused = adapter.create_queue_pair_with_srq(cq, cq, &srq, options);
    assert_eq!(status(refused), Status::NOT_SUPPORTED);
}

#[test]
fn adpt_067_to_adpt_072_each_bad_argument_has_its_status() {
    let (side, other) = (Side::new(), Side::new());
    let info = side.adapter.query().unwrap();
    let (srq, foreign) = (
        create(&side, sizes(4)).unwrap(),
        create(&other, sizes(4)).unwrap(),
    );
    let with = |receive, initiator, srq, options| {
        let qp = side
            .adapter
            .create_queue_pair_with_srq(receive, initiator, srq, options);
        status(qp)
    };
    let sound = QueuePairOptions::default();
    assert_eq!(with(&side.cq, &side.cq, &srq, sound), Status::SUCCESS);
    assert_eq!(
        with(&other.cq, &side.cq, &srq, sound),
        Status::INVALID_PARAMETER_2
    );
    assert_eq!(
        with(&side.cq, &other.cq, &srq, sound),
        Status::INVALID_PARAMETER_3
    );
    assert_eq!(
        with(&side.cq, &side.cq, &foreign, sound),
        Status::INVALID_PARAMETER_4
    );
    let deep = sound.initiator_queue_depth(info.max_initiator_queue_depth + 1);
    assert_eq!(
        with(&side.cq, &side.cq, &srq, deep),
        Status::INVALID_PARAMETER_6
    );
    let wide = sound.max_initiator_request_sge(info.max_initiator_sge + 1);
    assert_eq!(
        with(&side.cq, &side.cq, &srq, wide),
        Status::INVALID_PARAMETER_7
    );
    let long = sound.inline_data_size(info.max_inline_data_size + 1);
    assert_eq!(
        with(&side.cq, &side.cq, &srq, long),
        Status::INVALID_PARAMETER_8
    );
    // The sizes of the queue pair's own receive queue are ignored, because the queue pair has none.
    let unused = sound
        .receive_queue_depth(u32::MAX)
        .max_receive_request_sge(u32::MAX);
    assert_eq!(with(&side.cq, &side.cq, &srq, unused), Status::SUCCESS);
}

#[test]
fn srq_028_to_srq_031_receives_are_refused_by_length_count_and_entries() {
    let side = Side::with(Options::default().limits(|limits| limits.transfer_length = 100));
    let srq = create(&side, sizes(2).max_request_sge(2)).unwrap();
    let region = side.region(256, ALL);
    let post = |sges: &[_]| status(srq.receive(0, sges));
    assert_eq!(post(&[region.sge(0, 101)]), Status::BUFFER_OVERFLOW);
    assert_eq!(
        post(&[region.sge(0, 60), region.sge(60, 41)]),
        Status::BUFFER_OVERFLOW
    );
    assert_eq!(
        post(&[region.sge(0, 1), region.sge(1, 1), region.sge(2, 1)]),
        Status::DATA_OVERRUN
    );
    assert_eq!(post(&[]), Status::SUCCESS);
    assert_eq!(
        post(&[region.sge(0, 60), region.sge(60, 40)]),
        Status::SUCCESS
    );
    assert_eq!(post(&[]), Status::NO_MORE_ENTRIES);
}

#[test]
fn qp_032_amb_050_a_queue_pair_of_a_shared_queue_takes_no_receives_of_its_own() {
    let side = Side::new();
    let srq = create(&side, sizes(4)).unwrap();
    let qp = queue_pair(&side, &srq, 0);
    assert_eq!(status(qp.receive(0, &[])), Status::INVALID_DEVICE_REQUEST);
    let own = side.queue_pair();
    assert_eq!(status(own.receive(0, &[])), Status::SUCCESS);
}

#[test]
fn srq_032_to_srq_034_adpt_049_messages_of_all_queue_pairs_use_the_receives_in_order() {
    let side = Side::new();
    let srq = create(&side, sizes(4)).unwrap();
    srq.receive(5, &[]).unwrap(); // before there is a queue pair
    drop((srq, side));
    let shared = Shared::new(3, 8);
    for context in 100..106 {
        shared.post(context);
    }
    for (client, context) in [
        (2_u8, 100),
        (0, 101),
        (1, 102),
        (2, 103),
        (2, 104),
        (0, 105),
    ] {
        shared.send(client.into(), &[client; 5]);
        let expected = (context, client.into(), Status::SUCCESS, 5);
        assert_eq!(shared.received(), expected);
        let at = usize::try_from(context).unwrap() * 16;
        let mut data = [0; 5];
        shared.target.buffer.read(at % 4096, &mut data);
        assert_eq!(data, [client; 5]);
    }
}

#[test]
fn adpt_075_the_results_of_a_queue_pair_keep_their_order_and_its_own_queue() {
    let shared = Shared::new(1, 32);
    (0..20).for_each(|context| shared.post(context));
    for number in 0..20 {
        shared.send(0, &[number; 3]);
    }
    let results = shared.server.results(20);
    let contexts: Vec<u64> = results
        .iter()
        .map(|result| result.request_context)
        .collect();
    assert_eq!(contexts, (0..20).collect::<Vec<_>>());
    let sent = shared.clients.results(20);
    assert!(
        sent.iter()
            .all(|result| result.request_type == RequestType::Send)
    );
}

/// In the strict profile, a Send that finds no Receive of the queue pair's own queue ends the connection at once.
#[test]
fn adpt_076_iw_027_a_send_waits_for_a_shared_receive_and_ends_nothing() {
    for profile in [Profile::Default, Profile::Strict] {
        let options = Options::default().profile(profile);
        let shared = Shared::with(options, 2, sizes(8));
        shared.post(0);
        shared.send(0, b"first");
        shared.send(0, b"second");
        shared.send(1, b"other");
        if SIMULATED {
            common::network().pass(LONG); // far longer than a queue pair of its own waits
        }
        let mut received = vec![shared.received()];
        shared.post(1);
        shared.post(2);
        received.extend([shared.received(), shared.received()]);
        assert!(
            received
                .iter()
                .all(|(_, _, status, _)| *status == Status::SUCCESS),
            "{received:?}"
        );
        received.sort_by_key(|(_, queue_pair, ..)| *queue_pair);
        let octets: Vec<_> = received.iter().map(|(.., octets)| *octets).collect();
        assert_eq!(octets, [5, 6, 5]);
        let sent = shared.clients.results(3);
        assert!(sent.iter().all(|result| result.status == Status::SUCCESS));
    }
}

#[test]
fn srq_027_posts_wake_those_that_wait_and_the_longest_wait_is_first() {
    let shared = Shared::new(4, 8);
    let order = [2, 0, 3, 1];
    for client in order {
        shared.send(client, b"waits");
        if SIMULATED {
            common::network().pass(common::LONG);
        }
    }
    let mut served = Vec::new();
    for context in 0..4 {
        shared.post(context);
        let (drawn, queue_pair, status, _) = shared.received();
        assert_eq!((drawn, status), (context, Status::SUCCESS));
        served.push(usize::try_from(queue_pair).unwrap());
    }
    // Over sockets, messages of different connections may arrive in another order than they were sent.
    if SIMULATED {
        assert_eq!(served, order);
    } else {
        served.sort_unstable();
        assert_eq!(served, [0, 1, 2, 3]);
    }
}

#[test]
fn a_queue_pair_that_waits_holds_up_neither_writes_nor_the_others() {
    let shared = Shared::new(2, 8);
    shared.send(0, b"waits");
    shared.post(0);
    // Either queue pair may get the Receive. The traffic of the other one continues.
    shared.send(1, b"goes on");
    shared.post(1);
    shared.settle(&[0, 1]);
    let mut drawn = [shared.received(), shared.received()];
    drawn.sort_by_key(|(_, queue_pair, ..)| *queue_pair);
    assert_eq!(drawn.map(|(.., octets)| octets), [5, 7]);
}

#[test]
fn srq_036_srq_037_amb_053_a_receive_that_is_too_short_ends_one_connection_alone() {
    let shared = Shared::new(2, 8);
    shared.srq.receive(0, &[shared.target.sge(0, 2)]).unwrap();
    shared.post(1);
    shared.send(0, b"too long");
    let (context, queue_pair, status, _) = shared.received();
    assert_eq!(
        (context, queue_pair, status),
        (0, 0, Status::BUFFER_OVERFLOW)
    );
    // The client's Send has ended with success before the server finds it too long, so the client sees only the end of the connection.
    let connector = &shared.connectors[0][0];
    run(|overlapped| connector.notify_disconnect(overlapped)).unwrap();
    shared.send(1, b"fits");
    assert_eq!(shared.received(), (1, 1, Status::SUCCESS, 4));
    shared.post(2);
    shared.send(1, b"as well");
    assert_eq!(shared.received(), (2, 1, Status::SUCCESS, 7));
}

#[test]
fn srq_039_receives_for_messages_behind_an_error_stay_for_the_others() {
    let shared = Shared::new(2, 8);
    // The server finds all of these messages together, or each separately.
    for data in [&[1; 16][..], &[2; 17], &[3; 16], &[4; 16]] {
        shared.send(0, data);
    }
    (0..6).for_each(|context| shared.post(context));
    assert_eq!(shared.received(), (0, 0, Status::SUCCESS, 16));
    let (context, queue_pair, status, _) = shared.received();
    assert_eq!(
        (context, queue_pair, status),
        (1, 0, Status::BUFFER_OVERFLOW)
    );
    for context in 2..6 {
        shared.send(1, b"fits");
        assert_eq!(shared.received(), (context, 1, Status::SUCCESS, 4));
    }
}

#[test]
fn srq_039_receives_that_nobody_has_drawn_stay_for_the_others() {
    let shared = Shared::new(2, 8);
    shared.post(0);
    shared.post(1);
    let connector = &shared.connectors[0][1];
    run(|overlapped| connector.disconnect(overlapped)).unwrap();
    let mut none = [CompletionResult::default(); 4];
    assert_eq!(shared.server.cq.get_results(&mut none), 0, "{none:?}");
    shared.send(1, b"still");
    assert_eq!(shared.received(), (0, 1, Status::SUCCESS, 5));
}

#[test]
fn a_connection_that_ends_while_it_waits_takes_no_receive_with_it() {
    let shared = Shared::new(2, 8);
    shared.send(0, b"waits");
    if SIMULATED {
        common::network().pass(common::LONG);
    }
    let connector = &shared.connectors[0][1];
    run(|overlapped| connector.disconnect(overlapped)).unwrap();
    shared.post(0);
    shared.send(1, b"goes on");
    assert_eq!(shared.received(), (0, 1, Status::SUCCESS, 7));
}

/// A server's connection of which the client sends this many messages. No Receive is posted for them.
fn waiting(server: &str, client: &str, messages: u8) -> (Shared, Overlapped) {
    let options = |plan: &str| {
        let limits = Options::default().timeouts(|limits| {
            limits.disconnect = Some(Duration::from_millis(20));
        });
        limits.faults(plan.parse().unwrap()).unwrap()
    };
    let sides = [server, client].map(|plan| Side::with(options(plan)));
    let shared = Shared::between(sides, 2, sizes(8));
    let notified = Overlapped::new();
    let connector = &shared.connectors[0][1];
    let _ = connector.notify_disconnect(&notified).unwrap();
    for message in 0..messages {
        shared.send(0, &[message; 16]);
    }
    (shared, notified)
}

/// The first connection has ended, and its Sends with it: the Receives that are posted now are for the second one.
fn serves_the_other(shared: &Shared) {
    let mut none = [CompletionResult::default(); 4];
    assert_eq!(shared.server.cq.get_results(&mut none), 0, "{none:?}");
    for context in 0..2 {
        shared.post(context);
        shared.send(1, b"goes on");
        assert_eq!(shared.received(), (context, 1, Status::SUCCESS, 7));
    }
}

/// The octets behind the Send that waits are unread when the reset arrives.
#[test]
fn iw_026_iw_027_a_queue_pair_that_waits_notices_a_reset_of_its_peer() {
    for (messages, reset) in [
        (2, "when 2nd Send sent on connection 1: reset after octet 0"),
        (30, "when 30th Send sent on connection 1: reset"),
    ] {
        let (shared, notified) = waiting("", reset, messages);
        assert_eq!(wait(&notified), Status::SUCCESS, "{reset}");
        serves_the_other(&shared);
        shared.queue_pairs[0][1].send(9, &[], NONE).unwrap();
        assert_eq!(shared.server.result().status, Status::CANCELED);
    }
}

#[test]
fn iw_026_iw_027_a_queue_pair_that_waits_notices_a_reset_by_a_fault_plan_of_its_own() {
    let reset = "when 1st Send received on connection 1: reset";
    let (shared, notified) = waiting(reset, "", 1);
    assert_eq!(wait(&notified), Status::SUCCESS);
    serves_the_other(&shared);
}

/// The stream of such a queue pair is not in the readiness set.
#[test]
fn iw_026_iw_027_a_queue_pair_that_is_polled_and_waits_notices_a_reset_of_its_peer() {
    let reset = "when 202nd Send sent on connection 1: reset";
    let (shared, notified) = waiting("", reset, 0);
    let mut result = [CompletionResult::default()];
    for context in 0..200 {
        shared.post(context);
        shared.send(0, b"polled");
        for side in [&shared.server, &shared.clients] {
            while side.cq.get_results(&mut result) == 0 {
                std::hint::spin_loop();
            }
        }
    }
    shared.send(0, b"waits");
    shared.send(0, b"is not sent");
    let begun = common::now();
    while notified.is_pending() {
        assert_eq!(shared.server.cq.get_results(&mut result), 0, "{result:?}");
        common::idle();
        assert!(common::now() - begun < LONG, "nobody notices");
    }
    assert_eq!(notified.status(), Status::SUCCESS);
    serves_the_other(&shared);
}

/// The peer closes behind its Sends, and resets the stream when this side does not close in time.
#[test]
fn iw_027_iw_065_a_queue_pair_that_waits_notices_a_peer_that_has_waited_for_the_end_for_too_long() {
    let (shared, notified) = waiting("", "", 2);
    shared.clients.results(2);
    let connector = &shared.connectors[0][0];
    run(|overlapped| connector.disconnect(overlapped)).unwrap();
    assert_eq!(wait(&notified), Status::SUCCESS);
    serves_the_other(&shared);
}

#[test]
fn iw_019_iw_027_the_sends_before_an_orderly_end_wait_for_their_receives() {
    let shared = Shared::new(2, 8);
    let [client, server] = &shared.connectors[0];
    let (notified, disconnected) = (Overlapped::new(), Overlapped::new());
    let _ = server.notify_disconnect(&notified).unwrap();
    for message in 0..3 {
        shared.send(0, &[message; 3]);
    }
    shared.clients.results(3);
    let _ = client.disconnect(&disconnected).unwrap();
    if SIMULATED {
        common::network().pass(Duration::from_secs(1));
    } else {
        shared.settle(&[1]);
    }
    assert!(notified.is_pending(), "the Sends have not been received");
    for context in 0..3 {
        shared.post(context);
        assert_eq!(shared.received(), (context, 0, Status::SUCCESS, 3));
    }
    assert_eq!(wait(&notified), Status::SUCCESS);
}

#[test]
fn a_queue_that_its_client_has_released_serves_its_queue_pairs() {
    let mut shared = Shared::new(1, 8);
    shared.post(0);
    let other = create(&shared.server, sizes(1)).unwrap();
    let released = std::mem::replace(&mut shared.srq, other);
    drop(released);
    shared.send(0, b"serves");
    assert_eq!(shared.received(), (0, 0, Status::SUCCESS, 6));
}

#[test]
fn srq_009_to_srq_014_modify_changes_depth_and_threshold() {
    let side = Side::new();
    let srq = create(&side, sizes(2)).unwrap();
    let most = side.adapter.query().unwrap().max_shared_receive_queue_depth;
    srq.receive(0, &[]).unwrap();
    srq.receive(1, &[]).unwrap();
    assert_eq!(status(srq.modify(most + 1, 0)), Status::INVALID_PARAMETER);
    assert_eq!(status(srq.modify(1, 0)), Status::BUFFER_OVERFLOW);
    assert_eq!(
        status(srq.receive(2, &[])),
        Status::NO_MORE_ENTRIES,
        "unchanged"
    );
    srq.modify(0, 0).unwrap(); // SRQ-010
    assert_eq!(status(srq.receive(2, &[])), Status::NO_MORE_ENTRIES);
    srq.modify(3, 0).unwrap();
    assert_eq!(status(srq.receive(2, &[])), Status::SUCCESS);
    assert_eq!(status(srq.receive(3, &[])), Status::NO_MORE_ENTRIES);
    // SRQ-011: Modify with a threshold of 0 does not change the threshold.
    let notified = Overlapped::new();
    assert_eq!(srq.notify(&notified).unwrap(), Started::Pending);
    assert!(notified.is_pending());
    srq.modify(0, 4).unwrap();
    assert_eq!(wait(&notified), Status::SUCCESS);
    srq.modify(4, 0).unwrap();
    assert_eq!(run(|overlapped| srq.notify(overlapped)), Ok(()));
}

#[test]
fn srq_023_to_srq_026_amb_052_iw_028_notify_ends_below_the_threshold() {
    let shared = Shared::with(Options::default(), 1, sizes(8).notify_threshold(2));
    // SRQ-026: the number of Receives is below the threshold when Notify is called.
    assert_eq!(run(|overlapped| shared.srq.notify(overlapped)), Ok(()));
    (0..3).for_each(|context| shared.post(context));
    let [one, two] = [(); 2].map(|()| Overlapped::new());
    for overlapped in [&one, &two] {
        assert_eq!(shared.srq.notify(overlapped).unwrap(), Started::Pending);
    }
    shared.send(0, b"two left");
    shared.received();
    assert!(
        one.is_pending() && two.is_pending(),
        "two are not fewer than two"
    );
    shared.send(0, b"one left");
    assert_eq!((wait(&one), wait(&two)), (Status::SUCCESS, Status::SUCCESS)); // SRQ-024
    shared.received();
}

#[test]
fn adpt_047_srq_020_a_threshold_of_zero_never_notifies_and_a_cancel_ends_the_request() {
    let shared = Shared::new(1, 8);
    let notified = Overlapped::new();
    let _ = shared.srq.notify(&notified).unwrap();
    shared.post(0);
    shared.send(0, b"none left");
    shared.received();
    assert!(notified.is_pending());
    shared.srq.cancel_overlapped_requests().unwrap();
    assert_eq!(wait(&notified), Status::CANCELED);
    let released = Overlapped::new();
    let srq = create(&shared.server, sizes(1)).unwrap();
    let _ = srq.notify(&released).unwrap();
    drop(srq);
    assert_eq!(wait(&released), Status::CANCELED);
}

#[test]
fn srq_006_srq_015_srq_022_adpt_046_adpt_074_a_removed_device_ends_requests_and_fails_calls() {
    let shared = Shared::new(1, 8);
    let (side, srq) = (&shared.server, &shared.srq);
    let notified = Overlapped::new();
    let _ = srq.notify(&notified).unwrap();
    let extensions = side.adapter.extensions().unwrap();
    extensions.inject(Fault::RemoveDevice).unwrap();
    assert_eq!(wait(&notified), Status::DEVICE_REMOVED);
    let removed = Status::DEVICE_REMOVED;
    assert_eq!(run(|overlapped| srq.notify(overlapped)), Err(removed));
    assert_eq!(status(srq.modify(2, 0)), removed);
    assert_eq!(status(srq.receive(0, &[])), removed);
    assert_eq!(status(srq.get_notify_affinity()), removed);
    assert_eq!(status(create(side, sizes(1))), removed);
    let options = QueuePairOptions::default();
    let qp = side
        .adapter
        .create_queue_pair_with_srq(&side.cq, &side.cq, srq, options);
    assert_eq!(status(qp), removed);
}

#[test]
fn srq_002_srq_003_the_affinity_is_that_of_completion_queues() {
    let side = Side::new();
    let srq = create(&side, sizes(1)).unwrap();
    let (of_cq, of_srq) = (side.cq.get_notify_affinity(), srq.get_notify_affinity());
    assert_eq!(
        of_cq.map_err(|error| error.status()),
        of_srq.map_err(|error| error.status())
    );
}

fn break_down(side: &Side, queue: &Arc<dyn SharedReceiveQueue>, with: Status) -> Status {
    let fault = Fault::BreakSharedReceiveQueue {
        queue: Arc::clone(queue),
        status: with,
    };
    status(side.adapter.extensions().unwrap().inject(fault))
}

#[test]
fn srq_019_amb_051_a_broken_queue_ends_its_requests_and_its_queue_pairs() {
    let shared = Shared::new(2, 8);
    let (side, srq) = (&shared.server, &shared.srq);
    let pending = [(); 2].map(|()| Overlapped::new());
    for overlapped in &pending {
        assert_eq!(srq.notify(overlapped).unwrap(), Started::Pending);
    }
    let fresh = queue_pair(side, srq, 7);
    shared.post(0);
    let ends = [(); 2].map(|()| Overlapped::new());
    for (connectors, overlapped) in shared.connectors.iter().zip(&ends) {
        let _ = connectors[0].notify_disconnect(overlapped).unwrap();
    }
    let broken = break_down(side, srq, Status::INTERNAL_ERROR);
    assert_eq!(broken, Status::SUCCESS);
    let statuses = pending.each_ref().map(Overlapped::status);
    assert_eq!(statuses, [Status::INTERNAL_ERROR; 2]);
    // The peers see the end of the connections.
    for overlapped in &ends {
        assert_eq!(overlapped.wait_timeout(LONG), Some(Status::SUCCESS));
    }
    // The completion queue still works, and has no result of the Receive that was posted.
    let mut none = [CompletionResult::default(); 4];
    assert_eq!(side.cq.get_results(&mut none), 0, "{none:?}");
    for [_, qp] in &shared.queue_pairs {
        qp.send(9, &[], NONE).unwrap();
        assert_eq!(side.result().status, Status::CANCELED);
    }
    let (connector, (_listener, address)) = (side.connector(), side.listener(0));
    let connecting = connector.connect(&fresh, address, 1, 1, &[], &Overlapped::new());
    assert_eq!(status(connecting), Status::INVALID_DEVICE_STATE);
    // The queue stays broken, as a broken completion queue does.
    let later = run(|overlapped| srq.notify(overlapped));
    assert_eq!(later, Err(Status::INTERNAL_ERROR));
    assert_eq!(status(srq.modify(4, 0)), Status::INVALID_DEVICE_STATE);
    let options = QueuePairOptions::default();
    let (adapter, cq) = (&side.adapter, &side.cq);
    let refused = adapter.create_queue_pair_with_srq(cq, cq, srq, options);
    assert_eq!(status(refused), Status::INVALID_PARAMETER_4);
    // Queue pairs without it, and other shared receive queues, continue to work.
    let other = create(side, sizes(1)).unwrap();
    queue_pair(side, &other, 8);
    let faults = adapter.extensions().unwrap().counters().total("faults");
    assert_eq!(faults, 1);
}

#[test]
fn srq_019_a_breakdown_that_cannot_be_is_refused() {
    let (side, stranger) = (Side::new(), Side::new());
    let foreign = create(&stranger, sizes(1)).unwrap();
    let refused = break_down(&side, &foreign, Status::INTERNAL_ERROR);
    assert_eq!(refused, Status::INVALID_PARAMETER_1);
    let srq = create(&side, sizes(1)).unwrap();
    let no_error = break_down(&side, &srq, Status::SUCCESS);
    assert_eq!(no_error, Status::INVALID_PARAMETER);
    let notified = Overlapped::new();
    let _ = srq.notify(&notified).unwrap();
    assert!(notified.is_pending(), "the queue is sound");
    let extensions = side.adapter.extensions().unwrap();
    extensions.inject(Fault::RemoveDevice).unwrap();
    let removed = break_down(&side, &srq, Status::INTERNAL_ERROR);
    assert_eq!(removed, Status::DEVICE_REMOVED);
}
