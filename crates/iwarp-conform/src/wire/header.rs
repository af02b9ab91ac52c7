//! Lengths of the DDP headers, RFC 5041 §4.2 and §4.3.

/// A tagged header, in octets.
pub(super) const TAGGED: usize = 14;
/// An untagged header, in octets.
pub(super) const UNTAGGED: usize = 18;
