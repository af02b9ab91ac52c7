//! The pages of the book that are made from the catalogues of rows and from the checks: `docs/check/nd-provider.md` and `iwarp-stack.md`, and
//! below both a page for each family of rows.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use iwarp_conform::{checks, report, rows};

use crate::nd_rows;

/// The line of a page behind which everything is made from the data.
const MARK: &str = "<!-- generated from here on -->\n\n";

/// The families of the wire's rows, with what each is about.
pub const WIRE_FAMILIES: [(&str, &str); 7] = [
    ("MPA", "Start-up, FPDUs, CRCs, markers (RFC 5044)"),
    ("MPA2", "Enhanced connection set-up (RFC 6581)"),
    ("DDP", "Segments and placement (RFC 5041)"),
    ("RDMAP", "Operations and Terminates (RFC 5040)"),
    ("RDMAPX", "Atomics and Immediate Data (RFC 7306)"),
    ("SEC", "Security and robustness (RFC 5042)"),
    ("APP", "Applicability (RFC 5045)"),
];

/// A page below `docs/check`.
#[derive(Debug)]
pub struct Page {
    /// Its path from there.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// All pages, as they have to be. The parts that people write are those of the pages below `root`.
///
/// # Panics
/// When such a page cannot be read, or has no mark.
pub fn pages(root: &Path) -> Vec<Page> {
    let mut pages = vec![
        overview(root, "nd-provider", &nd_rows::overview("nd-provider")),
        overview(root, "iwarp-stack", &wire_overview("iwarp-stack")),
    ];
    for (name, title) in nd_rows::FAMILIES {
        let about = "NetworkDirect asks for these rows, and the checks of `nd conform` prove them.\n\
                     [Checking a NetworkDirect provider](../nd-provider.md) says how, and what the words mean.";
        let text = nd_rows::page_of(name);
        pages.push(family("nd-provider", name, title, about, &text));
    }
    for (name, title) in WIRE_FAMILIES {
        let about = "The RFCs ask for these rows, and the checks of `nd wire-conform` prove them.\n\
                     [Checking an iWARP stack](../iwarp-stack.md) says how, and what the words mean.";
        let text = report::page_of(name);
        pages.push(family("iwarp-stack", name, title, about, &text));
    }
    pages
}

/// A page whose first part people write.
fn overview(root: &Path, name: &str, made: &str) -> Page {
    let path = format!("{name}.md");
    let text = fs::read_to_string(root.join("docs/check").join(&path)).expect(name);
    let (by_hand, _) = text.split_once(MARK).expect("the mark in the page");
    let text = format!("{by_hand}{MARK}{made}");
    Page { path, text }
}

fn family(folder: &str, name: &str, title: &str, about: &str, text: &str) -> Page {
    // The data has links for pages that are one folder higher.
    let text = text.replace("](../", "](../../");
    Page {
        path: format!("{folder}/{}.md", name.to_lowercase()),
        text: format!(
            "# {name}: {}\n\n{about}\n\n<!-- `cargo make check-pages` writes this page -->\n\n{text}",
            lower(title)
        ),
    }
}

/// A title behind a colon: with a small letter, unless it begins with a name.
fn lower(title: &str) -> String {
    let first = title.split([' ', ':']).next().unwrap_or_default();
    let is_name = first.chars().skip(1).any(char::is_uppercase);
    let mut letters = title.chars();
    match letters.next() {
        Some(letter) if !is_name => letter.to_lowercase().chain(letters).collect(),
        _ => title.to_owned(),
    }
}

/// The families of the wire with their pages in `folder`, and the numbers of rows and of checks.
fn wire_overview(folder: &str) -> String {
    let is_of = |name: &str, family: &str| name.split('-').next() == Some(family);
    let mut out = String::from("| family | about | rows | checks |\n|---|---|--:|--:|\n");
    for (name, title) in WIRE_FAMILIES {
        let rows = rows::all().filter(|row| is_of(row.id, name)).count();
        let checks = checks().filter(|check| is_of(check.name, name)).count();
        let page = name.to_lowercase();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| [{name}]({folder}/{page}.md) | {title} | {rows} | {checks} |"
        );
    }
    out
}
