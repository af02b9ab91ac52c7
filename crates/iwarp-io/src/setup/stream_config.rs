//! From an agreement of both sides to the configuration of the stream.

use std::time::Duration;

use iwarp::mpa::startup::Agreed;
use iwarp::{Role, StreamConfig};

use crate::endpoint::{COPIED_BELOW, EARLY};
use crate::log::targets;
use crate::transport::stream::Stream;

/// The configuration of a stream after the start-up. A message of the peer waits up to `receive_wait` for its Receive; with
/// [`Duration::MAX`] it waits for ever. With `confirm_writes` Writes complete when the peer has placed them, if the peer serves Reads.
pub fn stream_config(
    stream: &Stream,
    role: Role,
    agreed: &Agreed,
    receive_wait: Duration,
    confirm_writes: bool,
) -> StreamConfig {
    if confirm_writes && agreed.limits.ord == 0 {
        limited!(warn, target: targets::CONNECT, parent: stream.span(),
            "Writes to this peer complete unconfirmed: it serves no Reads");
    }
    StreamConfig {
        role,
        crc: agreed.crc,
        markers: agreed.markers,
        limits: agreed.limits,
        ready: agreed.ready,
        receive_wait,
        copied: stream.copied_payload(),
        copied_below: COPIED_BELOW,
        confirm_writes,
        early: EARLY,
    }
}
