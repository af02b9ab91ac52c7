//! The tables of functions that interface pointers point to.

use std::ffi::c_void;

use netdirect::Status;

use super::identifiers::Guid;
use super::structures::{AdapterInfo, CompletionResult, Overlapped, Sge, SocketAddressList};
use super::words::{Bool, Handle, This};

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $table:ident { $(base $base:ident: $base_table:ty;)? $(fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            #[allow(missing_docs, reason = "the functions are ND2's, in snake case")]
            pub struct $table {
                $(pub $base: $base_table,)?
                $(pub $method: unsafe extern "system" fn(this: This, $($arg: $type),*) -> $ret,)*
            }
        )*
    };
}

tables! {
    /// `IUnknown`.
    UnknownTable {
        fn query_interface(iid: *const Guid, object: *mut This) -> Status;
        fn add_ref() -> u32;
        fn release() -> u32;
    }

    /// `IClassFactory`.
    ClassFactoryTable {
        base unknown: UnknownTable;
        fn create_instance(outer: This, iid: *const Guid, object: *mut This) -> Status;
        fn lock_server(lock: Bool) -> Status;
    }

    /// `IND2Provider`.
    ProviderTable {
        base unknown: UnknownTable;
        fn query_address_list(list: *mut SocketAddressList, size: *mut u32) -> Status;
        fn resolve_address(address: *const c_void, size: u32, adapter_id: *mut u64) -> Status;
        fn open_adapter(iid: *const Guid, adapter_id: u64, adapter: *mut This) -> Status;
    }

    /// `IND2Overlapped`.
    OverlappedTable {
        base unknown: UnknownTable;
        fn cancel_overlapped_requests() -> Status;
        fn get_overlapped_result(overlapped: *mut Overlapped, wait: Bool) -> Status;
    }

    /// `IND2Adapter`.
    AdapterTable {
        base unknown: UnknownTable;
        fn create_overlapped_file(file: *mut Handle) -> Status;
        fn query(info: *mut AdapterInfo, size: *mut u32) -> Status;
        fn query_address_list(list: *mut SocketAddressList, size: *mut u32) -> Status;
        fn create_completion_queue(
            iid: *const Guid,
            file: Handle,
            depth: u32,
            group: u16,
            affinity: usize,
            completion_queue: *mut This,
        ) -> Status;
        fn create_memory_region(iid: *const Guid, file: Handle, region: *mut This) -> Status;
        fn create_memory_window(iid: *const Guid, window: *mut This) -> Status;
        fn create_shared_receive_queue(
            iid: *const Guid,
            file: Handle,
            depth: u32,
            max_request_sge: u32,
            notify_threshold: u32,
            group: u16,
            affinity: usize,
            shared_receive_queue: *mut This,
        ) -> Status;
        fn create_queue_pair(
            iid: *const Guid,
            receive_cq: This,
            initiator_cq: This,
            context: *mut c_void,
            receive_queue_depth: u32,
            initiator_queue_depth: u32,
            max_receive_request_sge: u32,
            max_initiator_request_sge: u32,
            inline_data_size: u32,
            queue_pair: *mut This,
        ) -> Status;
        fn create_queue_pair_with_srq(
            iid: *const Guid,
            receive_cq: This,
            initiator_cq: This,
            shared_receive_queue: This,
            context: *mut c_void,
            initiator_queue_depth: u32,
            max_initiator_request_sge: u32,
            inline_data_size: u32,
            queue_pair: *mut This,
        ) -> Status;
        fn create_connector(iid: *const Guid, file: Handle, connector: *mut This) -> Status;
        fn create_listener(iid: *const Guid, file: Handle, listener: *mut This) -> Status;
    }

    /// `IND2CompletionQueue`.
    CompletionQueueTable {
        base overlapped: OverlappedTable;
        fn get_notify_affinity(group: *mut u16, affinity: *mut usize) -> Status;
        fn resize(depth: u32) -> Status;
        fn notify(kind: u32, overlapped: *mut Overlapped) -> Status;
        fn get_results(results: *mut CompletionResult, count: u32) -> u32;
    }

    /// `IND2MemoryRegion`.
    MemoryRegionTable {
        base overlapped: OverlappedTable;
        fn register(
            buffer: *const c_void,
            size: usize,
            flags: u32,
            overlapped: *mut Overlapped,
        ) -> Status;
        fn deregister(overlapped: *mut Overlapped) -> Status;
        fn get_local_token() -> u32;
        fn get_remote_token() -> u32;
    }

    /// `IND2MemoryWindow`.
    MemoryWindowTable {
        base unknown: UnknownTable;
        fn get_remote_token() -> u32;
    }

    /// `IND2SharedReceiveQueue`.
    SharedReceiveQueueTable {
        base overlapped: OverlappedTable;
        fn get_notify_affinity(group: *mut u16, affinity: *mut usize) -> Status;
        fn modify(depth: u32, notify_threshold: u32) -> Status;
        fn notify(overlapped: *mut Overlapped) -> Status;
        fn receive(context: *mut c_void, sges: *const Sge, count: u32) -> Status;
    }

    /// `IND2QueuePair`.
    QueuePairTable {
        base unknown: UnknownTable;
        fn flush() -> Status;
        fn send(context: *mut c_void, sges: *const Sge, count: u32, flags: u32) -> Status;
        fn receive(context: *mut c_void, sges: *const Sge, count: u32) -> Status;
        fn bind(
            context: *mut c_void,
            region: This,
            window: This,
            buffer: *const c_void,
            size: usize,
            flags: u32,
        ) -> Status;
        fn invalidate(context: *mut c_void, window: This, flags: u32) -> Status;
        fn read(
            context: *mut c_void,
            sges: *const Sge,
            count: u32,
            remote_address: u64,
            remote_token: u32,
            flags: u32,
        ) -> Status;
        fn write(
            context: *mut c_void,
            sges: *const Sge,
            count: u32,
            remote_address: u64,
            remote_token: u32,
            flags: u32,
        ) -> Status;
    }

    /// `IND2Connector`.
    ConnectorTable {
        base overlapped: OverlappedTable;
        fn bind(address: *const c_void, size: u32) -> Status;
        fn connect(
            queue_pair: This,
            address: *const c_void,
            size: u32,
            inbound_read_limit: u32,
            outbound_read_limit: u32,
            private_data: *const c_void,
            private_data_size: u32,
            overlapped: *mut Overlapped,
        ) -> Status;
        fn complete_connect(overlapped: *mut Overlapped) -> Status;
        fn accept(
            queue_pair: This,
            inbound_read_limit: u32,
            outbound_read_limit: u32,
            private_data: *const c_void,
            private_data_size: u32,
            overlapped: *mut Overlapped,
        ) -> Status;
        fn reject(private_data: *const c_void, size: u32) -> Status;
        fn get_read_limits(inbound: *mut u32, outbound: *mut u32) -> Status;
        fn get_private_data(private_data: *mut c_void, size: *mut u32) -> Status;
        fn get_local_address(address: *mut c_void, size: *mut u32) -> Status;
        fn get_peer_address(address: *mut c_void, size: *mut u32) -> Status;
        fn notify_disconnect(overlapped: *mut Overlapped) -> Status;
        fn disconnect(overlapped: *mut Overlapped) -> Status;
    }

    /// `IND2Listener`.
    ListenerTable {
        base overlapped: OverlappedTable;
        fn bind(address: *const c_void, size: u32) -> Status;
        fn listen(backlog: u32) -> Status;
        fn get_local_address(address: *mut c_void, size: *mut u32) -> Status;
        fn get_connection_request(connector: This, overlapped: *mut Overlapped) -> Status;
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::size_of;

    use super::*;

    /// The number of slots that the catalogue names for each interface.
    #[test]
    fn tables_have_the_documented_slots() {
        let slots = |octets: usize| octets / size_of::<usize>();
        assert_eq!(slots(size_of::<ProviderTable>()), 6);
        assert_eq!(slots(size_of::<OverlappedTable>()), 5);
        assert_eq!(slots(size_of::<AdapterTable>()), 14);
        assert_eq!(slots(size_of::<CompletionQueueTable>()), 9);
        assert_eq!(slots(size_of::<MemoryRegionTable>()), 9);
        assert_eq!(slots(size_of::<MemoryWindowTable>()), 4);
        assert_eq!(slots(size_of::<SharedReceiveQueueTable>()), 9);
        assert_eq!(slots(size_of::<QueuePairTable>()), 10);
        assert_eq!(slots(size_of::<ConnectorTable>()), 16);
        assert_eq!(slots(size_of::<ListenerTable>()), 9);
    }
}
