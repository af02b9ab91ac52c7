//! The ports that others see of a socket that a plan has rebound. It connects to a peer that never answers, so its first packet is sent
//! again and again.

#[cfg(unix)]
use std::net::UdpSocket;
use std::net::{IpAddr, Ipv4Addr};
#[cfg(unix)]
use std::time::Duration;

use iwarp_mem::Table;

use super::*;
use crate::buffers::Buffers;
use crate::driver::Driver;
use crate::faults::Faults;
use crate::simulation::{Conditions, World};
use crate::transport::Transport;
use crate::transport::local_ports::bind;
use crate::transport::purpose::Purpose;
use crate::transport::quic::Quic;
use crate::transport::quic::security::Security;
use crate::transport::sim::DatagramSocket;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Only to end a hang.
#[cfg(unix)]
const LONG: Duration = Duration::from_secs(60);

/// The ports from which `count` datagrams came, sent under a plan.
fn ports(
    environment: Environment,
    plan: &str,
    silent: SocketAddr,
    count: usize,
    mut next: impl FnMut() -> u16,
) -> Vec<u16> {
    let transport = Transport::Quic(Quic::new(environment, &Security::default()).unwrap());
    transport.follow(&Faults::new(plan.parse().unwrap()));
    let buffers = Buffers::new(Arc::new(Table::new()));
    let driver = Driver::start(transport.clone(), buffers, None).unwrap();
    let from = SocketAddr::new(HERE, 0);
    let from = bind(&transport, from, Purpose::Connecting).unwrap();
    let dialer = from.connect(silent).unwrap();
    let ports = (0..count).map(|_| next()).collect();
    dialer.reset();
    drop(driver);
    ports
}

fn are_rebound(ports: &[u16]) {
    let [first, second, third] = ports else {
        panic!("three ports");
    };
    assert_ne!(first, second);
    assert_eq!(second, third);
}

const PLAN: &str = "when 2nd datagram sent: rebind; when each datagram sent: duplicate";

#[cfg(unix)]
#[test]
fn a_socket_of_the_system_gets_another_port() {
    let silent = UdpSocket::bind((HERE, 0)).unwrap();
    silent.set_read_timeout(Some(LONG)).unwrap();
    let next = || loop {
        let (count, from) = silent.recv_from(&mut [0; 2000]).unwrap();
        // The probe of the address is not one of the datagrams of QUIC.
        if count > 1 {
            return from.port();
        }
    };
    let at = silent.local_addr().unwrap();
    let ports = ports(Environment::System, PLAN, at, 4, next);
    assert_eq!(ports[0], ports[1]);
    are_rebound(&ports[1..]);
}

#[test]
fn a_simulated_socket_gets_another_port() {
    let world = World::new(1, Conditions::default());
    let silent = DatagramSocket::bind(&world, SocketAddr::new(HERE, 0)).unwrap();
    let next = || loop {
        match silent.recv_from(&mut [0; 2000]) {
            Ok(received) => return received.from.port(),
            Err(_) => assert!(world.step()),
        }
    };
    let environment = Environment::Sim(world.clone());
    let ports = ports(environment, PLAN, silent.local(), 4, next);
    assert_eq!(ports[0], ports[1]);
    are_rebound(&ports[1..]);
}
