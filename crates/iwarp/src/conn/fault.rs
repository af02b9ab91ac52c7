//! The errors that this side finds, and the Terminate for each.

use core::fmt;

use crate::ddp::{self, TaggedError, UntaggedError};
use crate::memory::AccessError;
use crate::mpa;
use crate::rdmap::{Class, OperationError, ProtectionError, TerminateCode};

/// An error found by this side. One variant with its value is one row of an RFC's error table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// RFC 5044 section 8, layer 2.
    Mpa(mpa::Error),
    /// A ULPDU shorter than its DDP header. No RFC has a code for this (OPEN-09).
    Truncated,
    /// RFC 5041 section 7.2, type 1.
    Tagged(TaggedError),
    /// RFC 5041 section 7.2, type 2.
    Untagged(UntaggedError),
    /// RFC 5040 section 4.8, layer 0 type 1.
    Protection(ProtectionError),
    /// RFC 5040 section 4.8, layer 0 type 2.
    Operation(OperationError),
    /// The peer's Terminate is malformed. It is never answered with a Terminate (RDMAP-086).
    MalformedTerminate,
    /// A request or buffer of this side failed, RFC 5040 section 7.1 (1).
    Local,
}

/// The headers of the offending message that a Terminate carries, RFC 5040 figure 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Included {
    /// No headers.
    Nothing,
    /// The DDP header and the segment length.
    Ddp,
    /// The DDP header, the segment length, and the Read Request header if the message was a Read Request.
    DdpAndRead,
}

impl Fault {
    /// The code that the Terminate carries (DDP-074, RDMAP-075). `None` if the stream is closed without a Terminate.
    pub const fn code(self) -> Option<TerminateCode> {
        Some(match self {
            Self::Mpa(mpa::Error::Closed) | Self::MalformedTerminate => return None, // MPA-078, RDMAP-086
            Self::Mpa(error) => TerminateCode::new(2, 0, error.code()),
            Self::Truncated => TerminateCode::new(1, 0, 0x00),
            Self::Tagged(TaggedError::InvalidSTag) => TerminateCode::new(1, 1, 0x00),
            Self::Tagged(TaggedError::Bounds) => TerminateCode::new(1, 1, 0x01),
            Self::Tagged(TaggedError::NotAssociated) => TerminateCode::new(1, 1, 0x02),
            Self::Tagged(TaggedError::Wrap) => TerminateCode::new(1, 1, 0x03),
            Self::Tagged(TaggedError::Version) => TerminateCode::new(1, 1, 0x04),
            Self::Untagged(UntaggedError::InvalidQn) => TerminateCode::new(1, 2, 0x01),
            Self::Untagged(UntaggedError::NoBuffer) => TerminateCode::new(1, 2, 0x02),
            Self::Untagged(UntaggedError::MsnRange) => TerminateCode::new(1, 2, 0x03),
            Self::Untagged(UntaggedError::InvalidMo) => TerminateCode::new(1, 2, 0x04),
            Self::Untagged(UntaggedError::TooLong) => TerminateCode::new(1, 2, 0x05),
            Self::Untagged(UntaggedError::Version) => TerminateCode::new(1, 2, 0x06),
            Self::Protection(ProtectionError::InvalidSTag) => TerminateCode::new(0, 1, 0x00),
            Self::Protection(ProtectionError::Bounds) => TerminateCode::new(0, 1, 0x01),
            Self::Protection(ProtectionError::Rights) => TerminateCode::new(0, 1, 0x02),
            Self::Protection(ProtectionError::NotAssociated) => TerminateCode::new(0, 1, 0x03),
            Self::Protection(ProtectionError::Wrap) => TerminateCode::new(0, 1, 0x04),
            Self::Protection(ProtectionError::CannotInvalidate) => TerminateCode::new(0, 1, 0x09),
            Self::Operation(OperationError::Version) => TerminateCode::new(0, 2, 0x05),
            Self::Operation(OperationError::UnexpectedOpcode) => TerminateCode::new(0, 2, 0x06),
            Self::Operation(OperationError::Stream) => TerminateCode::new(0, 2, 0x07),
            Self::Operation(OperationError::Unspecified) => TerminateCode::new(0, 2, 0xff),
            Self::Local => TerminateCode::LOCAL_CATASTROPHIC,
        })
    }

    /// Returns true if the peer named memory that it may not use.
    pub fn is_protection(self) -> bool {
        self.code()
            .is_some_and(|code| code.class() == Class::Protection)
    }

    pub(super) const fn included(self) -> Included {
        match self {
            // OPEN-20: a local catastrophic error of either layer carries no header.
            Self::Mpa(_) | Self::Truncated | Self::MalformedTerminate | Self::Local => {
                Included::Nothing
            }
            Self::Tagged(_) | Self::Untagged(_) | Self::Operation(_) => Included::Ddp,
            Self::Protection(_) => Included::DdpAndRead,
        }
    }
}

impl From<ddp::Error> for Fault {
    fn from(error: ddp::Error) -> Self {
        match error {
            ddp::Error::Truncated => Self::Truncated,
            ddp::Error::Tagged(error) => Self::Tagged(error),
            ddp::Error::Untagged(error) => Self::Untagged(error),
        }
    }
}

impl From<mpa::Error> for Fault {
    fn from(error: mpa::Error) -> Self {
        Self::Mpa(error)
    }
}

impl From<TaggedError> for Fault {
    fn from(error: TaggedError) -> Self {
        Self::Tagged(error)
    }
}

impl From<UntaggedError> for Fault {
    fn from(error: UntaggedError) -> Self {
        Self::Untagged(error)
    }
}

impl From<ProtectionError> for Fault {
    fn from(error: ProtectionError) -> Self {
        Self::Protection(error)
    }
}

impl From<OperationError> for Fault {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

/// The error that reports a refused Write, RFC 5041 section 7.2.
pub(super) const fn write_refused(error: AccessError) -> TaggedError {
    match error {
        // OPEN-03: DDP has no code for a missing right.
        AccessError::InvalidSTag | AccessError::Rights => TaggedError::InvalidSTag,
        AccessError::NotAssociated => TaggedError::NotAssociated,
        AccessError::Bounds => TaggedError::Bounds,
        AccessError::Wrap => TaggedError::Wrap,
    }
}

/// The error that reports a refused Read or Atomic, RFC 5040 section 4.8.
pub(super) const fn read_refused(error: AccessError) -> ProtectionError {
    match error {
        AccessError::InvalidSTag => ProtectionError::InvalidSTag,
        AccessError::Rights => ProtectionError::Rights,
        AccessError::NotAssociated => ProtectionError::NotAssociated,
        AccessError::Bounds => ProtectionError::Bounds,
        AccessError::Wrap => ProtectionError::Wrap,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mpa(error) => error.fmt(f),
            Self::Truncated => f.write_str("a ULPDU shorter than its DDP header"),
            Self::Tagged(error) => error.fmt(f),
            Self::Untagged(error) => error.fmt(f),
            Self::Protection(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
            Self::MalformedTerminate => f.write_str("a malformed Terminate"),
            Self::Local => f.write_str("a request of this side failed"),
        }
    }
}

impl core::error::Error for Fault {}
