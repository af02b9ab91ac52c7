//! The events by which sources become ready.

bitflags::bitflags! {
    /// The events on a source since it was last reported.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Edges: u8 {
        /// Data, or the peer's end, can be read.
        const READ = 1;
        /// The socket accepts data again after a short write, or a connect has finished.
        const WRITE = 2;
        /// The peer has closed or reset the stream. Read until the end of the stream, because a short read does not mean
        /// that the socket is empty.
        const HANGUP = 4;
        /// Another thread left work behind while the source was locked.
        const KICK = 8;
    }
}

/// One ready source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token under which the source was added.
    pub token: u64,
    /// The events.
    pub edges: Edges,
}
