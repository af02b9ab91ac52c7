//! The STags of a table, in the order in which registrations and windows get them.
//!
//! A peer that knows any number of STags must not be able to guess another (RFC 5040 §8.1.1 item 8, RFC 5042 §6.1.1). So an
//! STag has no parts: each use of a slot gets 32 new bits, which say nothing about the slot, its earlier uses, or the order
//! of the registrations. [`Index`](crate::index::Index) finds the slot of an STag.
//!
//! * The numbers 0, 1, 2 and so on are encrypted with a cipher of 32-bit blocks. Its keys are random numbers of the operating
//!   system, drawn anew for each table. The results look random, and none comes twice.
//! * After [`PASS`] numbers, half of all there are, the keys are drawn anew and the numbers begin at 0 again. STags of the pass
//!   before are left out until they have rested for [`PASS`] numbers (SEC-009). The place that an STag had in the pass before is
//!   found by decryption, so nothing has to be remembered. Half of all STags are possible at any time, even for somebody
//!   who has seen all earlier ones.

use iwarp::STag;

use crate::error::RegisterError;

/// Random numbers for the keys.
#[derive(Debug)]
pub(crate) enum Random {
    /// The operating system's.
    System,
    /// The state of a generator that gives the same numbers for the same seed.
    Seed(u64),
    #[cfg(all(test, not(loom)))]
    Broken,
}

impl Random {
    /// From the operating system, or the same sequence for the same seed.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::System, Self::Seed)
    }

    /// The next number. Fails if the operating system has none, never with a seed.
    pub(crate) fn next(&mut self) -> Result<u64, RegisterError> {
        match self {
            Self::System => getrandom::u64().map_err(|_| RegisterError::NoRandomness),
            Self::Seed(state) => Ok(split_mix(state)),
            #[cfg(all(test, not(loom)))]
            Self::Broken => Err(RegisterError::NoRandomness),
        }
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

/// Rounds of the cipher.
const ROUNDS: usize = 22;

/// Speck32 (Beaulieu et al., "The SIMON and SPECK Families of Lightweight Block Ciphers", 2013): a permutation of all 32-bit
/// numbers. The 22 round keys are random numbers each, 352 bits in all, in place of the 64 bits from which the paper derives
/// them.
struct Cipher {
    keys: [u16; ROUNDS],
}

impl Cipher {
    fn new(random: &mut Random) -> Result<Self, RegisterError> {
        let mut keys = [0; ROUNDS];
        for four in keys.chunks_mut(4) {
            let drawn = random.next()?.to_le_bytes();
            for (key, pair) in four.iter_mut().zip(drawn.as_chunks().0) {
                *key = u16::from_le_bytes(*pair);
            }
        }
        Ok(Self { keys })
    }

    fn encrypt(&self, block: u32) -> u32 {
        let (mut high, mut low) = halves(block);
        for key in &self.keys {
            high = high.rotate_right(7).wrapping_add(low) ^ key;
            low = low.rotate_left(2) ^ high;
        }
        block_of(high, low)
    }

    fn decrypt(&self, block: u32) -> u32 {
        let (mut high, mut low) = halves(block);
        for key in self.keys.iter().rev() {
            low = (low ^ high).rotate_right(2);
            high = (high ^ key).wrapping_sub(low).rotate_left(7);
        }
        block_of(high, low)
    }
}

fn halves(block: u32) -> (u16, u16) {
    let [a, b, c, d] = block.to_le_bytes();
    (u16::from_le_bytes([c, d]), u16::from_le_bytes([a, b]))
}

fn block_of(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

/// Numbers that are drawn with the same keys, and for which an STag rests.
const PASS: u32 = 1 << 31;

/// The lowest STag that is issued. The ready-to-receive message carries STag 0 or 1, and neither may name memory.
const LOWEST: u32 = 1 << 8;

/// The STags that are still to come.
pub(crate) struct Sequence {
    random: Random,
    cipher: Cipher,
    /// The cipher of the pass before.
    previous: Option<Cipher>,
    /// Numbers drawn in this pass.
    drawn: u32,
    /// [`PASS`], or less in tests.
    pass: u32,
}

impl Sequence {
    /// STags from random numbers of the operating system, or the same STags for the same seed.
    pub(crate) fn new(seed: Option<u64>) -> Result<Self, RegisterError> {
        Self::with_pass(Random::new(seed), PASS)
    }

    fn with_pass(mut random: Random, pass: u32) -> Result<Self, RegisterError> {
        Ok(Self {
            cipher: Cipher::new(&mut random)?,
            random,
            previous: None,
            drawn: 0,
            pass,
        })
    }

    /// STags for which there are no keys.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn broken() -> Self {
        Self {
            cipher: Cipher { keys: [0; ROUNDS] },
            random: Random::Broken,
            previous: None,
            drawn: 0,
            pass: 0,
        }
    }

    /// The next STag for which `is_free` is true. The table must be able to take a fair part of all STags.
    pub(crate) fn draw(&mut self, is_free: impl Fn(STag) -> bool) -> Result<STag, RegisterError> {
        loop {
            if self.drawn >= self.pass {
                let fresh = Cipher::new(&mut self.random)?;
                self.previous = Some(std::mem::replace(&mut self.cipher, fresh));
                self.drawn = 0;
            }
            let number = self.drawn;
            self.drawn += 1;
            let stag = self.cipher.encrypt(number);
            if stag >= LOWEST && is_free(STag(stag)) && !self.rests(stag, number) {
                return Ok(STag(stag));
            }
        }
    }

    /// Returns true if the pass before had this STag, less than a pass before `number` of this one.
    fn rests(&self, stag: u32, number: u32) -> bool {
        self.previous.as_ref().is_some_and(|previous| {
            let before = previous.decrypt(stag);
            before < self.pass && before > number
        })
    }
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sequence") // its keys are nobody's business
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
