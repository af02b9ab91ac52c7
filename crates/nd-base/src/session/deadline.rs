//! How long a command waits.

use std::time::{Duration, Instant};

use netdirect::{Overlapped, Started, Status};

use crate::errors::{Failure, Result};
use crate::units;

/// A time by which something has to be done, and the whole time limit.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    limit: Duration,
    at: Instant,
}

impl Deadline {
    /// The moment that is this long from now.
    pub fn after(limit: Duration) -> Self {
        Self {
            limit,
            at: Instant::now() + limit,
        }
    }

    /// Returns the time that is left.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// The time limit that the deadline was made from.
    pub fn limit(&self) -> Duration {
        self.limit
    }
}

/// Waits for an overlapped request to end by the deadline.
pub(super) fn settle(
    started: netdirect::Result<Started>,
    overlapped: &Overlapped,
    deadline: Deadline,
    doing: &str,
) -> Result<Status> {
    match started.map_err(|error| Failure::nd(doing, &error))? {
        Started::Done => Ok(Status::SUCCESS),
        Started::Pending => overlapped
            .wait_timeout(deadline.left())
            .ok_or_else(|| silence(doing, deadline.limit())),
    }
}

/// The error for a peer that was silent for the whole time limit.
pub fn silence(doing: &str, limit: Duration) -> Failure {
    Failure::peer(
        format!(
            "cannot {doing}: nothing has moved for {}",
            units::time(limit)
        ),
        "check that the other side is alive and an iWARP peer, or allow more with --timeout",
    )
}
