//! CRC32c, RFC 5044 §4.4, by a table. Speed does not matter here, but the routine has to differ from the engine's.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut value = octet;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                value >> 1 ^ 0x82F6_3B78
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[octet as usize] = value;
        octet += 1;
    }
    table
}

/// The CRC32c of `octets`. It goes on the wire least significant octet first.
pub fn crc32c(octets: &[u8]) -> u32 {
    !octets.iter().fold(!0, |crc: u32, octet| {
        let [low, ..] = crc.to_le_bytes();
        crc >> 8 ^ TABLE[usize::from(low ^ octet)]
    })
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn check_values_of_the_rfcs() {
        let counting: Vec<u8> = (0..32).collect();
        for (octets, value) in [
            (&b"123456789"[..], 0xE306_9283),
            (b"", 0),
            (b"a", 0xC1D0_4330),
            (&[0; 32], 0x8A91_36AA),
            (&[0xFF; 32], 0x62A8_AB43),
            (&counting, 0x46DD_794E),
        ] {
            assert_eq!(crc32c(octets), value, "{octets:02x?}");
        }
    }
}
