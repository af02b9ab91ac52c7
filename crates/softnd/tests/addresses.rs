//! Addresses and ports that are in use.

mod common;

use std::collections::BTreeSet;

use common::{Pair, Side, pair, run, status};
use netdirect::{OpFlags, Status};
use softnd::Options;
use softnd::simulation::Simulation;

/// In a simulated network, because sockets of the system would need as many descriptors.
#[test]
fn conn_009_lstn_008_iw_052_no_port_is_left_when_all_of_the_range_are_bound() {
    let network = Simulation::new(9);
    let open = |ip: [u8; 4]| Side::of(network.open(ip, Options::default()).unwrap());
    let (side, other) = (open([10, 0, 0, 1]), open([10, 0, 0, 2]));
    let mut ports = BTreeSet::new();
    let mut connectors: Vec<_> = (49152..=65535)
        .map(|_| {
            let connector = side.connector();
            connector.bind(side.address()).unwrap();
            ports.insert(connector.get_local_address().unwrap().port());
            connector
        })
        .collect();
    assert_eq!(ports, (49152..=65535).collect());
    let last = side.connector();
    let bind = || status(last.bind(side.address()));
    assert_eq!(bind(), Status::TOO_MANY_ADDRESSES);
    let listener = side.adapter.create_listener(&side.file).unwrap();
    let listen = || status(listener.bind(side.address()));
    assert_eq!(listen(), Status::TOO_MANY_ADDRESSES);
    // Each address has ports of its own.
    assert_eq!(
        status(other.connector().bind(other.address())),
        Status::SUCCESS
    );

    // A released connector gives its port back; a call that failed has left its object as it was.
    let released = connectors.pop().unwrap();
    let port = released.get_local_address().unwrap().port();
    drop(released);
    assert_eq!(listen(), Status::SUCCESS);
    assert_eq!(listener.get_local_address().unwrap().port(), port);
    assert_eq!(bind(), Status::TOO_MANY_ADDRESSES);
    drop(listener);
    assert_eq!(bind(), Status::SUCCESS);
    assert_eq!(last.get_local_address().unwrap().port(), port);
}

#[test]
fn conn_010_iw_056_amb_026_two_addresses_have_one_connection() {
    let Pair {
        active,
        passive,
        active_qp,
        passive_qp,
        active_connector: _active_connector,
        passive_connector,
        listener,
    } = pair();
    let peer = passive_connector.get_peer_address().unwrap();
    let local = passive_connector.get_local_address().unwrap();
    let connector = passive.connector();
    assert_eq!(status(connector.bind(local)), Status::SHARING_VIOLATION);
    drop(listener);
    connector.bind(local).unwrap();
    let qp = passive.queue_pair();
    let connect = |to| run(|overlapped| connector.connect(&qp, to, 1, 1, &[], overlapped));
    assert_eq!(connect(peer), Err(Status::ADDRESS_ALREADY_EXISTS));
    // The first connection is as it was, and softnd allows another try (CONN-014).
    passive_qp.receive(1, &[]).unwrap();
    active_qp.send(2, &[], OpFlags::empty()).unwrap();
    assert_eq!(passive.result().status, Status::SUCCESS);
    let nobody = active.connector();
    nobody.bind(active.address()).unwrap();
    let nobody = nobody.get_local_address().unwrap();
    assert_eq!(connect(nobody), Err(Status::CONNECTION_REFUSED));
}
