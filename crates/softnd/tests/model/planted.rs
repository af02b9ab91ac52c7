//! Each planted bug is found: `RUSTFLAGS='--cfg planted_bugs' cargo test -p softnd --test model planted`.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use iwarp_io::planted::{Bug, plant};

use super::Links;
use super::coverage::Coverage;
use super::run::run;

/// This many seeds find each of them. Most are found within 150 seeds.
const SEEDS: u64 = 1000;

/// All in one test: a bug is planted in the whole process.
#[test]
fn planted_bugs_are_found() {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let mut found = Vec::new();
    let over_streams = Bug::ALL.map(|bug| (bug, Links::Streams));
    let over_udp = Bug::OF_QUIC.map(|bug| (bug, Links::Udp));
    for (bug, links) in over_streams.into_iter().chain(over_udp) {
        plant(Some(bug));
        let seed = (0..SEEDS).find(|seed| {
            let done = catch_unwind(AssertUnwindSafe(|| {
                run(*seed, links, &mut Coverage::default(), None);
            }));
            done.is_err()
        });
        found.push((bug, seed));
    }
    plant(None);
    set_hook(hook);
    println!("found by the seed: {found:#?}");
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(
        missed.is_empty(),
        "not found within {SEEDS} seeds: {missed:?}"
    );
}
