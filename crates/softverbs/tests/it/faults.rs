//! Fault plans of a process, and connections over UDP in a simulated network.

use std::sync::Mutex;

use softverbs::faults::{Plan, check};
use softverbs::security::Security;
use softverbs::{
    AsyncEventKind, CmEventKind, CompletionChannel, Errno, Process, ProcessOptions, QpState,
    SendOperation, WcStatus, WorkCompletion,
};

use crate::common::{Host, Pair, errno, parameters};

/// Sentences of the plans in these tests.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn options(plan: &str) -> ProcessOptions {
    let plan: Plan = plan.parse().unwrap();
    check(&plan, false).unwrap();
    let mut options = ProcessOptions::default();
    options.faults = Some(plan);
    options.on_fault = Some(|sentence| TOLD.lock().unwrap().push(sentence.to_owned()));
    options
}

/// A pair whose client follows the plan.
fn pair(seed: u64, plan: &str) -> Pair {
    Pair::simulated_with(seed, options(plan), ProcessOptions::default())
}

#[test]
fn a_plan_refuses_connections_of_this_side_and_says_so() {
    let pair = pair(31, "when 1st connect: refuse");
    let (listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    client.connect(&parameters(b"")).unwrap();
    let event = pair.client.event(CmEventKind::Rejected);
    assert_eq!(event.status(), 8);
    let cause = event.cause().unwrap().to_string();
    assert!(
        cause.ends_with(": a fault plan refuses the connection"),
        "{cause}"
    );
    event.acknowledge();
    let sentence = format!(
        "line 1 of the fault plan happens to the connection with {address}: when 1st connect: refuse"
    );
    assert!(TOLD.lock().unwrap().contains(&sentence));
    for id in [client, listener] {
        id.destroy().unwrap();
    }
    // The next one is made.
    drop(pair.connect());
}

#[test]
fn a_plan_resets_a_connection_behind_a_message() {
    let pair = pair(32, "when 2nd Send sent: reset");
    let (client, server) = pair.connect();
    for number in 0..2 {
        server
            .qp
            .post_receive(number, &[server.sge(0, 100)])
            .unwrap();
        client.post(number, SendOperation::Send, &[client.sge(0, 100)]);
    }
    pair.client.expect(CmEventKind::Disconnected);
    pair.server.expect(CmEventKind::Disconnected);
    // The client's second Send was under way, so it has failed. The server had nothing to send.
    let states = [client.qp.state(), server.qp.state()];
    assert_eq!(states, [QpState::Err, QpState::Rts]);
}

#[test]
fn a_plan_breaks_a_completion_queue() {
    let pair = pair(33, "when 2nd completion: break queue with IBV_EVENT_CQ_ERR");
    let (client, server) = pair.connect();
    client.cq.tag().set(77);
    for number in 0..2 {
        server
            .qp
            .post_receive(number, &[server.sge(0, 100)])
            .unwrap();
        client.post(number, SendOperation::Send, &[client.sge(0, 100)]);
    }
    assert_eq!(client.statuses(1), [(0, WcStatus::Success)]);
    let event = pair.client.context.get_async_event().unwrap();
    assert_eq!(
        (event.kind(), event.tag()),
        (AsyncEventKind::CompletionQueueError, Some(77))
    );
    event.acknowledge();
    assert!(client.cq.is_broken());
    assert_eq!(client.qp.state(), QpState::Err);
    pair.server.expect(CmEventKind::Disconnected);
}

#[test]
fn a_plan_removes_the_devices() {
    let pair = pair(34, "when 1st Send sent: remove device");
    let (client, server) = pair.connect();
    server.qp.post_receive(0, &[server.sge(0, 100)]).unwrap();
    client.post(0, SendOperation::Send, &[client.sge(0, 100)]);
    // A thread that polls lets the removal happen.
    let mut none = [WorkCompletion::default(); 8];
    while !pair.client.context.has_event() {
        client.cq.poll(&mut none);
    }
    let channel = CompletionChannel::create(&pair.client.context);
    assert_eq!(errno(channel), Errno::IO);
    pair.server.expect(CmEventKind::Disconnected);
}

#[test]
fn completions_that_a_plan_holds_come_in_order_and_end_with_their_queue_pair() {
    let pair = pair(
        35,
        "when 1st completion: hold for 5 ms; when 3rd completion: hold",
    );
    let (client, server) = pair.connect();
    for number in 0..4 {
        server
            .qp
            .post_receive(number, &[server.sge(0, 100)])
            .unwrap();
        client.post(number, SendOperation::Send, &[client.sge(0, 100)]);
    }
    let successes = [0, 1].map(|number| (number, WcStatus::Success));
    assert_eq!(client.statuses(2), successes);
    assert_eq!(server.statuses(4).len(), 4);
    let mut none = [WorkCompletion::default(); 8];
    assert_eq!(client.cq.poll(&mut none), 0);
    client.qp.destroy().unwrap();
    assert_eq!(
        client.cq.poll(&mut none),
        0,
        "they vanish with their queue pair"
    );
}

#[test]
fn rules_that_do_not_apply_are_refused_with_their_place() {
    for (plan, is_over_udp, column, expected) in [
        (
            "when 1st Register called: fail with ND_NO_MEMORY",
            false,
            10,
            "an event of connections",
        ),
        (
            "when 1st completion: break queue with ND_X",
            false,
            39,
            "`IBV_EVENT_CQ_ERR`",
        ),
        (
            "when 1st datagram sent: drop",
            false,
            10,
            "an event that is not about datagrams",
        ),
    ] {
        let error = check(&plan.parse().unwrap(), is_over_udp).unwrap_err();
        assert_eq!(error.column(), column, "{error}");
        assert!(
            error.problem().starts_with(&format!("expected {expected}")),
            "{error}"
        );
    }
    let plan: Plan = "when 1st datagram sent: drop".parse().unwrap();
    check(&plan, true).unwrap();
}

/// Both hosts over UDP; the client loses every third datagram of the first ones.
#[test]
fn connections_over_udp_repair_what_datagrams_lose() {
    for plan in [
        None,
        Some("when 3rd datagram sent: drop; when 5th datagram received: drop"),
    ] {
        let over_udp = || {
            let mut options = ProcessOptions::default();
            options.udp = Some(Security::default());
            options
        };
        let mut client = over_udp();
        client.faults = plan.map(|plan| plan.parse().unwrap());
        let pair = Pair::simulated_with(36, client, over_udp());
        let (client, server) = pair.connect();
        server.qp.post_receive(7, &[server.sge(0, 4096)]).unwrap();
        client.buffer.write(0, &[9; 4096]);
        client.post(8, SendOperation::Send, &[client.sge(0, 4096)]);
        assert_eq!(client.statuses(1), [(8, WcStatus::Success)]);
        assert_eq!(server.statuses(1), [(7, WcStatus::Success)]);
        let mut octets = [0; 4096];
        server.buffer.read(0, &mut octets);
        assert_eq!(octets, [9; 4096]);
        client.id.disconnect().unwrap();
        pair.server.expect(CmEventKind::Disconnected);
    }
}

/// A listener at all addresses has a socket for each.
#[test]
fn a_listener_over_udp_is_at_all_addresses_and_not_over_tcp() {
    let over_udp = |is_udp: bool| {
        let mut options = ProcessOptions::default();
        options.udp = is_udp.then(Security::default);
        Host::new(Process::of_system(options).unwrap())
    };
    let [server, client, over_tcp] = [true, true, false].map(over_udp);
    let listener = softverbs::CmId::create(&server.channel).unwrap();
    listener.bind(([0, 0, 0, 0], 0).into()).unwrap();
    listener.listen(1).unwrap();
    let port = listener.local().unwrap().port();
    for address in [server.address, [127, 0, 0, 1].into()] {
        let id = client.resolved((address, port).into());
        id.connect(&parameters(b"")).unwrap();
        let (request, _) = server.request();
        request.reject(b"").unwrap();
        client.event(CmEventKind::Rejected).acknowledge();
        for id in [id, request] {
            id.destroy().unwrap();
        }
    }
    let id = over_tcp.resolved((server.address, port).into());
    id.connect(&parameters(b"")).unwrap();
    let event = over_tcp.event(CmEventKind::Rejected);
    assert_eq!(event.status(), 8, "nobody listens");
    event.acknowledge();
    for id in [id, listener] {
        id.destroy().unwrap();
    }
}
