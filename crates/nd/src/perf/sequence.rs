//! The octet by which the two sides of a Write ping-pong follow each other, and which Writes report their success.

use netdirect::OpFlags;

use super::spec::{Mode, QUIET};

/// Never 0, which is what the octet is between two turns, and never the same twice in a row.
#[derive(Debug)]
pub(super) struct Sequence {
    value: u8,
    quiet: bool,
    posted: u64,
}

impl Sequence {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            value: 0,
            quiet: mode == Mode::Memory,
            posted: 0,
        }
    }

    /// The next value to write or to wait for, and the flags of the Write that carries it.
    #[inline]
    pub(super) fn next(&mut self) -> (u8, OpFlags) {
        self.value = self.value % u8::MAX + 1;
        self.posted += 1;
        let flags = if self.quiet && !self.posted.is_multiple_of(QUIET.into()) {
            OpFlags::SILENT_SUCCESS
        } else {
            OpFlags::empty()
        };
        (self.value, flags)
    }

    /// Completions that nobody has taken yet: in memory mode all, else they were taken while waiting.
    pub(super) fn reported(&self) -> u64 {
        if self.quiet {
            self.posted / u64::from(QUIET)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_never_zero_and_change_with_every_step() {
        let mut sequence = Sequence::new(Mode::Poll);
        let mut last = 0;
        for _ in 0..1000 {
            let (value, flags) = sequence.next();
            assert!(value != 0 && value != last && flags.is_empty());
            last = value;
        }
        assert_eq!(sequence.reported(), 0);
    }

    #[test]
    fn in_memory_mode_one_write_of_a_batch_reports() {
        let mut sequence = Sequence::new(Mode::Memory);
        let loud = (0..3 * QUIET).filter(|_| sequence.next().1.is_empty());
        assert_eq!((loud.count(), sequence.reported()), (3, 3));
    }
}
