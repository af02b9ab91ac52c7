//! Accept and Reject.

use std::time::Duration;

use conform_report::{Pass, Verdict, ensure, fail};
use netdirect::Status;

use super::new_check;
use crate::bench::Bench;
use crate::check::Check;
use crate::checks::common::pattern;
use crate::checks::setup::{LIMITS, Setup, ends, quiet};
use crate::need::Need;

/// How often something is tried that depends on which of two things comes first.
const TRIES: u32 = 40;

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "CONN-003.rejects",
        "rejects an answer instead of completing: the passive side's Accept is refused",
        active_rejects,
    )
    .also(&[
        "CONN-056", "CONN-074", "AMB-004", "IW-017", "IW-018", "TST-065",
    ])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-056.released",
        "accepts a peer that releases its connector after it has seen the answer",
        |bench| {
            let setup = Setup::near_accepts(bench)?;
            setup.answer()?;
            bench.far.step("release the connector");
            drop(setup.here);
            let wanted = Status::CONNECTION_REFUSED;
            ends(&bench.near, "the end of Accept", &setup.accepted, wanted)?;
            Ok(Pass::Right)
        },
    )
    .also(&["AMB-004", "TST-066"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-036.rejected",
        "connects to peers that reject, with private data and without",
        passive_rejects,
    )
    .also(&[
        "CONN-023", "CONN-068", "CONN-069", "CONN-074", "CONN-075", "CONN-089", "AMB-038",
        "IW-016", "TST-015",
    ])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-052.released",
        "releases the queue pair of a pending Accept",
        |bench| {
            let setup = Setup::near_accepts(bench)?;
            setup.answer()?;
            bench.near.step("release the queue pair");
            drop(setup.answering);
            ends(
                &bench.near,
                "the end of Accept",
                &setup.accepted,
                Status::CANCELED,
            )?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-052.canceled",
        "cancels a pending Accept, which has ended when the call returns and cannot be made again",
        |bench| {
            let setup = Setup::near_accepts(bench)?;
            setup.answer()?;
            let cancelled = setup.there.cancel_overlapped_requests();
            bench.near.expect("CancelOverlappedRequests", cancelled)?;
            let status = setup.accepted.status();
            bench
                .near
                .status("the end of Accept", status, Status::CANCELED)?;
            let again = setup.accept(LIMITS, &[]);
            bench
                .near
                .refused("Accept again", again, Status::CONNECTION_INVALID)?;
            Ok(Pass::Right)
        },
    )
    .also(&["CONN-061"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-055.gone",
        "accepts a peer that has cancelled its Connect, and one that has released its connector",
        given_up,
    )
    .also(&["CONN-061", "AMB-004", "TST-038"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-058.data",
        "accepts with one octet of private data too many, and then with exactly the limit",
        too_much_data,
    )
    .also(&["AMB-005", "CONN-061", "INFO-021", "TST-078"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-059.unanswered",
        "accepts a peer that never calls CompleteConnect, and gives up when the time has run out",
        never_completed,
    )
    .also(&["IW-068"])
    .needs(&[Need::Connections])
    .time_limits(Duration::from_millis(150))
    // The peer must not complete by itself before the time has run out.
    .patience(Duration::from_secs(3600)),
    new_check(
        "CONN-060.nothing",
        "calls Accept on connectors that are new, bound, waiting or connecting",
        nothing_to_accept,
    )
    .needs(&[Need::Connections]),
    new_check(
        "CONN-071.gone",
        "rejects a peer that has given up, after it has asked for what the peer sent",
        rejects_too_late,
    )
    .also(&["TST-048"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-073.data",
        "rejects with one octet of private data too many, and then with exactly the limit",
        too_much_to_reject,
    )
    .also(&["INFO-021"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-076.nothing",
        "calls Reject on connectors that are new, connecting, connected or rejected",
        nothing_to_reject,
    )
    .needs(&[Need::Connections]),
];

fn active_rejects(bench: &Bench) -> Verdict {
    for data in [&[][..], b"not you"] {
        let setup = Setup::near_connects(bench)?;
        setup.answer()?;
        let limits = setup.here.get_read_limits();
        bench.near.expect("GetReadLimits of the answer", limits)?;
        bench
            .near
            .expect("Reject the answer", setup.here.reject(data))?;
        setup.accept_ends(Status::CONNECTION_REFUSED)?;
        let completed = quiet();
        let completing = setup.here.complete_connect(&completed);
        let status = bench
            .near
            .ended("CompleteConnect", completing, &completed)?;
        let wanted = Status::CONNECTION_INVALID;
        bench
            .near
            .status("CompleteConnect after Reject", status, wanted)?;
    }
    Ok(Pass::Right)
}

fn passive_rejects(bench: &Bench) -> Verdict {
    let most = bench.near.info.max_callee_data as usize;
    for length in [0, 1, most] {
        let setup = Setup::near_accepts(bench)?;
        setup.offer()?;
        bench
            .near
            .expect("Reject", setup.there.reject(&pattern(length)))?;
        setup.connect_ends(Status::CONNECTION_REFUSED)?;
        let data = setup.here.get_private_data();
        let data = bench.far.expect("GetPrivateData of the Reject", data)?;
        bench
            .far
            .equal("the private data of Reject", data, pattern(length))?;
        let again = setup.accept(LIMITS, &[]);
        let status = bench.near.ended("Accept", again, &setup.accepted)?;
        let wanted = Status::CONNECTION_INVALID;
        bench.near.status("Accept after Reject", status, wanted)?;
    }
    Ok(Pass::Right)
}

fn given_up(bench: &Bench) -> Verdict {
    let wanted = Status::CONNECTION_ABORTED;
    for released in [false, true] {
        let setup = Setup::near_accepts(bench)?;
        setup.offer()?;
        let Setup {
            here,
            there,
            answering,
            accepted,
            ..
        } = setup;
        if released {
            bench.far.step("release the connector");
            drop(here);
        } else {
            let cancelled = here.cancel_overlapped_requests();
            bench.far.expect("cancel Connect", cancelled)?;
        }
        let accept = || there.accept(&answering.qp, 4, 4, &[], &accepted);
        let status = bench.near.ended("Accept", accept(), &accepted)?;
        bench
            .near
            .status("Accept of a peer that has gone", status, wanted)?;
        let status = bench.near.ended("Accept again", accept(), &accepted)?;
        ensure(
            !status.is_success(),
            "a failure of Accept again",
            status.to_string(),
        )?;
    }
    Ok(Pass::Right)
}

fn too_much_data(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    let most = bench.near.info.max_callee_data as usize;
    setup.offer()?;
    let started = setup.accept(LIMITS, &pattern(most + 1));
    let wanted = Status::INVALID_BUFFER_SIZE;
    bench
        .near
        .refused("Accept with too much private data", started, wanted)?;
    let started = setup.accept(LIMITS, &pattern(most));
    let _ = bench.near.started("Accept with as much as goes", started)?;
    setup.connect_ends(Status::SUCCESS)?;
    let seen = setup.here.get_private_data();
    let seen = bench.far.expect("GetPrivateData", seen)?;
    bench.far.equal("the private data", seen, pattern(most))?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

/// The peer's provider may report that its client is slow before this side's limit has passed (IW-067). Then the check tries again.
fn never_completed(bench: &Bench) -> Verdict {
    for _ in 0..TRIES {
        let setup = Setup::near_accepts(bench)?;
        setup.offer()?;
        let accepting = setup.accept(LIMITS, &[]);
        match bench.near.ended("Accept", accepting, &setup.accepted)? {
            Status::IO_TIMEOUT => return Ok(Pass::Right),
            // The time for which a peer waits for the answer is as short, and may have passed on a loaded machine.
            Status::SUCCESS | Status::CONNECTION_ABORTED | Status::CONNECTION_REFUSED => {}
            other => return Err(fail("ND_IO_TIMEOUT of Accept", other.to_string())),
        }
    }
    Err(fail(
        "ND_IO_TIMEOUT of Accept",
        format!("other ends, {TRIES} times"),
    ))
}

fn nothing_to_accept(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_accepts(bench)?;
    let wanted = Status::CONNECTION_INVALID;
    let refused = |state: &str| {
        let started = setup.accept(LIMITS, &[]);
        side.refused(
            format_args!("Accept on a connector that is {state}"),
            started,
            wanted,
        )
    };
    refused("new")?;
    let arrived = quiet();
    let listener = &setup.listening.listener;
    let asked = listener.get_connection_request(&setup.there, &arrived);
    let _ = side.started("GetConnectionRequest", asked)?;
    refused("waiting")?;
    let connecting = setup.connect(LIMITS, &[]);
    let _ = bench.far.started("Connect", connecting)?;
    ends(side, "GetConnectionRequest", &arrived, Status::SUCCESS)?;
    let bound = side.connector()?;
    side.expect("Bind", bound.bind(side.address))?;
    let started = bound.accept(&setup.answering.qp, 4, 4, &[], &quiet());
    side.refused("Accept on a connector that is bound", started, wanted)?;
    // The queue pair is still good for a connection.
    let started = setup.accept(LIMITS, &[]);
    let _ = side.started("Accept", started)?;
    setup.connect_ends(Status::SUCCESS)?;
    setup.complete()?;
    Ok(Pass::Right)
}

/// When Reject is called, the provider may not have noticed yet that the peer is gone. Then the check tries again, and waits longer.
fn rejects_too_late(bench: &Bench) -> Verdict {
    let side = &bench.near;
    for attempt in 0..TRIES {
        let setup = Setup::near_accepts(bench)?;
        setup.offer_with(LIMITS, b"wait")?;
        let cancelled = setup.here.cancel_overlapped_requests();
        bench.far.expect("cancel Connect", cancelled)?;
        side.step("let time pass");
        for _ in 0..attempt {
            side.pass();
        }
        side.step("GetPrivateData");
        match setup.there.get_private_data() {
            Ok(data) => side.equal("the private data", data, b"wait".to_vec())?,
            Err(error) => side.status(
                "GetPrivateData of a peer that has gone",
                error.status(),
                Status::CONNECTION_ABORTED,
            )?,
        }
        side.step("Reject");
        match setup.there.reject(&[]) {
            Ok(()) => {}
            Err(error) if error.status() == Status::CONNECTION_ABORTED => {
                side.step("release the connector");
                drop(setup.there);
                return Ok(Pass::Right);
            }
            Err(error) => return Err(fail("ND_CONNECTION_ABORTED of Reject", error.to_string())),
        }
    }
    Err(fail(
        "ND_CONNECTION_ABORTED of Reject",
        format!("success, {TRIES} times"),
    ))
}

fn too_much_to_reject(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    let most = bench.near.info.max_callee_data as usize;
    setup.offer()?;
    let rejected = setup.there.reject(&pattern(most + 1));
    let wanted = Status::INVALID_BUFFER_SIZE;
    bench
        .near
        .refused("Reject with too much private data", rejected, wanted)?;
    bench.far.stays("Connect", &setup.connected)?;
    let rejected = setup.there.reject(&pattern(most));
    bench.near.expect("Reject with as much as goes", rejected)?;
    setup.connect_ends(Status::CONNECTION_REFUSED)?;
    let seen = setup.here.get_private_data();
    let seen = bench.far.expect("GetPrivateData", seen)?;
    bench.far.equal("the private data", seen, pattern(most))?;
    Ok(Pass::Right)
}

fn nothing_to_reject(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_connects(bench)?;
    let wanted = Status::CONNECTION_INVALID;
    let refused = |state: &str| {
        let rejected = setup.here.reject(&[]);
        side.refused(
            format_args!("Reject on a connector that is {state}"),
            rejected,
            wanted,
        )
    };
    refused("new")?;
    setup.offer()?;
    refused("connecting")?;
    setup.answer_pending()?;
    setup.complete()?;
    refused("connected")?;
    setup.works()?;
    let setup = Setup::near_connects(bench)?;
    setup.answer()?;
    side.expect("Reject", setup.here.reject(&[]))?;
    let rejected = setup.here.reject(&[]);
    side.refused("Reject on a connector that is rejected", rejected, wanted)?;
    Ok(Pass::Right)
}
