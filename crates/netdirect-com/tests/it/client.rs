//! A client that uses tables as a program in C does.

use std::ffi::c_void;
use std::ptr;

use netdirect::{MrFlags, Status};
use netdirect_com::abi::*;
use netdirect_com::export::{Library, get_class_object};

pub(crate) static SOFTND: Library = Library {
    open: |_| Ok(softnd::provider(softnd::Options::default())),
    pin: || {},
};

/// Calls a function of an object's table.
macro_rules! call {
    ($object:expr, $table:ty, $($path:ident).+ ($($arg:expr),*)) => {{
        let object: This = $object;
        // SAFETY: the object has this table.
        let table = unsafe { &**object.cast::<*const $table>() };
        // SAFETY: the arguments are those of the method.
        unsafe { (table.$($path).+)(object, $($arg),*) }
    }};
}

pub(crate) use call;

pub(crate) fn overlapped() -> Overlapped {
    // An OVERLAPPED of a careless program: `internal` has any value (TST-006).
    Overlapped {
        internal: usize::MAX,
        internal_high: 7,
        offset: 7,
        offset_high: 7,
        event: ptr::null_mut(),
    }
}

/// The final status of a request, by a call of `object`, which has requests.
pub(crate) fn end(object: This, status: Status, overlapped: &mut Overlapped) -> Status {
    match status {
        Status::PENDING => {
            call!(
                object,
                OverlappedTable,
                get_overlapped_result(&raw mut *overlapped, 1)
            )
        }
        status => status,
    }
}

pub(crate) fn release(object: This) -> u32 {
    call!(object, UnknownTable, release())
}

pub(crate) const LOOPBACK: [u8; 16] = [2, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];

pub(crate) fn provider(library: &'static Library) -> This {
    let mut provider = ptr::null_mut();
    // SAFETY: an identifier, and room for a pointer.
    let status = unsafe { get_class_object(library, &IID_ND2_PROVIDER, &raw mut provider) };
    assert_eq!(status, Status::SUCCESS);
    provider
}

pub(crate) fn adapter(library: &'static Library) -> This {
    let provider = provider(library);
    let (mut id, mut adapter) = (0, ptr::null_mut());
    let status = call!(
        provider,
        ProviderTable,
        resolve_address(LOOPBACK.as_ptr().cast(), 16, &raw mut id)
    );
    assert_eq!(status, Status::SUCCESS);
    let status = call!(
        provider,
        ProviderTable,
        open_adapter(&IID_ND2_ADAPTER, id, &raw mut adapter)
    );
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(release(provider), 0); // PROV-021
    adapter
}

/// One of the two ends of a connection.
pub(crate) struct End {
    pub(crate) cq: This,
    pub(crate) region: This,
    pub(crate) qp: This,
    pub(crate) connector: This,
    pub(crate) buffer: Vec<u8>,
}

impl End {
    pub(crate) fn new(adapter: This, file: Handle) -> Self {
        let (mut cq, mut region, mut qp, mut connector) = (
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        );
        let cq_id = &IID_ND2_COMPLETION_QUEUE;
        let status = call!(
            adapter,
            AdapterTable,
            create_completion_queue(cq_id, file, 16, 0, 0, &raw mut cq)
        );
        assert_eq!(status, Status::SUCCESS);
        let region_id = &IID_ND2_MEMORY_REGION;
        let status = call!(
            adapter,
            AdapterTable,
            create_memory_region(region_id, file, &raw mut region)
        );
        assert_eq!(status, Status::SUCCESS);
        let qp_id = &IID_ND2_QUEUE_PAIR;
        let context = ptr::without_provenance_mut(77);
        let status = call!(
            adapter,
            AdapterTable,
            create_queue_pair(qp_id, cq, cq, context, 4, 4, 1, 1, 0, &raw mut qp)
        );
        assert_eq!(status, Status::SUCCESS);
        let connector_id = &IID_ND2_CONNECTOR;
        let status = call!(
            adapter,
            AdapterTable,
            create_connector(connector_id, file, &raw mut connector)
        );
        assert_eq!(status, Status::SUCCESS);
        let mut this = Self {
            cq,
            region,
            qp,
            connector,
            buffer: vec![0; 64],
        };
        let mut ov = overlapped();
        let flags = MrFlags::ALLOW_LOCAL_WRITE.bits();
        let status = call!(
            region,
            MemoryRegionTable,
            register(
                this.buffer.as_mut_ptr().cast::<c_void>(),
                64,
                flags,
                &raw mut ov
            )
        );
        assert_eq!(end(region, status, &mut ov), Status::SUCCESS);
        assert_eq!(ov.internal, 0);
        this
    }

    pub(crate) fn sge(&mut self) -> Sge {
        Sge {
            buffer: self.buffer.as_mut_ptr().cast(),
            buffer_length: 64,
            memory_region_token: call!(self.region, MemoryRegionTable, get_local_token()),
        }
    }

    /// Waits for one result by Notify and GetResults. The array is not aligned, as in a packed structure of a client.
    pub(crate) fn result(&self) -> CompletionResult {
        loop {
            let mut room = [0_u8; 1 + 2 * size_of::<CompletionResult>()];
            let is_even = room.as_ptr().addr() % 2 == 0;
            let results = room.as_mut_ptr().wrapping_add(usize::from(is_even));
            let results = results.cast::<CompletionResult>();
            let taken = call!(self.cq, CompletionQueueTable, get_results(results, 2));
            if taken > 0 {
                assert_eq!(taken, 1);
                // SAFETY: the queue has left a result there.
                return unsafe { results.read_unaligned() };
            }
            let mut ov = overlapped();
            let status = call!(self.cq, CompletionQueueTable, notify(1, &raw mut ov));
            assert_eq!(end(self.cq, status, &mut ov), Status::SUCCESS);
        }
    }

    /// Releases everything, the queue before its queue pair (TST-026).
    pub(crate) fn release(self) {
        for object in [self.region, self.cq, self.qp, self.connector] {
            assert_eq!(release(object), 0); // AMB-070
        }
    }
}

/// An overlapped file of an adapter.
pub(crate) fn file(adapter: This) -> Handle {
    let mut file = ptr::null_mut();
    let status = call!(adapter, AdapterTable, create_overlapped_file(&raw mut file));
    assert_eq!(status, Status::SUCCESS);
    file
}

/// CloseHandle.
pub(crate) fn close(handle: Handle) {
    // SAFETY: the handle of the creator.
    unsafe { netdirect_com::handle::close(handle) }.unwrap();
}
