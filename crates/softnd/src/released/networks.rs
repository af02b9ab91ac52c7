//! Simulated networks: the handles that keep them, their release, and a program that makes many.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use netdirect::Adapter;

use super::stage::{HOST, Held, Kind, Order, Stage, handles, own};
use crate::adapter::AdapterHandle;
use crate::options::Options;
use crate::simulation::{self, Simulation};

const SIMULATED: [Kind; 2] = [Kind::Streams, Kind::Datagrams];

/// A handle, with the function that makes it.
type Handle = (&'static str, fn(&Stage, &Simulation) -> Held);

/// Connections are dropped without being ended, so that only the release of the network can end them.
#[test]
fn nothing_stays_of_many_networks_with_a_connection_each() {
    for kind in SIMULATED {
        for _ in 0..100 {
            let stage = Stage::new(kind);
            drop(stage.connected());
            assert!(stage.adapters() > 0, "the network's handle keeps them");
            stage.assert_nothing_stays(&format!("{kind:?}"));
        }
    }
}

#[test]
fn each_handle_of_a_network_keeps_it() {
    let handles: [Handle; 5] = [
        ("clone", |_, network| Box::new(network.clone())),
        ("provider", |stage, _| {
            Box::new(stage.provider(Options::default()))
        }),
        ("raw listener", |_, network| {
            Box::new(network.listen_raw((HOST, 0).into()).unwrap())
        }),
        ("raw stream", |_, network| {
            let listener = network.listen_raw((HOST, 0).into()).unwrap();
            Box::new(network.dial_raw(HOST, listener.local_addr()).unwrap())
        }),
        ("socket for datagrams", |_, network| {
            Box::new(network.datagrams_raw((HOST, 0).into()).unwrap())
        }),
    ];
    for kind in SIMULATED {
        for (name, take) in handles {
            let mut stage = Stage::new(kind);
            let last = take(&stage, &stage.network.clone().unwrap());
            drop(stage.connected());
            let network = stage.weak().unwrap();
            stage.network_released();
            assert!(network.is_alive(), "a {name} does not keep its network");
            drop(last);
            stage.assert_nothing_stays(&format!("{kind:?}: a {name} is the last handle"));
        }
    }
}

#[test]
fn a_network_can_be_released_in_another_thread() {
    for kind in SIMULATED {
        let mut stage = Stage::new(kind);
        let handles = handles(stage.connected());
        stage.network_released();
        let released = std::thread::spawn(|| Order::Forward.release(handles));
        released.join().unwrap();
        stage.assert_nothing_stays(&format!("{kind:?}: by another thread"));
    }
}

thread_local! {
    static KEPT: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

#[test]
fn a_network_can_be_released_at_the_end_of_its_thread() {
    for kind in SIMULATED {
        // First, so that this thread's other thread-local values are destroyed before it.
        let thread = std::thread::spawn(move || {
            KEPT.set(None);
            let mut stage = Stage::new(kind);
            drop(stage.connected());
            KEPT.set(stage.network.clone());
            stage.network_released();
            stage.into_watched()
        });
        let watched = thread.join().unwrap();
        let alive = watched.iter().filter(|(_, what)| what.strong_count() > 0);
        let alive: Vec<_> = alive.map(|(what, _)| *what).collect();
        assert!(alive.is_empty(), "{kind:?}: {alive:?}");
    }
}

/// The first address and the time of the network of an adapter.
fn address_and_time(adapter: &Arc<dyn Adapter>) -> (String, Duration) {
    let own = own::<AdapterHandle>(adapter.clone());
    let core = &own.line().core;
    let time = core.driver.environment.world().unwrap().time();
    (core.addresses.listed()[0].to_string(), time)
}

fn open(url: &str) -> Arc<dyn Adapter> {
    crate::open(url, Options::default()).unwrap()
}

#[test]
fn adapters_of_one_url_share_a_network_for_as_long_as_anything_of_it_is_held() {
    for url in ["softnd+sim://seed=7", "softnd+sim://seed=7,protocol=udp"] {
        for _ in 0..2 {
            let first = open(url);
            assert_eq!(
                address_and_time(&first),
                ("10.0.0.1".into(), Duration::ZERO),
                "{url}"
            );
            let second = open(url);
            assert_eq!(address_and_time(&second).0, "10.0.0.2");
            let elsewhere = open(&format!("{url},address=10.0.0.9"));
            assert_eq!(address_and_time(&elsewhere).0, "10.0.0.9");
            let file = second.create_overlapped_file().unwrap();
            let simulation = file.simulation().unwrap();
            let later = simulation.now() + Duration::from_secs(1);
            while simulation.now() < later {
                let _ = simulation.step(Some(later));
            }
            assert_eq!(
                address_and_time(&first).1,
                Duration::from_secs(1),
                "one clock"
            );
            drop((first, second, simulation, elsewhere));
            // The file is the last handle.
            let third = open(url);
            assert_eq!(
                address_and_time(&third),
                ("10.0.0.3".into(), Duration::from_secs(1))
            );
            drop((third, file));
        }
    }
}

#[test]
fn networks_of_urls_leave_nothing_in_their_thread() {
    let kept = open("softnd+sim://seed=0");
    for seed in 1..200 {
        open(&format!("softnd+sim://seed={seed}"));
    }
    assert!(
        simulation::opened() <= 2,
        "{} networks",
        simulation::opened()
    );
    assert_eq!(address_and_time(&open("softnd+sim://seed=0")).0, "10.0.0.2");
    drop(kept);
}
