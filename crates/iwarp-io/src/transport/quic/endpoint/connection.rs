//! One connection of QUIC, with its streams.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, StreamId, VarInt};

use crate::transport::quic::preamble::ErrorCode;

/// Asks whether anybody has a socket at a peer's address, until this is dropped.
pub(in crate::transport::quic) type Probing = Box<dyn Send>;

/// One connection of QUIC.
pub(super) struct Connection {
    pub(super) quic: quinn_proto::Connection,
    pub(super) handle: ConnectionHandle,
    pub(super) remote: SocketAddr,
    pub(super) ours: bool,
    pub(super) established: bool,
    /// It has ended, or is about to.
    pub(super) lost: bool,
    pub(super) flows: HashMap<StreamId, usize>,
    /// Streams of ours that wait for the handshake, or for the peer's leave to open one more.
    pub(super) opening: VecDeque<usize>,
    /// Streams of the peer without a whole preamble.
    pub(super) arriving: usize,
    pub(super) deadline: Option<Instant>,
    pub(super) unused: Option<Instant>,
    pub(super) probe: Option<Probing>,
}

impl Connection {
    pub(super) fn new(
        quic: quinn_proto::Connection,
        handle: ConnectionHandle,
        remote: SocketAddr,
        ours: bool,
    ) -> Self {
        Self {
            quic,
            handle,
            remote,
            ours,
            established: false,
            lost: false,
            flows: HashMap::new(),
            opening: VecDeque::new(),
            arriving: 0,
            deadline: None,
            unused: None,
            probe: None,
        }
    }

    pub(super) fn is_used(&self) -> bool {
        !self.flows.is_empty() || !self.opening.is_empty()
    }

    /// Ends both directions of a stream with an error code. What has ended already stays ended.
    pub(super) fn break_off(&mut self, stream: StreamId, code: ErrorCode) {
        let code = VarInt::from_u32(code.number());
        let _ = self.quic.send_stream(stream).reset(code);
        let _ = self.quic.recv_stream(stream).stop(code);
    }
}

pub(super) fn code_of(number: VarInt) -> Option<ErrorCode> {
    ErrorCode::of(number.into_inner())
}

/// Reads all that is left of a stream whose connection has ended. Returns whether its end is among it.
pub(super) fn read_all(connection: &mut Connection, stream: StreamId, rest: &mut BytesMut) -> bool {
    let mut receiving = connection.quic.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(true) else {
        return false;
    };
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => rest.extend_from_slice(&chunk.bytes),
            outcome => return matches!(outcome, Ok(None)),
        }
    }
}
