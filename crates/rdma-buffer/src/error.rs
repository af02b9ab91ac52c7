//! Errors.

use std::fmt;

/// There is no memory for a buffer of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory {
    /// The length that was asked for.
    pub octets: usize,
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for a buffer of {} bytes", self.octets)
    }
}

impl std::error::Error for NoMemory {}
