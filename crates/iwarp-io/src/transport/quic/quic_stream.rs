//! A stream of QUIC that is, or is to become, a connection of NetworkDirect.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::StreamId;
use rustix::io::Errno;

use super::preamble::PREAMBLE;
use crate::progress::shared_descriptor::CarriedSource;

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Ours, for which the connection has no stream yet.
    Opening,
    /// Ours: the preamble has left; so many octets of the answer are here.
    Asked { have: usize },
    /// The peer's, whose preamble is not whole.
    Arriving { octets: [u8; PREAMBLE], have: usize },
    /// The peer's, which a listener has taken.
    Waiting,
    /// In use.
    Open,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct QuicStream {
    /// The connection's key, which finds nothing after the connection has gone.
    pub(super) connection: usize,
    /// The stream, once there is one.
    pub(super) stream: Option<StreamId>,
    pub(super) source: Arc<CarriedSource>,
    pub(super) stage: Stage,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Octets that were looked at and not read.
    pub(super) ahead: Bytes,
    /// Octets that were taken to be sent, and for which the stream has had no room.
    pub(super) unsent: Bytes,
    /// Octets that were read since something was sent.
    pub(super) received: usize,
    /// What is sent goes before what other streams send.
    pub(super) urgent: bool,
    /// Nobody has the end any more: the stream goes when its octets have left, or at this time.
    pub(super) orphan: Option<Instant>,
    /// The end of the peer's direction has been read.
    pub(super) ended: bool,
    /// The connection has gone: the peer's end is behind the octets that are ahead.
    pub(super) ends: bool,
    /// The peer takes no more octets.
    pub(super) stopped: bool,
    /// Our direction ends when everything that was taken has left.
    pub(super) closing: bool,
    /// Our direction has ended.
    pub(super) finished: bool,
    /// The peer has confirmed the end of our direction, and everything before it.
    pub(super) confirmed: bool,
    /// When another connection is tried, because the one that was there does not answer.
    pub(super) stale: Option<Instant>,
    /// What broke it. Octets that are here can still be read, if the whole connection broke.
    pub(super) broken: Option<Errno>,
    /// The call that this machine refused, if that broke it.
    pub(super) refused_call: Option<&'static str>,
    /// Why the whole connection has ended, if that is for people to know.
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
