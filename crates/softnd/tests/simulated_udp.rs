//! The provider over UDP in a simulated network.

mod common;

use std::time::Duration;

use common::*;
use netdirect::{OpFlags, Overlapped, Status};
use softnd::Options;
use softnd::simulation::{Chance, Conditions, Simulation};

const NONE: OpFlags = OpFlags::empty();

fn sides(simulation: &Simulation) -> (Side, Side) {
    let side = |host| {
        let adapter = simulation.open([10, 0, 0, host], Options::default());
        Side::of(adapter.unwrap())
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
        // CONN-106: one side was not told anything by the other.
        assert_eq!(there.wait(), Status::SUCCESS);
        assert_eq!(here.wait(), Status::SUCCESS);
        let took = simulation.time() - begun;
        let around = Duration::from_secs(20)..Duration::from_secs(41);
        assert!(around.contains(&took), "{took:?}");
        assert!(simulation.disturbances().cuts > 0);
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
        // Who was connected to does not know the address before the other side sends something.
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
