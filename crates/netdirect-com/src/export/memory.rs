//! `IND2MemoryRegion` and `IND2MemoryWindow`.

use std::sync::Arc;

use netdirect::{Adapter, Error, MemoryRegion, MemoryWindow, MrFlags, Result, Started, Status};

use super::object::{Class, Object, method, no_more, unknown};
use super::overlapped::{Kind, ObjectWithRequests, overlapped};
use super::parts::Parts;
use super::pointers::check_usable;
use super::pointers::{ClientOverlapped, Octets};
use crate::abi::{
    Guid, IID_ND2_MEMORY_REGION, IID_ND2_MEMORY_WINDOW, IID_ND2_OVERLAPPED, MemoryRegionTable,
    MemoryWindowTable, This,
};

pub(super) type RegionObject = ObjectWithRequests<dyn MemoryRegion>;

static REGION: MemoryRegionTable = MemoryRegionTable {
    overlapped: overlapped::<dyn MemoryRegion>(),
    register: method!(RegionObject, register(buffer: Octets, size: usize, flags: u32, overlapped: ClientOverlapped) -> Result<Started>),
    deregister: method!(RegionObject, deregister(overlapped: ClientOverlapped) -> Result<Started>),
    get_local_token: method!(RegionObject, get_local_token() -> u32),
    get_remote_token: method!(RegionObject, get_remote_token() -> u32),
};

impl Kind for dyn MemoryRegion {
    type Table = MemoryRegionTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_MEMORY_REGION, IID_ND2_OVERLAPPED];

    no_more!();

    fn table() -> &'static MemoryRegionTable {
        &REGION
    }
}

impl RegionObject {
    /// The statuses for missing memory are in AMB-012.
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn register(
        &self,
        buffer: Octets,
        size: usize,
        flags: u32,
        overlapped: ClientOverlapped,
    ) -> Result<Started> {
        let flags = MrFlags::from_bits_retain(flags);
        let start = buffer.memory();
        let refuse = |status, what| Err(Error::new(status, what));
        match (start.is_null(), size) {
            (true, 0) => return refuse(Status::INVALID_PARAMETER, "a null pointer and no octets"),
            (true, _) => return refuse(Status::ACCESS_VIOLATION, "a null pointer"),
            (false, 0) => return refuse(Status::INVALID_BUFFER_SIZE, "a buffer of no octets"),
            (false, _) => {}
        }
        let is_written = flags.intersects(MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK);
        check_usable(start, size, is_written)?;
        let buffer = buffer.buffer(size);
        self.requests.submit(overlapped, 4, |request| {
            self.object.register(&buffer, flags, request)
        })
    }

    fn deregister(&self, overlapped: ClientOverlapped) -> Result<Started> {
        self.requests
            .submit(overlapped, 1, |request| self.object.deregister(request))
    }

    fn get_local_token(&self) -> u32 {
        self.object.get_local_token().0
    }

    fn get_remote_token(&self) -> u32 {
        self.object.get_remote_token().0
    }
}

pub(super) struct WindowObject {
    window: Arc<dyn MemoryWindow>,
    parts: Parts,
}

static WINDOW: MemoryWindowTable = MemoryWindowTable {
    unknown: unknown::<WindowObject>(),
    get_remote_token: method!(WindowObject, get_remote_token() -> u32),
};

impl Class for WindowObject {
    type Table = MemoryWindowTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_MEMORY_WINDOW];

    no_more!();

    fn table() -> &'static MemoryWindowTable {
        &WINDOW
    }

    fn adapter(&self) -> Option<&dyn Adapter> {
        Some(&*self.parts.adapter)
    }
}

impl WindowObject {
    pub(super) fn create(window: Arc<dyn MemoryWindow>, parts: Parts, iid: Guid) -> Result<This> {
        Object::create(Self { window, parts }, iid)
    }

    pub(super) fn window(&self) -> &Arc<dyn MemoryWindow> {
        &self.window
    }

    fn get_remote_token(&self) -> u32 {
        self.window.get_remote_token().0
    }
}
