//! Addresses and ports: those of connectors are names in the process, and those of listeners are UDP ports.

use netdirect::{Overlapped, Status};

use crate::common::{Pair, Side, connect, run, status, wait};
use crate::ends::Call;

#[test]
fn conn_092_conn_101_several_listeners_know_their_own_peers() {
    let (active, passive) = (Side::new(), Side::new());
    let listeners: Vec<_> = (0..3).map(|_| passive.listener(0)).collect();
    let calls: Vec<_> = listeners
        .iter()
        .flat_map(|(_, address)| [Call::new(&active, *address), Call::new(&active, *address)])
        .collect();
    for (number, call) in calls.iter().enumerate() {
        let (listener, address) = &listeners[number / 2];
        let connector = passive.connector();
        run(|overlapped| listener.get_connection_request(&connector, overlapped)).unwrap();
        let local = call.connector.get_local_address().unwrap();
        assert_eq!(connector.get_peer_address().unwrap(), local);
        assert_eq!(connector.get_local_address().unwrap(), *address);
        let (qp, accepts) = (passive.queue_pair(), Overlapped::new());
        let _ = connector.accept(&qp, 1, 1, b"", &accepts).unwrap();
        assert_eq!(call.end_alone(), Status::SUCCESS);
        assert_eq!(call.connector.get_peer_address().unwrap(), *address);
        run(|overlapped| call.connector.complete_connect(overlapped)).unwrap();
        assert_eq!(wait(&accepts), Status::SUCCESS);
    }
}

#[test]
fn conn_008_lstn_006_an_address_belongs_to_one_object_of_the_process() {
    let (side, other) = (Side::new(), Side::new());
    let (_listener, listening) = side.listener(0);
    let connector = side.connector();
    connector.bind(side.address()).unwrap();
    let connecting = connector.get_local_address().unwrap();
    for address in [listening, connecting] {
        for side in [&side, &other] {
            let connector = side.connector();
            assert_eq!(status(connector.bind(address)), Status::SHARING_VIOLATION);
            let listener = side.adapter.create_listener(&side.file).unwrap();
            assert_eq!(status(listener.bind(address)), Status::SHARING_VIOLATION);
        }
    }
}

#[test]
fn conn_010_iw_056_amb_026_two_addresses_have_one_connection() {
    let Pair {
        passive,
        active_qp,
        passive_qp,
        passive_connector,
        active_connector: _active_connector,
        listener,
        ..
    } = connect(Side::new(), Side::new(), 1);
    let peer = passive_connector.get_peer_address().unwrap();
    let local = passive_connector.get_local_address().unwrap();
    drop(listener);
    let connector = passive.connector();
    connector.bind(local).unwrap();
    let qp = passive.queue_pair();
    let connected = run(|overlapped| connector.connect(&qp, peer, 1, 1, &[], overlapped));
    assert_eq!(connected, Err(Status::ADDRESS_ALREADY_EXISTS));
    passive_qp.receive(1, &[]).unwrap();
    active_qp.send(2, &[], netdirect::OpFlags::empty()).unwrap();
    assert_eq!(passive.result().status, Status::SUCCESS);
}

/// Listens at an address.
fn listen(side: &Side, address: std::net::SocketAddr) -> Status {
    let listener = side.adapter.create_listener(&side.file).unwrap();
    match listener.bind(address) {
        Ok(()) => status(listener.listen(0)),
        Err(error) => error.status(),
    }
}

#[test]
fn conn_008_a_port_with_connections_of_a_former_listener_belongs_to_its_adapter() {
    let pair = connect(Side::new(), Side::new(), 1);
    let address = pair.listener.get_local_address().unwrap();
    let other = Side::new();
    assert_eq!(listen(&pair.passive, address), Status::SHARING_VIOLATION);
    drop(pair.listener);
    assert_eq!(listen(&pair.passive, address), Status::SUCCESS);
    // Unlike with TCP, the UDP socket belongs to the first adapter.
    assert_eq!(listen(&other, address), Status::SHARING_VIOLATION);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap();
    drop((pair.passive_connector, pair.passive_qp));
    let begun = crate::common::now();
    while listen(&other, address) != Status::SUCCESS {
        assert!(crate::common::now() - begun < std::time::Duration::from_secs(5));
        crate::common::idle();
    }
    assert_eq!(listen(&pair.passive, address), Status::SUCCESS);
}
