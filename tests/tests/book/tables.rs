//! The tables of pages: each is read as a table, and each row has as many cells as the heading.

use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The number of cells of a row. A bar behind a backslash belongs to a cell.
fn cells(row: &str) -> usize {
    let row = row.trim().replace("\\|", "");
    row.trim_matches('|').split('|').count()
}

/// What is wrong with the tables of a page, by the line in which it is.
fn faults(text: &str) -> Vec<(usize, &'static str)> {
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    let (mut is_code, mut heading) = (false, 0);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Start(Tag::TableHead) => heading = cells(&text[range]),
            Event::Start(Tag::TableRow) if cells(&text[range.clone()]) != heading => {
                found.push((
                    line_of(range.start),
                    "a row has more or fewer cells than the heading",
                ));
            }
            Event::Text(words)
                if !is_code && (words.contains("|---") || words.contains("---|")) =>
            {
                found.push((line_of(range.start), "a table is read as a paragraph"));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn tables_are_read_as_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap();
    let mut pages = crate::files(&root.join("docs"), "md");
    pages.extend(
        [
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "samples/README.md",
        ]
        .map(|page| root.join(page)),
    );
    pages.extend(crate::files(&root.join("crates"), "md"));
    let mut wrong = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(&root).unwrap().display();
        wrong.extend(
            faults(&text)
                .iter()
                .map(|(line, what)| format!("{name}:{line}: {what}")),
        );
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_table_that_is_no_table_is_found() {
    let good = "| a | b |\n|---|---|\n| `x\\|y` | 2 |\n\n- list\n\n  | a |\n  |---|\n  | 1 |\n";
    assert_eq!(faults(good), []);
    let paragraph = "- list\n\n  | a | b | |---|---| | 1 | 2 |\n";
    assert_eq!(faults(paragraph), [(3, "a table is read as a paragraph")]);
    for row in ["| 1 |", "| 1 | 2 | 3 |", "| `x|y` | 2 |"] {
        let found = faults(&format!("| a | b |\n|---|---|\n{row}\n"));
        assert_eq!(found.len(), 1, "{row}");
    }
}
