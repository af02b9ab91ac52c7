//! Connections within one machine through shared memory, as a client of the provider has them.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common::{LONG, Pair, Side, pair_with};
use netdirect::{Overlapped, Started};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use softnd::Options;

/// The names that both ends have for the transport.
fn transports(pair: &Pair) -> [Option<&'static str>; 2] {
    [
        pair.active_connector.transport(),
        pair.passive_connector.transport(),
    ]
}

/// An adapter with the option, which waits for the other end however long that takes.
fn with_option() -> Options {
    let options = Options::default().same_host(true);
    options.timeouts(|limits| limits.same_host = Some(LONG))
}

#[test]
fn both_ends_name_shared_memory_if_both_have_the_option() {
    let pair = pair_with(with_option(), with_option());
    assert_eq!(transports(&pair), [Some("shm"); 2]);
}

/// A socket at which offers for this listener are made, and that answers none.
fn silent(at: SocketAddr) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let name = SocketAddrUnix::new_abstract_name(format!("softnd-1/{at}").as_bytes()).unwrap();
    rustix::net::bind(&socket, &name).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    socket
}

/// The one without a limit connects first. When the other one has given up, and asks over TCP, the first one has still said nothing.
#[test]
fn a_connector_waits_for_as_long_as_its_options_say() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let _offers = silent(at);
    let connect = |limit| {
        let options = Options::default().same_host(true);
        let side = Side::with(options.timeouts(|limits| limits.same_host = limit));
        let (queue_pair, connector) = (side.queue_pair(), side.connector());
        let connects = Overlapped::new();
        let started = connector.connect(&queue_pair, at, 1, 1, b"", &connects);
        assert_eq!(started.unwrap(), Started::Pending);
        let (peer, _) = listener.accept().unwrap();
        (peer, (side, queue_pair, connector, connects))
    };
    let (mut patient, _kept) = connect(None);
    let (mut hasty, _too) = connect(Some(Duration::from_millis(1)));
    let mut request = [0; 16];
    hasty.set_read_timeout(Some(LONG)).unwrap();
    hasty.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"MPA ID Req Frame");
    patient.set_nonblocking(true).unwrap();
    let said = patient.read(&mut request).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::WouldBlock);
}

#[test]
fn both_ends_name_tcp_if_one_end_alone_has_the_option() {
    let without = || Options::default().same_host(false);
    for [active, passive] in [[with_option(), without()], [without(), with_option()]] {
        let pair = pair_with(active, passive);
        assert_eq!(transports(&pair), [Some("tcp"); 2]);
    }
}
