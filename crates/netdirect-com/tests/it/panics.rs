//! A provider whose code panics.

use std::net::SocketAddr;
use std::ptr;
use std::sync::Arc;

use netdirect::{
    Adapter, AdapterExtensions, AdapterId, AdapterInfo, Affinity, CompletionQueue, Connector,
    Listener, MemoryRegion, MemoryWindow, OverlappedFile, Provider, QueuePair, QueuePairOptions,
    Result, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use netdirect_com::abi::*;
use netdirect_com::export::Library;

use crate::client::{adapter, call, close, file, release};

/// softnd, except that it panics when a window is made.
#[derive(Debug)]
struct Panics<T: ?Sized>(Arc<T>);

static PANICS: Library = Library {
    open: |_| {
        Ok(Arc::new(Panics(softnd::provider(
            softnd::Options::default(),
        ))))
    },
    pin: || {},
};

impl Provider for Panics<dyn Provider> {
    fn name(&self) -> &str {
        "panics"
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.0.query_address_list()
    }

    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId> {
        self.0.resolve_address(address)
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        Ok(Arc::new(Panics(self.0.open_adapter(id)?)))
    }
}

impl Adapter for Panics<dyn Adapter> {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        self.0.create_overlapped_file()
    }

    fn query(&self) -> Result<AdapterInfo> {
        self.0.query()
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.0.query_address_list()
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        self.0.create_completion_queue(file, depth, affinity)
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        self.0.create_memory_region(file)
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        panic!("planted")
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        self.0.create_shared_receive_queue(file, options)
    }

    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.0.create_queue_pair(receive_cq, initiator_cq, options)
    }

    fn create_queue_pair_with_srq(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.0
            .create_queue_pair_with_srq(receive_cq, initiator_cq, srq, options)
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        self.0.create_connector(file)
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        self.0.create_listener(file)
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        self.0.extensions()
    }
}

#[test]
fn a_panic_ends_the_adapter_and_not_the_program() {
    let adapter = adapter(&PANICS);
    let file = file(adapter);
    let mut window = ptr::null_mut();
    let iid = &raw const WINDOW;
    let status = call!(
        adapter,
        AdapterTable,
        create_memory_window(iid, &raw mut window)
    );
    assert_eq!(status, Status::INTERNAL_ERROR);
    assert!(window.is_null());
    let mut region = ptr::null_mut();
    let iid = &raw const REGION;
    let status = call!(
        adapter,
        AdapterTable,
        create_memory_region(iid, file, &raw mut region)
    );
    assert_eq!(status, Status::DEVICE_REMOVED);
    close(file);
    assert_eq!(release(adapter), 0);
}

static WINDOW: Guid = IID_ND2_MEMORY_WINDOW;
static REGION: Guid = IID_ND2_MEMORY_REGION;
