//! Known deviations of providers, and the conditions under which they show.

use conform_report::{About, Deviations, Known};

use crate::check::Check;
use crate::checks;
use crate::need::Profile;

/// The files that come with the suite, by name.
const SHIPPED: &[(&str, &str)] = &[
    ("siw-6.1", include_str!("../deviations/siw-6.1.toml")),
    (
        "softnd-verbs",
        include_str!("../deviations/softnd-verbs.toml"),
    ),
];

/// Reads known deviations of a provider. A deviation may have the condition `profile`.
///
/// # Errors
///
/// What is wrong with the text: syntax, unknown keys, checks that do not exist.
pub fn parse(text: &str) -> Result<Deviations, String> {
    parse_for(text, checks::all())
}

/// As [`parse`], for a run of these checks, which need not be those of the suite.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_for(
    text: &str,
    checks: impl Iterator<Item = &'static Check>,
) -> Result<Deviations, String> {
    let checks: Vec<About> = checks.map(Check::about).collect();
    let profiles = [Profile::Default.name(), Profile::Strict.name()];
    let known = Known {
        checks: &checks,
        conditions: &[("profile", &profiles)],
    };
    Deviations::parse(text, known)
}

/// The file that comes with the suite under this name.
///
/// # Errors
///
/// As [`parse`].
pub fn shipped(name: &str) -> Option<Result<Deviations, String>> {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    Some(parse(text))
}

/// The names of [`shipped`] files.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_can_be_read_and_has_a_reason_and_a_source_for_each_entry() {
        for name in names() {
            let read = shipped(name).expect(name).expect(name);
            assert!(!read.peer.is_empty(), "{name}");
            assert!(read.deviation.len() <= 40 && read.race.len() <= 4, "{name}");
            for deviation in &read.deviation {
                assert!(!deviation.reason.is_empty(), "{deviation:?}");
                assert!(!deviation.source.is_empty(), "{deviation:?}");
            }
        }
        assert!(shipped("none").is_none());
    }
}
