//! The error of this crate.

/// Why this machine links no library with versions: a sentence without a stop.
#[derive(Clone, Debug)]
pub struct Unsupported(pub String);
