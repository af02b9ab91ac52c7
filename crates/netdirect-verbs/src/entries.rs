//! Requests on their way to the device: their entries, and the reasons why they are refused.

use std::io;

use netdirect::{Error, RequestType, Result, Sge, Status};

use crate::core::Core;
use crate::handle::{LocalSge, PostFailure};
use crate::status::{fail, removed};

/// An initiator request as the client posts it.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) context: u64,
    pub(crate) kind: RequestType,
    pub(crate) silent: bool,
    /// The number of its entries, and the limit for it.
    pub(crate) sges: (usize, u32),
    /// The number of octets, and the limit for it.
    pub(crate) octets: (u64, u32),
    /// It names memory that is not registered, or not for such a request.
    pub(crate) denied: bool,
}

/// The reason why a request that was to be posted does not reach the device.
#[derive(Debug)]
pub(crate) enum NotPosted {
    /// The driver has refused it.
    Refused(PostFailure),
    /// It ends with this status. A failure ends the connection.
    Ends(Status),
    /// The client's call fails.
    Fails(Error),
}

impl From<PostFailure> for NotPosted {
    fn from(failure: PostFailure) -> Self {
        Self::Refused(failure)
    }
}

impl From<Error> for NotPosted {
    fn from(error: Error) -> Self {
        Self::Fails(error)
    }
}

/// Calls `post` with the entries in the form that the device takes.
pub(crate) fn with_entries<T>(core: &Core, sges: &[Sge], post: impl FnOnce(&[LocalSge]) -> T) -> T {
    /// More entries than this are put on the heap.
    const ENTRIES: usize = 16;
    let convert = |sge: &Sge| LocalSge {
        addr: sge.address,
        length: sge.length,
        lkey: sge.token.0,
    };
    let wants_an_entry = core.needs.wants_an_entry;
    match sges {
        [] if wants_an_entry => post(&[core.empty_entry()]),
        [] => post(&[]),
        some if wants_an_entry && some.iter().any(|sge| sge.length == 0) => {
            let full = some.iter().filter(|sge| sge.length > 0);
            let entries: Vec<_> = full.map(convert).collect();
            if entries.is_empty() {
                return post(&[core.empty_entry()]);
            }
            post(&entries)
        }
        few if few.len() <= ENTRIES => {
            let mut entries = [LocalSge::default(); ENTRIES];
            for (into, sge) in entries.iter_mut().zip(few) {
                *into = convert(sge);
            }
            post(&entries[..few.len()])
        }
        many => post(&many.iter().map(convert).collect::<Vec<_>>()),
    }
}

/// Fails if there are too many entries or octets. Each pair is a number and its limit.
pub(crate) fn check_sizes(sges: (usize, u32), octets: (u64, u32)) -> Result<()> {
    if sges.0 > sges.1 as usize {
        return fail(
            Status::DATA_OVERRUN,
            "the request has more SGEs than the queue was created for, or than the device takes for a Read",
        );
    }
    if octets.0 > u64::from(octets.1) {
        return fail(
            Status::BUFFER_OVERFLOW,
            "the request has more data than MaxTransferLength, or more inline data than the queue pair was created for",
        );
    }
    Ok(())
}

/// The error of a queue without a free place.
pub(crate) fn full() -> Error {
    Error::new(
        Status::NO_MORE_ENTRIES,
        "the queue is full; get results first, or create the queue with a larger depth",
    )
}

/// Returns true if the driver has refused a request because the connection has ended.
pub(crate) fn has_ended(error: &io::Error, core: &Core) -> bool {
    match error.raw_os_error() {
        Some(libc::ENOTCONN | libc::ECONNRESET | libc::EPIPE) => true,
        Some(libc::EINVAL) => core.needs.refuses_when_failed,
        _ => false,
    }
}

/// The error of a request that the driver has refused.
pub(crate) fn not_posted(error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EAGAIN | libc::ENOSPC) => full(),
        Some(libc::EIO | libc::ENODEV) => removed(),
        _ => Error::new(
            Status::INVALID_DEVICE_REQUEST,
            format!("the device refuses the request: {error}"),
        ),
    }
}
