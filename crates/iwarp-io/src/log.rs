//! Limits the log lines that a peer, or a shortage, can provoke again and again: one line per cause and minute, with the number of lines
//! left out.
//!
//! A cause is a place in the code that uses [`limited!`]. Lines of level debug are not limited, because a user who asks for these lines
//! wants all of them. Lines that each need a call of the local client are not limited either.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

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

/// Writes a log line of the level named first, unless this place has written one within the last minute. The field
/// `left_out` of the next line is the number of lines that were not written.
#[macro_export]
macro_rules! limited {
    ($level:ident, $($line:tt)+) => {{
        static CAUSE: $crate::log::Cause = $crate::log::Cause::new();
        if let Some(left_out) = CAUSE.line(std::time::Instant::now()) {
            $crate::log::tracing::$level!(left_out, $($line)+);
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
