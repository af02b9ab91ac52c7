//! Objects of libibverbs and librdmacm with owners: each handle keeps alive the objects that its own needs, and destroys its object when it
//! is dropped. Errors of the libraries are [`io::Error`]s here, in whichever way a library reports them.

mod cm;
mod completion;
mod context;
mod memory;
mod queue_pair;
mod shared_receives;
mod window;

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

pub(crate) use cm::{CmEvent, CmEventKind, CmId, ConnectionParameters, EventChannel, NotReady};
pub(crate) use completion::{CompletionChannelQueue, WorkCompletion, immediate, invalidated_key};
pub(crate) use context::{AsyncEvent, Context, DeviceLimits, ProtectionDomain, QueuePairError};
pub(crate) use memory::{Access, Registration};
pub(crate) use queue_pair::{
    Operation, PostFailure, QueuePairHandle, QueuePairSizes, RemoteMemory, SendRequest, WindowBind,
    WindowRange,
};
pub(crate) use shared_receives::SharedReceivesHandle;
pub(crate) use window::{MemoryWindowHandle, WindowKind};

/// One local buffer of a request, with the layout of `ibv_sge`.
pub(crate) type LocalSge = crate::sys::bindings::ibv_sge;

/// The entries of a request in the form that the libraries take. Without entries, the pointer is null: libcxgb4 looks at the first entry of
/// a Read wherever the pointer is not null.
fn entries(sges: &[LocalSge]) -> *mut LocalSge {
    if sges.is_empty() {
        return std::ptr::null_mut();
    }
    sges.as_ptr().cast_mut()
}

/// The outcome of a function that returns 0, or an errno. Some drivers return the errno as a negative number, and some
/// functions return -1 and set errno.
fn outcome(returned: c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.saturating_abs())),
    }
}

/// The object that a function has made; without one, errno has the reason.
fn made<T>(object: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(|| {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(0) | None => io::ErrorKind::Other.into(),
            _ => error,
        }
    })
}

/// Makes reading from a descriptor return at once.
fn never_block(descriptor: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    rustix::io::ioctl_fionbio(descriptor, true).map_err(io::Error::from)
}

/// Returns true if a call failed because there is nothing to read.
fn is_empty(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
