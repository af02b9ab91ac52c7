//! The cryptography of QUIC, which also notes the frames of each packet that it has decrypted.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use super::received_frames::{EncryptionLevel, ReceivedFrames};

/// The frames that a connection has received, if its session is a watched one.
pub(super) fn frames_of(connection: &quinn_proto::Connection) -> Arc<ReceivedFrames> {
    let frames = connection.crypto_session().handshake_data();
    let frames = frames.and_then(|frames| frames.downcast().ok());
    frames.map_or_else(Arc::default, |frames| *frames)
}

/// Sessions of clients or of servers.
pub(super) struct Watched<T: ?Sized>(pub(super) Arc<T>);

impl ClientConfig for Watched<dyn ClientConfig> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = Arc::clone(&self.0).start_session(version, server_name, params)?;
        Ok(WatchedSession::boxed(session))
    }
}

impl ServerConfig for Watched<dyn ServerConfig> {
    fn initial_keys(
        &self,
        version: u32,
        dst_cid: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        WatchedSession::boxed(Arc::clone(&self.0).start_session(version, params))
    }
}

struct WatchedSession {
    session: Box<dyn Session>,
    frames: Arc<ReceivedFrames>,
    /// The encryption of the keys that the session gives next.
    next: EncryptionLevel,
}

impl WatchedSession {
    fn boxed(session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(Self {
            session,
            frames: Arc::default(),
            next: EncryptionLevel::Handshake,
        })
    }

    fn watch(
        &self,
        keys: KeyPair<Box<dyn PacketKey>>,
        level: EncryptionLevel,
    ) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair {
            local: keys.local,
            remote: Box::new(WatchedKey {
                key: keys.remote,
                level,
                frames: Arc::clone(&self.frames),
            }),
        }
    }
}

impl Session for WatchedSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(dst_cid, side)
    }

    /// The frames, for [`frames_of`].
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(Arc::clone(&self.frames)))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        // No adapter sends or accepts octets before the handshake.
        None
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
        let level = std::mem::replace(&mut self.next, EncryptionLevel::Data);
        let packet = self.watch(packet, level);
        Some(Keys { header, packet })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.session.next_1rtt_keys()?;
        Some(self.watch(keys, EncryptionLevel::Data))
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

struct WatchedKey {
    key: Box<dyn PacketKey>,
    level: EncryptionLevel,
    frames: Arc<ReceivedFrames>,
}

impl PacketKey for WatchedKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.key.encrypt(packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.key.decrypt(packet, header, payload)?;
        self.frames.add(self.level, payload);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
