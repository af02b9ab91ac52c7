//! The log: its targets, the span of a connection, and limited lines.
//!
//! [`limited!`] limits the log lines that a peer, or a shortage, can provoke again and again: one line per cause and minute, with the number of lines
//! left out.
//!
//! A cause is a place in the code that uses [`limited!`]. Lines of level debug are not limited, because a user who asks for these lines
//! wants all of them. Lines that each need a call of the local client are not limited either.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Empty, display};
use tracing::{Span, error_span};

/// The targets of all events of the driver and of the interfaces above it. Users name them in filters, so that they are no paths of modules,
/// which change when code moves. `docs/use/logs.md` lists the events of each target.
pub mod targets {
    /// Adapters and devices: addresses, network interfaces, limits of the process, removal.
    pub const ADAPTER: &str = "softnd::adapter";
    /// Captures.
    pub const CAPTURE: &str = "softnd::capture";
    /// The set-up of connections, on both sides.
    pub const CONNECT: &str = "softnd::connect";
    /// Connections in use, from their start to their end, and the span of each.
    pub const CONNECTION: &str = "softnd::connection";
    /// Faults that a plan asks for.
    pub const FAULTS: &str = "softnd::faults";
    /// What other adapters refuse.
    pub const LENIENCY: &str = "softnd::leniency";
    /// Threads, and the system's reports of readiness.
    pub const PROGRESS: &str = "softnd::progress";
    /// Completion queues and shared receive queues.
    pub const QUEUE: &str = "softnd::queue";
    /// QUIC and its UDP sockets.
    pub const UDP: &str = "softnd::udp";
    /// Events of level info about peers that connected and sent no Request. A program that wants a line for each of them looks for the fields
    /// `peer` and `failure`.
    pub const UNKNOWN_PEERS: &str = "softnd::unknown_peers";
}

/// The span of a connection with this peer, which begins when the transport connects or has accepted. Events about the connection name it as
/// their parent; no thread enters it. Without a subscriber that takes it this costs one comparison. `transport` is `None` while it is not
/// decided whether the connection is over shared memory.
///
/// Its level is that of errors, because the span has to be there for every event that a user's filter lets pass.
pub fn connection_span(transport: Option<&'static str>, peer: SocketAddr) -> Span {
    match transport {
        Some(transport) => error_span!(
            target: targets::CONNECTION, "connection",
            queue_pair = Empty, transport, local = Empty, %peer
        ),
        None => error_span!(
            target: targets::CONNECTION, "connection",
            queue_pair = Empty, transport = Empty, local = Empty, %peer
        ),
    }
}

/// Adds the name of the transport to the span of a connection that began before its transport was decided. To be called once, because text
/// shows each value that a field was given.
pub fn has_transport(span: &Span, transport: &'static str) {
    span.record("transport", transport);
}

/// The span of a connection that has no stream, for one event about it.
pub(crate) fn span_between(local: SocketAddr, peer: SocketAddr) -> Span {
    let span = connection_span(None, peer);
    has_local(&span, local);
    span
}

/// Adds the local address to the span of a connection.
pub fn has_local(span: &Span, local: SocketAddr) {
    span.record("local", display(local));
}

/// Adds the number of the queue pair to the span of a connection.
pub fn has_queue_pair(span: &Span, number: u32) {
    span.record("queue_pair", number);
}

/// The time after a line in which its cause writes no other line.
const QUIET: Duration = Duration::from_secs(60);

/// One cause of log lines.
pub struct Cause(Mutex<State>);

struct State {
    written: Option<Instant>,
    left_out: u64,
}

impl Cause {
    /// A cause that has written nothing yet.
    #[expect(clippy::new_without_default, reason = "made for statics alone")]
    pub const fn new() -> Self {
        Self(Mutex::new(State {
            written: None,
            left_out: 0,
        }))
    }

    /// Returns `Some` if a line may be written now, with the number of lines left out since the last one.
    pub fn line(&self, now: Instant) -> Option<Option<NonZeroU64>> {
        let mut state = self.0.lock();
        let recent = |written| now.saturating_duration_since(written) < QUIET;
        if state.written.is_some_and(recent) {
            state.left_out += 1;
            return None;
        }
        state.written = Some(now);
        Some(NonZeroU64::new(std::mem::take(&mut state.left_out)))
    }
}

/// Writes a log line of the level named first and of this target, unless this place has written one within the last minute. The field
/// `left_out` of the next line is the number of lines that were not written. The line is part of the span `parent`, if one is named.
#[macro_export]
macro_rules! limited {
    ($level:ident, target: $target:expr, parent: $parent:expr, $($line:tt)+) => {
        $crate::limited!(@ $level, (target: $target, parent: $parent,), $($line)+)
    };
    ($level:ident, target: $target:expr, $($line:tt)+) => {
        $crate::limited!(@ $level, (target: $target,), $($line)+)
    };
    (@ $level:ident, ($($place:tt)+), $($line:tt)+) => {{
        static CAUSE: $crate::log::Cause = $crate::log::Cause::new();
        if let Some(left_out) = CAUSE.line(std::time::Instant::now()) {
            $crate::log::tracing::$level!($($place)+ left_out, $($line)+);
        }
    }};
}

#[doc(hidden)]
pub use tracing;

pub use limited;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_has_one_line_a_minute_and_tells_how_many_were_left_out() {
        let (cause, start) = (Cause::new(), Instant::now());
        let at = |seconds| cause.line(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(None));
        assert_eq!((at(1), at(30), at(59)), (None, None, None));
        assert_eq!(at(60), Some(NonZeroU64::new(3)));
        assert_eq!(at(119), None);
        assert_eq!(at(500), Some(NonZeroU64::new(1)));
        assert_eq!(at(560), Some(None), "each is counted once");
    }

    #[test]
    fn causes_do_not_silence_each_other() {
        let (one, other, now) = (Cause::new(), Cause::new(), Instant::now());
        assert_eq!((one.line(now), other.line(now)), (Some(None), Some(None)));
    }
}
