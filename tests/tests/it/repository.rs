//! Checks of the repository itself: links between pages, and names of tests and rows in pages.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::citations;
use softnd_tests::public_names::NAMED;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The targets of `[text](target)` that are paths.
fn links(page: &str) -> Vec<&str> {
    let targets = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .collect()
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().unwrap() != "book" {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// The page for those who take part names each step of the long checks, as the script itself does, and each step is there.
#[test]
fn the_steps_of_the_night_are_those_that_the_page_names() {
    let script = root().join(".ci/night");
    let listed = Command::new(&script).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(listed.len() > 10, "{listed:?}");
    let json = Command::new(&script).arg("--json").output().unwrap();
    let json: Vec<String> = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json, listed);
    let source = read(&script);
    let page = read(&root().join("CONTRIBUTING.md"));
    for step in &listed {
        let function = format!("\n{}() {{\n", step.replace('-', "_"));
        assert!(source.contains(&function), "{step} has no function");
        assert!(page.contains(&format!("\n| `{step}` |")), "{step}");
    }
    let rows = page.split("## The long checks").nth(1).unwrap();
    let rows = rows.split("\n## ").next().unwrap();
    let rows = rows.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), listed.len(), "the page names a step too many");
    // A step that is not there is an error, and runs nothing.
    let unknown = Command::new(&script).arg("no-such-step").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

/// The table of the night has the last run of each step. A step that was skipped or never ran is not shown as passed.
#[test]
fn the_table_of_the_night_has_the_last_run_of_each_step() {
    let clone = tempfile::tempdir().unwrap();
    let folder = clone.path().join(".ci");
    fs::create_dir_all(&folder).unwrap();
    for name in ["night", "common", "installing"] {
        fs::copy(root().join(".ci").join(name), folder.join(name)).unwrap();
    }
    let results = clone.path().join("target/night");
    fs::create_dir_all(&results).unwrap();
    let runs = "siw\taaaaaaaaaa\t12\tFAILED\ttarget/night/siw.log\n\
                advisories\taaaaaaaaaa\t3\tskipped\tskipped: no database\n\
                siw\tbbbbbbbbbb+\t1931\tpassed\t\n";
    fs::write(results.join("results"), runs).unwrap();
    let table = Command::new(folder.join("night"))
        .arg("--table")
        .output()
        .unwrap();
    assert!(table.status.success(), "{table:?}");
    let table = String::from_utf8(table.stdout).unwrap();
    let row = |step: &str| {
        let head = format!("| `{step}` |");
        let mut rows = table.lines().filter(|line| line.starts_with(&head));
        let row = rows.next().expect(step);
        assert_eq!(rows.next(), None, "{table}");
        row[head.len()..].trim().to_owned()
    };
    assert_eq!(row("siw"), "`bbbbbbbbbb+` | 1931 | passed |");
    assert_eq!(
        row("advisories"),
        "`aaaaaaaaaa` | 3 | skipped: no database |"
    );
    assert_eq!(row("fuzz"), "| | not run |");
}

/// Runs the step `advisories` with a database that was changed so many days ago; without one, the database cannot be fetched. The programs
/// that fetch and check do nothing.
#[cfg(unix)]
fn advisories(changed: Option<u64>) -> (Option<i32>, String) {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{SystemTime, UNIX_EPOCH};

    let clone = tempfile::tempdir().unwrap();
    let at = |name: &str| clone.path().join(name);
    let program = |name: &str, text: &str| {
        fs::create_dir_all(at("bin")).unwrap();
        let path = at("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    fs::create_dir(at(".ci")).unwrap();
    for name in ["night", "common", "installing"] {
        fs::copy(root().join(".ci").join(name), at(".ci").join(name)).unwrap();
    }
    let fetch = u8::from(changed.is_none());
    program("cargo-deny", "");
    program("cargo", &format!("[ \"$2\" != fetch ] || exit {fetch}"));
    if let Some(days) = changed {
        let database = at("advisory-dbs/advisory-db-0");
        fs::create_dir_all(&database).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        // Half a day less, so that the day does not change on the way.
        let date = format!("@{} +0000", now.as_secs() - days * 86_400 - 43_200);
        for words in [
            &["init", "--quiet"][..],
            &["commit", "--quiet", "--allow-empty", "--message", "x"],
        ] {
            let done = Command::new("git")
                .args(["-c", "user.name=x", "-c", "user.email=x"])
                .args(words)
                .current_dir(&database)
                .env("GIT_COMMITTER_DATE", &date)
                .status();
            assert!(done.unwrap().success());
        }
    }
    let path = std::env::var("PATH").unwrap();
    let done = Command::new(at(".ci/night"))
        .args(["--here", "advisories"])
        .env("PATH", format!("{}:{path}", at("bin").display()))
        .env("CARGO_HOME", clone.path())
        .output()
        .unwrap();
    (done.status.code(), String::from_utf8(done.stdout).unwrap())
}

/// A copy of the database that nobody keeps up knows no new advisory, which is no success. Neither is it one to have no database.
#[cfg(unix)]
#[test]
fn advisories_pass_only_with_a_database_of_these_days() {
    for (changed, code, words) in [
        (Some(0), 0, "changed 0 days ago"),
        (Some(90), 0, "changed 90 days ago"),
        (Some(91), 1, "is too old"),
        (Some(700), 1, "no advisory of the last 700 days"),
        (
            None,
            77,
            "skipped: the database of advisories cannot be had",
        ),
    ] {
        let (found, said) = advisories(changed);
        assert_eq!(found, Some(code), "{changed:?}: {said}");
        assert!(said.contains(words), "{said}");
    }
}

fn all_pages() -> Vec<PathBuf> {
    let mut all = pages(&root().join("docs"));
    all.extend(
        [
            "README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "CHANGELOG.md",
        ]
        .map(|name| root().join(name)),
    );
    all
}

/// Until the address of the repository is known, programs depend on a clone by its path, and no page invents an address.
#[test]
fn pages_name_the_repository_as_the_manifest_does() {
    let manifest = read(&root().join("Cargo.toml"));
    let address = manifest
        .lines()
        .find_map(|line| line.strip_prefix("repository = "))
        // A placeholder is no address.
        .filter(|address| !address.contains(".invalid/"));
    let mut paths = 0;
    for page in all_pages() {
        let text = read(&page);
        for line in text.lines() {
            if let Some((_, from)) = line.split_once(" = { git = ") {
                let named = address.is_some_and(|address| from.starts_with(address));
                assert!(named, "{}: {line}", page.display());
            }
            if let Some((_, path)) = line.split_once(" = { path = \"../softnd/") {
                let path = path.split('"').next().unwrap();
                let manifest = root().join(path).join("Cargo.toml");
                assert!(manifest.is_file(), "{}: {line}", page.display());
                assert_eq!(address, None, "{}: {line}", page.display());
                paths += 1;
            }
        }
    }
    assert!(paths >= 5 || address.is_some(), "{paths}");
}

/// A package of a registry can depend only on others that are there. What is not published says so.
#[test]
fn crates_that_are_published_depend_on_such_crates_alone() {
    let manifest = |folder: &Path| read(&folder.join("Cargo.toml"));
    let is_private = |text: &str| text.lines().any(|line| line == "publish = false");
    let mut private = Vec::new();
    let mut published = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        match manifest(&folder) {
            text if is_private(&text) => private.push(name),
            text => published.push((name, text)),
        }
    }
    for folder in ["tests", "benches", "fuzz"] {
        assert!(is_private(&manifest(&root().join(folder))), "{folder}");
    }
    assert!(!private.is_empty() && published.len() > 10);
    for (name, text) in published {
        let sections = text.split("\n[");
        let built = sections.filter(|section| !section.contains("dev-dependencies"));
        let built: String = built.collect();
        for other in &private {
            let needs = built.contains(&format!("\n{other}.workspace"))
                || built.contains(&format!("\n{other} = "));
            assert!(
                !needs,
                "{name} is published and needs {other}, which is not"
            );
        }
        let is_promised = NAMED.contains(&&*name) || name == "nd";
        let says = text.contains("promises nothing about its API");
        assert_ne!(is_promised, says, "the description of {name}");
    }
}

/// Every crate has what a registry shows: a readme and a description. Its dependencies have versions, those of its tests too: a package
/// loses a dependency that is a path alone, and a crate may need only itself in this way.
#[test]
fn each_crate_is_ready_to_be_published() {
    let workspace = read(&root().join("Cargo.toml"));
    let mut seen = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let readme = read(&folder.join("README.md"));
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}");
        let manifest = read(&folder.join("Cargo.toml"));
        for key in [
            "description = ",
            "license",
            "readme = ",
            "keywords",
            "categories",
        ] {
            let has = manifest.lines().any(|line| line.starts_with(key));
            assert!(has, "{name} has no {key}");
        }
        // Cfgs of RUSTFLAGS, as loom's: nobody can switch on a feature that does not exist.
        let plants = manifest.contains("planted");
        assert!(!plants, "{name} has a feature for planted bugs");
        let version = format!("\n{name} = {{ version = \"");
        assert!(workspace.contains(&version), "{name} has no version");
        let is_published = !manifest.lines().any(|line| line == "publish = false");
        let own = format!("{name} = {{");
        let without_version =
            |line: &&str| line.contains("path = \"../") && !line.starts_with(&own);
        let lost = manifest.lines().find(without_version);
        assert!(
            !is_published || lost.is_none(),
            "the package of {name} loses {lost:?}, which has no version"
        );
        seen += 1;
    }
    assert!(seen >= 12);
}

#[test]
fn no_page_shows_two_sides_of_a_merge() {
    for page in all_pages() {
        let text = read(&page);
        let mark = text
            .lines()
            .find(|line| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> "));
        assert_eq!(mark, None, "{}", page.display());
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in all_pages() {
        for target in links(&read(&page)) {
            let path = page
                .parent()
                .unwrap()
                .join(target.split('#').next().unwrap());
            assert!(path.is_file(), "{} links to {target}", page.display());
        }
    }
}

/// Pages name files and folders by their paths from the root of the repository. Reports tell of a commit of theirs.
#[test]
fn files_that_pages_name_exist() {
    let mut named = 0;
    let mut missing = String::new();
    for page in all_pages() {
        if page.starts_with(root().join("docs/reports")) || page.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = read(&page);
        for (at, code) in text.split('`').enumerate() {
            let is_path = ["crates/", "tests/", "benches/", "fuzz/", ".ci/"];
            let is_path = is_path.iter().any(|start| code.starts_with(start));
            let is_plain = !code.contains([' ', '*', '<', '{', ':', '\n']);
            if at % 2 == 0 || !is_path || !is_plain {
                continue;
            }
            named += 1;
            if !root().join(code).exists() {
                missing += &format!("{} names {code}\n", page.display());
            }
        }
    }
    assert!(missing.is_empty(), "{missing}");
    assert!(named > 50, "pages name more files");
}

#[test]
fn every_page_is_in_the_summary() {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let listed = links(&summary);
    for page in pages(&docs) {
        let name = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        assert!(
            name == "SUMMARY.md" || listed.contains(&name),
            "{name} is not in the summary"
        );
    }
}

/// Earlier addresses of pages lead to pages that are there, and to no other redirection.
#[test]
fn earlier_addresses_lead_to_pages() {
    let docs = root().join("docs");
    let settings = read(&docs.join("book.toml"));
    let (_, settings) = settings.split_once("[output.html.redirect]\n").unwrap();
    let mut seen = BTreeSet::new();
    for line in settings.lines().filter(|line| !line.is_empty()) {
        let names: Vec<_> = line.split('"').skip(1).step_by(2).collect();
        let [from, to] = names[..] else {
            panic!("{line} has other names");
        };
        let page = |html: &str| docs.join(html).with_extension("md");
        let from = from.strip_prefix('/').unwrap();
        assert!(!page(from).is_file(), "{line} hides a page");
        // From the folder of the earlier address, which need not be there.
        let folder = Path::new(from).parent().unwrap();
        let to = match to.strip_prefix("../") {
            Some(to) => page(&folder.with_file_name(to).to_string_lossy()),
            None => page(&folder.join(to).to_string_lossy()),
        };
        assert!(to.is_file(), "{line}: there is no {}", to.display());
        seen.insert(from);
    }
    for name in [
        "conformance",
        "nd-conformance",
        "wire-conformance",
        "wire-rows",
    ] {
        let from = format!("check/{name}.html");
        assert!(seen.contains(&*from), "{from} leads nowhere");
    }
    assert!(seen.len() > 30);
}

fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&read(&path));
        }
    }
}

#[test]
fn the_tests_that_pages_name_exist() {
    let mut code = String::new();
    for folder in ["crates", "tests", "fuzz"] {
        sources(&root().join(folder), &mut code);
    }
    let pages = ["check/standards", "internals/iwarp-over-quic"];
    let pages = pages.map(|page| read(&root().join(format!("docs/{page}.md"))));
    // Of the second page, the tables of events only.
    let rows = pages[1]
        .lines()
        .filter(|line| line.matches("_").count() > 2);
    let rows = pages[0].lines().chain(rows);
    let rows = rows.filter(|line| line.starts_with('|'));
    let tests = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let mut seen = 0;
    for name in tests.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        assert!(
            code.contains(&format!("fn {name}(")),
            "there is no test {name}"
        );
        seen += 1;
    }
    assert!(seen > 130, "the pages name their tests in the last column");
}

/// The tables of threats and of RFC 5042: each row names a test that exists, or says plainly that there is no promise. Each row of
/// the requirements about security that the wire suite does not check is in the page.
#[test]
fn each_promise_of_security_has_a_test() {
    let mut code = String::new();
    for folder in ["crates", "tests", "fuzz"] {
        sources(&root().join(folder), &mut code);
    }
    let page = read(&root().join("docs/use/security.md"));
    let (mut promised, mut refused) = (0, 0);
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let is_head = cells.contains(&"test") || cells.iter().all(|cell| cell.starts_with("---"));
        // The tables with fewer columns list what there is, and promise nothing.
        let has_tests = matches!(cells.len(), 4 | 5) || cells[1].starts_with('`');
        if is_head || !has_tests {
            continue;
        }
        let names: Vec<_> = cells
            .last()
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        if names.is_empty() {
            assert!(
                row.contains("**not promised**"),
                "neither a test nor \"not promised\": {row}"
            );
            refused += 1;
        }
        for name in names {
            let function = format!("fn {name}(");
            assert!(code.contains(&function), "there is no test {name}: {row}");
            promised += 1;
        }
    }
    assert!(
        promised > 40 && refused >= 4,
        "{promised} tests, {refused} refusals"
    );
    let cited = |id: &String| page.contains(id) || code.contains(id);
    let missing: Vec<_> = (1..=38)
        .map(|number| format!("SEC-{number:03}"))
        .filter(|id| !cited(id))
        .collect();
    assert!(
        missing.is_empty(),
        "neither in the page nor in the code: {missing:?}"
    );
}

#[test]
fn each_row_is_cited_in_the_code_or_listed_as_not_kept_there() {
    let pages = pages(&root().join("docs/check/iwarp-stack"));
    let rows: String = pages.iter().map(|page| read(page)).collect();
    let page = read(&root().join("docs/check/standards.md"));
    let (_, listed) = page
        .split_once("\n## What no line of the code keeps\n")
        .expect("the page has the list");
    let (listed, _) = listed
        .split_once("\n### ")
        .expect("a list of what is cited and not kept wholly follows");
    let mut cited = BTreeSet::new();
    for name in ["iwarp", "iwarp-io", "iwarp-mem", "rdma-buffer", "softnd"] {
        cited.extend(citations::words(
            &root().join("crates").join(name).join("src"),
        ));
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for row in rows.lines() {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (Some(id), Some("MUST" | "SHOULD")) = (cells.next(), cells.next()) else {
            continue;
        };
        let group = id.split('-').next().unwrap();
        if ["MPA", "MPA2", "DDP", "RDMAP", "RDMAPX"].contains(&group) {
            let is_listed = listed.contains(&format!("\n| {id} |"));
            if cited.contains(id) == is_listed {
                wrong.push(id);
            }
            seen += 1;
        }
    }
    assert!(seen > 200, "the page lists the rows with their level");
    assert!(
        wrong.is_empty(),
        "{wrong:?}: either a comment beside the code that keeps a row names it, outside of tests, or docs/check/standards.md lists it"
    );
}

/// The compiler that Cargo.toml names builds the dependencies too. In our own code clippy finds uses of a newer standard
/// library (`incompatible_msrv`).
#[test]
fn no_dependency_wants_a_newer_compiler_than_we_promise() {
    let version = |text: &str| -> Vec<u32> {
        let parts = text.split('.').map(|part| part.parse().unwrap());
        parts.chain([0, 0]).take(3).collect()
    };
    let run = |variable, program: &str, args: &[&str]| {
        let program = env::var_os(variable).unwrap_or_else(|| program.into());
        let command = &mut Command::new(program);
        let output = command.args(args).current_dir(root()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        output.stdout
    };
    let compiler = String::from_utf8(run("RUSTC", "rustc", &["-vV"])).unwrap();
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "));
    // Everything that is built here has been fetched, so this needs no registry.
    let platform = ["--filter-platform", host.unwrap()];
    let args = [
        &["metadata", "--format-version=1", "--locked"][..],
        &platform,
    ]
    .concat();
    let metadata: serde_json::Value =
        serde_json::from_slice(&run("CARGO", "cargo", &args)).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let wants = |package: &serde_json::Value| package["rust_version"].as_str().map(version);
    let own = packages.iter().find(|package| package["name"] == "softnd");
    let promised = wants(own.unwrap()).unwrap();
    let newer: Vec<_> = packages
        .iter()
        .filter(|package| wants(package).is_some_and(|wanted| wanted > promised))
        .map(|package| package["id"].to_string())
        .collect();
    assert!(packages.len() > 50 && newer.is_empty(), "{newer:?}");
}
