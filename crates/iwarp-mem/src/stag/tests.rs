use std::collections::{BTreeMap, HashSet};

use super::*;

fn permutation(seed: u64) -> Permutation {
    Permutation::new(&mut Random::new(Some(seed))).unwrap()
}

/// Each slot has its own index, and the way back finds it.
#[test]
fn permutation_is_one_to_one() {
    let step = if cfg!(miri) { 100_003 } else { 101 };
    let permutation = permutation(1);
    for slot in (0..MAX_SLOTS).step_by(step).chain([MAX_SLOTS - 1]) {
        let index = permutation.index(slot);
        assert!(index < MAX_SLOTS);
        assert_eq!(permutation.slot(index), slot);
        assert_eq!(permutation.slot_of(permutation.stag(slot, 0xa5)), slot);
    }
}

/// SEC-008: neighbouring slots have unrelated indices. Fixed seeds, so that chance does not fail it.
#[test]
fn neighbours_are_unrelated() {
    let count = if cfg!(miri) { 100 } else { 20_000 };
    for seed in 0..3 {
        let permutation = permutation(seed);
        let indices: Vec<u32> = (0..count).map(|slot| permutation.index(slot)).collect();
        let sums: HashSet<u32> = indices
            .windows(2)
            .map(|two| two[1].wrapping_sub(two[0]))
            .collect();
        assert!(
            sums.len() * 100 > indices.len() * 98,
            "differences repeat: {}",
            sums.len()
        );
        if cfg!(miri) {
            continue;
        }
        for bit in 0..INDEX_BITS {
            let flips = indices
                .windows(2)
                .filter(|two| (two[0] ^ two[1]) >> bit & 1 == 1)
                .count();
            assert!(
                (count as usize * 47 / 100..count as usize * 53 / 100).contains(&flips),
                "bit {bit}: {flips}"
            );
        }
    }
}

/// Two tables have different permutations, because these come from the operating system.
#[test]
fn tables_differ() {
    let draw = || {
        let mut random = Random::new(None);
        let permutation = Permutation::new(&mut random).unwrap();
        (0..16)
            .map(|slot| permutation.index(slot))
            .collect::<Vec<_>>()
    };
    // Equal with probability 2^-384.
    assert_ne!(draw(), draw());
    assert_eq!(permutation(9).index(5), permutation(9).index(5));
}

/// A seed gives the same STags with every compiler. These are the first numbers that SplitMix64's authors give for the seed
/// 0.
#[test]
fn seeds_mean_the_same_everywhere() {
    let mut random = Random::new(Some(0));
    let numbers = [
        0xE220_A839_7B1D_CDAF,
        0x6E78_9E6A_A1B9_65F4,
        0x06C4_5D18_8009_454F,
    ];
    assert_eq!([(); 3].map(|()| random.next()), numbers.map(Ok));
}

/// SEC-008: each number is used once, also where a new block of numbers is fetched, and all bits vary.
#[test]
fn the_systems_numbers_are_used_once() {
    let mut random = Random::new(None);
    let count = 5 * Pool::LEN / size_of::<u64>() + 1;
    let numbers: Vec<_> = (0..count).map(|_| random.next().unwrap()).collect();
    // Two of 641 are equal with a probability of 2^-46.
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), count);
    let (any, all) = numbers.iter().fold((0, u64::MAX), |(any, all), number| {
        (any | number, all & number)
    });
    assert_eq!((any, all), (u64::MAX, 0));
    let shown = format!("{random:?}");
    assert!(
        !shown.contains(|digit: char| digit.is_ascii_digit()),
        "{shown}"
    );
}

#[test]
fn without_randomness_there_is_neither_table_nor_key() {
    let broken = Permutation::new(&mut Random::broken()).map(|_| ());
    assert_eq!(broken, Err(RegisterError::NoRandomness));
    let key = Keys::default().draw(&mut Random::broken());
    assert_eq!(key, Err(RegisterError::NoRandomness));
}

/// SEC-009: a key does not return before a generation of others, and all keys are used about equally.
#[test]
fn keys_rest() {
    let draws = if cfg!(miri) { 200 } else { 50_000 };
    let (mut random, mut keys) = (Random::new(Some(3)), Keys::default());
    let (mut seen, mut counts) = (BTreeMap::new(), [0_u32; 256]);
    for at in 0..draws {
        let key = keys.draw(&mut random).unwrap();
        if let Some(before) = seen.insert(key, at) {
            assert!(
                at - before > Keys::GENERATION,
                "key {key} at {before} and {at}"
            );
        }
        counts[usize::from(key)] += 1;
    }
    if !cfg!(miri) {
        let expected = draws / 256;
        assert!(
            counts
                .iter()
                .all(|count| (expected * 8 / 10..expected * 12 / 10).contains(count)),
            "{counts:?}"
        );
    }
}

/// For a peer that knows all earlier keys of a slot, at least half of all keys are still possible.
#[test]
fn keys_stay_open() {
    let (mut random, mut keys) = (Random::new(None), Keys::default());
    for _ in 0..1000 {
        keys.draw(&mut random).unwrap();
        let taken: u32 = keys
            .current
            .iter()
            .zip(keys.previous)
            .map(|(a, b)| (a | b).count_ones())
            .sum();
        assert!(taken <= 2 * Keys::GENERATION);
    }
}
