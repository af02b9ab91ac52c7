//! The CRC of octets that are copied.

/// A CRC32c to which a copy adds its octets.
pub trait Sum {
    /// Adds octets to the CRC, behind the octets seen before.
    fn update(&mut self, octets: &[u8]);

    /// The raw CRC register after the octets seen so far. A CRC that starts from a register of 0, and takes the next four
    /// octets with these four added (exclusive or), gets the same value as one that has taken all octets.
    fn carry(&self) -> [u8; 4];

    /// Becomes the CRC of octets that are congruent to `remainder` modulo the polynomial of the CRC. These include the
    /// octets behind the [carry](Self::carry).
    fn become_sum_of(&mut self, remainder: &[u8]);
}
