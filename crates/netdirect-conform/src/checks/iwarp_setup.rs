//! Connections over iWARP.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use conform_report::{Pass, Step, Stop, Verdict, ensure, fail};
use netdirect::{AdapterFlags, CompletionResult, Fault, OpFlags, ReadLimits, RequestType, Status};

use super::common::{exchange, pattern, shared, sink, source};
use super::setup::{Setup, disconnect, ends, notification, quiet, round};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::{LinkEnd, LinkOptions};
use crate::need::{Need, Profile};

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Iwarp, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "IW-001.before",
        "has the passive side send before CompleteConnect: nothing arrives before it",
        before_completion,
    )
    .needs(&[Need::Connections]),
    new_check(
        "IW-002.first",
        "has the passive side send first: it may in the default profile, and is refused in the strict one",
        passive_first,
    )
    .also(&["AMB-040", "LSTN-002"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-003.unseen",
        "connects with a Receive posted on each side, which the first messages of the clients use",
        unseen,
    )
    .needs(&[Need::Connections]),
    new_check(
        "IW-012.limits",
        "posts more Reads on both sides than their limits, as soon as the connection is made: all of them succeed",
        more_reads,
    )
    .also(&["IW-013", "TST-060"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-014.none",
        "posts a Read on a connection whose outbound limit is 0",
        no_reads,
    )
    .also(&["AMB-045", "CONN-029"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-019.written",
        "writes and disconnects as soon as the result is there: all octets reach the peer's memory",
        written,
    )
    .needs(&[Need::Connections]),
    new_check(
        "IW-020.canceled",
        "disconnects with many Reads outstanding: each has its result, those under way with ND_CANCELED",
        outstanding,
    )
    .also(&["CONN-113", "LSTN-003"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-026.removed",
        "loses the stream because the peer's device is removed: what is outstanding ends canceled",
        lost,
    )
    .needs(&[Need::Connections, Need::Faults]),
    new_check(
        "IW-049.own",
        "connects to an address of the own adapter, which works if the flag for loopback says so",
        own_address,
    )
    .also(&["IW-050", "INFO-026"]),
    new_check(
        "IW-053.host",
        "uses the port of a program of the host, and has a program of the host use the port of a listener",
        host_ports,
    )
    .also(&["CONN-038", "PROV-002"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-054.many",
        "connects, exchanges a message and disconnects 150 times",
        many,
    )
    .also(&["CONN-005", "TST-033"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-064.late",
        "disconnects while the peer writes: no octet is placed after the call",
        late_octets,
    )
    .needs(&[Need::Connections]),
    new_check(
        "IW-065.bounded",
        "disconnects from a peer that has no room for what was sent, within the provider's time",
        bounded,
    )
    .needs(&[Need::Connections])
    .time_limits(Duration::from_millis(150)),
    new_check(
        "IW-067.held",
        "does not complete a connection: the provider tells the peer after a while, whose Accept then completes",
        held,
    )
    .needs(&[Need::Connections])
    .patience(Duration::from_millis(50)),
];

fn before_completion(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let (asking, answering) = (setup.asking_end(), setup.answering_end());
    let (room, data) = (sink(&bench.near, 64)?, source(&bench.far, 64)?);
    asking.receive(1, &[room.sge(..)])?;
    setup.answer()?;
    bench.far.step("post a Send before CompleteConnect");
    match answering
        .queues
        .qp
        .send(2, &[data.sge(..)], OpFlags::empty())
    {
        Ok(()) => {}
        Err(error) => bench.far.status(
            "a Send before CompleteConnect",
            error.status(),
            Status::CONNECTION_INVALID,
        )?,
    }
    let receives = &asking.queues.receives;
    bench.near.no_result("before CompleteConnect", receives)?;
    bench
        .near
        .equal("the memory", room.octets(0, 64), vec![0; 64])?;
    setup.complete()?;
    Ok(Pass::Right)
}

fn passive_first(bench: &Bench) -> Verdict {
    let setup = Setup::whole(&bench.far, &bench.near)?;
    let (asking, answering) = (setup.asking_end(), setup.answering_end());
    let (room, data) = (sink(&bench.far, 64)?, source(&bench.near, 64)?);
    if bench.profile() == Profile::Strict {
        let posted = answering
            .queues
            .qp
            .send(2, &[data.sge(..)], OpFlags::empty());
        let wanted = Status::CONNECTION_INVALID;
        let what = "a Send of the passive side before anything has come";
        bench.near.refused(what, posted, wanted)?;
        round(&asking, &answering)?;
    }
    asking.receive(1, &[room.sge(..)])?;
    answering.send(3, &[data.sge(..)], OpFlags::empty())?;
    answering.succeeds(RequestType::Send)?;
    asking.takes()?;
    bench
        .far
        .equal("the message", room.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn unseen(bench: &Bench) -> Verdict {
    for setup in [Setup::near_connects(bench)?, Setup::near_accepts(bench)?] {
        let (asking, answering) = (setup.asking_end(), setup.answering_end());
        let (here, there) = (sink(setup.active, 64)?, sink(setup.passive, 64)?);
        asking.receive(1, &[here.sge(..)])?;
        answering.receive(2, &[there.sge(..)])?;
        setup.answer()?;
        setup.complete()?;
        for (from, to, context) in [(&asking, &answering, 2), (&answering, &asking, 1)] {
            let data = source(from.side, 64)?;
            from.send(3, &[data.sge(..)], OpFlags::empty())?;
            let sent = from.succeeds(RequestType::Send)?;
            from.side
                .equal("the context of the Send", sent.request_context, 3)?;
            let taken = to.takes()?;
            to.side.equal(
                "the Receive that took the message",
                taken.request_context,
                context,
            )?;
        }
        for end in [&asking, &answering] {
            for cq in [&end.queues.receives, &end.queues.initiator] {
                let mut none = [CompletionResult::default(); 1];
                end.side.step("look for further results");
                end.side
                    .equal("further results", cq.get_results(&mut none), 0)?;
            }
        }
    }
    Ok(Pass::Right)
}

fn reads(from: &LinkEnd<'_>, target: &LinkEnd<'_>, count: u64) -> Step {
    let remote = shared(target.side, 64)?;
    let room = sink(from.side, 64)?;
    for context in 0..count {
        from.read(context, &[room.sge(..)], remote.remote())?;
    }
    for context in 0..count {
        let read = from.succeeds(RequestType::Read)?;
        from.side
            .equal("the order of the Reads", read.request_context, context)?;
    }
    from.side
        .equal("the octets read", room.octets(0, 64), pattern(64))
}

fn more_reads(bench: &Bench) -> Verdict {
    for most in [1, 2] {
        let options = LinkOptions {
            limits: ReadLimits {
                inbound: most,
                outbound: most,
            },
            ..LinkOptions::default()
        };
        let link = bench.link_with(options)?;
        reads(&link.near, &link.far, 12)?;
        reads(&link.far, &link.near, 12)?;
    }
    Ok(Pass::Right)
}

fn no_reads(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    let none = ReadLimits {
        inbound: 4,
        outbound: 0,
    };
    let some = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    setup.answer_with(none, &[], some, &[])?;
    setup.complete()?;
    let end = setup.asking_end();
    let (remote, room) = (shared(&bench.far, 64)?, sink(&bench.near, 64)?);
    end.read(1, &[room.sge(..)], remote.remote())?;
    let result = end.initiated("the Read")?;
    bench
        .near
        .status("the Read", result.status, Status::INVALID_DEVICE_REQUEST)?;
    bench
        .near
        .equal("the octets read", room.octets(0, 64), vec![0; 64])?;
    Ok(Pass::Right)
}

fn written(bench: &Bench) -> Verdict {
    const LENGTH: usize = 200_000;
    let link = bench.link()?;
    let target = shared(&bench.far, LENGTH)?;
    target.buffer.write(0, &vec![0; LENGTH]);
    let data = source(&bench.near, LENGTH)?;
    let notice = notification(&bench.far, &link.far.connector)?;
    link.near.write(1, &[data.sge(..)], target.remote())?;
    link.near.succeeds(RequestType::Write)?;
    let ended = quiet();
    let started = link.near.connector.disconnect(&ended);
    let _ = bench.near.started("Disconnect", started)?;
    ends(
        &bench.far,
        "the peer's NotifyDisconnect",
        &notice,
        Status::SUCCESS,
    )?;
    let same = target.octets(0, LENGTH) == pattern(LENGTH);
    ensure(same, "all octets in the peer's memory", "other octets")?;
    ends(&bench.near, "Disconnect", &ended, Status::SUCCESS)?;
    Ok(Pass::Right)
}

fn outstanding(bench: &Bench) -> Verdict {
    const READS: u64 = 16;
    const LENGTH: usize = 1 << 20;
    let options = LinkOptions {
        limits: ReadLimits {
            inbound: 1,
            outbound: 1,
        },
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let (remote, room) = (shared(&bench.far, LENGTH)?, sink(&bench.near, LENGTH)?);
    for context in 0..READS {
        link.near.read(context, &[room.sge(..)], remote.remote())?;
    }
    let ended = quiet();
    let started = link.near.connector.disconnect(&ended);
    let _ = bench.near.started("Disconnect", started)?;
    let mut cancelled = 0;
    for context in 0..READS {
        let result = link.near.initiated("a Read")?;
        bench
            .near
            .equal("the order of the results", result.request_context, context)?;
        let right = if cancelled > 0 {
            result.status == Status::CANCELED
        } else {
            [Status::SUCCESS, Status::CANCELED].contains(&result.status)
        };
        ensure(
            right,
            "successes and behind them ND_CANCELED",
            format!("{result:?}"),
        )?;
        cancelled += u64::from(result.status == Status::CANCELED);
    }
    ensure(
        cancelled > 0,
        "Reads that end with ND_CANCELED",
        "16 MiB read within a call",
    )?;
    ends(&bench.near, "Disconnect", &ended, Status::SUCCESS)?;
    Ok(Pass::Right)
}

fn lost(bench: &Bench) -> Verdict {
    let gone = bench.far.open_again()?;
    let setup = Setup::whole(&bench.near, &gone)?;
    setup.works()?;
    let end = setup.asking_end();
    let room = sink(&bench.near, 64)?;
    for context in 1..4 {
        end.receive(context, &[room.sge(..)])?;
    }
    let notice = notification(&bench.near, &setup.here)?;
    gone.inject(Fault::RemoveDevice)?;
    let results = bench
        .near
        .results("the posted Receives", &end.queues.receives, 3)?;
    for (result, context) in results.iter().zip(1..) {
        let right = [Status::CANCELED, Status::IO_TIMEOUT].contains(&result.status)
            && result.request_context == context;
        ensure(
            right,
            format!("ND_CANCELED of Receive {context}"),
            format!("{result:?}"),
        )?;
    }
    ends(&bench.near, "NotifyDisconnect", &notice, Status::SUCCESS)?;
    disconnect(&bench.near, &setup.here)?;
    Ok(Pass::Right)
}

fn own_address(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let flag = AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED;
    if side.info.flags.contains(flag) {
        let own = bench.alone();
        exchange(&own.link()?)?;
        let again = side.open_again()?;
        let setup = Setup::whole(side, &again)?;
        setup.works()?;
        return Ok(Pass::Right);
    }
    let setup = Setup::new(side, side)?;
    let started = setup.connect(super::setup::LIMITS, &[]);
    let status = side.ended("Connect to the own adapter", started, &setup.connected)?;
    side.status("Connect without loopback", status, Status::HOST_UNREACHABLE)?;
    Ok(Pass::Right)
}

/// A TCP socket of a program of the host: at the adapter's address, or at that of the host itself where there is no such
/// address for programs.
fn of_host(bench: &Bench, port: u16) -> std::io::Result<TcpListener> {
    let own = SocketAddr::new(bench.near.address.ip(), port);
    if bench.near.file.simulation().is_none() {
        return TcpListener::bind(own);
    }
    TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn host_ports(bench: &Bench) -> Verdict {
    let side = &bench.near;
    side.step("have the host use a port");
    let program = of_host(bench, 0).and_then(|socket| Ok((socket.local_addr()?, socket)));
    let Ok((address, program)) = program else {
        let why = "no program of this host can listen at the adapter's address";
        return Err(Stop::LeftOut(why.to_owned()));
    };
    let port = SocketAddr::new(side.address.ip(), address.port());
    let mut setup = Setup::near_accepts(bench)?;
    let listener = side.listener()?;
    side.step(format_args!("bind to {port}, which the host uses"));
    match listener.bind(port) {
        Err(error) => {
            side.status(
                "Bind to a port of the host",
                error.status(),
                Status::SHARING_VIOLATION,
            )?;
            side.expect("Bind to another port", listener.bind(side.address))?;
        }
        // Then the two are apart, and the peer finds the listener.
        Ok(()) => {
            side.expect("Listen", listener.listen(0))?;
            setup.listening.listener = listener;
            setup.listening.address = port;
        }
    }
    setup.answer()?;
    setup.complete()?;
    setup.works()?;
    drop(program);

    let listening = side.listening()?;
    side.step("have the host use the listener's port");
    let program = of_host(bench, listening.address.port());
    let mut setup = Setup::near_accepts(bench)?;
    setup.listening = listening;
    setup.answer()?;
    setup.complete()?;
    setup.works()?;
    drop(program);
    Ok(Pass::Right)
}

fn many(bench: &Bench) -> Verdict {
    let listening = bench.far.listening()?;
    for _ in 0..150 {
        let mut setup = Setup::near_connects(bench)?;
        setup.listening = listening.clone();
        setup.answer()?;
        setup.complete()?;
        let (data, room) = (source(&bench.near, 4096)?, sink(&bench.far, 4096)?);
        let (asking, answering) = (setup.asking_end(), setup.answering_end());
        answering.receive(1, &[room.sge(..)])?;
        asking.send(2, &[data.sge(..)], OpFlags::empty())?;
        answering.takes()?;
        disconnect(&bench.near, &setup.here)?;
        disconnect(&bench.far, &setup.there)?;
    }
    Ok(Pass::Right)
}

fn late_octets(bench: &Bench) -> Verdict {
    const LENGTH: usize = 1 << 20;
    let link = bench.link()?;
    exchange(&link)?;
    let target = shared(&bench.near, LENGTH)?;
    target.buffer.write(0, &vec![0; LENGTH]);
    let data = source(&bench.far, LENGTH)?;
    for context in 0..8 {
        link.far.write(context, &[data.sge(..)], target.remote())?;
    }
    let ended = quiet();
    let started = link.near.connector.disconnect(&ended);
    let before = target.octets(0, LENGTH);
    let _ = bench.near.started("Disconnect", started)?;
    ends(&bench.near, "Disconnect", &ended, Status::SUCCESS)?;
    disconnect(&bench.far, &link.far.connector)?;
    ensure(
        before == target.octets(0, LENGTH),
        "no octet placed after Disconnect",
        "octets that changed",
    )?;
    Ok(Pass::Right)
}

fn bounded(bench: &Bench) -> Verdict {
    const LENGTH: usize = 1 << 20;
    let link = bench.link()?;
    let data = source(&bench.near, LENGTH)?;
    for context in 0..16 {
        bench.near.step("post a Send that finds no Receive");
        // Where the peer ends the connection at once, the rest ends canceled.
        let posted = link
            .near
            .queues
            .qp
            .send(context, &[data.sge(..)], OpFlags::empty());
        bench.near.expect("post a Send", posted)?;
    }
    let ended = quiet();
    let started = link.near.connector.disconnect(&ended);
    bench.near.done("Disconnect", started, &ended)?;
    let results = bench
        .near
        .results("the Sends", &link.near.queues.initiator, 16)?;
    ensure(
        results.len() == 16,
        "a result for each Send",
        format!("{results:?}"),
    )?;
    Ok(Pass::Right)
}

fn held(bench: &Bench) -> Verdict {
    let setup = Setup::near_connects(bench)?;
    setup.answer()?;
    setup.accept_ends(Status::SUCCESS)?;
    let completed = quiet();
    let completing = setup.here.complete_connect(&completed);
    bench.near.done("CompleteConnect", completing, &completed)?;
    setup.works()?;
    match setup.here.get_peer_address() {
        Ok(address) => bench
            .near
            .equal("the peer", address, setup.listening.address)?,
        Err(error) => return Err(fail("the peer's address", error.to_string())),
    }
    Ok(Pass::Right)
}
