//! Handles where the system has none of Windows': objects with tables of functions ([`abi`](crate::abi) has the tables).
//!
//! - [`EventRef`], [`PortRef`] and [`FileRef`] are references to objects of any library, through the tables of these objects.
//!   `EventRef::create` and `PortRef::create` make objects of this library.
//! - [`overlapped_result`] is Win32's GetOverlappedResult, and [`bind`] BindIoCompletionCallback, whose pool has the only threads of this
//!   module.

mod event;
#[cfg(all(test, loom))]
mod loom_models;
mod pool;
mod port;
mod refs;
mod result;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;
mod wait;

pub use pool::{CompletionRoutine, bind};
pub use refs::{EventRef, FileRef, PortRef, close};
pub use result::overlapped_result;
pub use wait::{wait, wait_for_all, wait_for_any};
