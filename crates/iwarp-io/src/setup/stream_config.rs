//! From an agreement of both sides to the configuration of the stream.

use std::time::Duration;

use iwarp::mpa::startup::Agreed;
use iwarp::{Confirmations, Role, StreamConfig};

use crate::endpoint::{COPIED_BELOW, EARLY};
use crate::log::targets;
use crate::transport::stream::Stream;

/// The configuration of a stream after the start-up. A message of the peer waits up to `receive_wait` for its Receive; with
/// [`Duration::MAX`] it waits for ever. `confirmations` names the requests that wait until the peer has placed Writes, if the peer serves
/// Reads.
pub fn stream_config(
    stream: &Stream,
    role: Role,
    agreed: &Agreed,
    receive_wait: Duration,
    confirmations: Confirmations,
) -> StreamConfig {
    if !are_possible(confirmations, agreed) {
        limited!(warn, target: targets::CONNECT, parent: stream.span(),
            "Writes to this peer complete unconfirmed: it serves no Reads");
    }
    StreamConfig {
        role,
        crc: agreed.crc,
        markers: agreed.markers,
        limits: agreed.limits,
        ready: agreed.ready,
        recognition: iwarp::Recognition::Never,
        receive_wait,
        copied: stream.copied_payload(),
        copied_below: COPIED_BELOW,
        confirmations,
        early: EARLY,
    }
}

/// Returns false if Writes are to be confirmed, and the peer serves no Reads that could confirm them.
const fn are_possible(confirmations: Confirmations, agreed: &Agreed) -> bool {
    match confirmations {
        Confirmations::Off | Confirmations::OnDemand { apart: true } => true,
        Confirmations::EachWrite | Confirmations::OnDemand { apart: false } => {
            agreed.limits.ord > 0
        }
    }
}
