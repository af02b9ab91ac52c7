//! Binds and Invalidates.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, fail};
use netdirect::{MemoryWindow, MrFlags, OpFlags, RemoteAddress, RequestType, Status};

use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::checks::common::{exchange, pattern, shared, sink, source};
use crate::checks::requests::{NONE, initiated, much, one_of, over, received, two_way};
use crate::link::{Link, LinkEnd, LinkOptions};
use crate::need::Need;
use crate::side::Memory;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::QueuePair, name, title, run).needs(&[Need::Connections, Need::Windows])
}

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "QP-041.read",
        "binds a window for reading to a region without remote rights: the peer reads through it, and cannot write",
        |bench| one_right(bench, OpFlags::ALLOW_READ),
    )
    .also(&["QP-035", "IW-031"]),
    new_check(
        "QP-042.write",
        "binds a window for writing to a region without remote rights: the peer writes through it, and cannot read",
        |bench| one_right(bench, OpFlags::ALLOW_WRITE),
    )
    .also(&["QP-035", "IW-031"]),
    new_check(
        "TST-062.both",
        "binds a window for both to part of a region without remote rights, and the peer uses exactly that part",
        both_rights,
    )
    .also(&["QP-041", "QP-042", "IW-031"]),
    new_check(
        "QP-038.rights",
        "binds a window for writing to a region that is not for writing, and ranges that are not in the region",
        refused_binds,
    )
    .also(&["QP-002", "QP-039", "AMB-011"]),
    new_check(
        "QP-040.nothing",
        "binds a window without a right, which opens nothing and holds the region",
        no_right,
    )
    .also(&["AMB-010"]),
    new_check(
        "TST-082.first",
        "binds a window without rights on the passive side before anything came in: its region is busy",
        bind_first,
    ),
    new_check(
        "QP-043.twice",
        "binds a window that is bound",
        |bench| {
            let link = two_way(bench)?;
            let (memory, window) = (region(bench)?, bench.near.window()?);
            post_bind(&link.near, &memory, &window, OpFlags::ALLOW_READ)?;
            post_bind(&link.near, &memory, &window, OpFlags::ALLOW_READ)?;
            fails(&link, RequestType::Bind, &[(RequestType::Bind, BIND, Status::SUCCESS)])
        },
    )
    .also(&["RES-011"]),
    new_check(
        "QP-050.unbound",
        "invalidates a window that nobody has bound",
        |bench| {
            let link = two_way(bench)?;
            let window = bench.near.window()?;
            post_invalidate(&link.near, &window)?;
            fails(&link, RequestType::Invalidate, &[])
        },
    )
    .also(&["RES-011", "RES-001"]),
    new_check(
        "QP-044.order",
        "binds a window and sends its token in the next request: the peer can use it as soon as the message is there",
        bind_before_send,
    ),
    new_check(
        "TST-099.passive",
        "has only the passive side use a new connection: it binds a window and sends its token",
        passive_first,
    )
    .also(&["AMB-040"])
    .needs(&[Need::Connections, Need::FarWindows, Need::DefaultProfile]),
    new_check(
        "QP-048.under-way",
        "invalidates a window while the peer's long Write goes through it: the rest of the Write does not arrive",
        invalidate_under_way,
    ),
    new_check(
        "QP-049.afterwards",
        "invalidates a window, whose token then ends the peer's connection",
        used_afterwards,
    ),
    new_check(
        "QP-051.own",
        "invalidates its own window, which leaves the peer's window as it was",
        own_windows,
    )
    .needs(&[Need::Connections, Need::Windows, Need::FarWindows]),
    new_check(
        "IW-031.connection",
        "has a second connection use a window of the first: it is refused, and the first one goes on",
        other_connection,
    ),
    new_check(
        "TST-071.read",
        "reads from an invalidated window into more memory than there is",
        |bench| longer_than_memory(bench, RequestType::Read),
    )
    .needs(&[Need::Connections, Need::FarWindows]),
    new_check(
        "TST-072.write",
        "writes to an invalidated window from more memory than there is",
        |bench| longer_than_memory(bench, RequestType::Write),
    )
    .needs(&[Need::Connections, Need::FarWindows]),
    new_check(
        "TST-073.part",
        "binds part of a region with all remote rights, and invalidates behind a Send: the results keep that order",
        invalidate_behind_send,
    ),
    new_check(
        "TST-074.past-the-end",
        "reads past the end of the peer's window, but not of its region",
        |bench| past_the_window(bench, RequestType::Read),
    )
    .also(&["AMB-002", "IW-031"])
    .needs(&[Need::Connections, Need::FarWindows]),
    new_check(
        "TST-075.past-the-end",
        "writes far past the end of the peer's window, which the result tells",
        |bench| past_the_window(bench, RequestType::Write),
    )
    .also(&["AMB-002", "IW-031"])
    .needs(&[Need::Connections, Need::FarWindows]),
    new_check(
        "TST-076.read-only",
        "writes into the peer's window that is for reading, which the result tells, and the peer's Receive is cancelled",
        write_into_read_only,
    )
    .also(&["AMB-002", "IW-032"])
    .needs(&[Need::Connections, Need::FarWindows]),
];

const BIND: u64 = 0xB1;
const INVALIDATE: u64 = 0xB2;

/// A region that the near side may write and peers may not use.
fn region(bench: &Bench) -> Step<Memory> {
    let memory = bench.near.memory(4096, MrFlags::ALLOW_LOCAL_WRITE)?;
    memory.buffer.write(0, &pattern(4096));
    Ok(memory)
}

/// Posts a Bind of the 64 octets from 64 on.
fn post_bind(
    end: &LinkEnd<'_>,
    memory: &Memory,
    window: &Arc<dyn MemoryWindow>,
    rights: OpFlags,
) -> Step<RemoteAddress> {
    let address = memory.buffer.address() + 64;
    let qp = &end.queues.qp;
    let posted = qp.bind(BIND, &memory.region, window, address, 64, rights);
    end.side.expect("post a Bind", posted)?;
    Ok(RemoteAddress {
        address,
        token: window.get_remote_token(),
    })
}

fn bound(
    end: &LinkEnd<'_>,
    memory: &Memory,
    window: &Arc<dyn MemoryWindow>,
    rights: OpFlags,
) -> Step<RemoteAddress> {
    let remote = post_bind(end, memory, window, rights)?;
    initiated(end, &[(RequestType::Bind, BIND, Status::SUCCESS)])?;
    Ok(remote)
}

fn post_invalidate(end: &LinkEnd<'_>, window: &Arc<dyn MemoryWindow>) -> Step {
    let posted = end.queues.qp.invalidate(INVALIDATE, window, NONE);
    end.side.expect("post an Invalidate", posted)
}

fn invalidated(end: &LinkEnd<'_>, window: &Arc<dyn MemoryWindow>) -> Step {
    post_invalidate(end, window)?;
    let wanted = (RequestType::Invalidate, INVALIDATE, Status::SUCCESS);
    initiated(end, &[wanted])
}

/// After these results the request of this kind makes no sense.
fn fails(link: &Link<'_>, kind: RequestType, before: &[(RequestType, u64, Status)]) -> Verdict {
    initiated(&link.near, before)?;
    let result = link.near.initiated("the request that makes no sense")?;
    let got = (result.request_type, result.status);
    let wanted = (kind, Status::INVALID_DEVICE_REQUEST);
    link.near.side.equal("the result", got, wanted)?;
    Ok(Pass::Right)
}

const REFUSED: [Status; 2] = [Status::ACCESS_VIOLATION, Status::REMOTE_ERROR];

/// A Read of this end succeeds, with the octets of the pattern from `at` on.
fn reads(end: &LinkEnd<'_>, remote: RemoteAddress, at: usize) -> Step {
    let into = sink(end.side, 32)?;
    end.read(0xE1, &[into.sge(..)], remote)?;
    end.succeeds(RequestType::Read)?;
    let wanted = pattern(at + 32).split_off(at);
    let octets = into.octets(0, 32);
    end.side.equal("the octets read", octets, wanted)
}

/// A Write of this end arrives.
fn writes(end: &LinkEnd<'_>, remote: RemoteAddress, memory: &Memory, at: usize) -> Step {
    let from = end.side.memory(32, MrFlags::empty())?;
    from.buffer.fill(0xEE);
    end.write(0xE2, &[from.sge(..)], remote)?;
    end.succeeds(RequestType::Write)?;
    end.side.step("wait for the Write");
    end.side.until(|| memory.octets(at, 32) == [0xEE; 32])
}

/// A Read of this end is refused, which ends the connection.
fn cannot_read(end: &LinkEnd<'_>, remote: RemoteAddress) -> Step {
    let into = sink(end.side, 32)?;
    end.read(0xE3, &[into.sge(..)], remote)?;
    let result = end.initiated("the Read that is refused")?;
    one_of("the Read's status", result.status, &REFUSED)?;
    let octets = into.octets(0, 32);
    end.side.equal("the octets read", octets, vec![0; 32])?;
    over(end)
}

/// A Write of this end is refused, which ends the connection.
fn cannot_write(end: &LinkEnd<'_>, remote: RemoteAddress, memory: &Memory) -> Step {
    let before = memory.buffer.to_vec();
    let from = end.side.memory(32, MrFlags::empty())?;
    from.buffer.fill(0xDD);
    end.write(0xE4, &[from.sge(..)], remote)?;
    over(end)?;
    let same = memory.buffer.to_vec() == before;
    conform_report::ensure(same, "no change of the peer's memory", "other octets")
}

fn one_right(bench: &Bench, right: OpFlags) -> Verdict {
    let link = two_way(bench)?;
    let (memory, window) = (region(bench)?, bench.near.window()?);
    let remote = bound(&link.near, &memory, &window, right)?;
    if right == OpFlags::ALLOW_READ {
        reads(&link.far, remote, 64)?;
        cannot_write(&link.far, remote, &memory)?;
    } else {
        writes(&link.far, remote, &memory, 64)?;
        cannot_read(&link.far, remote)?;
    }
    over(&link.near)?;
    Ok(Pass::Right)
}

fn both_rights(bench: &Bench) -> Verdict {
    let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    let outside: [fn(RemoteAddress) -> RemoteAddress; 2] =
        [|remote| remote.offset(33), |remote| remote.offset(u64::MAX)];
    for outside in outside {
        let link = two_way(bench)?;
        let (memory, window) = (region(bench)?, bench.near.window()?);
        let remote = bound(&link.near, &memory, &window, rights)?;
        reads(&link.far, remote, 64)?;
        writes(&link.far, remote.offset(32), &memory, 96)?;
        cannot_write(&link.far, outside(remote), &memory)?;
    }
    Ok(Pass::Right)
}

fn refused_binds(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (plain, window) = (source(&bench.near, 4096)?, bench.near.window()?);
    let (base, read) = (plain.buffer.address(), OpFlags::ALLOW_READ);
    let qp = &link.near.queues.qp;
    let wanted = Status::ACCESS_VIOLATION;
    for (what, address, length, rights) in [
        ("for writing", base, 64, OpFlags::ALLOW_WRITE),
        ("past the end", base + 1, 4096, read),
        ("before the start", base - 1, 64, read),
        ("behind the end", base + 4097, 1, read),
        ("around the end of all addresses", base, u64::MAX, read),
    ] {
        let posted = qp.bind(1, &plain.region, &window, address, length, rights);
        bench.near.refused(format!("Bind {what}"), posted, wanted)?;
    }
    let posted = qp.bind(2, &plain.region, &window, base, 4096, read);
    bench.near.expect("Bind of the whole region", posted)?;
    initiated(&link.near, &[(RequestType::Bind, 2, Status::SUCCESS)])?;
    let remote = RemoteAddress {
        address: base,
        token: window.get_remote_token(),
    };
    reads(&link.far, remote, 0)?;
    Ok(Pass::Right)
}

fn no_right(bench: &Bench) -> Verdict {
    for read in [true, false] {
        let link = two_way(bench)?;
        let (memory, window) = (region(bench)?, bench.near.window()?);
        let remote = bound(&link.near, &memory, &window, NONE)?;
        busy(bench, &memory)?;
        if read {
            cannot_read(&link.far, remote)?;
        } else {
            cannot_write(&link.far, remote, &memory)?;
        }
    }
    Ok(Pass::Right)
}

/// Deregister is refused, because a window is bound to the region.
fn busy(bench: &Bench, memory: &Memory) -> Step {
    let overlapped = netdirect::Overlapped::new().without_port();
    let started = memory.region.deregister(&overlapped);
    bench
        .near
        .refused("Deregister", started, Status::DEVICE_BUSY)
}

fn bind_first(bench: &Bench) -> Verdict {
    let options = LinkOptions {
        greeting: false,
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let far = &link.far;
    let memory = far.side.memory(4096, MrFlags::ALLOW_LOCAL_WRITE)?;
    let window = far.side.window()?;
    post_bind(far, &memory, &window, NONE)?;
    let overlapped = netdirect::Overlapped::new().without_port();
    let started = memory.region.deregister(&overlapped);
    let wanted = Status::DEVICE_BUSY;
    bench.far.refused("Deregister", started, wanted)?;
    initiated(far, &[(RequestType::Bind, BIND, Status::SUCCESS)])?;
    Ok(Pass::Right)
}

fn bind_before_send(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    for round in 0..10 {
        let (memory, window) = (region(bench)?, bench.near.window()?);
        let into = sink(&bench.far, 64)?;
        link.far.receive(round, &[into.sge(..)])?;
        let remote = post_bind(&link.near, &memory, &window, OpFlags::ALLOW_READ)?;
        let token = bench.near.memory(64, MrFlags::empty())?;
        token.buffer.write(0, &remote.to_bytes());
        link.near.send(round, &[token.sge(..12)], NONE)?;
        link.far.takes()?;
        let mut announced = [0; RemoteAddress::LEN];
        into.buffer.read(0, &mut announced);
        reads(&link.far, RemoteAddress::from_bytes(announced), 64)?;
        let succeeded = Status::SUCCESS;
        let wanted = [
            (RequestType::Bind, BIND, succeeded),
            (RequestType::Send, round, succeeded),
        ];
        initiated(&link.near, &wanted)?;
    }
    Ok(Pass::Right)
}

fn passive_first(bench: &Bench) -> Verdict {
    let options = LinkOptions {
        greeting: false,
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let into = sink(&bench.near, 64)?;
    link.near.receive(1, &[into.sge(..)])?;
    let memory = bench.far.memory(4096, MrFlags::ALLOW_LOCAL_WRITE)?;
    memory.buffer.write(0, &pattern(4096));
    let window = bench.far.window()?;
    let remote = post_bind(&link.far, &memory, &window, OpFlags::ALLOW_READ)?;
    let token = bench.far.memory(64, MrFlags::empty())?;
    token.buffer.write(0, &remote.to_bytes());
    link.far.send(2, &[token.sge(..12)], NONE)?;
    link.near.takes()?;
    let mut announced = [0; RemoteAddress::LEN];
    into.buffer.read(0, &mut announced);
    reads(&link.near, RemoteAddress::from_bytes(announced), 64)?;
    Ok(Pass::Right)
}

fn invalidate_under_way(bench: &Bench) -> Verdict {
    const LENGTH: usize = 16 << 20;
    const TRIES: usize = 50;
    let from = bench.far.memory(LENGTH, MrFlags::empty())?;
    from.buffer.fill(0xEE);
    for _ in 0..TRIES {
        let link = two_way(bench)?;
        let memory = bench.near.memory(LENGTH, MrFlags::ALLOW_LOCAL_WRITE)?;
        let window = bench.near.window()?;
        let (address, length) = (memory.buffer.address(), LENGTH as u64);
        let qp = &link.near.queues.qp;
        let rights = OpFlags::ALLOW_WRITE;
        let posted = qp.bind(BIND, &memory.region, &window, address, length, rights);
        bench.near.expect("post a Bind", posted)?;
        initiated(&link.near, &[(RequestType::Bind, BIND, Status::SUCCESS)])?;
        let remote = RemoteAddress {
            address,
            token: window.get_remote_token(),
        };
        link.far.write(1, &[from.sge(..)], remote)?;
        bench.near.step("wait for the start of the Write");
        bench.near.until(|| memory.buffer.load(0) == 0xEE)?;
        invalidated(&link.near, &window)?;
        let arrived = memory.buffer.to_vec();
        if arrived[LENGTH - 1] == 0xEE {
            // All of it had arrived before: this has shown nothing.
            continue;
        }
        over(&link.far)?;
        over(&link.near)?;
        return if memory.buffer.to_vec() == arrived {
            Ok(Pass::Right)
        } else {
            let what = "no octet to arrive after the Invalidate";
            Err(fail(what, "octets that did"))
        };
    }
    let what = "an Invalidate to succeed before the Write is through";
    Err(fail(what, format!("all {TRIES} Writes whole before")))
}

fn used_afterwards(bench: &Bench) -> Verdict {
    let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    for read in [true, false] {
        let link = two_way(bench)?;
        let (memory, window) = (region(bench)?, bench.near.window()?);
        let remote = bound(&link.near, &memory, &window, rights)?;
        reads(&link.far, remote, 64)?;
        invalidated(&link.near, &window)?;
        if read {
            cannot_read(&link.far, remote)?;
        } else {
            cannot_write(&link.far, remote, &memory)?;
        }
        over(&link.near)?;
    }
    Ok(Pass::Right)
}

fn own_windows(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (memory, window) = (region(bench)?, bench.near.window()?);
    let there = shared(&bench.far, 4096)?;
    let (other, into) = (bench.far.window()?, sink(&bench.far, 64)?);
    let remote = bound(&link.far, &there, &other, OpFlags::ALLOW_READ)?;
    bound(&link.near, &memory, &window, OpFlags::ALLOW_READ)?;
    reads(&link.near, remote, 64)?;
    link.far.receive(1, &[into.sge(..)])?;
    let flags = OpFlags::READ_FENCE | OpFlags::SEND_AND_SOLICIT_EVENT;
    link.near.send(2, &[memory.sge(..64)], flags)?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    invalidated(&link.near, &window)?;
    reads(&link.near, remote, 64)?;
    Ok(Pass::Right)
}

fn other_connection(bench: &Bench) -> Verdict {
    let (first, second) = (two_way(bench)?, two_way(bench)?);
    let (memory, window) = (region(bench)?, bench.near.window()?);
    let remote = bound(&first.near, &memory, &window, OpFlags::ALLOW_READ)?;
    cannot_read(&second.far, remote)?;
    reads(&first.far, remote, 64)?;
    exchange(&first)?;
    Ok(Pass::Right)
}

fn longer_than_memory(bench: &Bench, kind: RequestType) -> Verdict {
    let link = two_way(bench)?;
    let (target, window) = (shared(&bench.far, 4096)?, bench.far.window()?);
    let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    let remote = bound(&link.far, &target, &window, rights)?;
    invalidated(&link.far, &window)?;
    let there = sink(&bench.far, 64)?;
    link.far.receive(9, &[there.sge(..)])?;
    let own = sink(&bench.near, 64)?;
    let mut sge = own.sge(..);
    sge.length += 1;
    if kind == RequestType::Read {
        link.near.read(1, &[sge], remote)?;
    } else {
        link.near.write(1, &[sge], remote)?;
    }
    initiated(&link.near, &[(kind, 1, Status::ACCESS_VIOLATION)])?;
    received(&link.far, &[(9, Status::CANCELED)])?;
    Ok(Pass::Right)
}

fn invalidate_behind_send(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (memory, window) = (shared(&bench.near, 4096)?, bench.near.window()?);
    let into = sink(&bench.far, 64)?;
    link.far.receive(1, &[into.sge(..)])?;
    let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    post_bind(&link.near, &memory, &window, rights)?;
    link.near.send(2, &[memory.sge(..64)], NONE)?;
    post_invalidate(&link.near, &window)?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Bind, BIND, succeeded),
        (RequestType::Send, 2, succeeded),
        (RequestType::Invalidate, INVALIDATE, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    link.far.takes()?;
    let mut none = [netdirect::CompletionResult::default(); 1];
    bench.near.step("look for further results");
    let count = link.near.queues.initiator.get_results(&mut none);
    bench.near.equal("further results", count, 0)?;
    Ok(Pass::Right)
}

fn past_the_window(bench: &Bench, kind: RequestType) -> Verdict {
    let link = two_way(bench)?;
    let (target, window) = (shared(&bench.far, 4096)?, bench.far.window()?);
    let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    let remote = bound(&link.far, &target, &window, rights)?;
    let own = sink(&bench.near, much(&bench.near))?;
    if kind == RequestType::Read {
        link.near.read(1, &[own.sge(..65)], remote)?;
    } else {
        // So long that the transport has not taken it when its refusal arrives.
        link.near.write(1, &[own.sge(..)], remote)?;
    }
    initiated(&link.near, &[(kind, 1, Status::ACCESS_VIOLATION)])?;
    let octets = target.octets(128, 64);
    let wanted = pattern(192).split_off(128);
    bench.far.equal("the octets behind", octets, wanted)?;
    let octets = own.octets(0, 65);
    bench.near.equal("the own memory", octets, vec![0; 65])?;
    Ok(Pass::Right)
}

fn write_into_read_only(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    // So long that the transport has not taken the Write when its refusal arrives.
    let length = much(&bench.near);
    let target = bench.far.memory(length, MrFlags::ALLOW_LOCAL_WRITE)?;
    let (window, there) = (bench.far.window()?, sink(&bench.far, 64)?);
    let (address, length) = (target.buffer.address(), length as u64);
    let (qp, rights) = (&link.far.queues.qp, OpFlags::ALLOW_READ);
    let posted = qp.bind(BIND, &target.region, &window, address, length, rights);
    bench.far.expect("post a Bind", posted)?;
    initiated(&link.far, &[(RequestType::Bind, BIND, Status::SUCCESS)])?;
    link.far.receive(9, &[there.sge(..)])?;
    let own = bench.near.memory(much(&bench.near), MrFlags::empty())?;
    own.buffer.fill(0xEE);
    let remote = RemoteAddress {
        address,
        token: window.get_remote_token(),
    };
    link.near.write(1, &[own.sge(..)], remote)?;
    let refused = (RequestType::Write, 1, Status::ACCESS_VIOLATION);
    initiated(&link.near, &[refused])?;
    received(&link.far, &[(9, Status::CANCELED)])?;
    let octets = target.octets(0, 64);
    bench.far.equal("the region", octets, vec![0; 64])?;
    Ok(Pass::Right)
}
