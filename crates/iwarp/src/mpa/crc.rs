//! The CRC32c of an FPDU, RFC 5044 §4.4: polynomial 0x1EDC6F41 reflected, all ones in, complement out (MPA-055). It is the
//! digest that DDP demands of the layer below (DDP-006), unless both sides have CRC off.
//!
//! The wire has the least significant octet first; only [`wire`] and [`from_wire`] deal with this order. The crate
//! `crc-fast` computes the CRC, and picks the processor's CRC and carry-less multiply instructions at run time.

use crc_fast::{CrcAlgorithm, Digest};

/// Octets of the CRC field. It is present in every FPDU, whether or not CRC is in use (RFC 5044 §4.1,
/// MPA-038).
pub const LEN: usize = 4;

/// A running CRC32c. It is small and `Copy`, so that a caller can keep a state and go on from it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Crc {
    /// The CRC over no octets.
    #[must_use]
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// Adds `octets` to the CRC, behind the octets seen before.
    pub fn update(&mut self, octets: &[u8]) {
        self.0 = advance(self.0, octets);
    }

    /// The CRC of octets that have been reduced to `remainder`. As a polynomial, `remainder` is congruent to these octets,
    /// and those before them, modulo the polynomial of the CRC (see [`Crc::carry`]). This is for copies that compute the
    /// CRC on the way.
    #[must_use]
    pub fn of_remainder(remainder: &[u8]) -> Self {
        Self(advance(0, remainder))
    }

    /// The raw CRC register after the octets seen so far. A CRC that starts from a register of 0, and takes the next four
    /// octets with these four added (exclusive or), gets the same value as one that has taken all octets.
    #[must_use]
    pub const fn carry(&self) -> [u8; LEN] {
        self.0.to_le_bytes()
    }

    /// The CRC of all octets seen so far.
    #[must_use]
    pub const fn finish(&self) -> u32 {
        !self.0
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC32c of `octets`, as MPA asks for it (MPA-055) and as DDP's digest has to be at least (DDP-006).
#[must_use]
pub fn crc32c(octets: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(octets)
}

/// The octets of a CRC as they are in the FPDU (RFC 5044 §4.4).
#[must_use]
pub const fn wire(crc: u32) -> [u8; LEN] {
    crc.to_le_bytes()
}

/// The CRC whose octets in an FPDU are `octets`.
#[must_use]
pub const fn from_wire(octets: [u8; LEN]) -> u32 {
    u32::from_le_bytes(octets)
}

/// The state of the CRC after `octets`, from the state before them.
fn advance(state: u32, octets: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(state));
    digest.update(octets);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the state of a 32-bit CRC has 32 bits"
    )]
    let state = digest.get_state() as u32;
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 14.1: name, input, CRC, octets on the wire.
    fn vectors() -> Vec<(&'static str, Vec<u8>, u32, [u8; 4])> {
        let mut read10 = vec![0u8; 48];
        read10[0] = 0x01;
        read10[1] = 0xc0;
        read10[16] = 0x14;
        read10[22] = 0x04;
        read10[27] = 0x14;
        read10[31] = 0x18;
        read10[32] = 0x28;
        read10[40] = 0x02;
        vec![
            (
                "check value",
                b"123456789".to_vec(),
                0xE306_9283,
                [0x83, 0x92, 0x06, 0xe3],
            ),
            ("empty", vec![], 0, [0; 4]),
            ("a", b"a".to_vec(), 0xC1D0_4330, [0x30, 0x43, 0xd0, 0xc1]),
            ("4 x 00", vec![0; 4], 0x4867_4BC7, [0xc7, 0x4b, 0x67, 0x48]),
            (
                "32 x 00",
                vec![0; 32],
                0x8A91_36AA,
                [0xaa, 0x36, 0x91, 0x8a],
            ),
            (
                "32 x ff",
                vec![0xff; 32],
                0x62A8_AB43,
                [0x43, 0xab, 0xa8, 0x62],
            ),
            (
                "00 .. 1f",
                (0..32).collect(),
                0x46DD_794E,
                [0x4e, 0x79, 0xdd, 0x46],
            ),
            (
                "1f .. 00",
                (0..32).rev().collect(),
                0x113F_DB5C,
                [0x5c, 0xdb, 0x3f, 0x11],
            ),
            (
                "iSCSI Read(10)",
                read10,
                0xD996_3A56,
                [0x56, 0x3a, 0x96, 0xd9],
            ),
        ]
    }

    /// MPA-055.
    #[test]
    fn vectors_of_section_14_1() {
        for (name, input, crc, octets) in vectors() {
            assert_eq!(crc32c(&input), crc, "{name}");
            assert_eq!(wire(crc), octets, "{name}");
            assert_eq!(from_wire(octets), crc, "{name}");
        }
    }

    #[test]
    fn a_running_sum_does_not_see_where_it_was_cut() {
        for (name, input, crc, _) in vectors() {
            for cut in 0..=input.len() {
                let mut sum = Crc::new();
                sum.update(&input[..cut]);
                sum.update(&[]);
                sum.update(&input[cut..]);
                assert_eq!(sum.finish(), crc, "{name} cut at {cut}");
            }
        }
    }

    /// Lengths around the block sizes of the vectored routines, compared with the CRC computed bit by bit.
    #[test]
    fn long_inputs_agree_with_the_definition() {
        fn slow(octets: &[u8]) -> u32 {
            !octets.iter().fold(u32::MAX, |mut crc, octet| {
                crc ^= u32::from(*octet);
                for _ in 0..8 {
                    crc = if crc & 1 == 1 {
                        crc >> 1 ^ 0x82F6_3B78
                    } else {
                        crc >> 1
                    };
                }
                crc
            })
        }
        let octets: Vec<u8> = (0..5000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for len in (0..300).chain([511, 512, 513, 1442, 4095, 4096, 4097, 4999, 5000]) {
            assert_eq!(crc32c(&octets[..len]), slow(&octets[..len]), "{len} octets");
            let mut sum = Crc::new();
            sum.update(&octets[..len / 3]);
            sum.update(&octets[len / 3..len]);
            assert_eq!(
                sum.finish(),
                slow(&octets[..len]),
                "{len} octets in two parts"
            );
        }
    }

    /// The library has a slow routine that works with tables, for processors without carry-less multiplication. Only such
    /// processors may use it. The names of the other routines differ between processors; this one's begins with "software".
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    #[test]
    fn tables_are_in_use_only_without_carry_less_multiplication() {
        #[cfg(target_arch = "x86_64")]
        let multiplies = std::arch::is_x86_feature_detected!("sse4.1")
            && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let multiplies = std::arch::is_aarch64_feature_detected!("aes");
        let routine = crc_fast::get_calculator_target(CrcAlgorithm::Crc32Iscsi);
        assert_eq!(routine.starts_with("software"), !multiplies, "{routine}");
    }
}
