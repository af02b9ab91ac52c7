//! Types have names in the terms of the RFCs, of NetworkDirect or of sockets, and no two of one crate have the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::{crates, folders, short};

/// Names that say nothing in these terms, each with a better one for what it stood for.
const IMAGES: &[(&str, &str)] = &[
    ("Bell", "SleeperWaker"),
    ("Door", "ListeningSite"),
    ("Greeting", "MpaStartup"),
    ("Guest", "PendingPeer"),
    ("Inbox", "RxQueue"),
    ("Landing", "DirectPlacement"),
    ("Lookback", "PendingChecks"),
    ("Nearness", "CpuPlacement"),
    ("News", "DeferredWork"),
    ("Outbox", "TxQueue"),
    ("Talk", "Connection"),
    ("Towards", "the name of what it leads to"),
    ("Voice", "ServerOutput"),
];

/// Names that several modules of a crate use for different types, which other modules see: by crate. A name that no longer needs its line
/// loses it: the test says which.
const SHARED: &[(&str, &str)] = &[
    // The errors of a layer, used as `mpa::Error` and `ddp::Error`.
    ("crates/iwarp", "Error"),
    // The four types that each transport has, and the enums of them.
    ("crates/iwarp-io", "Bound"),
    ("crates/iwarp-io", "Dialer"),
    ("crates/iwarp-io", "Listener"),
    ("crates/iwarp-io", "Wire"),
    // A type for Windows, and one for other systems.
    ("crates/iwarp-mem", "Piece"),
    // A type for Windows, and one for systems that have no handles of Windows.
    ("crates/netdirect-com", "File"),
    ("crates/netdirect-com", "Port"),
];

/// The type that a line defines, and whether other modules see the type.
fn defined(line: &str) -> Option<(&str, bool)> {
    let (is_seen, rest) = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (true, rest.split_once(") ")?.1),
        Some(rest) => (true, rest.strip_prefix(' ')?),
        None => (false, line),
    };
    let (kind, rest) = rest.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    ["enum", "struct", "trait", "union"]
        .contains(&kind)
        .then_some((name, is_seen))
}

#[test]
fn types_have_names_of_the_field_and_no_two_the_same() {
    let mut wrong = String::new();
    let mut needed = BTreeSet::new();
    let mut types = 0;
    for folder in folders() {
        let package = short(&folder);
        let mut seen = BTreeMap::<String, BTreeSet<String>>::new();
        for part in crates(&folder) {
            for file in part.files() {
                let text = fs::read_to_string(file).unwrap();
                for (name, is_seen) in text.lines().filter_map(defined) {
                    types += 1;
                    if let Some((_, better)) = IMAGES.iter().find(|(image, _)| *image == name) {
                        let file = short(file);
                        wrong += &format!("{file}: {name} is an image: say {better}\n");
                    }
                    if is_seen {
                        seen.entry(name.to_owned()).or_default().insert(short(file));
                    }
                }
            }
        }
        for (name, files) in seen.into_iter().filter(|(_, files)| files.len() > 1) {
            let line = (package.as_str(), name.as_str());
            match SHARED.iter().find(|listed| **listed == line) {
                Some(listed) => drop(needed.insert(listed)),
                None => wrong += &format!("{name} is defined in each of {files:?}\n"),
            }
        }
    }
    for listed in SHARED {
        if !needed.contains(listed) {
            wrong += &format!("{listed:?} is one type only: delete its line\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(types > 500, "the crates have types");
}

#[test]
fn definitions_are_told_from_other_lines() {
    assert_eq!(
        defined("pub(in crate::a) struct A<T>(T);"),
        Some(("A", true))
    );
    assert_eq!(defined("pub trait B: Debug {"), Some(("B", true)));
    assert_eq!(defined("enum C {"), Some(("C", false)));
    for line in [
        "    struct D;",
        "pub fn e() {}",
        "/// struct F",
        "pub use g;",
    ] {
        assert_eq!(defined(line), None, "{line}");
    }
}
