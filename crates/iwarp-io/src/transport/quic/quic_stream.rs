//! A stream of QUIC that is, or is to become, a connection of NetworkDirect.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::StreamId;
use rustix::io::Errno;

use super::arrivals::Arrivals;
use super::preamble::PREAMBLE;
use crate::progress::shared_descriptor::CarriedSource;

/// The progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Outgoing; the connection has no stream for it yet.
    Opening,
    /// Outgoing: the preamble was sent, and this many octets of the answer have arrived.
    Asked { have: usize },
    /// Incoming; its preamble is incomplete.
    Arriving { octets: [u8; PREAMBLE], have: usize },
    /// Incoming; waits for a listener to take it.
    Waiting,
    /// In use.
    Open,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct QuicStream {
    /// The connection's key, which finds nothing after the connection was removed.
    pub(super) connection: usize,
    /// The stream, once there is one.
    pub(super) stream: Option<StreamId>,
    pub(super) source: Arc<CarriedSource>,
    pub(super) stage: Stage,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The octets that have arrived.
    pub(super) arrivals: Arrivals,
    /// The user has sent octets, so that the start-up frames of the peer, if it is the opener, are whole.
    pub(super) in_use: bool,
    /// Octets that were read ahead of the user.
    pub(super) ahead: Bytes,
    /// Octets that were taken to be sent, and for which the stream had no room yet.
    pub(super) unsent: Bytes,
    /// Octets that were read since the last send.
    pub(super) received: usize,
    /// The octets of this stream are sent before those of others.
    pub(super) urgent: bool,
    /// The end has no user any more: the stream is removed when its octets were sent, or at this time.
    pub(super) orphan: Option<Instant>,
    /// The end of the peer's direction was read.
    pub(super) ended: bool,
    /// The connection is gone: the peer's end is behind the octets of `ahead`.
    pub(super) ends: bool,
    /// The peer accepts no more octets.
    pub(super) stopped: bool,
    /// This side's direction ends when everything that was taken was sent.
    pub(super) closing: bool,
    /// This side's direction has ended.
    pub(super) finished: bool,
    /// The peer has confirmed the end of this side's direction, and everything before it.
    pub(super) confirmed: bool,
    /// The time at which another connection is tried, because the existing one does not answer.
    pub(super) stale: Option<Instant>,
    /// The error that broke the stream. Octets that have arrived can still be read, if the whole connection broke.
    pub(super) broken: Option<Errno>,
    /// The call that this machine refused, if that broke the stream.
    pub(super) refused_call: Option<&'static str>,
    /// The reason why the whole connection has ended, if people should know it.
    pub(super) complaint: Option<Arc<str>>,
}

impl QuicStream {
    pub(super) fn new(
        connection: usize,
        source: Arc<CarriedSource>,
        stage: Stage,
        (local, remote): (SocketAddr, SocketAddr),
    ) -> Self {
        Self {
            connection,
            stream: None,
            source,
            stage,
            arrivals: Arrivals::default(),
            in_use: false,
            local,
            remote,
            ahead: Bytes::new(),
            unsent: Bytes::new(),
            received: 0,
            urgent: false,
            orphan: None,
            ended: false,
            ends: false,
            stopped: false,
            closing: false,
            finished: false,
            confirmed: false,
            stale: None,
            broken: None,
            refused_call: None,
            complaint: None,
        }
    }
}
