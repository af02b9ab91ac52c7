//! Queue pairs whose client has released everything, and whose peers are still there.

use std::io::{Read, Write};
use std::net::TcpStream;

use netdirect::{OpFlags, Sge, Status};

use super::on_each_transport;
use super::stage::{HOST, Kind, LONG, Side, Stage, begin, ended, soon};
use crate::options::Options;
use crate::simulation::Chance;

on_each_transport!(what_a_released_adapter_has_sent_arrives_and_then_nothing_of_it_stays,);

fn sge(side: &Side<'_>) -> [Sge; 1] {
    [Sge {
        address: side.buffer.address(),
        length: 64,
        token: side.region.get_local_token(),
    }]
}

fn what_a_released_adapter_has_sent_arrives_and_then_nothing_of_it_stays(kind: Kind) {
    let stage = Stage::new(kind);
    let (active, passive) = stage.connected();
    let notified = begin(|overlapped| active.connector.notify_disconnect(overlapped));
    active.qp.receive(1, &sge(&active)).unwrap();
    active.qp.receive(2, &sge(&active)).unwrap();
    passive
        .qp
        .send(3, &sge(&passive), OpFlags::empty())
        .unwrap();
    let mut results = [Default::default(); 4];
    stage.wait_until("the Send", || {
        passive.cq.get_results(&mut results.clone()) > 0
    });
    drop(passive);
    ended(&notified);
    // The active side has not disconnected, and its client still holds everything.
    stage.wait_until("the end of the adapter", || stage.adapters() == 1);
    let mut ends = Vec::new();
    // Flushed requests are shown after NotifyDisconnect has ended, maybe by another thread (CONN-106).
    stage.wait_until("the flushed Receive", || {
        let taken = active.cq.get_results(&mut results);
        let taken = results[..taken].iter();
        ends.extend(taken.map(|result| (result.request_context, result.status)));
        ends.len() == 2
    });
    assert_eq!(ends, [(1, Status::SUCCESS), (2, Status::CANCELED)]);
    drop(active);
    stage.assert_nothing_stays(&format!("{kind:?}"));
}

/// A peer that does not use softnd.
trait Peer: Read + Write {}

impl<T: Read + Write> Peer for T {}

/// Connects to a side by hand, as a peer of revision 1.
fn peer_by_hand(stage: &Stage, side: &Side<'_>) -> Box<dyn Peer> {
    let mut peer: Box<dyn Peer> = match &stage.network {
        Some(network) => Box::new(network.dial_raw(HOST, side.address()).unwrap()),
        None => {
            let peer = TcpStream::connect(side.address()).unwrap();
            peer.set_read_timeout(Some(LONG)).unwrap();
            Box::new(peer)
        }
    };
    let asked = side.asks();
    peer.write_all(b"MPA ID Req Frame\x00\x01\x00\x00").unwrap();
    ended(&asked);
    let accepts = side.accepts();
    let mut reply = [0; 27];
    peer.read_exact(&mut reply).unwrap();
    assert_eq!(&reply[20..], b"welcome");
    ended(&accepts);
    peer
}

#[test]
fn a_released_adapter_waits_for_its_peer_no_longer_than_its_limit() {
    let kinds = [Kind::Tcp, Kind::Streams];
    for kind in kinds {
        let stage = Stage::new(kind);
        let side = stage.side_with(soon());
        let mut peer = peer_by_hand(&stage, &side);
        drop(side);
        let end = peer.read(&mut [0; 1]).unwrap();
        assert_eq!(end, 0, "{kind:?}: an orderly end");
        stage.wait_until("the limit", || stage.adapters() == 0);
        drop(peer);
        stage.assert_nothing_stays(&format!("{kind:?}"));
    }
}

#[test]
fn a_released_adapter_waits_for_its_peer_without_a_limit_where_there_is_none() {
    let kinds = [Kind::Tcp, Kind::Streams];
    for kind in kinds {
        let stage = Stage::new(kind);
        let without = Options::default().timeouts(|timeouts| timeouts.disconnect = None);
        let side = stage.side_with(without);
        let mut peer = peer_by_hand(&stage, &side);
        drop(side);
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "{kind:?}");
        assert_eq!(stage.adapters(), 1, "{kind:?}: the peer may still send");
        drop(peer);
        stage.wait_until("the end of the peer", || stage.adapters() == 0);
        stage.assert_nothing_stays(&format!("{kind:?}"));
    }
}

#[test]
fn a_released_adapter_gives_up_a_peer_that_no_datagram_reaches() {
    let stage = Stage::new(Kind::Datagrams);
    let (active, passive) = stage.connected_with(soon());
    let network = stage.network.clone().unwrap();
    network.change(|conditions| conditions.loss = Chance::per_million(1_000_000));
    drop(passive);
    stage.wait_until("the limit", || stage.adapters() == 1);
    drop((active, network));
    stage.assert_nothing_stays("cut off");
}

#[test]
fn a_raw_stream_sees_the_end_although_it_is_the_last_handle() {
    let mut stage = Stage::new(Kind::Streams);
    let side = stage.side();
    let mut peer = peer_by_hand(&stage, &side);
    drop(side);
    stage.network_released();
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "an orderly end");
    drop(peer);
    stage.assert_nothing_stays("the stream was the last handle");
}
