use std::thread;

use iwarp::StreamId;

use super::*;
use crate::{slot::tests::pins_added, slots::CHUNK};

const WHO: Scope = Scope {
    pd: Pd(1),
    stream: StreamId(7),
};

/// Tries `stag` in each way in which a peer can name one, and returns how often a slot was pinned for that.
fn pins_of_a_try(table: &Table, stag: STag, to: u64) -> u64 {
    let before = pins_added();
    let at = RemoteAddress { stag, to };
    for need in [Access::RemoteWrite, Access::RemoteRead, Access::Atomic] {
        assert_eq!(
            table.pinned().check(at, 8, need, WHO),
            Err(AccessError::InvalidSTag)
        );
        assert_eq!(table.check(at, 8, need, WHO), Err(AccessError::InvalidSTag));
    }
    assert!(table.invalidate_remote(stag, WHO).is_err());
    pins_added() - before
}

/// STags that lead to the entry of `stag` in the index.
fn of_the_same_entry(stag: STag) -> impl Iterator<Item = STag> {
    (1..=u32::MAX / CHUNK).map(move |high| STag(stag.0 ^ (high * CHUNK)))
}

/// Deregister waits for pins. A peer that tries STags of one entry of the index, and at last the right one, adds none to the slot that
/// is there: not before the region is revoked, not while Deregister waits for a pin of another thread, and not afterwards.
#[test]
fn guesses_at_one_entry_do_not_delay_a_deregister() {
    let table = Table::new();
    let buffer = Buffer::new(64);
    let region = table.register(&buffer, Rights::REMOTE_WRITE, WHO.pd);
    let region = region.expect("registered");
    let (stag, to) = (region.stag(), region.base());
    let at = RemoteAddress { stag, to };
    let span = table.check(at, 8, Access::RemoteWrite, WHO);
    let guesses = || of_the_same_entry(stag).step_by(997);
    assert!(guesses().all(|guess| table.shared.index.find(guess).is_some()));

    assert!(guesses().all(|guess| pins_of_a_try(&table, guess, to) == 0));
    let held = table.pin(span.expect("granted")).expect("pinned");
    let deregisters = thread::spawn(move || region.deregister().expect("no window"));
    while table.shared.index.find(stag).is_some() {
        thread::yield_now();
    }
    assert!(guesses().all(|guess| pins_of_a_try(&table, guess, to) == 0));
    assert_eq!(pins_of_a_try(&table, stag, to), 0);
    assert!(!deregisters.is_finished(), "the pin holds it");
    drop(held);
    deregisters.join().expect("deregistered");
    assert_eq!(pins_of_a_try(&table, stag, to), 0);
}
