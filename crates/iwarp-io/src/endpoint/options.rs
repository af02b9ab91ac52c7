//! The properties of an endpoint.

use std::time::Duration;

use iwarp::{Pd, QueueSizes, Scope};

/// The properties of a new endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointOptions {
    /// The sizes of the queues.
    pub sizes: QueueSizes,
    /// The protection domain, and the number of the connection in its adapter.
    pub scope: Scope,
    /// The protection domain of the memory that Receives name: that of a queue of shared Receives, otherwise that of `scope`.
    pub receive_pd: Pd,
    /// The time within which the peer has to end its direction after this side has ended the connection. After that time the endpoint
    /// resets the stream. `None`: without limit.
    pub end_within: Option<Duration>,
    /// Initiator requests may be posted before the client may send, and are carried out from then on. Otherwise they are refused.
    pub early_posts: bool,
    /// Receives stay posted when the peer ends the connection, in order or not
    /// ([`Connection::keep_receives`](iwarp::Connection::keep_receives)). Otherwise they come back flushed then.
    pub keeps_receives: bool,
}
