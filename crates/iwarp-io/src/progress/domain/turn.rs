//! What one visit to a source did.

/// The result of one turn of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// A budget ended the turn, and more could be done at once.
    pub unfinished: bool,
    /// Octets wait until the socket takes data again.
    pub blocked: bool,
    /// What was received, in octets. What costs time beside its octets adds to them.
    pub work: usize,
}
