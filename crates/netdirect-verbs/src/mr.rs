//! Memory regions, ND2's `IND2MemoryRegion`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use netdirect::{Buffer, LocalToken, MrFlags, RemoteToken, Result};
use netdirect_provider::memory_region::RegistrationLine;

use crate::core::{Core, RegisteredRange};
use crate::handle::{Access, Registration};
use crate::status::shortage;

/// A buffer that is registered with the device.
#[derive(Debug)]
pub(crate) struct RegisteredBuffer {
    core: Arc<Core>,
    pub(crate) registration: Arc<Registration>,
    pub(crate) can_be_written: bool,
    /// The number of windows that are bound to it, or have Binds or Invalidates queued.
    pub(crate) windows: Arc<AtomicUsize>,
}

impl RegistrationLine for RegisteredBuffer {
    type Adapter = Core;

    fn register(core: &Arc<Core>, buffer: &Buffer, flags: MrFlags) -> Result<Self> {
        let access = access(core, flags);
        let registration = Registration::new(&core.pd, buffer, access);
        let registration = registration.map_err(shortage("cannot register the buffer"))?; // MR-008
        let range = RegisteredRange {
            address: buffer.address(),
            length: buffer.len() as u64,
        };
        core.add_region(registration.local_key(), range);
        Ok(Self {
            core: Arc::clone(core),
            registration: Arc::new(registration),
            can_be_written: access.local_write,
            windows: Arc::default(),
        })
    }

    fn deregister(self) -> Result<(), Self> {
        match self.windows.load(Ordering::SeqCst) {
            0 => Ok(()), // by the drop of `self`, which makes the device release the buffer
            _ => Err(self),
        }
    }

    fn local_token(&self) -> LocalToken {
        LocalToken(self.registration.local_key())
    }

    fn remote_token(&self) -> RemoteToken {
        RemoteToken::from_host(self.registration.remote_key())
    }
}

impl Drop for RegisteredBuffer {
    fn drop(&mut self) {
        self.core.remove_region(self.registration.local_key());
    }
}

fn access(core: &Core, flags: MrFlags) -> Access {
    let is_sink = flags.contains(MrFlags::RDMA_READ_SINK);
    let remote_write =
        flags.contains(MrFlags::ALLOW_REMOTE_WRITE) || is_sink && core.needs.sink_is_remote_write;
    Access {
        local_write: flags.contains(MrFlags::ALLOW_LOCAL_WRITE) || is_sink,
        remote_read: flags.contains(MrFlags::ALLOW_REMOTE_READ),
        remote_write,
        bind: core.limits.windows.is_some(),
        atomic: core.limits.device.has_atomics
            && flags.contains(MrFlags::ALLOW_REMOTE_READ | MrFlags::ALLOW_REMOTE_WRITE),
    }
}
