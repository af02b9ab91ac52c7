//! In which order streams of one connection send.

use std::time::Duration;

use super::rig::{Neighbour, Rig};
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

/// What was sent arrives. The peer has acknowledged nothing of it yet.
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
