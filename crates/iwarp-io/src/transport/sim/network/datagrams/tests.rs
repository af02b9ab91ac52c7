use super::*;
use crate::transport::sim::conditions::Conditions;
use crate::transport::sim::network::Network;
use crate::transport::sim::network::common::EPHEMERAL;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// Two sockets of one network, and the address of the second one.
fn pair(seed: u64) -> (Network, [DatagramSocketId; 2], SocketAddr) {
    let mut network = Network::new(seed, Conditions::default());
    let one = network.datagrams().bind(address(1, 0)).unwrap();
    let other = network.datagrams().bind(address(2, 7000)).unwrap();
    (network, [one, other], address(2, 7000))
}

/// Advances until nothing happens any more.
fn run(network: &mut Network) {
    while let Some(at) = network.next_event() {
        network.advance(at);
    }
}

fn take_all(network: &mut Network, socket: DatagramSocketId) -> Vec<Datagram> {
    std::iter::from_fn(|| network.datagrams().take(socket)).collect()
}

fn errno(error: io::Error) -> Option<Errno> {
    Errno::from_io_error(&error)
}

#[test]
fn datagrams_have_addresses_apart_from_those_of_streams() {
    let (mut network, [one, other], to) = pair(1);
    let taken = network.datagrams().bind(to).unwrap_err();
    assert_eq!(errno(taken), Some(Errno::ADDRINUSE));
    network.bind(to).unwrap();
    let local = network.datagrams().local(one);
    assert!(EPHEMERAL.contains(&local.port()));
    network.datagrams().close(other);
    network.datagrams().bind(to).unwrap();
    // Each port of a host is picked once.
    for _ in 1..EPHEMERAL.len() {
        network.datagrams().bind(address(1, 0)).unwrap();
    }
    let full = network.datagrams().bind(address(1, 0)).unwrap_err();
    assert_eq!(errno(full), Some(Errno::ADDRINUSE));
}

#[test]
fn datagrams_arrive_in_the_order_in_which_they_were_sent() {
    let (mut network, [one, other], to) = pair(2);
    for number in 0..200 {
        network.datagrams().send(one, to, 0, &[number]).unwrap();
    }
    run(&mut network);
    let received = take_all(&mut network, other);
    let numbers: Vec<u8> = received.iter().map(|datagram| datagram.octets[0]).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<u8>>());
}

#[test]
fn addresses_without_a_route_and_hosts_that_cannot_be_reached_are_told_at_once() {
    let (mut network, [one, _], to) = pair(3);
    let send = |network: &mut Network, to: SocketAddr| {
        let sent = network.datagrams().send(one, to, 0, b"x");
        sent.map_err(|error| errno(error).unwrap())
    };
    let loopback = SocketAddr::from(([127, 0, 0, 1], 7000));
    let v6 = SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 7000));
    assert_eq!(send(&mut network, loopback), Err(Errno::NETUNREACH));
    assert_eq!(send(&mut network, v6), Err(Errno::NETUNREACH));
    assert_eq!(send(&mut network, to), Ok(()));
    network.conditions_mut().unreachable = [to.ip()].into();
    assert_eq!(send(&mut network, to), Err(Errno::HOSTUNREACH));
}

#[test]
fn a_socket_sends_no_faster_than_the_bandwidth() {
    let (mut network, [one, other], to) = pair(4);
    network.conditions_mut().bandwidth = 1000;
    for _ in 0..4 {
        network.datagrams().send(one, to, 0, &[1; 500]).unwrap();
    }
    network.advance(Duration::from_millis(1_500));
    assert_eq!(take_all(&mut network, other).len(), 2);
    run(&mut network);
    assert_eq!(take_all(&mut network, other).len(), 2);
    assert!(network.now() >= Duration::from_secs(2));
}
