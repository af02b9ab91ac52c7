//! Which completion port an overlapped file is tied to.

use std::sync::Arc;

use super::{Association, CompletionPort, OverlappedFile, Tie};
use crate::{Error, Result, Status};

impl dyn OverlappedFile {
    /// Associates the file with a completion port (`CreateIoCompletionPort`). From now on, every request of the file's objects
    /// that returned [`Pending`](crate::Started::Pending) queues a [`Packet`](crate::Packet) with this key at its end.
    ///
    /// A file can be associated only once.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_DEVICE_STATE`]: the file is associated with a port already, or was closed.
    pub fn associate(self: &Arc<Self>, port: &CompletionPort, key: u64) -> Result<()> {
        self.association().set(port, key)?;
        port.attach(self);
        Ok(())
    }
}

impl Association {
    /// Without a port.
    pub fn new() -> Self {
        Self::default()
    }

    /// The port and the key that were passed to [`associate`](trait.OverlappedFile.html#method.associate).
    pub fn port(&self) -> Option<(CompletionPort, u64)> {
        match &*self.0.lock() {
            Tie::Port(port, key) => Some((port.clone(), *key)),
            Tie::None | Tie::Closed => None,
        }
    }

    /// Releases the port for good: requests that end later queue no packet, and the file cannot be associated with another
    /// port. Events, waits and futures still work. For providers whose files can be closed while objects use them.
    pub fn close(&self) {
        let tie = std::mem::replace(&mut *self.0.lock(), Tie::Closed);
        drop(tie); // outside the lock: this may be the last reference to the port
    }

    fn set(&self, port: &CompletionPort, key: u64) -> Result<()> {
        let mut tie = self.0.lock();
        match *tie {
            Tie::None => *tie = Tie::Port(port.clone(), key),
            Tie::Port(..) => {
                return Err(Error::new(
                    Status::INVALID_DEVICE_STATE,
                    "the file is tied to a completion port already",
                ));
            }
            Tie::Closed => {
                return Err(Error::new(
                    Status::INVALID_DEVICE_STATE,
                    "the file was closed",
                ));
            }
        }
        Ok(())
    }
}
