//! What is decided of a connection that may be over shared memory.

/// What has been decided.
#[derive(Debug)]
pub enum PairingStep<R> {
    /// Nothing yet.
    Undecided,
    /// The connection is plain TCP.
    Plain,
    /// The connection is over these rings.
    Shared(R),
}
