//! Fault plans on adapters, from the application's view: each event and action beyond the octets of one stream.

use std::time::Duration;

use crate::common::{ALL, LONG, Pair, Side, connect, connect_status, now, pair_with, run, status};
use netdirect::{Affinity, CompletionResult, Fault, NotifyType, OpFlags, Overlapped, Status};
use softnd::Options;

fn options(plan: &str) -> Options {
    let plan = plan.parse().unwrap_or_else(|error| panic!("{error}"));
    Options::default().faults(plan).unwrap()
}

fn side(plan: &str) -> Side {
    Side::with(options(plan))
}

/// Faults that have happened on an adapter.
fn happened(side: &Side) -> u64 {
    side.adapter
        .extensions()
        .unwrap()
        .counters()
        .total("faults")
}

fn pair(active: &str, passive: &str) -> Pair {
    pair_with(options(active), options(passive))
}

#[test]
fn calls_fail_by_their_ordinals() {
    let side = side(
        "when 2nd Register called: fail with ND_NO_MEMORY; when each CreateMemoryWindow called: fail with 0xC0001234",
    );
    let region = || {
        let region = side.adapter.create_memory_region(&side.file).unwrap();
        let buffer = netdirect::Buffer::new(64);
        run(|overlapped| region.register(&buffer, ALL, overlapped))
    };
    let results = [region(), region(), region()];
    assert_eq!(results, [Ok(()), Err(Status::NO_MEMORY), Ok(())]);
    let window = status(side.adapter.create_memory_window());
    assert_eq!(window, Status::from_bits(0xC000_1234));
    assert_eq!(happened(&side), 2);
}

#[test]
fn injected_calls_and_planned_ones_are_counted_apart_and_the_plan_decides() {
    let side = side("when 2nd CreateConnector called: fail with ND_NO_MEMORY");
    let extensions = side.adapter.extensions().unwrap();
    let fault = |nth| Fault::Call {
        call: netdirect::Call::CreateConnector,
        nth,
        status: Status::INSUFFICIENT_RESOURCES,
    };
    extensions.inject(fault(2)).unwrap();
    let create = || status(side.adapter.create_connector(&side.file));
    assert_eq!(
        [create(), create(), create()],
        [Status::SUCCESS, Status::NO_MEMORY, Status::SUCCESS]
    );
    extensions.inject(fault(1)).unwrap();
    assert_eq!(
        [create(), create()],
        [Status::INSUFFICIENT_RESOURCES, Status::SUCCESS]
    );
    assert_eq!(happened(&side), 3);
}

#[test]
fn a_call_can_remove_the_device() {
    let side = side("when 1st CreateMemoryWindow called: remove device");
    let notified = Overlapped::new();
    let _ = side.cq.notify(NotifyType::Any, &notified).unwrap();
    assert_eq!(
        status(side.adapter.create_memory_window()),
        Status::DEVICE_REMOVED
    );
    assert_eq!(
        status(side.adapter.create_connector(&side.file)),
        Status::DEVICE_REMOVED
    );
    assert_eq!(notified.wait_timeout(LONG), Some(Status::DEVICE_REMOVED));
    assert_eq!(happened(&side), 1);
}

#[test]
fn every_other_connect_is_refused() {
    let (active, passive) = (side("when every other connect: refuse"), Side::new());
    let statuses = [(); 4].map(|()| connect_status(&active, &passive));
    let refused = Status::CONNECTION_REFUSED;
    assert_eq!(
        statuses,
        [Status::SUCCESS, refused, Status::SUCCESS, refused]
    );
    assert_eq!(happened(&active), 2);
}

#[test]
fn a_connect_is_held_for_a_time_or_until_its_limit() {
    let time = Duration::from_millis(20);
    let (active, passive) = (side("when each connect: hold for 20 ms"), Side::new());
    let start = now();
    assert_eq!(connect_status(&active, &passive), Status::SUCCESS);
    assert!(now() - start >= time);

    let limited = options("when each connect: hold").timeouts(|limits| limits.connect = Some(time));
    let start = now();
    assert_eq!(
        connect_status(&Side::with(limited), &passive),
        Status::IO_TIMEOUT
    );
    assert!(now() - start >= time);

    // A Connect that is held can be given up.
    let active = side("when each connect: hold");
    let (connector, queue_pair, connects) =
        (active.connector(), active.queue_pair(), Overlapped::new());
    let (_listener, address) = passive.listener(0);
    let _ = connector
        .connect(&queue_pair, address, 1, 1, &[], &connects)
        .unwrap();
    connector.cancel_overlapped_requests().unwrap();
    assert_eq!(connects.wait_timeout(LONG), Some(Status::CANCELED));
}

#[test]
fn a_listener_refuses_holds_and_lets_in() {
    // A refused peer whose connection ends without an answer may try again with revision 1, which is the next accept.
    let once = || Options::default().revision_1_fallback(false);
    let (active, passive) = (Side::with(once()), side("when 2nd accept: refuse"));
    let statuses = [(); 3].map(|()| connect_status(&active, &passive));
    assert_eq!(
        statuses,
        [Status::SUCCESS, Status::CONNECTION_REFUSED, Status::SUCCESS]
    );
    assert_eq!(happened(&passive), 1);

    let passive = side("when 1st accept: hold for 20 ms");
    let start = now();
    assert_eq!(connect_status(&active, &passive), Status::SUCCESS);
    assert!(now() - start >= Duration::from_millis(20));

    let patience = Duration::from_millis(20);
    let active = Side::with(once().timeouts(|limits| limits.reply = Some(patience)));
    let passive = side("when 1st accept: hold");
    let begun = now();
    // On a busy machine a Connect may time out before the listener accepts anything.
    loop {
        assert_eq!(connect_status(&active, &passive), Status::IO_TIMEOUT);
        if happened(&passive) == 1 {
            break;
        }
        assert!(now() - begun < LONG, "the listener accepts nothing");
    }
}

#[test]
fn accepting_and_connecting_can_remove_the_device() {
    let peer = Side::new();
    let passive = side("when 1st accept: remove device");
    let (listener, address) = passive.listener(0);
    let (theirs, arrives) = (passive.connector(), Overlapped::new());
    let _ = listener.get_connection_request(&theirs, &arrives).unwrap();
    let (connector, queue_pair, connects) =
        (peer.connector(), peer.queue_pair(), Overlapped::new());
    let _ = connector
        .connect(&queue_pair, address, 1, 1, &[], &connects)
        .unwrap();
    assert_eq!(arrives.wait_timeout(LONG), Some(Status::DEVICE_REMOVED));
    assert_eq!(
        connects.wait_timeout(LONG),
        Some(Status::CONNECTION_REFUSED)
    );

    let active = side("when 1st connect: remove device");
    assert_eq!(connect_status(&active, &peer), Status::DEVICE_REMOVED);
}

/// The contexts of these results, in order.
fn contexts(results: &[CompletionResult]) -> Vec<u64> {
    results
        .iter()
        .map(|result| result.request_context)
        .collect()
}

fn send_three(pair: &Pair) {
    for context in 1..=3 {
        pair.passive_qp.receive(context, &[]).unwrap();
    }
    for context in 1..=3 {
        pair.active_qp.send(context, &[], OpFlags::empty()).unwrap();
    }
}

#[test]
fn held_completions_come_late_and_in_order() {
    let pair = pair("when 2nd completion: hold for 50 ms", "");
    let start = now();
    send_three(&pair);
    assert_eq!(contexts(&pair.active.results(1)), [1]);
    assert_eq!(contexts(&pair.active.results(2)), [2, 3]);
    assert!(now() - start >= Duration::from_millis(50));
    assert_eq!(contexts(&pair.passive.results(3)), [1, 2, 3]);
    assert_eq!(happened(&pair.active), 1);
}

#[test]
fn completions_can_be_held_for_ever_on_one_queue() {
    let pair = pair("", "when 2nd completion on queue 1: hold");
    send_three(&pair);
    assert_eq!(contexts(&pair.active.results(3)), [1, 2, 3]);
    assert_eq!(contexts(&pair.passive.results(1)), [1]);
    // The other two results are never placed. When a second connection, with a separate queue, has moved three Sends, they would be in this
    // queue.
    let other = Side {
        cq: pair
            .passive
            .adapter
            .create_completion_queue(&pair.passive.file, 16, Affinity::default())
            .unwrap(),
        ..pair.passive.clone()
    };
    let second = connect(Side::new(), other, 4);
    send_three(&second);
    assert_eq!(contexts(&second.passive.results(3)), [1, 2, 3]);
    let mut results = [CompletionResult::default(); 4];
    assert_eq!(pair.passive.cq.get_results(&mut results), 0);
}

#[test]
fn a_completion_can_break_its_queue() {
    let pair = pair(
        "",
        "when 2nd completion: break queue with ND_INTERNAL_ERROR",
    );
    // Only the breakdown of the queue completes this request.
    let broken = Overlapped::new();
    let _ = pair.passive.cq.notify(NotifyType::Errors, &broken).unwrap();
    let ended = Overlapped::new();
    let _ = pair.active_connector.notify_disconnect(&ended).unwrap();
    send_three(&pair);
    assert_eq!(broken.wait_timeout(LONG), Some(Status::INTERNAL_ERROR));
    assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
    let mut results = [CompletionResult::default(); 4];
    assert_eq!(pair.passive.cq.get_results(&mut results), 1);
    assert_eq!(happened(&pair.passive), 1);
}

#[test]
fn a_completion_can_remove_the_device() {
    // The flushed requests of the removal are completions as well, and count for the plan.
    for plan in [
        "when 2nd completion: remove device",
        "when every other completion: remove device",
    ] {
        let pair = pair(plan, "");
        let ended = Overlapped::new();
        let _ = pair.active.cq.notify(NotifyType::Errors, &ended).unwrap();
        for context in 4..=7 {
            pair.active_qp.receive(context, &[]).unwrap();
        }
        for context in 1..=3 {
            pair.passive_qp.receive(context, &[]).unwrap();
        }
        // The second Send may have completed before the third one is posted.
        let send = |context| status(pair.active_qp.send(context, &[], OpFlags::empty()));
        let sent = [1, 2, 3].map(send);
        assert_eq!(sent[..2], [Status::SUCCESS; 2]);
        assert!([Status::SUCCESS, Status::DEVICE_REMOVED].contains(&sent[2]));
        assert_eq!(ended.wait_timeout(LONG), Some(Status::DEVICE_REMOVED));
        let results = pair.active.results(2);
        assert_eq!(contexts(&results), [1, 2]);
    }
}

#[test]
fn a_plan_that_names_what_is_not_there_is_refused() {
    for plan in [
        "when 1st Regster called: fail with ND_NO_MEMORY",
        "when 1st Register called: fail with ND_NO_MEMRY",
        "when each completion: break queue with ND_SUCCESS",
    ] {
        assert!(
            Options::default().faults(plan.parse().unwrap()).is_err(),
            "{plan}"
        );
    }
}
