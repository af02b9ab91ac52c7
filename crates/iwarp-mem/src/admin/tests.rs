use std::collections::HashSet;

use iwarp::Pd;

use super::*;

struct Fixture {
    admin: Admin,
    slots: Slots,
    index: Index,
}

impl Fixture {
    fn new(capacity: u32, seed: u64) -> Self {
        Self {
            admin: Admin::new(Sequence::new(Some(seed)).unwrap()),
            slots: Slots::new(capacity),
            index: Index::new(),
        }
    }

    fn take(&mut self) -> Option<u32> {
        let (number, _, stag) = self.admin.take(&self.slots, &self.index).ok()?;
        self.index.insert(stag, number);
        Some(number)
    }
}

/// SEC-009: a slot is used again at once, and gets another STag each time.
#[test]
fn stags_rest_when_slots_are_reused() {
    let mut all = Fixture::new(100, 1);
    let mut stags = HashSet::new();
    for _ in 0..if cfg!(miri) { 50 } else { 3 * 4096 } {
        let (number, slot, stag) = all.admin.take(&all.slots, &all.index).unwrap();
        assert_eq!(number, 0, "memory grew for a single region");
        assert_eq!(slot.stag(), STag(0), "not published");
        assert!(stags.insert(stag), "{stag} came again");
        all.admin.give_back(number);
    }
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
        (Some(1), Some(3), None)
    );
}

/// A slot for which no STag can be drawn is not lost.
#[test]
fn a_slot_without_an_stag_stays_free() {
    let mut all = Fixture::new(1, 6);
    for _ in 0..2 {
        let stags = std::mem::replace(&mut all.admin.stags, Sequence::broken());
        let taken = all.admin.take(&all.slots, &all.index).map(|_| ());
        assert_eq!(taken, Err(RegisterError::NoRandomness));
        all.admin.stags = stags;
        assert_eq!((all.take(), all.take()), (Some(0), None));
        all.admin.give_back(0);
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

/// A number comes back only when all others have been used, and never while it is in use.
#[test]
fn domains_have_numbers_of_their_own() {
    let mut admin = Admin::new(Sequence::new(Some(1)).unwrap());
    let [one, two] = [(); 2].map(|()| admin.take_pd().unwrap());
    assert_ne!(one, two);
    admin.release_pd(two);
    let three = admin.take_pd().unwrap();
    assert!(three != one && three != two);
    // All others have been used.
    admin.next_pd = one.0;
    assert_eq!(admin.take_pd(), Some(two));
    let four = admin.take_pd().unwrap();
    assert!(![one, two, three].contains(&four));
    admin.next_pd = u32::MAX;
    assert_eq!(
        [(); 2].map(|()| admin.take_pd()),
        [Some(Pd(u32::MAX)), Some(Pd(0))]
    );
}
