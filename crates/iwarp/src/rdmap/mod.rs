//! RDMAP: what the messages mean, RFC 5040 and RFC 7306. Headers, opcodes and error tables; the state machine is [`crate::conn`].
//!
//! - [`header`]: control octet and opcodes (sections 4.1, 4.2).
//! - [`Describe`]: one line of text per segment.
//! - [`read`]: the Read Request header (section 4.4).
//! - [`terminate`]: the Terminate header (section 4.8), both ways.
//! - [`atomic`]: the Atomic Request and Response headers, and what they ask for (RFC 7306 section 5).

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
