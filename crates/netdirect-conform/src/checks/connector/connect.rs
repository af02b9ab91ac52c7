//! Connect and CompleteConnect.

use std::net::SocketAddr;
use std::time::Duration;

use conform_report::{Pass, Step, Stop, Verdict, ensure, fail};
use netdirect::{CompletionResult, NotifyType, OpFlags, RequestType, Started, Status};

use super::bind::local;
use super::new_check;
use crate::bench::Bench;
use crate::check::Check;
use crate::checks::common::{pattern, sink, source};
use crate::checks::setup::{
    LIMITS, NOBODY, Setup, disconnect, ends, notification, quiet, round, thinks,
};
use crate::link::Listening;
use crate::need::Need;
use crate::side::Side;

/// How long providers wait for their peers in checks of that.
const SOON: Duration = Duration::from_millis(250);

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "CONN-001.roles",
        "connects as the active side and as the passive one, posts Receives before, and exchanges messages",
        roles,
    )
    .also(&["CONN-042", "CONN-049", "CONN-065", "AMB-039", "LSTN-001", "PROV-004", "TST-035"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-010.exists",
        "connects two addresses and ports that a connection which came through a listener has already",
        exists,
    )
    .also(&["AMB-026", "IW-056"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-014.again",
        "connects with a connector and a queue pair whose first two attempts were refused",
        again,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-016.pending",
        "calls Connect, which stays pending until the peer accepts, and CompleteConnect, which both sides' requests end with",
        pending,
    )
    .also(&["CONN-015", "CONN-043", "CONN-050", "CONN-051", "IW-005", "TST-002", "TST-004"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-017.data",
        "connects with one octet of private data too many, and then with exactly the limit",
        too_much_data,
    )
    .also(&["AMB-005", "INFO-020", "TST-077"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-018.released",
        "releases the queue pair of a pending Connect",
        |bench| {
            let setup = Setup::near_connects(bench)?;
            setup.offer()?;
            bench.near.step("release the queue pair");
            drop(setup.asking);
            ends(&bench.near, "the end of Connect", &setup.connected, Status::CANCELED)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-018.canceled",
        "cancels a pending Connect, which has ended when the call returns",
        |bench| {
            let setup = Setup::near_connects(bench)?;
            setup.offer()?;
            let cancelled = setup.here.cancel_overlapped_requests();
            bench.near.expect("CancelOverlappedRequests", cancelled)?;
            let status = setup.connected.status();
            bench.near.status("the end of Connect", status, Status::CANCELED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["CONN-035"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-035.released",
        "releases the connector of a pending Connect",
        |bench| {
            let setup = Setup::near_connects(bench)?;
            setup.offer()?;
            bench.near.step("release the connector");
            drop(setup.here);
            ends(&bench.near, "the end of Connect", &setup.connected, Status::CANCELED)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-021.family",
        "connects from a bound connector to an address of the other family, and then to a listener",
        unreachable,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-022.host",
        "connects to a host that cannot be reached, and then to a listener",
        unreachable_host,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-023.nobody",
        "connects to the port of a listener that was released",
        nobody_listens,
    )
    .also(&["TST-067", "TST-107"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-024.unanswered",
        "connects to a peer that does not answer, and connects again with the same connector to one that does",
        unanswered,
    )
    .also(&["AMB-041", "IW-068", "TST-052"])
    .needs(&[Need::Connections])
    .time_limits(SOON),
    new_check(
        "CONN-026.unspecified",
        "connects to the unspecified address, and then to a listener",
        unspecified,
    )
    .also(&["AMB-032", "TST-070"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-031.slow",
        "connects to a client that thinks before it accepts, and thinks before it completes",
        slow,
    )
    .also(&["CONN-048", "CONN-064", "LSTN-004"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-032.waits",
        "connects to a listener that has no GetConnectionRequest pending, whose client makes one later",
        waits,
    )
    .also(&["LSTN-032"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-033.receives",
        "connects in vain with a Receive posted, which takes the first message of the next connection",
        receives_stay,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-046.gone",
        "completes a connection whose peer has given up meanwhile",
        gone_before_completion,
    )
    .also(&["CONN-042", "CONN-047"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-051.flush",
        "posts two Receives, connects in vain and flushes: a Notify ends, and both Receives come back",
        flush_after_refusal,
    )
    .needs(&[Need::Connections]),
    new_check(
        "AMB-034.bound",
        "binds a connector again after its attempt was refused, and cannot while it connects and is connected",
        bound_again,
    )
    .needs(&[Need::Connections]),
];

/// An address of this side without a listener.
fn nowhere(side: &Side) -> Step<SocketAddr> {
    let Listening { listener, address } = side.listening()?;
    side.step("release the listener");
    drop(listener);
    Ok(address)
}

/// Connect to an address fails with this status, from the call or as the end.
fn fails(setup: &Setup<'_>, address: SocketAddr, wanted: &[Status]) -> Step {
    let side = setup.active;
    let (qp, request) = (&setup.asking.qp, quiet());
    side.step(format_args!("Connect to {address}"));
    let started = setup.here.connect(qp, address, 4, 4, &[], &request);
    let status = side.ended(format_args!("Connect to {address}"), started, &request)?;
    ensure(
        wanted.contains(&status),
        format!("{wanted:?} from Connect to {address}"),
        status.to_string(),
    )
}

fn roles(bench: &Bench) -> Verdict {
    for setup in [Setup::near_connects(bench)?, Setup::near_accepts(bench)?] {
        let (asking, answering) = (setup.asking_end(), setup.answering_end());
        let (first, second) = (sink(setup.passive, 64)?, sink(setup.active, 64)?);
        asking.receive(1, &[second.sge(..)])?;
        setup.offer()?;
        answering.receive(2, &[first.sge(..)])?;
        setup.answer_pending()?;
        let completed = quiet();
        let completing = setup.here.complete_connect(&completed);
        setup
            .active
            .done("CompleteConnect", completing, &completed)?;
        // The active side may send as soon as CompleteConnect has ended.
        let data = source(setup.active, 64)?;
        asking.send(3, &[data.sge(..)], OpFlags::empty())?;
        setup.accept_ends(Status::SUCCESS)?;
        asking.succeeds(RequestType::Send)?;
        let taken = answering.takes()?;
        setup
            .passive
            .equal("the context of the Receive", taken.request_context, 2)?;
        setup
            .passive
            .equal("the message", first.octets(0, 64), pattern(64))?;
        let data = source(setup.passive, 64)?;
        answering.send(4, &[data.sge(..)], OpFlags::empty())?;
        answering.succeeds(RequestType::Send)?;
        asking.takes()?;
        setup
            .active
            .equal("the answer", second.octets(0, 64), pattern(64))?;
    }
    Ok(Pass::Right)
}

fn exists(bench: &Bench) -> Verdict {
    let setup = Setup::whole(&bench.far, &bench.near)?;
    let side = &bench.near;
    let peer = side.expect("GetPeerAddress", setup.there.get_peer_address())?;
    let own = setup.listening.address;
    side.step("release the listener");
    drop(setup.listening);
    let connector = side.connector()?;
    side.step(format_args!("bind to {own}"));
    match connector.bind(own) {
        Ok(()) => {}
        Err(error) if error.status() == Status::SHARING_VIOLATION => {
            let why = "the provider refuses the port of a connection to Bind already";
            return Err(Stop::LeftOut(why.to_owned()));
        }
        Err(error) => return Err(fail("Bind to the listener's port", error.to_string())),
    }
    let queues = side.queues(8, netdirect::QueuePairOptions::default())?;
    let request = quiet();
    let started = connector.connect(&queues.qp, peer, 4, 4, &[], &request);
    let status = side.ended("Connect between connected ports", started, &request)?;
    side.status(
        "Connect between connected ports",
        status,
        Status::ADDRESS_ALREADY_EXISTS,
    )?;
    Ok(Pass::Right)
}

fn again(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let address = nowhere(&bench.far)?;
    fails(&setup, address, &[Status::CONNECTION_REFUSED])?;
    setup.offer()?;
    bench.far.expect("Reject", setup.there.reject(&[]))?;
    setup.connect_ends(Status::CONNECTION_REFUSED)?;
    let setup = Setup {
        there: bench.far.connector()?,
        ..setup
    };
    setup.answer()?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn pending(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let is_early = |what: &str, started: &Started| {
        let seen = format!("{what} has returned Done");
        ensure(
            *started == Started::Pending,
            format!("{what} to be pending"),
            seen,
        )
    };
    let connecting = setup.connect(LIMITS, &[]);
    is_early("Connect", &bench.near.started("Connect", connecting)?)?;
    setup.arrive()?;
    bench.near.stays("Connect", &setup.connected)?;
    let accepting = setup.accept(LIMITS, &[]);
    let accepting = bench.far.started("Accept", accepting)?;
    setup.connect_ends(Status::SUCCESS)?;
    is_early("Accept", &accepting)?;
    bench.far.stays("Accept", &setup.accepted)?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn too_much_data(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    let most = side.info.max_caller_data as usize;
    let started = setup.connect(LIMITS, &pattern(most + 1));
    let wanted = Status::INVALID_BUFFER_SIZE;
    side.refused("Connect with too much private data", started, wanted)?;
    let address = setup.here.get_local_address();
    let wanted = Status::CONNECTION_INVALID;
    side.refused("GetLocalAddress of an unbound connector", address, wanted)?;
    setup.offer_with(LIMITS, &pattern(most))?;
    let seen = setup.there.get_private_data();
    let seen = bench.far.expect("GetPrivateData", seen)?;
    bench.far.equal("the private data", seen, pattern(most))?;
    Ok(Pass::Right)
}

fn unreachable(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    side.expect("Bind", setup.here.bind(side.address))?;
    let other = if side.address.is_ipv4() {
        "[2001:db8::77]:4791"
    } else {
        NOBODY
    };
    let other = other.parse().map_err(|_| fail("an address", other))?;
    fails(&setup, other, &[Status::NETWORK_UNREACHABLE])?;
    setup.answer()?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn unreachable_host(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let host = bench.unreachable_host()?;
    let address = SocketAddr::new(host, 4791);
    fails(&setup, address, &[Status::HOST_UNREACHABLE])?;
    setup.answer()?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn nobody_listens(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let address = nowhere(&bench.far)?;
    for _ in 0..2 {
        fails(&setup, address, &[Status::CONNECTION_REFUSED])?;
    }
    Ok(Pass::Right)
}

fn unanswered(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut setup = Setup::near_connects(bench)?;
    side.expect("Bind", setup.here.bind(side.address))?;
    setup.offer()?;
    setup.connect_ends(Status::IO_TIMEOUT)?;
    side.expect(
        "Bind after the time has run out",
        setup.here.bind(side.address),
    )?;
    // On a loaded machine the short limit may pass before the peer has had its turn.
    for _ in 0..50 {
        setup.there = bench.far.connector()?;
        setup.answering = bench
            .far
            .queues(64, netdirect::QueuePairOptions::default())?;
        let arrived = quiet();
        let listener = &setup.listening.listener;
        let asked = listener.get_connection_request(&setup.there, &arrived);
        let _ = bench.far.started("GetConnectionRequest", asked)?;
        let connecting = setup.connect(LIMITS, &[]);
        let _ = side.started("Connect", connecting)?;
        ends(&bench.far, "the arrival", &arrived, Status::SUCCESS)?;
        bench.far.step("Accept");
        let _ = setup.accept(LIMITS, &[]);
        match side.end_of("the second Connect", &setup.connected)? {
            Status::SUCCESS => return Ok(Pass::Right),
            Status::IO_TIMEOUT => {}
            other => {
                return Err(fail(
                    "ND_SUCCESS or ND_IO_TIMEOUT of Connect",
                    other.to_string(),
                ));
            }
        }
        bench
            .far
            .expect("cancel Accept", setup.there.cancel_overlapped_requests())?;
    }
    Err(fail("a Connect that succeeds", "ND_IO_TIMEOUT, 50 times"))
}

fn unspecified(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let port = setup.listening.address.port();
    let address = if bench.near.address.is_ipv4() {
        SocketAddr::from(([0; 4], port))
    } else {
        SocketAddr::from(([0u16; 8], port))
    };
    let wanted = [Status::BAD_NETWORK_NAME, Status::INVALID_ADDRESS];
    fails(&setup, address, &wanted)?;
    setup.answer()?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn slow(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    setup.offer()?;
    thinks(bench, &bench.near, "Connect", &setup.connected)?;
    setup.answer_pending()?;
    // Nothing ends this Notify, so that it is time that passes.
    let nothing = quiet();
    let cq = bench.near.cq(8)?;
    let notify = cq.notify(NotifyType::Any, &nothing);
    let _ = bench.near.started("Notify", notify)?;
    thinks(bench, &bench.near, "a Notify that nothing ends", &nothing)?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn waits(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let connecting = setup.connect(LIMITS, &[]);
    let _ = bench.near.started("Connect", connecting)?;
    bench.near.stays("Connect", &setup.connected)?;
    setup.arrive()?;
    setup.answer_pending()?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn receives_stay(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let (asking, answering) = (setup.asking_end(), setup.answering_end());
    let room = sink(&bench.near, 64)?;
    asking.receive(77, &[room.sge(..)])?;
    let address = nowhere(&bench.far)?;
    fails(&setup, address, &[Status::CONNECTION_REFUSED])?;
    let mut none = [CompletionResult::default(); 1];
    bench.near.step("look for results of the refused attempt");
    let count = asking.queues.receives.get_results(&mut none);
    bench
        .near
        .equal("results of the refused attempt", count, 0)?;
    setup.answer()?;
    setup.complete()?;
    let (data, other) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    answering.receive(1, &[other.sge(..)])?;
    asking.send(2, &[data.sge(..)], OpFlags::empty())?;
    answering.takes()?;
    let data = source(&bench.far, 64)?;
    answering.send(3, &[data.sge(..)], OpFlags::empty())?;
    let taken = asking.takes()?;
    bench.near.equal(
        "the Receive that took the message",
        taken.request_context,
        77,
    )?;
    Ok(Pass::Right)
}

fn gone_before_completion(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    setup.answer()?;
    let cancelled = setup.there.cancel_overlapped_requests();
    bench.far.expect("cancel Accept", cancelled)?;
    bench
        .far
        .status("Accept", setup.accepted.status(), Status::CANCELED)?;
    let completed = quiet();
    let completing = setup.here.complete_connect(&completed);
    match side.ended("CompleteConnect", completing, &completed)? {
        Status::SUCCESS => {
            let notified = notification(side, &setup.here)?;
            ends(side, "NotifyDisconnect", &notified, Status::SUCCESS)?;
            disconnect(side, &setup.here)?;
        }
        Status::IO_TIMEOUT => {
            let another = setup.here.complete_connect(&completed);
            let status = side.ended("CompleteConnect again", another, &completed)?;
            ensure(
                !status.is_success(),
                "a failure of CompleteConnect again",
                status.to_string(),
            )?;
            let another = setup.connect(LIMITS, &[]);
            let status = side.ended("Connect again", another, &setup.connected)?;
            ensure(
                !status.is_success(),
                "a failure of Connect again",
                status.to_string(),
            )?;
        }
        other => {
            return Err(fail(
                "ND_SUCCESS or ND_IO_TIMEOUT of CompleteConnect",
                other.to_string(),
            ));
        }
    }
    Ok(Pass::Right)
}

fn flush_after_refusal(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    let asking = setup.asking_end();
    let room = sink(side, 64)?;
    for context in [1, 2] {
        asking.receive(context, &[room.sge(..)])?;
    }
    fails(&setup, nowhere(&bench.far)?, &[Status::CONNECTION_REFUSED])?;
    let notified = quiet();
    let notify = asking.queues.receives.notify(NotifyType::Any, &notified);
    let _ = side.started("Notify", notify)?;
    side.expect("Flush", asking.queues.qp.flush())?;
    ends(side, "Notify", &notified, Status::SUCCESS)?;
    let results = side.results("the flushed Receives", &asking.queues.receives, 2)?;
    let seen: Vec<_> = results
        .iter()
        .map(|r| (r.request_context, r.status))
        .collect();
    let wanted = vec![(1, Status::CANCELED), (2, Status::CANCELED)];
    side.equal("the flushed Receives", seen, wanted)?;
    Ok(Pass::Right)
}

fn bound_again(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    side.expect("Bind", setup.here.bind(side.address))?;
    fails(&setup, nowhere(&bench.far)?, &[Status::CONNECTION_REFUSED])?;
    side.expect("Bind after a refusal", setup.here.bind(side.address))?;
    let address = local(side, &setup.here)?;
    let refused = |what: &str| {
        let wanted = Status::ADDRESS_ALREADY_ASSOCIATED;
        side.refused(
            format_args!("Bind {what}"),
            setup.here.bind(side.address),
            wanted,
        )
    };
    refused("of a bound connector")?;
    setup.offer()?;
    refused("while it connects")?;
    let reported = setup.there.get_peer_address();
    let reported = bench.far.expect("GetPeerAddress", reported)?;
    bench
        .far
        .equal("where the offer comes from", reported, address)?;
    setup.answer_pending()?;
    refused("before CompleteConnect")?;
    setup.complete()?;
    refused("of a connected connector")?;
    round(&setup.asking_end(), &setup.answering_end())?;
    Ok(Pass::Right)
}
