//! Paths of pages outside of the book: in code, comments, messages, scripts and the pages at the root. Each names a file that is
//! there, and a page that has moved is found from its earlier place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{files, read_markdown};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// The paths in a text that begin at the folder `docs` of the repository, or reach it from another folder by `../`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |sign: char| sign.is_ascii_alphanumeric() || "._-/".contains(sign);
    text.match_indices("docs/").filter_map(move |(at, _)| {
        let before = text[..at].trim_end_matches("../");
        // `https://example.org/docs/x` and `api-docs/x` are other folders.
        if before.ends_with(is_of_path) {
            return None;
        }
        let rest = &text[at..];
        let end = rest.find(|sign| !is_of_path(sign)).unwrap_or(rest.len());
        Some(rest[..end].trim_end_matches(['.', '/']))
    })
}

/// The files of the repository, with their text. A file that is not UTF-8 names no page.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    const PASSED_OVER: [&str; 3] = [".git", "target", "corpus"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            // mdBook writes into `docs/book`.
            if !PASSED_OVER.contains(&&*name) && !path.ends_with("docs/book") {
                sources(&path, found);
            }
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
}

#[test]
fn the_pages_that_code_messages_and_scripts_name_exist() {
    let root = root();
    let mut texts = Vec::new();
    sources(&root, &mut texts);
    let (mut seen, mut missing) = (0, Vec::new());
    for (file, text) in &texts {
        // This file has paths that do not exist, below.
        if file.ends_with("book/paths.rs") {
            continue;
        }
        for path in paths(text) {
            seen += 1;
            // mdBook writes into this folder.
            if path != "docs/book" && !root.join(path).exists() {
                let file = file.strip_prefix(&root).unwrap().display();
                missing.push(format!("{file} names {path}"));
            }
        }
    }
    assert!(seen > 80, "{seen} paths");
    assert_eq!(missing, [""; 0]);
}

#[test]
fn paths_are_found_in_comments_strings_and_links() {
    let text = "//! `docs/a.md` has it, docs/b/c.md. include_str!(\"../../docs/d.md\") [x](docs/e.md#f) \
                https://example.org/docs/g.md api-docs/h.md (docs/i/)";
    let found: Vec<_> = paths(text).collect();
    assert_eq!(
        found,
        [
            "docs/a.md",
            "docs/b/c.md",
            "docs/d.md",
            "docs/e.md",
            "docs/i"
        ]
    );
}

/// The redirects of `docs/book.toml`: where a page was, and where its place leads.
fn redirects(docs: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let text = fs::read_to_string(docs.join("book.toml")).unwrap();
    let (_, table) = text.split_once("[output.html.redirect]\n").unwrap();
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let lines = lines.filter_map(|line| line.split_once(" = "));
    let page = |text: &str| PathBuf::from(text.trim_matches(['"', '/'])).with_extension("md");
    lines
        .map(|(old, new)| {
            let old = page(old);
            let new = crate::target(&docs.join(&old), page(new).to_str().unwrap());
            (old, new)
        })
        .collect()
}

#[test]
fn redirects_lead_from_earlier_places_to_pages() {
    let docs = root().join("docs");
    let redirects = redirects(&docs);
    assert!(redirects.len() > 25, "{redirects:?}");
    for (old, new) in redirects {
        assert!(!docs.join(&old).exists(), "{} is a page", old.display());
        assert!(new.is_file(), "{} leads nowhere", old.display());
    }
}

/// Every folder of the book holds pages of one kind, so that a reader finds a page by what it is for.
#[test]
fn every_page_is_in_a_room() {
    let docs = root().join("docs");
    let mut outside = Vec::new();
    for page in files(&docs, "md") {
        let place = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        let room = place.split_once('/').map_or("", |(room, _)| room);
        let is_known = match room {
            "" => [
                "SUMMARY.md",
                "introduction.md",
                "architecture.md",
                "releasing.md",
            ]
            .contains(&place),
            room => ["use", "check", "internals", "reports", "book"].contains(&room),
        };
        if !is_known {
            outside.push(place.to_owned());
        }
        let title = read_markdown(&fs::read_to_string(&page).unwrap());
        assert!(!title.anchors.is_empty(), "{place} has no heading");
    }
    assert_eq!(outside, [""; 0]);
}

/// The pages for those who change the code name files from the root of the repository.
#[test]
fn the_files_that_pages_about_the_code_name_exist() {
    let root = root();
    let (mut seen, mut missing) = (0, Vec::new());
    let mut pages = files(&root.join("docs/internals"), "md");
    pages.push(root.join("docs/architecture.md"));
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "tests/", "benches/", "fuzz/", ".ci/"]
                .iter()
                .any(|folder| word.starts_with(folder));
            if !is_path || word.contains([' ', '*']) {
                continue;
            }
            seen += 1;
            if !root.join(word).exists() {
                missing.push(format!("{} names {word}", page.display()));
            }
        }
    }
    assert!(seen > 30, "{seen} paths");
    assert_eq!(missing, [""; 0]);
}
