//! The options of a provider.

use std::time::Duration;

/// Time limits towards peers. `None` switches a limit off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The time that Accept waits, over iWARP, for a peer that has asked for a ready-to-receive message and does not send it. Accept then
    /// ends with [`IO_TIMEOUT`](netdirect::Status::IO_TIMEOUT) (IW-068). Default: 60 s. Over InfiniBand and RoCE the limit is the
    /// connection manager's, which no program can change.
    pub ready: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            ready: Some(Duration::from_secs(60)),
        }
    }
}

/// The options of a provider. The defaults suit every device.
///
/// ```
/// use std::time::Duration;
/// use netdirect_verbs::Options;
/// let options = Options::default().timeouts(|limits| limits.ready = Some(Duration::from_secs(5)));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub(crate) timeouts: Timeouts,
    pub(crate) registration_limit: Option<u64>,
}

impl Options {
    /// Changes the time limits towards peers. A limit above one year is cut to one year.
    #[must_use]
    pub fn timeouts(mut self, change: impl FnOnce(&mut Timeouts)) -> Self {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        change(&mut self.timeouts);
        let ready = &mut self.timeouts.ready;
        *ready = ready.map(|limit| limit.min(YEAR));
        self
    }

    /// Lowers MaxRegistrationSize to this number of octets, as on an adapter with a smaller limit (MR-011). Default: the device's limit, or
    /// 128 TiB if that is less. A higher value has no effect.
    #[must_use]
    pub fn registration_limit(mut self, octets: u64) -> Self {
        self.registration_limit = Some(octets);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_can_be_changed_and_switched_off_and_are_cut_to_a_year() {
        let ready = |change: fn(&mut Timeouts)| Options::default().timeouts(change).timeouts.ready;
        assert_eq!(ready(|_| {}), Some(Duration::from_secs(60)));
        assert_eq!(ready(|limits| limits.ready = None), None);
        let cut = ready(|limits| limits.ready = Some(Duration::MAX));
        assert_eq!(cut, Some(Duration::from_secs(365 * 24 * 60 * 60)));
    }
}
