//! Compares the structures and numbers with the installed headers, by a C program that is made from our own tables.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::describe::Layout;
use super::{attributes, cm, constants, context, device, newer, objects};

const HEADERS: [&str; 2] = ["infiniband/verbs.h", "rdma/rdma_cma.h"];

fn layouts(has_newer: bool) -> impl Iterator<Item = &'static Layout> {
    let all = [
        attributes::LAYOUTS,
        cm::LAYOUTS,
        context::LAYOUTS,
        device::LAYOUTS,
        objects::LAYOUTS,
        if has_newer { newer::LAYOUTS } else { &[] },
    ];
    all.into_iter().flatten()
}

fn numbers(has_newer: bool) -> impl Iterator<Item = &'static (&'static str, i128)> {
    let newer = if has_newer { newer::CONSTANTS } else { &[] };
    constants::CONSTANTS.iter().chain(newer)
}

/// Returns true if the headers know what releases after rdma-core 44 have added.
fn know_newer(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join(HEADERS[0]));
    text.is_ok_and(|text| text.contains("struct ibv_mr_init_attr {"))
}

/// Structures to whose end newer releases have added members. Programs say how long theirs are, or name the added members only where they
/// were promised.
const GROWN: [&str; 3] = [
    "sizeof struct ibv_port_attr",
    "sizeof struct ibv_qp_ex",
    "sizeof struct ibv_mr_init_attr",
];

/// The members of the structure to whose front newer releases add some, and the line of its length. Its member `sz` says how long it is.
const GROWS_AT_FRONT: (&str, &str) = ("struct verbs_context.", "sizeof struct verbs_context");

/// Brings the figures of a newer release to those of rdma-core 44, where it has only added members.
fn without_additions(theirs: &mut BTreeMap<String, String>, ours: &BTreeMap<String, String>) {
    let number = |figures: &BTreeMap<String, String>, what: &str| -> Option<u64> {
        figures.get(what)?.parse().ok()
    };
    for what in GROWN {
        if number(theirs, what) > number(ours, what) {
            theirs.insert(what.to_owned(), ours[what].clone());
        }
    }
    let (members, len) = GROWS_AT_FRONT;
    let added = number(theirs, len).and_then(|theirs| theirs.checked_sub(number(ours, len)?));
    let Some(added) = added else {
        return;
    };
    theirs.insert(len.to_owned(), ours[len].clone());
    for (what, figure) in theirs.iter_mut() {
        if what.starts_with(members)
            && let Some((offset, size)) = figure.split_once(' ')
            && let Some(offset) = offset
                .parse::<u64>()
                .ok()
                .and_then(|offset| offset.checked_sub(added))
        {
            *figure = format!("{offset} {size}");
        }
    }
}

/// All that is compared, as lines of what it is and our figure.
fn ours(has_newer: bool) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for layout in layouts(has_newer) {
        let name = layout.name;
        all.insert(format!("sizeof {name}"), layout.size.to_string());
        for (path, offset, size) in layout.members.iter().filter(|member| !member.0.is_empty()) {
            all.insert(format!("{name}.{path}"), format!("{offset} {size}"));
        }
    }
    for (name, value) in numbers(has_newer) {
        all.insert((*name).to_owned(), value.to_string());
    }
    all
}

/// A program in C that prints these lines.
fn program(has_newer: bool) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stddef.h>\n");
    for header in HEADERS {
        writeln!(text, "#include <{header}>").unwrap();
    }
    text += "#define SIZE(type) printf(\"sizeof \" #type \"\\t%zu\\n\", sizeof(type));\n";
    text += "#define MEMBER(type, path) printf(#type \".\" #path \"\\t%zu %zu\\n\", offsetof(type, path), \
             sizeof(((type *)0)->path));\n";
    text += "#define NUMBER(name) printf(#name \"\\t%lld\\n\", (long long)(name));\n";
    text += "int main(void) {\n";
    for layout in layouts(has_newer) {
        let name = layout.name;
        writeln!(text, "SIZE({name})").unwrap();
        for (path, ..) in layout.members.iter().filter(|member| !member.0.is_empty()) {
            writeln!(text, "MEMBER({name}, {path})").unwrap();
        }
    }
    for (name, _) in numbers(has_newer) {
        writeln!(text, "NUMBER({name})").unwrap();
    }
    text + "return 0; }\n"
}

/// Where the headers are: `SOFTND_VERBS_HEADERS` names other ones, of a newer release.
fn headers() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("SOFTND_VERBS_HEADERS") {
        return Some(folder.into());
    }
    let folder = PathBuf::from("/usr/include");
    let installed = HEADERS.iter().all(|header| folder.join(header).exists());
    installed.then_some(folder)
}

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let Some(headers) = headers() else {
        let missing = "the headers of libibverbs-dev and librdmacm-dev are not installed";
        assert!(env::var_os("CI").is_none(), "{missing}");
        eprintln!("skipped: structures_and_numbers_are_those_of_the_headers: {missing}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    let has_newer = know_newer(&headers);
    fs::write(&source, program(has_newer)).unwrap();
    let compiled = Command::new("cc")
        .arg("-isystem")
        .arg(&headers)
        .arg("-o")
        .args([&binary, &source])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let output = Command::new(&binary).output().unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    let lines = theirs.lines().filter_map(|line| line.split_once('\t'));
    let owned = lines.map(|(what, figure)| (what.to_owned(), figure.to_owned()));
    let mut theirs: BTreeMap<_, _> = owned.collect();
    let ours = ours(has_newer);
    if env::var_os("SOFTND_VERBS_HEADERS").is_some() {
        without_additions(&mut theirs, &ours);
    }
    let mut wrong = String::new();
    for (what, figure) in &ours {
        match theirs.get(what) {
            Some(theirs) if theirs == figure => {}
            other => writeln!(wrong, "{what}: {figure} here, {other:?} in C").unwrap(),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(ours.len() > 900, "only {} figures are compared", ours.len());
}
