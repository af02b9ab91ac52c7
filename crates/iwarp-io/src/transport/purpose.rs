//! The purpose of a local address.

/// The purpose for which a local address is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To connect from it.
    Connecting,
    /// To listen at it.
    Listening,
}
