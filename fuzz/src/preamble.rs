//! The first octets that a peer sends on a stream of QUIC.

use iwarp_io::transport::quic::preamble::{ErrorCode, PREAMBLE, Preamble, TAKEN};

use crate::input::Input;
use crate::quic::{Net, at, read};

/// Input: how many octets leave at once, and then the octets of a stream, which ends behind them.
///
/// A stream with a preamble is accepted, and its reader gets the octets behind the preamble. Any other stream is refused with
/// the code that the preamble calls for.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn preamble(data: &[u8]) {
    let mut input = Input::new(data);
    let step = usize::from(input.octet()).max(1);
    let octets = input.rest();
    let preamble = match octets.first_chunk::<PREAMBLE>() {
        Some(first) => Preamble::decode(*first).inspect(|preamble| {
            assert_eq!(preamble.encode(), *first);
        }),
        None => Err(ErrorCode::BadPreamble),
    };

    let mut net = Net::new();
    let mut peer = net.connected(at(3, 5000));
    let stream = peer.open(&[]).expect("a first stream");
    for piece in octets.chunks(step) {
        if let Some(connection) = peer.connection() {
            // A stream that is refused takes no more.
            let _ = connection.send_stream(stream).write(piece);
        }
        net.step(&mut [&mut peer]);
        net.step(&mut [&mut peer]);
    }
    if let Some(connection) = peer.connection() {
        let _ = connection.send_stream(stream).finish();
    }
    match preamble {
        Err(code) => {
            let mut refused = None;
            net.run(&mut [&mut peer], |_, peers| {
                refused = peers[0].refused(stream);
                refused.is_some()
            });
            assert_eq!(refused, Some(code.number().into()));
            assert!(net.wires.is_empty(), "nobody is to accept it");
        }
        Ok(preamble) => {
            let (mut behind, mut answer) = (Vec::new(), Vec::new());
            net.run(&mut [&mut peer], |net, peers| {
                answer.extend(peers[0].read(stream));
                let end = net
                    .wires
                    .first()
                    .is_some_and(|wire| read(wire, &mut behind));
                end && answer == TAKEN
            });
            assert_eq!(behind, octets[PREAMBLE..]);
            assert_eq!(net.wires.len(), 1);
            let (_, remote) = net.wires[0].addresses();
            assert_eq!(remote, at(3, preamble.source));
        }
    }
}
