//! How well a peer that has seen all earlier STags of a table can predict the next one (SEC-008, SEC-009).
//!
//! Each test counts how often a way of guessing is right. The seeds are fixed, so that chance does not fail a test. A right
//! guess of all 32 bits is never allowed. A guess of the upper 24 bits may be right as often as chance makes it.

use std::collections::HashMap;

use iwarp::{Access, AccessError, Memory, Pd, RemoteAddress, STag, Scope, StreamId};
use iwarp_mem::{Registration, Rights, Table, TableOptions};
use rdma_buffer::Buffer;

const PD: Pd = Pd(1);

/// Registrations of a run.
const COUNT: usize = if cfg!(miri) { 60 } else { 3 * 4096 };

/// How long the regions of a run live.
#[derive(Clone, Copy, Debug)]
enum Lives {
    /// Each region is deregistered before the next is registered.
    OneAtATime,
    /// All regions stay registered.
    Held,
    /// Up to 500 regions are registered at a time, and any of them is the next to be deregistered.
    Mixed,
}

const LIVES: [Lives; 3] = [Lives::OneAtATime, Lives::Held, Lives::Mixed];

fn table(seed: u64) -> Table {
    Table::with_options(&TableOptions::default().seed(seed)).unwrap()
}

/// The STags of `count` registrations, in their order.
fn issue(table: &Table, lives: Lives, count: usize) -> Vec<u32> {
    let buffer = Buffer::new(8);
    let mut chosen: usize = 12345;
    let mut alive: Vec<Registration> = Vec::new();
    let mut stags = Vec::new();
    for _ in 0..count {
        let region = table.register(&buffer, Rights::all(), PD).unwrap();
        stags.push(region.stag().0);
        alive.push(region);
        chosen = chosen.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let drop_one = match lives {
            Lives::OneAtATime => true,
            Lives::Held => false,
            Lives::Mixed => alive.len() == 500 || chosen >> 16 & 1 == 1,
        };
        if drop_one {
            drop(alive.swap_remove((chosen >> 8) % alive.len()));
        }
    }
    stags
}

/// How often each lag `k` would have predicted a value: the value of `k` places before came again.
fn lags(values: &[u32]) -> HashMap<usize, usize> {
    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut lags = HashMap::new();
    for (at, value) in values.iter().enumerate() {
        let earlier = places.entry(*value).or_default();
        for before in &*earlier {
            *lags.entry(at - before).or_default() += 1;
        }
        earlier.push(at);
    }
    lags
}

/// Asserts that no value comes twice as a whole, and that the upper 24 bits come again no oftener than chance makes them,
/// neither somewhere nor at one distance.
#[track_caller]
fn assert_unrelated(values: &[u32], what: &str) {
    assert_eq!(lags(values).values().sum::<usize>(), 0, "{what}");
    let upper: Vec<u32> = values.iter().map(|value| value >> 8).collect();
    let lags = lags(&upper);
    // Pairs of equal upper bits: of 12,288 random values, 4.5 on average, and more than 24 in one run of 10^10. At one
    // distance, two are equal in one run of 3,000 and four in none.
    let pairs: usize = lags.values().sum();
    assert!(pairs <= 24, "{what}: {pairs} pairs have equal upper bits");
    let most = lags.into_iter().max_by_key(|(_, times)| *times);
    let most = most.filter(|(_, times)| *times > 3);
    assert_eq!(most, None, "{what}: a distance, and how often it was right");
}

/// An earlier STag again; the upper bits of an earlier one; those of the STag `k` registrations before, for every `k`.
#[test]
fn earlier_stags_do_not_come_again() {
    for lives in LIVES {
        assert_unrelated(&issue(&table(1), lives, COUNT), &format!("{lives:?}"));
    }
}

/// A number made of two STags in a row.
type Rule = fn(u32, u32) -> u32;

/// Steps from one STag to the next, by addition, subtraction and exclusive or, do not come again.
#[test]
fn steps_between_neighbours_do_not_come_again() {
    let steps: [(&str, Rule); 3] = [
        ("difference", |before, after| after.wrapping_sub(before)),
        ("sum", |before, after| after.wrapping_add(before)),
        ("exclusive or", |before, after| after ^ before),
    ];
    for lives in LIVES {
        let stags = issue(&table(2), lives, COUNT);
        for (name, step) in steps {
            let steps = stags.windows(2).map(|two| step(two[0], two[1]));
            assert_unrelated(&steps.collect::<Vec<_>>(), &format!("{lives:?}, {name}"));
        }
    }
}

/// Two STags in a row do not give the next one.
#[test]
fn two_neighbours_do_not_give_the_third() {
    let rules: [(&str, Rule); 6] = [
        ("sum", |a, b| a.wrapping_add(b)),
        ("difference", |a, b| b.wrapping_sub(a)),
        ("difference back", |a, b| a.wrapping_sub(b)),
        ("the same step again", |a, b| {
            b.wrapping_add(b.wrapping_sub(a))
        }),
        ("exclusive or", |a, b| a ^ b),
        ("the next number", |_, b| b.wrapping_add(1)),
    ];
    for lives in LIVES {
        let stags = issue(&table(3), lives, COUNT);
        for (name, rule) in rules {
            let right = |shift: u32| {
                let guessed =
                    |three: &&[u32]| rule(three[0], three[1]) >> shift == three[2] >> shift;
                stags.windows(3).filter(guessed).count()
            };
            // By chance the upper bits are right once in 1,365 runs.
            assert_eq!(right(0), 0, "{lives:?}, {name}");
            assert!(right(8) <= 1, "{lives:?}, {name}: the upper bits");
        }
    }
}

/// Each bit of the STags is set in half of them, and changes in half of the steps.
#[test]
#[cfg_attr(miri, ignore = "needs many STags")]
fn all_bits_vary() {
    for lives in LIVES {
        let stags = issue(&table(4), lives, COUNT);
        for bit in 0..32 {
            let set = |value: &u32| value >> bit & 1 == 1;
            let ones = stags.iter().filter(|stag| set(stag)).count();
            let flips = stags.windows(2).filter(|two| set(&(two[0] ^ two[1])));
            for (what, times) in [("set", ones), ("changed", flips.count())] {
                // Half of them within six standard deviations.
                let half = COUNT / 2 - 333..COUNT / 2 + 333;
                assert!(half.contains(&times), "{lives:?}, bit {bit} {what} {times}");
            }
        }
    }
}

/// The attack: a peer that knows the STags of its own 4,200 regions, which are gone, tries every key with each of their indices on the
/// regions of ten later clients.
#[test]
#[cfg_attr(miri, ignore = "a million checks")]
fn keys_beside_earlier_indices_open_nothing() {
    let table = table(5);
    let known = issue(&table, Lives::OneAtATime, 4200);
    let buffer = Buffer::new(64);
    let later: Vec<_> = (0..10)
        .map(|_| table.register(&buffer, Rights::all(), PD).unwrap())
        .collect();
    let who = Scope {
        pd: PD,
        stream: StreamId(1),
    };
    for index in known.iter().map(|stag| stag & !0xff) {
        for key in 0..=0xff {
            let stag = STag(index | key);
            let at = RemoteAddress {
                stag,
                to: buffer.address(),
            };
            let got = table.check(at, 8, Access::RemoteWrite, who);
            assert_eq!(got, Err(AccessError::InvalidSTag), "{stag} was guessed");
        }
    }
    assert_eq!(later.len(), 10, "they stayed registered");
}
