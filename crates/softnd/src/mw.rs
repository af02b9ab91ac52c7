//! Memory windows, ND2's `IND2MemoryWindow`.

use std::sync::Arc;

use iwarp_io::memory;
use netdirect::{Error, MemoryWindow, RemoteToken, Result, Status};
use netdirect_provider::owned;

use crate::core::{Core, NetworkHold, PD};

/// A memory window. A Bind request gives the peer of one queue pair rights to part of a memory region.
#[derive(Debug)]
pub(crate) struct Window {
    core: Arc<Core>,
    pub(crate) window: memory::Window,
    #[expect(dead_code, reason = "kept until it is dropped")]
    hold: NetworkHold,
}

impl Window {
    pub(crate) fn new(core: Arc<Core>, hold: NetworkHold) -> Result<Self> {
        let window = core.table.create_window(PD);
        let window = window.map_err(|_| {
            Error::new(
                Status::INSUFFICIENT_RESOURCES,
                "the adapter has no room for another memory window; release unused windows",
            )
        })?;
        Ok(Self { core, window, hold })
    }
}

owned!(Window of Core: |window| &window.core);

impl MemoryWindow for Window {
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(self.window.stag().map_or(0, |stag| stag.0.to_be()))
    }
}
