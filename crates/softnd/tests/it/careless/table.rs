//! The statuses that the documentation of `netdirect` lists for each method, with the rows behind them.

use netdirect::Status;

/// A method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// The rows of the catalogue that list its statuses.
    pub(crate) rows: &'static str,
    /// The statuses that the call may return.
    pub(crate) call: &'static [Status],
    /// The statuses with which its request may end, in addition to ND_SUCCESS, ND_CANCELED and, after a removal, ND_DEVICE_REMOVED.
    pub(crate) end: &'static [Status],
    /// The method works after the removal of the device, or does not need it.
    pub(crate) cleans_up: bool,
}

macro_rules! methods {
    ($($konst:ident = $name:literal, $rows:literal, [$($call:ident)*], [$($end:ident)*] $($cleans_up:ident)?;)*) => {
        $(pub(crate) static $konst: Method = Method {
            name: $name,
            rows: $rows,
            call: &[$(Status::$call),*],
            end: &[$(Status::$end),*],
            cleans_up: methods!(@ $($cleans_up)?),
        };)*
        /// All of them.
        pub(crate) static ALL: &[&Method] = &[$(&$konst),*];
    };
    (@) => { false };
    (@ cleans_up) => { true };
}

methods! {
    PROVIDER_LIST = "Provider::query_address_list", "PROV-006 to PROV-010", [], [] cleans_up;
    RESOLVE = "Provider::resolve_address", "PROV-012 to PROV-016", [INVALID_ADDRESS NO_MEMORY], [] cleans_up;
    OPEN = "Provider::open_adapter", "PROV-017 to PROV-022", [INVALID_PARAMETER NO_MEMORY], [] cleans_up;
    PROVIDER_INJECT = "ProviderExtensions::inject", "GEN-015",
        [NOT_SUPPORTED INVALID_PARAMETER INVALID_PARAMETER_1], [] cleans_up;
    FILE = "Adapter::create_overlapped_file", "ADPT-002, ADPT-003", [NO_MEMORY DEVICE_REMOVED], [];
    QUERY = "Adapter::query", "ADPT-009 to ADPT-015", [], [];
    LIST = "Adapter::query_address_list", "ADPT-016 to ADPT-019", [], [];
    CQ = "Adapter::create_completion_queue", "ADPT-020 to ADPT-027, ADPT-086",
        [INVALID_HANDLE INVALID_PARAMETER_3 NO_MEMORY INSUFFICIENT_RESOURCES], [];
    REGION = "Adapter::create_memory_region", "ADPT-029 to ADPT-032, ADPT-086",
        [INVALID_HANDLE NO_MEMORY INSUFFICIENT_RESOURCES], [];
    WINDOW = "Adapter::create_memory_window", "ADPT-034 to ADPT-037, AMB-057",
        [NOT_SUPPORTED INSUFFICIENT_RESOURCES NO_MEMORY], [];
    SRQ = "Adapter::create_shared_receive_queue", "ADPT-041 to ADPT-049, ADPT-086",
        [INVALID_HANDLE INVALID_PARAMETER_3 INVALID_PARAMETER_4 NOT_SUPPORTED NO_MEMORY INSUFFICIENT_RESOURCES], [];
    QP = "Adapter::create_queue_pair", "ADPT-050 to ADPT-064, AMB-057",
        [INVALID_PARAMETER_2 INVALID_PARAMETER_3 INVALID_PARAMETER_5 INVALID_PARAMETER_6 INVALID_PARAMETER_7
         INVALID_PARAMETER_8 INVALID_PARAMETER_9 INSUFFICIENT_RESOURCES NO_MEMORY], [];
    QP_WITH_SRQ = "Adapter::create_queue_pair_with_srq", "ADPT-065 to ADPT-077, AMB-057",
        [NOT_SUPPORTED INVALID_PARAMETER_2 INVALID_PARAMETER_3 INVALID_PARAMETER_4 INVALID_PARAMETER_6
         INVALID_PARAMETER_7 INVALID_PARAMETER_8 INSUFFICIENT_RESOURCES NO_MEMORY], [];
    CONNECTOR = "Adapter::create_connector", "ADPT-078 to ADPT-081, ADPT-086",
        [INVALID_HANDLE NO_MEMORY INSUFFICIENT_RESOURCES], [];
    LISTENER = "Adapter::create_listener", "ADPT-082 to ADPT-086",
        [INVALID_HANDLE NO_MEMORY INSUFFICIENT_RESOURCES], [];
    INJECT = "AdapterExtensions::inject", "GEN-015",
        [NOT_SUPPORTED INVALID_PARAMETER INVALID_PARAMETER_1], [];
    ASSOCIATE = "OverlappedFile::associate", "ADPT-007, ADPT-008", [INVALID_DEVICE_STATE], [] cleans_up;
    CANCEL = "OverlappedObject::cancel_overlapped_requests", "OVL-001 to OVL-004", [UNSUCCESSFUL], [] cleans_up;
    RESULT = "OverlappedObject::get_overlapped_result", "OVL-005 to OVL-023", [], [] cleans_up;
    CQ_AFFINITY = "CompletionQueue::get_notify_affinity", "CQ-003 to CQ-009, AMB-060", [NOT_SUPPORTED], [];
    CQ_RESIZE = "CompletionQueue::resize", "CQ-010 to CQ-017, CQ-022",
        [INVALID_PARAMETER BUFFER_OVERFLOW NOT_SUPPORTED INSUFFICIENT_RESOURCES INVALID_DEVICE_STATE], [];
    CQ_NOTIFY = "CompletionQueue::notify", "CQ-019 to CQ-037",
        [INSUFFICIENT_RESOURCES], [BUFFER_OVERFLOW INTERNAL_ERROR];
    GET_RESULTS = "CompletionQueue::get_results", "CQ-040 to CQ-045", [], [] cleans_up;
    SRQ_AFFINITY = "SharedReceiveQueue::get_notify_affinity", "SRQ-002 to SRQ-008", [NOT_SUPPORTED], [];
    SRQ_MODIFY = "SharedReceiveQueue::modify", "SRQ-009 to SRQ-016, SRQ-019",
        [INVALID_PARAMETER BUFFER_OVERFLOW INSUFFICIENT_RESOURCES INVALID_DEVICE_STATE], [];
    SRQ_NOTIFY = "SharedReceiveQueue::notify", "SRQ-017 to SRQ-026, AMB-051",
        [INSUFFICIENT_RESOURCES], [INTERNAL_ERROR];
    SRQ_RECEIVE = "SharedReceiveQueue::receive", "SRQ-027 to SRQ-034",
        [BUFFER_OVERFLOW NO_MORE_ENTRIES DATA_OVERRUN], [];
    FLUSH = "QueuePair::flush", "QP-004 to QP-009", [], [] cleans_up;
    SEND = "QueuePair::send", "QP-010 to QP-022",
        [CONNECTION_INVALID BUFFER_OVERFLOW NO_MORE_ENTRIES DATA_OVERRUN INVALID_PARAMETER_4], [];
    RECEIVE = "QueuePair::receive", "QP-026 to QP-034, AMB-050",
        [BUFFER_OVERFLOW NO_MORE_ENTRIES DATA_OVERRUN INVALID_DEVICE_REQUEST], [];
    BIND = "QueuePair::bind", "QP-035 to QP-045, AMB-011, AMB-055, MR-008",
        [CONNECTION_INVALID NO_MORE_ENTRIES ACCESS_VIOLATION INVALID_PARAMETER_2 INVALID_PARAMETER_3 INVALID_PARAMETER_6
         INSUFFICIENT_RESOURCES], [];
    INVALIDATE = "QueuePair::invalidate", "QP-046 to QP-051, AMB-055",
        [CONNECTION_INVALID NO_MORE_ENTRIES INVALID_PARAMETER_2 INVALID_PARAMETER_3], [];
    READ = "QueuePair::read", "QP-052 to QP-063",
        [CONNECTION_INVALID BUFFER_OVERFLOW NO_MORE_ENTRIES DATA_OVERRUN INVALID_PARAMETER_6], [];
    WRITE = "QueuePair::write", "QP-064 to QP-073",
        [CONNECTION_INVALID BUFFER_OVERFLOW NO_MORE_ENTRIES DATA_OVERRUN INVALID_PARAMETER_6], [];
    SEND_INLINE = "QueuePair::send_inline", "QP-023 to QP-025, AMB-048",
        [CONNECTION_INVALID BUFFER_OVERFLOW NO_MORE_ENTRIES INVALID_PARAMETER_4], [];
    WRITE_INLINE = "QueuePair::write_inline", "QP-069, QP-070, AMB-048",
        [CONNECTION_INVALID BUFFER_OVERFLOW NO_MORE_ENTRIES INVALID_PARAMETER_6], [];
    SEND_IMMEDIATE = "QueuePairExtensions::send_immediate", "QP-011",
        [CONNECTION_INVALID NO_MORE_ENTRIES INVALID_PARAMETER_2 INVALID_PARAMETER_3], [];
    ATOMIC = "QueuePairExtensions::atomic", "QP-011",
        [CONNECTION_INVALID NO_MORE_ENTRIES DATA_OVERRUN NOT_SUPPORTED INVALID_PARAMETER_3 INVALID_PARAMETER_5], [];
    REGISTER = "MemoryRegion::register", "MR-006 to MR-023, AMB-012, AMB-013, AMB-055",
        [INVALID_BUFFER_SIZE INVALID_PARAMETER INVALID_PARAMETER_3 INVALID_DEVICE_STATE INSUFFICIENT_RESOURCES],
        [INVALID_BUFFER_SIZE INVALID_PARAMETER INVALID_PARAMETER_3 INVALID_DEVICE_STATE INSUFFICIENT_RESOURCES];
    DEREGISTER = "MemoryRegion::deregister", "MR-024 to MR-031, AMB-013",
        [DEVICE_BUSY INVALID_DEVICE_STATE], [INVALID_DEVICE_STATE] cleans_up;
    LOCAL_TOKEN = "MemoryRegion::get_local_token", "MR-032, MR-033", [], [] cleans_up;
    REMOTE_TOKEN = "MemoryRegion::get_remote_token", "MR-032, MR-033", [], [] cleans_up;
    WINDOW_TOKEN = "MemoryWindow::get_remote_token", "MW-008", [], [] cleans_up;
    CONNECTOR_BIND = "Connector::bind", "CONN-005 to CONN-013, AMB-028",
        [ADDRESS_ALREADY_ASSOCIATED INVALID_ADDRESS SHARING_VIOLATION TOO_MANY_ADDRESSES ADDRESS_ALREADY_EXISTS
         CANCELED INVALID_PARAMETER_2 INVALID_DEVICE_STATE INSUFFICIENT_RESOURCES], [];
    CONNECT = "Connector::connect", "CONN-014 to CONN-035, AMB-032",
        [INVALID_BUFFER_SIZE CONNECTION_ACTIVE INVALID_DEVICE_STATE INVALID_PARAMETER_1 NETWORK_UNREACHABLE
         BAD_NETWORK_NAME INVALID_ADDRESS ADDRESS_ALREADY_EXISTS TOO_MANY_ADDRESSES INSUFFICIENT_RESOURCES],
        [CONNECTION_REFUSED NETWORK_UNREACHABLE HOST_UNREACHABLE IO_TIMEOUT BAD_NETWORK_NAME ADDRESS_ALREADY_EXISTS
         INSUFFICIENT_RESOURCES];
    COMPLETE = "Connector::complete_connect", "CONN-042 to CONN-047", [CONNECTION_INVALID IO_TIMEOUT], [IO_TIMEOUT];
    ACCEPT = "Connector::accept", "CONN-050 to CONN-063, AMB-004",
        [INVALID_BUFFER_SIZE CONNECTION_ACTIVE CONNECTION_INVALID INVALID_DEVICE_STATE INVALID_PARAMETER_1
         CONNECTION_ABORTED CONNECTION_REFUSED IO_TIMEOUT CANCELED],
        [CONNECTION_ABORTED CONNECTION_REFUSED IO_TIMEOUT];
    REJECT = "Connector::reject", "CONN-069 to CONN-077, AMB-038",
        [INVALID_BUFFER_SIZE CONNECTION_ABORTED CONNECTION_INVALID], [];
    LIMITS = "Connector::get_read_limits", "CONN-078 to CONN-083", [CONNECTION_INVALID UNSUCCESSFUL], [] cleans_up;
    PRIVATE_DATA = "Connector::get_private_data", "CONN-084 to CONN-090",
        [CONNECTION_INVALID CONNECTION_ABORTED UNSUCCESSFUL], [] cleans_up;
    CONNECTOR_LOCAL = "Connector::get_local_address", "CONN-091 to CONN-095", [CONNECTION_INVALID], [] cleans_up;
    PEER = "Connector::get_peer_address", "CONN-096 to CONN-101", [CONNECTION_INVALID], [] cleans_up;
    NOTIFY_DISCONNECT = "Connector::notify_disconnect", "CONN-102 to CONN-108", [CONNECTION_INVALID], [];
    DISCONNECT = "Connector::disconnect", "CONN-109 to CONN-116", [CONNECTION_INVALID], [];
    LISTENER_BIND = "Listener::bind", "LSTN-005 to LSTN-012, AMB-028",
        [ADDRESS_ALREADY_ASSOCIATED INVALID_ADDRESS SHARING_VIOLATION TOO_MANY_ADDRESSES INSUFFICIENT_RESOURCES], [];
    LISTEN = "Listener::listen", "LSTN-013 to LSTN-018", [INVALID_DEVICE_STATE INSUFFICIENT_RESOURCES], [];
    LISTENER_LOCAL = "Listener::get_local_address", "LSTN-019 to LSTN-022", [INVALID_DEVICE_STATE], [] cleans_up;
    GET_REQUEST = "Listener::get_connection_request", "LSTN-023 to LSTN-032",
        [INVALID_DEVICE_STATE CONNECTION_ACTIVE INVALID_PARAMETER_1], [];
    WITHDRAW = "Listener::withdraw", "GEN-022", [CONNECTION_INVALID INVALID_PARAMETER_1 NOT_SUPPORTED], [] cleans_up;
}

/// The statuses of results (RES-007 to RES-015).
pub(crate) const RESULTS: &[Status] = &[
    Status::SUCCESS,
    Status::ACCESS_VIOLATION,
    Status::INVALID_DEVICE_REQUEST,
    Status::CANCELED,
    Status::REMOTE_ERROR,
    Status::BUFFER_OVERFLOW,
    Status::IO_TIMEOUT,
    Status::INTERNAL_ERROR,
];
