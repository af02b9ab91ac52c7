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
    /// Only where CRCs are in use, or only where they are not.
    pub crc: Option<Switch>,
    /// Why it does not show each time: the check may as well pass.
    pub intermittent: Option<String>,
    /// The peer does not survive the check, which is left out unless it is named in full.
    #[serde(default)]
    pub fatal: bool,
}

/// What is in use, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
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
            let unexplained = deviation.intermittent.as_deref() == Some("");
            if deviation.reason.is_empty() || deviation.source.is_empty() || unexplained {
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

    /// Whether the peer is known to leave a first FPDU untouched at times (row MPA2-032).
    pub fn forgetful(&self) -> bool {
        self.deviation.iter().any(|deviation| {
            deviation.check.starts_with("MPA2-032") && deviation.intermittent.is_some()
        })
    }

    /// What is known of a check, with CRCs in use or not.
    pub fn about(&self, check: &Check, crc: bool) -> Option<&Deviation> {
        let crc = if crc { Switch::On } else { Switch::Off };
        self.deviation.iter().find(|deviation| {
            deviation.is_about(check) && deviation.crc.is_none_or(|only| only == crc)
        })
    }
}

impl Deviation {
    /// Why the check is known to fail, and how that is known.
    pub fn words(&self) -> String {
        format!("{} ({})", self.reason, self.source)
    }

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
            (one("MPA-021", "it") + "intermittent = \"\"\n", "reason"),
            (one("MPA-021", "it") + "crc = \"maybe\"\n", "maybe"),
            ("[[deviation]]\nfoo = 1\n".to_owned(), "foo"),
        ] {
            let error = Deviations::parse(&text).expect_err(&text);
            assert!(error.contains(hint), "{error}");
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
    }
}
