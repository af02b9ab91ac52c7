//! The modules of the driver stand in an order, and each uses those before it alone.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{crates, root};

/// The modules of `iwarp-io`, the lowest ones first. Those of one line do not use each other.
const ORDER: &[&[&str]] = &[
    &[
        "bounded_file",
        "edges",
        "error_number",
        "lenient_cases",
        "living",
        "log",
        "memory",
        "peer_network",
        "printable",
        "processors",
        "sync",
        "thread_value",
    ],
    &[
        "peer_table",
        "protection_faults",
        "revision_1_peers",
        "simulation",
        "socket_buffer",
        "system_call",
        "user_files",
        "vain_polls",
    ],
    &[
        "buffers",
        "capture",
        "descriptors",
        "environment",
        "faults",
        "peer_backlog",
    ],
    &["progress"],
    &["interfaces", "transport"],
    &["driver"],
    &["cq"],
    &["endpoint"],
    &["setup"],
];

/// The module below the root that a file belongs to; `None` for the root.
fn module(file: &Path, src: &Path) -> Option<String> {
    let first = file.strip_prefix(src).ok()?.components().next()?;
    let name = Path::new(first.as_os_str()).file_stem()?.to_str()?;
    (name != "lib").then(|| name.to_owned())
}

#[test]
fn modules_of_the_driver_use_those_before_them_alone() {
    let folder = root().join("crates/iwarp-io");
    let src = folder.join("src");
    let place = |name: &str| ORDER.iter().position(|line| line.contains(&name));
    let mut seen = BTreeSet::new();
    let mut wrong = String::new();
    for code in crates(&folder) {
        for (from, to) in code.dependencies() {
            let (Some(from), Some(to)) = (module(from, &src), module(to, &src)) else {
                continue;
            };
            for name in [&from, &to] {
                if place(name).is_none() {
                    wrong += &format!("{name} has no place in ORDER\n");
                }
            }
            if from != to && place(&from) <= place(&to) {
                wrong += &format!("{from} uses {to}, which stands beside it or behind it\n");
            }
            seen.extend([from, to]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    for name in ["simulation", "progress", "transport", "endpoint", "setup"] {
        assert!(seen.contains(name), "{name} has moved");
    }
}
