//! Bugs that break promises about registered memory are found: `RUSTFLAGS='--cfg planted_bugs' cargo test -p iwarp-mem planted_bugs_are_found`.

use iwarp::planted::{Bug, is_found_by};

use super::{atomics, table, windows};

#[test]
fn planted_bugs_are_found() {
    let bugs: [(Bug, fn()); 3] = [
        (
            Bug::WindowOpenToAll,
            windows::windows_open_their_range_to_one_stream,
        ),
        (
            Bug::AtomicRightUnchecked,
            atomics::rdmapx_011_atomics_need_their_own_right,
        ),
        (Bug::EndUnchecked, table::bounds_are_exact),
    ];
    for (bug, test) in bugs {
        assert!(is_found_by(bug, test), "{bug:?}");
    }
}
