//! The provider in a simulated network: what only a simulation can show.

mod common;

use std::time::Duration;

use common::*;
use netdirect::{OpFlags, Overlapped, Status};
use softnd::Options;
use softnd::simulation::Simulation;

fn sides(simulation: &Simulation) -> (Side, Side) {
    let side = |host| {
        let adapter = simulation.open([10, 0, 0, host], Options::default());
        Side::of(adapter.unwrap())
    };
    (side(1), side(2))
}

#[test]
fn two_adapters_connect_and_exchange_a_message() {
    for seed in 0..50 {
        let simulation = Simulation::new(seed);
        let (active, passive) = sides(&simulation);
        let pair = connect(active, passive, 4);
        let (from, to) = (
            pair.active.region(5000, ALL),
            pair.passive.region(5000, ALL),
        );
        from.buffer.fill(7);
        pair.passive_qp.receive(1, &[to.sge(0, 5000)]).unwrap();
        let sges = [from.sge(0, 5000)];
        pair.active_qp.send(2, &sges, OpFlags::empty()).unwrap();
        assert_eq!(pair.active.result().status, Status::SUCCESS);
        let received = pair.passive.result();
        assert_eq!(
            (received.status, received.bytes_transferred),
            (Status::SUCCESS, 5000)
        );
        assert_eq!(to.buffer.slice(0..5000).to_vec(), [7; 5000]);
        run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
        assert!(simulation.time() < Duration::from_secs(1));
    }
}

#[test]
fn a_wait_that_nothing_can_end_is_an_error() {
    let simulation = Simulation::new(1);
    let (side, _) = sides(&simulation);
    let (listener, _) = side.listener(0);
    let (connector, asked) = (side.connector(), Overlapped::new());
    let _ = listener.get_connection_request(&connector, &asked).unwrap();
    assert_eq!(asked.wait(), Status::POSSIBLE_DEADLOCK);
    assert!(asked.is_pending());
    // With a limit it ends when its time is up, which takes none of ours.
    assert_eq!(asked.wait_timeout(Duration::from_secs(3600)), None);
    assert!(simulation.time() >= Duration::from_secs(3600));
}
