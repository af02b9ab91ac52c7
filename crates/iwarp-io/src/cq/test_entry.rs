//! Entries for the tests of queues.

use std::num::NonZeroU32;

use super::{Entry, Reason, Word};

/// An entry with its number in all of its words and in its tag, so that a mixture of two entries is detected. Every other one is solicited.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestEntry(u64);

/// The result of a [`TestEntry`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) number: u64,
    not: u64,
    double: u64,
    /// A word that only some entries have.
    extra: Option<u64>,
    tag: u64,
}

/// The bit of the tag of an entry with an extra word.
const EXTRA: u64 = 8;

pub(super) fn sample(number: u64) -> TestEntry {
    TestEntry(number)
}

impl TestEntry {
    pub(super) fn taken(self) -> Taken {
        let Self(number) = self;
        Taken {
            number,
            not: !number,
            double: 2 * number,
            extra: (self.tag() & EXTRA != 0).then_some(number),
            tag: self.tag(),
        }
    }
}

impl Entry for TestEntry {
    type Result = Taken;
    type Words = [Word; 4];

    const OVERFLOW: Reason = reason(1);

    fn wakes(&self) -> bool {
        self.0 % 2 == 1
    }

    fn tag(&self) -> u64 {
        let extra = if self.0.is_multiple_of(3) { EXTRA } else { 0 };
        (self.0 % 8) | extra
    }

    fn store(&self, words: &Self::Words) {
        let taken = self.taken();
        words[0].set(taken.number);
        words[1].set(taken.not);
        words[2].set(taken.double);
        if let Some(extra) = taken.extra {
            words[3].set(extra);
        }
    }

    fn load(words: &Self::Words, tag: u64) -> Taken {
        Taken {
            number: words[0].get(),
            not: words[1].get(),
            double: words[2].get(),
            extra: (tag & EXTRA != 0).then(|| words[3].get()),
            tag,
        }
    }
}

/// A reason of this number.
pub(super) const fn reason(number: u32) -> Reason {
    Reason(NonZeroU32::new(number).expect("no reason has the number 0"))
}
