//! Counts of the situations in the runs.

use std::collections::BTreeMap;
use std::fmt;

use super::Links;

/// Counts by name.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<String, u64>);

/// The situations that a few hundred seeds have to meet: requests of each kind, final statuses of each kind, faults.
const WHOLE: &[&str] = &[
    "posted Receive",
    "posted shared Receive",
    "shared Receive ended with ND_SUCCESS",
    "shared Receive ended with ND_CANCELED",
    "shared Receive ended with ND_BUFFER_OVERFLOW",
    "shared queue: full",
    "shared queue: more Sends than Receives",
    "shared queue: waited for",
    "Modify ended with ND_SUCCESS",
    "Modify ended with ND_INVALID_PARAMETER",
    "Modify ended with ND_BUFFER_OVERFLOW",
    "Modify ended with ND_INVALID_DEVICE_STATE",
    "Modify ended with ND_DEVICE_REMOVED",
    "Notify of a shared queue ended with ND_SUCCESS",
    "Notify of a shared queue ended with ND_CANCELED",
    "Notify of a shared queue ended with ND_INTERNAL_ERROR",
    "Notify of a shared queue ended with ND_DEVICE_REMOVED",
    "fault: shared queue broken",
    "fault: shared queue released",
    "posted Send",
    "posted SendInline",
    "posted Write",
    "posted WriteInline",
    "posted Read",
    "posted FetchAdd",
    "posted CompareSwap",
    "posted Immediate",
    "posted Bind",
    "posted Invalidate",
    "Receive ended with ND_SUCCESS",
    "Receive ended with ND_CANCELED",
    "Receive ended with ND_BUFFER_OVERFLOW",
    "Send ended with ND_SUCCESS",
    "Send ended with ND_CANCELED",
    "Write ended with ND_SUCCESS",
    "Write ended with ND_CANCELED",
    "Read ended with ND_SUCCESS",
    "Read ended with ND_CANCELED",
    "Read ended with ND_ACCESS_VIOLATION",
    "Bind ended with ND_SUCCESS",
    "Bind ended with ND_CANCELED",
    "Invalidate ended with ND_SUCCESS",
    "Invalidate ended with ND_CANCELED",
    "Atomic ended with ND_SUCCESS",
    "Atomic ended with ND_CANCELED",
    "SendImmediate ended with ND_SUCCESS",
    "SendImmediate ended with ND_CANCELED",
    "Connect ended with ND_SUCCESS",
    "Connect ended with ND_CONNECTION_REFUSED",
    "Connect ended with ND_IO_TIMEOUT",
    "Connect ended with ND_CANCELED",
    "Connect ended with ND_DEVICE_REMOVED",
    "CompleteConnect ended with ND_SUCCESS",
    "Accept ended with ND_SUCCESS",
    "Accept ended with ND_CONNECTION_ABORTED",
    "GetConnectionRequest ended with ND_SUCCESS",
    "GetConnectionRequest ended with ND_CANCELED",
    "NotifyDisconnect ended with ND_SUCCESS",
    "NotifyDisconnect ended with ND_CANCELED",
    "Disconnect ended with ND_SUCCESS",
    "Disconnect ended with ND_CANCELED",
    "Notify ended with ND_SUCCESS",
    "Notify ended with ND_CANCELED",
    "Notify ended with ND_DEVICE_REMOVED",
    "fault: device removed",
    "fault: completion queue broken",
    "fault: call failed",
    "fault: stall",
    "fault: reset",
    "fault: half-close",
    "fault: refusal",
    "fault: silence",
    "fault: stale window",
    "fault: flush",
    "fault: queue pair released",
    "fault: connector released",
    "fault: cancel",
    "fault: reject",
];

/// Situations that only streams meet. Over UDP the messages of these runs are one FPDU each, so that no Receive is taken and not filled.
const OF_STREAMS: &[&str] = &[
    "shared Receive ended with ND_CANCELED",
    "fault: stall",
    "fault: reset",
    "fault: half-close",
    "fault: refusal",
    "fault: silence",
    // A few in 1,000 seeds over UDP.
    "Read ended with ND_ACCESS_VIOLATION",
];

/// Situations that runs over UDP have to meet in addition to the [others](WHOLE).
const OF_DATAGRAMS: &[&str] = &[
    "fault: loss",
    "fault: duplication",
    "fault: reordering",
    "fault: corruption",
    "fault: cut",
    "fault: rebinding",
    "fault: datagram to a former address",
];

impl Coverage {
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

    /// # Panics
    /// If a situation was never met.
    pub(crate) fn assert_whole(&self, links: Links) {
        let (others, own) = match links {
            Links::Streams => (OF_DATAGRAMS, &[][..]),
            Links::Udp => (OF_STREAMS, OF_DATAGRAMS),
        };
        let whole = WHOLE.iter().filter(|what| !others.contains(what));
        let whole = whole.chain(own);
        let missing = whole.filter(|what| !self.0.contains_key(**what));
        let missing: Vec<_> = missing.collect();
        assert!(missing.is_empty(), "never met: {missing:#?}");
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>9}  {what}")?;
        }
        Ok(())
    }
}
