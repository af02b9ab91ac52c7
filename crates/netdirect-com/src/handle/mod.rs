//! Windows' handles, on systems that have none: events, completion ports and overlapped files ([`abi`](crate::abi) has their tables).
//!
//! - [`EventRef`], [`PortRef`] and [`FileRef`] are references to objects of any library, through the tables of these objects.
//!   `EventRef::create` and `PortRef::create` make objects of this library.
//! - [`wait`], [`wait_for_any`] and [`wait_for_all`] wait for events.
//! - [`overlapped_result`] is Win32's GetOverlappedResult, and [`bind`] BindIoCompletionCallback, whose pool has the only threads of this
//!   module.

mod event;
mod limit;
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

pub use limit::INFINITE;
pub use pool::{CompletionRoutine, bind};
pub use refs::{EventRef, FileRef, PortClosed, PortRef, close};
pub use result::overlapped_result;
pub use wait::{wait, wait_for_all, wait_for_any};
