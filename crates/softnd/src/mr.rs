//! Memory regions, ND2's `IND2MemoryRegion`.

use std::sync::Arc;

use iwarp_io::memory::{RegisterError, Registration, Rights};
use netdirect::{Buffer, Error, LocalToken, MrFlags, RemoteToken, Result, Status};
use netdirect_provider::memory_region::RegistrationLine;

use crate::core::{Core, PD};

/// A buffer in the adapter's STag table.
#[derive(Debug)]
pub(crate) struct RegisteredBuffer(pub(crate) Registration);

impl RegistrationLine for RegisteredBuffer {
    type Adapter = Core;

    fn register(core: &Arc<Core>, buffer: &Buffer, flags: MrFlags) -> Result<Self> {
        let registration = core.table.register(buffer, rights(flags), PD);
        registration.map(Self).map_err(|error| {
            let advice = match error {
                RegisterError::Full => "; deregister regions that are not in use",
                _ => "",
            };
            Error::new(Status::INSUFFICIENT_RESOURCES, format!("{error}{advice}")) // MR-008
        })
    }

    fn deregister(self) -> Result<(), Self> {
        let deregistered = self.0.deregister();
        deregistered.map_err(|(registration, _busy)| Self(registration))
    }

    fn local_token(&self) -> LocalToken {
        LocalToken(self.0.stag().0)
    }

    fn remote_token(&self) -> RemoteToken {
        RemoteToken::from_host(self.0.stag().0)
    }
}

fn rights(flags: MrFlags) -> Rights {
    let mut rights = Rights::empty();
    for (right, flag) in [
        (Rights::LOCAL_WRITE, MrFlags::ALLOW_LOCAL_WRITE),
        (Rights::REMOTE_READ, MrFlags::ALLOW_REMOTE_READ),
        (Rights::REMOTE_WRITE, MrFlags::ALLOW_REMOTE_WRITE),
        (Rights::READ_SINK, MrFlags::RDMA_READ_SINK),
    ] {
        rights.set(right, flags.contains(flag));
    }
    // ND2 has no flag for Atomics.
    let both = Rights::REMOTE_READ | Rights::REMOTE_WRITE;
    rights.set(Rights::REMOTE_ATOMIC, rights.contains(both));
    rights
}
