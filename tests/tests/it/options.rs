//! The page of options is complete: each option of `softnd::Options`, of `nd`, of `libsoftnd` and of `nd run` has a row, and so has each
//! environment variable.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::nd;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of the rows of the table whose header begins with this cell.
fn table(page: &str, first: &str) -> Vec<Vec<String>> {
    let mut lines = page
        .lines()
        .skip_while(|line| !line.starts_with(&format!("| {first} |")));
    lines.next().expect("the table is there");
    lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// The words in backquotes of a cell, without the dashes of flags.
fn words(cell: &str) -> impl Iterator<Item = String> {
    let words = cell.split('`').skip(1).step_by(2);
    words.map(|word| word.trim_start_matches('-').to_owned())
}

/// The names in one column of the table of options.
fn column(number: usize) -> BTreeSet<String> {
    let rows = table(&read("docs/use/options.md"), "option");
    assert!(rows.len() > 30, "{rows:?}");
    for row in &rows {
        assert_eq!(row.len(), 9, "{row:?}");
        assert!(
            row[1..6]
                .iter()
                .enumerate()
                .all(|(at, cell)| at == 2 || !cell.is_empty())
        );
        assert!(row[5..].iter().any(|cell| cell != "–"), "{row:?}");
    }
    rows.iter()
        .flat_map(|row| words(&row[number]).collect::<Vec<_>>())
        .collect()
}

/// The options in the help of a command: its long flags.
fn flags(command: &[&str]) -> BTreeSet<String> {
    let help = Command::new(nd::binary())
        .args(command)
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags = help.lines().filter_map(|line| {
        let flag = line.trim_start().split("--").nth(1)?;
        let is_option = line.trim_start().starts_with('-');
        let flag = flag.split([' ', '<', '[', '=', '.']).next()?.trim();
        (is_option && !flag.is_empty()).then(|| flag.to_owned())
    });
    flags.collect()
}

fn assert_same(listed: &BTreeSet<String>, known: &BTreeSet<String>, what: &str) {
    let missing: Vec<_> = known.difference(listed).collect();
    let surplus: Vec<_> = listed.difference(known).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "docs/use/options.md, {what}: without a row: {missing:?}; not there any more: {surplus:?}"
    );
}

#[test]
fn the_options_of_rust_are_on_the_page() {
    let source = read("crates/softnd/src/options.rs");
    let builder = source.split("impl Options {").nth(1).expect("the builder");
    let methods = builder.lines().filter_map(|line| {
        let name = line.strip_prefix("    pub fn ")?.split_once("(mut self")?.0;
        Some(name.to_owned())
    });
    assert_same(&column(5), &methods.collect(), "softnd::Options");
}

#[test]
fn the_options_of_the_command_are_on_the_page() {
    // Those of the command itself, and of every command.
    let own = [
        "listen", "out", "url", "help", "timeout", "replace", "version", "max-size",
    ];
    let mut known = flags(&["cat", "recv"]);
    known.retain(|flag| !own.contains(&flag.as_str()));
    known.insert("v".to_owned());
    assert!(known.contains("congestion"), "{known:?}");
    known.remove("verbose");
    known.remove("quiet");
    assert_same(&column(6), &known, "nd");
}

#[test]
fn the_keys_of_the_library_are_on_the_page() {
    let source = read("crates/libsoftnd/src/config.rs");
    let keys = source.split("const KEYS").nth(1).expect("the keys");
    let keys = keys.split("];").next().unwrap().lines().filter_map(|line| {
        let key = line.trim().strip_prefix("(\"")?.split_once('"')?.0;
        Some(key.to_owned())
    });
    assert_same(&column(7), &keys.collect(), "libsoftnd");
}

#[test]
fn the_options_of_nd_run_are_on_the_page() {
    let mut known = flags(&["run"]);
    for own in ["help", "verbose", "quiet", "version"] {
        known.remove(own);
    }
    known.insert("v".to_owned());
    assert_same(&column(8), &known, "nd run");
}

/// Every text of the sources that looks like a variable of this project has a row.
#[test]
fn every_environment_variable_is_on_the_page() {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" && name != "target" {
                walk(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let source = fs::read_to_string(&path).unwrap();
                let texts = source.split('"').skip(1).step_by(2);
                found.extend(texts.filter(|text| is_variable(text)).map(str::to_owned));
            }
        }
    }
    fn is_variable(text: &str) -> bool {
        let of_project =
            text.starts_with("SOFTND_") && !text.ends_with('_') && !text.contains("_TEST_");
        (of_project || text == "SSLKEYLOGFILE" || text == "NO_COLOR")
            && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    }
    let mut known = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            walk(&source, &mut known);
        }
    }
    // Those of the project's own checks.
    known.remove("SOFTND_VERBS_HEADERS");
    assert!(known.len() > 20, "{known:?}");
    let rows = table(&read("docs/use/options.md"), "variable");
    let mut listed: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| words(&row[0]).collect::<Vec<_>>())
        .collect();
    for other in [
        "RUST_LOG",
        "SOFTND_COM_…",
        "ND_PROVIDER",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
    ] {
        assert!(listed.remove(other), "{other}");
    }
    assert_same(&listed, &known, "environment variables");
}
