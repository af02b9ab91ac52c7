//! Each planted bug that verbs can show is found: `RUSTFLAGS='--cfg planted_bugs' cargo test -p softverbs --test model planted`.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use iwarp_io::planted::{Bug, plant};

use crate::run::run;
use crate::seen::Seen;

/// This many seeds find each of them.
const SEEDS: u64 = 1000;

/// Bugs of the driver, of the engine under it, and of requests. Those of identifiers are [`Bug::OF_IDENTIFIERS`].
const BUGS: [Bug; 9] = [
    Bug::LastSegmentNotPlaced,
    Bug::LengthMiscounted,
    Bug::AtomicTwice,
    Bug::SharedReceiveTwice,
    Bug::ResultLost,
    Bug::ResultTwice,
    Bug::SlotFreeEarly,
    Bug::ReceivesFlushedByPeer,
    Bug::DoneBeforePlaced,
];

/// All in one test: a bug is planted in the whole process.
#[test]
fn planted_bugs_are_found() {
    let said = take_hook();
    set_hook(Box::new(|_| {}));
    let mut found = Vec::new();
    for bug in BUGS.into_iter().chain(Bug::OF_IDENTIFIERS) {
        plant(Some(bug));
        let seed = (0..SEEDS).find(|seed| {
            let done = catch_unwind(AssertUnwindSafe(|| run(*seed, &mut Seen::default())));
            done.is_err()
        });
        found.push((bug, seed));
    }
    plant(None);
    set_hook(said);
    println!("found by the seed: {found:#?}");
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(
        missed.is_empty(),
        "not found within {SEEDS} seeds: {missed:?}"
    );
}
