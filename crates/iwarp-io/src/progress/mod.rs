//! Which thread drives which streams, and how it learns that they are ready.

bitflags::bitflags! {
    /// What became possible on a source since it was last reported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Edges: u8 {
        /// Data, or the peer's end, can be read.
        const READ = 1;
        /// The socket takes data again after a short write, or a connect has finished.
        const WRITE = 2;
        /// The peer has closed or reset: read until the end is seen, a short read does not mean drained.
        const HANGUP = 4;
        /// Somebody left work behind while the source was locked.
        const KICK = 8;
    }
}

/// One ready source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The name under which it was added.
    pub token: u64,
    /// What became possible.
    pub edges: Edges,
}
