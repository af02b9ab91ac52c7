//! The number of messages that fill a turn.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use nd_base::errors::Result;

/// The limit of messages for a turn without a limit.
pub(super) const UNLIMITED: u64 = u64::MAX >> 1;

/// The number of messages that fill a turn. The number follows the turns before, because the machine drifts.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    length: Duration,
    pub(super) count: u64,
    allowed: RangeInclusive<u64>,
}

impl Pace {
    /// Takes turns until one is about this long. The first has `first` messages, and each a number that is allowed.
    pub(super) fn find(
        length: Duration,
        first: u64,
        allowed: RangeInclusive<u64>,
        mut turn: impl FnMut(u64) -> Result<Duration>,
    ) -> Result<Self> {
        let mut pace = Self {
            length,
            count: first.clamp(*allowed.start(), *allowed.end()),
            allowed,
        };
        let deadline = Instant::now() + 8 * length;
        loop {
            let elapsed = turn(pace.count)?;
            let near = elapsed >= length / 2;
            pace.learn(elapsed);
            if near || pace.count == *pace.allowed.end() || Instant::now() > deadline {
                return Ok(pace);
            }
        }
    }

    /// Learns from the last turn of `count` messages how many the next one needs.
    pub(super) fn learn(&mut self, elapsed: Duration) {
        let factor = self.length.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let wanted = self.count as f64 * factor.clamp(0.25, 8.0);
        // The number is positive, and far below the range in which a float is exact.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = wanted as u64;
        self.count = wanted.clamp(*self.allowed.start(), *self.allowed.end());
    }
}
