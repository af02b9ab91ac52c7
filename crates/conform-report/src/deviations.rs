//! Known deviations of a peer: data, with reasons and sources, so that a run shows new ones.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::about::About;

/// Known deviations of one peer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    /// The peer, in words.
    #[serde(default)]
    pub peer: String,
    /// What it does.
    #[serde(default)]
    pub deviation: Vec<Deviation>,
    /// The checks that its own races may end in another way.
    #[serde(default)]
    pub race: Vec<Race>,
}

/// A check that passes, or fails only by a race inside of the peer. A failure counts as any other in a run. Who runs the suite may
/// make the check again, and judge the peer by that.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    /// The name of the check.
    pub check: String,
    /// The peer's behaviour when the race goes the wrong way.
    pub reason: String,
    /// How that is known.
    pub source: String,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Deviation {
    /// The check that fails, or the row all of whose checks may.
    pub check: String,
    /// What the peer does.
    pub reason: String,
    /// How that is known.
    pub source: String,
    /// Why it does not show each time: the check may as well pass.
    pub intermittent: Option<String>,
    /// The peer does not survive the check, which is left out unless it is named in full.
    #[serde(default)]
    pub fatal: bool,
    /// When it shows: conditions of the run and their values, such as `crc = "on"`.
    #[serde(flatten)]
    pub when: BTreeMap<String, toml::Value>,
}

/// The subjects of a suite's deviations.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The checks that there are.
    pub checks: &'a [About],
    /// The conditions that there are, each with the values it can have.
    pub conditions: &'a [(&'a str, &'a [&'a str])],
}

impl Deviations {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// What is wrong with it: syntax, unknown keys, checks that do not exist.
    pub fn parse(text: &str, known: Known<'_>) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for deviation in &read.deviation {
            let name = &deviation.check;
            if !known.checks.iter().any(|check| deviation.is_about(check)) {
                return Err(format!("there is no check or row '{name}'"));
            }
            let unexplained = deviation.intermittent.as_deref() == Some("");
            if deviation.reason.is_empty() || deviation.source.is_empty() || unexplained {
                return Err(format!("'{name}' lacks its reason or its source"));
            }
            for (key, value) in &deviation.when {
                let Some((_, values)) = known.conditions.iter().find(|(name, _)| name == key)
                else {
                    return Err(format!("'{name}' has the unknown key '{key}'"));
                };
                let value = value.as_str().unwrap_or("a value that is no text");
                if !values.contains(&value) {
                    let values = values.join("' or '");
                    return Err(format!("'{name}': {key} is '{values}', not {value}"));
                }
            }
        }
        for Race {
            check,
            reason,
            source,
        } in &read.race
        {
            if !known.checks.iter().any(|known| known.name == check) {
                return Err(format!("there is no check '{check}'"));
            }
            if reason.is_empty() || source.is_empty() {
                return Err(format!("'{check}' lacks its reason or its source"));
            }
        }
        Ok(read)
    }

    /// Returns the known deviation of a check, in a run under these conditions.
    pub fn about(&self, check: &About, conditions: &[(&str, &str)]) -> Option<&Deviation> {
        self.deviation.iter().find(|deviation| {
            deviation.is_about(check)
                && deviation.when.iter().all(|(key, value)| {
                    let holds = |(name, actual): &(&str, &str)| {
                        name == key && value.as_str() == Some(actual)
                    };
                    conditions.iter().any(holds)
                })
        })
    }
}

impl Deviation {
    /// Why the check is known to fail, and how that is known.
    pub fn words(&self) -> String {
        format!("{} ({})", self.reason, self.source)
    }

    fn is_about(&self, check: &About) -> bool {
        check.name == self.check || check.row() == self.check
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::about::Level;

    const CHECK: About = About {
        name: "MPA-021.garbage",
        also: &[],
        section: "",
        level: Level::Must,
        title: "",
    };
    const KNOWN: Known<'_> = Known {
        checks: &[CHECK],
        conditions: &[("crc", &["on", "off"])],
    };

    fn one(check: &str, reason: &str) -> String {
        format!(
            "peer = \"x\"\n[[deviation]]\ncheck = \"{check}\"\nreason = \"{reason}\"\nsource = \"y\"\n"
        )
    }

    fn race(check: &str, reason: &str) -> String {
        format!("[[race]]\ncheck = \"{check}\"\nreason = \"{reason}\"\nsource = \"y\"\n")
    }

    #[test]
    fn mistakes_are_named() {
        assert!(Deviations::parse(&one("MPA-021.garbage", "it"), KNOWN).is_ok());
        assert!(Deviations::parse(&race("MPA-021.garbage", "it"), KNOWN).is_ok());
        for (text, hint) in [
            (one("MPA-999", "it"), "MPA-999"),
            (one("MPA-021", ""), "reason"),
            (one("MPA-021", "it") + "intermittent = \"\"\n", "reason"),
            (one("MPA-021", "it") + "crc = \"maybe\"\n", "maybe"),
            (one("MPA-021", "it") + "foo = 1\n", "foo"),
            ("foo = 1\n".to_owned(), "foo"),
            ("[[deviation]]\nfoo = 1\n".to_owned(), "check"),
            // A row is not enough: the check is made again by its name.
            (race("MPA-021", "it"), "MPA-021"),
            (race("MPA-021.garbage", ""), "reason"),
            (race("MPA-021.garbage", "it") + "foo = 1\n", "foo"),
        ] {
            let error = Deviations::parse(&text, KNOWN).expect_err(&text);
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn a_deviation_may_depend_on_a_condition() {
        let text = one("MPA-021", "it") + "crc = 'on'\n";
        let read = Deviations::parse(&text, KNOWN).expect("well-formed");
        assert!(read.about(&CHECK, &[("crc", "on")]).is_some());
        assert!(read.about(&CHECK, &[("crc", "off")]).is_none());
        assert!(read.about(&CHECK, &[]).is_none());
    }
}
