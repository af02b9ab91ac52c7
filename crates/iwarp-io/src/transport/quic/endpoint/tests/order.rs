//! In which order streams of one connection send.

use std::time::Duration;

use super::rig::{Neighbour, Rig};

/// Streams with much to send, more than the packets of the first congestion window.
const STREAMS: u16 = 40;

#[test]
fn a_small_message_goes_before_what_many_streams_have_to_send() {
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
    let flow = neighbour.flow;
    for message in [b"first", b"other"] {
        rig.act(|state, outside| {
            for stream in &streams {
                assert!(state.write(*stream, &[0; 20_000]).unwrap() > 0);
            }
            assert_eq!(state.write(flow, message).unwrap(), message.len());
            state.settle_flow(outside, flow);
        });
        // The peer has acknowledged nothing yet.
        rig.world.pass(Duration::from_millis(100));
        let now = rig.world.now();
        neighbour.peer.drive(now);
        assert_eq!(neighbour.peer.read(neighbour.stream), message);
        rig.run(&mut [&mut neighbour.peer], Duration::from_secs(1));
    }
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
