//! `IND2Overlapped`, and what all objects have in common: requests, their ends, and who hears of them.

use std::sync::Arc;

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{
    Buffer, CompletionPort, CompletionQueue, Event, MrFlags, NotifyType, OpFlags, Overlapped,
    OverlappedObject, QueuePairOptions, RequestType, Started, Status,
};

use super::common::{at_once, pattern, remove, sink};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::need::Need;
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Overlapped, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "GEN-007.notified",
        "counts the packets of requests: one for each that was pending, none for one that was done",
        notified_once,
    )
    .also(&["GEN-008", "GEN-011", "GEN-023", "ADPT-005"]),
    new_check(
        "GEN-007.event",
        "has the end of a request set its event, once",
        event_once,
    )
    .also(&["TST-001"]),
    new_check(
        "GEN-009.refused",
        "has an overlapped call refused: no packet follows, and the Overlapped is free",
        refused_starts_nothing,
    ),
    new_check(
        "GEN-015.clean-up",
        "cleans up after the device was removed: Deregister, Flush, CancelOverlappedRequests and GetResults work",
        clean_up_after_removal,
    )
    .needs(&[Need::Faults]),
    new_check(
        "GEN-017.warning",
        "overfills a queue, which is a failure though the status is a warning",
        warning_fails,
    )
    .also(&["GEN-012"]),
    new_check(
        "GEN-019.threads",
        "posts 64 Receives from four threads, and finds each once when they are flushed",
        many_threads,
    )
    .needs(&[Need::Threads]),
    new_check(
        "GEN-020.order",
        "releases the adapter and the file before the objects, which go on working",
        released_in_any_order,
    )
    .also(&["TST-026"]),
    new_check(
        "ADPT-004.given-up",
        "gives up a file again and again while its objects live: their requests end with packets, and other users go on",
        file_given_up,
    )
    .needs(&[Need::Connections]),
    new_check(
        "GEN-022.foreign",
        "passes connectors and queue pairs of another adapter",
        foreign_objects,
    ),
    new_check(
        "OVL-001.cancel",
        "cancels three requests: all end with ND_CANCELED, their packets in the port in the order of the requests when the call returns",
        cancel_all,
    )
    .also(&["OVL-002", "OVL-003", "AMB-023", "TST-032"]),
    new_check(
        "OVL-001.own",
        "cancels the requests of one object, and leaves those of another alone",
        cancel_own_only,
    ),
    new_check(
        "OVL-004.nothing",
        "cancels the requests of objects that have none",
        cancel_nothing,
    ),
    new_check(
        "OVL-005.status",
        "asks for the status of a request while it runs, when it has been cancelled, and of one that succeeded",
        statuses,
    )
    .also(&["OVL-006", "OVL-007", "OVL-016", "TST-005", "TST-113"]),
    new_check(
        "OVL-008.released",
        "releases an object while its request is pending",
        released_while_pending,
    )
    .also(&["CQ-023"]),
    new_check(
        "OVL-009.newer",
        "makes a second request of the same kind, which does not cancel the first",
        newer_does_not_cancel,
    )
    .also(&["AMB-024"]),
    new_check(
        "OVL-010.removed",
        "removes the device under requests of three kinds",
        removed_while_pending,
    )
    .needs(&[Need::Faults]),
    new_check(
        "OVL-011.wait",
        "waits by GetOverlappedResult for a request without an event",
        wait_without_event,
    )
    .also(&["AMB-068", "TST-108"])
    .needs(&[Need::Connections]),
    new_check(
        "OVL-013.unasked",
        "registers memory, hears of the end by an event alone, and sends from the memory",
        effect_without_asking,
    )
    .also(&["MR-005", "TST-007"])
    .needs(&[Need::Connections]),
    new_check(
        "OVL-015.threads",
        "waits for four requests of one object in four threads",
        wait_in_threads,
    )
    .needs(&[Need::Threads]),
    new_check(
        "OVL-021.no-port",
        "keeps the packet of a request away from the port, and waits for the request all the same",
        without_packet,
    )
    .also(&["TST-009"]),
    new_check(
        "OVL-022.reuse",
        "uses one Overlapped for requests of a region, a completion queue and a listener",
        used_again,
    ),
    new_check(
        "OVL-023.any-object",
        "asks one object for the result of another object's request",
        asked_elsewhere,
    ),
    new_check(
        "TST-006.old-status",
        "registers and deregisters with an Overlapped that has an old status, which is overwritten",
        old_status,
    )
    .also(&["ADPT-006"]),
    new_check(
        "TST-008.sign",
        "looks at the sign of the status in the packets of a request that was cancelled and of one that succeeded",
        sign_of_status,
    ),
    new_check(
        "TST-010.port",
        "takes a packet with its own request, key and status from a port that two files share",
        shared_port,
    )
    .also(&["AMB-069"]),
    new_check(
        "TST-030.order",
        "cancels on two completion queues in the reverse order of the requests: the packets come in the order of the cancels",
        order_of_cancels,
    )
    .also(&["TST-031"]),
];

/// A Notify that stays pending, on its own queue.
fn pending(side: &Side, overlapped: &Overlapped) -> Step<Arc<dyn CompletionQueue>> {
    let cq = side.cq(8)?;
    notify(side, &cq, overlapped)?;
    Ok(cq)
}

fn notify(side: &Side, cq: &Arc<dyn CompletionQueue>, overlapped: &Overlapped) -> Step {
    let started = cq.notify(NotifyType::Any, overlapped);
    let started = side.started("notify", started)?;
    side.equal("Notify of an empty queue", started, Started::Pending)
}

fn cancel(side: &Side, object: &(impl OverlappedObject + ?Sized)) -> Step {
    let canceled = object.cancel_overlapped_requests();
    side.expect("cancel the requests", canceled)
}

fn notified_once(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let region = side.region()?;
    let buffer = Buffer::new(64);
    let mut pending = 0;
    for _ in 0..3 {
        for registers in [true, false] {
            let overlapped = Overlapped::new();
            let started = if registers {
                region.register(&buffer, MrFlags::empty(), &overlapped)
            } else {
                region.deregister(&overlapped)
            };
            let what = if registers { "register" } else { "deregister" };
            let started = side.started(what, started)?;
            pending += usize::from(started == Started::Pending);
            side.done(what, Ok(started), &overlapped)?;
        }
    }
    side.step("count the packets");
    side.until(|| port.len() >= pending)?;
    bench.step("no further packet comes");
    let none = Overlapped::new().without_port();
    let cq = self::pending(&side, &none)?;
    side.stays("a Notify", &none)?;
    cancel(&side, &*cq)?;
    side.equal("the number of packets", port.len(), pending)?;
    Ok(Pass::Right)
}

fn event_once(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    let cq = side.cq(8)?;
    for round in 0..3 {
        notify(side, &cq, &overlapped)?;
        bench.step(format!("the event is not set before the end ({round})"));
        let early = event.wait_timeout(std::time::Duration::ZERO);
        ensure(!early, "an event that is not set", "a set event")?;
        cancel(side, &*cq)?;
        bench.step(format!("wait for the event ({round})"));
        if !event.wait_timeout(bench.limits().answer) {
            return bench.hangs();
        }
        side.status("the status", overlapped.status(), Status::CANCELED)?;
        let twice = event.wait_timeout(std::time::Duration::ZERO);
        ensure(!twice, "an event that is set once", "an event set twice")?;
    }
    Ok(Pass::Right)
}

fn refused_starts_nothing(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let (listener, connector) = (side.listener()?, side.connector()?);
    let overlapped = Overlapped::new();
    let started = listener.get_connection_request(&connector, &overlapped);
    let wanted = Status::INVALID_DEVICE_STATE;
    side.refused("GetConnectionRequest before Listen", started, wanted)?;
    ensure(!overlapped.is_pending(), "no request in flight", "one")?;
    // This Overlapped serves another request, whose packet is the only one.
    let cq = side.cq(8)?;
    overlapped.set_user(2);
    notify(&side, &cq, &overlapped)?;
    cancel(&side, &*cq)?;
    side.until(|| !port.is_empty())?;
    let packet = port.get(Some(bench.limits().quiet));
    let got = packet.map(|packet| (packet.user, packet.status));
    side.equal("the packet", got, Some((2, Status::CANCELED)))?;
    side.equal("further packets", port.len(), 0)?;
    Ok(Pass::Right)
}

fn clean_up_after_removal(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let memory = sink(&side, 64)?;
    let queues = side.queues(8, QueuePairOptions::default())?;
    let posted = queues.qp.receive(5, &[memory.sge(..)]);
    side.expect("post a Receive", posted)?;
    remove(&side)?;
    let result = side.result("the Receive after the removal", &queues.receives)?;
    let got = (result.request_context, result.status);
    side.equal("the result of the Receive", got, (5, Status::CANCELED))?;
    side.expect("Flush", queues.qp.flush())?;
    cancel(&side, &*queues.receives)?;
    cancel(&side, &*memory.region)?;
    side.deregister(&memory.region)?;
    Ok(Pass::Right)
}

fn warning_fails(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let options = QueuePairOptions::default().receive_queue_depth(2);
    let queues = side.queues(8, options)?;
    let memory = sink(side, 64)?;
    // The provider may grant more than was asked for.
    let most = u64::from(side.info.max_receive_queue_depth) + 1;
    for context in 0..most {
        side.step(format_args!("post Receive {context}"));
        if let Err(error) = queues.qp.receive(context, &[memory.sge(..)]) {
            let status = error.status();
            side.status("a Receive too many", status, Status::NO_MORE_ENTRIES)?;
            ensure(!status.is_success(), "a failure", "a success")?;
            ensure(context >= 2, "at least two Receives", format!("{context}"))?;
            return Ok(Pass::Right);
        }
    }
    Err(fail("ND_NO_MORE_ENTRIES", format!("{most} Receives")))
}

fn many_threads(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let options = QueuePairOptions::default().receive_queue_depth(64);
    let queues = side.queues(64, options)?;
    let memory = sink(side, 64)?;
    side.step("post Receives from four threads");
    let posted = at_once(4, |thread| {
        (0..16).try_for_each(|at| queues.qp.receive(thread * 16 + at, &[memory.sge(..)]))
    });
    for posted in posted {
        side.expect("post Receives", posted)?;
    }
    side.expect("flush", queues.qp.flush())?;
    let results = side.results("the flushed Receives", &queues.receives, 64)?;
    let mut contexts: Vec<u64> = results.iter().map(|found| found.request_context).collect();
    contexts.sort_unstable();
    side.equal("the contexts", contexts, (0..64).collect())?;
    Ok(Pass::Right)
}

fn released_in_any_order(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let region = side.region()?;
    let cq = side.cq(8)?;
    let connector = side.connector()?;
    let queues = side.queues(8, QueuePairOptions::default())?;
    let address = side.address;
    bench.step("release the adapter and the file");
    drop(side);
    let near = &bench.near;
    let buffer = Buffer::new(64);
    near.register(&region, &buffer, MrFlags::ALLOW_LOCAL_WRITE)?;
    let overlapped = Overlapped::new();
    notify(near, &cq, &overlapped)?;
    cancel(near, &*cq)?;
    let status = near.end_of("the Notify", &overlapped)?;
    near.status("the Notify", status, Status::CANCELED)?;
    near.expect("bind the connector", connector.bind(address))?;
    bench.step("release the completion queues before the queue pair");
    let crate::link::Queues {
        qp,
        receives,
        initiator,
    } = queues;
    drop((receives, initiator));
    near.expect("flush", qp.flush())?;
    near.deregister(&region)?;
    Ok(Pass::Right)
}

fn foreign_objects(bench: &Bench) -> Verdict {
    let (side, other) = (&bench.near, bench.other()?);
    let queues = other.queues(8, QueuePairOptions::default())?;
    let (own, foreign) = (side.connector()?, other.connector()?);
    let (listening, there) = (side.listening()?, bench.far.listening()?);
    let overlapped = Overlapped::new();
    let wanted = Status::INVALID_PARAMETER_1;
    let started = own.connect(&queues.qp, there.address, 0, 0, &[], &overlapped);
    side.refused("Connect with a foreign queue pair", started, wanted)?;
    let started = listening
        .listener
        .get_connection_request(&foreign, &overlapped);
    side.refused(
        "GetConnectionRequest with a foreign connector",
        started,
        wanted,
    )?;
    ensure(!overlapped.is_pending(), "no request in flight", "one")?;
    Ok(Pass::Right)
}

fn cancel_all(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let cq = side.cq(8)?;
    let requests: Vec<Overlapped> = (0..3).map(|_| Overlapped::new()).collect();
    for request in &requests {
        notify(&side, &cq, request)?;
    }
    cancel(&side, &*cq)?;
    for (at, request) in requests.iter().enumerate() {
        side.status(
            format_args!("request {at}"),
            request.status(),
            Status::CANCELED,
        )?;
    }
    side.equal("the packets when the call returns", port.len(), 3)?;
    for (at, request) in requests.iter().enumerate() {
        let packet = port.get(Some(std::time::Duration::ZERO));
        let Some(packet) = packet else {
            return Err(fail("a packet", "none"));
        };
        let is_own = packet.overlapped.is_some_and(|own| own.is_same(request));
        ensure(
            is_own,
            format!("packet {at} of request {at}"),
            "another request's",
        )?;
        side.status("the packet", packet.status, Status::CANCELED)?;
    }
    Ok(Pass::Right)
}

fn cancel_own_only(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (first, second) = (Overlapped::new(), Overlapped::new());
    let (one, other) = (pending(side, &first)?, pending(side, &second)?);
    cancel(side, &*one)?;
    side.status("the cancelled request", first.status(), Status::CANCELED)?;
    side.stays("the Notify of the other queue", &second)?;
    cancel(side, &*other)?;
    side.status("the other request", second.status(), Status::CANCELED)?;
    Ok(Pass::Right)
}

fn cancel_nothing(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (region, cq) = (side.region()?, side.cq(8)?);
    cancel(side, &*region)?;
    cancel(side, &*cq)?;
    cancel(side, &*side.connector()?)?;
    cancel(side, &*side.listener()?)?;
    // They still work.
    side.register(&region, &Buffer::new(64), MrFlags::empty())?;
    let overlapped = Overlapped::new();
    notify(side, &cq, &overlapped)?;
    cancel(side, &*cq)?;
    Ok(Pass::Right)
}

fn statuses(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let cq = side.cq(8)?;
    let overlapped = Overlapped::new();
    let unused = cq.get_overlapped_result(&overlapped, false);
    side.status("an Overlapped that was never used", unused, Status::SUCCESS)?;
    notify(side, &cq, &overlapped)?;
    side.step("ask for the result while the request runs");
    let status = cq.get_overlapped_result(&overlapped, false);
    side.status("a request that runs", status, Status::PENDING)?;
    cancel(side, &*cq)?;
    for wait in [false, true] {
        side.step(format_args!(
            "ask for the result of a cancelled request (wait: {wait})"
        ));
        let status = cq.get_overlapped_result(&overlapped, wait);
        side.status("a cancelled request", status, Status::CANCELED)?;
    }
    let region = side.region()?;
    side.register(&region, &Buffer::new(64), MrFlags::empty())?;
    let ended = Overlapped::new();
    let started = region.deregister(&ended);
    side.done("deregister", started, &ended)?;
    for wait in [false, true] {
        side.step(format_args!(
            "ask for the result of a success (wait: {wait})"
        ));
        let status = region.get_overlapped_result(&ended, wait);
        side.status("a request that succeeded", status, Status::SUCCESS)?;
    }
    Ok(Pass::Right)
}

fn released_while_pending(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let overlapped = Overlapped::new();
    let cq = pending(side, &overlapped)?;
    bench.step("release the completion queue");
    drop(cq);
    let status = side.end_of("the Notify of a released queue", &overlapped)?;
    side.status("the Notify", status, Status::CANCELED)?;
    let listening = side.listening()?;
    let connector = side.connector()?;
    let started = listening
        .listener
        .get_connection_request(&connector, &overlapped);
    side.begun("get a connection request", started)?;
    bench.step("release the listener");
    drop(listening);
    let status = side.end_of("the request of a released listener", &overlapped)?;
    side.status("GetConnectionRequest", status, Status::CANCELED)?;
    Ok(Pass::Right)
}

fn newer_does_not_cancel(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (older, newer) = (Overlapped::new(), Overlapped::new());
    let cq = pending(side, &older)?;
    notify(side, &cq, &newer)?;
    side.stays("the older Notify", &older)?;
    cancel(side, &*cq)?;
    side.status("the older Notify", older.status(), Status::CANCELED)?;
    side.status("the newer Notify", newer.status(), Status::CANCELED)?;
    Ok(Pass::Right)
}

fn removed_while_pending(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let (notifying, asking) = (Overlapped::new(), Overlapped::new());
    let cq = pending(&side, &notifying)?;
    let (listening, connector) = (side.listening()?, side.connector()?);
    let started = listening
        .listener
        .get_connection_request(&connector, &asking);
    side.begun("get a connection request", started)?;
    remove(&side)?;
    for (what, overlapped) in [("Notify", &notifying), ("GetConnectionRequest", &asking)] {
        side.step(format_args!("{what} after the removal"));
        let status = cq.get_overlapped_result(overlapped, false);
        side.status(what, status, Status::DEVICE_REMOVED)?;
    }
    Ok(Pass::Right)
}

fn wait_without_event(bench: &Bench) -> Verdict {
    let (side, far) = (&bench.near, &bench.far);
    let region = side.region()?;
    let overlapped = Overlapped::new();
    let started = region.register(&Buffer::new(1 << 20), MrFlags::empty(), &overlapped);
    side.begun("register", started)?;
    side.step("GetOverlappedResult, waiting for Register");
    let status = region.get_overlapped_result(&overlapped, true);
    side.status("Register", status, Status::SUCCESS)?;
    // A request that takes a while: a peer has to arrive.
    let (listening, accepting) = (side.listening()?, side.connector()?);
    let started = listening
        .listener
        .get_connection_request(&accepting, &overlapped);
    side.begun("get a connection request", started)?;
    let (connecting, connected) = (far.connector()?, Overlapped::new());
    let queues = far.queues(8, QueuePairOptions::default())?;
    let started = connecting.connect(&queues.qp, listening.address, 1, 1, &[], &connected);
    far.begun("connect", started)?;
    side.step("GetOverlappedResult, waiting for the peer");
    let status = listening.listener.get_overlapped_result(&overlapped, true);
    side.status("GetConnectionRequest", status, Status::SUCCESS)?;
    Ok(Pass::Right)
}

fn effect_without_asking(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let region = bench.near.region()?;
    let buffer = Buffer::new(64);
    buffer.write(0, &pattern(64));
    let event = Event::new();
    let overlapped = Overlapped::with_event(&event);
    let started = region.register(&buffer, MrFlags::empty(), &overlapped);
    if bench.near.started("register", started)? == Started::Pending {
        bench.step("wait for the event");
        if !event.wait_timeout(bench.limits().answer) {
            return bench.hangs();
        }
    }
    let to = sink(&bench.far, 64)?;
    link.far.receive(1, &[to.sge(..)])?;
    let memory = crate::side::Memory { buffer, region };
    link.near.send(2, &[memory.sge(..)], OpFlags::empty())?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    bench
        .far
        .equal("the message", to.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn wait_in_threads(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let cq = side.cq(8)?;
    let requests: Vec<Overlapped> = (0..4).map(|_| Overlapped::new()).collect();
    for request in &requests {
        notify(side, &cq, request)?;
    }
    side.step("wait in four threads while a fifth cancels");
    let statuses = at_once(5, |thread| {
        let at = usize::try_from(thread).unwrap_or(0);
        match requests.get(at) {
            Some(request) => cq.get_overlapped_result(request, true),
            None => match cq.cancel_overlapped_requests() {
                Ok(()) => Status::CANCELED,
                Err(error) => error.status(),
            },
        }
    });
    side.equal("the statuses", statuses, vec![Status::CANCELED; 5])?;
    Ok(Pass::Right)
}

fn without_packet(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let (quiet, loud) = (Overlapped::new().without_port(), Overlapped::new());
    loud.set_user(7);
    let cq = pending(&side, &quiet)?;
    notify(&side, &cq, &loud)?;
    cancel(&side, &*cq)?;
    let status = side.end_of("the request without a packet", &quiet)?;
    side.status("the request", status, Status::CANCELED)?;
    let users: Vec<u64> = std::iter::from_fn(|| port.get(Some(std::time::Duration::ZERO)))
        .map(|packet| packet.user)
        .collect();
    side.equal("the packets", users, vec![7])?;
    Ok(Pass::Right)
}

fn used_again(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let overlapped = Overlapped::new();
    let (region, cq) = (side.region()?, side.cq(8)?);
    let (listening, connector) = (side.listening()?, side.connector()?);
    let buffer = Buffer::new(64);
    for _ in 0..2 {
        let started = region.register(&buffer, MrFlags::empty(), &overlapped);
        side.done("register", started, &overlapped)?;
        notify(side, &cq, &overlapped)?;
        cancel(side, &*cq)?;
        side.status("Notify", overlapped.status(), Status::CANCELED)?;
        let started = listening
            .listener
            .get_connection_request(&connector, &overlapped);
        side.begun("get a connection request", started)?;
        cancel(side, &*listening.listener)?;
        side.status(
            "GetConnectionRequest",
            overlapped.status(),
            Status::CANCELED,
        )?;
        let started = region.deregister(&overlapped);
        side.done("deregister", started, &overlapped)?;
    }
    Ok(Pass::Right)
}

fn asked_elsewhere(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (region, cq) = (side.region()?, side.cq(8)?);
    let (connector, listener) = (side.connector()?, side.listener()?);
    let overlapped = Overlapped::new();
    notify(side, &cq, &overlapped)?;
    let objects: [(&str, &dyn OverlappedObject); 3] = [
        ("the region", &*region),
        ("the connector", &*connector),
        ("the listener", &*listener),
    ];
    for (what, object) in objects {
        side.step(format_args!("ask {what} for the result of a Notify"));
        let status = object.get_overlapped_result(&overlapped, false);
        side.status(what, status, Status::PENDING)?;
    }
    cancel(side, &*cq)?;
    for (what, object) in objects {
        side.step(format_args!(
            "ask {what} for the result of a cancelled Notify"
        ));
        let status = object.get_overlapped_result(&overlapped, true);
        side.status(what, status, Status::CANCELED)?;
    }
    Ok(Pass::Right)
}

fn old_status(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (region, buffer) = (side.region()?, Buffer::new(64));
    for registers in [true, false] {
        let overlapped = Overlapped::new();
        let cq = pending(side, &overlapped)?;
        cancel(side, &*cq)?;
        side.status("the old status", overlapped.status(), Status::CANCELED)?;
        let (what, started) = if registers {
            let started = region.register(&buffer, MrFlags::empty(), &overlapped);
            ("Register", started)
        } else {
            ("Deregister", region.deregister(&overlapped))
        };
        side.done(what, started, &overlapped)?;
        side.status(what, overlapped.status(), Status::SUCCESS)?;
    }
    Ok(Pass::Right)
}

fn shared_port(bench: &Bench) -> Verdict {
    let sides = [bench.near.open_again()?, bench.near.open_again()?];
    let port = CompletionPort::new();
    let (mut queues, mut requests) = (Vec::new(), Vec::new());
    for (key, side) in (10..).zip(&sides) {
        side.expect("tie the file to the port", side.file.associate(&port, key))?;
        let overlapped = Overlapped::new();
        overlapped.set_user(key);
        queues.push(pending(side, &overlapped)?);
        requests.push(overlapped);
    }
    for (side, cq) in sides.iter().zip(&queues) {
        cancel(side, &**cq)?;
    }
    for (side, request) in sides.iter().zip(&requests) {
        side.step("take a packet");
        let Some(packet) = port.get(Some(bench.limits().answer)) else {
            return bench.hangs();
        };
        let own = packet.overlapped.is_some_and(|own| own.is_same(request));
        ensure(own, "the packet of this request", "another one")?;
        let got = (packet.key, packet.user, packet.status);
        let user = request.user();
        side.equal("the packet", got, (user, user, Status::CANCELED))?;
    }
    Ok(Pass::Right)
}

fn order_of_cancels(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let (first, second) = (Overlapped::new(), Overlapped::new());
    first.set_user(1);
    second.set_user(2);
    let (one, two) = (pending(&side, &first)?, pending(&side, &second)?);
    cancel(&side, &*two)?;
    side.equal("the packets after the first cancel", port.len(), 1)?;
    cancel(&side, &*one)?;
    side.equal("the packets after the second cancel", port.len(), 2)?;
    let users: Vec<u64> = std::iter::from_fn(|| port.get(Some(std::time::Duration::ZERO)))
        .map(|packet| packet.user)
        .collect();
    side.equal("the order of the packets", users, vec![2, 1])?;
    Ok(Pass::Right)
}

fn file_given_up(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let link = bench.link()?;
    for round in 0..16 {
        let adapter = &side.adapter;
        let file = side.expect("create a file", adapter.create_overlapped_file())?;
        let port = CompletionPort::new();
        side.expect("tie the file to a port", file.associate(&port, round))?;
        let made = adapter.create_completion_queue(&file, 8, netdirect::Affinity::default());
        let cq = side.expect("create a completion queue", made)?;
        let region = side.expect("create a region", adapter.create_memory_region(&file))?;
        side.step("release the file");
        drop(file);
        let overlapped = Overlapped::new();
        notify(side, &cq, &overlapped)?;
        cancel(side, &*cq)?;
        side.until(|| !port.is_empty())?;
        let packet = port.get(Some(bench.limits().quiet));
        let got = packet.map(|packet| (packet.key, packet.status));
        side.equal("the packet", got, Some((round, Status::CANCELED)))?;
        side.register(&region, &Buffer::new(64), MrFlags::empty())?;
        super::common::exchange(&link)?;
    }
    Ok(Pass::Right)
}

fn sign_of_status(bench: &Bench) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let taken = || {
        side.until(|| !port.is_empty())?;
        let packet = port.get(Some(bench.limits().quiet));
        packet.ok_or_else(|| fail("a packet", "none"))
    };
    let overlapped = Overlapped::new();
    let cq = side.cq(8)?;
    let started = cq.notify(NotifyType::Solicited, &overlapped);
    side.begun("notify (solicited)", started)?;
    cancel(&side, &*cq)?;
    let status = taken()?.status;
    let shown = format!("{status:?}");
    ensure(
        !status.is_success(),
        "a failure for what was cancelled",
        shown,
    )?;
    notify(&side, &cq, &overlapped)?;
    let queues = side.qp(&cq, &cq, QueuePairOptions::default())?;
    side.expect("post a Receive", queues.receive(1, &[]))?;
    side.expect("flush", queues.flush())?;
    let status = taken()?.status;
    let shown = format!("{status:?}");
    ensure(status.is_success(), "a success for what has ended", shown)?;
    ensure(
        Status::TIMEOUT.is_success(),
        "a success",
        "ND_TIMEOUT that is a failure",
    )?;
    Ok(Pass::Right)
}
