//! Addresses and ports that are in use.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::common::raw::{self, Peer};
use crate::common::{LONG, Pair, Side, end, now, pair, run, status};
use iwarp_io::setup::{Frame, FrameKind};
use netdirect::{Connector, OpFlags, Overlapped, QueuePair, Started, Status};
use softnd::Options;
use softnd::simulation::Simulation;

/// In a simulated network, because sockets of the system would need as many descriptors.
#[test]
fn conn_009_lstn_008_iw_052_no_port_is_left_when_all_of_the_range_are_bound() {
    let network = Simulation::new(9);
    let open = |ip: [u8; 4]| Side::on_adapter(network.open(ip, Options::default()).unwrap());
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
    // Each address has separate ports.
    assert_eq!(
        status(other.connector().bind(other.address())),
        Status::SUCCESS
    );

    // A connector that is released gives its port back. A call that fails leaves its object unchanged.
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

/// The form of IPv6 in which a socket for both families reports an IPv4 address (`::ffff:127.0.0.1`).
#[test]
fn an_ipv4_address_may_come_as_one_of_ipv6_in_every_call() {
    let side = Side::new();
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(v4) => SocketAddr::from((v4.to_ipv6_mapped(), address.port())),
        IpAddr::V6(_) => panic!("the sides of tests have addresses of IPv4"),
    };
    let listener = side.adapter.create_listener(&side.file).unwrap();
    listener.bind(mapped(side.address())).unwrap();
    listener.listen(1).unwrap();
    let to = listener.get_local_address().unwrap();
    assert_eq!(to.ip(), side.address().ip());
    let (connector, qp) = (side.connector(), side.queue_pair());
    connector.bind(mapped(side.address())).unwrap();
    let (offered, requested) = (Overlapped::new(), Overlapped::new());
    let connect = connector.connect(&qp, mapped(to), 1, 1, &[], &offered);
    let passive = side.connector();
    let request = listener.get_connection_request(&passive, &requested);
    assert_eq!(end(request, &requested), Ok(()));
    assert_eq!(passive.get_local_address(), Ok(to));
    let local = connector.get_local_address().unwrap();
    assert_eq!(passive.get_peer_address(), Ok(local));
    passive.reject(&[]).unwrap();
    assert_eq!(end(connect, &offered), Err(Status::CONNECTION_REFUSED));
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
    // Wine frees the port of a closed listener only when the thread that waits for it has noticed (`tests/wine/port_of_closed.c`).
    let begun = now();
    let mut bound = status(connector.bind(local));
    while cfg!(windows) && bound == Status::SHARING_VIOLATION && now() - begun < LONG {
        std::thread::yield_now();
        bound = status(connector.bind(local));
    }
    assert_eq!(bound, Status::SUCCESS);
    let qp = passive.queue_pair();
    let connect = |to| run(|overlapped| connector.connect(&qp, to, 1, 1, &[], overlapped));
    assert_eq!(connect(peer), Err(Status::ADDRESS_ALREADY_EXISTS));
    // The first connection is unchanged, and softnd allows another try (CONN-014).
    passive_qp.receive(1, &[]).unwrap();
    active_qp.send(2, &[], OpFlags::empty()).unwrap();
    assert_eq!(passive.result().status, Status::SUCCESS);
    let nobody = active.connector();
    nobody.bind(active.address()).unwrap();
    let nobody = nobody.get_local_address().unwrap();
    assert_eq!(connect(nobody), Err(Status::CONNECTION_REFUSED));
}

/// Connects to a server that rejects and keeps its end of the stream open. The connector's own end is closing from then on.
fn rejected(connector: &Arc<dyn Connector>, qp: &Arc<dyn QueuePair>) -> Peer {
    let (server, address) = raw::server();
    let reply = Frame {
        kind: FrameKind::Reply,
        markers: false,
        crc: false,
        rejected: true,
        revision: 1,
        enhanced: None,
        private_data: Vec::new(),
    };
    let mut octets = Vec::new();
    reply.encode(&mut octets);
    let connects = Overlapped::new();
    let connecting = connector.connect(qp, address, 1, 1, b"", &connects);
    assert_eq!(connecting, Ok(Started::Pending));
    let mut stream = server.accept();
    stream.receive(24);
    stream.write_all(&octets).unwrap();
    let refused = end(connecting, &connects);
    assert_eq!(refused, Err(Status::CONNECTION_REFUSED));
    stream
}

/// A connector that its client has bound can connect again while the socket of its last attempt is closing.
#[test]
fn conn_014_conn_023_another_connect_from_a_port_whose_socket_is_closing() {
    let side = Side::new();
    let (connector, qp) = (side.connector(), side.queue_pair());
    connector.bind(side.address()).unwrap();
    let local: SocketAddr = connector.get_local_address().unwrap();
    let first = rejected(&connector, &qp);
    let second = rejected(&connector, &qp);
    for peer in [&first, &second] {
        assert_eq!(
            peer.peer_addr(),
            local,
            "the port that the client has bound"
        );
    }
    // Between the same two addresses the system decides, and ND2 has a status for it.
    let address = first.local_addr();
    let again = run(|overlapped| connector.connect(&qp, address, 1, 1, b"", overlapped));
    let allowed = [Status::ADDRESS_ALREADY_EXISTS, Status::CONNECTION_REFUSED];
    assert!(allowed.contains(&again.unwrap_err()), "{again:?}");
}

/// Another program takes the port of a connector whose attempt has failed: Connect fails with a status that its page lists, and the
/// connector can be bound to another port.
#[test]
fn conn_014_amb_026_a_port_that_is_taken_between_two_attempts() {
    let side = Side::new();
    let (connector, qp) = (side.connector(), side.queue_pair());
    connector.bind(side.address()).unwrap();
    let local = connector.get_local_address().unwrap();
    let nobody = side.connector();
    nobody.bind(side.address()).unwrap();
    let to = nobody.get_local_address().unwrap();
    let tried = || run(|overlapped| connector.connect(&qp, to, 1, 1, b"", overlapped));
    assert_eq!(tried(), Err(Status::CONNECTION_REFUSED));
    let other = side.connector();
    other.bind(local).unwrap();
    assert_eq!(tried(), Err(Status::ADDRESS_ALREADY_EXISTS));
    connector.bind(side.address()).unwrap();
    assert_eq!(tried(), Err(Status::CONNECTION_REFUSED));
}
