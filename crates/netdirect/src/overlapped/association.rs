//! Which completion port an overlapped file is tied to.

use std::sync::Arc;

use super::{Association, CompletionPort, OverlappedFile, Tie};
use crate::{Error, Result, Status};

impl dyn OverlappedFile {
    /// Ties the file to a completion port (`CreateIoCompletionPort`): the end of every request of its objects that returned
    /// pending is queued there, as a [`Packet`](crate::Packet) with this key.
    ///
    /// Only requests that end from now on; only once in the life of a file.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_DEVICE_STATE`]: the file is tied to a port already, or was closed.
    pub fn associate(self: &Arc<Self>, port: &CompletionPort, key: u64) -> Result<()> {
        self.association().set(port, key)?;
        port.attach(self);
        Ok(())
    }
}

impl Association {
    /// Not tied to any port.
    pub fn new() -> Self {
        Self::default()
    }

    /// The port and the key, once [`associate`](trait.OverlappedFile.html#method.associate) was called.
    pub fn port(&self) -> Option<(CompletionPort, u64)> {
        match &*self.0.lock() {
            Tie::Port(port, key) => Some((port.clone(), *key)),
            Tie::None | Tie::Closed => None,
        }
    }

    /// Lets go of the port for good: requests that end later are not queued to it, and no other port can be tied. Events,
    /// waits and futures go on working. For providers whose files can be closed while objects still use them.
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
