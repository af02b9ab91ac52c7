//! Plain copies of the same walk of buffers, by one thread of this process: what a message within one machine costs at least, if it is copied
//! once.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The octets of all buffers together whose copies find nothing in a cache: of the sources, and of the places that they are copied to.
const COLD: usize = 128 << 20;

/// The figures of plain copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// From one buffer to another one, again and again, as a ping-pong does: nanoseconds of a copy.
    pub hot: f64,
    /// From memory that is in no cache to memory that is in none: nanoseconds of a copy.
    pub cold: f64,
    /// From as many buffers in turn as messages are outstanding one way, to as many: octets per second.
    pub one_way: f64,
}

impl Copies {
    /// One turn of copies of `size` octets each, in walks of one buffer, of buffers that no cache holds, and of `depth` buffers.
    #[must_use]
    pub fn measure(size: usize, depth: usize, turn: Duration) -> Self {
        let part = turn / 3;
        Self {
            hot: Walk::new(size, 1).copy(part),
            cold: Walk::new(size, COLD.div_ceil(size.max(1))).copy(part),
            one_way: 1e9 * size as f64 / Walk::new(size, depth).copy(part),
        }
    }
}

/// Buffers that are copied in turn, each to its own place.
struct Walk {
    size: usize,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Walk {
    /// All pages are there.
    fn new(size: usize, buffers: usize) -> Self {
        let size = size.max(1);
        Self {
            size,
            from: vec![1; size * buffers],
            to: vec![2; size * buffers],
        }
    }

    /// Copies for about this long. Returns the nanoseconds of a copy.
    fn copy(&mut self, time: Duration) -> f64 {
        // The clock takes as long as the copy of a short message.
        let looks = ((1 << 20) / self.size).clamp(1, 64) as u64;
        let begun = Instant::now();
        let mut copied = 0_u64;
        loop {
            let pairs = self.from.chunks_exact(self.size);
            for (from, to) in pairs.zip(self.to.chunks_exact_mut(self.size)) {
                to.copy_from_slice(black_box(from));
                black_box(&to);
                copied += 1;
                if copied.is_multiple_of(looks) {
                    let elapsed = begun.elapsed();
                    if elapsed >= time {
                        return elapsed.as_nanos() as f64 / copied as f64;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_copies_every_buffer_to_its_place() {
        let mut walk = Walk::new(100, 3);
        let octets = walk.from.iter_mut().zip((0..=255).cycle());
        octets.for_each(|(octet, number)| *octet = number);
        assert!(walk.copy(Duration::from_millis(1)) > 0.0);
        assert_eq!(walk.to, walk.from);
    }

    #[test]
    fn each_walk_has_a_time() {
        let copies = Copies::measure(1 << 16, 4, Duration::from_millis(3));
        assert!(copies.hot > 0.0 && copies.cold > 0.0 && copies.one_way > 0.0);
    }
}
