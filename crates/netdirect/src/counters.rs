//! A snapshot of named counters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The counters of an adapter at one moment, from
/// [`AdapterExtensions::counters`](crate::AdapterExtensions::counters).
///
/// Names are in lower case. A dot separates a group from its members, as in `lenient.read_sink`. Two groups have the same
/// meaning for every provider:
///
/// | group | counts |
/// |---|---|
/// | `lenient` | things that the application or its peer did and that stricter adapters refuse |
/// | `faults` | faults that were [injected](crate::AdapterExtensions::inject) and have happened |
///
/// Each provider may have further groups. Counters never decrease. A counter that is 0 is listed too.
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
    /// A snapshot without counters.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a counter, or `None` if there is no counter of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The sum of a group: of the counter with this name and of all counters whose names begin with this name and a dot.
    pub fn total(&self, group: &str) -> u64 {
        let belongs = |name: &str| {
            let rest = name.strip_prefix(group);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let values = self.iter().filter(|(name, _)| belongs(name));
        values.map(|(_, value)| value).sum()
    }

    /// The growth of each counter since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = self.0.iter().map(|(name, value)| {
            let before = earlier.get(name).unwrap_or(0);
            (name.clone(), value.saturating_sub(before))
        });
        Self(grown.collect())
    }

    /// All counters, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<N: Into<Cow<'static, str>>> FromIterator<(N, u64)> for Counters {
    /// If a name occurs several times, the last value is kept.
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
