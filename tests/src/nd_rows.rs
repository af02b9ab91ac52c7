//! The rows of NetworkDirect's catalogue, which `crates/netdirect-conform/rows` has as data, and the page of the book that is
//! made from them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The groups of rows in the order of the catalogue, with what each is about.
pub const GROUPS: [(&str, &str); 18] = [
    ("GEN", "All objects"),
    ("DLL", "The library of a provider"),
    ("PROV", "Provider"),
    ("OVL", "Overlapped requests"),
    ("ADPT", "Adapter"),
    ("INFO", "What an adapter tells of itself"),
    ("CQ", "Completion queue"),
    ("RES", "Results"),
    ("MR", "Memory region"),
    ("MW", "Memory window"),
    ("SRQ", "Shared receive queue"),
    ("QP", "Queue pair"),
    ("SGE", "Scatter/gather entries"),
    ("CONN", "Connector"),
    ("LSTN", "Listener"),
    ("IW", "iWARP"),
    ("TST", "What tests and clients expect"),
    ("AMB", "Open questions and their answers"),
];

/// The line of the page behind which everything is made from the data.
pub const MARK: &str = "<!-- generated from here on -->\n\n";

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name: `CONN-106`.
    pub id: String,
    /// `API`, `ASY`, `SEM` and so on, as the README of the data explains.
    pub kind: String,
    /// The status that the row is about.
    pub status: Option<String>,
    /// What is asked for.
    pub text: String,
    /// What softnd does where the row leaves a choice.
    pub softnd: Option<String>,
    /// Why no program can prove the row.
    pub unproven: Option<Unproven>,
    /// The reason for that, in a sentence.
    pub because: Option<String>,
}

/// Why no program that uses the traits can prove a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unproven {
    /// The row belongs to COM's border.
    Com,
    /// The row binds the client.
    Caller,
    /// The row is about the inside of a provider or a device.
    Inside,
    /// The row permits something and asks for nothing.
    Free,
    /// Only the wire, or a peer that is no ND2 provider, shows the row.
    Wire,
}

impl Unproven {
    /// In a word or two, for the page.
    fn words(self) -> &'static str {
        match self {
            Self::Com => "COM's border",
            Self::Caller => "binds the client",
            Self::Inside => "inside the provider",
            Self::Free => "asks for nothing",
            Self::Wire => "on the wire",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

/// The rows of one group, in the order of the file.
///
/// # Panics
/// When the file is missing or is not what the README beside it says.
pub fn group(root: &Path, name: &str) -> Vec<Row> {
    let path = root.join(format!("crates/netdirect-conform/rows/{name}.toml"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: File =
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.row
}

/// Makes the part of `docs/nd-conformance.md` behind the mark.
///
/// # Panics
/// When the data is not what its README says.
pub fn page(root: &Path) -> String {
    let mut out = String::new();
    for (name, title) in GROUPS {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "## {title} ({name})\n\n| row | kind | what is asked for | why no program can prove it |\n|---|---|---|---|\n"
        );
        for row in group(root, name) {
            let _ = write!(out, "| {} | {} | {}", row.id, row.kind, row.text);
            if let Some(softnd) = &row.softnd {
                let _ = write!(out, " *softnd:* {softnd}");
            }
            out.push_str(" |");
            if let Some(why) = row.unproven {
                let because = row.because.as_deref().unwrap_or_default();
                let _ = write!(out, " {}: {because}", why.words());
            }
            out.push_str(" |\n");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
