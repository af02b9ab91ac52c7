//! Time limits of waits, in milliseconds.

#[cfg(unix)]
use std::time::{Duration, Instant};

/// `INFINITE`: a wait without a limit.
pub const INFINITE: u32 = u32::MAX;

/// Returns the end of a wait of this length that starts now.
#[cfg(unix)]
pub(super) fn deadline(milliseconds: u32) -> Option<Instant> {
    if milliseconds == INFINITE {
        return None;
    }
    Instant::now().checked_add(Duration::from_millis(milliseconds.into()))
}
