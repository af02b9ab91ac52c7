//! Counts of the situations that runs have met.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<String, u64>);

/// The situations that the runs of [`ENOUGH`](crate::ENOUGH) seeds have to meet.
const WHOLE: &[&str] = &[
    "Atomic",
    "Writes before a request: placed",
    "accept: the peer has given up",
    "broken by the network",
    "completed",
    "completed with a late queue pair",
    "completion event",
    "connected over UDP",
    "cut: datagrams",
    "cut: silence",
    "cut: stalls",
    "destroyed: Accepting",
    "destroyed: AddrResolved",
    "destroyed: Answered",
    "destroyed: Connected",
    "destroyed: Connecting",
    "destroyed: Gone",
    "destroyed: Idle",
    "destroyed: Offered",
    "destroyed: Over",
    "destroyed: RouteResolved",
    "destroyed: listener",
    "destroyed: listener with requests that wait",
    "destroyed: queue pair of a connection",
    "destroyed: with an event that waits",
    "destroyed: with an event that was not acknowledged",
    "disconnected",
    "established",
    "established between devices of two kinds",
    "established without a queue pair",
    "failed: a Send with a number, and a peer that is not known",
    "failed: the peer had ended",
    "flushed",
    "flushed because a request failed",
    "last Receive of a shared queue",
    "migrated: identifier",
    "migrated: identifier with an event that waits",
    "migrated: listener with requests that wait",
    "migrated: to a channel of its own and back",
    "numbers: all given back",
    "private data: acceptance",
    "private data: longest",
    "private data: rejection",
    "private data: request",
    "process dropped",
    "process finished",
    "received",
    "received from a shared queue",
    "received from a shared queue: a Send with a number",
    "received: a Send with a number",
    "received: a Write with a number",
    "refused: a Send with a number",
    "refused: accept",
    "refused: bind",
    "refused: connect",
    "refused: create_queue_pair on another device",
    "refused: create_queue_pair twice",
    "refused: destroy of a channel in use",
    "refused: destroy of a completion queue in use",
    "refused: destroy of a protection domain in use",
    "refused: destroy of a shared receive queue in use",
    "refused: destroy_queue_pair",
    "refused: disconnect",
    "refused: establish",
    "refused: listen",
    "refused: migrate with an event that was not acknowledged",
    "refused: post_receive to the queue pair of a shared queue",
    "refused: post_receive to a full queue",
    "refused: post_receive to a full shared queue",
    "refused: post_send before RTS",
    "refused: post_send to a full queue",
    "refused: post_send with too many SGEs",
    "refused: reject",
    "refused: resolve_addr",
    "refused: resolve_route",
    "refused: set_ack_timeout",
    "refused: set_one_family",
    "rejected after the acceptance",
    "rejected: by a full backlog",
    "rejected: by the program",
    "rejected: no listener",
    "second device",
    "set_ack_timeout",
    "shared completion queue",
    "time limit: connection",
    "time limit: ready-to-receive message",
    "time limit: Reply",
    "timewait",
    "unreachable address",
];

impl Seen {
    pub(crate) fn met(&mut self, what: impl Into<String>) {
        self.met_often(what, 1);
    }

    pub(crate) fn met_often(&mut self, what: impl Into<String>, count: u64) {
        if count > 0 {
            *self.0.entry(what.into()).or_default() += count;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            self.met_often(what.clone(), *count);
        }
    }

    /// Checks that the runs have met all situations.
    pub(crate) fn assert_whole(&self) {
        let missing = WHOLE.iter().filter(|what| !self.0.contains_key(**what));
        let missing: Vec<_> = missing.collect();
        assert!(missing.is_empty(), "never met: {missing:#?}");
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>9}  {what}")?;
        }
        Ok(())
    }
}
