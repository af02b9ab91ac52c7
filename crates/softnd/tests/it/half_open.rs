//! Peers that connect and stay silent: a listener keeps a limited number of them, and other peers are still served (SEC-031).

use std::io::ErrorKind;
use std::net::SocketAddr;

use crate::common::raw::{self, Peer};
use crate::common::{self, SIMULATED, Side, child, end, run};
use netdirect::{Listener, OpFlags, Overlapped, Status};
use softnd::Options;

/// A connection from 127.0.0.`host` that sends nothing.
fn silent(host: u8, to: SocketAddr) -> Peer {
    raw::dial_from([127, 0, 0, host].into(), to)
}

fn is_open(peer: &mut Peer) -> bool {
    let read = peer.try_read(&mut [0]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Waits for the end of a connection.
fn wait_for_end(peer: &mut Peer) {
    assert_eq!(peer.rest(), b"", "nothing was asked for");
}

/// A side whose listener has no time limit for Requests, so that only the limits of half-open connections end silent peers.
fn patient(options: Options) -> Side {
    Side::with(options.timeouts(|limits| limits.request = None))
}

#[test]
fn sec_031_one_address_has_its_share() {
    let side = patient(
        Options::default()
            .half_open_limit(8)
            .half_open_limit_per_peer(4),
    );
    let (listener, address) = side.listener(0);
    let mut other = silent(3, address);
    let mut many: Vec<_> = (0..32).map(|_| silent(2, address)).collect();
    let (gone, left) = many.split_at_mut(28);
    gone.iter_mut().for_each(wait_for_end);
    assert!(left.iter_mut().all(is_open), "the newest are left");
    assert!(is_open(&mut other));
    speak(&Side::new(), &side, listener.as_ref(), address);
    assert!(left.iter_mut().chain([&mut other]).all(is_open));
}

#[test]
fn sec_031_when_the_table_is_full_an_address_with_few_is_left_alone() {
    let side = patient(
        Options::default()
            .half_open_limit(8)
            .half_open_limit_per_peer(8),
    );
    let (listener, address) = side.listener(0);
    let mut few = [silent(2, address), silent(3, address)];
    let mut many: Vec<_> = (0..32).map(|_| silent(4, address)).collect();
    many[..26].iter_mut().for_each(wait_for_end);
    assert!(many[26..].iter_mut().all(is_open));
    assert!(few.iter_mut().all(is_open));
    speak(&Side::new(), &side, listener.as_ref(), address);
}

/// A connection between two sides is set up, and ended.
fn speak(active: &Side, passive: &Side, listener: &dyn Listener, address: SocketAddr) {
    let (active_qp, passive_qp) = (active.queue_pair(), passive.queue_pair());
    let (here, there) = (active.connector(), passive.connector());
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let connecting = here.connect(&active_qp, address, 1, 1, b"", &connects);
    end(arrival, &arrives).unwrap();
    let accepting = there.accept(&passive_qp, 1, 1, b"", &accepts);
    end(connecting, &connects).unwrap();
    run(|overlapped| here.complete_connect(overlapped)).unwrap();
    end(accepting, &accepts).unwrap();
}

/// The number of descriptors that the process may have, from now on as many as the system allows.
#[cfg(unix)]
fn descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    setrlimit(Resource::Nofile, limits).expect("up to the hard limit is allowed");
    let files = limits.current.unwrap_or(u64::MAX);
    usize::try_from(files).unwrap_or(usize::MAX)
}

/// On Windows there is no such limit.
#[cfg(windows)]
fn descriptors() -> usize {
    usize::MAX
}

/// The number of silent connections that the process can have, at most 3,000. Both ends of each are in this process.
fn as_many_as_possible() -> usize {
    if SIMULATED {
        return 500;
    }
    let count = descriptors().saturating_sub(200) / 2;
    println!("{} silent connections", count.min(3000));
    count.min(3000)
}

#[test]
fn silent_connections_keep_nobody_out() {
    if !SIMULATED && !child::is_alone() {
        return child::passes("half_open::silent_connections_keep_nobody_out", |_| {});
    }
    let count = as_many_as_possible();
    let passive = patient(Options::default());
    let pair = common::connect(Side::new(), passive.clone(), 1);
    let address = pair.listener.get_local_address().unwrap();
    let crowd: Vec<_> = (0..count)
        .map(|at| silent(u8::try_from(2 + at % 200).unwrap(), address))
        .collect();
    for _ in 0..3 {
        speak(&pair.active, &passive, pair.listener.as_ref(), address);
        // The established connection is served as before.
        pair.passive_qp.receive(1, &[]).unwrap();
        let flags = OpFlags::SILENT_SUCCESS;
        pair.active_qp.send(2, &[], flags).unwrap();
        let result = pair.passive.result();
        assert_eq!(
            (result.status, result.request_context),
            (Status::SUCCESS, 1)
        );
    }
    drop(crowd);
}
