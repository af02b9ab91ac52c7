//! The data that moves during the check before every measurement.

use nd_base::errors::Failure;

/// Octets that depend on the slot and on their place in it, so that misplaced octets do not look right.
pub(super) fn fill(slot: usize, octets: &mut [u8]) {
    let seed = (slot as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for (at, chunk) in octets.chunks_mut(8).enumerate() {
        let word = (seed ^ at as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 29)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// The error for data that is not what was sent.
pub(super) fn mismatch(slot: usize) -> Failure {
    Failure::new(
        format!("message {slot} of the check arrived with other data than was sent"),
        "do not trust any figure of this run; run again with -vv and report what it says",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(slot: usize, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        fill(slot, &mut octets);
        octets
    }

    #[test]
    fn patterns_differ_by_slot_and_place_and_agree_on_prefixes() {
        assert_ne!(pattern(0, 8), pattern(1, 8));
        assert_ne!(pattern(0, 64)[..8], pattern(0, 64)[8..16]);
        assert_eq!(pattern(3, 100)[..50], pattern(3, 50)[..]);
        assert!((0..1000).all(|slot| pattern(slot, 16) != [0; 16]));
    }
}
