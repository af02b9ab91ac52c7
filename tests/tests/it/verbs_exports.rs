//! Compares the names and versions that the libraries export with those of the installed libraries of rdma-core 44.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::nd;

/// Where Debian has the libraries.
const INSTALLED: &str = "/usr/lib/x86_64-linux-gnu";

/// Entries of an ABI before 2007, with other layouts, which no program in use names. The book lists them.
const LEFT_OUT: &str = "ibv_register_driver@IBVERBS_1.1";

/// Names that rdma-core 56 has added to the node of drivers of rdma-core 44.
const OF_56: [&str; 2] = [
    "ibv_cmd_create_cq_ex2@@IBVERBS_PRIVATE_34",
    "ibv_wr_opcode_str@@IBVERBS_PRIVATE_34",
];

/// Nodes of newer releases for their drivers.
const NEWER: [&str; 4] = ["57", "59", "64", "65"];

/// Nodes of newer releases for programs: rdma-core 59, 62, 64 and 65, and 60 and 65.
const NEWER_PUBLIC: [&str; 6] = [
    "IBVERBS_1.15",
    "IBVERBS_1.16",
    "IBVERBS_1.17",
    "IBVERBS_1.18",
    "RDMACM_1.4",
    "RDMACM_1.5",
];

/// The names with versions of a library, `name@@NODE` or `name@NODE`, and the nodes themselves.
fn exports(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm comes with every C compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", library.display());
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').nth(2));
    names.map(str::to_owned).collect()
}

/// One of our libraries.
fn ours(name: &str) -> PathBuf {
    nd::build_libraries();
    let binary = nd::binary();
    binary.parent().expect("nd is in a folder").join(name)
}

fn skipped(test: &str, why: &str) {
    assert!(env::var_os("CI").is_none(), "{why}");
    eprintln!("skipped: {test}: {why}");
}

/// The names of both installed libraries, without nodes.
fn installed() -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        let library = Path::new(INSTALLED).join(name);
        if !library.is_file() {
            return None;
        }
        all.extend(
            exports(&library)
                .into_iter()
                .filter(|name| name.contains('@')),
        );
    }
    Some(all)
}

#[test]
fn the_names_are_those_of_the_installed_libraries() {
    let Some(theirs) = installed() else {
        let missing = "the libraries of libibverbs1 and librdmacm1 are not installed";
        return skipped("the_names_are_those_of_the_installed_libraries", missing);
    };
    let ours: BTreeSet<_> = exports(&ours("libibverbs.so"))
        .into_iter()
        .filter(|name| {
            let of_newer = |node: &&&str| name.ends_with(&format!("_PRIVATE_{node}"));
            let of_newer_public = |node: &&str| name.ends_with(&format!("@{node}"));
            let is_newer = OF_56.contains(&&**name)
                || NEWER.iter().any(|node| of_newer(&node))
                || NEWER_PUBLIC.iter().any(of_newer_public);
            name.contains('@') && !is_newer
        })
        .collect();
    let is_old = |name: &&String| {
        *name == LEFT_OUT || name.ends_with("@IBVERBS_1.0") && !name.contains("@@")
    };
    let left_out = theirs.iter().filter(is_old).count();
    let missing: Vec<_> = theirs
        .difference(&ours)
        .filter(|name| !is_old(name))
        .collect();
    let beyond: Vec<_> = ours.difference(&theirs).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    assert!(beyond.is_empty(), "not in rdma-core 44: {beyond:?}");
    let public = ours.iter().filter(|name| !name.contains("_PRIVATE_"));
    assert_eq!((left_out, public.count()), (34, 143));
}

#[test]
fn nodes_of_newer_releases_have_the_names_of_drivers() {
    let ours = exports(&ours("libibverbs.so"));
    for node in NEWER {
        let has = |name: &str| {
            ["@", "@@"]
                .iter()
                .any(|at| ours.contains(&format!("{name}{at}IBVERBS_PRIVATE_{node}")))
        };
        for name in [
            "ibv_cmd_create_cq",
            "ibv_cmd_query_port_speed",
            "ibv_cmd_reg_mr_ex",
            "ibv_query_gid_type",
            "verbs_set_ops",
        ] {
            assert!(has(name), "{name} is not in node {node}");
        }
        assert!(has(&format!("verbs_register_driver_{node}")), "{node}");
    }
    for name in OF_56 {
        assert!(ours.contains(name), "{name}");
    }
}
