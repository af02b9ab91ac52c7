//! Which crates are published, and what each of them has.

use std::collections::BTreeSet;
use std::env;
use std::fs;
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
            for dependency in dependencies
                .iter()
                .filter(|it| all.contains(name(it)) && it["kind"] != "dev")
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
        let manifest = package["manifest_path"].as_str().unwrap();
        let folder = std::path::Path::new(manifest).parent().unwrap();
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
