//! Counting of events over streams, queues, attempts and calls.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use iwarp::Role;
use iwarp::mpa::startup::FrameKind;

use super::super::*;
use super::script::Script;

fn faults(text: &str) -> std::sync::Arc<Faults> {
    Faults::new(text.parse().unwrap_or_else(|error| panic!("{error}")))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn attempts_are_counted_over_the_owner_and_the_first_rule_decides() {
    let plan = "when every other connect: refuse\n\
                when 2nd connect: hold\n\
                when 3rd connect: hold for 5 ms\n\
                when 1st accept with peer 10.0.0.7: refuse\n\
                when 5th connect: remove device";
    let faults = faults(plan);
    let hold = |ms| Verdict::Hold(Some(Duration::from_millis(ms)));
    let peer = address("10.0.0.7:1");
    let connects: Vec<_> = (0..6).map(|_| faults.connect(peer)).collect();
    let due = [
        None,
        Some(Verdict::Refuse),
        Some(hold(5)),
        Some(Verdict::Refuse),
        Some(Verdict::Effect(Effect::RemoveDevice)),
        Some(Verdict::Refuse),
    ];
    assert_eq!(connects, due);
    assert_eq!(faults.accept(address("10.0.0.8:1")), None);
    assert_eq!(
        faults.accept(address("[::ffff:10.0.0.7]:5")),
        Some(Verdict::Refuse)
    );
    assert_eq!(faults.accept(peer), None);
    let happened: Vec<_> = faults.happened().collect();
    assert_eq!(happened, [(1, 3), (2, 0), (3, 1), (4, 1), (5, 1)]);
}

#[test]
fn calls_are_counted_by_their_names() {
    let faults = faults(
        "when 2nd Register called: fail with ND_NO_MEMORY; when from 4th on Any called: fail with ND_X",
    );
    let call = |name: &str| faults.call(|wanted| wanted == name || wanted == "Any");
    let fails = |status| Some(CallFault::Fail(status));
    assert!(faults.has_calls());
    assert_eq!((call("Register"), call("Listen")), (None, None));
    assert_eq!(call("Register"), fails("ND_NO_MEMORY"));
    assert_eq!(
        (call("Register"), call("Listen")),
        (fails("ND_X"), fails("ND_X"))
    );
    let removing = self::faults("when 1st Listen called: remove device");
    assert_eq!(
        removing.call(|name| name == "Listen"),
        Some(CallFault::RemoveDevice)
    );
    assert!(!self::faults("when each connect: refuse").has_calls());
}

#[test]
fn completions_are_counted_on_each_queue_on_one_or_over_all() {
    let faults = faults(
        "when 2nd completion: hold for 5 ms\n\
         when 1st completion on queue 2: break queue with ND_X\n\
         when 4th completion over all queues: hold",
    );
    let (one, two) = (faults.queue().unwrap(), faults.queue().unwrap());
    let hold = Some(Verdict::Hold(Some(Duration::from_millis(5))));
    assert_eq!(one.completion(), None);
    let broken = Effect::BreakQueue("ND_X".to_owned());
    assert_eq!(two.completion(), Some(Verdict::Effect(broken)));
    assert_eq!((one.completion(), two.completion()), (hold.clone(), hold));
    assert_eq!((one.completion(), two.completion()), (None, None));
    let fourth = self::faults("when 4th completion over all queues: hold");
    let (one, two) = (fourth.queue().unwrap(), fourth.queue().unwrap());
    let all = [&one, &two, &two, &one, &two].map(QueueFaults::completion);
    assert_eq!(all, [None, None, None, Some(Verdict::Hold(None)), None]);
    let second = self::faults("when 1st completion on queue 2: hold");
    assert!(second.queue().is_none());
    assert!(second.queue().is_some());
    assert!(self::faults("when each connect: refuse").queue().is_none());
}

/// Returns the number of octets of a script that pass on a stream that may be faulted.
fn pass(stream: Option<StreamFaults>, script: &Script) -> usize {
    let Some(mut stream) = stream else {
        return script.octets.len();
    };
    let mut passed = 0;
    let _ = stream.write(Instant::now(), &script.octets, |octets| {
        passed += octets.len();
        Ok(octets.len())
    });
    passed
}

#[test]
fn streams_are_counted_each_one_alone_or_together() {
    let script = Script::new(FrameKind::Request, false, 0);
    let all = script.octets.len();
    let second = script.end(3);
    // Each stream has three Writes; the 4th overall is the 1st of the second stream.
    for (scope, due) in [
        ("", [second, second, second]),
        (" on connection 2", [all, second, all]),
        (" with peer 10.0.0.2", [all, second, all]),
        (" with peer 10.0.0.3:5", [all, all, second]),
        (" over all connections", [second, all, all]),
        (
            " over all connections with peer 10.0.0.3",
            [all, all, second],
        ),
    ] {
        let faults = faults(&format!("when 2nd Write sent{scope}: reset"));
        let peers = ["10.0.0.1:5", "10.0.0.2:5", "10.0.0.3:5"].map(address);
        let passed = peers.map(|peer| pass(faults.stream(Role::Initiator, peer), &script));
        assert_eq!(passed, due, "{scope}");
        let happened: u64 = faults.happened().map(|(_, count)| count).sum();
        let stopped = due.iter().filter(|octets| **octets < all).count();
        assert_eq!(happened, stopped as u64);
    }
    let faults =
        faults("when 4th Write sent over all connections: reset; when each connect: refuse");
    let passed = [0; 3].map(|_| {
        pass(
            faults.stream(Role::Initiator, address("10.0.0.1:5")),
            &script,
        )
    });
    assert_eq!(passed, [all, script.end(1), all]);
}
