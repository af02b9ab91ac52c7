//! The agreement of the two ends of a connection besides read limits: the side that sends first, its first message, and markers.

/// The side of a connection, RFC 5044 section 7.1: the Responder may not send before the Initiator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sent the MPA Request.
    Initiator,
    /// Sent the MPA Reply.
    Responder,
}

/// The ready-to-receive message on which two sides agreed, RFC 6581 section 9.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ready {
    /// A zero-length Write.
    Write,
    /// A zero-length Read.
    Read,
    /// A zero-length Send; it takes a Receive of the Responder's client (MPA2-033).
    Send,
}

/// The directions of a stream that have markers. The receiver of each direction chooses (MPA-032, RFC 5044 section 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Markers {
    /// This side sends markers, because the peer asked for them.
    pub sent: bool,
    /// This side receives markers, because this side asked for them.
    pub received: bool,
}

impl Markers {
    /// Markers in neither direction.
    pub const NONE: Self = Self {
        sent: false,
        received: false,
    };
}
