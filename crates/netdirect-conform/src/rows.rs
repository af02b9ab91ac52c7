//! The rows of the requirement catalogue: what ND2 asks of a provider.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::check::Check;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name: `CONN-106`.
    pub id: String,
    /// The kind of demand: API, ASY, SEM and so on; `rows/README.md` explains them.
    pub kind: String,
    /// The status that it is about, if it is about one.
    #[serde(default)]
    pub status: String,
    /// The demand.
    pub text: String,
    /// The choice of softnd where the row leaves one.
    #[serde(default)]
    pub softnd: String,
    /// Why no check can prove the row, in one word; empty if one can.
    #[serde(default)]
    pub unproven: String,
    /// The reason.
    #[serde(default)]
    pub because: String,
}

/// The reasons for which no check can prove a row: the word of [`Row::unproven`], and how reports and pages say it.
pub const UNPROVEN: [(&str, &str); 5] = [
    ("com", "around the library"),
    ("caller", "binds the client"),
    ("inside", "inside the provider"),
    ("free", "asks for nothing"),
    ("wire", "on the wire"),
];

impl Row {
    /// Returns the reason why no check can prove the row. `None` if checks prove it.
    pub fn why_unproven(&self) -> Option<String> {
        let (_, words) = UNPROVEN.iter().find(|(name, _)| *name == self.unproven)?;
        Some(format!("{words}: {}", self.because))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

/// The files, one for each family of rows.
const FILES: &[&str] = &[
    include_str!("../rows/DLL.toml"),
    include_str!("../rows/PROV.toml"),
    include_str!("../rows/ADPT.toml"),
    include_str!("../rows/INFO.toml"),
    include_str!("../rows/GEN.toml"),
    include_str!("../rows/OVL.toml"),
    include_str!("../rows/MR.toml"),
    include_str!("../rows/MW.toml"),
    include_str!("../rows/CQ.toml"),
    include_str!("../rows/QP.toml"),
    include_str!("../rows/SGE.toml"),
    include_str!("../rows/RES.toml"),
    include_str!("../rows/SRQ.toml"),
    include_str!("../rows/CONN.toml"),
    include_str!("../rows/LSTN.toml"),
    include_str!("../rows/IW.toml"),
    include_str!("../rows/TST.toml"),
    include_str!("../rows/AMB.toml"),
];

/// All rows, family by family.
///
/// # Panics
///
/// If the data of this crate is not well-formed, which a test of it finds.
pub fn all() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let files = FILES.iter().map(|text| {
            toml::from_str::<File>(text).unwrap_or_else(|error| panic!("rows: {error}"))
        });
        files.flat_map(|file| file.row).collect()
    })
}

/// The row of this name.
pub fn find(id: &str) -> Option<&'static Row> {
    all().iter().find(|row| row.id == id)
}

/// The names of those of the checks that prove a row.
pub fn checks_of(id: &str, checks: impl Iterator<Item = &'static Check>) -> Vec<&'static str> {
    checks
        .filter(|check| check.rows().any(|row| row == id))
        .map(|check| check.name)
        .collect()
}
