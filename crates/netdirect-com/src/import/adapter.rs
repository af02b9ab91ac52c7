//! `IND2Adapter` of a library.

use std::net::SocketAddr;
use std::ptr;
use std::sync::Arc;

use netdirect::{
    Adapter, AdapterExtensions, AdapterFlags, AdapterId, AdapterInfo, Affinity, CompletionQueue,
    Connector, Listener, MemoryRegion, MemoryWindow, OverlappedFile, QueuePair, QueuePairOptions,
    Result, SharedReceiveQueue, SharedReceiveQueueOptions, VERSION_2,
};
use parking_lot::Mutex;

use super::addresses;
use super::connection::{ImportedConnector, ImportedListener};
use super::extensions::OfAdapter;
use super::file::ImportedFile;
use super::memory::{ImportedRegion, ImportedWindow};
use super::overlapping::Overlapping;
use super::pointer::{Pointer, argument, call, check, create};
use super::queues::{ImportedCompletionQueue, ImportedQueuePair, ImportedSharedReceiveQueue};
use super::requests::ImportedRequests;
use crate::abi::{
    self, AdapterTable, IID_ADAPTER_EXTENSION, IID_ND2_COMPLETION_QUEUE, IID_ND2_CONNECTOR,
    IID_ND2_LISTENER, IID_ND2_MEMORY_REGION, IID_ND2_MEMORY_WINDOW, IID_ND2_QUEUE_PAIR,
    IID_ND2_SHARED_RECEIVE_QUEUE,
};

#[derive(Debug)]
pub(super) struct ImportedAdapter {
    object: Pointer<AdapterTable>,
    /// Made with the first file.
    requests: Arc<Mutex<Option<Arc<ImportedRequests>>>>,
    extension: Option<OfAdapter>,
}

impl ImportedAdapter {
    pub(super) fn new(object: Pointer<AdapterTable>) -> Self {
        let requests = Arc::default();
        let extension = object.query(IID_ADAPTER_EXTENSION).ok();
        let extension = extension.map(|object| OfAdapter {
            object,
            requests: Arc::clone(&requests),
        });
        Self {
            object,
            requests,
            extension,
        }
    }

    fn requests(&self) -> Result<Arc<ImportedRequests>> {
        let mut requests = self.requests.lock();
        if let Some(requests) = &*requests {
            return Ok(Arc::clone(requests));
        }
        Ok(Arc::clone(requests.insert(ImportedRequests::new()?)))
    }
}

fn mask(affinity: Affinity) -> usize {
    usize::try_from(affinity.mask).unwrap_or(usize::MAX)
}

impl Adapter for ImportedAdapter {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        let mut handle = ptr::null_mut();
        check(call!(&self.object, create_overlapped_file(&raw mut handle)))?;
        Ok(ImportedFile::new(
            self.object.library(),
            self.requests()?,
            handle,
        )?)
    }

    fn query(&self) -> Result<AdapterInfo> {
        let mut info = abi::AdapterInfo {
            info_version: VERSION_2,
            ..abi::AdapterInfo::default()
        };
        let mut size = u32::try_from(size_of_val(&info)).expect("a size of 96");
        check(call!(&self.object, query(&raw mut info, &raw mut size)))?;
        let mut limits = AdapterInfo::default();
        limits.vendor_id = info.vendor_id;
        limits.device_id = info.device_id;
        limits.adapter_id = AdapterId(info.adapter_id);
        limits.max_registration_size = info.max_registration_size as u64;
        limits.max_window_size = info.max_window_size as u64;
        limits.max_initiator_sge = info.max_initiator_sge;
        limits.max_receive_sge = info.max_receive_sge;
        limits.max_read_sge = info.max_read_sge;
        limits.max_transfer_length = info.max_transfer_length;
        limits.max_inline_data_size = info.max_inline_data_size;
        limits.max_inbound_read_limit = info.max_inbound_read_limit;
        limits.max_outbound_read_limit = info.max_outbound_read_limit;
        limits.max_receive_queue_depth = info.max_receive_queue_depth;
        limits.max_initiator_queue_depth = info.max_initiator_queue_depth;
        limits.max_shared_receive_queue_depth = info.max_shared_receive_queue_depth;
        limits.max_completion_queue_depth = info.max_completion_queue_depth;
        limits.inline_request_threshold = info.inline_request_threshold;
        limits.large_request_threshold = info.large_request_threshold;
        limits.max_caller_data = info.max_caller_data;
        limits.max_callee_data = info.max_callee_data;
        limits.flags = AdapterFlags::from_bits_retain(info.adapter_flags);
        Ok(limits)
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        addresses::list(|list, size| call!(&self.object, query_address_list(list, size)))
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        let handle = ImportedFile::from_argument(file)?.handle();
        let (group, mask) = (affinity.group, mask(affinity));
        let iid = IID_ND2_COMPLETION_QUEUE;
        let made = create!(
            &self.object,
            create_completion_queue(iid, handle, depth, group, mask)
        );
        let object = Overlapping::new(made?, file)?;
        Ok(Arc::new(ImportedCompletionQueue::new(object)))
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        let handle = ImportedFile::from_argument(file)?.handle();
        let made = create!(
            &self.object,
            create_memory_region(IID_ND2_MEMORY_REGION, handle)
        );
        let object = Overlapping::new(made?, file)?;
        Ok(Arc::new(ImportedRegion::new(object)))
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        let made = create!(&self.object, create_memory_window(IID_ND2_MEMORY_WINDOW));
        Ok(Arc::new(ImportedWindow::new(made?)))
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        let handle = ImportedFile::from_argument(file)?.handle();
        let iid = IID_ND2_SHARED_RECEIVE_QUEUE;
        let made = create!(
            &self.object,
            create_shared_receive_queue(
                iid,
                handle,
                options.queue_depth,
                options.max_request_sge,
                options.notify_threshold,
                options.affinity.group,
                mask(options.affinity)
            )
        );
        let object = Overlapping::new(made?, file)?;
        Ok(Arc::new(ImportedSharedReceiveQueue::new(object)))
    }

    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let receive = argument::<ImportedCompletionQueue>(&**receive_cq, 2)?.this();
        let initiator = argument::<ImportedCompletionQueue>(&**initiator_cq, 3)?.this();
        let made = create!(
            &self.object,
            create_queue_pair(
                IID_ND2_QUEUE_PAIR,
                receive,
                initiator,
                crate::context::pointer(options.context),
                options.receive_queue_depth,
                options.initiator_queue_depth,
                options.max_receive_request_sge,
                options.max_initiator_request_sge,
                options.inline_data_size
            )
        );
        Ok(Arc::new(ImportedQueuePair::new(made?)))
    }

    fn create_queue_pair_with_srq(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let receive = argument::<ImportedCompletionQueue>(&**receive_cq, 2)?.this();
        let initiator = argument::<ImportedCompletionQueue>(&**initiator_cq, 3)?.this();
        let srq = argument::<ImportedSharedReceiveQueue>(&**srq, 4)?.this();
        let made = create!(
            &self.object,
            create_queue_pair_with_srq(
                IID_ND2_QUEUE_PAIR,
                receive,
                initiator,
                srq,
                crate::context::pointer(options.context),
                options.initiator_queue_depth,
                options.max_initiator_request_sge,
                options.inline_data_size
            )
        );
        Ok(Arc::new(ImportedQueuePair::new(made?)))
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        let handle = ImportedFile::from_argument(file)?.handle();
        let made = create!(&self.object, create_connector(IID_ND2_CONNECTOR, handle));
        let object = Overlapping::new(made?, file)?;
        Ok(Arc::new(ImportedConnector::new(object)))
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        let handle = ImportedFile::from_argument(file)?.handle();
        let made = create!(&self.object, create_listener(IID_ND2_LISTENER, handle));
        let object = Overlapping::new(made?, file)?;
        Ok(Arc::new(ImportedListener::new(object)))
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        self.extension.as_ref().map(|extension| extension as _)
    }
}
