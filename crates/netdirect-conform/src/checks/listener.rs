//! `IND2Listener`.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{Call, Fault, Listener, Overlapped, QueuePairOptions, Started, Status};

use super::common::remove;
use super::setup::{LIMITS, NOBODY, Setup, disconnect, ends, quiet};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::Listening;
use crate::need::Need;
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Listener, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "LSTN-005.address",
        "binds a listener to a port of its own choice, and tells the address before and after Listen",
        own_address,
    )
    .also(&["LSTN-013", "LSTN-019", "LSTN-021", "AMB-067", "TST-011", "TST-109"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-006.taken",
        "binds a listener to the port of another listener and of a connector, also through a second opening of the adapter",
        taken,
    )
    .also(&["AMB-028", "AMB-029"]),
    new_check(
        "LSTN-006.restart",
        "releases a listener while a connection that it has accepted lives, and gets its port back at once or when that has ended",
        restarted,
    )
    .also(&["CONN-008"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-007.shortage",
        "has Bind and Listen fail for want of resources, and succeed afterwards",
        shortage,
    )
    .also(&["LSTN-014"])
    .needs(&[Need::Connections, Need::Faults]),
    new_check(
        "LSTN-008.ports",
        "binds a listener with port 0 when no port is left, and again when there are ports",
        no_port_left,
    )
    .needs(&[Need::Faults]),
    new_check(
        "LSTN-009.port",
        "binds listeners with port 0, each of which has a port of its own from 49152 to 65535",
        picked_ports,
    )
    .also(&["IW-052"]),
    new_check(
        "LSTN-010.wildcard",
        "listens on the wildcard address, to which peers come by each address of the adapter and by no other",
        wildcard,
    )
    .also(&["IW-057", "LSTN-019"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-011.twice",
        "binds a listener that is bound, opens the adapter once more and listens twice",
        twice,
    )
    .also(&["AMB-028", "LSTN-017", "TST-069"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-012.foreign",
        "binds a listener to an address that the adapter does not have, and then to one that it has",
        foreign_address,
    ),
    new_check(
        "LSTN-015.backlog",
        "lets three peers come at once, with no limit and with room for one: the surplus ones are refused",
        backlog,
    )
    .also(&["CONN-023", "CONN-032", "IW-055"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-018.unbound",
        "calls Listen, GetLocalAddress and GetConnectionRequest before Bind, and GetConnectionRequest before Listen",
        too_early,
    )
    .also(&["LSTN-021", "LSTN-030"]),
    new_check(
        "LSTN-023.waiting",
        "asks for a request of a peer that waits already, and gets its private data and address",
        peer_waits,
    )
    .also(&["LSTN-027", "LSTN-032"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-024.pending",
        "asks for a request of a peer, which stays pending until one comes and ends before anybody accepts",
        pending,
    )
    .also(&["AMB-061", "LSTN-029"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-025.canceled",
        "cancels GetConnectionRequests, which end with that status, and makes them again",
        cancelled,
    )
    .also(&["TST-045"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-025.released",
        "releases a listener with GetConnectionRequests pending",
        |bench| {
            let side = &bench.near;
            let Listening { listener, .. } = side.listening()?;
            let (first, second) = (side.connector()?, side.connector()?);
            let pending = [ask(side, &listener, &first)?, ask(side, &listener, &second)?];
            side.step("release the listener");
            drop(listener);
            for request in pending {
                ends(side, "GetConnectionRequest", &request, Status::CANCELED)?;
            }
            Ok(Pass::Right)
        },
    ),
    new_check(
        "LSTN-026.removed",
        "asks for a request of a peer after the device was removed, which ends those that are pending",
        removed,
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "LSTN-028.several",
        "has four GetConnectionRequests pending, each of which gets one of four peers",
        several,
    )
    .also(&["TST-034"])
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-031.busy",
        "asks for a request with connectors that wait, hold a request, connect or are connected",
        busy_connectors,
    )
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-031.dead",
        "connects and asks for a request with connectors that were disconnected, cancelled, or have rejected a peer",
        dead_connectors,
    )
    .needs(&[Need::Connections]),
    new_check(
        "LSTN-033.released",
        "releases a listener at which peers wait: they are refused, and so are those that come later",
        released,
    )
    .also(&["CONN-023", "TST-067"])
    .needs(&[Need::Connections]),
    new_check(
        "GEN-022.connector",
        "asks for a request of a peer with a connector of another adapter, and then with an own one",
        |bench| {
            let other = bench.other()?;
            let foreign = other.connector()?;
            let listening = bench.near.listening()?;
            let started = listening.listener.get_connection_request(&foreign, &quiet());
            let wanted = Status::INVALID_PARAMETER_1;
            bench.near.refused("GetConnectionRequest with a foreign connector", started, wanted)?;
            let own = bench.near.connector()?;
            ask(&bench.near, &listening.listener, &own)?;
            Ok(Pass::Right)
        },
    ),
];

/// A GetConnectionRequest that is under way.
fn ask(
    side: &Side,
    listener: &Arc<dyn Listener>,
    connector: &Arc<dyn netdirect::Connector>,
) -> Step<Overlapped> {
    let request = quiet();
    let started = listener.get_connection_request(connector, &request);
    let _ = side.started("GetConnectionRequest", started)?;
    Ok(request)
}

fn local(side: &Side, listener: &Arc<dyn Listener>) -> Step<SocketAddr> {
    side.expect("GetLocalAddress", listener.get_local_address())
}

/// The wildcard of the side's family.
fn any(side: &Side, port: u16) -> SocketAddr {
    if side.address.is_ipv4() {
        SocketAddr::from(([0; 4], port))
    } else {
        SocketAddr::from(([0u16; 8], port))
    }
}

/// A listener that is bound to a port which was given up a moment ago.
fn bound_to_own_choice(side: &Side) -> Step<(Arc<dyn Listener>, SocketAddr)> {
    for _ in 0..50 {
        let Listening { listener, address } = side.listening()?;
        drop(listener);
        let listener = side.listener()?;
        side.step(format_args!("bind to {address}"));
        match listener.bind(address) {
            Ok(()) => return Ok((listener, address)),
            Err(error) if error.status() == Status::SHARING_VIOLATION => {}
            Err(error) => return Err(fail(format!("Bind to {address}"), error.to_string())),
        }
    }
    Err(fail(
        "Bind to a port that was given up before",
        "ND_SHARING_VIOLATION, 50 times",
    ))
}

fn own_address(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut setup = Setup::near_accepts(bench)?;
    let (listener, address) = bound_to_own_choice(side)?;
    side.equal("the address after Bind", local(side, &listener)?, address)?;
    side.expect("Listen", listener.listen(0))?;
    side.equal("the address after Listen", local(side, &listener)?, address)?;
    setup.connect_to(Listening { listener, address })?;
    setup.works()?;
    Ok(Pass::Right)
}

fn taken(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let listening = side.listening()?;
    let idle = side.listener()?;
    side.expect("Bind", idle.bind(side.address))?;
    let connector = side.connector()?;
    side.expect("Bind the connector", connector.bind(side.address))?;
    let address = side.expect("GetLocalAddress", connector.get_local_address())?;
    let again = side.open_again()?;
    for opened in [side, &again] {
        for address in [listening.address, local(side, &idle)?, address] {
            let listener = opened.listener()?;
            let wanted = Status::SHARING_VIOLATION;
            opened.refused(
                format_args!("Bind to {address}"),
                listener.bind(address),
                wanted,
            )?;
            opened.expect("Bind to another port", listener.bind(opened.address))?;
        }
    }
    Ok(Pass::Right)
}

/// A listener at this address; `None` if the address is in use.
fn listens_at(side: &Side, address: SocketAddr) -> Step<Option<Listening>> {
    let listener = side.listener()?;
    side.step(format_args!("bind to {address}"));
    match listener.bind(address) {
        Err(error) if error.status() == Status::SHARING_VIOLATION => return Ok(None),
        bound => side.expect(format_args!("Bind to {address}"), bound)?,
    }
    side.expect("Listen", listener.listen(0))?;
    Ok(Some(Listening { listener, address }))
}

/// As [`listens_at`], when a connection that has ended no longer holds the port.
fn listens_in_time(side: &Side, address: SocketAddr) -> Step<Listening> {
    let mut found = Ok(None);
    side.until(|| {
        found = listens_at(side, address);
        !matches!(found, Ok(None))
    })?;
    found?.ok_or_else(|| fail(format!("Bind to {address}"), "an address in use"))
}

/// Starts a second server on a port while a connection of the first one is still open.
fn restarted(bench: &Bench) -> Verdict {
    let side = &bench.near;
    for opens_again in [false, true] {
        let mut setup = Setup::near_accepts(bench)?;
        setup.answer()?;
        setup.complete()?;
        let address = setup.listening.address;
        let server = if opens_again {
            side.open_again()?
        } else {
            side.again("near")
        };
        let other = side.listening()?;
        side.step("release the listener");
        setup.listening = other;
        let at_once = listens_at(&server, address)?;
        setup.works()?;
        let (listening, lasting) = match at_once {
            Some(listening) => (listening, Some(setup)),
            None => {
                disconnect(setup.active, &setup.here)?;
                disconnect(side, &setup.there)?;
                drop(setup);
                (listens_in_time(&server, address)?, None)
            }
        };
        let next = Setup {
            listening,
            ..Setup::new(&bench.far, &server)?
        };
        next.answer()?;
        next.complete()?;
        next.works()?;
        if let Some(setup) = lasting {
            setup.works()?;
        }
    }
    Ok(Pass::Right)
}

fn shortage(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut setup = Setup::near_accepts(bench)?;
    let listener = side.listener()?;
    let status = Status::INSUFFICIENT_RESOURCES;
    let fault = |call| Fault::Call {
        call,
        nth: 1,
        status,
    };
    side.inject(fault(Call::BindListener))?;
    side.refused(
        "Bind without resources",
        listener.bind(side.address),
        status,
    )?;
    side.expect("Bind afterwards", listener.bind(side.address))?;
    side.inject(fault(Call::Listen))?;
    side.refused("Listen without resources", listener.listen(0), status)?;
    side.expect("Listen afterwards", listener.listen(0))?;
    let address = local(side, &listener)?;
    setup.connect_to(Listening { listener, address })?;
    Ok(Pass::Right)
}

fn no_port_left(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let listener = side.listener()?;
    let status = Status::TOO_MANY_ADDRESSES;
    side.inject(Fault::Call {
        call: Call::BindListener,
        nth: 1,
        status,
    })?;
    side.refused("Bind without ports", listener.bind(side.address), status)?;
    let wanted = Status::INVALID_DEVICE_STATE;
    side.refused("Listen without a port", listener.listen(0), wanted)?;
    side.expect("Bind when there are ports", listener.bind(side.address))?;
    side.expect("Listen", listener.listen(0))?;
    Ok(Pass::Right)
}

fn picked_ports(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut ports = HashSet::new();
    let mut kept = Vec::new();
    for address in [side.address, any(side, 0), side.address, any(side, 0)] {
        let listener = side.listener()?;
        side.expect(format_args!("Bind to {address}"), listener.bind(address))?;
        let reported = local(side, &listener)?;
        ensure(
            reported.port() >= 49152 && ports.insert(reported.port()),
            "a port of its own from 49152 to 65535",
            format!("{reported}, after {ports:?}"),
        )?;
        let connector = side.connector()?;
        side.expect("Bind a connector", connector.bind(side.address))?;
        let reported = side.expect("GetLocalAddress", connector.get_local_address())?;
        ensure(
            reported.port() >= 49152 && ports.insert(reported.port()),
            "a port of its own from 49152 to 65535 for the connector",
            format!("{reported}, after {ports:?}"),
        )?;
        kept.push((listener, connector));
    }
    Ok(Pass::Right)
}

fn wildcard(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let listener = side.listener()?;
    side.expect("Bind to the wildcard address", listener.bind(any(side, 0)))?;
    side.expect("Listen", listener.listen(0))?;
    let reported = local(side, &listener)?;
    let own = side.expect("QueryAddressList", side.adapter.query_address_list())?;
    let is_own = reported.ip().is_unspecified() || own.iter().any(|own| own.ip() == reported.ip());
    ensure(
        is_own && reported.port() != 0,
        "the adapter's address or the wildcard",
        reported.to_string(),
    )?;
    let same = |address: &SocketAddr| address.is_ipv4() == side.address.is_ipv4();
    for address in own.iter().filter(|own| same(own)) {
        // The peer is an adapter that is sure to reach the address: the one that has it.
        let mut setup = Setup::new(side, side)?;
        if address.ip() == side.address.ip() {
            setup = Setup::new(&bench.far, side)?;
        }
        setup.connect_to(Listening {
            listener: Arc::clone(&listener),
            address: SocketAddr::new(address.ip(), reported.port()),
        })?;
    }
    let all = side.expect(
        "QueryAddressList of the provider",
        side.provider.query_address_list(),
    )?;
    let others: HashSet<IpAddr> = all
        .iter()
        .filter(|address| same(address))
        .map(SocketAddr::ip)
        .collect();
    for other in others
        .into_iter()
        .filter(|other| !own.iter().any(|own| own.ip() == *other))
    {
        let stranger = side.open_at(SocketAddr::new(other, 0))?;
        let connector = stranger.connector()?;
        let queues = stranger.queues(8, netdirect::QueuePairOptions::default())?;
        let request = quiet();
        let to = SocketAddr::new(other, reported.port());
        let started = connector.connect(&queues.qp, to, 4, 4, &[], &request);
        let what = format!("Connect to {to}, which is another adapter's");
        let status = stranger.ended(&what, started, &request)?;
        stranger.status(what, status, Status::CONNECTION_REFUSED)?;
    }
    Ok(Pass::Right)
}

fn twice(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut setup = Setup::near_accepts(bench)?;
    let listener = side.listener()?;
    side.expect("Bind", listener.bind(side.address))?;
    let address = local(side, &listener)?;
    let wanted = Status::ADDRESS_ALREADY_ASSOCIATED;
    side.refused("the second Bind", listener.bind(side.address), wanted)?;
    side.refused(
        "the second Bind to the same port",
        listener.bind(address),
        wanted,
    )?;
    let again = side.open_again()?;
    side.expect("Listen", listener.listen(0))?;
    side.refused("Bind after Listen", listener.bind(side.address), wanted)?;
    side.step("the second Listen");
    if listener.listen(0).is_ok() {
        return Err(fail("a failure of the second Listen", "success"));
    }
    drop(again);
    setup.connect_to(Listening { listener, address })?;
    Ok(Pass::Right)
}

fn foreign_address(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let listener = side.listener()?;
    let mut nobody: SocketAddr = NOBODY.parse().map_err(|_| fail("an address", NOBODY))?;
    nobody.set_port(0);
    let wanted = Status::INVALID_ADDRESS;
    side.refused("Bind to a foreign address", listener.bind(nobody), wanted)?;
    let wanted = Status::INVALID_DEVICE_STATE;
    side.refused("Listen after a refused Bind", listener.listen(0), wanted)?;
    side.expect("Bind to an own address", listener.bind(side.address))?;
    side.expect("Listen", listener.listen(0))?;
    Ok(Pass::Right)
}

fn backlog(bench: &Bench) -> Verdict {
    const PEERS: usize = 3;
    for (backlog, room) in [(0, PEERS), (1, 1)] {
        let listener = bench.near.listener()?;
        bench
            .near
            .expect("Bind", listener.bind(bench.near.address))?;
        bench.near.expect(
            format_args!("Listen for {backlog}"),
            listener.listen(backlog),
        )?;
        let address = local(&bench.near, &listener)?;
        let mut peers = Vec::new();
        for _ in 0..PEERS {
            let mut setup = Setup::near_accepts(bench)?;
            setup.listening = Listening {
                listener: Arc::clone(&listener),
                address,
            };
            let connecting = setup.connect(LIMITS, &[]);
            let _ = bench.far.started("Connect", connecting)?;
            peers.push(setup);
        }
        bench.far.step(format!(
            "wait until {} of {PEERS} peers are refused",
            PEERS - room
        ));
        let refused = || {
            // A poll of the one that waits would move the clock of a simulation to the end of its wait.
            let is_refused =
                |setup: &&Setup<'_>| setup.connected.status() == Status::CONNECTION_REFUSED;
            peers.iter().filter(is_refused).count()
        };
        bench.far.until(|| refused() >= PEERS - room)?;
        let waiting: Vec<_> = peers
            .iter()
            .filter(|setup| setup.connected.is_pending())
            .collect();
        bench.far.equal("peers that wait", waiting.len(), room)?;
        for setup in waiting {
            bench
                .far
                .stays("the Connect of a peer that waits", &setup.connected)?;
        }
        // Those that wait are served, in whatever order they came.
        for _ in 0..room {
            let there = bench.near.connector()?;
            let arrived = ask(&bench.near, &listener, &there)?;
            ends(
                &bench.near,
                "GetConnectionRequest",
                &arrived,
                Status::SUCCESS,
            )?;
            bench.near.expect("Reject", there.reject(b"served"))?;
        }
        let mut served = 0;
        for setup in &peers {
            setup.connect_ends(Status::CONNECTION_REFUSED)?;
            served += usize::from(
                setup
                    .here
                    .get_private_data()
                    .is_ok_and(|data| data == b"served"),
            );
        }
        bench.near.equal("peers that were served", served, room)?;
    }
    Ok(Pass::Right)
}

fn too_early(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (listener, connector) = (side.listener()?, side.connector()?);
    let wanted = Status::INVALID_DEVICE_STATE;
    let asks = |state: &str| {
        let started = listener.get_connection_request(&connector, &quiet());
        side.refused(
            format_args!("GetConnectionRequest, {state}"),
            started,
            wanted,
        )
    };
    side.refused("Listen before Bind", listener.listen(0), wanted)?;
    let address = listener.get_local_address();
    side.refused("GetLocalAddress before Bind", address, wanted)?;
    asks("unbound")?;
    side.expect("Bind", listener.bind(side.address))?;
    asks("bound")?;
    side.expect("Listen", listener.listen(0))?;
    ask(side, &listener, &connector)?;
    Ok(Pass::Right)
}

fn peer_waits(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    bench
        .far
        .expect("Bind", setup.here.bind(bench.far.address))?;
    let from = bench
        .far
        .expect("GetLocalAddress", setup.here.get_local_address())?;
    let connecting = setup.connect(LIMITS, b"I wait");
    let _ = bench.far.started("Connect", connecting)?;
    bench.far.stays("Connect", &setup.connected)?;
    let arrived = quiet();
    let listener = &setup.listening.listener;
    let asked = listener.get_connection_request(&setup.there, &arrived);
    bench.near.done("GetConnectionRequest", asked, &arrived)?;
    let data = setup.there.get_private_data();
    let data = bench.near.expect("GetPrivateData", data)?;
    bench
        .near
        .equal("the private data", data, b"I wait".to_vec())?;
    let peer = setup.there.get_peer_address();
    let peer = bench.near.expect("GetPeerAddress", peer)?;
    bench.near.equal("the peer's address", peer, from)?;
    setup.answer_pending()?;
    setup.complete()?;
    setup.works()?;
    Ok(Pass::Right)
}

fn pending(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    let arrived = quiet();
    let listener = &setup.listening.listener;
    let asked = listener.get_connection_request(&setup.there, &arrived);
    let asked = bench.near.started("GetConnectionRequest", asked)?;
    let seen = format!("{asked:?}");
    ensure(
        asked == Started::Pending,
        "GetConnectionRequest to be pending",
        seen,
    )?;
    bench.near.stays("GetConnectionRequest", &arrived)?;
    let look = listener.get_overlapped_result(&arrived, false);
    bench
        .near
        .status("GetOverlappedResult of the listener", look, Status::PENDING)?;
    let connecting = setup.connect(LIMITS, &[]);
    let _ = bench.far.started("Connect", connecting)?;
    ends(
        &bench.near,
        "GetConnectionRequest",
        &arrived,
        Status::SUCCESS,
    )?;
    let look = listener.get_overlapped_result(&arrived, false);
    bench
        .near
        .status("GetOverlappedResult of the listener", look, Status::SUCCESS)?;
    bench
        .far
        .stays("Connect, before Accept", &setup.connected)?;
    setup.answer_pending()?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn cancelled(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_accepts(bench)?;
    let listener = &setup.listening.listener;
    let other = side.connector()?;
    let pending = [
        ask(side, listener, &setup.there)?,
        ask(side, listener, &other)?,
    ];
    let cancelled = listener.cancel_overlapped_requests();
    side.expect("CancelOverlappedRequests", cancelled)?;
    for request in &pending {
        side.status("GetConnectionRequest", request.status(), Status::CANCELED)?;
        let look = listener.get_overlapped_result(request, true);
        side.status("GetOverlappedResult", look, Status::CANCELED)?;
    }
    setup.answer()?;
    setup.complete()?;
    ask(side, listener, &other)?;
    Ok(Pass::Right)
}

fn removed(bench: &Bench) -> Verdict {
    let gone = bench.near.open_again()?;
    let listening = gone.listening()?;
    let (first, second) = (gone.connector()?, gone.connector()?);
    let pending = ask(&gone, &listening.listener, &first)?;
    remove(&gone)?;
    let wanted = Status::DEVICE_REMOVED;
    gone.status("the pending GetConnectionRequest", pending.status(), wanted)?;
    let started = listening.listener.get_connection_request(&second, &quiet());
    gone.refused("GetConnectionRequest after the removal", started, wanted)?;
    Ok(Pass::Right)
}

fn several(bench: &Bench) -> Verdict {
    const PEERS: usize = 4;
    let side = &bench.near;
    let listening = side.listening()?;
    let mut waiting = Vec::new();
    for _ in 0..PEERS {
        let connector = side.connector()?;
        waiting.push((ask(side, &listening.listener, &connector)?, connector));
    }
    let mut from = HashSet::new();
    let mut peers = Vec::new();
    for at in 0..PEERS {
        let mut setup = Setup::near_accepts(bench)?;
        setup.listening = listening.clone();
        let connecting = setup.connect(LIMITS, &[u8::try_from(at).unwrap_or(0)]);
        let _ = bench.far.started("Connect", connecting)?;
        peers.push(setup);
        side.step(format_args!("wait until {} requests have ended", at + 1));
        let ended = || {
            waiting
                .iter()
                .filter(|(request, _)| !request.is_pending())
                .count()
        };
        side.until(|| ended() > at)?;
        side.equal("requests that have ended", ended(), at + 1)?;
    }
    for (request, connector) in &waiting {
        side.status("GetConnectionRequest", request.status(), Status::SUCCESS)?;
        let data = side.expect("GetPrivateData", connector.get_private_data())?;
        from.extend(data);
    }
    side.equal("the peers", from.len(), PEERS)?;
    Ok(Pass::Right)
}

fn busy_connectors(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let setup = Setup::near_accepts(bench)?;
    let listener = &setup.listening.listener;
    let wanted = Status::CONNECTION_ACTIVE;
    let refused = |connector: &Arc<dyn netdirect::Connector>, state: &str| {
        let started = listener.get_connection_request(connector, &quiet());
        let what = format!("GetConnectionRequest with a connector that {state}");
        side.refused(what, started, wanted)
    };
    let arrived = ask(side, listener, &setup.there)?;
    refused(&setup.there, "waits")?;
    let connecting = setup.connect(LIMITS, &[]);
    let _ = bench.far.started("Connect", connecting)?;
    ends(side, "GetConnectionRequest", &arrived, Status::SUCCESS)?;
    refused(&setup.there, "holds a request")?;
    setup.answer_pending()?;
    refused(&setup.there, "accepts")?;
    setup.complete()?;
    refused(&setup.there, "is connected")?;
    setup.works()?;
    let active = Setup::near_connects(bench)?;
    active.offer()?;
    refused(&active.here, "connects")?;
    active.answer_pending()?;
    active.complete()?;
    refused(&active.here, "is connected as the active side")?;
    disconnect(side, &setup.there)?;
    Ok(Pass::Right)
}

fn dead_connectors(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let ended = Setup::near_connects(bench)?;
    ended.answer()?;
    ended.complete()?;
    disconnect(side, &ended.here)?;

    let cancelled = Setup::near_connects(bench)?;
    let connecting = cancelled.connect(LIMITS, &[]);
    let _ = side.started("Connect", connecting)?;
    let cancel = cancelled.here.cancel_overlapped_requests();
    side.expect("CancelOverlappedRequests", cancel)?;
    cancelled.connect_ends(Status::CANCELED)?;

    let rejected = Setup::near_accepts(bench)?;
    rejected.offer()?;
    side.expect("Reject", rejected.there.reject(&[]))?;
    rejected.connect_ends(Status::CONNECTION_REFUSED)?;

    let to = bench.far.listening()?;
    let at = side.listening()?;
    let wanted = Status::INVALID_DEVICE_STATE;
    for (connector, state) in [
        (&ended.here, "was disconnected"),
        (&cancelled.here, "was cancelled"),
        (&rejected.there, "has rejected a peer"),
    ] {
        let queues = side.queues(8, QueuePairOptions::default())?;
        let connecting = connector.connect(&queues.qp, to.address, 4, 4, &[], &quiet());
        let what = format!("Connect with a connector that {state}");
        side.refused(what, connecting, wanted)?;
        let asked = at.listener.get_connection_request(connector, &quiet());
        let what = format!("GetConnectionRequest with a connector that {state}");
        side.refused(what, asked, wanted)?;
    }
    // The listener is as it was.
    let _ = ask(side, &at.listener, &side.connector()?)?;
    Ok(Pass::Right)
}

fn released(bench: &Bench) -> Verdict {
    let setup = Setup::near_accepts(bench)?;
    let connecting = setup.connect(LIMITS, &[]);
    let _ = bench.far.started("Connect", connecting)?;
    bench.far.stays("Connect", &setup.connected)?;
    let Setup {
        listening,
        here,
        asking,
        connected,
        ..
    } = setup;
    let Listening { listener, address } = listening;
    bench.near.step("release the listener");
    drop(listener);
    let wanted = Status::CONNECTION_REFUSED;
    ends(
        &bench.far,
        "the Connect of a peer that waits",
        &connected,
        wanted,
    )?;
    let request = quiet();
    let started = here.connect(&asking.qp, address, 4, 4, &[], &request);
    let status = bench
        .far
        .ended("Connect of a peer that comes later", started, &request)?;
    bench
        .far
        .status("Connect of a peer that comes later", status, wanted)?;
    Ok(Pass::Right)
}
