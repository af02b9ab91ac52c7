//! Named counters, as a snapshot.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// What an adapter has counted so far, by name; from
/// [`AdapterExtensions::counters`](crate::AdapterExtensions::counters).
///
/// Names are lower case, with dots between a group and what is in it: `lenient.read_sink`. Groups that mean the same for every
/// provider:
///
/// | group | counts |
/// |---|---|
/// | `lenient` | acts of this application, or of its peers, that narrower adapters would not put up with |
/// | `faults` | faults that were [injected](crate::AdapterExtensions::inject) and have happened |
///
/// All others are the provider's own. Counters only grow, and one that is 0 is present all the same.
///
/// ```
/// use netdirect::Counters;
///
/// let before = Counters::from_iter([("lenient.read_sink", 1)]);
/// let after = Counters::from_iter([("lenient.read_sink", 3), ("lenient.receive_wait", 0)]);
/// assert_eq!(after.get("lenient.read_sink"), Some(3));
/// assert_eq!(after.total("lenient"), 3); // a test run can demand 0
/// assert_eq!(after.since(&before).get("lenient.read_sink"), Some(2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<Cow<'static, str>, u64>);

impl Counters {
    /// Without any counter.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a counter; `None` if the provider has no such counter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The sum of a group: of the counter with this name, and of all whose names begin with it and a dot.
    pub fn total(&self, group: &str) -> u64 {
        let belongs = |name: &str| {
            let rest = name.strip_prefix(group);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let values = self.iter().filter(|(name, _)| belongs(name));
        values.map(|(_, value)| value).sum()
    }

    /// What was counted since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = self.0.iter().map(|(name, value)| {
            let before = earlier.get(name).unwrap_or(0);
            (name.clone(), value.saturating_sub(before))
        });
        Self(grown.collect())
    }

    /// All counters, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<N: Into<Cow<'static, str>>> FromIterator<(N, u64)> for Counters {
    /// Of equal names the last one counts.
    fn from_iter<I: IntoIterator<Item = (N, u64)>>(counters: I) -> Self {
        let counters = counters.into_iter();
        Self(counters.map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<N: Into<Cow<'static, str>>> Extend<(N, u64)> for Counters {
    fn extend<I: IntoIterator<Item = (N, u64)>>(&mut self, counters: I) {
        self.0.extend(
            counters
                .into_iter()
                .map(|(name, value)| (name.into(), value)),
        );
    }
}

impl fmt::Display for Counters {
    /// One counter a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}
