//! The parts of an STag: a slot's index under a keyed permutation, and a key that changes with each use.
//!
//! A peer that knows one STag must not be able to guess another (RFC 5040 §8.1.1 item 8, RFC 5042 §6.1.1):
//!
//! * The upper 24 bits are the slot number sent through a Feistel network whose round functions are tables of random
//!   numbers, drawn anew for each STag table. Neighbouring slots get unrelated indices, sparse in the whole space.
//! * The low 8 bits are drawn at random for each use of the slot, among the keys not used there lately.
//! * Slots are reused in the order they were freed and as late as possible (`admin`).

use iwarp::STag;

use crate::error::RegisterError;

/// Random numbers for tables and keys: the operating system's, fetched many at a time.
#[derive(Debug)]
pub(crate) struct Random(Source);

#[derive(Debug)]
enum Source {
    System(Box<Pool>),
    /// The state of a generator that gives the same numbers for the same seed.
    Seed(u64),
    #[cfg(all(test, not(loom)))]
    Broken,
}

/// Random numbers that were fetched and not used yet.
struct Pool {
    octets: [u8; Self::LEN],
    used: usize,
}

impl Pool {
    const LEN: usize = 1024;

    fn next(&mut self) -> Result<u64, RegisterError> {
        if self.used == Self::LEN {
            getrandom::fill(&mut self.octets).map_err(|_| RegisterError::NoRandomness)?;
            self.used = 0;
        }
        let (numbers, _) = self.octets.as_chunks_mut();
        // Used numbers are overwritten.
        let number = std::mem::take(&mut numbers[self.used / size_of::<u64>()]);
        self.used += size_of::<u64>();
        Ok(u64::from_ne_bytes(number))
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool") // its numbers are nobody's business
    }
}

impl Random {
    /// From the operating system, or the same sequence for the same seed.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map_or_else(
            || {
                Source::System(Box::new(Pool {
                    octets: [0; Pool::LEN],
                    used: Pool::LEN,
                }))
            },
            Source::Seed,
        ))
    }

    /// The next number. Fails if the operating system has none, never with a seed.
    pub(crate) fn next(&mut self) -> Result<u64, RegisterError> {
        match &mut self.0 {
            Source::System(pool) => pool.next(),
            Source::Seed(state) => Ok(split_mix(state)),
            #[cfg(all(test, not(loom)))]
            Source::Broken => Err(RegisterError::NoRandomness),
        }
    }

    /// A number below `bound`, which is not zero and far below 2^32, so that the bias does not matter.
    fn below(&mut self, bound: u32) -> Result<u32, RegisterError> {
        let scaled = u128::from(self.next()?) * u128::from(bound);
        Ok(u32::try_from(scaled >> 64).unwrap_or(0))
    }

    /// A system that has no random numbers.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn broken() -> Self {
        Self(Source::Broken)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): numbers that look random and repeat for the same seed, on every machine.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// Bits of an index, and half of it.
const INDEX_BITS: u32 = 24;
const HALF_BITS: u32 = INDEX_BITS / 2;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;
const ROUNDS: usize = 6;

/// The most slots that a table can have: one per index.
pub(crate) const MAX_SLOTS: u32 = 1 << INDEX_BITS;

/// A random function of half an index.
type Round = [u16; 1 << HALF_BITS];

/// The keyed permutation between slot numbers and STag indices.
///
/// The permutation has six rounds of random functions, given as tables of 48 KiB in all. A lookup touches six entries. No
/// cipher of this width is as quick, and with truly random round functions there is no key schedule to attack.
#[derive(Debug)]
pub(crate) struct Permutation {
    rounds: Box<[Round; ROUNDS]>,
}

impl Permutation {
    pub(crate) fn new(random: &mut Random) -> Result<Self, RegisterError> {
        let rounds = vec![[0; 1 << HALF_BITS]; ROUNDS].into_boxed_slice();
        let mut rounds: Box<[Round; ROUNDS]> = rounds.try_into().expect("as many as were made");
        for four in rounds.as_flattened_mut().chunks_mut(4) {
            let drawn = random.next()?.to_le_bytes();
            for (entry, pair) in four.iter_mut().zip(drawn.as_chunks::<2>().0) {
                *entry = u16::from_le_bytes(*pair) >> (16 - HALF_BITS);
            }
        }
        Ok(Self { rounds })
    }

    /// The index of a slot in STags.
    pub(crate) fn index(&self, slot: u32) -> u32 {
        let halves = (slot >> HALF_BITS & HALF_MASK, slot & HALF_MASK);
        let (left, right) = self.rounds.iter().fold(halves, |(left, right), round| {
            (right, left ^ entry(round, right))
        });
        left << HALF_BITS | right
    }

    /// The slot behind an index.
    pub(crate) fn slot(&self, index: u32) -> u32 {
        let halves = (index >> HALF_BITS & HALF_MASK, index & HALF_MASK);
        let back = |(left, right), round: &Round| (right ^ entry(round, left), left);
        let (left, right) = self.rounds.iter().rev().fold(halves, back);
        left << HALF_BITS | right
    }

    /// The STag of a slot used with `key`.
    pub(crate) fn stag(&self, slot: u32, key: u8) -> STag {
        STag(self.index(slot) << 8 | u32::from(key))
    }

    /// The slot that an STag names, whether or not the slot is in use.
    pub(crate) fn slot_of(&self, stag: STag) -> u32 {
        self.slot(stag.0 >> 8)
    }
}

/// One value of a round function.
fn entry(round: &Round, at: u32) -> u32 {
    u32::from(round[(at & HALF_MASK) as usize])
}

/// The keys a slot has had lately, in two generations.
///
/// A key returns after [`Keys::GENERATION`] other keys at the earliest. Each key is drawn from at least half of all keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keys {
    current: [u64; 4],
    previous: [u64; 4],
}

impl Keys {
    /// Keys drawn before the older generation may come back.
    pub(crate) const GENERATION: u32 = 64;

    /// A key for the next use.
    pub(crate) fn draw(&mut self, random: &mut Random) -> Result<u8, RegisterError> {
        let count: u32 = self.current.iter().map(|bits| bits.count_ones()).sum();
        if count >= Self::GENERATION {
            self.previous = std::mem::take(&mut self.current);
        }
        let taken = |key: u8| {
            let (word, bit) = (usize::from(key >> 6), key & 63);
            (self.current[word] | self.previous[word]) >> bit & 1 == 1
        };
        let open = (0..=u8::MAX).filter(|key| !taken(*key)).count();
        let nth = random.below(u32::try_from(open).unwrap_or(1))? as usize;
        let key = (0..=u8::MAX)
            .filter(|key| !taken(*key))
            .nth(nth)
            .unwrap_or_default();
        self.current[usize::from(key >> 6)] |= 1 << (key & 63);
        Ok(key)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
