//! A module with modules of its own is a folder with `mod.rs`, so that a file is found in one way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{folders, other_folders, short};

/// The packages that still have files beside folders.
const FOR_NOW: &[&str] = &["crates/iwarp-io", "crates/softnd", "crates/softverbs"];

/// All sources below a folder that are beside a folder with the rest of their module. Returns the number of sources.
fn beside(folder: &Path, found: &mut Vec<PathBuf>) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let paths: BTreeSet<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let mut count = 0;
    for path in &paths {
        if path.is_dir() {
            count += beside(path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            count += 1;
            if paths.contains(&path.with_extension("")) {
                found.push(path.clone());
            }
        }
    }
    count
}

#[test]
fn a_module_with_modules_is_a_folder_with_mod_rs() {
    let (mut wrong, mut seen) = (String::new(), 0);
    let mut needed = BTreeSet::new();
    for folder in folders().into_iter().chain(other_folders()) {
        let mut found = Vec::new();
        for part in ["src", "tests", "benches", "examples"] {
            seen += beside(&folder.join(part), &mut found);
        }
        let package = short(&folder);
        match FOR_NOW.iter().find(|name| **name == package) {
            Some(name) if !found.is_empty() => drop(needed.insert(*name)),
            _ => {
                for file in found {
                    let to = file.with_extension("").join("mod.rs");
                    wrong += &format!("move {} to {}\n", short(&file), short(&to));
                }
            }
        }
    }
    for name in FOR_NOW.iter().filter(|name| !needed.contains(**name)) {
        wrong += &format!("{name} has no such file: delete it from FOR_NOW\n");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(seen > 500, "{seen} sources");
}
