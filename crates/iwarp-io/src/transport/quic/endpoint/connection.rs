//! One connection of QUIC, with its streams.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, Dir, StreamId, VarInt};

use crate::error_number::Errno;
use crate::peer_network::PeerNetwork;
use crate::transport::quic::config::{
    ATTEMPT, FIRST_STREAMS, HANDSHAKE, UNUSED, WITHOUT_STREAMS, streams,
};
use crate::transport::quic::handshake_sends::HandshakeSends;
use crate::transport::quic::preamble::ErrorCode;
use crate::transport::quic::undelivered::Undelivered;
use crate::transport::quic::watched_session;

/// A probe that checks if there is a socket at a peer's address, until this is dropped. It reports the answer by itself, where the system tells
/// whoever waits for the probe.
pub(in crate::transport::quic) trait PortProbing: Send {
    /// The answer so far: the error, if there is no such socket.
    fn answer(&self) -> Option<Errno>;
}

/// The probe of a connection.
pub(in crate::transport::quic) type Probing = Box<dyn PortProbing>;

/// One connection of QUIC.
pub(super) struct Connection {
    pub(super) quic: quinn_proto::Connection,
    pub(super) handle: ConnectionHandle,
    pub(super) remote: SocketAddr,
    /// The address that packets to the peer are sent to. A peer may move.
    path: SocketAddr,
    pub(super) ours: bool,
    pub(super) established: bool,
    /// The peer has proved its address, so that the connection counts toward this address.
    pub(super) proved: bool,
    /// The connection has ended, or is about to.
    pub(super) lost: bool,
    /// The results of sending, until the connection is established.
    pub(super) sends: HandshakeSends,
    pub(super) flows: HashMap<StreamId, usize>,
    /// Outgoing streams that wait for the handshake, or for the peer's permission to open one more.
    pub(super) opening: VecDeque<usize>,
    /// Streams of the peer without a whole preamble.
    pub(super) arriving: usize,
    /// Streams that the peer may have open.
    permitted: u32,
    pub(super) undelivered: Undelivered,
    /// The next datagram carries a small message.
    pub(super) small_is_next: bool,
    pub(super) deadline: Option<Instant>,
    /// The time for which an outgoing attempt continues before it is replaced by another one.
    pub(super) may_take: Duration,
    /// The time when the attempt is replaced.
    pub(super) overdue: Option<Instant>,
    /// The time when the connection is closed, if it is still unused.
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
        let frames = watched_session::frames_of(&quic);
        Self {
            undelivered: Undelivered::new(frames, PeerNetwork::from_address(remote.ip())),
            quic,
            handle,
            remote,
            path: remote,
            ours,
            established: false,
            proved: false,
            lost: false,
            sends: HandshakeSends::default(),
            flows: HashMap::new(),
            opening: VecDeque::new(),
            arriving: 0,
            permitted: FIRST_STREAMS,
            small_is_next: false,
            deadline: None,
            may_take: ATTEMPT,
            overdue: None,
            unused: None,
            probe: None,
        }
    }

    /// Returns true if the peer has confirmed that it has the whole handshake. Before that, the peer ignores packets from another address.
    pub(super) fn is_confirmed(&self) -> bool {
        self.established && self.quic.stats().frame_rx.handshake_done > 0
    }

    /// The time for which the connection may remain in its state. Peers close connections without streams earlier than this side does.
    pub(super) fn patience(&self) -> Option<Duration> {
        if self.lost {
            return None;
        }
        if self.ours {
            let is_used = !self.flows.is_empty() || !self.opening.is_empty();
            return (!is_used).then_some(UNUSED);
        }
        match self.established {
            false => Some(HANDSHAKE),
            true => (self.flows.len() == self.arriving).then_some(WITHOUT_STREAMS),
        }
    }

    /// A stream of the peer has arrived: permits more of them, so that this one is not the last.
    pub(super) fn permit(&mut self) {
        let permitted = streams(self.flows.len());
        if permitted > self.permitted {
            self.permitted = permitted;
            let permitted = VarInt::from_u32(permitted);
            self.quic.set_max_concurrent_streams(Dir::Bi, permitted);
        }
    }

    /// Returns true if the address that packets are sent to has changed since the last call.
    pub(super) fn has_moved(&mut self) -> bool {
        let path = self.quic.remote_address();
        std::mem::replace(&mut self.path, path) != path
    }

    /// Ends both directions of a stream with an error code. A direction that has ended already is unchanged.
    pub(super) fn break_off(&mut self, stream: StreamId, code: ErrorCode) {
        let code = VarInt::from_u32(code.number());
        let _ = self.quic.send_stream(stream).reset(code);
        let _ = self.quic.recv_stream(stream).stop(code);
    }
}

pub(super) fn code_of(number: VarInt) -> Option<ErrorCode> {
    ErrorCode::from_number(number.into_inner())
}

/// Reads the rest of a stream whose connection has ended. Returns true if its end is included.
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
