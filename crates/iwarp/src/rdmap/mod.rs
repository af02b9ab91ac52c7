//! RDMAP: the meaning of messages, RFC 5040 and RFC 7306. This module has headers, opcodes and error tables; the state
//! machine is [`crate::conn`].
//!
//! - [`header`]: control octet and opcodes (sections 4.1, 4.2).
//! - [`Describe`]: one line of text per segment.
//! - [`read`]: the Read Request header (section 4.4).
//! - [`terminate`]: the Terminate header (section 4.8), both ways.
//! - [`atomic`]: the Atomic Request and Response headers, and the operations (RFC 7306 section 5).

pub mod atomic;
mod describe;
mod error;
pub mod header;
pub mod read;
pub mod terminate;

pub use atomic::{AtomicOp, AtomicRequest, AtomicResponse};
pub use describe::Describe;
pub use error::{OperationError, ProtectionError};
pub use header::{Opcode, VERSION, VERSION_MASK, control};
pub use read::ReadRequest;
pub use terminate::{Class, Terminate, TerminateCode};

#[cfg(test)]
mod tests;
