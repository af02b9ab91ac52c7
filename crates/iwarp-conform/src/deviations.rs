//! What is known of a peer: data, with reasons and sources, so that a run shows what is new.

use serde::Deserialize;

use crate::check::Check;

/// The files that come with the suite, by name.
const SHIPPED: &[(&str, &str)] = &[("siw-6.1", include_str!("../deviations/siw-6.1.toml"))];

/// Known deviations of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    /// The peer, in words.
    #[serde(default)]
    pub peer: String,
    /// What it does.
    #[serde(default)]
    pub deviation: Vec<Deviation>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The check that fails, or the row all of whose checks may.
    pub check: String,
    /// What the peer does.
    pub reason: String,
    /// How that is known.
    pub source: String,
}

impl Deviations {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// What is wrong with it: syntax, unknown keys, checks that do not exist.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for deviation in &read.deviation {
            let name = &deviation.check;
            if !crate::checks::all().any(|check| deviation.is_about(check)) {
                return Err(format!("there is no check or row '{name}'"));
            }
            if deviation.reason.is_empty() || deviation.source.is_empty() {
                return Err(format!("'{name}' lacks its reason or its source"));
            }
        }
        Ok(read)
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

    /// Why a check is known to fail.
    pub fn about(&self, check: &Check) -> Option<String> {
        self.deviation
            .iter()
            .find(|deviation| deviation.is_about(check))
            .map(|deviation| format!("{} ({})", deviation.reason, deviation.source))
    }
}

impl Deviation {
    fn is_about(&self, check: &Check) -> bool {
        check.name == self.check || check.row() == self.check
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
    fn mistakes_are_named() {
        let one = |check: &str, reason: &str| {
            format!(
                "peer = \"x\"\n[[deviation]]\ncheck = \"{check}\"\nreason = \"{reason}\"\nsource = \"y\"\n"
            )
        };
        assert!(Deviations::parse(&one("MPA-021.garbage", "it")).is_ok());
        for (text, hint) in [
            (one("MPA-999", "it"), "MPA-999"),
            (one("MPA-021", ""), "reason"),
            ("[[deviation]]\nfoo = 1\n".to_owned(), "foo"),
        ] {
            let error = Deviations::parse(&text).expect_err(&text);
            assert!(error.contains(hint), "{error}");
        }
    }
}
