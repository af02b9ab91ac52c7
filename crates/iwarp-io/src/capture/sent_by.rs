//! The two ends of a captured stream.

/// One of the two ends of a [`Flow`](super::Flow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBy {
    /// The adapter that captures.
    Local,
    /// Its peer.
    Peer,
}

impl SentBy {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Local => Self::Peer,
            Self::Peer => Self::Local,
        }
    }
}
