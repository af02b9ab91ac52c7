//! Registered memory for iWARP: regions, windows, protection domains, the STag table, and the vectored write from
//! registered memory.
//!
//! [`Table`] implements [`iwarp::Memory`] for one adapter. The engine checks each access through the table (RFC 5041 §7.1,
//! RFC 5040 §7.2), and moves octets through it. [`io::send`] sends a batch straight from registered memory, and
//! [`io::receive`] reads straight into registered memory. [`socket_options`] is here because it takes `unsafe` as well.
//!
//! # Sharing
//!
//! Peers write while the application reads. So no reference to shared memory is formed. The kernel and the bulk copy act as
//! a network adapter does; everything else uses atomic words. `copy` of `rdma-buffer` has this rule and its two backends.
//!
//! # Revocation
//!
//! A [`Span`](iwarp::Span) is a value. Each use of a span finds out whether the STag still has the use for which the span was
//! checked, and pins the slot: for one copy, for one non-blocking system call, or, in a [`PinnedTable`], until a call of the
//! engine ends or uses another slot. Deregistration and invalidation first
//! change the slot and then wait for the pins (`slot`). So they never wait for a peer, and once they have returned, no
//! octet is touched any more (MR-034, SEC-005).
//!
//! # Locks
//!
//! Lookups, copies and system calls take no lock. Registration, and operations on windows, take one short lock per table.
//!
//! # Tests
//!
//! Besides the usual run there are `cargo miri test -p iwarp-mem` (with small counts and the portable backend; without the
//! tests of [`io`], because Miri does not have these system calls), and the model of the pin protocol, `RUSTFLAGS="--cfg
//! loom" cargo test -p iwarp-mem --lib loom`.

mod admin;
mod error;
mod index;
pub mod io;
mod options;
mod outgoing;
mod pd;
mod pinned;
mod pins;
mod region;
mod rights;
#[cfg(any(target_os = "linux", loom))]
pub mod ring;
mod shared;
mod slot;
mod slots;
pub mod socket_options;
mod stag;
mod sync;
mod table;
mod transfer;
mod window;

pub use error::{Busy, RegisterError};
pub use options::{OnLenientSink, TableOptions};
pub use pd::ProtectionDomain;
pub use pinned::PinnedTable;
pub use rdma_buffer::Backend;
pub use region::Registration;
pub use rights::Rights;
pub use table::Table;
pub use transfer::{Acknowledgements, Received, Sent};
pub use window::Window;
