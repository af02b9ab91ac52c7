//! `ND2_ADAPTER_INFO`: the limits of an adapter, which are reached and not exceeded.

use conform_report::{Pass, Stop, Verdict, ensure};
use netdirect::{
    AdapterFlags, Counters, MrFlags, OpFlags, Overlapped, QueuePairOptions, ReadLimits,
    RequestType, Sge, Status,
};

use super::common::{exchange, pattern, shared, sink, source};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::LinkOptions;
use crate::need::{Need, Profile};
use crate::side::Memory;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Adapter, name, title, run).needs(&[Need::Connections])
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "INFO-007.entries",
        "sends, writes and reads with as many entries as the adapter allows, and receives with as many",
        most_entries,
    )
    .also(&["INFO-008", "INFO-009"]),
    new_check(
        "INFO-010.length",
        "posts a Send and a Write of one octet more than MaxTransferLength",
        too_long,
    ),
    new_check(
        "INFO-011.inline",
        "sends as much inline data as the adapter allows, in one piece and in several, and fails to send one octet more",
        most_inline,
    )
    .also(&["AMB-049"])
    .needs(&[Need::Connections, Need::Inline]),
    new_check(
        "INFO-012.read-limits",
        "connects with read limits far above those of both adapters, and gets the adapters' limits",
        read_limits,
    )
    .also(&["INFO-013", "CONN-027"]),
    new_check(
        "INFO-022.in-order",
        "watches the last octet of a Write: when it is there, all others are",
        in_order,
    ),
    new_check(
        "TST-088.fields",
        "resolves the address, opens the adapter and queries it: each limit without which a client can do nothing is above 0",
        fields,
    ),
    new_check(
        "AMB-071.counted",
        "sends from one entry too many and reads into memory for Receives alone: the default profile counts both, the strict one refuses them",
        lenient,
    ),
];

/// The first entries of a region, an octet each.
fn entries(memory: &Memory, count: u32) -> Vec<Sge> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    (0..count).map(|at| memory.sge(at..=at)).collect()
}

fn most_entries(bench: &Bench) -> Verdict {
    let (near, far) = (bench.near.info, bench.far.info);
    let options = LinkOptions {
        near: QueuePairOptions::default().max_initiator_request_sge(near.max_initiator_sge),
        far: QueuePairOptions::default().max_receive_request_sge(far.max_receive_sge),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let most = near.max_initiator_sge.max(far.max_receive_sge) as usize;
    let (from, to) = (source(&bench.near, most)?, sink(&bench.far, most)?);
    // A Send with one entry into a Receive with many, and the reverse.
    let many = far.max_receive_sge as usize;
    link.far.receive(1, &entries(&to, far.max_receive_sge))?;
    link.near.send(2, &[from.sge(..many)], OpFlags::empty())?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    bench
        .far
        .equal("the message", to.octets(0, many), pattern(many))?;
    let many = near.max_initiator_sge as usize;
    to.buffer.fill(0);
    link.far.receive(3, &[to.sge(..)])?;
    let all = entries(&from, near.max_initiator_sge);
    link.near.send(4, &all, OpFlags::empty())?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    bench
        .far
        .equal("the message", to.octets(0, many), pattern(many))?;
    let there = shared(&bench.far, most)?;
    there.buffer.fill(0);
    link.near.write(5, &all, there.remote())?;
    link.near.succeeds(RequestType::Write)?;
    bench.step("wait until the Write is in memory");
    bench.far.until(|| there.octets(0, many) == pattern(many))?;
    let entries_of_read = near.max_read_sge.min(near.max_initiator_sge);
    let many = entries_of_read as usize;
    let into = sink(&bench.near, most)?;
    link.near
        .read(6, &entries(&into, entries_of_read), there.remote())?;
    link.near.succeeds(RequestType::Read)?;
    bench
        .near
        .equal("the octets read", into.octets(0, many), pattern(many))?;
    Ok(Pass::Right)
}

fn too_long(bench: &Bench) -> Verdict {
    let most = bench.near.info.max_transfer_length;
    let Some(length) = most.checked_add(1) else {
        let why = "MaxTransferLength is the largest number there is";
        return Err(Stop::Skip(why.to_owned()));
    };
    let link = bench.link()?;
    let memory = source(&bench.near, 64)?;
    let there = shared(&bench.far, 64)?;
    let entry = Sge {
        length,
        ..memory.sge(..)
    };
    let wanted = Status::BUFFER_OVERFLOW;
    let qp = &link.near.queues.qp;
    let posted = qp.send(1, &[entry], OpFlags::empty());
    bench
        .near
        .refused("a Send that is too long", posted, wanted)?;
    let posted = qp.write(2, &[entry], there.remote(), OpFlags::empty());
    bench
        .near
        .refused("a Write that is too long", posted, wanted)?;
    exchange(&link)?;
    Ok(Pass::Right)
}

fn most_inline(bench: &Bench) -> Verdict {
    let most = bench.near.info.max_inline_data_size;
    let options = LinkOptions {
        near: QueuePairOptions::default().inline_data_size(most),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let length = most as usize;
    let data = pattern(length);
    let to = sink(&bench.far, length)?;
    let pieces: Vec<&[u8]> = data.chunks(length.div_ceil(8).max(1)).collect();
    for pieces in [vec![&*data], pieces] {
        to.buffer.fill(0);
        link.far.receive(1, &[to.sge(..)])?;
        let posted = link
            .near
            .queues
            .qp
            .send_inline(2, &pieces, OpFlags::empty());
        bench.near.expect("send inline", posted)?;
        link.near.succeeds(RequestType::Send)?;
        link.far.takes()?;
        bench
            .far
            .equal("the message", to.octets(0, length), pattern(length))?;
    }
    let data = pattern(length + 1);
    let qp = &link.near.queues.qp;
    let posted = qp.send_inline(3, &[&data[..1], &data[1..]], OpFlags::empty());
    let wanted = Status::BUFFER_OVERFLOW;
    bench
        .near
        .refused("a Send with too much inline data", posted, wanted)?;
    Ok(Pass::Right)
}

fn read_limits(bench: &Bench) -> Verdict {
    let (near, far) = (bench.near.info, bench.far.info);
    let listening = bench.far.listening()?;
    let (connecting, accepting) = (bench.near.connector()?, bench.far.connector()?);
    let queues = bench.near.queues(8, QueuePairOptions::default())?;
    let (arrived, answered) = (Overlapped::new(), Overlapped::new());
    let started = listening
        .listener
        .get_connection_request(&accepting, &arrived);
    bench.far.begun("get a connection request", started)?;
    let most = u32::MAX;
    let started = connecting.connect(&queues.qp, listening.address, most, most, &[], &answered);
    bench.near.begun("connect", started)?;
    let status = bench.far.end_of("the arrival", &arrived)?;
    bench
        .far
        .status("GetConnectionRequest", status, Status::SUCCESS)?;
    let limits = accepting.get_read_limits();
    let limits = bench.far.expect("get the read limits", limits)?;
    // The peer may have an adapter with other limits, so that the smaller one of both counts.
    let reads = |issues: u32, serves: u32| issues.min(serves);
    let wanted = ReadLimits {
        inbound: reads(near.max_outbound_read_limit, far.max_inbound_read_limit),
        outbound: reads(far.max_outbound_read_limit, near.max_inbound_read_limit),
    };
    bench.far.equal("the read limits", limits, wanted)?;
    bench.far.expect("reject", accepting.reject(&[]))?;
    let status = bench.near.end_of("the end of Connect", &answered)?;
    let wanted = Status::CONNECTION_REFUSED;
    bench.near.status("Connect", status, wanted)?;
    Ok(Pass::Right)
}

fn in_order(bench: &Bench) -> Verdict {
    const LENGTH: usize = 300_001;
    if !bench
        .near
        .info
        .flags
        .contains(AdapterFlags::IN_ORDER_DMA_SUPPORTED)
    {
        let why = "the adapter lacks the flag IN_ORDER_DMA_SUPPORTED";
        return Err(Stop::Skip(why.to_owned()));
    }
    let link = bench.link()?;
    let there = shared(&bench.near, LENGTH)?;
    let from = bench.far.memory(LENGTH, MrFlags::empty())?;
    for octet in 1..=4 {
        from.buffer.fill(octet);
        link.far
            .write(octet.into(), &[from.sge(..)], there.remote())?;
        bench.step("watch the last octet of the Write");
        bench
            .near
            .until(|| there.buffer.load(LENGTH - 1) == octet)?;
        let stale = there
            .buffer
            .to_vec()
            .into_iter()
            .position(|found| found != octet);
        bench
            .near
            .equal("an octet that is not there", stale, None)?;
        link.far.succeeds(RequestType::Write)?;
    }
    Ok(Pass::Right)
}

fn fields(bench: &Bench) -> Verdict {
    let opened = bench.near.open_again()?;
    let info = opened.info;
    bench.step(format!("look at each field of {info:?}"));
    for (limit, name) in [
        (info.max_registration_size, "MaxRegistrationSize"),
        (info.max_initiator_sge.into(), "MaxInitiatorSge"),
        (info.max_receive_sge.into(), "MaxReceiveSge"),
        (info.max_read_sge.into(), "MaxReadSge"),
        (info.max_transfer_length.into(), "MaxTransferLength"),
        (info.max_inbound_read_limit.into(), "MaxInboundReadLimit"),
        (info.max_outbound_read_limit.into(), "MaxOutboundReadLimit"),
        (info.max_receive_queue_depth.into(), "MaxReceiveQueueDepth"),
        (
            info.max_initiator_queue_depth.into(),
            "MaxInitiatorQueueDepth",
        ),
        (
            info.max_completion_queue_depth.into(),
            "MaxCompletionQueueDepth",
        ),
        (info.max_caller_data.into(), "MaxCallerData"),
        (info.max_callee_data.into(), "MaxCalleeData"),
    ] {
        ensure(limit > 0, format!("{name} above 0"), "0")?;
    }
    Ok(Pass::Right)
}

/// Returns how many lenient acts the near adapter has counted since then.
fn let_pass(bench: &Bench, earlier: &Counters) -> u64 {
    let extensions = bench.near.adapter.extensions();
    let now = extensions.map(|extensions| extensions.counters());
    now.map_or(0, |now| now.since(earlier).total("lenient"))
}

fn lenient(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let extensions = side.adapter.extensions();
    let before = extensions.map(|extensions| extensions.counters());
    let counts = |counters: &Counters| {
        counters
            .iter()
            .any(|(name, _)| name.starts_with("lenient."))
    };
    let Some(before) = before.filter(counts) else {
        let why =
            "the provider counts no leniency (counters of the group `lenient`): it has one profile";
        return Err(Stop::LeftOut(why.to_owned()));
    };
    let link = bench.link()?;
    exchange(&link)?;
    side.equal(
        "counted for what every adapter takes",
        let_pass(bench, &before),
        0,
    )?;

    let (from, to) = (source(side, 64)?, sink(&bench.far, 64)?);
    link.far.receive(1, &[to.sge(..)])?;
    let halves = [from.sge(..32), from.sge(32..)];
    let posted = link.near.queues.qp.send(2, &halves, OpFlags::empty());
    let (into, there) = (
        side.memory(64, MrFlags::ALLOW_LOCAL_WRITE)?,
        shared(&bench.far, 64)?,
    );
    if bench.profile() == Profile::Strict {
        side.refused("a Send from two entries", posted, Status::DATA_OVERRUN)?;
        link.near.read(3, &[into.sge(..)], there.remote())?;
        let result = link.near.initiated("a Read into memory for Receives")?;
        side.status("the Read", result.status, Status::ACCESS_VIOLATION)?;
        side.equal("counted for what was refused", let_pass(bench, &before), 0)?;
        return Ok(Pass::Right);
    }
    side.expect("post a Send from two entries", posted)?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    side.equal("counted with the Send", let_pass(bench, &before), 1)?;
    link.near.read(3, &[into.sge(..)], there.remote())?;
    link.near.succeeds(RequestType::Read)?;
    side.equal("counted with the Read", let_pass(bench, &before), 2)?;
    Ok(Pass::Right)
}
