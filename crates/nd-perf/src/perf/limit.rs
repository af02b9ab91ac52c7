//! How long the other side may be silent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nd_base::errors::{Failure, Result};
use nd_base::units;

/// How long a client may be silent while other clients wait. An honest client is silent for less: it fills and checks its memory,
/// which takes a second for the largest rows.
const WITH_OTHERS: Duration = Duration::from_secs(3);

/// How often a server looks whether other clients wait.
const LOOK: Duration = Duration::from_millis(100);

/// How many clients wait while another one is served.
pub(super) type Others = &'static AtomicUsize;

/// The time in which nothing may arrive from the other side. At a server it is less while other clients wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceLimit {
    longest: Duration,
    others: Option<Others>,
}

impl From<Duration> for SilenceLimit {
    fn from(longest: Duration) -> Self {
        Self {
            longest,
            others: None,
        }
    }
}

impl SilenceLimit {
    /// A limit that ends sooner while other clients wait.
    pub(super) fn among(self, others: Option<Others>) -> Self {
        Self { others, ..self }
    }

    /// The limit while no other client waits.
    pub(super) fn longest(self) -> Duration {
        self.longest
    }

    /// The limit as it is now, for a wait that cannot look at the clients meanwhile.
    pub(super) fn now(self) -> Duration {
        if self.others_wait() {
            self.longest.min(WITH_OTHERS)
        } else {
            self.longest
        }
    }

    /// Returns how long to wait, out of the time that is left, before the limit is looked at again.
    pub(super) fn step(self, left: Duration) -> Duration {
        match self.others {
            Some(_) => left.min(LOOK),
            None => left,
        }
    }

    /// Fails if the other side has been silent for too long while other clients wait.
    pub(super) fn yields(self, silent_for: Duration) -> Result<()> {
        if silent_for < WITH_OTHERS || !self.others_wait() {
            return Ok(());
        }
        Err(Failure::new(
            format!(
                "this client was silent for {} while another one waited for its turn",
                units::time(WITH_OTHERS)
            ),
            "run again when the other test has ended",
        ))
    }

    fn others_wait(self) -> bool {
        self.others
            .is_some_and(|others| others.load(Ordering::Relaxed) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_be_silent_for_less_while_others_wait() {
        static OTHERS: AtomicUsize = AtomicUsize::new(0);
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        let limit = SilenceLimit::from(minute).among(Some(&OTHERS));
        assert_eq!(limit.now(), minute);
        assert!(limit.yields(minute).is_ok());
        OTHERS.store(1, Ordering::Relaxed);
        assert_eq!(limit.now(), WITH_OTHERS);
        assert!(limit.yields(WITH_OTHERS - second).is_ok());
        assert!(limit.yields(WITH_OTHERS).is_err());
        // A shorter limit of the server's own stays.
        assert_eq!(
            SilenceLimit::from(second).among(Some(&OTHERS)).now(),
            second
        );
        assert!(SilenceLimit::from(minute).yields(minute).is_ok());
    }
}
