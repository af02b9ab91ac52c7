//! Functions and types that the tests of this crate share.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use netdirect::{
    AdapterFlags, AdapterInfo, Association, Call, Capabilities, Error, MemoryRegion, MemoryWindow,
    OpFlags, OverlappedFile, QueuePair, RemoteAddress, Result, Sge, Status,
};
use parking_lot::Mutex;

use crate::adapter::ProviderAdapter;
use crate::error::removed;
use crate::owned;
use crate::removal::{DeviceObject, RemovalOrder};

/// A file whose requests end without a thread that drives them.
#[derive(Debug)]
pub(crate) struct IdleFile {
    association: Association,
    adapter: Arc<TestAdapter>,
}

owned!(IdleFile of TestAdapter: |file| &file.adapter);

impl OverlappedFile for IdleFile {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {}

    fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> Result<()> {
        Ok(())
    }

    fn wake(&self) {}

    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

impl IdleFile {
    pub(crate) fn new(adapter: &Arc<TestAdapter>) -> Self {
        Self {
            association: Association::default(),
            adapter: Arc::clone(adapter),
        }
    }
}

/// A file of this adapter.
pub(crate) fn file_of(adapter: &Arc<TestAdapter>) -> Arc<IdleFile> {
    Arc::new(IdleFile::new(adapter))
}

/// A file of no adapter that anything else belongs to.
pub(crate) fn file() -> Arc<dyn OverlappedFile> {
    file_of(&TestAdapter::at(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

/// A queue pair that is only passed on.
#[derive(Debug)]
pub(crate) struct UnusedQueuePair;

impl QueuePair for UnusedQueuePair {
    fn flush(&self) -> Result<()> {
        unreachable!()
    }

    fn send(&self, _: u64, _: &[Sge], _: OpFlags) -> Result<()> {
        unreachable!()
    }

    fn receive(&self, _: u64, _: &[Sge]) -> Result<()> {
        unreachable!()
    }

    fn bind(
        &self,
        _: u64,
        _: &Arc<dyn MemoryRegion>,
        _: &Arc<dyn MemoryWindow>,
        _: u64,
        _: u64,
        _: OpFlags,
    ) -> Result<()> {
        unreachable!()
    }

    fn invalidate(&self, _: u64, _: &Arc<dyn MemoryWindow>, _: OpFlags) -> Result<()> {
        unreachable!()
    }

    fn read(&self, _: u64, _: &[Sge], _: RemoteAddress, _: OpFlags) -> Result<()> {
        unreachable!()
    }

    fn write(&self, _: u64, _: &[Sge], _: RemoteAddress, _: OpFlags) -> Result<()> {
        unreachable!()
    }

    fn send_inline(&self, _: u64, _: &[&[u8]], _: OpFlags) -> Result<()> {
        unreachable!()
    }

    fn write_inline(&self, _: u64, _: &[&[u8]], _: RemoteAddress, _: OpFlags) -> Result<()> {
        unreachable!()
    }
}

/// An adapter of one address, which can be removed, and whose next call can be made to fail.
#[derive(Debug)]
pub(crate) struct TestAdapter {
    addresses: [IpAddr; 1],
    pub(crate) is_removed: AtomicBool,
    pub(crate) objects: Mutex<Vec<(RemovalOrder, DeviceObject)>>,
    pub(crate) fault: Mutex<Option<(Call, Status)>>,
    pub(crate) info: Mutex<AdapterInfo>,
    pub(crate) capabilities: Mutex<Capabilities>,
}

impl TestAdapter {
    pub(crate) fn at(address: IpAddr) -> Arc<Self> {
        let mut info = AdapterInfo::default();
        info.max_registration_size = 64;
        info.max_initiator_sge = 8;
        info.max_receive_sge = 8;
        info.max_initiator_queue_depth = 16;
        info.max_receive_queue_depth = 16;
        info.max_completion_queue_depth = 8;
        info.max_shared_receive_queue_depth = 8;
        info.flags = AdapterFlags::CQ_RESIZE_SUPPORTED;
        Arc::new(Self {
            addresses: [address],
            is_removed: AtomicBool::new(false),
            objects: Mutex::default(),
            fault: Mutex::new(None),
            info: Mutex::new(info),
            capabilities: Mutex::new(Capabilities::empty()),
        })
    }
}

impl TestAdapter {
    /// Removes the device.
    pub(crate) fn remove(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
        let mut objects = std::mem::take(&mut *self.objects.lock());
        objects.sort_by_key(|(order, _)| *order);
        for (_, object) in objects {
            object.device_removed();
        }
    }
}

impl ProviderAdapter for TestAdapter {
    type Entry = ();

    fn list(&self, order: RemovalOrder, object: DeviceObject) -> Result<()> {
        self.present()?;
        self.objects.lock().push((order, object));
        Ok(())
    }

    fn info(&self) -> AdapterInfo {
        *self.info.lock()
    }

    fn capabilities(&self) -> Capabilities {
        *self.capabilities.lock()
    }

    fn present(&self) -> Result<()> {
        if self.is_removed.load(Ordering::SeqCst) {
            return Err(removed());
        }
        Ok(())
    }

    fn admit(&self, call: Call) -> Result<()> {
        self.present()?;
        match self.fault.lock().take_if(|(failing, _)| *failing == call) {
            Some((_, status)) => Err(Error::new(status, "injected")),
            None => Ok(()),
        }
    }

    fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    fn serves(&self, ip: IpAddr) -> bool {
        self.addresses.contains(&ip)
    }

    fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let [own] = self.addresses;
        (own.is_ipv4() == peer.is_ipv4()).then_some(own)
    }
}
