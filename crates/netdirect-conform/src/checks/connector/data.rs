//! The data of the peer that a connector returns: read limits, private data and addresses.

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::{ReadLimits, Status};

use super::bind::local;
use super::new_check;
use crate::bench::Bench;
use crate::check::Check;
use crate::checks::common::pattern;
use crate::checks::setup::{LIMITS, Setup, disconnect, quiet};
use crate::need::Need;
use crate::side::Side;

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "CONN-002.limits",
        "connects and accepts with four different read limits, and finds on each side what the other one wants and serves",
        |bench| limits(&Setup::near_connects(bench)?),
    )
    .also(&[
        "CONN-028", "CONN-029", "CONN-030", "CONN-077", "CONN-080", "CONN-081", "CONN-083",
        "AMB-044", "IW-009", "IW-010", "IW-011",
    ])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-002.accepts",
        "is asked with four different read limits and accepts, and finds on each side what the other one wants and serves",
        |bench| limits(&Setup::near_accepts(bench)?),
    )
    .also(&["CONN-077", "CONN-080", "CONN-081", "CONN-083", "IW-009", "IW-010", "IW-011"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-027.cut",
        "connects and accepts with the highest read limits there are, which are cut to those of the adapters",
        highest_limits,
    )
    .also(&["CONN-063", "INFO-012", "INFO-013", "IW-069", "TST-112"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-063.offer",
        "accepts with limits of 0, and with limits above what the peer offers, and connects in both cases",
        offers,
    )
    .also(&["TST-036"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-078.nothing",
        "asks for read limits and private data before anything has come from a peer",
        nothing_yet,
    )
    .also(&["CONN-087"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-084.data",
        "sends private data of many lengths with Connect and Accept, each of which arrives as it is",
        private_data,
    )
    .also(&["CONN-034", "CONN-067", "CONN-090", "CONN-091", "IW-007", "IW-008", "TST-047", "TST-059"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-097.addresses",
        "compares the addresses that both sides are told, from the offer and from the answer on",
        addresses,
    )
    .also(&["CONN-092", "CONN-101", "AMB-042", "PROV-001", "TST-049"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-099.nobody",
        "asks for addresses of a connector that is unbound, waits, connects, or is disconnected",
        no_addresses,
    )
    .also(&["CONN-094"])
    .needs(&[Need::Connections]),
];

fn read_limits(side: &Side, connector: &dyn netdirect::Connector) -> Step<ReadLimits> {
    side.expect("GetReadLimits", connector.get_read_limits())
}

fn least(one: u32, other: u32, third: u32) -> u32 {
    one.min(other).min(third)
}

fn limits(setup: &Setup<'_>) -> Verdict {
    let (asked, granted) = (
        ReadLimits {
            inbound: 3,
            outbound: 7,
        },
        ReadLimits {
            inbound: 5,
            outbound: 2,
        },
    );
    let (own, other) = (setup.active.info, setup.passive.info);
    let inbound = own
        .max_inbound_read_limit
        .min(other.max_outbound_read_limit);
    let outbound = own
        .max_outbound_read_limit
        .min(other.max_inbound_read_limit);

    setup.offer_with(asked, &[])?;
    let wanted = ReadLimits {
        inbound: asked.outbound.min(outbound),
        outbound: asked.inbound.min(inbound),
    };
    let seen = read_limits(setup.passive, &*setup.there)?;
    setup
        .passive
        .equal("the limits of the offer", seen, wanted)?;

    let accepting = setup.accept(granted, &[]);
    let _ = setup.passive.started("Accept", accepting)?;
    setup.connect_ends(Status::SUCCESS)?;
    let wanted = ReadLimits {
        inbound: least(asked.inbound, granted.outbound, inbound),
        outbound: least(asked.outbound, granted.inbound, outbound),
    };
    let seen = read_limits(setup.active, &*setup.here)?;
    setup
        .active
        .equal("the limits of the answer", seen, wanted)?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn highest_limits(bench: &Bench) -> Verdict {
    let most = ReadLimits {
        inbound: u32::MAX,
        outbound: u32::MAX,
    };
    let setup = Setup::near_connects(bench)?;
    let (own, other) = (bench.near.info, bench.far.info);
    setup.offer_with(most, &[])?;
    let wanted = ReadLimits {
        inbound: own
            .max_outbound_read_limit
            .min(other.max_inbound_read_limit),
        outbound: own
            .max_inbound_read_limit
            .min(other.max_outbound_read_limit),
    };
    let seen = read_limits(&bench.far, &*setup.there)?;
    bench.far.equal("the limits of the offer", seen, wanted)?;
    let accepting = setup.accept(most, &[]);
    let _ = bench.far.started("Accept", accepting)?;
    setup.connect_ends(Status::SUCCESS)?;
    let wanted = ReadLimits {
        inbound: wanted.outbound,
        outbound: wanted.inbound,
    };
    let seen = read_limits(&bench.near, &*setup.here)?;
    bench.near.equal("the limits of the answer", seen, wanted)?;
    let fits = own.max_inbound_read_limit <= 255 && own.max_outbound_read_limit <= 255;
    ensure(
        fits,
        "limits of the adapter that fit into 8 bits",
        format!("{own:?}"),
    )?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn offers(bench: &Bench) -> Verdict {
    let none = ReadLimits::default();
    let six = ReadLimits {
        inbound: 6,
        outbound: 6,
    };
    for (asked, granted) in [(six, none), (none, six), (LIMITS, six)] {
        let setup = Setup::near_connects(bench)?;
        setup.answer_with(asked, &[], granted, &[])?;
        let seen = read_limits(&bench.near, &*setup.here)?;
        let right = seen.outbound <= granted.inbound && seen.outbound <= asked.outbound;
        ensure(
            right,
            format!("an outbound limit of both {asked:?} and {granted:?}"),
            format!("{seen:?}"),
        )?;
        setup.complete()?;
        setup.works()?;
        disconnect(&bench.near, &setup.here)?;
    }
    Ok(Pass::Right)
}

fn nothing_yet(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let wanted = Status::CONNECTION_INVALID;
    let has_nothing = |state: &str| {
        let limits = setup.here.get_read_limits();
        bench
            .near
            .refused(format_args!("GetReadLimits, {state}"), limits, wanted)?;
        let data = setup.here.get_private_data();
        bench
            .near
            .refused(format_args!("GetPrivateData, {state}"), data, wanted)
    };
    has_nothing("of a new connector")?;
    bench
        .near
        .expect("Bind", setup.here.bind(bench.near.address))?;
    has_nothing("of a bound connector")?;
    setup.offer()?;
    has_nothing("before the answer")?;
    setup.answer_pending()?;
    read_limits(&bench.near, &*setup.here)?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn private_data(bench: &Bench) -> Verdict {
    let (near, far) = (&bench.near, &bench.far);
    let caller = near.info.max_caller_data as usize;
    let callee = far.info.max_callee_data as usize;
    ensure(
        caller >= 40 && callee >= 36,
        "at least 40 octets for Connect and 36 for Accept",
        format!("{caller} and {callee}"),
    )?;
    for (question, answer) in [(0, 0), (1, 0), (0, 1), (40, 36), (36, 36), (caller, callee)] {
        let setup = Setup::near_connects(bench)?;
        let (question, answer) = (pattern(question), pattern(answer));
        setup.offer_with(LIMITS, &question)?;
        let seen = setup.there.get_private_data();
        let seen = far.expect("GetPrivateData of the offer", seen)?;
        far.equal("the private data of Connect", seen, question)?;
        let accepting = setup.accept(LIMITS, &answer);
        let _ = far.started("Accept", accepting)?;
        setup.connect_ends(Status::SUCCESS)?;
        let seen = setup.here.get_private_data();
        let seen = near.expect("GetPrivateData of the answer", seen)?;
        near.equal("the private data of Accept", seen, answer)?;
        setup.complete()?;
        disconnect(near, &setup.here)?;
    }
    Ok(Pass::Right)
}

fn addresses(bench: &Bench) -> Verdict {
    for (active, passive) in [(&bench.near, &bench.far), (&bench.far, &bench.near)] {
        let setup = Setup::new(active, passive)?;
        active.expect("Bind", setup.here.bind(active.address))?;
        setup.offer()?;
        let (here, there) = (local(active, &setup.here)?, local(passive, &setup.there)?);
        passive.equal("the passive side's address", there, setup.listening.address)?;
        let reported = setup.there.get_peer_address();
        let reported = passive.expect("GetPeerAddress of the offer", reported)?;
        passive.equal("where the offer comes from", reported, here)?;

        setup.answer_pending()?;
        let reported = setup.here.get_peer_address();
        let reported = active.expect("GetPeerAddress of the answer", reported)?;
        active.equal("whom the active side sees", reported, there)?;
        setup.complete()?;
        let reported = setup.here.get_peer_address();
        let reported = active.expect("GetPeerAddress of the connection", reported)?;
        active.equal("whom the active side sees", reported, there)?;
    }
    Ok(Pass::Right)
}

fn no_addresses(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let (near, far) = (&bench.near, &bench.far);
    let wanted = Status::CONNECTION_INVALID;
    let no_local = |state: &str| {
        let address = setup.here.get_local_address();
        near.refused(format_args!("GetLocalAddress, {state}"), address, wanted)
    };
    let no_peer = |state: &str| {
        let address = setup.here.get_peer_address();
        near.refused(format_args!("GetPeerAddress, {state}"), address, wanted)
    };
    no_local("unbound")?;
    no_peer("unbound")?;
    near.expect("Bind", setup.here.bind(near.address))?;
    no_peer("bound")?;
    let connecting = setup.connect(LIMITS, &[]);
    let _ = near.started("Connect", connecting)?;
    no_peer("before the answer")?;

    let asked = quiet();
    let waiting = far.connector()?;
    let idle = far.listening()?;
    let started = idle.listener.get_connection_request(&waiting, &asked);
    let _ = far.started("GetConnectionRequest", started)?;
    let address = waiting.get_peer_address();
    far.refused("GetPeerAddress of a connector that waits", address, wanted)?;

    setup.arrive()?;
    setup.answer_pending()?;
    setup.complete()?;
    disconnect(near, &setup.here)?;
    no_local("disconnected")?;
    no_peer("disconnected")?;
    Ok(Pass::Right)
}
