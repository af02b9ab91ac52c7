//! NetworkDirect's rows and their checks as pages of the book, made from the rows and checks of `netdirect-conform`.

use std::fmt::Write;

use netdirect_conform::rows::{self, Row};
use netdirect_conform::{Check, report};

/// The families of rows in the order of the catalogue, with what each is about.
pub const FAMILIES: [(&str, &str); 18] = [
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

/// All checks of NetworkDirect: those of the traits, and those of COM's border.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    netdirect_conform::checks().chain(netdirect_com_conform::all())
}

/// The rows of one family, in the order of their file.
pub fn family(name: &str) -> impl Iterator<Item = &'static Row> {
    let all = rows::all().iter();
    all.filter(move |row| is_of(&row.id, name))
}

/// The checks that prove a row, or why none can.
fn proof(row: &Row) -> String {
    if let Some(why) = row.why_unproven() {
        return why;
    }
    let checks = rows::checks_of(&row.id, checks()).into_iter();
    let checks: Vec<_> = checks.map(|name| format!("`{name}`")).collect();
    checks.join(", ")
}

/// Returns true if a row or a check is of a family.
fn is_of(name: &str, family: &str) -> bool {
    name.split('-').next() == Some(family)
}

/// The checks that are named after rows of one family.
pub fn checks_of(family: &str) -> impl Iterator<Item = &'static Check> {
    checks().filter(move |check| is_of(check.name, family))
}

/// The rows and the checks of one family, as its page has them.
pub fn page_of(name: &str) -> String {
    let mut out = String::from(
        "## Rows\n\n| row | kind | what is asked for | checks, or why there are none |\n|---|---|---|---|\n",
    );
    for row in family(name) {
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "| {} | {} | {}", row.id, row.kind, row.text);
        if !row.softnd.is_empty() {
            let _ = write!(out, " *softnd:* {}", row.softnd);
        }
        let _ = writeln!(out, " | {} |", proof(row));
    }
    if checks_of(name).next().is_some() {
        out.push('\n');
        out.push_str(&report::page(checks_of(name)));
    }
    out
}

/// The families with their pages in `folder`, and the numbers of rows and of checks.
pub fn overview(folder: &str) -> String {
    let all = rows::all();
    let unproven = all.iter().filter(|row| !row.unproven.is_empty()).count();
    let mut out = format!(
        "Of {} rows, checks prove {}, and no check can prove {unproven}.\n\n| family | about | rows | checks |\n|---|---|--:|--:|\n",
        all.len(),
        all.len() - unproven
    );
    for (name, title) in FAMILIES {
        let (rows, checks) = (family(name).count(), checks_of(name).count());
        let page = name.to_lowercase();
        let _ = writeln!(
            out,
            "| [{name}]({folder}/{page}.md) | {title} | {rows} | {checks} |"
        );
    }
    out
}
