//! Which crate depends on which.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::Command;

use crate::root;

/// The crates of the workspace that a crate may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("rdma-buffer", &[]),
    ("test-memory", &["rdma-buffer"]),
    // A provider over hardware needs the traits and nothing of iWARP.
    ("netdirect", &["rdma-buffer"]),
    ("iwarp", &[]),
    ("iwarp-mem", &["iwarp", "rdma-buffer"]),
    // The driver knows no type of NetworkDirect, so that another interface can be built on it.
    ("iwarp-io", &["iwarp", "iwarp-mem", "rdma-buffer"]),
    (
        "softnd",
        // The variables of the environment are read in the lowest crate.
        &["iwarp-io", "netdirect", "netdirect-provider", "rdma-buffer"],
    ),
    // The common rules of all providers, and nothing of the transports of their connections.
    ("netdirect-provider", &["netdirect"]),
    // Called by build scripts.
    ("version-nodes", &[]),
    ("libibverbs", &["rdma-buffer", "softverbs", "version-nodes"]),
    // Preloaded into every program that `nd run` starts.
    ("nd-paths", &[]),
    // A name and version nodes alone.
    ("librdmacm", &["version-nodes"]),
    // Verbs' objects know no type of NetworkDirect. The memory of programs comes in as buffers.
    ("softverbs", &["iwarp-io", "rdma-buffer"]),
    ("conform-report", &[]),
    // The suite has its own encoder, so that a mistake of the engine cannot hide in both ends.
    ("iwarp-conform", &["conform-report"]),
    // Clients of any provider.
    ("netdirect-async", &["netdirect"]),
    // The border of COM knows the traits, and no provider.
    (
        "netdirect-com",
        // The variables of the environment are read in the lowest crate.
        &["netdirect", "rdma-buffer"],
    ),
    // Checks of libraries, in a crate of their own: no library needs them.
    (
        "netdirect-com-conform",
        &[
            "conform-report",
            "netdirect",
            "netdirect-com",
            "netdirect-conform",
        ],
    ),
    // A provider behind this border.
    // The traits are of no use to C: what it needs of the tables is in the border.
    ("libnetdirect", &["netdirect-com"]),
    ("libsoftnd", &["netdirect", "netdirect-com", "softnd"]),
    ("netdirect-conform", &["conform-report", "netdirect"]),
    // A second provider, which has no code of iWARP.
    (
        "netdirect-verbs",
        // Of the last, that threads take no signals.
        &["netdirect", "netdirect-provider", "rdma-buffer"],
    ),
    // What the commands of nd share. The providers are named here alone.
    (
        "nd-base",
        &[
            // Which characters a terminal may be given.
            "conform-report",
            "netdirect",
            "netdirect-com",
            "netdirect-verbs",
            // The allocator of a process with few addresses.
            "rdma-buffer",
            "softnd",
        ],
    ),
    // Measuring knows no suite and no provider.
    ("nd-perf", &["conform-report", "nd-base", "netdirect"]),
    (
        "nd",
        &[
            "conform-report",
            "iwarp-conform",
            "nd-base",
            "nd-perf",
            "netdirect",
            // Winsock's catalogue.
            "netdirect-com",
            "netdirect-com-conform",
            "netdirect-conform",
            // `nd run` names its libraries, and checks that there are devices.
            "softnd",
            "softverbs",
        ],
    ),
    (
        "softnd-tests",
        &[
            // Parts of pages.
            "conform-report",
            "iwarp-conform",
            "netdirect",
            "netdirect-com",
            "netdirect-com-conform",
            "netdirect-conform",
            "softnd",
        ],
    ),
    (
        "softnd-benches",
        &[
            "conform-report",
            "iwarp",
            "iwarp-mem",
            "nd-base",
            "nd-perf",
            "netdirect",
            // How long tasks wait.
            "netdirect-async",
            "netdirect-verbs",
            "softnd",
        ],
    ),
    (
        "softnd-fuzz",
        &[
            "iwarp",
            "iwarp-io",
            "iwarp-mem",
            "netdirect",
            "netdirect-com",
            "softnd",
            "softverbs",
        ],
    ),
];

/// Dependencies beyond [`MAY_DEPEND_ON`] of the tests of a crate.
const OF_TESTS: &[(&str, &str)] = &[
    // The Memory of the engine's tests is copied to and from.
    ("rdma-buffer", "iwarp"),
    // Memory that an application unmaps too early.
    ("iwarp-mem", "test-memory"),
    ("iwarp-io", "test-memory"),
    ("netdirect-async", "softnd"),
    ("netdirect-com", "softnd"),
    ("netdirect-com-conform", "softnd"),
    // The readme's program.
    ("softnd-tests", "netdirect-async"),
    // The promises are measured by the program nd.
    ("softnd-tests", "softnd-benches"),
    // The example runs on both.
    ("netdirect-verbs", "softnd"),
    // With the feature that is off by default.
    ("netdirect-async", "netdirect-async"),
    // The suite is checked with a provider, whole and broken.
    ("netdirect-conform", "softnd"),
];

/// One dependency of one package of the workspace.
struct Dependency {
    dependent: String,
    on: String,
    is_of_tests: bool,
}

/// The dependencies of all packages, as cargo understands the manifests.
fn dependencies() -> Vec<Dependency> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = ["metadata", "--no-deps", "--format-version=1", "--offline"];
    let output = Command::new(cargo)
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let target = dependency["target"].as_str().unwrap_or_default();
            found.push(Dependency {
                dependent: package["name"].as_str().unwrap().to_owned(),
                on: dependency["name"].as_str().unwrap().to_owned(),
                is_of_tests: dependency["kind"] == "dev" || target == "cfg(loom)",
            });
        }
    }
    found
}

#[test]
fn crates_depend_on_each_other_as_the_picture_shows() {
    let own: BTreeSet<&str> = MAY_DEPEND_ON.iter().map(|(name, _)| *name).collect();
    let all = dependencies();
    let mut wrong = String::new();
    let mut used = BTreeSet::new();
    for Dependency {
        dependent,
        on,
        is_of_tests,
    } in &all
    {
        let row = MAY_DEPEND_ON.iter().find(|(name, _)| name == dependent);
        let Some((_, may)) = row else {
            wrong += &format!("{dependent} is missing in MAY_DEPEND_ON\n");
            continue;
        };
        let pair = (dependent.as_str(), on.as_str());
        if !own.contains(pair.1) || may.contains(&pair.1) {
            continue;
        }
        if *is_of_tests && OF_TESTS.contains(&pair) {
            used.insert(pair);
        } else {
            wrong += &format!(
                "{dependent} must not depend on {on}: MAY_DEPEND_ON lists what it may depend on\n"
            );
        }
    }
    for pair in OF_TESTS.iter().filter(|pair| !used.contains(*pair)) {
        let (dependent, on) = pair;
        wrong += &format!("{dependent} no longer depends on {on}: delete the line from OF_TESTS\n");
    }
    assert!(wrong.is_empty(), "{wrong}");
    let own = all
        .iter()
        .filter(|dependency| own.contains(&*dependency.on));
    assert!(own.count() > 15, "the crates depend on each other");
}

/// By its name, in one of the boxes.
#[test]
fn the_picture_has_each_crate() {
    let picture = fs::read_to_string(root().join("docs/internals/crates.svg")).unwrap();
    let texts = picture.split("<text ").skip(1);
    let texts = texts.filter_map(|text| text.split(['>', '<']).nth(1));
    let names: BTreeSet<_> = texts
        .flat_map(|text| text.split([',', ' ', '(', ')']))
        .collect();
    let folders = crate::folders();
    let crates = folders.iter().map(|folder| folder.file_name().unwrap());
    let missing: Vec<_> = crates
        .filter(|name| !names.contains(name.to_str().unwrap()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/internals/crates.svg lacks {missing:?}"
    );
    assert!(folders.len() > 20, "{folders:?}");
}

/// Libraries that programs in C and C++ load, or are linked with.
const FOR_C: [&str; 5] = [
    "libibverbs",
    "libnetdirect",
    "librdmacm",
    "libsoftnd",
    "nd-paths",
];

/// What such a library must not be built with: the linker would drop it again.
const OF_SUITES: [&str; 4] = [
    "conform-report",
    "iwarp-conform",
    "netdirect-com-conform",
    "netdirect-conform",
];

#[test]
fn libraries_for_c_are_built_without_the_suites() {
    let all = dependencies();
    for library in FOR_C {
        let mut built = BTreeSet::from([library]);
        let mut left = vec![library];
        while let Some(dependent) = left.pop() {
            let dependent = all
                .iter()
                .filter(|it| it.dependent == dependent && !it.is_of_tests);
            left.extend(dependent.map(|it| &*it.on).filter(|on| built.insert(on)));
        }
        let suites = OF_SUITES.iter().filter(|suite| built.contains(**suite));
        let suites: Vec<_> = suites.collect();
        assert!(suites.is_empty(), "{library} is built with {suites:?}");
        assert!(library == "nd-paths" || built.len() > 1, "{library}");
    }
    for suite in OF_SUITES {
        assert!(all.iter().any(|it| it.on == suite), "{suite} has no users");
    }
}

/// What the feature `udp` brings.
const OF_UDP: [&str; 5] = ["quinn-proto", "quinn-udp", "rcgen", "ring", "rustls"];

/// The crates that have the feature.
const WITH_UDP: [&str; 9] = [
    "iwarp-conform",
    "iwarp-io",
    "libibverbs",
    "libsoftnd",
    "nd",
    "nd-base",
    "nd-perf",
    "softnd",
    "softverbs",
];

/// The packages that a crate is built with, on any system. Fetches those of other systems if they are not here.
fn built_with(package: &str, features: &[&str]) -> BTreeSet<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--locked",
            "--package",
            package,
            "--edges",
            "normal",
        ])
        .args(["--target", "all", "--prefix", "none", "--format", "{p}"])
        .args(features)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn without_the_feature_udp_nothing_of_quic_is_built() {
    for package in WITH_UDP {
        let with = built_with(package, &[]);
        assert!(with.contains("ring"), "{package} has {with:?}");
        let without = built_with(package, &["--no-default-features"]);
        let left: Vec<_> = OF_UDP.iter().filter(|it| without.contains(**it)).collect();
        assert!(left.is_empty(), "{package} is built with {left:?}");
        assert!(without.contains(package), "{package} has {without:?}");
    }
}

/// The rows of the table of dependencies in `docs/architecture.md`: the crates, and who uses them.
fn users_on_page() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, table) = page.split_once("\n| crate | used by | for |\n").unwrap();
    let mut rows = Vec::new();
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let users = cells[2].replace("tests of ", "").replace(" and ", ", ");
        let users: Vec<_> = users.split(", ").map(str::to_owned).collect();
        for name in cells[1].split('`').skip(1).step_by(2) {
            rows.push((name.to_owned(), users.clone()));
        }
    }
    rows
}

/// The name under which the page knows a package.
fn name_on_page(package: &str) -> &str {
    match package {
        "softnd-tests" => "tests",
        "softnd-benches" => "benches",
        "softnd-fuzz" => "fuzz",
        name => name,
    }
}

#[test]
fn the_page_names_each_dependency_and_all_who_use_it() {
    let own: Vec<&str> = MAY_DEPEND_ON.iter().map(|(name, _)| *name).collect();
    let all = dependencies();
    let documented = users_on_page();
    let mut wrong = String::new();
    for Dependency {
        dependent,
        on,
        is_of_tests,
    } in &all
    {
        if own.contains(&on.as_str()) {
            continue;
        }
        let user = name_on_page(dependent);
        match documented.iter().find(|(name, _)| name == on) {
            None => wrong += &format!("{on}, which {dependent} uses, has no row\n"),
            Some((_, users)) if !is_of_tests && !users.iter().any(|name| name == user) => {
                wrong += &format!("the row of {on} does not name {user}, which uses it\n");
            }
            Some(_) => {}
        }
    }
    for (on, users) in &documented {
        for dependent in own.iter().filter(|dependent| {
            users.iter().any(|user| user == name_on_page(dependent))
                && !all
                    .iter()
                    .any(|dependency| dependency.dependent == **dependent && dependency.on == *on)
        }) {
            let user = name_on_page(dependent);
            wrong += &format!("the row of {on} names {user}, which does not use it\n");
        }
        if !all.iter().any(|dependency| dependency.on == *on) {
            wrong += &format!("{on} has a row, and nobody uses it\n");
        }
    }
    assert!(wrong.is_empty(), "docs/architecture.md:\n{wrong}");
    assert!(documented.len() > 20, "the table has its rows");
}
