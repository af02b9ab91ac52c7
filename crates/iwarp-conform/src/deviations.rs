//! The deviations that come with the suite, and the conditions under which a deviation may show.

use std::ops::Deref;

use conform_report::{About, Deviation, Known};

use crate::check::Check;

/// The files that come with the suite, by name.
const SHIPPED: &[(&str, &str)] = &[("siw-6.1", include_str!("../deviations/siw-6.1.toml"))];

/// Known deviations of one peer. A deviation may have the condition `crc`, which is `on` or `off`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deviations(conform_report::Deviations);

impl Deref for Deviations {
    type Target = conform_report::Deviations;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Deviations {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// What is wrong with the text: syntax, unknown keys, checks that do not exist.
    pub fn parse(text: &str) -> Result<Self, String> {
        let checks: Vec<About> = crate::checks::all().map(Check::about).collect();
        let known = Known {
            checks: &checks,
            conditions: &[("crc", &["on", "off"])],
        };
        conform_report::Deviations::parse(text, known).map(Self)
    }

    /// The file that comes with the suite under this name.
    ///
    /// # Errors
    ///
    /// As [`Deviations::parse`].
    pub fn shipped(name: &str) -> Option<Result<Self, String>> {
        SHIPPED
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| Self::parse(text))
    }

    /// The names of [`Deviations::shipped`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Returns true if the peer is known to leave a first FPDU untouched at times (row MPA2-032).
    pub fn forgetful(&self) -> bool {
        self.deviation.iter().any(|deviation| {
            deviation.check.starts_with("MPA2-032") && deviation.intermittent.is_some()
        })
    }

    /// Returns the known deviation of a check, with CRCs in use or not.
    pub fn about(&self, check: &Check, crc: bool) -> Option<&Deviation> {
        let crc = if crc { "on" } else { "off" };
        self.0.about(&check.about(), &[("crc", crc)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_can_be_read() {
        for name in Deviations::names() {
            let read = Deviations::shipped(name).expect(name);
            assert!(!read.expect(name).deviation.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_deviation_may_depend_on_crcs() {
        let text = "peer = 'x'\n[[deviation]]\ncheck = 'MPA-060'\nreason = 'it'\nsource = 'y'\ncrc = 'on'\n";
        let read = Deviations::parse(text).expect(text);
        let check = crate::checks::all()
            .find(|check| check.row() == "MPA-060")
            .expect("a check");
        assert!(read.about(check, true).is_some());
        assert!(read.about(check, false).is_none());
        assert!(Deviations::parse(&text.replace("'on'", "'maybe'")).is_err());
    }
}
