//! The memory of a process that makes many simulated networks.
#![cfg(target_os = "linux")]

use crate::common::{Side, child, connect};
use softnd::Options;
use softnd::simulation::Simulation;

/// Octets by which the process may grow after the first thousand networks. A thousand networks that stay take 900 MB.
const GROWTH: u64 = 8 << 20;

/// The resident set of this process, in octets.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let set = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes = set.trim().strip_suffix(" kB").unwrap();
    kibibytes.parse::<u64>().unwrap() * 1024
}

/// Makes networks with a connection each, which no Disconnect ends. Returns the resident set after the first thousand and after the last.
fn networks(make: impl Fn(u64) -> Simulation) -> [u64; 2] {
    let mut sets = [0; 2];
    for seed in 1..=10_000 {
        let network = make(seed);
        let side = |host| {
            let adapter = network.open([10, 0, 0, host], Options::default());
            Side::on_adapter(adapter.unwrap())
        };
        drop(connect(side(1), side(2), 4));
        if let Some(at) = [1_000, 10_000].iter().position(|at| *at == seed) {
            sets[at] = resident();
        }
        if [1_000, 5_000, 10_000].contains(&seed) {
            println!("{seed} networks: {} KiB", resident() / 1024);
        }
    }
    sets
}

#[test]
#[ignore = "takes minutes in a debug build, for the night"]
fn ten_thousand_simulated_networks_take_no_more_memory_than_a_thousand() {
    if !child::is_alone() {
        let test = "ten_thousand_simulated_networks_take_no_more_memory_than_a_thousand";
        return child::passes(&format!("resident_set::{test}"), |_| {});
    }
    let streams = networks(Simulation::new);
    let datagrams = networks(|seed| Simulation::new(seed).over_udp());
    for [first, last] in [streams, datagrams] {
        assert!(last < first + GROWTH, "{first} grew to {last}");
    }
}
