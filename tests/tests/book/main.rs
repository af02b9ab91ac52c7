//! The book: every link in its pages leads somewhere, its commands work, and mdBook builds it without a warning.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use softnd_tests::tool;

mod commands;
mod faults;
mod logs;
mod new_folder;
mod paths;
mod simulation;
mod tables;
mod variables;

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

/// The files below `folder` whose names end with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == extension) {
                found.push(path);
            }
        }
    }
    found
}

/// Pages by their paths below `folder`.
fn pages(folder: &Path) -> BTreeMap<PathBuf, Page> {
    let read = |path: PathBuf| {
        let page = Page::new(&fs::read_to_string(&path).unwrap());
        (path, page)
    };
    files(folder, "html").into_iter().map(read).collect()
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

/// The target of mdBook's link to a heading: the heading in lower case, with hyphens for spaces and without signs.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|sign| match sign {
        _ if sign.is_alphanumeric() || matches!(sign, '_' | '-') => Some(sign.to_ascii_lowercase()),
        _ if sign.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

/// The links of a page in Markdown, and the anchors of its headings.
fn read_markdown(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let first = anchor(&heading.take().unwrap());
                let mut unique = first.clone();
                let mut number = 0;
                while !page.anchors.insert(unique.clone()) {
                    number += 1;
                    unique = format!("{first}-{number}");
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    page
}

/// As readers of the sources follow them, without mdBook.
#[test]
fn links_between_pages_lead_to_a_heading() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = docs.join("../docs").canonicalize().unwrap();
    let markdown = files(&docs, "md");
    let read = |path: PathBuf| {
        let page = read_markdown(&fs::read_to_string(&path).unwrap());
        (path, page)
    };
    let pages: BTreeMap<_, _> = markdown.into_iter().map(read).collect();
    let links: usize = pages.values().map(|page| page.links.len()).sum();
    assert!(pages.len() > 20 && links > 100, "{links} links");
    assert_eq!(broken(&pages), [""; 0]);
}

#[test]
fn headings_have_the_anchors_that_mdbook_gives_them() {
    let text = "# The `nd` command\n## 2a. `iwarp-io`: the driver\n## Faults\n## Faults\n[x](a.md#b) ![y](c.svg)\n";
    let page = read_markdown(text);
    let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(
        anchors,
        [
            "2a-iwarp-io-the-driver",
            "faults",
            "faults-1",
            "the-nd-command"
        ]
    );
    assert_eq!(page.links, ["a.md#b", "c.svg"]);
}

#[test]
#[ignore = "needs mdBook, which takes minutes to build: .ci/night book"]
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
