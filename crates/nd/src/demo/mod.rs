//! `nd demo`: two processes go through what RDMA does, one step after the other, and say what happened on each side.
//!
//! The client is the process that was started; it starts the server, a second process of the same program, and reads from
//! its standard output what that has to say ([`report`]). Both follow the same script, [`client`] and [`server`], and keep
//! in step by messages over the connections themselves. Every byte moved is checked by the side that has it in the end.

pub(crate) mod args;
mod client;
mod report;
mod server;
mod talk;

use std::time::Duration;

use self::args::{DemoArgs, DemoServerArgs};
use crate::errors::Result;

/// How long either side waits for the other before it gives up: everything here takes milliseconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Starts the second process and goes through all steps.
pub(crate) fn run(args: &DemoArgs, verbose: u8) -> Result<()> {
    client::run(args, verbose)
}

/// The second process.
pub(crate) fn serve(args: &DemoServerArgs) -> Result<()> {
    server::run(args)
}

/// What the client says when it connects, but for the first time: that is the user's choice. The server rejects whoever
/// says something else, since anybody may connect to its port.
mod words {
    pub(super) const TO_READ: &[u8] = b"to read what is gone";
    pub(super) const TO_WRITE: &[u8] = b"to write too far";
    pub(super) const QUESTION: &[u8] = b"may I come in?";
    pub(super) const BULK: &[u8] = b"for bulk";
}

/// Sizes that both sides know.
mod sizes {
    /// Step 2: the client's Send and the server's answer.
    pub(super) const SEND: usize = 4096;
    pub(super) const ANSWER: usize = 1000;
    /// Steps 3 and 4: the regions written to and read from.
    pub(super) const REGION: usize = 64 << 10;
    /// Step 5: the region behind the window, and the part of it that the window shows.
    pub(super) const BEHIND: usize = 16 << 10;
    pub(super) const WINDOW: std::ops::Range<usize> = 4096..12_288;
    /// Step 6: what is asked for in vain.
    pub(super) const REFUSED: usize = 64;
    /// Step 8: octets and requests by each way, and round trips.
    pub(super) const BULK: usize = 8 << 20;
    pub(super) const CHUNK: usize = 64 << 10;
    pub(super) const CHUNKS: u32 = 128;
    pub(super) const PINGS: u32 = 1000;
    pub(super) const PING: usize = 32;
    const _: () = assert!(CHUNK * CHUNKS as usize == BULK);
}

/// Octets that differ with `seed` and with their place, so that nothing that went astray looks right.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len.next_multiple_of(8));
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while out.len() < len {
        // Marsaglia's xorshift, 64 bits.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend(state.to_le_bytes());
    }
    out.truncate(len);
    out
}

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
}
