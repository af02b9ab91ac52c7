//! softnd as objects of COM, used by their tables as a program in C uses them.

#![cfg(unix)]

use std::ffi::c_void;
use std::ptr;

use netdirect::{MrFlags, Status};
use netdirect_com::abi::*;
use netdirect_com::export::{Library, can_unload_now, get_class_object};

static LIBRARY: Library = Library {
    open: |_| Ok(softnd::provider(softnd::Options::default())),
    pin: || {},
};

/// Calls a function of an object's table.
macro_rules! call {
    ($object:expr, $table:ty, $($path:ident).+ ($($arg:expr),*)) => {{
        let object: This = $object;
        // SAFETY: the object has this table.
        let table = unsafe { &**object.cast::<*const $table>() };
        // SAFETY: the arguments are what the method wants.
        unsafe { (table.$($path).+)(object, $($arg),*) }
    }};
}

fn overlapped() -> Overlapped {
    // As a careless program has it: `internal` holds anything (TST-006).
    Overlapped {
        internal: usize::MAX,
        internal_high: 7,
        offset: 7,
        offset_high: 7,
        event: ptr::null_mut(),
    }
}

/// The final status of a request, asked of `object`, which has requests.
fn end(object: This, status: Status, overlapped: &mut Overlapped) -> Status {
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

fn release(object: This) -> u32 {
    call!(object, UnknownTable, release())
}

const LOOPBACK: [u8; 16] = [2, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];

fn provider() -> This {
    let mut provider = ptr::null_mut();
    // SAFETY: an identifier, and room for a pointer.
    let status = unsafe { get_class_object(&LIBRARY, &IID_ND2_PROVIDER, &raw mut provider) };
    assert_eq!(status, Status::SUCCESS);
    provider
}

fn adapter() -> This {
    let provider = provider();
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
struct End {
    cq: This,
    region: This,
    qp: This,
    connector: This,
    buffer: Vec<u8>,
}

impl End {
    fn new(adapter: This, file: Handle) -> Self {
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

    fn sge(&mut self) -> Sge {
        Sge {
            buffer: self.buffer.as_mut_ptr().cast(),
            buffer_length: 64,
            memory_region_token: call!(self.region, MemoryRegionTable, get_local_token()),
        }
    }

    /// Waits for one result by Notify and GetResults.
    fn result(&self) -> CompletionResult {
        loop {
            let mut results = [CompletionResult {
                status: Status::PENDING,
                bytes_transferred: 0,
                queue_pair_context: ptr::null_mut(),
                request_context: ptr::null_mut(),
                request_type: 99,
            }; 2];
            let taken = call!(
                self.cq,
                CompletionQueueTable,
                get_results(results.as_mut_ptr(), 2)
            );
            if taken > 0 {
                assert_eq!(taken, 1);
                return results[0];
            }
            let mut ov = overlapped();
            let status = call!(self.cq, CompletionQueueTable, notify(1, &raw mut ov));
            assert_eq!(end(self.cq, status, &mut ov), Status::SUCCESS);
        }
    }

    /// Releases everything, the queue before its queue pair (TST-026).
    fn release(self) {
        for object in [self.region, self.cq, self.qp, self.connector] {
            assert_eq!(release(object), 0); // AMB-070
        }
    }
}

#[test]
fn two_ends_connect_and_send_through_tables() {
    let adapter = adapter();
    let mut file = ptr::null_mut();
    let status = call!(adapter, AdapterTable, create_overlapped_file(&raw mut file));
    assert_eq!(status, Status::SUCCESS);
    let (mut active, mut passive) = (End::new(adapter, file), End::new(adapter, file));
    let mut listener = ptr::null_mut();
    let id = &IID_ND2_LISTENER;
    let status = call!(
        adapter,
        AdapterTable,
        create_listener(id, file, &raw mut listener)
    );
    assert_eq!(status, Status::SUCCESS);
    let status = call!(listener, ListenerTable, bind(LOOPBACK.as_ptr().cast(), 16));
    assert_eq!(status, Status::SUCCESS);
    let status = call!(listener, ListenerTable, listen(0));
    assert_eq!(status, Status::SUCCESS);
    let (mut address, mut size) = ([0_u8; 28], 28);
    let status = call!(
        listener,
        ListenerTable,
        get_local_address(address.as_mut_ptr().cast(), &raw mut size)
    );
    assert_eq!((status, size), (Status::SUCCESS, 16));

    let mut request = overlapped();
    let started = call!(
        listener,
        ListenerTable,
        get_connection_request(passive.connector, &raw mut request)
    );
    let mut connect = overlapped();
    let data = *b"hello";
    let connected = call!(
        active.connector,
        ConnectorTable,
        connect(
            active.qp,
            address.as_ptr().cast(),
            16,
            1,
            1,
            data.as_ptr().cast(),
            5,
            &raw mut connect
        )
    );
    assert_eq!(end(listener, started, &mut request), Status::SUCCESS);
    // A buffer that is too short gets what fits (CONN-085).
    let (mut told, mut told_size) = ([0_u8; 2], 2);
    let status = call!(
        passive.connector,
        ConnectorTable,
        get_private_data(told.as_mut_ptr().cast(), &raw mut told_size)
    );
    assert_eq!(
        (status, told_size, told),
        (Status::BUFFER_OVERFLOW, 5, *b"he")
    );

    let sge = passive.sge();
    let context = ptr::without_provenance_mut(5);
    let status = call!(
        passive.qp,
        QueuePairTable,
        receive(context, &raw const sge, 1)
    );
    assert_eq!(status, Status::SUCCESS);
    let mut accept = overlapped();
    let accepted = call!(
        passive.connector,
        ConnectorTable,
        accept(passive.qp, 1, 1, ptr::null(), 0, &raw mut accept)
    );
    assert_eq!(
        end(active.connector, connected, &mut connect),
        Status::SUCCESS
    );
    let mut complete = overlapped();
    let completed = call!(
        active.connector,
        ConnectorTable,
        complete_connect(&raw mut complete)
    );
    assert_eq!(end(active.cq, completed, &mut complete), Status::SUCCESS); // OVL-023
    assert_eq!(
        end(passive.connector, accepted, &mut accept),
        Status::SUCCESS
    );

    active.buffer.copy_from_slice(&[b'x'; 64]);
    let sge = active.sge();
    let status = call!(
        active.qp,
        QueuePairTable,
        send(ptr::null_mut(), &raw const sge, 1, 0)
    );
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(active.result().status, Status::SUCCESS);
    let received = passive.result();
    assert_eq!(
        (received.status, received.bytes_transferred),
        (Status::SUCCESS, 64)
    );
    assert_eq!(received.queue_pair_context.addr(), 77);
    assert_eq!(received.request_context.addr(), 5);
    assert_eq!(received.request_type, 0);
    assert_eq!(passive.buffer, [b'x'; 64]);

    // TST-024: neither result is waited for, and both use one OVERLAPPED.
    let mut last = overlapped();
    let _ = call!(active.connector, ConnectorTable, disconnect(&raw mut last));
    let _ = call!(active.region, MemoryRegionTable, deregister(&raw mut last));
    active.release();
    // The OVERLAPPED is not used any more, and is still what the last release left.
    assert_ne!(last.internal, Status::PENDING.bits() as usize);
    passive.release();
    assert_eq!(release(listener), 0);
    assert_eq!(can_unload_now(), Status::FALSE);
    // The file is closed after its objects, by a function of its own table.
    // SAFETY: a handle points to a pointer to its table.
    let table = unsafe { file.cast::<*const HandleTable>().read() };
    // SAFETY: the table lives as long as the library.
    let table = unsafe { &*table };
    // SAFETY: the reference that CreateOverlappedFile gave.
    unsafe { (table.release)(file) };
    assert_eq!(release(adapter), 0);
}
