//! The constants of both sides of the demo: private data, sizes, and the number of octets that each has to check.

use std::time::Duration;

use netdirect::{Buffer, ReadLimits};

/// How long either side waits for the other before it gives up: everything here takes milliseconds.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// The Reads that the client serves and wants to issue.
pub(super) const CLIENT_LIMITS: ReadLimits = ReadLimits {
    inbound: 4,
    outbound: 8,
};

/// The Reads that the server grants of those that the client asks for.
pub(super) const SERVER_LIMITS: ReadLimits = ReadLimits {
    inbound: 6,
    outbound: 2,
};

/// The private data of the client's connections, except for the first, whose private data the user chooses. The server rejects peers with
/// other private data, because any program may connect to its port.
pub(super) mod words {
    pub(in crate::demo) const TO_READ: &[u8] = b"to read what is gone";
    pub(in crate::demo) const TO_WRITE: &[u8] = b"to write too far";
    pub(in crate::demo) const QUESTION: &[u8] = b"may I come in?";
    pub(in crate::demo) const BULK: &[u8] = b"for bulk";
}

/// Sizes that both sides know.
pub(super) mod sizes {
    /// Step 2: the client's Send and the server's answer.
    pub(in crate::demo) const SEND: usize = 4096;
    pub(in crate::demo) const ANSWER: usize = 1000;
    /// Steps 3 and 4: the regions written to and read from.
    pub(in crate::demo) const REGION: usize = 64 << 10;
    /// Step 5: the region behind the window, and the part of it that the window shows.
    pub(in crate::demo) const BEHIND: usize = 16 << 10;
    pub(in crate::demo) const WINDOW: std::ops::Range<usize> = 4096..12_288;
    /// Step 6: the octets of the refused Write.
    pub(in crate::demo) const REFUSED: usize = 64;
    /// Step 8: octets and requests by each way, and round trips.
    pub(in crate::demo) const BULK: usize = 8 << 20;
    pub(in crate::demo) const CHUNK: usize = 64 << 10;
    pub(in crate::demo) const CHUNKS: u32 = 128;
    pub(in crate::demo) const PINGS: u32 = 1000;
    pub(in crate::demo) const PING: usize = 32;
    const _: () = assert!(CHUNK * CHUNKS as usize == BULK);
}

/// Octets that depend on a seed and on their place, so that misplaced octets do not look right.
struct Pattern(u64);

impl Pattern {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next octets; all but the last ones are asked for in multiples of eight.
    fn fill(&mut self, octets: &mut [u8]) {
        for octets in octets.chunks_mut(8) {
            // Marsaglia's xorshift, 64 bits.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            octets.copy_from_slice(&self.0.to_le_bytes()[..octets.len()]);
        }
    }
}

/// The first octets of the pattern of a seed.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    Pattern::new(seed).fill(&mut out);
    out
}

/// Calls `each` with the place and the octets of every block of a buffer, as the pattern of a seed has them. Needs no memory for
/// it, however long the buffer is.
pub(super) fn blocks<E>(
    seed: u64,
    buffer: &Buffer,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut pattern, mut block) = (Pattern::new(seed), [0; 4096]);
    for at in (0..buffer.len()).step_by(block.len()) {
        let len = block.len().min(buffer.len() - at);
        pattern.fill(&mut block[..len]);
        each(at, &block[..len])?;
    }
    Ok(())
}

/// Fills a buffer with the pattern of a seed.
pub(super) fn fill(buffer: &Buffer, seed: u64) {
    let written = blocks(seed, buffer, |at, octets| {
        buffer.write(at, octets);
        Ok::<_, std::convert::Infallible>(())
    });
    match written {
        Ok(()) => {}
    }
}

/// The private data of the server when it accepts, and when it rejects.
pub(super) const WELCOME: &[u8] = b"welcome, says the server";
pub(super) const SORRY: &[u8] = b"sorry, not today";

/// The octets that the client has to check: the answer, two Reads, the bulk Read, and the round trips.
pub(super) const CLIENT_CHECKS: u64 = (sizes::ANSWER
    + sizes::REGION
    + (sizes::WINDOW.end - sizes::WINDOW.start)
    + sizes::BULK
    + sizes::PINGS as usize * sizes::PING) as u64;

/// The octets that the server has to check: the Send, the Write, the region behind the window twice, the memory around the
/// refused Write, the bulk by Send and by Write, and the round trips.
pub(super) const SERVER_CHECKS: u64 = (sizes::SEND
    + sizes::REGION
    + 2 * sizes::BEHIND
    + sizes::BEHIND
    + 2 * sizes::BULK
    + sizes::PINGS as usize * sizes::PING) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_their_length_and_differ_by_seed() {
        assert!(pattern(1, 0).is_empty());
        assert_eq!(pattern(1, 13).len(), 13);
        assert_eq!(pattern(1, 100)[..50], pattern(1, 50)[..]);
        assert_ne!(pattern(1, 64), pattern(2, 64));
        assert_ne!(pattern(1, 64)[..32], pattern(1, 64)[32..]);
    }

    #[test]
    fn buffers_are_filled_and_read_as_one_pattern() {
        for len in [0, 1, 4095, 4096, 4097, 10_003] {
            let buffer = Buffer::new(len);
            fill(&buffer, 3);
            assert_eq!(buffer.to_vec(), pattern(3, len));
        }
    }
}
