//! Registered memory for iWARP: regions, windows, protection domains, the STag table, and the vectored write from
//! registered memory.
//!
//! [`Table`] implements [`iwarp::Memory`] for one adapter; the engine checks each access through it (RFC 5041 §7.1, RFC 5040
//! §7.2) and moves octets by it. [`io::send`] hands a batch to a socket straight from registered memory, [`io::receive`] reads
//! straight into it.
//!
//! # Sharing
//!
//! Peers write while the application reads. `copy` has the rule and its two backends: no reference to shared memory is
//! formed, the kernel and the bulk copy have the standing of a network adapter, everything else uses atomic words.
//!
//! # Revocation
//!
//! A [`Span`](iwarp::Span) is a value. Each use of it pins its slot for one copy or one non-blocking system call, and finds out whether
//! the STag is still in the use it was checked in. Deregistration and invalidation change the slot first and then wait
//! for the pins (`slot`), so they never wait for a peer, and when they return not one octet is touched any more
//! (MR-034, SEC-005).
//!
//! # Locks
//!
//! Lookups, copies and system calls take none. Registration, and what is done to windows, take one short lock per
//! table.
//!
//! # Tests
//!
//! Besides the usual run: `cargo miri test -p iwarp-mem` (counts become small and the portable backend is taken; the
//! tests of [`io`] are left out, Miri has no such call), and the model of the pin protocol,
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-mem --lib loom`.

mod admin;
mod error;
#[cfg(unix)]
pub mod io;
mod options;
mod region;
mod rights;
mod shared;
mod slot;
mod slots;
mod stag;
mod sync;
mod table;
mod window;

pub use error::{Busy, RegisterError};
pub use options::{OnLenientSink, TableOptions};
pub use rdma_buffer::Backend;
pub use region::Registration;
pub use rights::Rights;
pub use table::Table;
pub use window::Window;
