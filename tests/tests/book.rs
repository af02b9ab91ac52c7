//! The book as readers get it: mdBook builds it without a warning, and every link in it leads somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use softnd_tests::tool;

/// The links of an HTML page, and its anchors.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn new(html: &str) -> Self {
        let mut page = Self::default();
        let tags = html.split('<').filter_map(|rest| rest.split('>').next());
        // Closing tags, comments and declarations refer to nothing.
        for tag in tags.filter(|tag| tag.starts_with(|sign: char| sign.is_ascii_alphabetic())) {
            // The base of 404.html is the root of whatever site shows the book.
            if tag.starts_with("base ") {
                continue;
            }
            for (name, value) in attributes(tag) {
                match name {
                    "href" | "src" => page.links.push(value),
                    "id" => {
                        page.anchors.insert(value);
                    }
                    _ => {}
                }
            }
        }
        page
    }
}

/// The attributes of a tag that have a value in quotes.
fn attributes(tag: &str) -> impl Iterator<Item = (&str, String)> {
    let mut parts = tag.split('"');
    std::iter::from_fn(move || {
        let name = parts.next()?.strip_suffix('=')?;
        let value = parts.next()?.replace("&amp;", "&");
        let name = name
            .rsplit(|sign: char| sign.is_ascii_whitespace())
            .next()?;
        Some((name, value))
    })
}

/// Pages by their paths below `folder`.
fn pages(folder: &Path) -> BTreeMap<PathBuf, Page> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "html")
            {
                let page = Page::new(&fs::read_to_string(&path).unwrap());
                found.insert(path, page);
            }
        }
    }
    found
}

/// The target of a link on `page`, with `..` resolved.
fn target(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{link}"),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// The links that lead nowhere.
fn broken(pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, page) in pages {
        let inside = |link: &&String| !link.contains("://") && !link.starts_with("data:");
        for link in page.links.iter().filter(inside) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else {
                target(path, file)
            };
            let is_there = match pages.get(&target) {
                Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
                None => anchor.is_empty() && target.is_file(),
            };
            if !is_there {
                broken.push(format!("{} links to {link}", path.display()));
            }
        }
    }
    broken
}

#[test]
fn the_book_is_built_without_a_warning_and_its_links_lead_somewhere() {
    let Some(mdbook) = tool::find("mdbook") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // Without symbolic links in the path, so that `..` always means the same.
    let folder = folder.path().canonicalize().unwrap();
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let output = Command::new(mdbook)
        .args(["build", docs, "--dest-dir"])
        .arg(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let warning = said
        .lines()
        .find(|line| line.contains("WARN") || line.contains("ERROR"));
    assert_eq!(warning, None, "{said}");
    let pages = pages(&folder);
    let links: usize = pages.values().map(|page| page.links.len()).sum();
    assert!(pages.len() > 10 && links > 300, "{} pages", pages.len());
    assert_eq!(broken(&pages), [""; 0]);
}

#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    fs::create_dir(folder.join("in")).unwrap();
    let a = r##"<!-- href="gone" --><h1 id="top" class="x">A</h1><a class="y" href="#top">1</a> <a
        href="in/b.html?">2</a> <a href="in/b.html#here">3</a> <img src='x' src="a.png">
        <a href="in/b.html#gone">4</a> <a href="https://nowhere.example/#x">5</a></a href="c">"##;
    fs::write(folder.join("a.html"), a).unwrap();
    let b = r#"<p id="here"><a href="../a.html#top"></a><a href="../b.html">6</a>"#;
    fs::write(folder.join("in/b.html"), b).unwrap();
    let found = broken(&pages(&folder)).join("\n");
    for link in ["in/b.html?", "a.png", "in/b.html#gone", "../b.html"] {
        let line = format!("links to {link}");
        assert!(found.lines().any(|found| found.ends_with(&line)), "{found}");
    }
    assert_eq!(found.lines().count(), 4, "{found}");
}
