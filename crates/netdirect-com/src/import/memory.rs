//! `IND2MemoryRegion` and `IND2MemoryWindow` of a library.

use std::sync::Arc;

use netdirect::{
    Buffer, LocalToken, MemoryRegion, MemoryWindow, MrFlags, Overlapped, OverlappedObject,
    RemoteToken, Result, Started, Status,
};
use parking_lot::Mutex;

use super::overlapping::Overlapping;
use super::pointer::{Pointer, call};
use crate::abi::{MemoryRegionTable, MemoryWindowTable, This};

#[derive(Debug)]
pub(super) struct ImportedRegion {
    object: Overlapping<MemoryRegionTable>,
    /// Lives until the library no longer uses it: Deregister has ended, or the object was released. So it comes behind the object.
    buffer: Arc<Mutex<Option<Buffer>>>,
}

impl ImportedRegion {
    pub(super) fn new(object: Overlapping<MemoryRegionTable>) -> Self {
        Self {
            object,
            buffer: Arc::default(),
        }
    }

    pub(super) fn this(&self) -> This {
        self.object.main().this()
    }
}

impl OverlappedObject for ImportedRegion {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.object.cancel()
    }
}

impl MemoryRegion for ImportedRegion {
    fn register(
        &self,
        buffer: &Buffer,
        flags: MrFlags,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let slot = Arc::clone(&self.buffer);
        let kept = buffer.clone();
        // A region that holds a buffer refuses another one, which must not take the first one's place.
        let then = move |status: Status| {
            if status == Status::SUCCESS {
                *slot.lock() = Some(kept);
            }
        };
        let then = Some(Box::new(then) as _);
        self.object.submit(overlapped, then, |region, pointer| {
            let (start, len) = (buffer.as_ptr().cast_const().cast(), buffer.len());
            call!(region, register(start, len, flags.bits(), pointer))
        })
    }

    fn deregister(&self, overlapped: &Overlapped) -> Result<Started> {
        let slot = Arc::clone(&self.buffer);
        let then = move |status: Status| {
            if status == Status::SUCCESS {
                *slot.lock() = None;
            }
        };
        let then = Some(Box::new(then) as _);
        self.object.submit(overlapped, then, |region, pointer| {
            call!(region, deregister(pointer))
        })
    }

    fn get_local_token(&self) -> LocalToken {
        LocalToken(call!(self.object.main(), get_local_token()))
    }

    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(call!(self.object.main(), get_remote_token()))
    }
}

#[derive(Debug)]
pub(super) struct ImportedWindow(Pointer<MemoryWindowTable>);

impl ImportedWindow {
    pub(super) fn new(object: Pointer<MemoryWindowTable>) -> Self {
        Self(object)
    }

    pub(super) fn this(&self) -> This {
        self.0.this()
    }
}

impl MemoryWindow for ImportedWindow {
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(call!(&self.0, get_remote_token()))
    }
}
