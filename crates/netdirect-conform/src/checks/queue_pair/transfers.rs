//! Reads and Writes, and the memory that they need.

use conform_report::{Pass, Step, Stop, Verdict, ensure, fail};
use netdirect::{
    AdapterFlags, MrFlags, QueuePairOptions, ReadLimits, RemoteAddress, RemoteToken, RequestType,
    Status,
};

use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::checks::common::{exchange, pattern, shared, sink, source};
use crate::checks::requests::{
    NONE, both, entries, initiated, one_of, over, received, stale, two_way,
};
use crate::link::{Link, LinkOptions};
use crate::need::Need;
use crate::side::Memory;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::QueuePair, name, title, run)
}

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "QP-052.read",
        "reads into three entries of different lengths, which are filled one after the other",
        read_into_entries,
    )
    .also(&["QP-058", "QP-059", "IW-047"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-060.nothing",
        "reads and writes no octets at an address and with a token that nobody has given out",
        nothing,
    )
    .also(&["QP-070", "SGE-005", "IW-048"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-062.address",
        "sends address and token of memory to the peer, which reads and writes at offsets from them",
        addresses,
    )
    .also(&["QP-063"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-057.past-the-end",
        "reads past the end of the peer's region, which the result tells and not the call",
        read_past_the_end,
    )
    .also(&[
        "AMB-002", "AMB-003", "IW-032", "IW-033", "RES-001",
    ])
    .needs(&[Need::Connections]),
    new_check(
        "AMB-002.write",
        "writes past the end of the peer's region: no octet arrives, the connection ends, later requests are cancelled",
        write_past_the_end,
    )
    .also(&["IW-032", "IW-033", "QP-003"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-064.write",
        "writes to the peer, which gets no result and loses no Receive",
        write,
    )
    .also(&["QP-071"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-063.idle",
        "writes to and reads from a peer whose client makes no calls and only looks at its memory",
        idle_target,
    )
    .also(&["TST-103"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-051.last-octet",
        "writes long blocks to a peer that waits for the last octet and then finds all of them",
        last_octet,
    )
    .also(&["INFO-022", "TST-098"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-013.limit",
        "posts eight Reads with an outbound limit of 1, all of which succeed in their order",
        more_than_the_limit,
    )
    .also(&["IW-039", "TST-060", "TST-102"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-100.limit",
        "keeps as many Reads in flight as the highest limit allows",
        highest_limit,
    )
    .also(&["TST-102"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-014.no-limit",
        "reads over a connection whose limits are 0",
        no_limit,
    )
    .also(&["RES-011", "AMB-045"])
    .needs(&[Need::Connections]),
    new_check(
        "AMB-016.sinks",
        "reads into regions with each of the flags that make a sink, twice, and sends from them",
        sinks,
    )
    .also(&["AMB-015", "IW-045", "IW-059", "TST-063", "TST-101"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-111.local-write",
        "reads into a region that has only the right to local writing",
        local_sink,
    )
    .also(&["AMB-015", "IW-045"])
    .needs(&[Need::Connections, Need::DefaultProfile]),
    new_check(
        "AMB-015.narrow",
        "reads into a region that has only the right to local writing, which the strict profile refuses",
        no_sink,
    )
    .also(&["RES-009"])
    .needs(&[Need::Connections, Need::StrictProfile]),
    new_check(
        "IW-046.sink",
        "has the peer write into a region that is a sink of Reads only",
        |bench| closed(bench, MrFlags::RDMA_READ_SINK, false),
    )
    .also(&["AMB-015"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-044.token",
        "has the peer read from and write to a region without remote rights, with either of its tokens",
        closed_region,
    )
    .also(&["SGE-003"])
    .needs(&[Need::Connections]),
    new_check(
        "SGE-004.entries",
        "posts requests with wrong tokens, ranges and rights, each of which is taken and has the result for it",
        bad_entries,
    )
    .also(&["SGE-001", "RES-009", "RES-001"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-034.fence",
        "reads, and sends with the read fence what has been read, and writes it behind",
        fence,
    )
    .also(&["QP-020"])
    .needs(&[Need::Connections]),
    new_check(
        "IW-035.overtaking",
        "sends behind a long Read without a fence: the results keep the order of posting",
        overtaking,
    )
    .also(&["IW-039"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-041.leave",
        "disconnects as soon as Sends and Writes have succeeded, and finds all of them at the peer",
        leave,
    )
    .also(&["IW-019", "IW-021", "TST-042"])
    .needs(&[Need::Connections]),
    new_check(
        "SGE-002.lengths",
        "sends, reads and writes 1 MiB, and 1,065 octets, at an odd address by one entry",
        long_entry,
    )
    .also(&["TST-028"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-058.large",
        "writes and reads nearly 32 MiB in one request through a window of 64 MiB",
        large_window,
    )
    .needs(&[Need::Connections, Need::FarWindows]),
];

fn read_into_entries(bench: &Bench) -> Verdict {
    let count = bench.near.info.max_read_sge.min(3);
    let link = bench.link_with(both(entries(count)))?;
    let target = shared(&bench.far, 4096)?;
    let (one, two) = (sink(&bench.near, 4096)?, sink(&bench.near, 4096)?);
    let all = [one.sge(3000..3700), two.sge(5..6), one.sge(0..2000)];
    let used = &all[..count as usize];
    let length: usize = used.iter().map(|sge| sge.length as usize).sum();
    link.near.read(1, used, target.remote())?;
    link.near.succeeds(RequestType::Read)?;
    let got = match count {
        3 => [one.octets(3000, 700), two.octets(5, 1), one.octets(0, 2000)].concat(),
        2 => [one.octets(3000, 700), two.octets(5, 1)].concat(),
        _ => one.octets(3000, 700),
    };
    let wanted = pattern(length);
    ensure(got == wanted, "the entries filled in order", "other octets")?;
    let behind = one.octets(3700, 396);
    bench
        .near
        .equal("the memory behind the entry", behind, vec![0; 396])?;
    Ok(Pass::Right)
}

fn nothing(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let bogus = RemoteAddress {
        address: 0xDEAD_0000_0001,
        token: RemoteToken(0x0BAD_0BAD),
    };
    let into = sink(&bench.near, 64)?;
    link.near.read(1, &[], bogus)?;
    link.near.read(2, &[into.sge(7..7)], bogus)?;
    link.near.write(3, &[], bogus)?;
    link.near.write(4, &[into.sge(7..7)], bogus)?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Read, 1, succeeded),
        (RequestType::Read, 2, succeeded),
        (RequestType::Write, 3, succeeded),
        (RequestType::Write, 4, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    exchange(&link)?;
    Ok(Pass::Right)
}

fn addresses(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let target = shared(&bench.far, 4096)?;
    // The address travels as octets, as between two hosts.
    let peer_token = RemoteAddress::from_bytes(target.remote().to_bytes());
    let into = sink(&bench.near, 100)?;
    for at in [0, 1, 1000, 3996] {
        link.near.read(1, &[into.sge(..)], peer_token.offset(at))?;
        link.near.succeeds(RequestType::Read)?;
        let from = usize::try_from(at).unwrap_or_default();
        let wanted = pattern(4096)[from..from + 100].to_vec();
        let what = format!("the octets at {at}");
        bench.near.equal(what, into.octets(0, 100), wanted)?;
    }
    let from = bench.near.memory(10, MrFlags::empty())?;
    from.buffer.fill(0xAB);
    link.near
        .write(2, &[from.sge(..)], peer_token.offset(500))?;
    link.near.succeeds(RequestType::Write)?;
    let mut wanted = pattern(4096);
    wanted[500..510].fill(0xAB);
    bench.far.step("wait for the Write");
    bench.far.until(|| target.octets(500, 10) == [0xAB; 10])?;
    ensure(
        target.octets(0, 4096) == wanted,
        "no change around the Write",
        "other octets",
    )?;
    Ok(Pass::Right)
}

const REFUSED: [Status; 2] = [Status::ACCESS_VIOLATION, Status::REMOTE_ERROR];

fn read_past_the_end(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (target, into) = (shared(&bench.far, 64)?, sink(&bench.near, 64)?);
    let there = sink(&bench.far, 64)?;
    link.far.receive(9, &[there.sge(..)])?;
    let beyond = target.remote().offset(1);
    link.near.read(1, &[into.sge(..)], beyond)?;
    link.near
        .send(2, &[into.sge(..)], netdirect::OpFlags::READ_FENCE)?;
    let read = link.near.initiated("the Read past the end")?;
    bench
        .near
        .equal("the kind", read.request_type, RequestType::Read)?;
    one_of("the Read's status", read.status, &REFUSED)?;
    initiated(&link.near, &[(RequestType::Send, 2, Status::CANCELED)])?;
    received(&link.far, &[(9, Status::CANCELED)])?;
    bench
        .near
        .equal("the octets read", into.octets(0, 64), vec![0; 64])?;
    over(&link.near)?;
    Ok(Pass::Right)
}

fn write_past_the_end(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let target = shared(&bench.far, 64)?;
    let from = bench.near.memory(64, MrFlags::empty())?;
    from.buffer.fill(0xEE);
    let there = sink(&bench.far, 64)?;
    link.far.receive(9, &[there.sge(..)])?;
    let beyond = target.remote().offset(1);
    link.near.write(1, &[from.sge(..)], beyond)?;
    let write = link.near.initiated("the Write past the end")?;
    bench
        .near
        .equal("the kind", write.request_type, RequestType::Write)?;
    let allowed = [REFUSED[0], REFUSED[1], Status::SUCCESS];
    one_of("the Write's status", write.status, &allowed)?;
    received(&link.far, &[(9, Status::CANCELED)])?;
    over(&link.near)?;
    link.near.send(2, &[from.sge(..)], NONE)?;
    initiated(&link.near, &[(RequestType::Send, 2, Status::CANCELED)])?;
    let octets = target.octets(0, 64);
    bench.far.equal("the region", octets, pattern(64))?;
    Ok(Pass::Right)
}

fn write(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (target, into) = (shared(&bench.far, 64)?, sink(&bench.far, 64)?);
    let from = source(&bench.near, 64)?;
    target.buffer.fill(0);
    link.far.receive(1, &[into.sge(..)])?;
    link.near.write(2, &[from.sge(..)], target.remote())?;
    link.near.send(3, &[from.sge(..8)], NONE)?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Write, 2, succeeded),
        (RequestType::Send, 3, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    let taken = link.far.takes()?;
    let got = (taken.request_context, taken.bytes_transferred);
    bench.far.equal("the Receive", got, (1, 8))?;
    let octets = target.octets(0, 64);
    bench.far.equal("the octets written", octets, pattern(64))?;
    let mut none = [netdirect::CompletionResult::default(); 1];
    bench.step("look for results of the target");
    for cq in [&link.far.queues.receives, &link.far.queues.initiator] {
        let count = cq.get_results(&mut none);
        bench.far.equal("results of the target", count, 0)?;
    }
    Ok(Pass::Right)
}

/// Looks at memory until it is as wanted, without a call of the provider where that is possible.
fn watch(bench: &Bench, what: &str, done: impl FnMut() -> bool) -> Step {
    bench.step(what);
    bench.near.watch(done)
}

fn idle_target(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (here, there) = (shared(&bench.near, 64)?, shared(&bench.far, 64)?);
    let from = [source(&bench.near, 64)?, source(&bench.far, 64)?];
    let ends = [&link.near, &link.far];
    let targets = [&there, &here];
    for round in 1..=10u8 {
        for ((end, target), from) in ends.iter().zip(targets).zip(&from) {
            from.buffer.fill(round);
            end.write(round.into(), &[from.sge(..)], target.remote())?;
            watch(bench, "look at the octet", || {
                target.buffer.load(63) == round
            })?;
        }
    }
    let into = sink(&bench.near, 64)?;
    link.near.read(11, &[into.sge(..)], there.remote())?;
    watch(bench, "look at the sink", || into.buffer.load(63) == 10)?;
    Ok(Pass::Right)
}

fn last_octet(bench: &Bench) -> Verdict {
    const LENGTH: usize = 256 << 10;
    let flag = AdapterFlags::IN_ORDER_DMA_SUPPORTED;
    if !bench.far.info.flags.contains(flag) {
        let lacking = "the far adapter lacks the flag IN_ORDER_DMA_SUPPORTED";
        return Err(Stop::Skip(lacking.to_owned()));
    }
    let link = bench.link()?;
    let (from, target) = (
        bench.near.memory(LENGTH, MrFlags::empty())?,
        shared(&bench.far, LENGTH)?,
    );
    target.buffer.fill(0);
    for round in 1..=20u8 {
        from.buffer.fill(round);
        link.near.write(1, &[from.sge(..)], target.remote())?;
        watch(bench, "look at the last octet", || {
            target.buffer.load(LENGTH - 1) == round
        })?;
        let octets = target.octets(0, LENGTH);
        let late = octets.iter().position(|octet| *octet != round);
        if let Some(at) = late {
            let seen = format!("octet {at} still old when the last one was new");
            return Err(fail("the last octet to become visible last", seen));
        }
        link.near.succeeds(RequestType::Write)?;
    }
    Ok(Pass::Right)
}

fn with_limits(bench: &Bench, limit: u32, depth: u32) -> Step<Link<'_>> {
    let options = LinkOptions {
        near: QueuePairOptions::default().initiator_queue_depth(depth),
        limits: ReadLimits {
            inbound: limit,
            outbound: limit,
        },
        depth: depth.max(64),
        ..LinkOptions::default()
    };
    bench.link_with(options)
}

/// So many Reads of 4,096 octets succeed, in their order.
fn reads(bench: &Bench, link: &Link<'_>, count: u32) -> Verdict {
    let target = shared(&bench.far, 4096)?;
    let sinks: Vec<Memory> = (0..count)
        .map(|_| sink(&bench.near, 4096))
        .collect::<Step<_>>()?;
    for (context, into) in (0..).zip(&sinks) {
        link.near.read(context, &[into.sge(..)], target.remote())?;
    }
    let wanted: Vec<_> = (0..u64::from(count))
        .map(|context| (RequestType::Read, context, Status::SUCCESS))
        .collect();
    initiated(&link.near, &wanted)?;
    let right = sinks
        .iter()
        .all(|into| into.octets(0, 4096) == pattern(4096));
    ensure(right, "the octets of each Read", "other octets")?;
    Ok(Pass::Right)
}

fn more_than_the_limit(bench: &Bench) -> Verdict {
    let link = with_limits(bench, 1, 8)?;
    reads(bench, &link, 8)?;
    // The far client's Reads work with the limit too.
    exchange(&link)?;
    let (target, into) = (shared(&bench.near, 64)?, sink(&bench.far, 64)?);
    link.far.read(1, &[into.sge(..)], target.remote())?;
    link.far.succeeds(RequestType::Read)?;
    let octets = into.octets(0, 64);
    bench.far.equal("the octets read", octets, pattern(64))?;
    Ok(Pass::Right)
}

fn highest_limit(bench: &Bench) -> Verdict {
    let inbound = bench.far.info.max_inbound_read_limit;
    let limit = inbound.min(bench.near.info.max_outbound_read_limit);
    let depth = limit
        .min(bench.near.info.max_initiator_queue_depth)
        .min(256);
    let link = with_limits(bench, limit, depth)?;
    reads(bench, &link, depth)
}

fn no_limit(bench: &Bench) -> Verdict {
    let link = with_limits(bench, 0, 8)?;
    let (target, into) = (shared(&bench.far, 64)?, sink(&bench.near, 64)?);
    link.near.read(1, &[into.sge(..)], target.remote())?;
    let failed = (RequestType::Read, 1, Status::INVALID_DEVICE_REQUEST);
    initiated(&link.near, &[failed])?;
    Ok(Pass::Right)
}

fn sinks(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let target = shared(&bench.far, 64)?;
    for flags in [
        MrFlags::RDMA_READ_SINK,
        MrFlags::RDMA_READ_SINK | MrFlags::ALLOW_LOCAL_WRITE,
        MrFlags::ALLOW_REMOTE_WRITE,
    ] {
        let into = bench.near.memory(64, flags)?;
        for _ in 0..2 {
            into.buffer.fill(0);
            link.near.read(1, &[into.sge(..)], target.remote())?;
            link.near.succeeds(RequestType::Read)?;
            let octets = into.octets(0, 64);
            let what = format!("the octets read with {flags:?}");
            bench.near.equal(what, octets, pattern(64))?;
        }
        let there = sink(&bench.far, 64)?;
        link.far.receive(2, &[there.sge(..)])?;
        link.near.send(3, &[into.sge(..)], NONE)?;
        link.near.succeeds(RequestType::Send)?;
        link.far.takes()?;
    }
    Ok(Pass::Right)
}

fn local_sink(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let target = shared(&bench.far, 64)?;
    let into = bench.near.memory(64, MrFlags::ALLOW_LOCAL_WRITE)?;
    link.near.read(1, &[into.sge(..)], target.remote())?;
    link.near.succeeds(RequestType::Read)?;
    let octets = into.octets(0, 64);
    bench.near.equal("the octets read", octets, pattern(64))?;
    closed(bench, MrFlags::ALLOW_LOCAL_WRITE, false)
}

fn no_sink(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let target = shared(&bench.far, 64)?;
    let into = bench.near.memory(64, MrFlags::ALLOW_LOCAL_WRITE)?;
    link.near.read(1, &[into.sge(..)], target.remote())?;
    let failed = (RequestType::Read, 1, Status::ACCESS_VIOLATION);
    initiated(&link.near, &[failed])?;
    let octets = into.octets(0, 64);
    bench.near.equal("the region", octets, vec![0; 64])?;
    Ok(Pass::Right)
}

/// The far side writes, or reads, with the remote or the local token of a near region with these flags, and is refused.
fn closed(bench: &Bench, flags: MrFlags, local: bool) -> Verdict {
    for read in [false, true] {
        let link = two_way(bench)?;
        let target = bench.near.memory(64, flags)?;
        target.buffer.write(0, &pattern(64));
        let mut remote = target.remote();
        if local {
            // As a number of the host, which is how a client would mix up the two.
            remote.token = RemoteToken::from_host(target.region.get_local_token().0);
        }
        let own = sink(&bench.far, 64)?;
        link.near.receive(7, &[target.sge(..0)])?;
        if read {
            link.far.read(1, &[own.sge(..)], remote)?;
            let result = link.far.initiated("the Read that is refused")?;
            one_of("the Read's status", result.status, &REFUSED)?;
            let octets = own.octets(0, 64);
            bench.far.equal("the octets read", octets, vec![0; 64])?;
        } else {
            link.far.write(1, &[own.sge(..)], remote)?;
        }
        over(&link.far)?;
        received(&link.near, &[(7, Status::CANCELED)])?;
        let octets = target.octets(0, 64);
        bench.near.equal("the region", octets, pattern(64))?;
    }
    Ok(Pass::Right)
}

fn closed_region(bench: &Bench) -> Verdict {
    closed(bench, MrFlags::ALLOW_LOCAL_WRITE, false)?;
    closed(bench, MrFlags::ALLOW_LOCAL_WRITE, true)
}

fn bad_entries(bench: &Bench) -> Verdict {
    const BAD: Status = Status::ACCESS_VIOLATION;
    let target = shared(&bench.far, 64)?;
    let plain = bench.near.memory(64, MrFlags::empty())?;
    let gone = stale(&bench.near, 64)?;
    let mut beyond = plain.sge(32..);
    beyond.length += 1;
    let mut before = plain.sge(..8);
    before.address -= 1;
    for (what, sge) in [
        ("a token that was given back", gone),
        ("a range past the end", beyond),
        ("a range before the start", before),
    ] {
        bench.step(what);
        let link = bench.link()?;
        link.near.send(1, &[sge], NONE)?;
        initiated(&link.near, &[(RequestType::Send, 1, BAD)])?;
        let link = bench.link()?;
        link.near.write(2, &[sge], target.remote())?;
        initiated(&link.near, &[(RequestType::Write, 2, BAD)])?;
        over(&link.near)?;
    }
    for sge in [gone, plain.sge(..)] {
        bench.step("read into memory that cannot be written");
        let link = bench.link()?;
        link.near.read(3, &[sge], target.remote())?;
        initiated(&link.near, &[(RequestType::Read, 3, BAD)])?;
        bench.step("receive into memory that cannot be written");
        let link = two_way(bench)?;
        link.near.receive(4, &[sge])?;
        link.far.send(5, &[target.sge(..8)], NONE)?;
        received(&link.near, &[(4, BAD)])?;
        over(&link.near)?;
    }
    let unchanged = plain.octets(0, 64) == [0; 64];
    ensure(unchanged, "no change of the memory", "other octets")?;
    Ok(Pass::Right)
}

fn fence(bench: &Bench) -> Verdict {
    const LENGTH: usize = 1 << 20;
    let link = bench.link()?;
    let (target, other) = (shared(&bench.far, LENGTH)?, shared(&bench.far, LENGTH)?);
    other.buffer.fill(0);
    let into = sink(&bench.near, LENGTH)?;
    let (one, two) = (sink(&bench.far, LENGTH)?, sink(&bench.far, LENGTH)?);
    link.far.receive(1, &[one.sge(..)])?;
    link.far.receive(2, &[two.sge(..)])?;
    link.near.read(3, &[into.sge(..)], target.remote())?;
    let fenced = netdirect::OpFlags::READ_FENCE;
    link.near.send(4, &[into.sge(..)], fenced)?;
    // Neither of these may overtake the one with the fence.
    link.near.send(5, &[into.sge(..)], NONE)?;
    link.near.write(6, &[into.sge(..)], other.remote())?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Read, 3, succeeded),
        (RequestType::Send, 4, succeeded),
        (RequestType::Send, 5, succeeded),
        (RequestType::Write, 6, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    received(&link.far, &[(1, succeeded), (2, succeeded)])?;
    let wanted = pattern(LENGTH);
    for (what, memory) in [("fenced", &one), ("second", &two)] {
        let right = memory.octets(0, LENGTH) == wanted;
        ensure(
            right,
            format!("what was read in the {what} message"),
            "older octets",
        )?;
    }
    bench.far.step("wait for the Write");
    bench
        .far
        .until(|| other.buffer.load(LENGTH - 1) == wanted[LENGTH - 1])?;
    let right = other.octets(0, LENGTH) == wanted;
    ensure(right, "what was read in the Write", "older octets")?;
    Ok(Pass::Right)
}

fn overtaking(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (target, from) = (shared(&bench.far, 1 << 20)?, source(&bench.near, 64)?);
    let (into, there) = (sink(&bench.near, 1 << 20)?, sink(&bench.far, 64)?);
    link.far.receive(1, &[there.sge(..)])?;
    link.near.read(2, &[into.sge(..)], target.remote())?;
    link.near.send(3, &[from.sge(..)], NONE)?;
    link.near.write(4, &[from.sge(..)], target.remote())?;
    // The message arrives whatever becomes of the Read's result.
    link.far.takes()?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Read, 2, succeeded),
        (RequestType::Send, 3, succeeded),
        (RequestType::Write, 4, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    Ok(Pass::Right)
}

fn leave(bench: &Bench) -> Verdict {
    const LENGTH: usize = 200_000;
    let link = bench.link()?;
    let (target, from) = (shared(&bench.far, LENGTH)?, source(&bench.near, LENGTH)?);
    target.buffer.fill(0);
    let there = sink(&bench.far, LENGTH)?;
    for context in [1, 2] {
        link.far.receive(context, &[there.sge(..)])?;
    }
    link.near.write(3, &[from.sge(..)], target.remote())?;
    link.near.send(4, &[from.sge(..)], NONE)?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Write, 3, succeeded),
        (RequestType::Send, 4, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    link.near.disconnect()?;
    received(&link.far, &[(1, succeeded), (2, Status::CANCELED)])?;
    for (what, memory) in [("Send", &there), ("Write", &target)] {
        let right = memory.octets(0, LENGTH) == pattern(LENGTH);
        ensure(right, format!("the octets of the {what}"), "other octets")?;
    }
    over(&link.far)?;
    link.far.disconnect()?;
    Ok(Pass::Right)
}

fn long_entry(bench: &Bench) -> Verdict {
    for length in [1 << 20, (1 << 10) + 41] {
        let link = bench.link()?;
        let (from, target) = (
            source(&bench.near, length + 1)?,
            shared(&bench.far, length + 1)?,
        );
        let (into, there) = (
            sink(&bench.near, length + 1)?,
            sink(&bench.far, length + 1)?,
        );
        target.buffer.fill(0);
        link.far.receive(1, &[there.sge(1..)])?;
        link.near
            .write(2, &[from.sge(1..)], target.remote().offset(1))?;
        link.near
            .read(3, &[into.sge(1..)], target.remote().offset(1))?;
        link.near.send(4, &[from.sge(1..)], NONE)?;
        let all = &link.near.queues.initiator;
        bench.near.successes("the three requests", all, 3)?;
        let taken = link.far.takes()?;
        let octets = taken.bytes_transferred as usize;
        bench.far.equal("the octets received", octets, length)?;
        let wanted = &pattern(length + 1)[1..];
        for (what, memory) in [("Read", &into), ("Send", &there)] {
            let right = memory.octets(1, length) == wanted;
            ensure(right, format!("the octets of the {what}"), "other octets")?;
        }
    }
    Ok(Pass::Right)
}

fn large_window(bench: &Bench) -> Verdict {
    const WINDOW: usize = 64 << 20;
    const PART: usize = (32 << 20) - 1;
    let link = two_way(bench)?;
    let target = bench.far.memory(WINDOW, MrFlags::ALLOW_LOCAL_WRITE)?;
    let window = bench.far.window()?;
    let (address, length) = (target.buffer.address(), WINDOW as u64);
    let rights = netdirect::OpFlags::ALLOW_READ | netdirect::OpFlags::ALLOW_WRITE;
    let qp = &link.far.queues.qp;
    let posted = qp.bind(1, &target.region, &window, address, length, rights);
    bench.far.expect("post a Bind of 64 MiB", posted)?;
    link.far.succeeds(RequestType::Bind)?;
    let remote = RemoteAddress {
        address,
        token: window.get_remote_token(),
    };
    let (from, into) = (source(&bench.near, 4096)?, sink(&bench.near, PART)?);
    let last = (WINDOW - 4096) as u64;
    link.near.write(2, &[from.sge(..)], remote.offset(last))?;
    link.near.succeeds(RequestType::Write)?;
    let start = (WINDOW - PART) as u64;
    link.near.read(3, &[into.sge(..)], remote.offset(start))?;
    link.near.succeeds(RequestType::Read)?;
    let octets = into.octets(PART - 4096, 4096);
    ensure(
        octets == pattern(4096),
        "the end of what was read",
        "other octets",
    )?;
    Ok(Pass::Right)
}
