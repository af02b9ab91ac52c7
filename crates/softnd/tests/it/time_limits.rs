//! Set-up and end of connections for a limited time.

use std::time::Duration;

use crate::common::ending::silent;
use crate::common::{Caller, LONG, Side, end, run, status, wait};
use netdirect::{Overlapped, ReadLimits, Status, ext};

/// A limit that passes while nothing happens.
const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_connect_that_is_not_answered_ends_and_the_peer_learns_of_it() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (qp, connector) = (active.queue_pair(), active.connector());
    let limits = ReadLimits::default();
    let connected = ext::connect_timeout(&connector, &qp, address, limits, b"hello", SHORT);
    assert_eq!(connected, Ok(None));
    // The queue pair is as before (CONN-033), and another connector connects it.
    let another = active.connector();
    let connects = Overlapped::new();
    let connecting = another.connect(&qp, address, 0, 0, b"again", &connects);
    // The first request may have arrived before its peer gave up.
    loop {
        let theirs = passive.connector();
        let peer = ext::get_connection_request_timeout(&listener, &theirs, LONG);
        let rejected = status(theirs.reject(b"no"));
        match &peer.unwrap().expect("a peer").private_data[..] {
            // The reset of the peer has arrived, or not yet.
            b"hello" => assert!(
                [Status::CONNECTION_ABORTED, Status::SUCCESS].contains(&rejected),
                "{rejected}"
            ),
            name => {
                assert_eq!((name, rejected), (&b"again"[..], Status::SUCCESS));
                break;
            }
        }
    }
    assert_eq!(end(connecting, &connects), Err(Status::CONNECTION_REFUSED));
}

#[test]
fn a_wait_for_peers_ends_and_goes_on() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    for name in [&b"first"[..], b"second"] {
        let theirs = passive.connector();
        let nobody = ext::get_connection_request_timeout(&listener, &theirs, SHORT);
        assert_eq!(nobody, Ok(None));
        let caller = Caller::new(&active, address, name);
        let peer = ext::get_connection_request_timeout(&listener, &theirs, LONG);
        assert_eq!(peer.unwrap().expect("a peer").private_data, name);
        // The peer that is given back comes again.
        listener.withdraw(&theirs).unwrap();
        let peer = ext::get_connection_request_timeout(&listener, &theirs, LONG);
        assert_eq!(peer.unwrap().expect("a peer").private_data, name);
        theirs.reject(b"").unwrap();
        assert_eq!(wait(&caller.connects), Status::CONNECTION_REFUSED);
    }
}

/// Each peer is served once, whenever it comes within the wait.
#[test]
fn a_peer_that_comes_when_the_limit_passes_is_not_lost() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    for number in 0..200_u64 {
        let name = number.to_be_bytes();
        let caller = Caller::new(&active, address, &name);
        let theirs = passive.connector();
        let mut limit = Duration::from_micros(number * 3);
        let peer = loop {
            match ext::get_connection_request_timeout(&listener, &theirs, limit).unwrap() {
                Some(peer) => break peer,
                None => limit += Duration::from_micros(20),
            }
        };
        assert_eq!(peer.private_data, name);
        theirs.reject(b"").unwrap();
        assert_eq!(wait(&caller.connects), Status::CONNECTION_REFUSED);
    }
}

#[test]
fn an_accept_whose_peer_does_not_complete_ends() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let caller = Caller::new(&active, address, b"");
    let (qp, theirs) = (passive.queue_pair(), passive.connector());
    let peer = ext::get_connection_request_timeout(&listener, &theirs, LONG);
    assert!(peer.unwrap().is_some());
    let accepted = ext::accept_timeout(&theirs, &qp, ReadLimits::default(), b"", SHORT);
    assert_eq!(accepted, Ok(None));
    assert_eq!(
        wait(&caller.connects),
        Status::SUCCESS,
        "the peer was answered"
    );
}

#[test]
fn a_disconnect_whose_peer_does_not_answer_ends() {
    let (_side, qp, connector, client) = silent();
    qp.receive(1, &[]).unwrap();
    assert_eq!(ext::disconnect_timeout(&connector, SHORT), Ok(None));
    drop(client);
    // Nothing is lost: what Disconnect flushes was flushed when it began.
    assert_eq!(_side.result().status, Status::CANCELED);
}

#[test]
fn limits_that_do_not_pass_change_nothing() {
    let pair = crate::common::pair();
    let disconnected = ext::disconnect_timeout(&pair.active_connector, LONG);
    assert_eq!(disconnected, Ok(Some(())));
    run(|overlapped| pair.passive_connector.notify_disconnect(overlapped)).unwrap();
}
