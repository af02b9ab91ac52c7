//! NetworkDirect v2 as Rust traits.
#![deny(unsafe_code)]

mod adapter;
#[allow(
    unsafe_code,
    reason = "memory that the application hands over by address"
)]
mod buffer;
mod connection;
mod error;
mod event;
mod file;
mod memory;
mod object;
mod overlapped;
mod port;
mod provider;
mod queues;
mod status;
mod sync;
mod types;

pub use adapter::Adapter;
pub use buffer::Buffer;
pub use connection::{Connector, Listener};
pub use error::{Error, Result, Started};
pub use event::Event;
pub use file::{Association, OverlappedFile};
pub use memory::{MemoryRegion, MemoryWindow};
pub use object::OverlappedObject;
pub use overlapped::{Finished, Overlapped, PendingOverlapped};
pub use port::{CompletionPort, Packet};
pub use provider::Provider;
pub use queues::{CompletionQueue, QueuePair, SharedReceiveQueue};
pub use status::{Severity, Status};
pub use types::{
    AdapterFlags, AdapterId, AdapterInfo, Affinity, CompletionResult, LocalToken, MrFlags,
    NotifyType, OpFlags, QueryFlags, QueuePairOptions, ReadLimits, RemoteAddress, RemoteToken,
    RequestType, Sge, SharedReceiveQueueOptions, VERSION_1, VERSION_2,
};
