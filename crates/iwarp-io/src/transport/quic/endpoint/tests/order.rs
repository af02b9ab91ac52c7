//! The order in which streams of one connection send.

use std::time::Duration;

use quinn_proto::StreamId;

use super::rig::{Neighbour, Rig, at};
use crate::transport::quic::preamble::TAKEN;

/// Streams with much to send, more than the packets of the first congestion window.
const STREAMS: u16 = 40;

/// A listener's side with streams that have been quiet for a while.
fn with_streams() -> (Rig, Neighbour, Vec<usize>) {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    let mut streams = Vec::new();
    for number in 0..STREAMS {
        neighbour.peer.open_with_preamble(6000 + number).unwrap();
        rig.run_to(&mut [&mut neighbour.peer], |rig, _| {
            rig.state.is_somebody_there()
        });
        streams.push(rig.accept());
    }
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    (rig, neighbour, streams)
}

/// Gives each of these streams much to send, which the next visit or other call sends.
fn fill(rig: &mut Rig, streams: &[usize]) {
    for stream in streams {
        let written = rig.act(|state, _| state.write(*stream, &[0; 20_000]));
        assert!(written.unwrap() > 0);
    }
}

/// The sent octets arrive. The peer has acknowledged none of them yet.
fn arrive(rig: &Rig, neighbour: &mut Neighbour) {
    rig.world.pass(Duration::from_millis(100));
    neighbour.peer.drive(rig.world.now());
}

#[test]
fn a_small_message_goes_before_what_many_streams_have_to_send() {
    let (mut rig, mut neighbour, streams) = with_streams();
    let flow = neighbour.flow;
    for message in [b"first", b"other"] {
        fill(&mut rig, &streams);
        rig.act(|state, outside| {
            assert_eq!(state.write(flow, message).unwrap(), message.len());
            state.settle_flow(outside, flow);
        });
        arrive(&rig, &mut neighbour);
        assert_eq!(neighbour.peer.read(neighbour.stream), message);
        rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    }
}

#[test]
fn the_answer_to_a_new_stream_goes_before_what_many_streams_have_to_send() {
    let (mut rig, mut neighbour, streams) = with_streams();
    let stream = neighbour.peer.open_with_preamble(5999).unwrap();
    arrive(&rig, &mut neighbour);
    rig.world.pass(Duration::from_millis(100));
    fill(&mut rig, &streams);
    rig.visit();
    assert!(rig.state.is_somebody_there());
    arrive(&rig, &mut neighbour);
    assert_eq!(neighbour.peer.read(stream), TAKEN);
}

#[test]
fn a_stream_that_sends_much_is_sent_with_the_others() {
    let mut rig = Rig::new();
    let mut neighbour = Neighbour::new(&mut rig);
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    let flow = neighbour.flow;
    let is_urgent = |rig: &Rig| rig.state.flow(flow).urgent;
    rig.act(|state, _| state.write(flow, &[0; 100])).unwrap();
    assert!(is_urgent(&rig));
    rig.act(|state, _| state.write(flow, &[0; 100_000]))
        .unwrap();
    assert!(!is_urgent(&rig));
    rig.act(|state, _| state.write(flow, &[0; 100])).unwrap();
    assert!(is_urgent(&rig));
}

/// The octets in flight within a machine while small messages are in use.
const BESIDE_SMALL: usize = 64 * 1024;

/// Sends 1 MiB on a stream that has been quiet. Returns the number of octets sent before the first acknowledgement.
fn burst(rig: &mut Rig, neighbour: &mut Neighbour, flow: usize, stream: StreamId) -> usize {
    let octets = vec![0; 1024 * 1024];
    let written = rig.act(|state, outside| {
        let written = state.write(flow, &octets);
        state.settle_flow(outside, flow);
        written
    });
    arrive(rig, neighbour);
    let in_flight = neighbour.peer.read(stream).len();
    let mut rest = written.unwrap() - in_flight;
    rig.run_to(&mut [&mut neighbour.peer], |_, peers| {
        rest -= peers[0].read(stream).len();
        rest == 0
    });
    rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    in_flight
}

#[test]
fn within_a_machine_less_is_in_flight_while_small_messages_are_in_use() {
    let mut rig = Rig::new();
    let mut bulk = Neighbour::at(&mut rig, at([10, 0, 0, 1], 5000));
    let mut small = Neighbour::new(&mut rig);
    let (flow, stream) = (bulk.flow, bulk.stream);
    // After these bursts, the small messages of the set-up no longer count.
    let mut usual = Vec::new();
    for _ in 0..16 {
        usual.push(burst(&mut rig, &mut bulk, flow, stream));
    }
    assert!(usual[15] > 2 * BESIDE_SMALL, "{usual:?}");
    for _ in 0..2 {
        small.assert_is_served(&mut rig);
        let beside = burst(&mut rig, &mut bulk, flow, stream);
        assert!(beside <= BESIDE_SMALL, "{beside}");
    }
    for _ in 0..16 {
        usual.push(burst(&mut rig, &mut bulk, flow, stream));
    }
    assert!(usual[31] > 2 * BESIDE_SMALL, "{usual:?}");
}

/// A small request is sent, and much data is sent in answer.
fn ask_for_much(rig: &mut Rig, asking: &mut Neighbour) {
    rig.act(|state, outside| {
        state.write(asking.flow, b"more").unwrap();
        state.settle_flow(outside, asking.flow);
    });
    let (mut to_send, mut to_read) = (vec![1; 20_000], vec![0; 20_000]);
    rig.run_to(&mut [&mut asking.peer], |rig, peers| {
        let mut sending = peers[0].connection().send_stream(asking.stream);
        if let Ok(count) = sending.write(&to_send) {
            to_send.truncate(to_send.len() - count);
        }
        let read = rig.act(|state, _| state.read(asking.flow, &mut to_read));
        to_read.truncate(to_read.len() - read.unwrap_or(0));
        to_read.is_empty()
    });
}

#[test]
fn small_requests_for_much_data_are_no_small_messages() {
    let mut rig = Rig::new();
    let mut bulk = Neighbour::at(&mut rig, at([10, 0, 0, 1], 5000));
    let mut asking = Neighbour::new(&mut rig);
    let (flow, stream) = (bulk.flow, bulk.stream);
    ask_for_much(&mut rig, &mut asking);
    for _ in 0..16 {
        burst(&mut rig, &mut bulk, flow, stream);
    }
    for _ in 0..4 {
        ask_for_much(&mut rig, &mut asking);
    }
    let beside = burst(&mut rig, &mut bulk, flow, stream);
    assert!(beside > 2 * BESIDE_SMALL, "{beside}");
}
