//! The binary interface between clients and providers, as ND2's headers define it.
//!
//! These modules contain only types and constants. `ULONG`, `LONG`, `DWORD`, `BOOL` and `HRESULT` have 32 bits on every system; pointers,
//! `SIZE_T`, `HANDLE` and `KAFFINITY` have the host's size. An `HRESULT` is a [`Status`], which has the same layout. Functions have the
//! calling convention `system`, which is COM's (GEN-018).

mod extensions;
mod handles;
mod identifiers;
mod structures;
mod tables;
mod words;

pub use extensions::{
    AdapterExtensionTable, Atomic, CompletionQueueExtensionTable, ConnectionEnd,
    ConnectionEndTable, ExtendedResult, FaultKind, IID_ADAPTER_EXTENSION,
    IID_COMPLETION_QUEUE_EXTENSION, IID_CONNECTION_END, IID_LISTENER_EXTENSION,
    IID_OVERLAPPED_EXTENSION, IID_PROVIDER_EXTENSION, IID_QUEUE_PAIR_EXTENSION, InjectedFault,
    ListenerExtensionTable, OverlappedExtensionTable, ProviderExtensionTable,
    QueuePairExtensionTable,
};
pub use handles::{
    EventTable, FileTable, HandleKind, HandleTable, PORT_CLOSED, Packet, PortTable, WAKE_EVENT_BIT,
    Watcher,
};
pub use identifiers::{
    Guid, IID_CLASS_FACTORY, IID_IUNKNOWN, IID_ND2_ADAPTER, IID_ND2_COMPLETION_QUEUE,
    IID_ND2_CONNECTOR, IID_ND2_LISTENER, IID_ND2_MEMORY_REGION, IID_ND2_MEMORY_WINDOW,
    IID_ND2_OVERLAPPED, IID_ND2_PROVIDER, IID_ND2_QUEUE_PAIR, IID_ND2_SHARED_RECEIVE_QUEUE,
};
pub use structures::{
    AdapterInfo, CompletionResult, Overlapped, Sge, SocketAddress, SocketAddressList,
};
pub use tables::{
    AdapterTable, ClassFactoryTable, CompletionQueueTable, ConnectorTable, ListenerTable,
    MemoryRegionTable, MemoryWindowTable, OverlappedTable, ProviderTable, QueuePairTable,
    SharedReceiveQueueTable, UnknownTable,
};
pub use words::{Bool, Handle, This};

/// `HRESULT`.
pub use netdirect::Status;
