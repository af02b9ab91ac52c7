//! Connections that are refused, or given up at each step of their set-up.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use netdirect::{Overlapped, Status};

use super::stage::{HOST, Held, Kind, Side, Stage, ended, handles, status};
use super::{Scene, on_each_transport, play};

on_each_transport!(
    nothing_stays_of_a_connection_given_up_at_any_step_of_its_set_up,
    nothing_stays_of_a_connection_that_was_refused
);

fn nothing_stays_of_a_connection_given_up_at_any_step_of_its_set_up(kind: Kind) {
    play(
        kind,
        &[
            Scene("a listener waits", |stage| {
                let (active, passive) = stage.sides();
                let _ = passive.asks();
                handles((active, passive))
            }),
            Scene("a Connect has begun", |stage| {
                let (active, passive) = stage.sides();
                let _ = active.connects(passive.address());
                handles((active, passive))
            }),
            Scene("a request waits in the backlog", |stage| {
                let (active, passive) = stage.sides();
                a_moment(&active.connects(passive.address()));
                handles((active, passive))
            }),
            Scene("a Connect waits for a silent peer", |stage| {
                let (address, peer) = silent_peer(stage);
                let active = stage.side();
                a_moment(&active.connects(address));
                let mut all = active.handles();
                all.push(peer);
                all
            }),
            Scene("a peer says nothing", |stage| {
                let (active, passive) = stage.sides();
                let peer = silent_caller(stage, passive.address());
                let mut all = handles((active, passive));
                all.push(peer);
                all
            }),
            Scene("a request is offered", |stage| handles(offered(stage))),
            Scene("a request was withdrawn", |stage| {
                let (active, passive) = offered(stage);
                passive.listener.withdraw(&passive.connector).unwrap();
                handles((active, passive))
            }),
            Scene("an Accept has begun", |stage| {
                let (active, passive) = offered(stage);
                let _ = passive.accepts();
                handles((active, passive))
            }),
            Scene("the peer has accepted", |stage| {
                handles(answered(stage, |_, _| {}))
            }),
            Scene("a CompleteConnect has begun", |stage| {
                handles(answered(stage, |active, _| {
                    let _ = active
                        .connector
                        .complete_connect(&Overlapped::new())
                        .unwrap();
                }))
            }),
            Scene("a Connect was cancelled", |stage| {
                let (active, passive) = stage.sides();
                let connects = active.connects(passive.address());
                active.connector.cancel_overlapped_requests().unwrap();
                assert_eq!(status(&connects), Status::CANCELED);
                handles((active, passive))
            }),
            Scene("an Accept was cancelled", |stage| {
                let (active, passive) = offered(stage);
                let accepts = passive.accepts();
                passive.connector.cancel_overlapped_requests().unwrap();
                assert_eq!(status(&accepts), Status::CANCELED);
                handles((active, passive))
            }),
            Scene("a queue pair was flushed during its Accept", |stage| {
                let (active, passive) = offered(stage);
                let accepts = passive.accepts();
                passive.qp.flush().unwrap();
                assert_eq!(status(&accepts), Status::CANCELED);
                handles((active, passive))
            }),
        ],
    );
}

fn nothing_stays_of_a_connection_that_was_refused(kind: Kind) {
    play(
        kind,
        &[
            Scene("nobody listens", |stage| {
                let (active, passive) = stage.sides();
                let address = passive.address();
                drop(passive);
                let connects = active.connects(address);
                assert_eq!(status(&connects), Status::CONNECTION_REFUSED);
                active.handles()
            }),
            Scene("the passive side has rejected", |stage| {
                handles(rejected(stage, |active, passive| {
                    passive.connector.reject(b"no").unwrap();
                    (active, passive)
                }))
            }),
            Scene("the passive side has released its connector", |stage| {
                let (active, passive) = rejected(stage, |active, mut passive| {
                    passive.connector = passive
                        .adapter
                        .create_connector(&passive.file)
                        .expect("another connector");
                    (active, passive)
                });
                handles((active, passive))
            }),
            Scene("the active side has rejected", |stage| {
                handles(answered(stage, |active, _| {
                    active.connector.reject(b"").unwrap();
                }))
            }),
            Scene("the Connect was repeated after a refusal", |stage| {
                let (active, passive) = rejected(stage, |active, passive| {
                    passive.connector.reject(b"no").unwrap();
                    (active, passive)
                });
                a_moment(&active.connects(passive.address()));
                handles((active, passive))
            }),
        ],
    );
}

/// Gives a request some time. Its progress does not matter, only that nothing stays.
fn a_moment(request: &Overlapped) {
    let _ = request.wait_timeout(Duration::from_millis(1));
}

/// A peer's request is in the passive connector.
fn offered(stage: &Stage) -> (Side<'_>, Side<'_>) {
    let (active, passive) = stage.sides();
    let asked = passive.asks();
    let _ = active.connects(passive.address());
    ended(&asked);
    (active, passive)
}

/// The peer has accepted. `then` continues.
fn answered(stage: &Stage, then: impl FnOnce(&Side<'_>, &Side<'_>)) -> (Side<'_>, Side<'_>) {
    let (active, passive) = stage.sides();
    let asked = passive.asks();
    let connects = active.connects(passive.address());
    ended(&asked);
    let _ = passive.accepts();
    ended(&connects);
    then(&active, &passive);
    (active, passive)
}

/// The Connect has been refused, by the action `refuse`.
fn rejected<'a>(
    stage: &'a Stage,
    refuse: impl FnOnce(Side<'a>, Side<'a>) -> (Side<'a>, Side<'a>),
) -> (Side<'a>, Side<'a>) {
    let (active, passive) = stage.sides();
    let asked = passive.asks();
    let connects = active.connects(passive.address());
    ended(&asked);
    let (active, passive) = refuse(active, passive);
    assert_eq!(status(&connects), Status::CONNECTION_REFUSED);
    (active, passive)
}

/// A peer that accepts a connection and the octets of a Connect, and never answers.
fn silent_peer(stage: &Stage) -> (SocketAddr, Held) {
    match (stage.kind, &stage.network) {
        (Kind::Streams, Some(network)) => {
            let peer = network.listen_raw((HOST, 0).into()).unwrap();
            (peer.local_addr(), Box::new(peer))
        }
        (_, Some(network)) => {
            let peer = network.datagrams_raw((HOST, 0).into()).unwrap();
            (peer.local(), Box::new(peer))
        }
        (Kind::Udp, None) => {
            let peer = UdpSocket::bind((HOST, 0)).unwrap();
            (peer.local_addr().unwrap(), Box::new(peer))
        }
        (_, None) => {
            let peer = TcpListener::bind((HOST, 0)).unwrap();
            (peer.local_addr().unwrap(), Box::new(peer))
        }
    }
}

/// A peer that connects to a listener, and sends nothing that the listener could understand.
fn silent_caller(stage: &Stage, to: SocketAddr) -> Held {
    match (stage.kind, &stage.network) {
        (Kind::Streams, Some(network)) => {
            let peer = network.dial_raw(HOST, to).unwrap();
            network.pass(Duration::from_millis(10));
            Box::new(peer)
        }
        (Kind::Datagrams, Some(network)) => {
            let peer = network.datagrams_raw((HOST, 0).into()).unwrap();
            peer.send_to(to, 0, b"not QUIC").unwrap();
            network.pass(Duration::from_millis(10));
            Box::new(peer)
        }
        (Kind::Udp, _) => {
            let peer = UdpSocket::bind((HOST, 0)).unwrap();
            peer.send_to(b"not QUIC", to).unwrap();
            Box::new(peer)
        }
        _ => Box::new(TcpStream::connect(to).unwrap()),
    }
}
