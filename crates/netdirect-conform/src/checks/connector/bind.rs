//! Bind, and the addresses that a connector returns.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{Call, Connector, Fault, Status};

use super::new_check;
use crate::bench::Bench;
use crate::check::Check;
use crate::checks::setup::{NOBODY, Setup, disconnect};
use crate::need::Need;
use crate::side::Side;

/// The number of times that a port is chosen anew because another program has taken the first one.
const TRIES: usize = 50;

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "CONN-004.address",
        "binds a connector to a port of its own choice and connects from there to a listener on another port",
        chosen_port,
    )
    .also(&["CONN-092", "TST-012", "TST-046"])
    .needs(&[Need::Connections]),
    new_check(
        "CONN-005.port",
        "binds connectors with port 0, each of which has a port of its own from 49152 to 65535 at once",
        picked_ports,
    )
    .also(&["CONN-096", "AMB-066", "TST-109"]),
    new_check(
        "CONN-006.canceled",
        "binds a connector whose requests were cancelled before, and one whose last queue pair was released",
        never_canceled,
    )
    .also(&["AMB-027"]),
    new_check(
        "CONN-008.taken",
        "binds a connector to the address and port of another one, also of a second opening of the adapter",
        taken_by_connector,
    )
    .also(&["AMB-028"]),
    new_check(
        "CONN-009.ports",
        "binds a connector with port 0 when no port is left, and again when there are ports",
        no_port_left,
    )
    .needs(&[Need::Faults]),
    new_check(
        "CONN-011.twice",
        "binds a connector that is bound, which keeps its address",
        twice,
    )
    .also(&["AMB-028"]),
    new_check(
        "CONN-012.foreign",
        "binds a connector to an address that the adapter does not have, and then to one that it has",
        foreign_address,
    )
    .also(&["AMB-005"]),
    new_check(
        "CONN-039.ports",
        "makes connections from unbound and from bound connectors, no two of which have one local port",
        ports_of_connections,
    )
    .also(&["CONN-041", "AMB-031", "TST-013"])
    .needs(&[Need::Connections]),
    new_check(
        "AMB-030.listener",
        "binds a connector to the port of a listener on the same address",
        taken_by_listener,
    ),
];

fn bound(side: &Side, address: SocketAddr) -> Step<Arc<dyn Connector>> {
    let connector = side.connector()?;
    side.expect(format_args!("bind to {address}"), connector.bind(address))?;
    Ok(connector)
}

pub(super) fn local(side: &Side, connector: &Arc<dyn Connector>) -> Step<SocketAddr> {
    side.expect("GetLocalAddress", connector.get_local_address())
}

/// A connector that is bound to a port which was given up a moment ago.
fn bound_to_own_choice(side: &Side) -> Step<(Arc<dyn Connector>, SocketAddr)> {
    for _ in 0..TRIES {
        let before = bound(side, side.address)?;
        let address = local(side, &before)?;
        drop(before);
        let connector = side.connector()?;
        side.step(format_args!("bind to {address}"));
        match connector.bind(address) {
            Ok(()) => return Ok((connector, address)),
            Err(error) if error.status() == Status::SHARING_VIOLATION => {}
            Err(error) => return Err(fail(format!("Bind to {address}"), error.to_string())),
        }
    }
    Err(fail(
        "Bind to a port that was given up before",
        format!("ND_SHARING_VIOLATION for {TRIES} such ports"),
    ))
}

fn chosen_port(bench: &Bench) -> Verdict {
    let mut setup = Setup::near_connects(bench)?;
    let (connector, address) = bound_to_own_choice(&bench.near)?;
    let reported = local(&bench.near, &connector)?;
    bench
        .near
        .equal("the address of the connector", reported, address)?;
    setup.here = connector;
    setup.answer()?;
    let reported = setup.there.get_peer_address();
    let reported = bench
        .far
        .expect("GetPeerAddress of the passive side", reported)?;
    bench
        .far
        .equal("where the peer came from", reported, address)?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn picked_ports(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut ports = HashSet::new();
    let mut connectors = Vec::new();
    for _ in 0..4 {
        let connector = bound(side, side.address)?;
        let address = local(side, &connector)?;
        side.equal("the bound address", address.ip(), side.address.ip())?;
        let right = address.port() >= 49152 && ports.insert(address.port());
        ensure(
            right,
            "a port of its own from 49152 to 65535",
            format!("{address}, after {ports:?}"),
        )?;
        connectors.push(connector);
    }
    Ok(Pass::Right)
}

fn never_canceled(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let connector = side.connector()?;
    let cancelled = connector.cancel_overlapped_requests();
    side.expect("CancelOverlappedRequests", cancelled)?;
    side.expect("Bind after a cancel", connector.bind(side.address))?;
    let connector = side.connector()?;
    drop(side.queues(8, netdirect::QueuePairOptions::default())?);
    let bound = connector.bind(side.address);
    side.expect("Bind after the release of the queue pair", bound)?;
    Ok(Pass::Right)
}

fn taken_by_connector(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let holder = bound(side, side.address)?;
    let address = local(side, &holder)?;
    let again = side.open_again()?;
    for side in [side, &again] {
        let other = side.connector()?;
        let wanted = Status::SHARING_VIOLATION;
        side.refused("Bind to a port in use", other.bind(address), wanted)?;
        side.expect("Bind to another port", other.bind(side.address))?;
    }
    side.equal("the holder's address", local(side, &holder)?, address)?;
    Ok(Pass::Right)
}

fn taken_by_listener(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let listening = side.listening()?;
    let connector = side.connector()?;
    let taken = connector.bind(listening.address);
    let wanted = Status::SHARING_VIOLATION;
    side.refused("Bind to the port of a listener", taken, wanted)?;
    side.expect("Bind to another port", connector.bind(side.address))?;
    Ok(Pass::Right)
}

fn no_port_left(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let connector = side.connector()?;
    side.inject(Fault::Call {
        call: Call::BindConnector,
        nth: 1,
        status: Status::TOO_MANY_ADDRESSES,
    })?;
    let refused = connector.bind(side.address);
    side.refused("Bind without ports", refused, Status::TOO_MANY_ADDRESSES)?;
    let address = connector.get_local_address();
    let wanted = Status::CONNECTION_INVALID;
    side.refused(
        "GetLocalAddress of a connector without port",
        address,
        wanted,
    )?;
    side.expect("Bind when there are ports", connector.bind(side.address))?;
    Ok(Pass::Right)
}

fn twice(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let connector = bound(side, side.address)?;
    let address = local(side, &connector)?;
    let wanted = Status::ADDRESS_ALREADY_ASSOCIATED;
    for again in [side.address, address] {
        side.refused("the second Bind", connector.bind(again), wanted)?;
    }
    side.equal("the address", local(side, &connector)?, address)?;
    Ok(Pass::Right)
}

fn foreign_address(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let connector = side.connector()?;
    let mut nobody: SocketAddr = NOBODY.parse().map_err(|_| fail("an address", NOBODY))?;
    nobody.set_port(0);
    let wanted = Status::INVALID_ADDRESS;
    side.refused("Bind to a foreign address", connector.bind(nobody), wanted)?;
    side.expect("Bind to an own address", connector.bind(side.address))?;
    Ok(Pass::Right)
}

fn ports_of_connections(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut ports = HashSet::new();
    let mut setups = Vec::new();
    for at in 0..6 {
        let setup = Setup::near_connects(bench)?;
        if at % 2 == 1 {
            side.expect("Bind", setup.here.bind(side.address))?;
        }
        setup.answer()?;
        let address = local(side, &setup.here)?;
        let own = side.adapter.query_address_list();
        let own = side.expect("QueryAddressList", own)?;
        let is_own = own.iter().any(|own| own.ip() == address.ip());
        ensure(
            is_own && address.port() >= 49152 && ports.insert(address.port()),
            "an address of the adapter with a port of its own",
            format!("{address}, after {ports:?}"),
        )?;
        setup.complete()?;
        setups.push(setup);
    }
    for setup in &setups {
        setup.works()?;
    }
    for setup in &setups {
        disconnect(setup.active, &setup.here)?;
    }
    Ok(Pass::Right)
}
