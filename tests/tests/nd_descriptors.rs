//! `nd` in a process with very few descriptors.

use std::net::{SocketAddr, TcpStream};

use softnd_tests::args;
use softnd_tests::nd::{self, Nd};

/// A receiver that has exactly as many descriptors as it needs to listen.
fn receiver_without_any_left() -> (Nd, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // How many it needs depends on the descriptors with which it is started.
    for descriptors in 4..256 {
        let limit = format!("ulimit -n {descriptors}");
        let listen = args!["cat", "recv", "--listen", "127.0.0.1:0", "--out", &out];
        let mut receiver = nd::start_after(&limit, listen);
        let address = receiver.wait_if_it_lives(|line| {
            let address = line.strip_prefix("listening on ")?;
            address.trim().parse().ok()
        });
        if let Some(address) = address {
            return (receiver, address);
        }
    }
    panic!("a receiver needs more than 256 descriptors to listen");
}

#[test]
fn a_receiver_that_cannot_accept_says_so() {
    let (mut receiver, address) = receiver_without_any_left();
    // The system takes the connection; the receiver never can.
    let _sender = TcpStream::connect(address).unwrap();
    let line = receiver.wait_for(|line| line.contains("cannot accept").then(|| line.to_owned()));
    assert!(line.contains("Too many open files"), "{line}");
}
