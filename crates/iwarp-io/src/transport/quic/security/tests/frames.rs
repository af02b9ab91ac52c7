//! The frames that a connection has received.

use std::sync::Arc;

use super::pump::{Pump, write};
use crate::transport::quic::received_frames::{Part, ReceivedFrame};
use crate::transport::quic::security::Security;
use crate::transport::quic::watched_session::{Watched, frames_of};

/// Frames that this side overlooks would not be counted.
#[test]
fn the_frames_are_those_that_quinn_proto_has_received() {
    let security = Security::default();
    let client = Watched(security.client_crypto().unwrap());
    let client = quinn_proto::ClientConfig::new(Arc::new(client));
    let server = security.server_config_with(|crypto| Arc::new(Watched(crypto)));
    let mut pump = Pump::between(client, server.unwrap(), "10.0.0.1");
    pump.run();
    let mut octets = 0;
    for len in [1, 20, 3000, 60_000, 1500] {
        let (_, connection) = pump.client.connection.as_mut().unwrap();
        write(connection, &vec![7; len]);
        octets += len as u64;
        if len == 3000 {
            connection.force_key_update();
        }
        pump.run();
    }
    let (_, server) = pump.server.connection.as_ref().unwrap();
    let mut frames = Vec::new();
    frames_of(server).take(&mut frames);
    let (mut streams, mut crypto, mut found) = (0, 0, 0);
    for frame in frames {
        match frame {
            ReceivedFrame::Octets {
                part: Part::Stream(_),
                start,
                end,
            } => {
                streams += 1;
                found += end - start;
            }
            ReceivedFrame::Octets { .. } => crypto += 1,
            ReceivedFrame::Reset(_) => panic!("no stream was reset"),
        }
    }
    let received = server.stats().frame_rx;
    assert_eq!(streams, received.stream);
    // The first packets of a handshake are not watched.
    assert!(
        crypto > 0 && crypto < received.crypto,
        "{crypto} of {}",
        received.crypto
    );
    // The pump's client sends six octets when it is connected.
    assert_eq!(found, octets + 6);
}
