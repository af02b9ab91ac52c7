//! The committed numbers of instructions, and how a run compares with them.
//!
//! The file uses the part of TOML with one `key = value` per line: texts about the build, then the table `[instructions]`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The conditions that numbers of instructions depend on besides the code itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// The output of `rustc --version`.
    pub rustc: String,
    /// Architecture and system.
    pub target: String,
    /// The CRC routine in use. Valgrind does not know all instructions of the processor.
    pub crc: String,
}

/// Instructions per operation by name, and the build for which they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// The build that was measured.
    pub build: Build,
    /// Instructions per operation, by the name of the path.
    pub instructions: BTreeMap<String, u64>,
}

/// The comparison of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    Same,
    /// Fewer instructions than the tolerance explains, which is a reason for a new baseline.
    Better,
    /// More instructions than the tolerance explains.
    Worse,
    /// Not in the baseline.
    New,
}

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// The first line that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut baseline = Self::default();
        let mut inside = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let bad = || format!("line {} is not understood: {line}", number + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with('[') {
                inside = line == "[instructions]";
                if !inside {
                    return Err(bad());
                }
                continue;
            }
            let (key, value) = line.split_once(" = ").ok_or_else(bad)?;
            if inside {
                let number = value.replace('_', "").parse().map_err(|_| bad())?;
                let name = unquoted(key).ok_or_else(bad)?;
                baseline.instructions.insert(name.to_owned(), number);
                continue;
            }
            let build = &mut baseline.build;
            let field = match key {
                "rustc" => &mut build.rustc,
                "target" => &mut build.target,
                "crc" => &mut build.crc,
                _ => return Err(bad()),
            };
            unquoted(value).ok_or_else(bad)?.clone_into(field);
        }
        Ok(baseline)
    }

    /// The file that [`Baseline::parse`] reads.
    #[must_use]
    pub fn print(&self) -> String {
        let Build { rustc, target, crc } = &self.build;
        let mut text = String::from(
            "# Instructions per operation, written by `cargo bench -p softnd-benches --bench instructions -- --bless`.\n\
             # They hold for one compiler and one CRC routine; with others a run shows the difference and judges nothing.\n\n",
        );
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "rustc = \"{rustc}\"\ntarget = \"{target}\"\ncrc = \"{crc}\"\n\n[instructions]\n"
        );
        for (name, count) in &self.instructions {
            let _ = writeln!(text, "\"{name}\" = {count}");
        }
        text
    }

    /// Compares `count` with the file's number for `name`. `tolerance` is in per cent. A difference of a few instructions never counts.
    #[must_use]
    pub fn judge(&self, name: &str, count: u64, tolerance: u64) -> Verdict {
        let Some(&before) = self.instructions.get(name) else {
            return Verdict::New;
        };
        let room = before.saturating_mul(tolerance) / 100 + 4;
        if count.abs_diff(before) <= room {
            Verdict::Same
        } else if count < before {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }
}

fn unquoted(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains(['"', '\\'])).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline() -> Baseline {
        Baseline {
            build: Build {
                rustc: "rustc 1.95.0".to_owned(),
                target: "x86_64-linux".to_owned(),
                crc: "x86_64-sse".to_owned(),
            },
            instructions: [("a, b".to_owned(), 1000), ("c".to_owned(), 7)].into(),
        }
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let text = baseline().print();
        assert!(text.contains("\"a, b\" = 1000"), "{text}");
        assert_eq!(Baseline::parse(&text), Ok(baseline()));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for bad in ["[other]", "rustc", "rustc = 1", "colour = \"red\""] {
            assert!(Baseline::parse(bad).unwrap_err().contains(bad), "{bad}");
        }
        let bad = Baseline::parse("[instructions]\n\"a\" = many").unwrap_err();
        assert!(bad.starts_with("line 2"), "{bad}");
    }

    #[test]
    fn the_committed_file_is_understood() {
        Baseline::parse(include_str!("../instructions.toml")).unwrap();
    }

    #[test]
    fn only_what_leaves_the_tolerance_is_a_difference() {
        let judge = |name, count| baseline().judge(name, count, 2);
        assert_eq!(judge("a, b", 1024), Verdict::Same);
        assert_eq!(judge("a, b", 976), Verdict::Same);
        assert_eq!(judge("a, b", 1025), Verdict::Worse);
        assert_eq!(judge("a, b", 975), Verdict::Better);
        assert_eq!(judge("c", 11), Verdict::Same);
        assert_eq!(judge("d", 1), Verdict::New);
    }
}
