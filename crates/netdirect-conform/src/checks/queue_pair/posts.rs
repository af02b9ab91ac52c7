//! Posts that are refused within the call, and leave everything as it was.

use std::sync::Arc;

use conform_report::{Pass, Step, Stop, Verdict};
use netdirect::{
    CompletionQueue, CompletionResult, MrFlags, NotifyType, OpFlags, Overlapped, QueuePairOptions,
    ReadLimits, RemoteAddress, RemoteToken, RequestType, Result, Sge, Status,
};

use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::checks::common::{above, exchange, shared, sink, source};
use crate::checks::requests::{NONE, blocked, both, entries, initiated, message};
use crate::link::{Link, LinkOptions};
use crate::need::{Need, Profile};
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::QueuePair, name, title, run)
}

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "QP-011.unconnected",
        "posts a Send, a Read and a Write on a queue pair that is not connected, and connects it afterwards",
        unconnected,
    )
    .also(&["QP-002", "QP-053", "QP-065", "AMB-046"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-036.unconnected",
        "posts a Bind and an Invalidate on a queue pair that is not connected",
        unconnected_windows,
    )
    .also(&["QP-046"])
    .needs(&[Need::Windows]),
    new_check(
        "QP-012.too-long",
        "posts a Send, a Receive, a Read and a Write of more octets than the adapter can transfer",
        too_long,
    )
    .also(&["QP-002", "QP-027", "QP-054", "QP-066", "RES-007"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-013.full",
        "fills the initiator queue behind a request that cannot end, and finds each kind of request refused until it ends",
        full,
    )
    .also(&["QP-002", "QP-055", "QP-067", "QP-073", "TST-014"])
    .needs(&[Need::Connections, Need::FarSharedReceiveQueues]),
    new_check(
        "QP-037.full",
        "posts a Bind and an Invalidate into a full initiator queue",
        full_windows,
    )
    .also(&["QP-047"])
    .needs(&[Need::Connections, Need::FarSharedReceiveQueues, Need::Windows]),
    new_check(
        "QP-028.full",
        "fills the receive queue, has one Receive used, and finds room for exactly one more",
        full_receives,
    )
    .also(&["QP-002", "QP-031", "TST-096"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-013.taken",
        "has Writes succeed and takes no result: the initiator queue stays full, and has room for one request when it has taken one",
        writes_not_taken,
    )
    .also(&["QP-067", "QP-073"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-028.taken",
        "has Receives cancelled and takes no result: the receive queue stays full, and has room for one Receive when it has taken one",
        receives_not_taken,
    )
    .also(&["QP-004"]),
    new_check(
        "QP-014.entries",
        "posts requests of each kind with more entries than the queue pair can have been granted",
        too_many_entries,
    )
    .also(&["QP-002", "QP-029", "QP-056", "QP-068", "AMB-009"])
    .needs(&[Need::Connections]),
    new_check(
        "AMB-036.nothing",
        "makes a queue pair with all its sizes 0, which refuses every Receive, every Send, and connects nevertheless",
        sizes_of_nothing,
    )
    .needs(&[Need::Connections]),
    new_check(
        "QP-015.flags",
        "posts a Send, a Read and a Write with each flag that they do not take, and with all that they do",
        flags,
    )
    .also(&["QP-002", "QP-061", "QP-069", "QP-072", "AMB-055", "AMB-062", "IW-059"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-072.windows",
        "posts a Bind and an Invalidate with each flag that they do not take, and with all that they do",
        window_flags,
    )
    .also(&["AMB-055", "AMB-062"])
    .needs(&[Need::Connections, Need::Windows]),
    new_check(
        "QP-025.inline",
        "posts an inline Send and an inline Write with one octet more than the queue pair was created for",
        too_much_inline,
    )
    .also(&["QP-002", "AMB-048"])
    .needs(&[Need::Connections, Need::Inline]),
];

/// An address that no peer has given out.
const NOWHERE: RemoteAddress = RemoteAddress {
    address: 0x1000,
    token: RemoteToken(0),
};

fn unconnected(bench: &Bench) -> Verdict {
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let near = bench.near.queues(64, QueuePairOptions::default())?;
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let memory = sink(&bench.near, 64)?;
    let (sge, wanted) = ([memory.sge(..)], Status::CONNECTION_INVALID);
    for (what, posted) in [
        ("Send", near.qp.send(1, &sge, NONE)),
        ("Send without entries", near.qp.send(1, &[], NONE)),
        ("Read", near.qp.read(2, &sge, NOWHERE, NONE)),
        ("Write", near.qp.write(3, &sge, NOWHERE, NONE)),
    ] {
        bench.near.refused(what, posted, wanted)?;
    }
    let link = bench.join(near, far, limits)?;
    exchange(&link)?;
    nothing_else(&link)
}

/// No result is in the queues of the near side: what was refused has none.
fn nothing_else(link: &Link<'_>) -> Verdict {
    let mut none = [netdirect::CompletionResult::default(); 1];
    for cq in [&link.near.queues.initiator, &link.near.queues.receives] {
        link.near.side.step("look for further results");
        link.near
            .side
            .equal("further results", cq.get_results(&mut none), 0)?;
    }
    Ok(Pass::Right)
}

fn unconnected_windows(bench: &Bench) -> Verdict {
    let near = bench.near.queues(64, QueuePairOptions::default())?;
    let (memory, window) = (shared(&bench.near, 64)?, bench.near.window()?);
    let wanted = Status::CONNECTION_INVALID;
    let address = memory.buffer.address();
    let read = OpFlags::ALLOW_READ;
    let posted = near.qp.bind(1, &memory.region, &window, address, 64, read);
    bench.near.refused("Bind", posted, wanted)?;
    let posted = near.qp.invalidate(2, &window, NONE);
    bench.near.refused("Invalidate", posted, wanted)?;
    bench.near.deregister(&memory.region)?;
    Ok(Pass::Right)
}

/// Entries of one octet more than the adapter can transfer.
fn long_entries(bench: &Bench, entry: Sge) -> Step<Vec<Sge>> {
    let most = bench.near.info.max_transfer_length;
    let with_length = |length| Sge { length, ..entry };
    if let Some(length) = most.checked_add(1) {
        return Ok(vec![with_length(length)]);
    }
    if bench.near.info.max_read_sge < 2 || bench.near.info.max_receive_sge < 2 {
        let why = "the adapter takes one entry in a request, which cannot exceed MaxTransferLength";
        return Err(Stop::Skip(why.to_owned()));
    }
    Ok(vec![with_length(most), with_length(1)])
}

fn too_long(bench: &Bench) -> Verdict {
    let link = bench.link_with(both(entries(2.min(bench.near.info.max_read_sge))))?;
    let target = shared(&bench.far, 64)?;
    let memory = sink(&bench.near, 64)?;
    let long = long_entries(bench, memory.sge(..))?;
    let qp = &link.near.queues.qp;
    for (what, posted) in [
        ("Send", qp.send(1, &long, NONE)),
        ("Receive", qp.receive(2, &long)),
        ("Read", qp.read(3, &long, target.remote(), NONE)),
        ("Write", qp.write(4, &long, target.remote(), NONE)),
    ] {
        bench.near.refused(what, posted, Status::BUFFER_OVERFLOW)?;
    }
    exchange(&link)?;
    // The Receive that was refused is not in the queue.
    message(&link.far, &link.near, 64)?;
    nothing_else(&link)
}

/// Posts silent Writes until the queue is full. Their number.
fn fill(link: &Link<'_>, remote: RemoteAddress, sge: Sge) -> Step<u32> {
    let most = link.near.side.info.max_initiator_queue_depth;
    link.near.side.step("fill the initiator queue");
    for count in 0..=most {
        let silent = OpFlags::SILENT_SUCCESS;
        let posted = link
            .near
            .queues
            .qp
            .write(count.into(), &[sge], remote, silent);
        match posted {
            Ok(()) => {}
            Err(error) if error.status() == Status::NO_MORE_ENTRIES => return Ok(count),
            Err(error) => {
                return Err(conform_report::fail(
                    "ND_NO_MORE_ENTRIES",
                    error.to_string(),
                ));
            }
        }
    }
    Err(conform_report::fail(
        "ND_NO_MORE_ENTRIES from a full initiator queue",
        format!("{most} requests taken"),
    ))
}

fn full(bench: &Bench) -> Verdict {
    let blocked = blocked(bench, QueuePairOptions::default().initiator_queue_depth(4))?;
    let (link, target) = (&blocked.link, shared(&bench.far, 64)?);
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.near, 64)?);
    let count = fill(link, target.remote(), from.sge(..))?;
    conform_report::ensure(
        count >= 3,
        "room for four requests",
        format!("room for {}", count + 1),
    )?;
    let qp = &link.near.queues.qp;
    let wanted = Status::NO_MORE_ENTRIES;
    let refused = |what, posted: Result<()>| bench.near.refused(what, posted, wanted);
    let remote = target.remote();
    refused("Send into a full queue", qp.send(1, &[from.sge(..)], NONE))?;
    refused("Send without entries", qp.send(1, &[], NONE))?;
    refused("Read", qp.read(2, &[into.sge(..)], remote, NONE))?;
    refused("Write", qp.write(3, &[from.sge(..)], remote, NONE))?;
    blocked.release()?;
    // The Read has the place of the Send that has ended, and those of the silent Writes are free when it has.
    link.near.read(5, &[into.sge(..)], remote)?;
    initiated(&link.near, &[(RequestType::Read, 5, Status::SUCCESS)])?;
    for context in 0..4 {
        link.near.write(context, &[from.sge(..)], remote)?;
    }
    bench
        .near
        .successes("the Writes", &link.near.queues.initiator, 4)?;
    nothing_else(link)
}

fn full_windows(bench: &Bench) -> Verdict {
    let blocked = blocked(bench, QueuePairOptions::default().initiator_queue_depth(4))?;
    let (link, target) = (&blocked.link, shared(&bench.far, 64)?);
    let from = source(&bench.near, 64)?;
    let (own, window) = (shared(&bench.near, 64)?, bench.near.window()?);
    fill(link, target.remote(), from.sge(..))?;
    let qp = &link.near.queues.qp;
    let wanted = Status::NO_MORE_ENTRIES;
    let (address, read) = (own.buffer.address(), OpFlags::ALLOW_READ);
    let posted = qp.bind(1, &own.region, &window, address, 64, read);
    bench
        .near
        .refused("Bind into a full queue", posted, wanted)?;
    let posted = qp.invalidate(2, &window, NONE);
    bench
        .near
        .refused("Invalidate into a full queue", posted, wanted)?;
    // The refused Bind does not hold the region.
    bench.near.deregister(&own.region)?;
    Ok(Pass::Right)
}

fn full_receives(bench: &Bench) -> Verdict {
    let near = bench
        .near
        .queues(64, QueuePairOptions::default().receive_queue_depth(4))?;
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let into = sink(&bench.near, 64)?;
    let most = bench.near.info.max_receive_queue_depth;
    bench.step("fill the receive queue");
    let mut count = 0;
    let refused = loop {
        match near.qp.receive(u64::from(count), &[into.sge(..)]) {
            Ok(()) if count <= most => count += 1,
            other => break other,
        }
    };
    let wanted = Status::NO_MORE_ENTRIES;
    bench
        .near
        .refused("Receive into a full queue", refused, wanted)?;
    conform_report::ensure(
        count >= 4,
        "room for four Receives",
        format!("room for {count}"),
    )?;
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let link = bench.join(near, far, limits)?;
    exchange(&link)?;
    let from = source(&bench.far, 64)?;
    link.far.send(1, &[from.sge(..)], NONE)?;
    let taken = link.near.takes()?;
    bench
        .near
        .equal("the oldest Receive", taken.request_context, 0)?;
    link.near.receive(100, &[into.sge(..)])?;
    let posted = link.near.queues.qp.receive(101, &[into.sge(..)]);
    bench.near.refused("one Receive too many", posted, wanted)?;
    nothing_else(&link)
}

/// Waits until there is a result, and takes none.
fn has_result(side: &Side, cq: &Arc<dyn CompletionQueue>) -> Step {
    let overlapped = Overlapped::new().without_port();
    let started = cq.notify(NotifyType::Any, &overlapped);
    side.done("Notify of a result", started, &overlapped)
}

/// Posts until the queue is full, as often as the queue can have slots. Returns the number of requests.
fn fill_by(side: &Side, most: u32, post: impl Fn(u64) -> Result<()>) -> Step<usize> {
    for count in 0..=most {
        match post(count.into()) {
            Ok(()) => {}
            Err(error) if error.status() == Status::NO_MORE_ENTRIES => return Ok(count as usize),
            Err(error) => {
                let wanted = "ND_NO_MORE_ENTRIES from a full queue";
                return Err(conform_report::fail(wanted, error.to_string()));
            }
        }
    }
    let seen = format!("{most} requests and one more taken on {}", side.name);
    Err(conform_report::fail(
        "ND_NO_MORE_ENTRIES from a full queue",
        seen,
    ))
}

/// The queue is full, and there are results of its requests: it stays full until one of them is taken, and then has room for one.
fn stays_full(
    side: &Side,
    cq: &Arc<dyn CompletionQueue>,
    post: impl Fn(u64) -> Result<()>,
) -> Step {
    let full = Status::NO_MORE_ENTRIES;
    has_result(side, cq)?;
    for _ in 0..3 {
        for context in 0..4 {
            let posted = post(1000 + context);
            side.refused("one request more, with no result taken", posted, full)?;
        }
        side.result("one of those that wait", cq)?;
        side.expect("a request for the result that was taken", post(2000))?;
        let posted = post(2001);
        side.refused("a request for a result that was not taken", posted, full)?;
    }
    Ok(())
}

fn writes_not_taken(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    let deep = info.max_completion_queue_depth.min(4096);
    let options = QueuePairOptions::default().initiator_queue_depth(4);
    let near = bench.near.queues(deep, options)?;
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let link = bench.join(near, far, limits)?;
    exchange(&link)?;
    let (target, from) = (shared(&bench.far, 64)?, source(&bench.near, 64)?);
    let queues = &link.near.queues;
    let (sge, remote) = ([from.sge(..)], target.remote());
    let write = |context| queues.qp.write(context, &sge, remote, NONE);
    bench.step("fill the initiator queue");
    let count = fill_by(&bench.near, info.max_initiator_queue_depth, write)?;
    stays_full(&bench.near, &queues.initiator, write)?;
    (bench.near).successes("the Writes", &queues.initiator, count)?;
    nothing_else(&link)
}

fn receives_not_taken(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let deep = side.info.max_completion_queue_depth.min(4096);
    let queues = side.queues(deep, QueuePairOptions::default().receive_queue_depth(4))?;
    let receive = |context| queues.qp.receive(context, &[]);
    bench.step("fill the receive queue");
    let count = fill_by(side, side.info.max_receive_queue_depth, receive)?;
    side.expect("flush", queues.qp.flush())?;
    stays_full(side, &queues.receives, receive)?;
    side.expect("flush", queues.qp.flush())?;
    let results = side.results("the Receives", &queues.receives, count)?;
    let canceled = |result: &CompletionResult| result.status == Status::CANCELED;
    conform_report::ensure(
        results.iter().all(canceled),
        "cancelled Receives",
        format!("{results:?}"),
    )?;
    Ok(Pass::Right)
}

fn too_many_entries(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    let strict = bench.profile() == Profile::Strict;
    let memory = sink(&bench.near, 64)?;
    let target = shared(&bench.far, 64)?;
    let list = |count: u32| vec![memory.sge(..1); count as usize];
    // The number of entries that a queue pair for one entry takes is the provider's choice, except in the strict profile.
    let beyond = |limit: u32, name| {
        if strict { Ok(2) } else { above(limit, name) }
    };
    let link = bench.link()?;
    let qp = &link.near.queues.qp;
    let wanted = Status::DATA_OVERRUN;
    let refused = |what, posted: Result<()>| bench.near.refused(what, posted, wanted);
    let many = list(beyond(info.max_initiator_sge, "MaxInitiatorSge")?);
    refused("Send", qp.send(1, &many, NONE))?;
    refused("Write", qp.write(2, &many, target.remote(), NONE))?;
    let many = list(beyond(info.max_receive_sge, "MaxReceiveSge")?);
    refused("Receive", qp.receive(3, &many))?;
    let many = list(beyond(info.max_read_sge, "MaxReadSge")?);
    refused("Read", qp.read(4, &many, target.remote(), NONE))?;
    exchange(&link)?;
    message(&link.far, &link.near, 64)?;

    let largest = QueuePairOptions::default().max_initiator_request_sge(info.max_initiator_sge);
    let options = LinkOptions {
        near: largest,
        ..LinkOptions::default()
    };
    let wide = bench.link_with(options)?;
    let many = list(above(info.max_read_sge, "MaxReadSge")?);
    let posted = wide.near.queues.qp.read(5, &many, target.remote(), NONE);
    refused("Read with more entries than MaxReadSge", posted)?;
    exchange(&wide)?;
    nothing_else(&link)
}

fn sizes_of_nothing(bench: &Bench) -> Verdict {
    let nothing = QueuePairOptions::default()
        .receive_queue_depth(0)
        .initiator_queue_depth(0)
        .max_receive_request_sge(0)
        .max_initiator_request_sge(0);
    let options = LinkOptions {
        near: nothing,
        greeting: false,
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let qp = &link.near.queues.qp;
    let wanted = Status::NO_MORE_ENTRIES;
    bench.near.refused("Receive", qp.receive(1, &[]), wanted)?;
    bench.near.refused("Send", qp.send(2, &[], NONE), wanted)?;

    let no_entries = entries(0);
    let options = LinkOptions {
        near: no_entries,
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let memory = sink(&bench.near, 64)?;
    let (qp, wanted) = (&link.near.queues.qp, Status::DATA_OVERRUN);
    let posted = qp.receive(1, &[memory.sge(..)]);
    bench
        .near
        .refused("Receive with an entry", posted, wanted)?;
    let posted = qp.send(2, &[memory.sge(..)], NONE);
    bench.near.refused("Send with an entry", posted, wanted)?;
    link.far.receive(3, &[])?;
    link.near.send(4, &[], NONE)?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    Ok(Pass::Right)
}

/// All single bits that are not among these flags.
fn others(taken: OpFlags) -> impl Iterator<Item = OpFlags> {
    (0..32)
        .map(|bit| OpFlags::from_bits_retain(1 << bit))
        .filter(move |flag| !taken.contains(*flag))
}

const ALWAYS: OpFlags = OpFlags::SILENT_SUCCESS.union(OpFlags::READ_FENCE);

fn flags(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.near, 64)?);
    let target = shared(&bench.far, 64)?;
    let (qp, remote) = (&link.near.queues.qp, target.remote());
    let (data, space) = ([from.sge(..)], [into.sge(..)]);
    let send = ALWAYS | OpFlags::SEND_AND_SOLICIT_EVENT;
    for flag in others(send) {
        let what = format!("Send with {flag:?}");
        let posted = qp.send(1, &data, flag);
        bench
            .near
            .refused(what, posted, Status::INVALID_PARAMETER_4)?;
    }
    let wanted = Status::INVALID_PARAMETER_6;
    for flag in others(ALWAYS) {
        let what = format!("Read with {flag:?}");
        let posted = qp.read(2, &space, remote, flag);
        bench.near.refused(what, posted, wanted)?;
        let what = format!("Write with {flag:?}");
        let posted = qp.write(3, &data, remote, flag);
        bench.near.refused(what, posted, wanted)?;
    }
    let there = sink(&bench.far, 64)?;
    link.far.receive(4, &[there.sge(..)])?;
    let post = |what, posted: Result<()>| bench.near.expect(what, posted);
    post("Send with all its flags", qp.send(5, &data, send))?;
    let read = qp.read(6, &space, remote, ALWAYS);
    post("Read with all its flags", read)?;
    let write = qp.write(7, &data, remote, ALWAYS);
    post("Write with all its flags", write)?;
    link.far.received("the Send with all its flags")?;
    exchange(&link)?;
    nothing_else(&link)
}

fn window_flags(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (own, window) = (
        bench.near.memory(64, MrFlags::ALLOW_LOCAL_WRITE)?,
        bench.near.window()?,
    );
    let (qp, address) = (&link.near.queues.qp, own.buffer.address());
    let bind = ALWAYS | OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
    for flag in others(bind) {
        let posted = qp.bind(1, &own.region, &window, address, 64, flag);
        let what = format!("Bind with {flag:?}");
        bench
            .near
            .refused(what, posted, Status::INVALID_PARAMETER_6)?;
    }
    for flag in others(ALWAYS) {
        let what = format!("Invalidate with {flag:?}");
        let posted = qp.invalidate(2, &window, flag);
        bench
            .near
            .refused(what, posted, Status::INVALID_PARAMETER_3)?;
    }
    let posted = qp.bind(3, &own.region, &window, address, 64, bind);
    bench.near.expect("Bind with all its flags", posted)?;
    let posted = qp.invalidate(4, &window, ALWAYS);
    bench.near.expect("Invalidate with all its flags", posted)?;
    exchange(&link)?;
    bench.near.deregister(&own.region)?;
    nothing_else(&link)
}

fn too_much_inline(bench: &Bench) -> Verdict {
    let most = bench.near.info.max_inline_data_size;
    let options = LinkOptions {
        near: QueuePairOptions::default().inline_data_size(most),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let target = shared(&bench.far, 64)?;
    let data = vec![0; most as usize + 1];
    let (one, many) = data.split_at(1);
    let wanted = Status::BUFFER_OVERFLOW;
    let qp = &link.near.queues.qp;
    let posted = qp.send_inline(1, &[&data], NONE);
    bench.near.refused("inline Send", posted, wanted)?;
    let posted = qp.send_inline(1, &[one, many], NONE);
    bench
        .near
        .refused("inline Send in pieces", posted, wanted)?;
    let posted = qp.write_inline(2, &[&data], target.remote(), NONE);
    bench.near.refused("inline Write", posted, wanted)?;
    exchange(&link)?;
    nothing_else(&link)
}
