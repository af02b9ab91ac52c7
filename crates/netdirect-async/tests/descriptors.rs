//! The descriptors after a Connect was dropped. The only test of this program, because it counts the descriptors of the
//! process.
#![cfg(target_os = "linux")]

#[path = "it/common/mod.rs"]
mod common;

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use common::{Network, Side, poll};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn conn_035_a_connect_that_is_dropped_leaves_no_descriptor() {
    let here = Side::new(&Network::Tcp.open(1));
    // The one whose peers are dropped at once, and the other.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut before = None;
    for round in 0..20 {
        let peer = &listeners[usize::from(round % 3 > 0)];
        let address = peer.local_addr().unwrap();
        let mut connect = here.adapter.connect(&here.qp, address).into_future();
        assert!(poll(connect.as_mut()).is_pending());
        // Dropped at once, or when the peer has the request, or after another poll.
        if round % 3 > 0 {
            let (mut stream, _) = peer.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(120)))
                .unwrap();
            stream.read_exact(&mut [0; 20]).unwrap();
            if round % 3 > 1 {
                assert!(poll(connect.as_mut()).is_pending());
            }
            drop(connect);
            // A reset.
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest);
            assert!(end.is_err() || rest.is_empty(), "{rest:?}");
        } else {
            drop(connect);
        }
        // The first round may open what is kept for later ones.
        let after = descriptors();
        if round >= 3 {
            assert_eq!(*before.get_or_insert(after), after, "round {round}");
        }
    }
}
