use std::sync::{
    Barrier,
    atomic::{AtomicU64, Ordering},
};

use iwarp::Crc;
use proptest::prelude::*;

use super::*;

const BACKENDS: [Backend; 2] = [Backend::Words, Backend::Bulk];

/// `count` octets in which neighbours differ, and which repeat with no power of two.
fn pattern(count: usize, fill: u8) -> Vec<u8> {
    (0..251)
        .cycle()
        .map(|i: u8| i.wrapping_mul(31).wrapping_add(fill))
        .take(count)
        .collect()
}

/// Memory of atomic words with room around a stretch of it.
struct Arena {
    words: Vec<AtomicU64>,
}

impl Arena {
    fn new(octets: &[u8]) -> Self {
        let (words, rest) = octets.as_chunks::<WORD>();
        assert!(rest.is_empty());
        Self {
            words: words
                .iter()
                .map(|word| AtomicU64::new(u64::from_ne_bytes(*word)))
                .collect(),
        }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.words
            .as_ptr()
            .cast::<u8>()
            .cast_mut()
            .wrapping_add(offset)
    }

    /// All of it, as own memory is, or only a stretch, as memory of the application is.
    fn extent(&self, own: bool, from: usize, len: usize) -> Extent {
        let (from, len) = if own {
            (0, self.words.len() * WORD)
        } else {
            (from, len)
        };
        let from = self.at(from).addr() as u64;
        Extent {
            from,
            to: from + len as u64,
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .collect()
    }
}

/// One copy: where it begins, how long it is, and how much more of the memory around it belongs to the buffer.
fn stretch() -> impl Strategy<Value = (usize, usize, usize, usize)> {
    let len = prop_oneof![0..40_usize, 500..540_usize, 0..3000_usize];
    (16..48_usize, len, 0..16_usize, 0..16_usize)
}

fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 20 } else { usual })
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    /// Exactly the range changes, at every alignment, in own and foreign memory, by both backends.
    #[test]
    fn copy_in_is_a_copy((at, len, before, after) in stretch(), own: bool, last: bool, fill: u8) {
        let src = pattern(len, fill);
        let part = if last { Part::Last } else { Part::More };
        for backend in BACKENDS {
            let mut expected = pattern(3072 + 64, 0);
            let arena = Arena::new(&expected);
            let extent = arena.extent(own, at - before, before + len + after);
            // SAFETY: inside the arena, which consists of words and belongs to this thread.
            unsafe { copy_in(arena.at(at), extent, &src, part, backend) };
            expected[at..at + len].copy_from_slice(&src);
            prop_assert!(arena.to_vec() == expected, "{backend:?}");
        }
    }

    /// And the way back.
    #[test]
    fn copy_out_is_a_copy((at, len, before, after) in stretch(), own: bool) {
        let octets = pattern(3072 + 64, 0);
        let arena = Arena::new(&octets);
        for backend in BACKENDS {
            let extent = arena.extent(own, at - before, before + len + after);
            let mut dst = vec![0; len];
            // SAFETY: inside the arena, which consists of words and belongs to this thread.
            unsafe { copy_out(arena.at(at), extent, &mut dst, backend) };
            prop_assert!(dst == octets[at..at + len], "{backend:?}");
            prop_assert!(arena.to_vec() == octets);
        }
    }
}

/// The copy and its CRC are right for every length, some of which use one pass, blocks and words, and for every earlier
/// CRC. The tests of `one_pass` run this once more with the copies in one pass switched off.
#[test]
fn copies_that_are_summed_have_the_sum_of_their_octets() {
    let octets = pattern(40_000, 0);
    let arena = Arena::new(&octets);
    let lens = if cfg!(miri) {
        vec![0, 1, 700]
    } else {
        let around = [
            one_pass::MIN,
            one_pass::MIN + one_pass::STRIDE,
            SUM_BLOCK,
            2 * SUM_BLOCK,
        ];
        let around = around.map(|len| [len - 1, len, len + 1, len + 100]);
        [vec![0, 1, 7, 511, 512], around.concat()].concat()
    };
    for backend in BACKENDS {
        for (at, len) in lens.iter().flat_map(|len| [(0, *len), (13, *len)]) {
            let (mut crc, mut dst) = (Crc::new(), vec![0; len]);
            crc.update(b"a header");
            let mut plain = crc;
            let extent = arena.extent(true, 0, 0);
            // SAFETY: inside the arena, which consists of words and belongs to this thread.
            unsafe { copy_out_summed(arena.at(at), extent, &mut dst, &mut crc, backend) };
            plain.update(&octets[at..at + len]);
            assert!(dst == octets[at..at + len], "{backend:?} {at}+{len}");
            assert_eq!(crc.finish(), plain.finish(), "{backend:?} {at}+{len}");
        }
    }
}

/// Octets outside a foreign buffer are not touched, not even rewritten, because whole words are used only inside of it.
#[test]
fn words_across_the_ends_are_not_used() {
    let arena = Arena::new(&[0; 64]);
    let extent = arena.extent(false, 3, 42);
    let usable: Vec<usize> = (3..45)
        .filter(|at| extent.has_word(arena.at(*at)))
        .collect();
    assert_eq!(usable, (8..40).collect::<Vec<_>>());
    // An address at the very end of the address space does not overflow.
    let last = std::ptr::without_provenance::<u8>(usize::MAX);
    assert!(!extent.has_word(last));
}

/// Neighbours that share a word: neither loses what it wrote, nor sees the other's octets torn.
#[test]
fn neighbours_in_one_word_are_kept() {
    let rounds: u8 = if cfg!(miri) { 10 } else { 250 };
    let arena = Arena::new(&[0; 32]);
    let extent = arena.extent(true, 0, 32);
    let barrier = Barrier::new(4);
    // Four stretches that cover two words and overlap in none of the octets.
    let stretches = [(0, 3), (3, 6), (9, 2), (11, 5)];
    let turn = |at: usize, len: usize| {
        barrier.wait();
        for round in 1..=rounds {
            let mut seen = vec![0; len];
            // SAFETY: inside the arena, which all threads reach by words only.
            unsafe {
                copy_in(
                    arena.at(at),
                    extent,
                    &vec![round; len],
                    Part::Last,
                    Backend::Words,
                )
            };
            // SAFETY: as above.
            unsafe { copy_out(arena.at(at), extent, &mut seen, Backend::Words) };
            assert_eq!(seen, vec![round; len], "at {at}");
        }
    };
    // The arena's pointers are made in the threads that use them.
    std::thread::scope(|scope| {
        for (at, len) in stretches {
            scope.spawn(move || turn(at, len));
        }
    });
    assert!(arena.to_vec()[..16].iter().all(|octet| *octet == rounds));
}

/// A thread that sees the last octet of a message sees the whole message, after a bulk copy as well
/// (ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED).
#[test]
fn last_octet_is_stored_last() {
    for backend in BACKENDS {
        let rounds = match backend {
            _ if cfg!(miri) => 4,
            Backend::Words => 100,
            Backend::Bulk => 1000,
        };
        for (at, len) in [
            (0, 8),
            (3, 5),
            (5, 7),
            (0, 512),
            (1, 513),
            (7, 600),
            (0, 4096),
            (5, 4099),
            (0, 65_472),
        ] {
            assert_eq!(
                early_octets(backend, rounds, at, len),
                0,
                "{backend:?} {at}+{len}"
            );
        }
    }
}

/// Places messages of equal octets, while a second thread spins on the last octet. Returns in how many messages an earlier
/// octet was old.
fn early_octets(backend: Backend, rounds: usize, at: usize, len: usize) -> usize {
    let octet = |round: usize| u8::try_from(round % 255 + 1).unwrap();
    let arena = Arena::new(&vec![0; 65_536]);
    let extent = arena.extent(true, 0, 0);
    let (placed, seen) = (Barrier::new(2), AtomicU64::new(0));
    let reader = || {
        let (mut copy, mut early, last) = (vec![0; len], 0, at + len - 1);
        for round in 0..rounds {
            // Spins, and now and then yields to the writer in case there is no core for both.
            let is_there = || {
                arena.words[last / WORD]
                    .load(Ordering::Acquire)
                    .to_ne_bytes()[last % WORD]
                    == octet(round)
            };
            while !(0..500).any(|_| is_there()) {
                std::thread::yield_now();
            }
            // SAFETY: inside the arena; by words, so that it races with the bulk copy only, which is a device.
            unsafe { copy_out(arena.at(at), extent, &mut copy, Backend::Words) };
            early += usize::from(copy != vec![octet(round); len]);
            seen.fetch_add(1, Ordering::Release);
        }
        early
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            placed.wait();
            reader()
        });
        placed.wait();
        for round in 0..rounds {
            let src = vec![octet(round); len];
            // SAFETY: inside the arena; the bulk copy has the standing of a device.
            unsafe { copy_in(arena.at(at), extent, &src, Part::Last, backend) };
            while seen.load(Ordering::Acquire) <= round as u64 {
                std::thread::yield_now();
            }
        }
        reader.join().unwrap()
    })
}
