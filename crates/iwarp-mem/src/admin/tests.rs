use std::collections::HashSet;

use super::*;

struct Fixture {
    admin: Admin,
    slots: Slots,
    permutation: Permutation,
}

impl Fixture {
    fn new(capacity: u32, seed: u64) -> Self {
        let mut random = Random::new(Some(seed));
        let permutation = Permutation::new(&mut random).unwrap();
        Self {
            admin: Admin::new(random),
            slots: Slots::new(capacity),
            permutation,
        }
    }

    fn take(&mut self) -> Option<u32> {
        self.admin
            .take(&self.slots, &self.permutation)
            .map(|(number, ..)| number)
            .ok()
    }
}

/// SEC-009: while there are fresh slots, a freed slot is not used again until `REST` more were freed. Then the oldest is
/// used first.
#[test]
fn slots_rest_before_they_are_reused() {
    let mut all = Fixture::new(u32::try_from(3 * REST).unwrap(), 1);
    for at in 0..REST {
        let number = all.take().unwrap();
        assert_eq!(number as usize, at, "a rested slot was taken too early");
        all.admin.give_back(number);
    }
    assert_eq!(all.take(), Some(0));
    assert_eq!(all.take(), Some(u32::try_from(REST).unwrap()));
}

/// MR-008: a full table returns an error, and takes registrations again when a slot is freed.
#[test]
fn full_table() {
    let mut all = Fixture::new(5, 2);
    let taken: HashSet<_> = (0..5).map(|_| all.take().unwrap()).collect();
    assert_eq!(taken.len(), 5);
    assert_eq!(all.take(), None);
    all.admin.give_back(3);
    all.admin.give_back(1);
    assert_eq!(
        (all.take(), all.take(), all.take()),
        (Some(3), Some(1), None)
    );
}

/// A slot for which no key can be drawn is not lost.
#[test]
fn a_slot_without_a_key_stays_free() {
    let mut all = Fixture::new(1, 6);
    let random = std::mem::replace(&mut all.admin.random, Random::broken());
    let taken = all.admin.take(&all.slots, &all.permutation).map(|_| ());
    assert_eq!(taken, Err(RegisterError::NoRandomness));
    all.admin.random = random;
    assert_eq!((all.take(), all.take()), (Some(0), None));
}

/// STag 0 and 1 name no memory: the slot with index 0 is passed over, wherever it is.
#[test]
fn index_zero_is_never_used() {
    let mut all = Fixture::new(u32::MAX, 3);
    let zero = all.permutation.slot(0);
    for start in [zero, zero.saturating_sub(1)] {
        all.admin.fresh = start;
        // This has the effect of taking the slots up to here one by one.
        while all.admin.keys.len() <= (start / CHUNK) as usize {
            all.admin
                .keys
                .push(vec![Keys::default(); CHUNK as usize].into_boxed_slice());
        }
        for _ in 0..3 {
            let number = all.take().unwrap();
            assert_ne!(number, zero);
            assert!(all.permutation.stag(number, 0).0 > 0xff);
        }
    }
}

#[test]
fn regions_know_whether_they_are_in_use() {
    let mut admin = Fixture::new(5, 4).admin;
    let region = |epoch| Place {
        slot: 7,
        r#use: Use { key: 1, epoch },
    };
    admin.begin_use(region(1));
    admin.begin_use(region(1));
    admin.end_use(region(1));
    assert!(admin.is_in_use(region(1)) && !admin.is_in_use(region(2)));
    // The count of a region that was released does not apply to the next region in its slot.
    assert!(admin.detach_all(region(1)).is_empty());
    admin.begin_use(region(2));
    admin.end_use(region(1));
    assert!(admin.is_in_use(region(2)) && !admin.is_in_use(region(1)));
    admin.end_use(region(2));
    assert!(!admin.is_in_use(region(2)));
}

/// Window numbers that wrap around skip those still in use.
#[test]
fn window_ids_are_not_reused_while_in_use() {
    let mut admin = Fixture::new(5, 5).admin;
    let first = admin.add_window(Pd(1));
    assert!(admin.has_made(first) && !admin.has_made(WindowId(1)));
    admin.windows_made = 1 << 32;
    let second = admin.add_window(Pd(1));
    assert_eq!((first, second), (WindowId(0), WindowId(1)));
    assert!(
        admin.has_made(WindowId(u32::MAX)),
        "before the numbers wrapped"
    );
}
