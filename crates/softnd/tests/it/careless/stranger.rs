//! An object of another provider, of any kind that is passed to a method.

use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use netdirect::{
    Affinity, Association, Buffer, CompletionQueue, CompletionResult, Connector, Error, LocalToken,
    MemoryRegion, MemoryWindow, MrFlags, NotifyType, OpFlags, Overlapped, OverlappedFile,
    OverlappedObject, QueuePair, ReadLimits, RemoteAddress, RemoteToken, Result, Sge,
    SharedReceiveQueue, Started, Status,
};

#[derive(Debug, Default)]
pub(crate) struct Stranger(Association);

fn none<T>() -> Result<T> {
    Err(Error::new(Status::NOT_SUPPORTED, "a stranger"))
}

impl OverlappedFile for Stranger {
    fn association(&self) -> &Association {
        &self.0
    }
    fn progress(&self) {}
    fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> Result<()> {
        none()
    }
    fn wake(&self) {}
    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl OverlappedObject for Stranger {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        none()
    }
}

impl CompletionQueue for Stranger {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        none()
    }
    fn resize(&self, _: u32) -> Result<()> {
        none()
    }
    fn notify(&self, _: NotifyType, _: &Overlapped) -> Result<Started> {
        none()
    }
    fn get_results(&self, _: &mut [CompletionResult]) -> usize {
        0
    }
}

impl SharedReceiveQueue for Stranger {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        none()
    }
    fn modify(&self, _: u32, _: u32) -> Result<()> {
        none()
    }
    fn notify(&self, _: &Overlapped) -> Result<Started> {
        none()
    }
    fn receive(&self, _: u64, _: &[Sge]) -> Result<()> {
        none()
    }
}

impl MemoryRegion for Stranger {
    fn register(&self, _: &Buffer, _: MrFlags, _: &Overlapped) -> Result<Started> {
        none()
    }
    fn deregister(&self, _: &Overlapped) -> Result<Started> {
        none()
    }
    fn get_local_token(&self) -> LocalToken {
        LocalToken(1)
    }
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(1)
    }
}

impl MemoryWindow for Stranger {
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(2)
    }
}

impl QueuePair for Stranger {
    fn flush(&self) -> Result<()> {
        none()
    }
    fn send(&self, _: u64, _: &[Sge], _: OpFlags) -> Result<()> {
        none()
    }
    fn receive(&self, _: u64, _: &[Sge]) -> Result<()> {
        none()
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
        none()
    }
    fn invalidate(&self, _: u64, _: &Arc<dyn MemoryWindow>, _: OpFlags) -> Result<()> {
        none()
    }
    fn read(&self, _: u64, _: &[Sge], _: RemoteAddress, _: OpFlags) -> Result<()> {
        none()
    }
    fn write(&self, _: u64, _: &[Sge], _: RemoteAddress, _: OpFlags) -> Result<()> {
        none()
    }
    fn send_inline(&self, _: u64, _: &[&[u8]], _: OpFlags) -> Result<()> {
        none()
    }
    fn write_inline(&self, _: u64, _: &[&[u8]], _: RemoteAddress, _: OpFlags) -> Result<()> {
        none()
    }
}

impl Connector for Stranger {
    fn bind(&self, _: SocketAddr) -> Result<()> {
        none()
    }
    fn connect(
        &self,
        _: &Arc<dyn QueuePair>,
        _: SocketAddr,
        _: u32,
        _: u32,
        _: &[u8],
        _: &Overlapped,
    ) -> Result<Started> {
        none()
    }
    fn complete_connect(&self, _: &Overlapped) -> Result<Started> {
        none()
    }
    fn accept(
        &self,
        _: &Arc<dyn QueuePair>,
        _: u32,
        _: u32,
        _: &[u8],
        _: &Overlapped,
    ) -> Result<Started> {
        none()
    }
    fn reject(&self, _: &[u8]) -> Result<()> {
        none()
    }
    fn get_read_limits(&self) -> Result<ReadLimits> {
        none()
    }
    fn get_private_data(&self) -> Result<Vec<u8>> {
        none()
    }
    fn get_local_address(&self) -> Result<SocketAddr> {
        none()
    }
    fn get_peer_address(&self) -> Result<SocketAddr> {
        none()
    }
    fn notify_disconnect(&self, _: &Overlapped) -> Result<Started> {
        none()
    }
    fn disconnect(&self, _: &Overlapped) -> Result<Started> {
        none()
    }
}
