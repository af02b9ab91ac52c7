//! The sum of what is copied.

/// A CRC32c that a copy is taken into.
pub trait Sum {
    /// Takes octets into the sum, behind what it has seen before.
    fn update(&mut self, octets: &[u8]);

    /// What the octets seen so far mean to those that follow: with these four added to the next four (exclusive or), all that
    /// follows has the same sum when it is taken for the beginning.
    fn carry(&self) -> [u8; 4];

    /// Forgets what was seen and becomes the sum of octets that are congruent to `remainder` modulo the polynomial of the CRC,
    /// what the [carry](Self::carry) stood for included.
    fn become_sum_of(&mut self, remainder: &[u8]);
}
