//! What the two ends of a connection agree on beside read limits: who speaks first and how, and markers.

/// Who opened the connection, RFC 5044 section 7.1: the Responder may not send before the Initiator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sent the MPA Request.
    Initiator,
    /// Sent the MPA Reply.
    Responder,
}

/// The ready-to-receive message two sides agreed on, RFC 6581 section 9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ready {
    /// A zero-length Write.
    Write,
    /// A zero-length Read.
    Read,
    /// A zero-length Send; it takes a Receive of the Responder's client (MPA2-033).
    Send,
}

/// In which directions of a stream markers stand: each is its receiver's to choose (MPA-032, RFC 5044 section 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Markers {
    /// The peer asked for them: in what this side sends.
    pub sent: bool,
    /// This side asked for them: in what it receives.
    pub received: bool,
}

impl Markers {
    /// In neither.
    pub const NONE: Self = Self {
        sent: false,
        received: false,
    };
}
