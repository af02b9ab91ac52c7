//! Overlapped files of a library.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::OnceLock;
use std::time::Instant;

use netdirect::{Association, Error, OverlappedFile, Result, Status};

use super::loaded::Loaded;
use super::requests::ImportedRequests;
use crate::abi::Handle;
use crate::handle::{FileRef, PortRef, close};

/// An overlapped file. A thread that waits in it ends requests of the whole adapter; otherwise the adapter's own thread does so.
pub(super) struct ImportedFile {
    association: Association,
    handle: OwnedHandle,
    requests: Arc<ImportedRequests>,
    #[cfg(unix)]
    bell: OnceLock<Option<Bell>>,
    library: Arc<Loaded>,
}

/// The handle that CreateOverlappedFile has returned.
pub struct OwnedHandle(Handle);

// SAFETY: any thread may use a handle.
unsafe impl Send for OwnedHandle {}
// SAFETY: as above.
unsafe impl Sync for OwnedHandle {}

impl OwnedHandle {
    /// Takes over a handle, and closes it when dropped.
    ///
    /// # Safety
    ///
    /// CreateOverlappedFile has returned the handle, it is not null, and nothing else closes it.
    pub unsafe fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// The handle, which is open as long as this value lives.
    pub fn handle(&self) -> Handle {
        self.0
    }

    /// Ties the file to a completion port: its requests end there with this key. Returns the library's status.
    ///
    /// # Safety
    ///
    /// `port` is a completion port, and is not closed during the call.
    pub unsafe fn associate(&self, port: Handle, key: usize) -> Status {
        // SAFETY: this value keeps the file's handle open.
        let file = unsafe { FileRef::retain(self.0) };
        // SAFETY: the contract of this function.
        let port = unsafe { PortRef::retain(port) };
        let tied = file.and_then(|file| file.associate(&port?, key));
        tied.err().unwrap_or(Status::SUCCESS)
    }
}

impl Drop for OwnedHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's, and is closed once.
        let _ = unsafe { close(self.0) };
    }
}

impl ImportedFile {
    /// The file behind a handle that the library has just returned.
    pub(super) fn new(
        library: &Arc<Loaded>,
        requests: Arc<ImportedRequests>,
        handle: Handle,
    ) -> Result<Arc<Self>> {
        let handle = OwnedHandle(handle);
        // SAFETY: `requests` keeps the handle of its port open.
        let status = unsafe { handle.associate(requests.port.handle(), 0) };
        status.ok()?;
        Ok(Arc::new(Self {
            association: Association::new(),
            handle,
            requests,
            #[cfg(unix)]
            bell: OnceLock::new(),
            library: Arc::clone(library),
        }))
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.0
    }

    pub(super) fn requests(&self) -> &ImportedRequests {
        &self.requests
    }

    /// The file of this provider behind an argument, which is argument 2 of all methods of COM.
    pub(super) fn from_argument(file: &Arc<dyn OverlappedFile>) -> Result<&Self> {
        (&**file as &dyn std::any::Any)
            .downcast_ref()
            .ok_or_else(|| Error::new(Status::INVALID_HANDLE, "a file of another provider"))
    }
}

impl Drop for ImportedFile {
    fn drop(&mut self) {
        self.requests.drain();
        #[cfg(unix)]
        if let Some(Some(bell)) = self.bell.get() {
            self.requests.port.remove_bell(bell.ring());
        }
    }
}

impl fmt::Debug for ImportedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedFile")
            .field("library", &self.library)
            .finish_non_exhaustive()
    }
}

impl OverlappedFile for ImportedFile {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        #[cfg(unix)]
        if let Some(Some(bell)) = self.bell.get() {
            bell.silence();
        }
        self.requests.drain();
    }

    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> Result<()> {
        self.requests
            .port
            .park(&|| self.requests.drain(), done, deadline);
        Ok(())
    }

    fn wake(&self) {
        self.requests.port.wake();
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        let bell = self.bell.get_or_init(|| {
            let bell = Bell::new()?;
            self.requests.port.add_bell(Arc::clone(bell.ring()));
            Some(bell)
        });
        bell.as_ref().map(Bell::as_fd)
    }
}

#[cfg(target_os = "linux")]
use linux::Bell;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::Arc;

    use rustix::event::{EventfdFlags, eventfd};

    use super::super::port::Ring;

    /// A descriptor that is readable from the first ring on until it is silenced.
    pub(super) struct Bell {
        fd: Arc<OwnedFd>,
        ring: Ring,
    }

    impl Bell {
        pub(super) fn new() -> Option<Self> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            let fd = Arc::new(fd);
            let rung = Arc::clone(&fd);
            let ring = move || {
                // A full counter is readable, too.
                let _ = rustix::io::write(&*rung, &1_u64.to_ne_bytes());
            };
            Some(Self {
                fd,
                ring: Arc::new(ring),
            })
        }

        /// The function that makes the descriptor readable.
        pub(super) fn ring(&self) -> &Ring {
            &self.ring
        }

        pub(super) fn silence(&self) {
            let _ = rustix::io::read(&*self.fd, &mut [0; 8]);
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.fd.as_fd()
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
use other::Bell;

#[cfg(all(unix, not(target_os = "linux")))]
mod other {
    use std::os::fd::BorrowedFd;

    use super::super::port::Ring;

    /// Only Linux has descriptors for event loops here.
    pub(super) enum Bell {}

    impl Bell {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn ring(&self) -> &Ring {
            match *self {}
        }

        pub(super) fn silence(&self) {
            match *self {}
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }
    }
}
