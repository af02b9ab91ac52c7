//! A peer's cryptography that leaves out frames: their octets never arrive, and the peer takes them for acknowledged.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, StreamId, TransportError};

use crate::transport::quic::received_frames::{EncryptionLevel, Part, ReceivedFrame, read};
use crate::transport::quic::security::Security;

/// Decides by the stream and the offset of its first octet if a frame is left out.
type Rule = Arc<dyn Fn(StreamId, u64) -> bool + Send + Sync>;

/// The settings of a peer that leaves out the STREAM frames that `rule` selects.
pub(super) fn client_that_leaves_out(
    rule: impl Fn(StreamId, u64) -> bool + Send + Sync + 'static,
) -> quinn_proto::ClientConfig {
    let crypto = Security::default().client_crypto().unwrap();
    quinn_proto::ClientConfig::new(Arc::new(Leaving(crypto, Arc::new(rule))))
}

struct Leaving<T: ?Sized>(Arc<T>, Rule);

impl ClientConfig for Leaving<dyn ClientConfig> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = Arc::clone(&self.0).start_session(version, server_name, params)?;
        let rule = Arc::clone(&self.1);
        Ok(Box::new(LeavingSession { session, rule }))
    }
}

struct LeavingSession {
    session: Box<dyn Session>,
    rule: Rule,
}

impl LeavingSession {
    fn keys(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair {
            local: Box::new(LeavingKey(keys.local, Arc::clone(&self.rule))),
            remote: keys.remote,
        }
    }
}

impl Session for LeavingSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.session.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.session.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let Keys { header, packet } = self.session.write_handshake(buf)?;
        let packet = self.keys(packet);
        Some(Keys { header, packet })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.session.next_1rtt_keys().map(|keys| self.keys(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}

struct LeavingKey(Box<dyn PacketKey>, Rule);

impl PacketKey for LeavingKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len() - self.0.tag_len();
        let payload = &mut buf[header_len..end];
        let mut places = Vec::new();
        let whole = read(EncryptionLevel::Data, payload, |frame, place| {
            if let ReceivedFrame::Octets {
                part: Part::Stream(stream),
                start,
                ..
            } = frame
                && (self.1)(stream, start)
            {
                places.push(place);
            }
        });
        assert!(whole.is_some(), "quinn-proto sends frames that can be read");
        for place in places {
            // PADDING
            payload[place].fill(0);
        }
        self.0.encrypt(packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.0.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}
