//! The program `promises`: `nd perf` measures each row, and its JSON has all figures that promises are about. No test here depends on
//! speed.

use std::time::Duration;

use softnd_benches::promises::Watch;
use softnd_benches::promises::measurer::{Measurer, Pace};
use softnd_benches::promises::rows::{self, PromisedRow};
use softnd_tests::nd;

/// The least that makes a row.
const TINY: Pace = Pace {
    turns: 3,
    length: Duration::from_millis(2),
    idle: Duration::from_millis(100),
    turns_on_device: 1,
};

/// The row with little to do for a debug build: its least and its greatest size up to 64 KiB, and few connections.
fn small(row: &PromisedRow) -> PromisedRow {
    let mut sizes: Vec<_> = row.sizes.iter().map(|size| (*size).min(65_536)).collect();
    sizes.dedup();
    if let [least, .., most] = *sizes {
        sizes = vec![least, most];
    }
    PromisedRow {
        arguments: row
            .arguments
            .replace("--connections 10000", "--connections 20"),
        sizes,
        ..row.clone()
    }
}

#[test]
fn nd_perf_measures_every_promise() {
    let measurer = Measurer {
        nd: nd::binary().to_owned(),
        pace: TINY,
    };
    let mut unmeasured = String::new();
    for row in rows::rows() {
        let row = small(&row);
        let lines = measurer.row(&row, &mut Watch::default());
        assert_eq!(lines.len(), row.promises.len(), "{row:?}");
        for line in lines.iter().filter(|line| !line.is_measured()) {
            unmeasured += &format!("{}: {}: {}\n", line.title, line.wanted, line.measured());
        }
    }
    assert!(unmeasured.is_empty(), "{unmeasured}");
}

#[test]
fn a_row_that_nd_refuses_has_its_reason() {
    let measurer = Measurer {
        nd: nd::binary().to_owned(),
        pace: TINY,
    };
    let mut row = small(&rows::rows()[0]);
    row.arguments += " --depth 0";
    let lines = measurer.row(&row, &mut Watch::default());
    for line in lines {
        let said = line.measured();
        assert!(said.contains("depth"), "{said}");
        assert!(!line.is_measured() && !line.verdict.holds, "{said}");
    }
}
