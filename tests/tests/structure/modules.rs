//! A module with modules of its own is a folder with `mod.rs`, so that a file is found in one way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{folders, other_folders, short};

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
    let (mut found, mut seen) = (Vec::new(), 0);
    for folder in folders().into_iter().chain(other_folders()) {
        for part in ["src", "tests", "benches", "examples"] {
            seen += beside(&folder.join(part), &mut found);
        }
    }
    let mut wrong = String::new();
    for file in found {
        let to = file.with_extension("").join("mod.rs");
        wrong += &format!("move {} to {}\n", short(&file), short(&to));
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(seen > 500, "{seen} sources");
}
