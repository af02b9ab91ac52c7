//! Rows of the catalogues are explained where a reader of the book finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use netdirect_conform::rows;
use softnd_tests::check_pages;
use softnd_tests::nd_rows::{self, FAMILIES};

/// The names that rows begin with, and the pages that explain them.
const ND2: [&str; 18] = [
    "ADPT", "AMB", "CONN", "CQ", "DLL", "GEN", "INFO", "IW", "LSTN", "MR", "MW", "OVL", "PROV",
    "QP", "RES", "SGE", "SRQ", "TST",
];
const WIRE: [&str; 8] = [
    "DDP", "MPA", "MPA2", "OPEN", "PEER", "RDMAP", "RDMAPX", "SEC",
];

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap().to_owned()
}

/// The rows that a text names: `CONN-106` and its like.
fn rows<'a>(text: &'a str, groups: &'a [&str]) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter_map(|word| {
        let (group, number) = word.split_once('-')?;
        let number: String = number.chars().take_while(char::is_ascii_digit).collect();
        let digits = if group == "OPEN" { 2 } else { 3 };
        // No catalogue has a row 999: tests use it for one that does not exist.
        let is_row = groups.contains(&group) && number.len() == digits && number != "999";
        is_row.then(|| format!("{group}-{number}"))
    })
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
}

/// Returns a file that names each row.
fn cited(groups: &[&str]) -> BTreeMap<String, PathBuf> {
    let mut sources = Vec::new();
    for folder in ["benches", "crates", "fuzz", "tests"] {
        let folder = root().join(folder);
        for part in fs::read_dir(&folder).unwrap() {
            let part = part.unwrap().path();
            let name = part.file_name().unwrap().to_str().unwrap();
            if part.is_dir() && name != "target" && name != "corpus" {
                files(&part, "rs", &mut sources);
            }
        }
    }
    files(&root().join("docs"), "md", &mut sources);
    let mut cited = BTreeMap::new();
    for file in sources {
        let text = fs::read_to_string(&file).unwrap();
        for row in rows(&text, groups) {
            cited.insert(row, file.clone());
        }
    }
    cited
}

/// The rows that have their own line on some pages, or on the pages of a folder.
fn explained(pages: &[&str], groups: &[&str]) -> BTreeSet<String> {
    let mut explained = BTreeSet::new();
    let mut paths = Vec::new();
    for page in pages {
        let path = root().join("docs").join(page);
        match path.is_dir() {
            true => files(&path, "md", &mut paths),
            false => paths.push(path),
        }
    }
    for path in paths {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix('|'));
        let cells = lines.filter_map(|line| line.split('|').next());
        explained.extend(cells.flat_map(|cell| rows(cell, groups).collect::<Vec<_>>()));
    }
    explained
}

#[track_caller]
fn each_is_explained(groups: &[&str], pages: &[&str]) {
    let explained = explained(pages, groups);
    let cited = cited(groups);
    assert!(cited.len() > 200, "the sources cite rows: {}", cited.len());
    let missing: Vec<_> = cited
        .iter()
        .filter(|(row, file)| !explained.contains(*row) && !file.ends_with(file!()))
        .map(|(row, file)| format!("{row} in {}", file.strip_prefix(root()).unwrap().display()))
        .collect();
    assert!(
        missing.is_empty(),
        "no line of {pages:?} explains {}",
        missing.join(", ")
    );
}

#[test]
fn each_row_of_networkdirect_that_is_cited_is_explained() {
    each_is_explained(&ND2, &["check/nd-provider"]);
}

#[test]
fn each_row_of_the_wire_that_is_cited_is_explained() {
    each_is_explained(
        &WIRE,
        &[
            "check/iwarp-stack",
            "check/rfc-questions.md",
            "check/peers.md",
        ],
    );
}

#[test]
fn rows_of_networkdirect_are_numbered_without_a_gap() {
    let mut count = 0;
    for (name, _) in FAMILIES {
        assert!(ND2.contains(&name), "{name}");
        for (at, row) in nd_rows::family(name).enumerate() {
            assert_eq!(row.id, format!("{name}-{:03}", at + 1));
            count += 1;
        }
    }
    assert_eq!(count, rows::all().len(), "each row is of a known family");
    assert_eq!(count, 833);
    let mut data = Vec::new();
    files(
        &root().join("crates/netdirect-conform/rows"),
        "toml",
        &mut data,
    );
    assert_eq!(data.len(), FAMILIES.len(), "each file is a known family");
}

#[test]
fn rows_of_networkdirect_say_who_does_what() {
    /// A text that begins with one of these words cannot be understood without the row before it.
    const POINTERS: [&str; 12] = [
        "And", "As", "But", "Else", "It", "So", "That", "Then", "These", "They", "This", "Those",
    ];
    const KINDS: [&str; 9] = [
        "API", "API/ASY", "ASY", "SEM", "IMP", "FLD", "TST", "DRV", "AMB",
    ];
    for row in rows::all() {
        let id = &row.id;
        assert!(KINDS.contains(&row.kind.as_str()), "{id}: {}", row.kind);
        assert_eq!(id.starts_with("AMB"), row.kind == "AMB", "{id}");
        assert!(row.text.len() >= 20, "{id}: {}", row.text);
        let first = row.text.split(' ').next().unwrap();
        assert!(!POINTERS.contains(&first), "{id}: {}", row.text);
        for text in [&row.text, &row.softnd, &row.because] {
            let is_sentence = text.ends_with('.') && !text.contains("  ") && !text.contains('|');
            assert!(text.is_empty() || is_sentence, "{id}: {text}");
        }
        let names = row.status.split([' ', ',']);
        for name in names.filter(|name| !name.is_empty() && *name != "or") {
            let known = ["ND_", "STATUS_", "E_", "S_"];
            let known = known.iter().any(|start| name.starts_with(start));
            assert!(known, "{id}: {name}");
        }
    }
}

/// Each row that no program proves makes what all others say worth less.
#[test]
fn few_rows_of_networkdirect_cannot_be_proven() {
    let mut counts = BTreeMap::<&str, usize>::new();
    for row in rows::all().iter().filter(|row| !row.unproven.is_empty()) {
        let id = &row.id;
        assert!(row.because.len() >= 20, "{id}: {}", row.because);
        assert!(row.why_unproven().is_some(), "{id}: {}", row.unproven);
        *counts.entry(&row.unproven).or_default() += 1;
    }
    assert!(counts.values().sum::<usize>() <= 60, "{counts:?}");
    assert!(counts["wire"] <= 10, "{counts:?}");
}

#[test]
fn each_row_of_networkdirect_has_a_check_or_a_reason_why_there_is_none() {
    let lacking = rows::all().iter();
    let lacking: Vec<_> = lacking
        .filter(|row| {
            row.unproven.is_empty() && rows::checks_of(&row.id, nd_rows::checks()).is_empty()
        })
        .map(|row| row.id.as_str())
        .collect();
    assert!(
        lacking.is_empty(),
        "rows without a check or a reason: {}",
        lacking.join(", ")
    );
}

#[test]
fn the_pages_of_rows_and_checks_are_up_to_date() {
    let mut made = BTreeSet::new();
    for page in check_pages::pages(&root()) {
        let path = root().join("docs/check").join(&page.path);
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == page.text,
            "docs/check/{} is not what the rows and the checks say: run `cargo make check-pages`, or \
             `cargo run -p softnd-tests --bin check_pages`",
            page.path
        );
        made.insert(path);
    }
    let mut left = Vec::new();
    for folder in ["nd-provider", "iwarp-stack"] {
        files(&root().join("docs/check").join(folder), "md", &mut left);
    }
    left.retain(|path| !made.contains(path));
    assert!(left.is_empty(), "no family has these pages: {left:?}");
}

/// Each check and each row of the wire is on the page of its family, so that none is lost where a new family begins.
#[test]
fn each_row_and_check_of_the_wire_has_a_family() {
    let families: BTreeSet<_> = check_pages::WIRE_FAMILIES.map(|(name, _)| name).into();
    let names = iwarp_conform::checks().map(|check| check.name);
    let names = names.chain(iwarp_conform::rows::all().map(|row| row.id));
    for name in names {
        let family = name.split('-').next().unwrap();
        assert!(families.contains(family), "{name} is on no page");
    }
    let all = iwarp_conform::report::page();
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("| ")).count();
    // Each table has one line of heads.
    let heads = |text: &str| text.lines().filter(|line| line.starts_with("|---")).count();
    let parts = families
        .iter()
        .map(|name| iwarp_conform::report::page_of(name));
    let parts: Vec<_> = parts.map(|text| lines(&text) - heads(&text)).collect();
    assert_eq!(parts.iter().sum::<usize>(), lines(&all) - heads(&all));
}

/// The engine serves any interface above it: its sources, but for their tests, name RFCs and rows of the wire only.
#[test]
fn the_engine_names_nothing_of_networkdirect() {
    let mut sources = Vec::new();
    files(&root().join("crates/iwarp/src"), "rs", &mut sources);
    let is_test = |path: &PathBuf| {
        path.components()
            .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
    };
    sources.retain(|path| !is_test(path));
    assert!(sources.len() > 30, "the engine has sources");
    let mut wrong = Vec::new();
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for (at, line) in text.lines().enumerate() {
            let names = ["ND2", "ND_"].iter().any(|name| line.contains(name));
            if names || rows(line, &ND2).next().is_some() {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                wrong.push(format!("{name}:{}: {line}", at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_are_found_in_text() {
    let text = "CONN-106, AMB-008. (QP-016) XCQ-001 CQ-1 MPA-072's DDP-032b";
    let found: Vec<_> = rows(text, &ND2).collect();
    assert_eq!(found, ["CONN-106", "AMB-008", "QP-016"]);
    let found: Vec<_> = rows(text, &WIRE).collect();
    assert_eq!(found, ["MPA-072", "DDP-032"]);
}
