//! What a local address is reserved for.

/// What a local address is reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To connect from it.
    Connecting,
    /// To listen at it.
    Listening,
}
