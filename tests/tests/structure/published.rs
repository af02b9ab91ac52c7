//! Which crates are published, and what each of them has.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::root;

/// What `cargo metadata` says of all packages of the workspace.
fn packages() -> Vec<Value> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].take();
    packages.as_array().unwrap().clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// An empty list of registries means `publish = false`.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// The crates in the table of `docs/releasing.md`, line by line.
fn order() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/releasing.md")).unwrap();
    let (_, table) = page.split_once("| | crates |\n   |---|---|\n").unwrap();
    let rows = table
        .lines()
        .take_while(|line| line.starts_with("   | "))
        .map(|row| row.split('`').skip(1).step_by(2).map(str::to_owned));
    rows.map(Iterator::collect).collect()
}

#[test]
fn published_crates_need_only_those_published_before() {
    let packages = packages();
    let all: BTreeSet<_> = packages.iter().map(name).collect();
    let published = packages.iter().filter(|package| is_published(package));
    let published: BTreeSet<_> = published.map(name).collect();
    let mut before = BTreeSet::new();
    for row in order() {
        for of in &row {
            let package = packages.iter().find(|package| name(package) == of);
            let package = package.unwrap_or_else(|| panic!("there is no crate {of}"));
            let dependencies = package["dependencies"].as_array().unwrap();
            // A package has no trace of a dependency of tests that has no version.
            for dependency in dependencies
                .iter()
                .filter(|it| all.contains(name(it)) && (it["kind"] != "dev" || it["req"] != "*"))
            {
                let on = name(dependency);
                assert!(before.contains(on), "{of} needs {on} before it");
            }
        }
        before.extend(row);
    }
    assert_eq!(
        before.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        published,
        "docs/releasing.md has each published crate"
    );
    for users_name in [
        "nd",
        "netdirect",
        "netdirect-async",
        "netdirect-verbs",
        "softnd",
        "softverbs",
    ] {
        assert!(published.contains(users_name), "{users_name}");
    }
}

#[test]
fn published_crates_have_what_their_page_in_a_registry_shows() {
    for package in packages().iter().filter(|package| is_published(package)) {
        let of = name(package);
        let folder = folder(package);
        assert_eq!(
            package["documentation"],
            format!("https://docs.rs/{of}"),
            "{of}"
        );
        for key in ["repository", "license", "readme", "description"] {
            assert!(package[key].is_string(), "{of} has no {key}");
        }
        assert!(package["metadata"]["docs"]["rs"].is_object(), "{of}");
        for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let own = fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{of}: {error}"));
            assert_eq!(own, fs::read(root().join(file)).unwrap(), "{of}: {file}");
        }
    }
}

/// The folder of a package.
fn folder(package: &Value) -> &Path {
    let manifest = package["manifest_path"].as_str().unwrap();
    Path::new(manifest).parent().unwrap()
}

/// The path without `..`, as it is written.
fn without_parents(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(found.pop(), "{}", path.display()),
            part => found.push(part),
        }
    }
    found
}

/// The files below a folder of sources.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The paths that a source names, for the compiler or for the program that runs.
fn named_paths(file: &Path, package: &Path, text: &str) -> Vec<PathBuf> {
    let file = file.parent().unwrap();
    let forms = [
        ("include_str!(\"", file),
        ("include_bytes!(\"", file),
        ("include!(\"", file),
        ("#[path = \"", file),
        (".join(\"../", &package.join("..")),
    ];
    let mut found = Vec::new();
    for (form, from) in forms {
        let rests = text.split(form).skip(1);
        let names = rests.filter_map(|rest| rest.split('"').next());
        found.extend(names.map(|name| without_parents(&from.join(name))));
    }
    found
}

/// A package has the files of the crate's folder alone, but for those that the manifest excludes. A link in the folder becomes a copy of
/// the file that it leads to.
#[test]
fn published_crates_need_no_file_that_their_package_lacks() {
    let mut named = 0;
    for package in packages().iter().filter(|package| is_published(package)) {
        let folder = folder(package);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let lines = manifest.lines();
        let excluded = lines.filter_map(|line| line.strip_prefix("exclude = "));
        let excluded = excluded.flat_map(|line| line.split('"').skip(1).step_by(2));
        let excluded: Vec<_> = excluded
            .map(|name| folder.join(name.trim_start_matches('/')))
            .collect();
        assert!(excluded.iter().all(|path| path.exists()), "{excluded:?}");
        let is_there = |path: &Path| !excluded.iter().any(|it| path.starts_with(it));
        let mut files = Vec::new();
        for part in ["src", "tests", "examples"] {
            sources(&folder.join(part), &mut files);
        }
        files.retain(|file| is_there(file));
        assert!(!files.is_empty(), "{}", folder.display());
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for path in named_paths(&file, folder, &text) {
                assert!(
                    path.starts_with(folder) && is_there(&path),
                    "{} names {}, which is in no package",
                    file.display(),
                    path.display()
                );
                named += 1;
            }
        }
    }
    assert!(named > 20, "{named} paths are named");
}
