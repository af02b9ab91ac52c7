//! Errors of a message, RFC 5040 section 4.8.

use core::fmt;

/// Errors of a message that names memory of this side for reading or invalidating, RFC 5040 section 4.8, layer 0 error type 1 (remote
/// protection error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtectionError {
    /// The source STag of a Read Request is invalid.
    InvalidSTag,
    /// The source of a Read Request is not inside its buffer.
    Bounds,
    /// The source buffer does not grant remote read.
    Rights,
    /// The source STag is not associated with the stream.
    NotAssociated,
    /// Source offset plus size wraps.
    Wrap,
    /// The STag of a Send with Invalidate cannot be invalidated.
    CannotInvalidate,
}

impl fmt::Display for ProtectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidSTag => "Read Request with an invalid source STag",
            Self::Bounds => "Read Request outside the source buffer",
            Self::Rights => "Read Request to a buffer that may not be read",
            Self::NotAssociated => "Read Request with an STag of another stream or domain",
            Self::Wrap => "Read Request whose source offset wraps",
            Self::CannotInvalidate => "Send with Invalidate of an STag that cannot be invalidated",
        })
    }
}

/// Errors of a message as such, RFC 5040 section 4.8, layer 0 error type 2 (remote operation error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationError {
    /// Invalid RDMAP version.
    Version,
    /// Unknown opcode, one that is not implemented, or one that does not belong here (OPEN-01, OPEN-02).
    UnexpectedOpcode,
    /// An error of this stream without its own code: an Atomic on a word that is not aligned (RFC 7306 section 8.2).
    Stream,
    /// An error that no other code describes: Immediate Data of a wrong length, an Atomic Response to another request
    /// (RDMAPX-012, RDMAPX-023).
    Unspecified,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "message of an unknown RDMAP version",
            Self::UnexpectedOpcode => "message with an unexpected opcode",
            Self::Stream => "Atomic Request for a word that is not aligned",
            Self::Unspecified => "message that is not what its opcode says",
        })
    }
}
