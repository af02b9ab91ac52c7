//! The description of a check.

/// The weight of a check's failure (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A failure is a failure.
    Must,
    /// A failure counts in a strict run only.
    Should,
}

impl Level {
    /// The word of RFC 2119.
    pub fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        }
    }
}

/// The subject of a check, in the words of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The row that the check is about, a dot, and what about it: `MPA-021.garbage`.
    pub name: &'static str,
    /// Further rows that the check shows.
    pub also: &'static [&'static str],
    /// The heading of the check's section.
    pub section: &'static str,
    /// The weight of a failure.
    pub level: Level,
    /// The rule in one line.
    pub title: &'static str,
}

impl About {
    /// The row in the name.
    pub fn row(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(row, _)| row)
    }

    /// All rows of the check.
    pub fn rows(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.row()).chain(self.also.iter().copied())
    }

    /// Returns true if `--only` with this text means the check: a family of rows (`MPA`), or the beginning of the check's name or of
    /// one of its rows (`MPA-02`).
    pub fn is_meant_by(&self, text: &str) -> bool {
        let family = |name: &str| name.split_once('-').is_some_and(|(head, _)| head == text);
        let means = |name: &str| {
            if text.contains('-') {
                name.starts_with(text)
            } else {
                family(name)
            }
        };
        means(self.name) || self.rows().any(means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_means_a_family_or_the_beginning_of_a_name() {
        let about = About {
            name: "MPA-021.garbage",
            also: &["SEC-010"],
            section: "start-up",
            level: Level::Must,
            title: "",
        };
        for text in [
            "MPA",
            "MPA-",
            "MPA-02",
            "MPA-021",
            "MPA-021.garbage",
            "SEC",
            "SEC-010",
        ] {
            assert!(about.is_meant_by(text), "{text}");
        }
        for text in [
            "",
            "MP",
            "MPA2",
            "MPA-022",
            "MPA-021.garbage.x",
            "garbage",
            "SEC-011",
        ] {
            assert!(!about.is_meant_by(text), "{text}");
        }
        assert_eq!(about.rows().collect::<Vec<_>>(), ["MPA-021", "SEC-010"]);
    }
}
