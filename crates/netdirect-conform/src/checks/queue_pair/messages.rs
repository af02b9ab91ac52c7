//! Sends and Receives, and the fields of all results.

use conform_report::{Pass, Verdict, ensure};
use netdirect::{
    MrFlags, NotifyType, OpFlags, Overlapped, QueuePairOptions, ReadLimits, RequestType, Sge,
    Status,
};

use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::checks::common::{exchange, pattern, shared, sink, source};
use crate::checks::requests::{
    NONE, begun, both, entries, expect_result, initiated, message, much, one_of, over, received,
    stale, two_way, two_way_with,
};
use crate::link::LinkOptions;
use crate::need::Need;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::QueuePair, name, title, run)
}

pub(in crate::checks) const CHECKS: &[Check] = &[
    new_check(
        "QP-010.messages",
        "sends messages of several lengths, which go into the peer's Receives in the order of posting",
        messages,
    )
    .also(&[
        "QP-017", "QP-026", "RES-001", "RES-002", "RES-004", "IW-039", "AMB-021", "TST-097",
    ])
    .needs(&[Need::Connections]),
    new_check(
        "RES-006.kinds",
        "makes one request of each kind, and finds its kind, its context, its queue pair and its success in the result",
        kinds,
    )
    .also(&[
        "QP-035", "QP-045", "QP-052", "QP-064", "RES-001", "RES-003", "RES-005", "IW-030", "AMB-020",
    ])
    .needs(&[Need::Connections, Need::Windows]),
    new_check(
        "QP-016.empty",
        "sends messages of no octets and of four, into Receives with entries and without",
        empty,
    )
    .also(&["QP-030", "SGE-005", "TST-053", "TST-079", "TST-094"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-018.array",
        "changes the array of entries after each post, before the request can have started",
        array,
    )
    .needs(&[Need::Connections]),
    new_check(
        "SGE-001.entries",
        "sends from two entries of two regions and receives into two of one region",
        two_entries,
    )
    .also(&["SGE-003", "SGE-005", "TST-029"])
    .needs(&[Need::Connections]),
    new_check(
        "TST-061.surplus",
        "sends from two entries on a queue pair that was created for one",
        surplus_entries,
    )
    .also(&["AMB-009"])
    .needs(&[Need::Connections, Need::DefaultProfile]),
    new_check(
        "QP-019.silent",
        "sends silently, which leaves neither result nor notification, and fails silently, which leaves both",
        silent,
    )
    .also(&["IW-036"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-021.solicited",
        "sends without and with the flag for a solicited event to a side whose Notify waits for solicited results",
        solicited,
    )
    .also(&["QP-022", "IW-038", "IW-040"])
    .needs(&[Need::Connections, Need::Solicited]),
    new_check(
        "QP-023.inline",
        "sends and writes inline data in many pieces from memory that is not registered, and changes it after the call",
        inline,
    )
    .also(&["QP-024", "SGE-001", "SGE-003", "IW-037", "AMB-049", "TST-022", "TST-093"])
    .needs(&[Need::Connections, Need::Inline]),
    new_check(
        "QP-031.early",
        "posts Receives on both sides before the connection is made, which messages then use",
        early_receives,
    )
    .also(&["TST-035"])
    .needs(&[Need::Connections]),
    new_check(
        "QP-034.short",
        "receives a message of 1,024 octets into 1,023, which ends the connection but not the Send",
        short_receive,
    )
    .also(&["RES-008", "IW-061", "AMB-006", "AMB-007", "TST-056", "TST-057"])
    .needs(&[Need::Connections]),
    new_check(
        "RES-014.remote",
        "sends more than the transport can hold into a Receive that is too short",
        remote_error,
    )
    .also(&["AMB-007"])
    .needs(&[Need::Connections]),
    new_check(
        "AMB-008.no-receive",
        "sends more than the transport can hold to a queue pair without a Receive, which ends the connection",
        no_receive,
    )
    .also(&["RES-013", "IW-029", "TST-087", "AMB-041"])
    .needs(&[Need::Connections, Need::DefaultProfile]),
    new_check(
        "IW-029.no-receive",
        "sends more than the transport can hold to a queue pair without a Receive, which ends the connection",
        no_receive,
    )
    .needs(&[Need::Connections, Need::StrictProfile]),
    new_check(
        "IW-060.started",
        "sends without ever calling the queue pair again: the message arrives",
        not_deferred,
    )
    .needs(&[Need::Connections]),
    new_check(
        "IW-062.order",
        "sends and gets an answer, both results in one completion queue: the Send's comes first",
        answer,
    )
    .also(&["ADPT-028", "TST-017", "TST-064", "TST-104"])
    .needs(&[Need::Connections]),
];

fn messages(bench: &Bench) -> Verdict {
    const LENGTHS: [usize; 6] = [1, 63, 4096, 17, 100_000, 64];
    const CONTEXTS: [u64; 6] = [0, u64::MAX, 1, 1 << 63, 0xFFFF_FFFF, 7];
    let link = two_way(bench)?;
    let from = source(&bench.far, 100_000)?;
    let mut sinks = Vec::new();
    for context in CONTEXTS {
        let into = sink(&bench.near, 100_000)?;
        link.near.receive(context, &[into.sge(..)])?;
        sinks.push(into);
    }
    for (length, context) in LENGTHS.into_iter().zip(CONTEXTS) {
        let from = from.sge(100_000 - length..);
        link.far.send(!context, &[from], NONE)?;
    }
    for context in CONTEXTS {
        let sent = link.far.succeeds(RequestType::Send)?;
        let got = sent.request_context;
        bench.far.equal("the context of the Send", got, !context)?;
    }
    let whole = pattern(100_000);
    for ((length, context), into) in LENGTHS.into_iter().zip(CONTEXTS).zip(sinks) {
        let taken = link.near.takes()?;
        let got = (taken.request_context, taken.bytes_transferred as usize);
        bench.near.equal("the Receive", got, (context, length))?;
        let octets = into.octets(0, 100_000);
        let right = octets[..length] == whole[100_000 - length..];
        ensure(right, "the octets of the message", "other octets")?;
        let rest = octets[length..].iter().all(|octet| *octet == 0);
        ensure(rest, "nothing behind the message", "octets behind it")?;
    }
    Ok(Pass::Right)
}

fn kinds(bench: &Bench) -> Verdict {
    let options = LinkOptions {
        near: QueuePairOptions::default().context(0xC0),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    exchange(&link)?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.near, 64)?);
    let (target, window) = (shared(&bench.far, 64)?, bench.near.window()?);
    let there = sink(&bench.far, 64)?;
    link.far.receive(1, &[there.sge(..)])?;
    link.near.receive(16, &[into.sge(..)])?;
    let (qp, remote) = (&link.near.queues.qp, target.remote());
    link.near.send(11, &[from.sge(..)], NONE)?;
    let (address, rights) = (into.buffer.address(), OpFlags::ALLOW_READ);
    let posted = qp.bind(12, &into.region, &window, address, 64, rights);
    bench.near.expect("post a Bind", posted)?;
    let posted = qp.invalidate(13, &window, NONE);
    bench.near.expect("post an Invalidate", posted)?;
    link.near.read(14, &[into.sge(..)], remote)?;
    link.near.write(15, &[from.sge(..)], remote)?;
    link.far.send(2, &[there.sge(..1)], NONE)?;
    let mut results = bench
        .near
        .results("one of each kind", &link.near.queues.initiator, 5)?;
    results.push(link.near.received("of the Receive")?);
    let kinds = [
        RequestType::Send,
        RequestType::Bind,
        RequestType::Invalidate,
        RequestType::Read,
        RequestType::Write,
        RequestType::Receive,
    ];
    for ((result, kind), context) in results.iter().zip(kinds).zip(11..) {
        expect_result(&bench.near, result, kind, context, Status::SUCCESS)?;
        let got = result.queue_pair_context;
        bench.near.equal("the queue pair's context", got, 0xC0)?;
    }
    Ok(Pass::Right)
}

fn empty(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (from, into) = (source(&bench.far, 64)?, sink(&bench.near, 64)?);
    let none = into.sge(..0);
    let (some, four) = (into.sge(..), from.sge(..4));
    for (context, receive) in [
        (1, vec![]),
        (2, vec![some]),
        (3, vec![some]),
        (4, vec![none]),
    ] {
        link.near.receive(context, &receive)?;
    }
    for (context, send) in [
        (1, vec![]),
        (2, vec![]),
        (3, vec![four]),
        (4, vec![from.sge(..0)]),
    ] {
        link.far.send(context, &send, NONE)?;
    }
    for octets in [0, 0, 4, 0] {
        let taken = link.near.takes()?;
        bench
            .near
            .equal("the octets received", taken.bytes_transferred, octets)?;
    }
    bench
        .far
        .successes("the Sends", &link.far.queues.initiator, 4)?;
    message(&link.far, &link.near, 64)?;
    Ok(Pass::Right)
}

/// Entries that name nothing.
fn spoil(entries: &mut [Sge]) {
    for entry in entries {
        *entry = Sge {
            address: 1,
            length: u32::MAX,
            token: netdirect::LocalToken(0),
        };
    }
}

fn array(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.near, 64)?);
    let (target, there) = (shared(&bench.far, 1 << 20)?, sink(&bench.far, 64)?);
    let own = source(&bench.far, 64)?;
    let large = sink(&bench.near, 1 << 20)?;

    let mut array = [into.sge(..)];
    link.near.receive(1, &array)?;
    spoil(&mut array);
    array = [large.sge(..)];
    link.near.read(2, &array, target.remote())?;
    spoil(&mut array);
    // These wait for the Read, so that they start after their arrays have changed.
    array = [from.sge(..)];
    link.far.receive(3, &[there.sge(..)])?;
    link.near.send(4, &array, OpFlags::READ_FENCE)?;
    spoil(&mut array);
    array = [from.sge(..)];
    link.near.write(5, &array, target.remote())?;
    spoil(&mut array);
    link.far.send(6, &[own.sge(..)], NONE)?;
    let succeeded = Status::SUCCESS;
    let wanted = [
        (RequestType::Read, 2, succeeded),
        (RequestType::Send, 4, succeeded),
        (RequestType::Write, 5, succeeded),
    ];
    initiated(&link.near, &wanted)?;
    link.far.takes()?;
    link.near.takes()?;
    let wanted = pattern(64);
    bench
        .far
        .equal("the message", there.octets(0, 64), wanted)?;
    let got = into.octets(0, 64);
    bench.near.equal("the far message", got, pattern(64))?;
    Ok(Pass::Right)
}

fn two_entries(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    if info.max_initiator_sge < 3 || info.max_receive_sge < 3 {
        let why = "the adapter takes fewer than three entries in a request";
        return Err(conform_report::Stop::Skip(why.to_owned()));
    }
    let link = two_way_with(bench, both(entries(3)))?;
    let (one, two) = (source(&bench.far, 100)?, source(&bench.far, 50)?);
    let into = sink(&bench.near, 200)?;
    let places = [into.sge(150..), into.sge(10..10), into.sge(..100)];
    link.near.receive(1, &places)?;
    let parts = [one.sge(20..100), two.sge(5..5), two.sge(10..50)];
    link.far.send(2, &parts, NONE)?;
    let taken = link.near.takes()?;
    let octets = taken.bytes_transferred;
    bench.near.equal("the octets received", octets, 120)?;
    let parts = [pattern(100), pattern(50)];
    let sent = [&parts[0][20..100], &parts[1][10..50]].concat();
    let got = [into.octets(150, 50), into.octets(0, 70)].concat();
    bench.near.equal("the octets of the message", got, sent)?;
    let between = into.octets(70, 80);
    bench
        .near
        .equal("the memory between the entries", between, vec![0; 80])?;
    Ok(Pass::Right)
}

fn surplus_entries(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    link.far.receive(1, &[into.sge(..)])?;
    link.near.send(2, &[from.sge(..10), from.sge(10..)], NONE)?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    bench
        .far
        .equal("the message", into.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn silent(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let notified = Overlapped::new().without_port();
    let cq = &link.near.queues.initiator;
    let notify = cq.notify(NotifyType::Any, &notified);
    begun(&bench.near, "Notify", notify)?;
    let silent = OpFlags::SILENT_SUCCESS;
    for context in 0..3 {
        link.far.receive(context, &[into.sge(..)])?;
        link.near.send(context, &[from.sge(..)], silent)?;
    }
    for _ in 0..3 {
        link.far.takes()?;
    }
    bench.near.stays("Notify", &notified)?;
    let bad = stale(&bench.near, 64)?;
    link.near.send(3, &[bad], silent)?;
    bench.near.done(
        "Notify of a failure",
        Ok(netdirect::Started::Pending),
        &notified,
    )?;
    let failed = (RequestType::Send, 3, Status::ACCESS_VIOLATION);
    initiated(&link.near, &[failed])?;
    Ok(Pass::Right)
}

fn solicited(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (from, into) = (source(&bench.far, 64)?, sink(&bench.near, 64)?);
    let solicit = OpFlags::SEND_AND_SOLICIT_EVENT;
    for context in 0..4 {
        link.near.receive(context, &[into.sge(..)])?;
    }
    // No request waits, so the flag changes nothing.
    link.far.send(0, &[from.sge(..)], solicit)?;
    let taken = link.near.takes()?;
    let octets = taken.bytes_transferred;
    bench.near.equal("the octets received", octets, 64)?;

    let cq = &link.near.queues.receives;
    let mut results = [netdirect::CompletionResult::default(); 4];
    let notified = Overlapped::new().without_port();
    let mut started = cq.notify(NotifyType::Solicited, &notified);
    if notified.status() == Status::SUCCESS {
        // A wake-up too many does no harm.
        started = cq.notify(NotifyType::Solicited, &notified);
    }
    begun(&bench.near, "Notify for solicited results", started)?;
    link.far.send(1, &[from.sge(..)], NONE)?;
    link.near.takes()?;
    bench
        .near
        .stays("Notify for solicited results", &notified)?;
    link.far.send(2, &[from.sge(..)], solicit)?;
    let what = "Notify of a solicited result";
    bench
        .near
        .done(what, Ok(netdirect::Started::Pending), &notified)?;
    bench.near.step("take the solicited result");
    let count = cq.get_results(&mut results);
    bench.near.equal("the results that are there", count, 1)?;
    expect_result(
        &bench.near,
        &results[0],
        RequestType::Receive,
        2,
        Status::SUCCESS,
    )?;

    // A Notify for any result, and a second one for solicited results, end with a result that is not solicited.
    let (any, beside) = (Overlapped::new(), Overlapped::new());
    let (any, beside) = (any.without_port(), beside.without_port());
    let (failures, kind) = (Overlapped::new().without_port(), NotifyType::Errors);
    begun(&bench.near, "Notify for errors", cq.notify(kind, &failures))?;
    let first = cq.notify(NotifyType::Solicited, &beside);
    begun(&bench.near, "Notify for solicited results", first)?;
    let second = cq.notify(NotifyType::Any, &any);
    begun(&bench.near, "Notify for any result", second)?;
    link.far.send(3, &[from.sge(..)], NONE)?;
    link.near.takes()?;
    let pending = Ok(netdirect::Started::Pending);
    bench.near.done("Notify for any result", pending, &any)?;
    let pending = Ok(netdirect::Started::Pending);
    bench
        .near
        .done("Notify for solicited results", pending, &beside)?;
    bench.near.stays("Notify for errors", &failures)?;
    Ok(Pass::Right)
}

fn inline(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    let most = info.max_inline_data_size.min(4096);
    let granted = info.inline_request_threshold.clamp(1, most);
    let near = QueuePairOptions::default().inline_data_size(granted);
    let length = granted as usize;
    let options = LinkOptions {
        near,
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let (target, there) = (shared(&bench.far, 1 << 20)?, sink(&bench.far, length)?);
    let large = sink(&bench.near, 1 << 20)?;
    let mut data = pattern(length);
    data.reverse();
    let wanted = data.clone();
    link.far.receive(1, &[there.sge(..)])?;
    // The Send waits for the Read, so that it starts after the data has changed.
    link.near.read(2, &[large.sge(..)], target.remote())?;
    let pieces: Vec<&[u8]> = data.chunks(1 + length / 40).collect();
    let qp = &link.near.queues.qp;
    let fence = OpFlags::READ_FENCE | OpFlags::INLINE;
    let posted = qp.send_inline(3, &pieces, fence);
    bench.near.expect("post an inline Send", posted)?;
    let posted = qp.write_inline(4, &pieces, target.remote(), fence);
    bench.near.expect("post an inline Write", posted)?;
    data.fill(0xDD);
    let succeeded = Status::SUCCESS;
    let results = [
        (RequestType::Read, 2, succeeded),
        (RequestType::Send, 3, succeeded),
        (RequestType::Write, 4, succeeded),
    ];
    initiated(&link.near, &results)?;
    link.far.takes()?;
    let got = there.octets(0, length);
    bench.far.equal("the inline message", got, wanted.clone())?;
    bench.far.step("wait for the inline Write");
    bench.far.until(|| target.octets(0, length) == wanted)?;
    Ok(Pass::Right)
}

fn early_receives(bench: &Bench) -> Verdict {
    let near = bench.near.queues(64, QueuePairOptions::default())?;
    let far = bench.far.queues(64, QueuePairOptions::default())?;
    let (here, there) = (sink(&bench.near, 64)?, sink(&bench.far, 64)?);
    let posted = near.qp.receive(1, &[here.sge(..)]);
    bench.near.expect("post a Receive", posted)?;
    let posted = far.qp.receive(2, &[there.sge(..)]);
    bench.far.expect("post a Receive", posted)?;
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let link = bench.join(near, far, limits)?;
    let from = source(&bench.near, 64)?;
    link.near.send(3, &[from.sge(..)], NONE)?;
    received(&link.far, &[(2, Status::SUCCESS)])?;
    let from = source(&bench.far, 64)?;
    link.far.send(4, &[from.sge(..)], NONE)?;
    received(&link.near, &[(1, Status::SUCCESS)])?;
    bench
        .near
        .equal("the message", here.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn short_receive(bench: &Bench) -> Verdict {
    let link = two_way(bench)?;
    let (from, into) = (source(&bench.far, 1024)?, sink(&bench.near, 1024)?);
    link.near.receive(1, &[into.sge(..1023)])?;
    link.near.receive(2, &[into.sge(..)])?;
    link.far.send(3, &[from.sge(..)], NONE)?;
    initiated(&link.far, &[(RequestType::Send, 3, Status::SUCCESS)])?;
    let short = (1, Status::BUFFER_OVERFLOW);
    received(&link.near, &[short, (2, Status::CANCELED)])?;
    bench.near.equal(
        "the octet behind the Receive",
        into.octets(1023, 1),
        vec![0],
    )?;
    over(&link.near)?;
    over(&link.far)?;
    Ok(Pass::Right)
}

fn remote_error(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let from = bench.near.memory(much(&bench.near), MrFlags::empty())?;
    let into = sink(&bench.far, 64)?;
    link.far.receive(1, &[into.sge(..)])?;
    link.near.send(2, &[from.sge(..)], NONE)?;
    link.near.send(3, &[], NONE)?;
    received(&link.far, &[(1, Status::BUFFER_OVERFLOW)])?;
    let failed = (RequestType::Send, 2, Status::REMOTE_ERROR);
    initiated(
        &link.near,
        &[failed, (RequestType::Send, 3, Status::CANCELED)],
    )?;
    over(&link.near)?;
    Ok(Pass::Right)
}

fn no_receive(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let from = bench.near.memory(much(&bench.near), MrFlags::empty())?;
    link.near.send(2, &[from.sge(..)], NONE)?;
    let result = link.near.initiated("the Send that finds no Receive")?;
    bench
        .near
        .equal("the kind", result.request_type, RequestType::Send)?;
    let allowed = [Status::IO_TIMEOUT, Status::REMOTE_ERROR];
    one_of("the Send's status", result.status, &allowed)?;
    over(&link.near)?;
    let mut none = [netdirect::CompletionResult::default(); 1];
    bench.step("look into the peer's completion queue");
    let cq = &link.far.queues.receives;
    bench
        .far
        .equal("results of the peer", cq.get_results(&mut none), 0)?;
    Ok(Pass::Right)
}

fn not_deferred(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (from, into) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    link.far.receive(1, &[into.sge(..)])?;
    link.near.send(2, &[from.sge(..)], NONE)?;
    link.far.takes()?;
    Ok(Pass::Right)
}

fn answer(bench: &Bench) -> Verdict {
    let cq = bench.near.cq(8)?;
    let options = QueuePairOptions::default();
    let near = crate::link::Queues {
        qp: bench.near.qp(&cq, &cq, options)?,
        receives: cq.clone(),
        initiator: cq.clone(),
    };
    let far = bench.far.queues(64, options)?;
    let limits = ReadLimits {
        inbound: 4,
        outbound: 4,
    };
    let link = bench.join(near, far, limits)?;
    let (here, there) = (sink(&bench.near, 64)?, sink(&bench.far, 64)?);
    for round in 0..10 {
        link.near.receive(round, &[here.sge(..)])?;
        link.far.receive(round, &[there.sge(..)])?;
        link.near.send(round, &[here.sge(..)], NONE)?;
        link.far.takes()?;
        link.far.send(round, &[there.sge(..)], NONE)?;
        link.far.succeeds(RequestType::Send)?;
        let results = bench.near.successes("of Send and answer", &cq, 2)?;
        let order = (results[0].request_type, results[1].request_type);
        let wanted = (RequestType::Send, RequestType::Receive);
        bench
            .near
            .equal("the order of the results", order, wanted)?;
    }
    Ok(Pass::Right)
}
