use super::*;

/// STags with different low bits: multiples of a large odd number.
fn stag(at: u32) -> STag {
    STag(at.wrapping_mul(0x9E37_79B1))
}

fn filled(count: u32) -> Index {
    let index = Index::new();
    for at in 0..count {
        index.reserve(at as usize + 1, |slot| Some(stag(slot)));
        assert!(index.has_room(stag(at)), "{at}");
        index.insert(stag(at), at);
    }
    index
}

/// Tables that grow keep what they have, and stay at most three quarters full.
#[test]
fn growth_keeps_the_slots() {
    let count = if cfg!(miri) { 1100 } else { 12 * CHUNK };
    let index = filled(count);
    assert!((0..count).all(|at| index.find(stag(at)) == Some(at)));
    let current = index.current.load(Ordering::Relaxed) as usize;
    let entries = index.tables[current].get().unwrap().len();
    let least = (4 * count as usize).div_ceil(3);
    assert_eq!(entries, least.next_power_of_two());
}

/// An empty index has no table. What was removed is gone, and its place is free for another STag with these low bits.
#[test]
fn removed_stags_leave_room() {
    assert_eq!(Index::new().find(STag(7)), None);
    let index = filled(3);
    index.remove(stag(1));
    assert_eq!(index.find(stag(1)), None);
    let alike = STag(stag(1).0 ^ 1 << 31);
    assert!(index.has_room(alike) && !index.has_room(STag(stag(2).0 ^ 1 << 31)));
    index.insert(alike, 1);
    assert_eq!(index.find(alike), Some(1));
}

/// There is room for all slots of a table of the greatest capacity.
#[test]
fn the_last_table_has_two_entries_for_each_slot() {
    assert_eq!(FIRST << (TABLES - 1), 2 * MAX_SLOTS as usize);
}

/// A reader finds an STag at every moment while the tables grow.
#[test]
fn readers_find_stags_during_growth() {
    let count = if cfg!(miri) { 1100 } else { 20 * CHUNK };
    let index = filled(1);
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::Acquire) == 0 {
                assert_eq!(index.find(stag(0)), Some(0));
            }
        });
        for at in 1..count {
            index.reserve(at as usize + 1, |slot| Some(stag(slot)));
            index.insert(stag(at), at);
        }
        done.store(1, Ordering::Release);
    });
}
