//! Sizes, offsets and values of the header against those of Rust, as assertions that the compilers check.

use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};

use netdirect::{
    AdapterFlags, Call, Capabilities, EndReason, EndedBy, MrFlags, NotifyType, OpFlags, QueryFlags,
    RequestType, Status,
};
use netdirect_com::abi::*;

use crate::list::interfaces;

/// The size of a field that a function selects.
const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! structures {
    ($($c:ident = $rust:ident { $($c_field:ident = $($field:ident).+),* $(,)? })*) => {{
        let mut code = String::new();
        $(
            let c = stringify!($c);
            writeln!(code, "CHECK(sizeof({c}) == {});", size_of::<$rust>()).unwrap();
            writeln!(code, "CHECK(ALIGN({c}) == {});", align_of::<$rust>()).unwrap();
            $(
                let field = stringify!($c_field);
                let offset = offset_of!($rust, $($field).+);
                let size = size_of_field(|value: &$rust| &value.$($field).+);
                writeln!(code, "CHECK(offsetof({c}, {field}) == {offset});").unwrap();
                writeln!(code, "CHECK(sizeof((({c} *)0)->{field}) == {size});").unwrap();
            )*
        )*
        code
    }};
}

/// Structures of every system.
fn structures() -> String {
    structures! {
        GUID = Guid { Data1 = data1, Data2 = data2, Data3 = data3, Data4 = data4 }
        OVERLAPPED = Overlapped {
            Internal = internal, InternalHigh = internal_high, Offset = offset, OffsetHigh = offset_high, hEvent = event,
        }
        OVERLAPPED_ENTRY = Packet {
            lpCompletionKey = key, lpOverlapped = overlapped, Internal = internal, dwNumberOfBytesTransferred = bytes,
        }
        SOCKET_ADDRESS = SocketAddress { lpSockaddr = address, iSockaddrLength = length }
        SOCKET_ADDRESS_LIST = SocketAddressList { iAddressCount = count, Address = addresses }
        ND2_ADAPTER_INFO = AdapterInfo {
            InfoVersion = info_version,
            VendorId = vendor_id,
            DeviceId = device_id,
            AdapterId = adapter_id,
            MaxRegistrationSize = max_registration_size,
            MaxWindowSize = max_window_size,
            MaxInitiatorSge = max_initiator_sge,
            MaxReceiveSge = max_receive_sge,
            MaxReadSge = max_read_sge,
            MaxTransferLength = max_transfer_length,
            MaxInlineDataSize = max_inline_data_size,
            MaxInboundReadLimit = max_inbound_read_limit,
            MaxOutboundReadLimit = max_outbound_read_limit,
            MaxReceiveQueueDepth = max_receive_queue_depth,
            MaxInitiatorQueueDepth = max_initiator_queue_depth,
            MaxSharedReceiveQueueDepth = max_shared_receive_queue_depth,
            MaxCompletionQueueDepth = max_completion_queue_depth,
            InlineRequestThreshold = inline_request_threshold,
            LargeRequestThreshold = large_request_threshold,
            MaxCallerData = max_caller_data,
            MaxCalleeData = max_callee_data,
            AdapterFlags = adapter_flags,
        }
        ND2_RESULT = CompletionResult {
            Status = status,
            BytesTransferred = bytes_transferred,
            QueuePairContext = queue_pair_context,
            RequestContext = request_context,
            RequestType = request_type,
        }
        NDX_FAULT = InjectedFault {
            Kind = kind, Call = call, Nth = nth, Status = status, Object = object, Address = address, AddressLength = address_length,
        }
        NDX_ATOMIC = Atomic { Kind = kind, Operand = operand, Mask = mask, Compare = compare, CompareMask = compare_mask }
        NDX_CONNECTION_END = ConnectionEnd {
            EndedBy = ended_by,
            Reason = reason,
            HasTerminate = has_terminate,
            TerminateLayer = terminate_layer,
            TerminateType = terminate_type,
            TerminateCode = terminate_code,
        }
        NDX_RESULT = ExtendedResult { Result = result, ImmediateLength = immediate_length, Immediate = immediate }
        ND2_SGE = Sge { Buffer = buffer, BufferLength = buffer_length, MemoryRegionToken = memory_region_token }
    }
}

/// Tables that a HANDLE begins with on systems that are not Windows.
fn handles() -> String {
    structures! {
        ND_HANDLE_TABLE = HandleTable { Size = size, Kind = kind, AddRef = add_ref, Release = release, Close = close }
        ND_WATCHER = Watcher { Wake = wake }
        ND_EVENT_TABLE = EventTable {
            Handle = handle, Set = set, Reset = reset, Take = take, Watch = watch, Unwatch = unwatch, Hold = hold, LetGo = let_go,
        }
        ND_PORT_TABLE = PortTable { Handle = handle, Post = post, Take = take }
        ND_FILE_TABLE = FileTable { Handle = handle, Associate = associate, Watch = watch, Unwatch = unwatch, IsOfParent = is_of_parent }
    }
}

/// The slot of each method, for C.
fn slots() -> String {
    let mut code = String::new();
    for interface in interfaces() {
        let name = interface.name;
        writeln!(
            code,
            "CHECK(sizeof({name}Vtbl) == {});",
            interface.table_size
        )
        .unwrap();
        for method in interface.methods {
            let offset = method.slot * size_of::<usize>();
            writeln!(
                code,
                "CHECK(offsetof({name}Vtbl, {}) == {offset});",
                method.name
            )
            .unwrap();
        }
    }
    code
}

/// The values of the statuses that the header names.
fn statuses() -> Vec<(String, u32)> {
    // Only waits in a simulated network end with this status, and there is none behind this interface.
    let named = |status: &&Status| **status != Status::POSSIBLE_DEADLOCK;
    let all = Status::ALL.iter().filter(named);
    let mut values: Vec<_> = all
        .map(|status| {
            (
                status.name().expect("it is named").to_owned(),
                status.bits(),
            )
        })
        .collect();
    values.push(("ND_LOCAL_LENGTH".into(), Status::LOCAL_LENGTH.bits()));
    values.push((
        "ND_INVALIDATION_ERROR".into(),
        Status::INVALIDATION_ERROR.bits(),
    ));
    values.push(("STATUS_PENDING".into(), Status::PENDING.bits()));
    values
}

/// The values of ND2's flags and numbers.
fn numbers() -> Vec<(String, u32)> {
    let mut values = vec![
        ("ND_VERSION_1".to_owned(), netdirect::VERSION_1),
        ("ND_VERSION_2".to_owned(), netdirect::VERSION_2),
        ("NDVER".to_owned(), netdirect::VERSION_2),
        ("ND_CQ_NOTIFY_ERRORS".to_owned(), NotifyType::Errors as u32),
        ("ND_CQ_NOTIFY_ANY".to_owned(), NotifyType::Any as u32),
        (
            "ND_CQ_NOTIFY_SOLICITED".to_owned(),
            NotifyType::Solicited as u32,
        ),
        (
            "Nd2RequestTypeReceive".to_owned(),
            RequestType::Receive.value(),
        ),
        ("Nd2RequestTypeSend".to_owned(), RequestType::Send.value()),
        ("Nd2RequestTypeBind".to_owned(), RequestType::Bind.value()),
        (
            "Nd2RequestTypeInvalidate".to_owned(),
            RequestType::Invalidate.value(),
        ),
        ("Nd2RequestTypeRead".to_owned(), RequestType::Read.value()),
        ("Nd2RequestTypeWrite".to_owned(), RequestType::Write.value()),
        (
            "NDX_REQUEST_TYPE_SEND_IMMEDIATE".to_owned(),
            RequestType::SendImmediate.value(),
        ),
        (
            "NDX_REQUEST_TYPE_ATOMIC".to_owned(),
            RequestType::Atomic.value(),
        ),
        (
            "NDX_FAULT_REMOVE_DEVICE".to_owned(),
            FaultKind::REMOVE_DEVICE,
        ),
        ("NDX_FAULT_CALL".to_owned(), FaultKind::CALL),
        (
            "NDX_FAULT_BREAK_COMPLETION_QUEUE".to_owned(),
            FaultKind::BREAK_COMPLETION_QUEUE,
        ),
        (
            "NDX_FAULT_BREAK_SHARED_RECEIVE_QUEUE".to_owned(),
            FaultKind::BREAK_SHARED_RECEIVE_QUEUE,
        ),
        (
            "NDX_FAULT_UNREACHABLE_HOST".to_owned(),
            FaultKind::UNREACHABLE_HOST,
        ),
        ("NdxCallAny".to_owned(), 0),
        // By the documentation of `Atomic::kind`.
        ("NDX_ATOMIC_FETCH_ADD".to_owned(), 1),
        ("NDX_ATOMIC_COMPARE_SWAP".to_owned(), 2),
    ];
    let calls = (1..).zip(Call::ALL);
    values.extend(calls.map(|(number, call)| (format!("NdxCall{call:?}"), number)));
    let sides = (1..).zip(EndedBy::ALL);
    values.extend(sides.map(|(number, by)| (format!("NdxEndedBy{by:?}"), number)));
    let reasons = (1..).zip(EndReason::ALL);
    values.extend(reasons.map(|(number, reason)| (format!("NdxEnd{reason:?}"), number)));
    let flags = |prefix: &str, names: Vec<(&'static str, u32)>| -> Vec<_> {
        let named = |(name, bits): (&str, u32)| (format!("{prefix}{name}"), bits);
        names.into_iter().map(named).collect()
    };
    let capabilities = Capabilities::all().iter_names();
    let low = |(name, flag): (&'static str, Capabilities)| {
        (name, u32::try_from(flag.bits()).expect("there are few"))
    };
    values.extend(flags("NDX_CAPABILITY_", capabilities.map(low).collect()));
    let bits = AdapterFlags::all().iter_names();
    values.extend(flags(
        "ND_ADAPTER_FLAG_",
        bits.map(|(name, flag)| (name, flag.bits())).collect(),
    ));
    let bits = MrFlags::all().iter_names();
    values.extend(flags(
        "ND_MR_FLAG_",
        bits.map(|(name, flag)| (name, flag.bits())).collect(),
    ));
    let bits = OpFlags::all().iter_names();
    values.extend(flags(
        "ND_OP_FLAG_",
        bits.map(|(name, flag)| (name, flag.bits())).collect(),
    ));
    let bits = QueryFlags::all().iter_names();
    let query = flags(
        "ND_QUERY_",
        bits.map(|(name, flag)| (name, flag.bits())).collect(),
    );
    values.extend(
        query
            .into_iter()
            .map(|(name, bits)| (name.replace("_ND_V", "_NDv"), bits)),
    );
    values
}

/// The numbers that belong to the tables of handles.
fn handle_numbers() -> Vec<(String, u32)> {
    let bit = u32::try_from(WAKE_EVENT_BIT).expect("it is the lowest bit");
    vec![
        ("ND_HANDLE_KIND_EVENT".to_owned(), HandleKind::EVENT.0),
        ("ND_HANDLE_KIND_PORT".to_owned(), HandleKind::PORT.0),
        ("ND_HANDLE_KIND_FILE".to_owned(), HandleKind::FILE.0),
        ("ND_HANDLE_NO_PACKET_BIT".to_owned(), bit),
        ("ND_PORT_CLOSED".to_owned(), PORT_CLOSED),
    ]
}

/// Types of 32 bits, and their signs.
const WORDS: &str = "\
CHECK(sizeof(ULONG) == 4 && (ULONG)-1 > 0);
CHECK(sizeof(DWORD) == 4 && (DWORD)-1 > 0);
CHECK(sizeof(UINT32) == 4 && (UINT32)-1 > 0);
CHECK(sizeof(LONG) == 4 && (LONG)-1 < 0);
CHECK(sizeof(BOOL) == 4 && (BOOL)-1 < 0);
CHECK(sizeof(HRESULT) == 4 && (HRESULT)-1 < 0);
CHECK(sizeof(USHORT) == 2 && sizeof(UINT16) == 2 && sizeof(UINT64) == 8);
CHECK(sizeof(HANDLE) == sizeof(void *) && sizeof(SIZE_T) == sizeof(void *));
CHECK(sizeof(ULONG_PTR) == sizeof(void *) && (ULONG_PTR)-1 > 0);
CHECK(sizeof(KAFFINITY) == sizeof(void *) && (KAFFINITY)-1 > 0);
CHECK(sizeof(ND2_REQUEST_TYPE) == 4);
CHECK(sizeof(struct sockaddr_in) == 16 && sizeof(struct sockaddr_in6) == 28);
CHECK(SUCCEEDED(ND_SUCCESS) && SUCCEEDED(ND_PENDING) && SUCCEEDED(ND_TIMEOUT));
CHECK(FAILED(ND_CANCELED) && FAILED(ND_BUFFER_OVERFLOW));
";

/// Macros that C++ libraries use as names. Macros of Windows' own headers are allowed.
const NO_MACROS: &str = "\
#if defined(min) || defined(max)
#error min and max must not be macros
#endif
#if !defined(_WIN32) && (defined(__in) || defined(__out) || defined(interface))
#error names of C++ libraries must not be macros
#endif
";

fn values(values: &[(String, u32)]) -> String {
    values
        .iter()
        .map(|(name, value)| format!("CHECK((uint32_t)({name}) == {value:#x}U);\n"))
        .collect()
}

/// A source that compiles only if everything is equal.
pub(crate) fn assertions() -> String {
    [
        "#include \"netdirect.h\"\n",
        NO_MACROS,
        "#ifdef __cplusplus\n#define CHECK(is) static_assert(is, #is)\n#define ALIGN(type) alignof(type)\n",
        "#else\n#define CHECK(is) _Static_assert(is, #is)\n#define ALIGN(type) _Alignof(type)\n#endif\n",
        WORDS,
        &structures(),
        &values(&statuses()),
        &values(&numbers()),
        "#ifndef _WIN32\n",
        &handles(),
        &values(&handle_numbers()),
        "#endif\n",
        "#ifndef __cplusplus\n",
        &slots(),
        "#endif\n",
    ]
    .concat()
}

/// A function that returns the identifier at an index of [`interfaces`], in both languages.
pub(crate) fn identifiers() -> String {
    let mut code = String::from(
        "#include \"netdirect.h\"\n\
         #ifdef __cplusplus\nextern \"C\"\n#endif\n\
         const void *identifier(uint32_t index)\n{\n    switch (index) {\n",
    );
    for (index, interface) in interfaces().iter().enumerate() {
        writeln!(code, "    case {index}: return &IID_{};", interface.name).unwrap();
    }
    code + "    default: return 0;\n    }\n}\n"
}
