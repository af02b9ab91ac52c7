//! Datagrams and streams of strangers at a listener over QUIC, and a connection that must not notice them.

use std::time::Duration;

use iwarp_io::transport::quic::preamble::ErrorCode;
use quinn_proto::VarInt;

use crate::input::Input;
use crate::quic::{LISTENER, Net, at, read};

/// How many operations of one input are carried out, so that an input takes a limited time.
const OPERATIONS: usize = 64;

/// Input: operations, each an octet and its arguments.
///
/// - 0: a datagram of a stranger: its length, its octets.
/// - 1: what the honest peer has sent, once more, from its own address or the stranger's: its number, where one octet is changed
///   and how, and how many octets are left.
/// - 2: the first packet of a connection, with the same changes.
/// - 3: the stranger opens a stream: how many octets it begins with, these octets.
/// - 4: octets on the stranger's last stream.
/// - 5: the stranger ends, resets or stops its last stream.
/// - 6: time passes, in steps of 10 ms.
/// - 7: the streams that were accepted are read, written to, and the first one is let go.
///
/// Whatever they are, the honest peer is served.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn datagrams(data: &[u8]) {
    let mut input = Input::new(data);
    let mut net = Net::new();
    let mut neighbour = net.neighbour();
    let mut stranger = net.connected(at(3, 5000));
    let mut stream = None;
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        match input.octet() % 8 {
            0 => {
                let len = usize::from(input.octet());
                let octets = input.take(len);
                let _ = stranger.socket.send_to(LISTENER, 0, octets);
            }
            1 => {
                let number = usize::from(input.octet());
                let sent = &neighbour.peer.sent;
                let datagram = changed(&mut input, sent[number % sent.len()].clone());
                let socket = match number % 2 {
                    0 => &stranger.socket,
                    _ => &neighbour.peer.socket,
                };
                let _ = socket.send_to(LISTENER, 0, &datagram);
            }
            2 => {
                let first = stranger.first_packet();
                let datagram = changed(&mut input, first);
                let _ = stranger.socket.send_to(LISTENER, 0, &datagram);
            }
            3 => {
                let len = usize::from(input.octet());
                stream = stranger.open(input.take(len)).or(stream);
            }
            4 => {
                let len = usize::from(input.octet());
                let octets = input.take(len);
                if let (Some(stream), Some(connection)) = (stream, stranger.connection()) {
                    let _ = connection.send_stream(stream).write(octets);
                }
            }
            5 => {
                let [end, reset, stop, ..] = input.flags();
                let code = VarInt::from_u32(ErrorCode::Aborted.number());
                if let (Some(stream), Some(connection)) = (stream, stranger.connection()) {
                    if end {
                        let _ = connection.send_stream(stream).finish();
                    }
                    if reset {
                        let _ = connection.send_stream(stream).reset(code);
                    }
                    if stop {
                        let _ = connection.recv_stream(stream).stop(code);
                    }
                }
            }
            6 => {
                let time = Duration::from_millis(10) * u32::from(input.octet());
                let end = net.world.now() + time;
                while net.world.now() < end {
                    net.step(&mut [&mut stranger, &mut neighbour.peer]);
                }
            }
            _ => {
                for wire in &net.wires {
                    read(wire, &mut Vec::new());
                    let _ = wire.write(b"octets");
                }
                if !net.wires.is_empty() {
                    drop(net.wires.remove(0));
                }
            }
        }
        net.step(&mut [&mut stranger, &mut neighbour.peer]);
    }
    neighbour.assert_is_served(&mut net);
}

/// A datagram with one octet changed, cut to a length.
fn changed(input: &mut Input<'_>, mut datagram: Vec<u8>) -> Vec<u8> {
    let at = usize::from(input.word16()) % datagram.len();
    datagram[at] ^= input.octet();
    let len = usize::from(input.word16());
    // 0: as it is.
    if len > 0 {
        datagram.truncate(len);
    }
    datagram
}
