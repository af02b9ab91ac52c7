//! Bugs that can be planted, so that `.ci/border` can show that the programs of `tests/com` find them. They exist only in builds
//! with `RUSTFLAGS='--cfg planted_bugs'`. Then `NETDIRECT_COM_PLANTED` in the environment names the one to plant:
//!
//! - `late_status`: the status of a request is written once more when the next one ends
//! - `release_forgets`: the last Release leaves the object with its requests in flight
//! - `record_ignored`: the status in an OVERLAPPED answers GetOverlappedResult while the request is in flight
//! - `status_unwritten`: a call that ends at once leaves the OVERLAPPED pending
//! - `other_position`: the status of a foreign object names the next argument

/// Returns true if a bug is planted: always false, without any code, in other builds.
#[cfg(not(planted_bugs))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// Returns true if a bug is planted.
#[cfg(planted_bugs)]
macro_rules! planted {
    ($bug:ident) => {
        $crate::export::planted::is_planted(stringify!($bug))
    };
}

pub(super) use planted;

#[cfg(planted_bugs)]
pub(super) use bugs::{is_planted, write_later};

#[cfg(planted_bugs)]
mod bugs {
    use std::sync::LazyLock;

    use netdirect::Status;
    use parking_lot::Mutex;
    use rdma_buffer::environment;

    use super::super::pointers::ClientOverlapped;

    static PLANTED: LazyLock<Option<String>> =
        LazyLock::new(|| environment::text("NETDIRECT_COM_PLANTED"));

    /// Returns true if this bug is planted.
    pub(in super::super) fn is_planted(bug: &str) -> bool {
        PLANTED.as_deref() == Some(bug)
    }

    /// Writes a status to the OVERLAPPED that the call before this one got.
    pub(in super::super) fn write_later(client: ClientOverlapped) {
        static LAST: Mutex<Option<ClientOverlapped>> = Mutex::new(None);
        if let Some(last) = LAST.lock().replace(client) {
            last.write(Status::SUCCESS);
        }
    }
}
