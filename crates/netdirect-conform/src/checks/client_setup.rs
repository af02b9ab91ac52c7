//! Expectations of existing programs on connections.

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{
    CompletionPort, MrFlags, NotifyType, OpFlags, Overlapped, QueuePairOptions, ReadLimits,
    RemoteAddress, RequestType, Result, Started, Status,
};

use super::common::{exchange, pattern, shared, sink, source};
use super::setup::{LIMITS, Setup, disconnect, ends, notification, quiet};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::LinkOptions;
use crate::need::Need;
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Clients, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "TST-003.pending",
        "makes one request of each kind, each of which is pending even where it has ended",
        all_pending,
    )
    .also(&["AMB-065"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-021.depths",
        "makes a queue pair both of whose queues are as deep as the larger of the two limits",
        |bench| {
            let side = &bench.near;
            let info = side.info;
            let depth = info.max_receive_queue_depth.max(info.max_initiator_queue_depth);
            let options = QueuePairOptions::default()
                .receive_queue_depth(depth)
                .initiator_queue_depth(depth);
            side.queues(2, options)?;
            Ok(Pass::Right)
        },
    )
    .also(&["TST-020", "TST-081"]),
    new_check(
        "TST-024.overlapped",
        "passes one Overlapped to Disconnect and Deregister, waits for neither and releases everything",
        one_overlapped,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-037.busy",
        "connects eight times at once to a listener with room for one",
        busy,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-039.directly",
        "calls NotifyDisconnect directly after Accept; what was taken ends with the connection",
        directly,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-040.early",
        "has the active side send at once: the passive side finds the message and the end of Accept, and answers",
        early_message,
    )
    .also(&["TST-054"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-042.answered",
        "sends, waits for the answer and disconnects: the result of the own Send was there before",
        answered,
    )
    .also(&["IW-062", "TST-064", "TST-104"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-050.crossed",
        "has both sides connect to each other at the same time: one rejects, and the other accepts",
        crossed,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-092.number",
        "posts as many Receives as the adapter allows and tells their number with Accept; the peer sends so many",
        number,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-099.token",
        "has the passive side send the token of a window first, through which the active side reads",
        token_first,
    )
    .needs(&[Need::Connections, Need::Windows, Need::DefaultProfile]),
    new_check(
        "TST-100.reads",
        "accepts with the highest inbound limit: the peer keeps so many Reads in flight",
        highest_limit,
    )
    .also(&["TST-102"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-110.file",
        "releases the overlapped file and the adapter before the objects made with them, which work and are released later",
        early_file,
    )
    .needs(&[Need::Connections]),
    new_check(
        "TST-114.loop",
        "asks in a loop, without waiting, for the ends of Connect, Accept and CompleteConnect",
        in_a_loop,
    )
    .needs(&[Need::Connections]),
    new_check(
        "GEN-005.unasked",
        "connects, exchanges messages and disconnects with a completion port that no request uses: nothing arrives there",
        unasked,
    )
    .needs(&[Need::Connections]),
    new_check(
        "GEN-013.statuses",
        "has calls of many kinds fail: each status is one that ND2 or its tests name",
        known_statuses,
    )
    .also(&["GEN-012"])
    .needs(&[Need::Connections]),
];

fn is_pending(side: &Side, what: &str, started: Result<Started>) -> Step {
    let started = side.started(what, started)?;
    ensure(
        started == Started::Pending,
        format!("{what} to be pending"),
        "that it is done",
    )
}

fn all_pending(bench: &Bench) -> Verdict {
    let (near, far) = (&bench.near, &bench.far);
    let setup = Setup::near_connects(bench)?;
    let arrived = quiet();
    let asked = setup
        .listening
        .listener
        .get_connection_request(&setup.there, &arrived);
    is_pending(far, "GetConnectionRequest", asked)?;
    is_pending(near, "Connect", setup.connect(LIMITS, &[]))?;
    ends(far, "GetConnectionRequest", &arrived, Status::SUCCESS)?;
    is_pending(far, "Accept", setup.accept(LIMITS, &[]))?;
    setup.connect_ends(Status::SUCCESS)?;
    setup.complete()?;
    let notice = quiet();
    is_pending(
        near,
        "NotifyDisconnect",
        setup.here.notify_disconnect(&notice),
    )?;
    let notified = quiet();
    let notify = setup.asking.receives.notify(NotifyType::Any, &notified);
    is_pending(near, "Notify", notify)?;
    let region = near.region()?;
    let buffer = netdirect::Buffer::new(64);
    for _ in 0..2 {
        let request = quiet();
        is_pending(
            near,
            "Register",
            region.register(&buffer, MrFlags::empty(), &request),
        )?;
        ends(near, "Register", &request, Status::SUCCESS)?;
        is_pending(near, "Deregister", region.deregister(&request))?;
        ends(near, "Deregister", &request, Status::SUCCESS)?;
    }
    let ended = quiet();
    is_pending(near, "Disconnect", setup.here.disconnect(&ended))?;
    ends(near, "Disconnect", &ended, Status::SUCCESS)?;
    // The end is there already.
    let late = quiet();
    is_pending(
        near,
        "NotifyDisconnect after the end",
        setup.here.notify_disconnect(&late),
    )?;
    ends(
        near,
        "NotifyDisconnect after the end",
        &late,
        Status::SUCCESS,
    )?;
    Ok(Pass::Right)
}

fn one_overlapped(bench: &Bench) -> Verdict {
    let setup = Setup::whole(&bench.near, &bench.far)?;
    let memory = shared(&bench.near, 4096)?;
    let buffer = memory.buffer.clone();
    let both = quiet();
    bench
        .near
        .step("Disconnect and Deregister with one Overlapped");
    let first = setup.here.disconnect(&both);
    let _ = bench.near.started("Disconnect", first)?;
    // Refused or taken, the call does no harm.
    let _ = memory.region.deregister(&both);
    let notice = notification(&bench.far, &setup.there)?;
    bench.near.step("release everything");
    drop((setup.here, setup.asking, memory));
    ends(
        &bench.far,
        "the peer's NotifyDisconnect",
        &notice,
        Status::SUCCESS,
    )?;
    let mut octets = vec![0; 4096];
    buffer.read(0, &mut octets);
    ensure(octets == pattern(4096), "memory as it was", "other octets")?;
    exchange(&bench.link()?)?;
    Ok(Pass::Right)
}

fn busy(bench: &Bench) -> Verdict {
    let listener = bench.far.listener()?;
    bench.far.expect("Bind", listener.bind(bench.far.address))?;
    bench.far.expect("Listen", listener.listen(1))?;
    let address = bench
        .far
        .expect("GetLocalAddress", listener.get_local_address())?;
    let mut tried = Vec::new();
    for _ in 0..8 {
        let queues = bench.near.queues(8, QueuePairOptions::default())?;
        let (connector, request) = (bench.near.connector()?, quiet());
        let started = connector.connect(&queues.qp, address, 4, 4, &[], &request);
        let _ = bench.near.started("Connect to a busy server", started)?;
        tried.push((queues, connector, request));
    }
    // The one that waits is refused when the listener goes.
    bench.near.step("wait until the surplus ones are refused");
    // Looks without driving: in a simulated network each poll is a step, and eight of them go beyond what the last answer needs.
    let refused = || {
        tried
            .iter()
            .filter(|(_, _, request)| request.status() == Status::CONNECTION_REFUSED)
            .count()
    };
    bench.near.until(|| refused() >= 7)?;
    drop(listener);
    for (_, _, request) in &tried {
        ends(
            &bench.near,
            "Connect to a busy server",
            request,
            Status::CONNECTION_REFUSED,
        )?;
    }
    Ok(Pass::Right)
}

fn directly(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    setup.answer()?;
    let early = quiet();
    bench.near.step("NotifyDisconnect directly after Accept");
    let started = setup.there.notify_disconnect(&early);
    if let Err(error) = &started {
        let wanted = Status::CONNECTION_INVALID;
        bench.near.status(
            "NotifyDisconnect before the end of Accept",
            error.status(),
            wanted,
        )?;
    }
    setup.complete()?;
    let notice = notification(&bench.near, &setup.there)?;
    disconnect(&bench.far, &setup.here)?;
    ends(&bench.near, "NotifyDisconnect", &notice, Status::SUCCESS)?;
    if started.is_ok() {
        let status = bench.near.end_of("the early NotifyDisconnect", &early)?;
        let right = [Status::SUCCESS, Status::CANCELED].contains(&status);
        ensure(right, "ND_SUCCESS or ND_CANCELED", status.to_string())?;
    }
    Ok(Pass::Right)
}

fn early_message(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    let (asking, answering) = (setup.asking_end(), setup.answering_end());
    let (here, there) = (sink(&bench.near, 64)?, sink(&bench.far, 64)?);
    asking.receive(1, &[there.sge(..)])?;
    setup.offer()?;
    answering.receive(2, &[here.sge(..)])?;
    setup.answer_pending()?;
    let completed = quiet();
    let completing = setup.here.complete_connect(&completed);
    bench.far.done("CompleteConnect", completing, &completed)?;
    let data = source(&bench.far, 64)?;
    asking.send(3, &[data.sge(..)], OpFlags::empty())?;
    // Its result may be there before that of Accept.
    answering.takes()?;
    setup.accept_ends(Status::SUCCESS)?;
    let data = source(&bench.near, 64)?;
    answering.send(4, &[data.sge(..)], OpFlags::empty())?;
    answering.succeeds(RequestType::Send)?;
    asking.takes()?;
    bench
        .far
        .equal("the answer", there.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

/// One completion queue for all: the Send's result comes before that of the Receive with the answer.
fn answered(bench: &Bench) -> Verdict {
    let near = bench.near.cq(64)?;
    let qp = bench.near.qp(&near, &near, QueuePairOptions::default())?;
    let queues = crate::link::Queues {
        qp,
        receives: near.clone(),
        initiator: near.clone(),
    };
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let link = bench.join(queues, far, LIMITS)?;
    let (room, other) = (sink(&bench.near, 64)?, sink(&bench.far, 64)?);
    let (data, answer) = (source(&bench.near, 64)?, source(&bench.far, 64)?);
    for round in 0..10 {
        link.near.receive(round, &[room.sge(..)])?;
        link.far.receive(round, &[other.sge(..)])?;
        link.near.send(round, &[data.sge(..)], OpFlags::empty())?;
        link.far.takes()?;
        link.far.send(round, &[answer.sge(..)], OpFlags::empty())?;
        let results = bench.near.successes("a Send and its answer", &near, 2)?;
        let kinds: Vec<_> = results.iter().map(|result| result.request_type).collect();
        let wanted = vec![RequestType::Send, RequestType::Receive];
        bench
            .near
            .equal("the order of the results", kinds, wanted)?;
    }
    link.near.disconnect()?;
    bench.near.no_result("after Disconnect", &near)?;
    Ok(Pass::Right)
}

fn crossed(bench: &Bench) -> Verdict {
    let (one, other) = (Setup::near_connects(bench)?, Setup::near_accepts(bench)?);
    for setup in [&one, &other] {
        let connecting = setup.connect(LIMITS, &[]);
        let _ = setup.active.started("Connect", connecting)?;
    }
    one.arrive()?;
    other.arrive()?;
    bench.near.expect("Reject", other.there.reject(&[]))?;
    other.connect_ends(Status::CONNECTION_REFUSED)?;
    one.answer_pending()?;
    one.complete()?;
    one.works()?;
    Ok(Pass::Right)
}

fn number(bench: &Bench) -> Verdict {
    let mut setup = Setup::near_accepts(bench)?;
    let depth = bench.near.info.max_receive_queue_depth.min(1024);
    let options = QueuePairOptions::default().receive_queue_depth(depth);
    setup.answering = bench.near.queues(depth, options)?;
    let answering = setup.answering_end();
    for context in 0..depth.into() {
        answering.receive(context, &[])?;
    }
    setup.answer_with(LIMITS, &[], LIMITS, &depth.to_be_bytes())?;
    let data = setup.here.get_private_data();
    let data = bench.far.expect("GetPrivateData", data)?;
    bench
        .far
        .equal("the number", data, depth.to_be_bytes().to_vec())?;
    setup.complete()?;
    let asking = setup.asking_end();
    for context in 0..depth.into() {
        asking.send(context, &[], OpFlags::empty())?;
        asking.succeeds(RequestType::Send)?;
    }
    let count = usize::try_from(depth).unwrap_or(usize::MAX);
    bench
        .near
        .successes("all messages", &answering.queues.receives, count)?;
    Ok(Pass::Right)
}

fn token_first(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    let (asking, answering) = (setup.asking_end(), setup.answering_end());
    let announced = sink(&bench.far, RemoteAddress::LEN)?;
    asking.receive(1, &[announced.sge(..)])?;
    setup.answer()?;
    setup.complete()?;
    let memory = source(&bench.near, 64)?;
    let window = bench.near.window()?;
    let (address, length) = (memory.buffer.address(), 64);
    let bound = answering.queues.qp.bind(
        2,
        &memory.region,
        &window,
        address,
        length,
        OpFlags::ALLOW_READ,
    );
    bench.near.expect("Bind of the window", bound)?;
    answering.succeeds(RequestType::Bind)?;
    let token = RemoteAddress {
        address,
        token: window.get_remote_token(),
    };
    let message = source(&bench.near, RemoteAddress::LEN)?;
    message.buffer.write(0, &token.to_bytes());
    answering.send(3, &[message.sge(..)], OpFlags::empty())?;
    asking.takes()?;
    let octets = announced.octets(0, RemoteAddress::LEN);
    let octets = octets
        .try_into()
        .map_err(|_| fail("a token", "another length"))?;
    let room = sink(&bench.far, 64)?;
    asking.read(4, &[room.sge(..)], RemoteAddress::from_bytes(octets))?;
    asking.succeeds(RequestType::Read)?;
    bench
        .far
        .equal("the octets of the window", room.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn highest_limit(bench: &Bench) -> Verdict {
    let most = bench
        .far
        .info
        .max_inbound_read_limit
        .min(bench.near.info.max_outbound_read_limit);
    let options = LinkOptions {
        near: QueuePairOptions::default().initiator_queue_depth(most.max(1)),
        limits: ReadLimits {
            inbound: most,
            outbound: most,
        },
        depth: most.max(64),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let (remote, room) = (shared(&bench.far, 4096)?, sink(&bench.near, 4096)?);
    for context in 0..most.into() {
        link.near.read(context, &[room.sge(..)], remote.remote())?;
    }
    for context in 0..most.into() {
        let read = link.near.succeeds(RequestType::Read)?;
        bench
            .near
            .equal("the context of the Read", read.request_context, context)?;
    }
    bench
        .near
        .equal("the octets read", room.octets(0, 4096), pattern(4096))?;
    Ok(Pass::Right)
}

fn early_file(bench: &Bench) -> Verdict {
    let own = bench.near.open_again()?;
    let (connector, queues) = (
        own.connector()?,
        own.queues(64, QueuePairOptions::default())?,
    );
    let room = sink(&own, 64)?;
    bench.near.step("release the file and the adapter");
    drop(own);
    let mut setup = Setup::near_connects(bench)?;
    (setup.here, setup.asking) = (connector, queues);
    setup.answer()?;
    setup.complete()?;
    let (asking, answering) = (setup.asking_end(), setup.answering_end());
    let (data, other) = (source(&bench.far, 64)?, sink(&bench.far, 64)?);
    answering.receive(1, &[other.sge(..)])?;
    asking.receive(2, &[room.sge(..)])?;
    asking.send(3, &[], OpFlags::empty())?;
    answering.takes()?;
    answering.send(4, &[data.sge(..)], OpFlags::empty())?;
    asking.takes()?;
    bench
        .near
        .equal("the message", room.octets(0, 64), pattern(64))?;
    disconnect(&bench.near, &setup.here)?;
    Ok(Pass::Right)
}

fn in_a_loop(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    setup.offer()?;
    let accepting = setup.accept(LIMITS, &[]);
    let _ = bench.far.started("Accept", accepting)?;
    let asks = |side: &Side, what: &str, look: &dyn Fn() -> Status| {
        side.step(format_args!("ask for the end of {what}"));
        side.until(|| look() != Status::PENDING)?;
        side.status(format_args!("the end of {what}"), look(), Status::SUCCESS)
    };
    let look = |request: &Overlapped| setup.here.get_overlapped_result(request, false);
    asks(&bench.near, "Connect", &|| look(&setup.connected))?;
    let completed = quiet();
    let completing = setup.here.complete_connect(&completed);
    let _ = bench.near.started("CompleteConnect", completing)?;
    asks(&bench.near, "CompleteConnect", &|| look(&completed))?;
    let look = |request: &Overlapped| setup.there.get_overlapped_result(request, false);
    asks(&bench.far, "Accept", &|| look(&setup.accepted))?;
    setup.works()?;
    Ok(Pass::Right)
}

fn unasked(bench: &Bench) -> Verdict {
    let own = bench.near.open_again()?;
    let port = CompletionPort::new();
    own.expect("tie the file to the port", own.file.associate(&port, 1))?;
    let setup = Setup::whole(&own, &bench.far)?;
    setup.works()?;
    let room = sink(&bench.far, 64)?;
    setup.answering_end().receive(1, &[room.sge(..)])?;
    disconnect(&bench.far, &setup.there)?;
    disconnect(&own, &setup.here)?;
    drop(setup);
    // A packet of the client's own comes behind all that were there before.
    port.post(2, 77);
    own.step("take the packet from the port");
    let Some(packet) = port.get(Some(bench.limits().answer)) else {
        return bench.hangs();
    };
    own.equal(
        "the first packet of the port",
        (packet.key, packet.user),
        (2, 77),
    )?;
    Ok(Pass::Right)
}

fn known_statuses(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    let (here, qp) = (&setup.here, &setup.asking.qp);
    let long = pattern(side.info.max_caller_data as usize + 1);
    let region = side.region()?;
    let data = source(side, 8)?;
    let failures = [
        here.get_read_limits().err(),
        here.get_private_data().err(),
        here.get_local_address().err(),
        here.get_peer_address().err(),
        here.reject(&[]).err(),
        here.complete_connect(&quiet()).err(),
        here.disconnect(&quiet()).err(),
        here.notify_disconnect(&quiet()).err(),
        setup.connect(LIMITS, &long).err(),
        setup.accept(LIMITS, &[]).err(),
        setup.listening.listener.listen(0).err(),
        setup.listening.listener.bind(bench.far.address).err(),
        region.deregister(&quiet()).err(),
        qp.send(1, &[data.sge(..)], OpFlags::empty()).err(),
        side.provider
            .open_adapter(netdirect::AdapterId(!side.info.adapter_id.0))
            .err(),
    ];
    for (at, failure) in failures.into_iter().enumerate() {
        let Some(error) = failure else {
            return Err(fail(format!("a failure of call {at}"), "success"));
        };
        let status = error.status();
        let right = Status::ALL.contains(&status) && !status.is_success();
        ensure(
            right,
            format!("a status that is known, of call {at}"),
            format!("{:#x}", status.bits()),
        )?;
    }
    Ok(Pass::Right)
}
