//! `IND2MemoryWindow`: what a window opens to the peer, and when.
//!
//! The near side owns the windows, and the far side reads and writes through them. A refused access ends the connection, so a
//! check makes a connection for each access that it expects to be refused.

use conform_report::{Pass, Step, Verdict};
use netdirect::{MrFlags, OpFlags, Overlapped, RemoteAddress, RequestType, Status};

use super::common::{
    bind, expect_read, expect_refused_read, expect_refused_write, expect_write, invalidate,
    pattern, post_bind, shared, sink,
};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::need::Need;
use crate::side::{Memory, Side};

const NEEDS: &[Need] = &[Need::Connections, Need::Windows];
const BOTH: OpFlags = OpFlags::ALLOW_READ.union(OpFlags::ALLOW_WRITE);

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::MemoryWindow, name, title, run).needs(NEEDS)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "MW-001.bound",
        "binds a window to part of a region: the peer reads that part, and nothing behind it",
        only_what_is_bound,
    )
    .also(&["ADPT-038", "TST-074"]),
    new_check(
        "MW-002.second",
        "binds a window that is bound already, on a second queue pair",
        bound_twice,
    )
    .also(&["QP-043"]),
    new_check(
        "MW-003.again",
        "binds one window three times, to other regions and on another queue pair, with Invalidate in between",
        bound_again,
    )
    .also(&["ADPT-039"]),
    new_check(
        "MW-004.foreign",
        "binds a window and a region of another adapter",
        foreign,
    )
    .also(&["GEN-022"]),
    new_check(
        "MW-005.overlap",
        "binds two windows that overlap, with different rights, and invalidates one",
        overlapping,
    ),
    new_check(
        "MW-006.rights",
        "binds windows that let the peer read only, write only or both, to regions with other rights",
        rights,
    )
    .also(&["TST-062", "TST-076", "QP-041"]),
    new_check(
        "MW-008.token",
        "sends the token of a window to the peer before the Bind's result is there, and the peer reads by it",
        token_at_once,
    )
    .also(&["MW-007"]),
    new_check(
        "MW-009.invalidated",
        "invalidates a window, through which the peer can neither read nor write any more",
        invalidated,
    ),
    new_check(
        "MW-010.other-peer",
        "gives the token of a window to the peer of another queue pair, who cannot read by it",
        other_peer,
    ),
    new_check(
        "MW-011.busy",
        "deregisters a region directly after a Bind to it was posted, and again after Invalidate",
        busy_at_once,
    )
    .also(&["MR-026"]),
    new_check(
        "MW-012.no-rights",
        "binds a window without rights, which opens nothing and keeps the region busy",
        no_rights,
    )
    .also(&["AMB-010", "TST-082"]),
    new_check(
        "MW-014.released",
        "releases a bound window: the peer cannot read by its token, and the region can be deregistered",
        released,
    ),
    new_check(
        "AMB-058.whole",
        "binds a window to a whole region that is as large as the adapter allows, or a mebibyte: the peer reads its end",
        whole_region,
    )
    .largest_registration(LARGE),
];

/// As large as regions are in a check of the largest one, where the adapter has an option for that.
const LARGE: u64 = 1 << 20;

/// Memory without remote rights, with octets that differ from place to place.
fn private(side: &Side, length: usize) -> Step<Memory> {
    let memory = sink(side, length)?;
    memory.buffer.write(0, &pattern(length));
    Ok(memory)
}

fn only_what_is_bound(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 256)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, 64..192, OpFlags::ALLOW_READ)?;
    expect_read(&link.far, remote, 64)?;
    expect_read(&link.far, remote.offset(64), 128)?;
    expect_refused_read(&link.far, remote.offset(65))?;
    // The octets before the window are closed too.
    let link = bench.link()?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, 64..192, OpFlags::ALLOW_READ)?;
    let before = RemoteAddress {
        address: remote.address - 1,
        ..remote
    };
    expect_refused_read(&link.far, before)?;
    Ok(Pass::Right)
}

fn bound_twice(bench: &Bench) -> Verdict {
    let (first, second) = (bench.link()?, bench.link()?);
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&first.near, &memory, &window, .., BOTH)?;
    post_bind(&second.near, &memory, &window, .., BOTH)?;
    let result = second.near.initiated("a Bind of a bound window")?;
    let got = (result.request_type, result.status);
    let wanted = (RequestType::Bind, Status::INVALID_DEVICE_REQUEST);
    bench
        .near
        .equal("the result of the second Bind", got, wanted)?;
    // The first one holds.
    expect_read(&first.far, remote, 0)?;
    Ok(Pass::Right)
}

fn bound_again(bench: &Bench) -> Verdict {
    let links = [bench.link()?, bench.link()?];
    let window = bench.near.window()?;
    let mut tokens = Vec::new();
    for at in [0, 0, 1] {
        let link = &links[at];
        let memory = private(&bench.near, 64)?;
        let remote = bind(&link.near, &memory, &window, .., BOTH)?;
        tokens.push(remote.token);
        expect_read(&link.far, remote, 0)?;
        expect_write(&link.far, remote, &memory, 0)?;
        invalidate(&link.near, &window)?;
        bench.near.deregister(&memory.region)?;
    }
    tokens.dedup();
    bench.near.equal("the number of tokens", tokens.len(), 3)?;
    Ok(Pass::Right)
}

fn foreign(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let other = bench.other()?;
    let (own, theirs) = (private(&bench.near, 64)?, private(&other, 64)?);
    let (window, foreign) = (bench.near.window()?, other.window()?);
    let post = |memory: &Memory, window| {
        let address = memory.buffer.address();
        let qp = &link.near.queues.qp;
        qp.bind(1, &memory.region, window, address, 64, BOTH)
    };
    let wanted = Status::INVALID_PARAMETER_2;
    bench
        .near
        .refused("Bind to a foreign region", post(&theirs, &window), wanted)?;
    let wanted = Status::INVALID_PARAMETER_3;
    bench
        .near
        .refused("Bind of a foreign window", post(&own, &foreign), wanted)?;
    let remote = bind(&link.near, &own, &window, .., BOTH)?;
    expect_read(&link.far, remote, 0)?;
    Ok(Pass::Right)
}

fn overlapping(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 128)?;
    let (reads, writes) = (bench.near.window()?, bench.near.window()?);
    let read = bind(&link.near, &memory, &reads, ..96, OpFlags::ALLOW_READ)?;
    let write = bind(&link.near, &memory, &writes, 32.., OpFlags::ALLOW_WRITE)?;
    expect_read(&link.far, read, 0)?;
    expect_write(&link.far, write.offset(32), &memory, 64)?;
    invalidate(&link.near, &writes)?;
    expect_read(&link.far, read, 0)?;
    expect_refused_write(&link.far, write)?;
    let wanted = pattern(64);
    bench
        .near
        .equal("the memory", memory.octets(0, 64), wanted)?;
    Ok(Pass::Right)
}

fn rights(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, .., OpFlags::ALLOW_READ)?;
    expect_read(&link.far, remote, 0)?;
    expect_refused_write(&link.far, remote)?;
    bench
        .near
        .equal("the memory", memory.octets(0, 64), pattern(64))?;

    let link = bench.link()?;
    // The region lets all peers read, and the window does not.
    let memory = shared(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, .., OpFlags::ALLOW_WRITE)?;
    expect_write(&link.far, remote, &memory, 0)?;
    expect_refused_read(&link.far, remote)?;

    let link = bench.link()?;
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, .., BOTH)?;
    expect_read(&link.far, remote, 0)?;
    expect_write(&link.far, remote, &memory, 0)?;
    Ok(Pass::Right)
}

fn token_at_once(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let note = bench.near.memory(RemoteAddress::LEN, MrFlags::empty())?;
    let to = sink(&bench.far, RemoteAddress::LEN)?;
    link.far.receive(1, &[to.sge(..)])?;
    let remote = post_bind(&link.near, &memory, &window, .., OpFlags::ALLOW_READ)?;
    note.buffer.write(0, &remote.to_bytes());
    link.near.send(2, &[note.sge(..)], OpFlags::empty())?;
    link.far.takes()?;
    let octets = to.octets(0, RemoteAddress::LEN);
    let octets: [u8; RemoteAddress::LEN] = octets.try_into().unwrap_or_default();
    expect_read(&link.far, RemoteAddress::from_bytes(octets), 0)?;
    link.near.succeeds(RequestType::Bind)?;
    link.near.succeeds(RequestType::Send)?;
    let token = window.get_remote_token();
    bench
        .near
        .equal("the token afterwards", token, remote.token)?;
    Ok(Pass::Right)
}

fn invalidated(bench: &Bench) -> Verdict {
    for writes in [false, true] {
        let link = bench.link()?;
        let memory = private(&bench.near, 64)?;
        let window = bench.near.window()?;
        let remote = bind(&link.near, &memory, &window, .., BOTH)?;
        expect_read(&link.far, remote, 0)?;
        invalidate(&link.near, &window)?;
        if writes {
            expect_refused_write(&link.far, remote)?;
        } else {
            expect_refused_read(&link.far, remote)?;
        }
        bench
            .near
            .equal("the memory", memory.octets(0, 64), pattern(64))?;
    }
    Ok(Pass::Right)
}

fn other_peer(bench: &Bench) -> Verdict {
    let (own, other) = (bench.link()?, bench.link()?);
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&own.near, &memory, &window, .., BOTH)?;
    expect_refused_read(&other.far, remote)?;
    expect_read(&own.far, remote, 0)?;
    Ok(Pass::Right)
}

fn busy_at_once(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    post_bind(&link.near, &memory, &window, .., BOTH)?;
    let overlapped = Overlapped::new();
    for when in ["directly after the post", "after the Bind's result"] {
        let started = memory.region.deregister(&overlapped);
        let what = format!("Deregister {when}");
        bench.near.refused(what, started, Status::DEVICE_BUSY)?;
        if when.starts_with("directly") {
            link.near.succeeds(RequestType::Bind)?;
        }
    }
    invalidate(&link.near, &window)?;
    bench.near.deregister(&memory.region)?;
    Ok(Pass::Right)
}

fn no_rights(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, .., OpFlags::empty())?;
    let overlapped = Overlapped::new();
    let started = memory.region.deregister(&overlapped);
    bench
        .near
        .refused("Deregister", started, Status::DEVICE_BUSY)?;
    expect_refused_read(&link.far, remote)?;
    Ok(Pass::Right)
}

fn released(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = private(&bench.near, 64)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, .., BOTH)?;
    expect_read(&link.far, remote, 0)?;
    bench.step("release the bound window");
    drop(window);
    bench.near.deregister(&memory.region)?;
    expect_refused_read(&link.far, remote)?;
    Ok(Pass::Right)
}

fn whole_region(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    let (got, wanted) = (info.max_window_size, info.max_registration_size);
    bench.near.equal("MaxWindowSize", got, wanted)?;
    let size = usize::try_from(wanted.min(LARGE)).unwrap_or(usize::MAX);
    let link = bench.link()?;
    let memory = private(&bench.near, size)?;
    let window = bench.near.window()?;
    let remote = bind(&link.near, &memory, &window, .., OpFlags::ALLOW_READ)?;
    let last = size - 64;
    expect_read(&link.far, remote.offset(last as u64), last)?;
    Ok(Pass::Right)
}
