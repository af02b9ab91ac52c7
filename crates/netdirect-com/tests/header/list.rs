//! Every method of every interface: its name and types in C, a function in Rust that notes its arguments, and a call from Rust.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

use netdirect::Status;
use netdirect_com::abi::*;

use crate::interfaces::{
    Answer, Argument, Call, Interface, Method, Object, Word, answer, argument, kind_of, note,
};

macro_rules! interfaces {
    ($(
        $module:ident: $name:ident = $table:ident, $iid:ident $(, $base:ident is $base_module:ident)? {
            $($method:ident is $c_name:ident($($arg:ident: $type:ty = $c_type:literal),* $(,)?) -> $ret:ty = $c_ret:literal;)*
        }
    )*) => {
        $(mod $module {
            use super::*;

            pub(super) const TABLE: $table = $table {
                $($base: $base_module::TABLE,)?
                $($method,)*
            };
            $(const _: () = assert!(offset_of!($table, $base) == 0);)?

            $(unsafe extern "system" fn $method(this: This, $($arg: $type),*) -> $ret {
                // SAFETY: the tests pass objects of this type.
                let interface = unsafe { (*this.cast::<Object>()).interface };
                let slot = offset_of!($table, $method) / size_of::<usize>();
                note(Call { interface, slot, object: this.bits(), arguments: vec![$($arg.bits()),*] });
                <$ret>::make(answer(interface, slot))
            })*

            pub(super) fn methods(interface: usize) -> Vec<Method> {
                #[allow(unused_mut, reason = "not every interface has a base")]
                let mut methods: Vec<Method> = Vec::new();
                $(methods.extend($base_module::methods(interface));)?
                $(methods.push({
                    let slot = offset_of!($table, $method) / size_of::<usize>();
                    let mut positions = 0..;
                    let arguments = vec![$(Argument {
                        c_type: $c_type,
                        kind: kind_of::<$type>($c_type),
                        value: argument::<$type>(interface, slot, &mut positions).bits(),
                    }),*];
                    // A method without arguments does not use it.
                    let _ = &mut positions;
                    Method { name: stringify!($c_name), slot, returns: $c_ret, answer: <$ret>::make(answer(interface, slot)).to_bits(), arguments }
                });)*
                methods
            }

            /// # Safety
            /// The object has this interface, and takes arguments that point nowhere.
            pub(super) unsafe fn call(object: This, interface: usize) -> Vec<u64> {
                #[allow(unused_mut, reason = "not every interface has a base")]
                let mut answers: Vec<u64> = Vec::new();
                $(
                    // SAFETY: the object has the interfaces of its bases.
                    answers.extend(unsafe { $base_module::call(object, interface) });
                )?
                // SAFETY: an interface pointer points to a pointer to its table.
                let table = unsafe { *object.cast::<*const $table>() };
                $({
                    let slot = offset_of!($table, $method) / size_of::<usize>();
                    let mut positions = 0..;
                    $(let $arg = argument::<$type>(interface, slot, &mut positions);)*
                    // A method without arguments uses neither.
                    let _ = (slot, &mut positions);
                    // SAFETY: as above.
                    let function = unsafe { (*table).$method };
                    // SAFETY: the caller guarantees the object.
                    let answer = unsafe { function(object, $($arg),*) };
                    answers.push(answer.to_bits());
                })*
                answers
            }
        })*

        /// All interfaces. The position of one in this list is its number.
        pub(crate) fn interfaces() -> Vec<Interface> {
            let mut all: Vec<Interface> = Vec::new();
            $(all.push(Interface {
                name: stringify!($name),
                iid: $iid,
                table_size: size_of::<$table>(),
                methods: $module::methods(all.len()),
                recorder: {
                    static TABLE: $table = $module::TABLE;
                    std::ptr::from_ref(&TABLE).cast()
                },
                call: $module::call,
            });)*
            all
        }
    };
}

interfaces! {
    unknown: IUnknown = UnknownTable, IID_IUNKNOWN {
        query_interface is QueryInterface(iid: *const Guid = "REFIID", object: *mut This = "VOID **") -> Status = "HRESULT";
        add_ref is AddRef() -> u32 = "ULONG";
        release is Release() -> u32 = "ULONG";
    }

    class_factory: IClassFactory = ClassFactoryTable, IID_CLASS_FACTORY, unknown is unknown {
        create_instance is CreateInstance(
            outer: This = "IUnknown *",
            iid: *const Guid = "REFIID",
            object: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        lock_server is LockServer(lock: Bool = "BOOL") -> Status = "HRESULT";
    }

    provider: IND2Provider = ProviderTable, IID_ND2_PROVIDER, unknown is unknown {
        query_address_list is QueryAddressList(
            list: *mut SocketAddressList = "SOCKET_ADDRESS_LIST *",
            size: *mut u32 = "ULONG *",
        ) -> Status = "HRESULT";
        resolve_address is ResolveAddress(
            address: *const c_void = "const struct sockaddr *",
            size: u32 = "ULONG",
            adapter_id: *mut u64 = "UINT64 *",
        ) -> Status = "HRESULT";
        open_adapter is OpenAdapter(
            iid: *const Guid = "REFIID",
            adapter_id: u64 = "UINT64",
            adapter: *mut This = "VOID **",
        ) -> Status = "HRESULT";
    }

    overlapped: IND2Overlapped = OverlappedTable, IID_ND2_OVERLAPPED, unknown is unknown {
        cancel_overlapped_requests is CancelOverlappedRequests() -> Status = "HRESULT";
        get_overlapped_result is GetOverlappedResult(
            overlapped: *mut Overlapped = "OVERLAPPED *",
            wait: Bool = "BOOL",
        ) -> Status = "HRESULT";
    }

    adapter: IND2Adapter = AdapterTable, IID_ND2_ADAPTER, unknown is unknown {
        create_overlapped_file is CreateOverlappedFile(file: *mut Handle = "HANDLE *") -> Status = "HRESULT";
        query is Query(info: *mut AdapterInfo = "ND2_ADAPTER_INFO *", size: *mut u32 = "ULONG *") -> Status = "HRESULT";
        query_address_list is QueryAddressList(
            list: *mut SocketAddressList = "SOCKET_ADDRESS_LIST *",
            size: *mut u32 = "ULONG *",
        ) -> Status = "HRESULT";
        create_completion_queue is CreateCompletionQueue(
            iid: *const Guid = "REFIID",
            file: Handle = "HANDLE",
            depth: u32 = "ULONG",
            group: u16 = "USHORT",
            affinity: usize = "KAFFINITY",
            completion_queue: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        create_memory_region is CreateMemoryRegion(
            iid: *const Guid = "REFIID",
            file: Handle = "HANDLE",
            region: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        create_memory_window is CreateMemoryWindow(iid: *const Guid = "REFIID", window: *mut This = "VOID **") -> Status = "HRESULT";
        create_shared_receive_queue is CreateSharedReceiveQueue(
            iid: *const Guid = "REFIID",
            file: Handle = "HANDLE",
            depth: u32 = "ULONG",
            max_request_sge: u32 = "ULONG",
            notify_threshold: u32 = "ULONG",
            group: u16 = "USHORT",
            affinity: usize = "KAFFINITY",
            shared_receive_queue: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        create_queue_pair is CreateQueuePair(
            iid: *const Guid = "REFIID",
            receive_cq: This = "IUnknown *",
            initiator_cq: This = "IUnknown *",
            context: *mut c_void = "VOID *",
            receive_queue_depth: u32 = "ULONG",
            initiator_queue_depth: u32 = "ULONG",
            max_receive_request_sge: u32 = "ULONG",
            max_initiator_request_sge: u32 = "ULONG",
            inline_data_size: u32 = "ULONG",
            queue_pair: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        create_queue_pair_with_srq is CreateQueuePairWithSrq(
            iid: *const Guid = "REFIID",
            receive_cq: This = "IUnknown *",
            initiator_cq: This = "IUnknown *",
            shared_receive_queue: This = "IUnknown *",
            context: *mut c_void = "VOID *",
            initiator_queue_depth: u32 = "ULONG",
            max_initiator_request_sge: u32 = "ULONG",
            inline_data_size: u32 = "ULONG",
            queue_pair: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        create_connector is CreateConnector(
            iid: *const Guid = "REFIID",
            file: Handle = "HANDLE",
            connector: *mut This = "VOID **",
        ) -> Status = "HRESULT";
        create_listener is CreateListener(
            iid: *const Guid = "REFIID",
            file: Handle = "HANDLE",
            listener: *mut This = "VOID **",
        ) -> Status = "HRESULT";
    }

    completion_queue: IND2CompletionQueue = CompletionQueueTable, IID_ND2_COMPLETION_QUEUE, overlapped is overlapped {
        get_notify_affinity is GetNotifyAffinity(group: *mut u16 = "USHORT *", affinity: *mut usize = "KAFFINITY *") -> Status = "HRESULT";
        resize is Resize(depth: u32 = "ULONG") -> Status = "HRESULT";
        notify is Notify(kind: u32 = "ULONG", overlapped: *mut Overlapped = "OVERLAPPED *") -> Status = "HRESULT";
        get_results is GetResults(results: *mut CompletionResult = "ND2_RESULT *", count: u32 = "ULONG") -> u32 = "ULONG";
    }

    memory_region: IND2MemoryRegion = MemoryRegionTable, IID_ND2_MEMORY_REGION, overlapped is overlapped {
        register is Register(
            buffer: *const c_void = "const VOID *",
            size: usize = "SIZE_T",
            flags: u32 = "ULONG",
            overlapped: *mut Overlapped = "OVERLAPPED *",
        ) -> Status = "HRESULT";
        deregister is Deregister(overlapped: *mut Overlapped = "OVERLAPPED *") -> Status = "HRESULT";
        get_local_token is GetLocalToken() -> u32 = "UINT32";
        get_remote_token is GetRemoteToken() -> u32 = "UINT32";
    }

    memory_window: IND2MemoryWindow = MemoryWindowTable, IID_ND2_MEMORY_WINDOW, unknown is unknown {
        get_remote_token is GetRemoteToken() -> u32 = "UINT32";
    }

    shared_receive_queue: IND2SharedReceiveQueue = SharedReceiveQueueTable, IID_ND2_SHARED_RECEIVE_QUEUE, overlapped is overlapped {
        get_notify_affinity is GetNotifyAffinity(group: *mut u16 = "USHORT *", affinity: *mut usize = "KAFFINITY *") -> Status = "HRESULT";
        modify is Modify(depth: u32 = "ULONG", notify_threshold: u32 = "ULONG") -> Status = "HRESULT";
        notify is Notify(overlapped: *mut Overlapped = "OVERLAPPED *") -> Status = "HRESULT";
        receive is Receive(context: *mut c_void = "VOID *", sges: *const Sge = "const ND2_SGE *", count: u32 = "ULONG") -> Status = "HRESULT";
    }

    queue_pair: IND2QueuePair = QueuePairTable, IID_ND2_QUEUE_PAIR, unknown is unknown {
        flush is Flush() -> Status = "HRESULT";
        send is Send(
            context: *mut c_void = "VOID *",
            sges: *const Sge = "const ND2_SGE *",
            count: u32 = "ULONG",
            flags: u32 = "ULONG",
        ) -> Status = "HRESULT";
        receive is Receive(context: *mut c_void = "VOID *", sges: *const Sge = "const ND2_SGE *", count: u32 = "ULONG") -> Status = "HRESULT";
        bind is Bind(
            context: *mut c_void = "VOID *",
            region: This = "IUnknown *",
            window: This = "IUnknown *",
            buffer: *const c_void = "const VOID *",
            size: usize = "SIZE_T",
            flags: u32 = "ULONG",
        ) -> Status = "HRESULT";
        invalidate is Invalidate(context: *mut c_void = "VOID *", window: This = "IUnknown *", flags: u32 = "ULONG") -> Status = "HRESULT";
        read is Read(
            context: *mut c_void = "VOID *",
            sges: *const Sge = "const ND2_SGE *",
            count: u32 = "ULONG",
            remote_address: u64 = "UINT64",
            remote_token: u32 = "UINT32",
            flags: u32 = "ULONG",
        ) -> Status = "HRESULT";
        write is Write(
            context: *mut c_void = "VOID *",
            sges: *const Sge = "const ND2_SGE *",
            count: u32 = "ULONG",
            remote_address: u64 = "UINT64",
            remote_token: u32 = "UINT32",
            flags: u32 = "ULONG",
        ) -> Status = "HRESULT";
    }

    connector: IND2Connector = ConnectorTable, IID_ND2_CONNECTOR, overlapped is overlapped {
        bind is Bind(address: *const c_void = "const struct sockaddr *", size: u32 = "ULONG") -> Status = "HRESULT";
        connect is Connect(
            queue_pair: This = "IUnknown *",
            address: *const c_void = "const struct sockaddr *",
            size: u32 = "ULONG",
            inbound_read_limit: u32 = "ULONG",
            outbound_read_limit: u32 = "ULONG",
            private_data: *const c_void = "const VOID *",
            private_data_size: u32 = "ULONG",
            overlapped: *mut Overlapped = "OVERLAPPED *",
        ) -> Status = "HRESULT";
        complete_connect is CompleteConnect(overlapped: *mut Overlapped = "OVERLAPPED *") -> Status = "HRESULT";
        accept is Accept(
            queue_pair: This = "IUnknown *",
            inbound_read_limit: u32 = "ULONG",
            outbound_read_limit: u32 = "ULONG",
            private_data: *const c_void = "const VOID *",
            private_data_size: u32 = "ULONG",
            overlapped: *mut Overlapped = "OVERLAPPED *",
        ) -> Status = "HRESULT";
        reject is Reject(private_data: *const c_void = "const VOID *", size: u32 = "ULONG") -> Status = "HRESULT";
        get_read_limits is GetReadLimits(inbound: *mut u32 = "ULONG *", outbound: *mut u32 = "ULONG *") -> Status = "HRESULT";
        get_private_data is GetPrivateData(private_data: *mut c_void = "VOID *", size: *mut u32 = "ULONG *") -> Status = "HRESULT";
        get_local_address is GetLocalAddress(address: *mut c_void = "struct sockaddr *", size: *mut u32 = "ULONG *") -> Status = "HRESULT";
        get_peer_address is GetPeerAddress(address: *mut c_void = "struct sockaddr *", size: *mut u32 = "ULONG *") -> Status = "HRESULT";
        notify_disconnect is NotifyDisconnect(overlapped: *mut Overlapped = "OVERLAPPED *") -> Status = "HRESULT";
        disconnect is Disconnect(overlapped: *mut Overlapped = "OVERLAPPED *") -> Status = "HRESULT";
    }

    listener: IND2Listener = ListenerTable, IID_ND2_LISTENER, overlapped is overlapped {
        bind is Bind(address: *const c_void = "const struct sockaddr *", size: u32 = "ULONG") -> Status = "HRESULT";
        listen is Listen(backlog: u32 = "ULONG") -> Status = "HRESULT";
        get_local_address is GetLocalAddress(address: *mut c_void = "struct sockaddr *", size: *mut u32 = "ULONG *") -> Status = "HRESULT";
        get_connection_request is GetConnectionRequest(
            connector: This = "IUnknown *",
            overlapped: *mut Overlapped = "OVERLAPPED *",
        ) -> Status = "HRESULT";
    }

    provider_extension: INDXProvider = ProviderExtensionTable, IID_PROVIDER_EXTENSION, unknown is unknown {
        configure is Configure(text: *const c_char = "const CHAR *", size: u32 = "ULONG") -> Status = "HRESULT";
        inject is Inject(fault: *const InjectedFault = "const NDX_FAULT *") -> Status = "HRESULT";
    }

    adapter_extension: INDXAdapter = AdapterExtensionTable, IID_ADAPTER_EXTENSION, unknown is unknown {
        get_capabilities is GetCapabilities() -> u64 = "UINT64";
        get_counters is GetCounters(text: *mut c_char = "CHAR *", size: *mut u32 = "ULONG *") -> Status = "HRESULT";
        inject is Inject(fault: *const InjectedFault = "const NDX_FAULT *") -> Status = "HRESULT";
    }

    completion_queue_extension: INDXCompletionQueue = CompletionQueueExtensionTable, IID_COMPLETION_QUEUE_EXTENSION, unknown is unknown {
        get_results is GetResultsEx(results: *mut ExtendedResult = "NDX_RESULT *", count: u32 = "ULONG") -> u32 = "ULONG";
    }

    queue_pair_extension: INDXQueuePair = QueuePairExtensionTable, IID_QUEUE_PAIR_EXTENSION, unknown is unknown {
        send_immediate is SendImmediate(
            context: *mut c_void = "VOID *",
            data: *const c_void = "const VOID *",
            size: u32 = "ULONG",
            flags: u32 = "ULONG",
        ) -> Status = "HRESULT";
        atomic is Atomic(
            context: *mut c_void = "VOID *",
            op: *const Atomic = "const NDX_ATOMIC *",
            sink: *const Sge = "const ND2_SGE *",
            remote_address: u64 = "UINT64",
            remote_token: u32 = "UINT32",
            flags: u32 = "ULONG",
        ) -> Status = "HRESULT";
    }

    connection_end: INDXConnectionEnd = ConnectionEndTable, IID_CONNECTION_END, unknown is unknown {
        get_connection_end is GetConnectionEnd(
            end: *mut ConnectionEnd = "NDX_CONNECTION_END *",
            text: *mut c_char = "CHAR *",
            size: *mut u32 = "ULONG *",
        ) -> Status = "HRESULT";
    }

    overlapped_extension: INDXOverlapped = OverlappedExtensionTable, IID_OVERLAPPED_EXTENSION, unknown is unknown {
        get_explanation is GetExplanation(
            overlapped: *mut Overlapped = "OVERLAPPED *",
            text: *mut c_char = "CHAR *",
            size: *mut u32 = "ULONG *",
        ) -> Status = "HRESULT";
    }

    listener_extension: INDXListener = ListenerExtensionTable, IID_LISTENER_EXTENSION, unknown is unknown {
        withdraw is Withdraw(connector: This = "IUnknown *") -> Status = "HRESULT";
    }
}
