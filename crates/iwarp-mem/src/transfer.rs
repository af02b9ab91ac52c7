//! The results of moving octets between a stream and registered memory. Every transport has them, whether or not its streams are sockets.

/// The result of a send of a [`TxBatch`](iwarp::TxBatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The batch is empty now.
    All,
    /// Some octets went out and some are left. Call again, because the stream may take more.
    Partly,
    /// The stream takes no more at present.
    WouldBlock,
    /// The memory of the first FPDU was revoked before any of the FPDU was sent, or is not mapped. Nothing was sent, and the batch is
    /// empty ([`TxBatch::revoke`](iwarp::TxBatch::revoke)).
    Revoked,
}

/// The result of a read into registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many octets have arrived. 0 is the end of the peer's direction.
    Octets(usize),
    /// The memory was revoked, or cannot be read to. Nothing was taken from the stream.
    Revoked,
    /// The memory is registered, but the application has unmapped it. Nothing was taken from the stream. The front of the place may
    /// have been written.
    Unmapped,
}

/// What the peer's system has acknowledged of a stream of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgements {
    /// Segments that were sent and are not acknowledged. Octets that wait for room at the peer are not among them.
    pub open_segments: u32,
    /// Octets that were acknowledged since the beginning.
    pub octets: u64,
}
