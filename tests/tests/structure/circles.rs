//! No files of a crate depend on each other in a circle.

use std::collections::BTreeSet;

use softnd_tests::structure::Circle;

use crate::{crates, folders, other_folders, root, short};

/// Types that are too long for one file, by package and path. Their functions are in several files and call each other, so these files are
/// one unit. A type that no longer needs its line loses it: the test says which.
const SHARED_OUT: &[(&str, &str)] = &[
    // A connection of the engine: what arrives, what leaves and how it ends change one state.
    ("crates/iwarp", "conn::connection::Connection"),
    // The endpoint of QUIC: every event of a connection of QUIC may change its streams, and each stream may end its connection.
    ("crates/iwarp-io", "transport::quic::endpoint::QuicEndpoint"),
];

/// Circles as the paths of their files.
fn names(circles: &[Circle<'_>]) -> Vec<Vec<String>> {
    let names = |circle: &Circle<'_>| circle.files.iter().map(|file| short(file)).collect();
    circles.iter().map(names).collect()
}

#[test]
fn no_modules_depend_on_each_other_in_a_circle() {
    let root = root();
    let mut needed = BTreeSet::<&str>::new();
    let mut wrong = String::new();
    let mut files = 0;
    for folder in folders().into_iter().chain(other_folders()) {
        let package = short(&folder);
        let units = SHARED_OUT
            .iter()
            .filter(|(crate_name, _)| *crate_name == package);
        let units: Vec<&str> = units.map(|(_, unit)| *unit).collect();
        for part in crates(&folder) {
            files += part.files().len();
            let circles = part.circles(&units);
            for circle in &circles {
                wrong += "these files depend on each other in a circle:\n";
                wrong += &circle.describe(&root);
            }
            needed.extend(units.iter().copied().filter(|unit| {
                let others: Vec<&str> = units.iter().copied().filter(|it| it != unit).collect();
                names(&part.circles(&others)) != names(&circles)
            }));
        }
    }
    for (_, unit) in SHARED_OUT {
        if !needed.contains(unit) {
            wrong += &format!("{unit} causes no circle: delete its line from SHARED_OUT\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(files > 200, "the crates have more files than {files}");
}
