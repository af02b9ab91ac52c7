//! Each kind of object, held longest.

use netdirect::Overlapped;

use super::on_each_transport;
use super::stage::{Held, Kind, Side, Stage};

on_each_transport!(
    the_last_handle_of_any_kind_keeps_the_network_and_nothing_stays_after_it,
    a_request_keeps_nothing_after_its_objects,
);

/// A handle that a client can hold, with the function that takes it from a side.
type Handle = (&'static str, fn(&Side<'_>) -> Held);

const HANDLES: [Handle; 9] = [
    ("adapter", |side| Box::new(side.adapter.clone())),
    ("file", |side| Box::new(side.file.clone())),
    ("completion queue", |side| Box::new(side.cq.clone())),
    ("shared receive queue", |side| Box::new(side.srq.clone())),
    ("queue pair", |side| Box::new(side.qp.clone())),
    ("memory region", |side| Box::new(side.region.clone())),
    ("memory window", |side| Box::new(side.window.clone())),
    ("connector", |side| Box::new(side.connector.clone())),
    ("listener", |side| Box::new(side.listener.clone())),
];

fn the_last_handle_of_any_kind_keeps_the_network_and_nothing_stays_after_it(kind: Kind) {
    for (name, take) in HANDLES {
        for passive in [false, true] {
            let mut stage = Stage::new(kind);
            let (one, other) = stage.connected();
            let last = take(if passive { &other } else { &one });
            drop((one, other));
            let network = stage.weak();
            // The client's own handle of the network is dropped first.
            stage.network_released();
            let alive = network.as_ref().is_none_or(|network| network.is_alive());
            assert!(alive, "{kind:?}: a {name} does not keep its network");
            drop(last);
            let alive = network.is_some_and(|network| network.is_alive());
            assert!(!alive, "{kind:?}: something else keeps the network");
            stage.assert_nothing_stays(&format!("{kind:?}: a {name} is the last handle"));
        }
    }
}

fn a_request_keeps_nothing_after_its_objects(kind: Kind) {
    let mut stage = Stage::new(kind);
    let (active, passive) = stage.connected();
    let asked = Overlapped::new();
    let connector = passive.adapter.create_connector(&passive.file).unwrap();
    let listener = passive.listener.clone();
    let _ = listener.get_connection_request(&connector, &asked).unwrap();
    drop((active, passive));
    stage.network_released();
    assert!(asked.is_pending());
    drop((listener, connector));
    assert!(!asked.is_pending(), "its objects were released");
    // An Overlapped keeps nothing once its request has ended.
    stage.assert_nothing_stays(&format!("{kind:?}"));
    drop(asked);
}
