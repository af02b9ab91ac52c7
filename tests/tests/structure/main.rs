//! Checks the structure that `docs/architecture.md` describes: which crate depends on which, which files use the system,
//! that no files of a crate depend on each other in a circle, the names of types, and where modules are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use softnd_tests::structure::Crate;

mod circles;
mod dependencies;
mod modules;
mod names;
mod order;
mod places;
mod published;
mod suppressions;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The folders of the packages below `crates`.
fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = folders
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    folders
}

/// The packages outside of `crates`.
fn other_folders() -> [PathBuf; 3] {
    ["tests", "benches", "fuzz"].map(|name| root().join(name))
}

/// The crates of a package. All packages are read once for all tests.
fn crates(folder: &Path) -> &'static [Crate] {
    static READ: OnceLock<BTreeMap<PathBuf, Vec<Crate>>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let folders = folders().into_iter().chain(other_folders());
        let read = |folder: PathBuf| (folder.clone(), Crate::of_package(&folder));
        folders.map(read).collect()
    });
    &read[folder]
}

/// The name of a file from the root of the repository.
fn short(file: &Path) -> String {
    let name = file.strip_prefix(root()).unwrap();
    name.to_str().unwrap().to_owned()
}
