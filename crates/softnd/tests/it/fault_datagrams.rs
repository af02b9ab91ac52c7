//! Fault plans on the datagrams of adapters over UDP: lost, doubled, late or damaged datagrams are repaired, and only the time shows them.
//! Each test runs over loopback sockets, or in a simulated network where its time is virtual.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{ALL, LONG, Pair, Region, Side, connect, connect_status, run};
use netdirect::{Adapter, OpFlags, Overlapped, RequestType, Status};
use softnd::Options;
use softnd::simulation::{Chance, Simulation};

fn options(plan: &str) -> Options {
    let plan = plan.parse().unwrap_or_else(|error| panic!("{error}"));
    Options::default().faults(plan).unwrap()
}

/// Two adapters on loopback.
fn on_loopback(active: &str, passive: &str) -> (Side, Side) {
    let side =
        |plan| Side::on_adapter(softnd::open("softnd+udp://127.0.0.1", options(plan)).unwrap());
    (side(active), side(passive))
}

/// Two adapters of a simulated network that loses nothing by itself.
fn simulated(simulation: &Simulation, active: &str, passive: &str) -> (Side, Side) {
    let open = |host, plan| simulation.open([10, 0, 0, host], options(plan)).unwrap();
    (
        Side::on_adapter(open(1, active)),
        Side::on_adapter(open(2, passive)),
    )
}

/// Faults that have happened on an adapter.
fn happened(adapter: &Arc<dyn Adapter>) -> u64 {
    adapter.extensions().unwrap().counters().total("faults")
}

/// Octets that encode their position.
fn pattern(len: usize, round: usize) -> Vec<u8> {
    let octet = |at: usize| (at / 251 + at * 7 + round * 13).to_le_bytes()[0];
    (0..len).map(octet).collect()
}

/// Writes and sends `rounds` times `len` octets each in both directions. Each request completes once, and the octets are those that were
/// sent.
fn exchange(pair: &Pair, rounds: usize, len: usize) {
    let regions = |side: &Side| -> [Region; 2] { [(); 2].map(|()| side.region(2 * len, ALL)) };
    let (here, there) = (regions(&pair.active), regions(&pair.passive));
    for round in 0..rounds {
        let context = round as u64;
        here[0].buffer.write(0, &pattern(2 * len, round));
        there[0].buffer.write(0, &pattern(2 * len, round + 100));
        for (queue_pair, into) in [(&pair.active_qp, &here[1]), (&pair.passive_qp, &there[1])] {
            queue_pair.receive(context, &[into.sge(len, len)]).unwrap();
        }
        for (queue_pair, from, to) in [
            (&pair.active_qp, &here[0], &there[1]),
            (&pair.passive_qp, &there[0], &here[1]),
        ] {
            let none = OpFlags::empty();
            queue_pair
                .write(context, &[from.sge(0, len)], to.remote(0), none)
                .unwrap();
            queue_pair
                .send(context, &[from.sge(len, len)], none)
                .unwrap();
        }
        for side in [&pair.active, &pair.passive] {
            let ended = side.results(3);
            for result in &ended {
                assert_eq!(
                    (result.status, result.request_context),
                    (Status::SUCCESS, context)
                );
            }
            for due in [RequestType::Receive, RequestType::Send, RequestType::Write] {
                let ended = ended.iter().filter(|result| result.request_type == due);
                assert_eq!(ended.count(), 1, "{due:?}");
            }
        }
        assert!(there[1].buffer.to_vec() == pattern(2 * len, round));
        assert!(here[1].buffer.to_vec() == pattern(2 * len, round + 100));
    }
}

/// The pair ends in order: no error has happened, and nothing arrived twice.
fn disconnect(pair: &Pair) {
    let ended = Overlapped::new();
    let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
    for side in [&pair.active, &pair.passive] {
        let mut more = [netdirect::CompletionResult::default(); 4];
        assert_eq!(side.cq.get_results(&mut more), 0);
    }
}

/// 5 % of the datagrams are lost, and others are doubled, late or damaged.
const ROUGH: &str = "when every 20th datagram sent: drop
when every 21st datagram sent: duplicate
when every 11th datagram sent: delay behind 3 datagrams
when every 13th datagram received: delay for 2 ms
when every 31st datagram received: flip bit 4000 of payload";

#[test]
fn everything_arrives_once_over_sockets_that_lose_double_and_reorder() {
    let (active, passive) = on_loopback(ROUGH, ROUGH);
    let pair = connect(active, passive, 4);
    // Datagrams are as long as loopback allows, so that many rounds are needed for all the faults.
    for _ in 0..200 {
        exchange(&pair, 1, 300_000);
        if happened(&pair.active.adapter) > 40 && happened(&pair.passive.adapter) > 40 {
            break;
        }
    }
    assert!(happened(&pair.active.adapter) > 40 && happened(&pair.passive.adapter) > 40);
    disconnect(&pair);
}

#[test]
fn everything_arrives_once_in_a_network_that_loses_doubles_and_reorders() {
    let run = |seed| {
        let simulation = Simulation::new(seed).over_udp();
        let (active, passive) = simulated(&simulation, ROUGH, ROUGH);
        let pair = connect(active, passive, 4);
        exchange(&pair, 12, 100_000);
        let faults = [&pair.active, &pair.passive].map(|side| happened(&side.adapter));
        assert!(faults.iter().all(|faults| *faults > 20), "{faults:?}");
        disconnect(&pair);
        (faults, simulation.time())
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn what_is_doubled_comes_twice() {
    let simulation = Simulation::new(1).over_udp();
    // A delay of no time counts the datagrams that arrive.
    let counts = "when each datagram received: delay for 0 ns";
    let (active, passive) = simulated(&simulation, "when each datagram sent: duplicate", counts);
    let pair = connect(active, passive, 4);
    exchange(&pair, 5, 50_000);
    let (sent, came) = (
        happened(&pair.active.adapter),
        happened(&pair.passive.adapter),
    );
    assert!(
        sent > 20 && came > sent + sent / 2,
        "{sent} sent, {came} came"
    );
    disconnect(&pair);
}

#[test]
fn late_datagrams_take_their_time() {
    for (direction, delay) in [("sent", 300), ("received", 200)] {
        let time = |plan: &str| {
            let simulation = Simulation::new(1).over_udp();
            let (active, passive) = simulated(&simulation, plan, "");
            let pair = connect(active, passive, 4);
            let start = simulation.time();
            exchange(&pair, 4, 10);
            simulation.time() - start
        };
        let plan = format!("when each datagram {direction}: delay for {delay} ms");
        let (without, with) = (time(""), time(&plan));
        assert!(
            with >= 4 * Duration::from_millis(delay) && without < Duration::from_millis(100),
            "{without:?}, {with:?}"
        );
    }
}

#[test]
fn whoever_waits_is_woken_for_late_datagrams() {
    let plan = "when each datagram received: delay for 500 us";
    let (active, passive) = on_loopback(plan, plan);
    let pair = connect(active, passive, 4);
    exchange(&pair, 20, 5000);
    disconnect(&pair);
}

#[test]
fn a_connection_dies_when_nothing_arrives_any_more() {
    for rule in [
        "when from 60th on datagram sent: drop",
        "when from 60th on datagram received: drop",
        "when from 60th on datagram sent: flip bit 200 of payload",
        "when from 60th on datagram sent: delay behind 1000000 datagrams",
    ] {
        let simulation = Simulation::new(1).over_udp();
        let (active, passive) = simulated(&simulation, rule, "");
        let pair = connect(active, passive, 4);
        let ended = Overlapped::new();
        let _ = pair.active_connector.notify_disconnect(&ended).unwrap();
        let (here, there) = (
            pair.active.region(1 << 20, ALL),
            pair.passive.region(1 << 20, ALL),
        );
        let none = OpFlags::empty();
        let mut statuses = Vec::new();
        while ended.poll() == Status::PENDING {
            let sges = [here.sge(0, 1 << 20)];
            if pair
                .active_qp
                .write(1, &sges, there.remote(0), none)
                .is_err()
            {
                break;
            }
            statuses.push(pair.active.result().status);
        }
        assert!(happened(&pair.active.adapter) > 0, "{rule}");
        assert_ne!(
            statuses.last(),
            Some(&Status::SUCCESS),
            "{rule}: {statuses:?}"
        );
    }
}

#[test]
fn nobody_connects_where_each_datagram_is_lost() {
    let simulation = Simulation::new(1).over_udp();
    let plan = "when each datagram received with peer 10.0.0.2: drop";
    let (active, passive) = simulated(&simulation, plan, "");
    assert_eq!(connect_status(&active, &passive), Status::IO_TIMEOUT);
    // Other hosts are reached.
    let other = Side::on_adapter(simulation.open([10, 0, 0, 3], Options::default()).unwrap());
    assert_eq!(connect_status(&active, &other), Status::SUCCESS);
}

#[test]
fn a_transfer_goes_on_when_a_simulated_network_changes_an_address() {
    for plan in [
        "when every 20th datagram sent: rebind",
        // The peer sends to the old port until this side sends something.
        "when 20th datagram received: rebind",
    ] {
        let simulation = Simulation::new(1).over_udp();
        let (active, passive) = simulated(&simulation, plan, "");
        let pair = connect(active, passive, 4);
        exchange(&pair, 8, 100_000);
        assert!(happened(&pair.active.adapter) > 0, "{plan}");
        disconnect(&pair);
    }
}

#[test]
fn a_transfer_goes_on_when_the_address_of_one_side_changes() {
    let (active, passive) = on_loopback("when every 50th datagram sent: rebind", "");
    let pair = connect(active, passive, 4);
    // Datagrams are as long as loopback allows, so that many rounds are needed.
    for _ in 0..500 {
        exchange(&pair, 1, 300_000);
        if happened(&pair.active.adapter) > 3 {
            break;
        }
    }
    assert!(happened(&pair.active.adapter) > 3);
    exchange(&pair, 5, 300_000);
    disconnect(&pair);
}

#[test]
fn a_transfer_goes_on_when_addresses_change_in_a_network_that_loses_datagrams() {
    for seed in 0..3 {
        let simulation = Simulation::new(seed).over_udp();
        let plan = "when every 20th datagram sent: rebind";
        let (active, passive) = simulated(&simulation, plan, "");
        let pair = connect(active, passive, 4);
        simulation.change(|conditions| conditions.loss = Chance::per_million(10_000));
        exchange(&pair, 20, 100_000);
        assert!(happened(&pair.active.adapter) > 100);
        disconnect(&pair);
    }
}

#[test]
fn an_adapter_without_datagrams_refuses_rules_about_them() {
    let plan = "when each connect: refuse; when 1st datagram sent: drop";
    let open = softnd::open("softnd+tcp://127.0.0.1", options(plan));
    let error = open.map(drop).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_PARAMETER_MIX);
    let expected = "fault plan, line 1, column 37: expected an event that is not only for adapters of `softnd+udp://`, found `datagram`";
    assert!(error.to_string().contains(expected), "{error}");
    let simulation = Simulation::new(1);
    let open = simulation.open([10, 0, 0, 1], options(plan));
    assert_eq!(
        open.map(drop).unwrap_err().status(),
        Status::INVALID_PARAMETER_MIX
    );
    assert!(
        simulation
            .over_udp()
            .open([10, 0, 0, 1], options(plan))
            .is_ok()
    );
}
