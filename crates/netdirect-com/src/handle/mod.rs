//! Windows' handles: events, completion ports and overlapped files.
//!
//! [`EventRef`], [`PortRef`] and [`FileRef`] keep an object, whoever made it. [`wait`], [`wait_for_any`] and [`wait_for_all`] wait for events.
//!
//! - On Windows these are the system's objects, and `windows::pipe` makes overlapped files of them.
//! - Other systems have no such objects. There a handle points to a table of functions, and this module also has the functions of Windows
//!   that programs need for such handles: `overlapped_result` is GetOverlappedResult, and `bind` BindIoCompletionCallback.

mod limit;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fmt;

pub use limit::INFINITE;
#[cfg(unix)]
pub use unix::{
    CompletionRoutine, EventRef, FileRef, PortRef, bind, close, overlapped_result, wait,
    wait_for_all, wait_for_any,
};
#[cfg(windows)]
pub(crate) use windows::FilePipe;
#[cfg(windows)]
pub use windows::{EventRef, FileRef, PortRef, close, wait, wait_for_all, wait_for_any};

/// The error of [`PortRef::take`] when the port was closed, before the call or during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortClosed;

impl fmt::Display for PortClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the completion port was closed")
    }
}

impl std::error::Error for PortClosed {}
