//! The provider over UDP in a simulated network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use netdirect::{Connector, EndReason, EndedBy, Listener, OpFlags, Overlapped, QueuePair, Status};
use softnd::Options;
use softnd::simulation::{Chance, Conditions, Simulation};

const NONE: OpFlags = OpFlags::empty();

fn sides(simulation: &Simulation) -> (Side, Side) {
    let side = |host| {
        let adapter = simulation.open([10, 0, 0, host], Options::default());
        Side::on_adapter(adapter.unwrap())
    };
    (side(1), side(2))
}

/// Two connected sides, and the network between them.
fn connected(seed: u64) -> (Simulation, Pair) {
    let simulation = Simulation::new(seed).over_udp();
    let (active, passive) = sides(&simulation);
    let pair = connect(active, passive, 4);
    (simulation, pair)
}

/// Sends an empty message from the active side. Returns the statuses of Send and Receive.
fn send(pair: &Pair) -> [Status; 2] {
    pair.passive_qp.receive(1, &[]).unwrap();
    pair.active_qp.send(2, &[], NONE).unwrap();
    [pair.active.result().status, pair.passive.result().status]
}

#[test]
fn a_wait_that_nothing_can_end_is_an_error_though_connections_are_kept_alive() {
    let (simulation, pair) = connected(1);
    for _ in 0..2 {
        let ended = Overlapped::new();
        let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();
        let begun = simulation.time();
        assert_eq!(ended.wait(), Status::POSSIBLE_DEADLOCK);
        let waited = simulation.time() - begun;
        assert!(waited < Duration::from_secs(200), "{waited:?}");
        assert!(ended.is_pending());
        pair.passive_connector.cancel_overlapped_requests().unwrap();
        assert_eq!(ended.wait(), Status::CANCELED);
        // The connection was kept alive meanwhile, and the next wait has as much time as the first one.
        assert_eq!(send(&pair), [Status::SUCCESS; 2]);
    }
}

#[test]
fn a_connection_survives_short_cuts_and_ends_for_both_sides_in_a_long_one() {
    for seed in 0..20 {
        let (simulation, pair) = connected(seed);
        let cut = |seconds| {
            let time = Duration::from_secs(seconds);
            simulation.cut([10, 0, 0, 2], [10, 0, 0, 1], time);
        };
        let [here, there] = [&pair.active_connector, &pair.passive_connector].map(|connector| {
            let ended = Overlapped::new();
            let _ = connector.notify_disconnect(&ended).unwrap();
            ended
        });
        cut(5);
        let begun = simulation.time();
        assert_eq!(send(&pair), [Status::SUCCESS; 2]);
        let took = simulation.time() - begun;
        assert!(took > Duration::from_secs(5), "{took:?}");
        assert!(here.is_pending() && there.is_pending());
        pair.passive_qp.receive(3, &[]).unwrap();
        cut(60);
        let begun = simulation.time();
        assert_eq!(pair.passive.result().status, Status::CANCELED);
        // CONN-106: neither side notified the other.
        assert_eq!(there.wait(), Status::SUCCESS);
        assert_eq!(here.wait(), Status::SUCCESS);
        let took = simulation.time() - begun;
        let around = Duration::from_secs(20)..Duration::from_secs(41);
        assert!(around.contains(&took), "{took:?}");
        assert!(simulation.disturbances().cuts > 0);
        for connector in [&pair.active_connector, &pair.passive_connector] {
            let end = connector.connection_end().expect("a reason");
            let silence = (EndedBy::Neither, EndReason::Silence);
            assert_eq!((end.by(), end.reason()), silence, "{end}");
            assert_eq!(end.what(), "the peer has not answered in time");
        }
    }
}

#[test]
fn a_connection_survives_that_the_address_of_who_has_connected_changes() {
    for seed in 0..20 {
        let (simulation, pair) = connected(seed);
        assert_eq!(simulation.rebind([10, 0, 0, 2]).unwrap(), 0);
        for _ in 0..5 {
            assert_eq!(simulation.rebind([10, 0, 0, 1]).unwrap(), 1);
            assert_eq!(send(&pair), [Status::SUCCESS; 2]);
        }
        // The side that was connected to does not know the address before the other side sends something.
        assert_eq!(simulation.rebind([10, 0, 0, 1]).unwrap(), 1);
        pair.active_qp.receive(3, &[]).unwrap();
        pair.passive_qp.send(4, &[], NONE).unwrap();
        assert_eq!(pair.active.result().status, Status::SUCCESS);
        assert_eq!(pair.passive.result().status, Status::SUCCESS);
        let disturbances = simulation.disturbances();
        assert_eq!(disturbances.rebinds, 6);
        assert!(disturbances.strays > 0);
    }
}

/// MPA2-010 is for peers over TCP.
#[test]
fn a_connect_that_the_peer_breaks_off_is_not_tried_once_more() {
    let simulation = Simulation::new(1).over_udp();
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    let [first, second] = [(); 2].map(|()| {
        let (connector, asked) = (passive.connector(), Overlapped::new());
        let _ = listener.get_connection_request(&connector, &asked).unwrap();
        (connector, asked)
    });
    let caller = Caller::new(&active, address, b"once");
    assert_eq!(first.1.wait(), Status::SUCCESS);
    let queue_pair = passive.queue_pair();
    let accepted = Overlapped::new();
    let _ = first.0.accept(&queue_pair, 1, 1, &[], &accepted).unwrap();
    drop(queue_pair); // in the middle of the start-up, so that the stream is broken off
    let status = caller.connects.wait();
    assert!(
        [Status::CONNECTION_REFUSED, Status::SUCCESS].contains(&status),
        "{status}"
    );
    assert_eq!(second.1.wait(), Status::POSSIBLE_DEADLOCK);
    assert!(second.1.is_pending(), "the peer has come again");
}

#[test]
fn a_harsh_network_is_noticed_by_its_delays_only() {
    let mut conditions = Conditions::default();
    conditions.loss = Chance::per_million(100_000);
    conditions.duplication = Chance::per_million(100_000);
    conditions.reordering = Chance::per_million(200_000);
    conditions.corruption = Chance::per_million(50_000);
    let simulation = Simulation::with(3, conditions).over_udp();
    let (active, passive) = sides(&simulation);
    let pair = connect(active, passive, 4);
    let len = 400_000;
    let (from, to) = (pair.active.region(len, ALL), pair.passive.region(len, ALL));
    from.buffer.fill(7);
    let written = pair
        .active_qp
        .write(1, &[from.sge(0, len)], to.remote(0), NONE);
    written.unwrap();
    assert_eq!(send(&pair), [Status::SUCCESS; 2]);
    assert_eq!(to.buffer.to_vec(), vec![7; len]);
    let met = simulation.disturbances();
    let kinds = [
        met.losses,
        met.duplications,
        met.reorderings,
        met.corruptions,
    ];
    assert!(kinds.iter().all(|count| *count > 0), "{met:?}");
}

/// A Connect that has begun.
struct Call {
    connects: Overlapped,
    _objects: (Arc<dyn Connector>, Arc<dyn QueuePair>),
}

impl Call {
    fn new(side: &Side, to: SocketAddr) -> Self {
        let (connector, queue_pair) = (side.connector(), side.queue_pair());
        let connects = Overlapped::new();
        let started = connector.connect(&queue_pair, to, 1, 1, &[], &connects);
        let _ = started.unwrap();
        Self {
            connects,
            _objects: (connector, queue_pair),
        }
    }
}

/// Accepts these calls, which all succeed. Returns when the last of them has arrived at the listener.
fn accept(
    simulation: &Simulation,
    side: &Side,
    at: &Arc<dyn Listener>,
    calls: &[Call],
) -> Duration {
    let mut accepted = Vec::new();
    for _ in calls {
        let (connector, queue_pair) = (side.connector(), side.queue_pair());
        run(|overlapped| at.get_connection_request(&connector, overlapped)).unwrap();
        let accepts = Overlapped::new();
        let _ = connector.accept(&queue_pair, 1, 1, &[], &accepts).unwrap();
        accepted.push((connector, queue_pair, accepts));
    }
    let time = simulation.time();
    for call in calls {
        assert_eq!(wait(&call.connects), Status::SUCCESS);
    }
    time
}

/// The peer ignores the rest of a handshake that comes from another address than its beginning.
#[test]
fn connects_go_on_when_an_address_changes_in_the_handshake() {
    let mut longest = Duration::ZERO;
    for step in 0..20 {
        let simulation = Simulation::new(1).over_udp();
        let (active, passive) = sides(&simulation);
        let (listener, address) = passive.listener(0);
        let first = Call::new(&active, address);
        simulation.pass(step * Duration::from_micros(10));
        assert_eq!(simulation.rebind([10, 0, 0, 1]).unwrap(), 1);
        simulation.pass(Duration::from_millis(100));
        let calls = [first, Call::new(&active, address)];
        longest = longest.max(accept(&simulation, &passive, &listener, &calls));
    }
    let range = Duration::from_secs(3)..Duration::from_millis(3100);
    assert!(range.contains(&longest), "{longest:?}");
}

#[test]
fn a_connect_does_not_wait_for_a_dead_attempt_of_one_that_was_given_up() {
    let simulation = Simulation::new(1).over_udp();
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    let given_up = Call::new(&active, address);
    simulation.rebind([10, 0, 0, 1]).unwrap();
    simulation.pass(Duration::from_secs(1));
    drop(given_up);
    simulation.pass(Duration::from_secs(3));
    let begun = simulation.time();
    let call = [Call::new(&active, address)];
    let time = accept(&simulation, &passive, &listener, &call) - begun;
    assert!(time < Duration::from_millis(100), "{time:?}");
}

#[test]
fn connects_get_through_where_answers_take_long() {
    // There and back it takes twice as long.
    for (latency, most) in [(1, 6), (2, 14)] {
        let latency = Duration::from_secs(latency);
        let mut conditions = Conditions::default();
        conditions.latency = latency..=latency;
        let simulation = Simulation::with(1, conditions).over_udp();
        let (active, passive) = sides(&simulation);
        let (listener, address) = passive.listener(0);
        let call = || {
            simulation.pass(Duration::from_millis(100));
            Call::new(&active, address)
        };
        let calls = [(); 4].map(|()| call());
        let time = accept(&simulation, &passive, &listener, &calls);
        assert!(time < Duration::from_secs(most), "{time:?}");
    }
}

#[test]
fn a_connect_outlasts_a_cut() {
    let simulation = Simulation::new(1).over_udp();
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    let cut = Duration::from_secs(8);
    simulation.cut([10, 0, 0, 1], [10, 0, 0, 2], cut);
    let call = [Call::new(&active, address)];
    let time = accept(&simulation, &passive, &listener, &call);
    assert!(time < 2 * cut, "{time:?}");
}

/// The error of a Connect, and the time that it took.
fn ended(simulation: &Simulation, side: &Side, to: SocketAddr) -> (netdirect::Error, Duration) {
    let begun = simulation.time();
    let call = Call::new(side, to);
    assert_ne!(wait(&call.connects), Status::SUCCESS);
    let error = call.connects.result().unwrap_err();
    (error, simulation.time() - begun)
}

#[test]
fn conn_022_a_connect_whose_datagrams_this_machine_does_not_send_ends_at_once() {
    let simulation = Simulation::new(1).over_udp();
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    // The texts of Windows have the number of the error; wine has nothing else.
    let at_once = |on_unix: &str, on_windows: &str| {
        let wanted = if cfg!(windows) { on_windows } else { on_unix };
        let (error, time) = ended(&simulation, &active, address);
        assert_eq!(error.status(), Status::HOST_UNREACHABLE);
        let what = error.what();
        assert!(what.starts_with("the system refuses sendmsg: "), "{what}");
        assert!(what.contains(wanted), "{what}");
        assert!(time < Duration::from_millis(10), "{time:?}");
    };
    // RFC 9000 §14.1: a first packet has 1,200 octets.
    simulation.change(|conditions| conditions.largest_datagram = 1199);
    at_once("Message too long", "os error 10040");
    simulation.change(|conditions| {
        conditions.largest_datagram = 1200;
        conditions.unreachable.insert([10, 0, 0, 2].into());
    });
    at_once("No route to host", "os error 10065");
    simulation.change(|conditions| conditions.unreachable.clear());
    let calls = [Call::new(&active, address)];
    accept(&simulation, &passive, &listener, &calls);
}

#[test]
fn a_handshake_outlasts_a_network_that_is_away_for_a_moment() {
    let second = Duration::from_secs(1);
    let slow = || {
        let mut conditions = Conditions::default();
        conditions.latency = second..=second;
        Simulation::with(1, conditions).over_udp()
    };
    let simulation = slow();
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    let away = |is_away: bool| {
        simulation.change(|conditions| {
            conditions.unreachable.clear();
            if is_away {
                conditions.unreachable.insert([10, 0, 0, 2].into());
            }
        });
    };
    // The first datagram is sent, and the next one, a second later, is refused.
    let calls = [Call::new(&active, address)];
    away(true);
    simulation.pass(Duration::from_millis(1500));
    away(false);
    accept(&simulation, &passive, &listener, &calls);
    drop(calls);

    let simulation = slow();
    let (active, passive) = sides(&simulation);
    let (_listener, address) = passive.listener(0);
    let call = Call::new(&active, address);
    simulation.change(|conditions| {
        conditions.unreachable = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()].into();
    });
    assert_eq!(wait(&call.connects), Status::HOST_UNREACHABLE);
    let time = simulation.time();
    assert!(time < Duration::from_secs(10), "{time:?}");
}
