//! No files of a crate depend on each other in a circle.

use std::collections::BTreeSet;

use softnd_tests::structure::Crate;

use crate::{folders, root, short};

/// Files that still depend on each other in a circle. Lines are deleted and never added: the test says which.
const IN_A_CIRCLE: &[&str] = &[
    "crates/softnd/src/adapter.rs",
    "crates/softnd/src/cm/connector.rs",
    "crates/softnd/src/cm/connector/active.rs",
    "crates/softnd/src/cm/greeting.rs",
    "crates/softnd/src/cm/listener.rs",
    "crates/softnd/src/cm/listener/accepting.rs",
    "crates/softnd/src/cm/mod.rs",
    "crates/softnd/src/cq.rs",
    "crates/softnd/src/cq/queue.rs",
    "crates/softnd/src/cq/ring.rs",
    "crates/softnd/src/file.rs",
    "crates/softnd/src/mr.rs",
    "crates/softnd/src/mw.rs",
    "crates/softnd/src/options.rs",
    "crates/softnd/src/peer.rs",
    "crates/softnd/src/peer/quirks.rs",
    "crates/softnd/src/qp.rs",
    "crates/softnd/src/qp/flush.rs",
    "crates/softnd/src/qp/handle.rs",
    "crates/softnd/src/qp/link.rs",
    "crates/softnd/src/qp/outbox.rs",
    "crates/softnd/src/qp/removal.rs",
];

#[test]
fn no_modules_depend_on_each_other_in_a_circle() {
    let root = root();
    let mut found = BTreeSet::new();
    let mut wrong = String::new();
    let mut files = 0;
    let others = ["tests", "benches", "fuzz"].map(|name| root.join(name));
    for folder in folders().into_iter().chain(others) {
        for part in Crate::of_package(&folder) {
            files += part.files().len();
            for circle in part.circles() {
                let names: Vec<_> = circle.files.iter().map(|file| short(file)).collect();
                if names
                    .iter()
                    .any(|name| !IN_A_CIRCLE.contains(&name.as_str()))
                {
                    wrong += "these files depend on each other in a circle:\n";
                    wrong += &circle.describe(&root);
                }
                found.extend(names);
            }
        }
    }
    for name in IN_A_CIRCLE {
        if !found.contains(*name) {
            wrong += &format!("{name} is in no circle: delete its line from IN_A_CIRCLE\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(files > 200, "the crates have more files than {files}");
}
