//! NetworkDirect v2 (ND2) as Rust traits.
//!
//! ND2 is Microsoft's user-mode interface to RDMA adapters: registered memory, queue pairs, completion queues, and a
//! connection set-up of three steps. This crate holds its whole surface, one trait per interface and one method per method,
//! and no provider: a program written against `&dyn` [`Provider`] runs on any.
//!
//! # From ND2 to Rust
//!
//! | ND2 | here |
//! |---|---|
//! | `IND2Provider` | [`Provider`] |
//! | `IND2Adapter`, `ND2_ADAPTER_INFO` | [`Adapter`], [`AdapterInfo`] |
//! | `IND2Overlapped` | [`OverlappedObject`] |
//! | `IND2CompletionQueue`, `ND2_RESULT`, `ND_CQ_NOTIFY_…` | [`CompletionQueue`], [`CompletionResult`], [`NotifyType`] |
//! | `IND2MemoryRegion`, `ND_MR_FLAG_…` | [`MemoryRegion`], [`MrFlags`], [`Buffer`] |
//! | `IND2MemoryWindow` | [`MemoryWindow`] |
//! | `IND2SharedReceiveQueue` | [`SharedReceiveQueue`] |
//! | `IND2QueuePair`, `ND2_SGE`, `ND_OP_FLAG_…` | [`QueuePair`], [`Sge`], [`OpFlags`] |
//! | `IND2Connector` | [`Connector`] |
//! | `IND2Listener` | [`Listener`] |
//! | `OVERLAPPED`, event handle | [`Overlapped`], [`Event`] |
//! | overlapped file handle, I/O completion port | [`OverlappedFile`], [`CompletionPort`] |
//! | `HRESULT`, `ND_…`, `STATUS_…` | [`Status`] without the prefix: [`Status::CONNECTION_REFUSED`] |
//! | `ND2_REQUEST_TYPE` | [`RequestType`] |
//!
//! Methods have ND2's names in snake case, with all their documented statuses. What they are to do in every case that ND2's
//! own pages leave open is decided row by row in this project's requirement catalogue; identifiers such as CQ-037 or AMB-008
//! in these pages name its rows, and the checks of the conformance suite.
//!
//! # Where Rust differs
//!
//! - Out parameters are return values: [`Result`], with [`Error`] carrying the status and an explanation. An overlapped method
//!   returns [`Started`]: `Pending` or `Done`.
//! - Buffer size protocols (call, learn the size, call again) are gone: queries return a `Vec`, a `SocketAddr` or a structure.
//! - COM is gone: `Arc` counts references, `Any` answers for `QueryInterface`, and all objects are `Send + Sync`. Releasing an
//!   object is dropping its last `Arc`.
//! - Addresses of memory are numbers in an [`Sge`] and in Bind, never pointers; what may be read and written is a [`Buffer`],
//!   an owner type that is safe to use while the adapter is writing it. One `unsafe` constructor takes the application's own memory.
//! - Inline data is given as slices, [`send_inline`](QueuePair::send_inline) and
//!   [`write_inline`](QueuePair::write_inline), since a number cannot be trusted to be an address.
//! - Contexts are `u64`; nine arguments of sizes are [`QueuePairOptions`] with defaults.
//! - Waiting drives: [`Overlapped::wait`] and [`CompletionPort::get`] do the provider's work in the caller's thread. An
//!   [`Overlapped`] is a future too, and [`OverlappedFile`] has a descriptor for event loops on Unix.
//!
//! [`ext`] adds what every application writes again. What ND2 does not have and some providers do is found by the
//! `extensions` of their objects: Atomics and Immediate Data by [`QueuePair::extensions`]; what an adapter can do, its counters
//! and faults on request by [`Adapter::extensions`] and [`Provider::extensions`].
//!
//! # Example
//!
//! The active side of a connection that sends one message:
//!
//! ```
//! use std::net::SocketAddr;
//! use netdirect::{
//!     Affinity, Buffer, CompletionResult, MrFlags, OpFlags, Overlapped, Provider, QueuePairOptions, ReadLimits, Result, Sge, ext,
//! };
//!
//! fn say_hello(provider: &dyn Provider, from: SocketAddr, to: SocketAddr) -> Result<()> {
//!     let adapter = provider.open_adapter(provider.resolve_address(from)?)?;
//!     let file = adapter.create_overlapped_file()?;
//!     let cq = adapter.create_completion_queue(&file, 64, Affinity::default())?;
//!     let qp = adapter.create_queue_pair(&cq, &cq, QueuePairOptions::default())?;
//!
//!     let buffer = Buffer::new(4096);
//!     buffer.write(0, b"hello");
//!     let region = adapter.create_memory_region(&file)?;
//!     let overlapped = Overlapped::new();
//!     ext::wait(region.register(&buffer, MrFlags::ALLOW_LOCAL_WRITE, &overlapped), &overlapped)?;
//!
//!     let connector = adapter.create_connector(&file)?;
//!     ext::connect(&connector, &qp, to, ReadLimits::default(), &[])?;
//!
//!     let sge = Sge::new(&buffer, ..5, region.get_local_token());
//!     qp.send(1, &[sge], OpFlags::empty())?;
//!     let mut results = [CompletionResult::default(); 1];
//!     ext::Results::of(&cq).get(&mut results)?;
//!     results[0].status.ok()?;
//!
//!     ext::disconnect(&connector)
//! }
//! ```
//!
//! # For providers
//!
//! An overlapped method calls [`Overlapped::begin`] and ends the request by [`PendingOverlapped::complete`], from any thread,
//! also before it has returned `Started::Pending`. Everything else about requests (status, event, packet, futures, sinks, and
//! the order in which they see the end) is done here. What a provider has to supply is an [`OverlappedFile`] that can be
//! driven.
//!
//! What every provider owes its callers, beside the contract of each method:
//!
//! - **Everything progresses without calls.** A request that was started ends, and what the peer reads and writes in
//!   registered memory is served, while the application computes, sleeps, or spins on an octet of its buffer (TST-103). Waiting
//!   and polling may make it faster; they are never needed. A provider over hardware has this from the device and from a
//!   thread of its own for the control path, a provider in software from a thread of its own.
//! - **Futures and events drive nothing.** A task that awaits an [`Overlapped`] and a thread that waits on an [`Event`] make no
//!   progress for the provider. It ends their requests all the same, which follows from the first point.
//! - **A buffer is held until the device has let go of it.** A registration owns a clone of its [`Buffer`], and drops the
//!   clone only when the device can reach the memory no more: after Deregister has ended, or, where a region is released
//!   while registered, after the provider has deregistered by itself (MR-028). The same holds for a device that was removed or
//!   does not answer: memory that it may still write is leaked rather than freed.
//! - **No method panics and none blocks** for the peer or for the device longer than the call itself takes, those apart that
//!   are made to wait. Where an interface under the provider blocks (a resolver, a driver's call), a thread of the provider's
//!   takes it.
//! - **Nothing of the caller's is called with a lock held** that a method of the provider takes: the end of a request wakes
//!   tasks and calls [sinks](CompletionSink), which may call the provider again.
//!
//! ## A provider over verbs
//!
//! The traits are written so that libibverbs and librdmacm can carry them too. Three places where that shows:
//!
//! - [`cancel_overlapped_requests`](OverlappedObject::cancel_overlapped_requests) ends the requests at once, though a thread
//!   may still be blocked in a driver's call on their behalf. That thread owns what it uses; those objects die when the call
//!   returns, and what it returns is dropped.
//! - [`NotifyType::Solicited`] may end for any result, where the device does not tell solicited results apart:
//!   [`Capabilities::SOLICITED_EVENTS`].
//! - [`Immediate`] Data has 4 octets there and 8 on iWARP; memory windows and Atomics may be missing: [`Capabilities`].

#![forbid(unsafe_code)]

mod adapter;
mod atomics;
mod connection;
mod counters;
mod error;
mod event;
pub mod ext;
mod extension;
mod fault;
mod memory;
mod object;
mod overlapped;
mod provider;
mod queues;
mod simulation;
mod status;
mod sync;
mod types;

pub use adapter::Adapter;
pub use atomics::{AtomicOp, QueuePairExtensions};
pub use connection::{Connector, Listener};
pub use counters::Counters;
pub use error::{Error, Result, Started};
pub use event::Event;
pub use extension::{AdapterExtensions, Capabilities, ProviderExtensions};
pub use fault::{Call, Fault};
pub use memory::{MemoryRegion, MemoryWindow};
pub use object::OverlappedObject;
pub use overlapped::{
    Association, CompletionPort, CompletionSink, Finished, Overlapped, OverlappedFile, Packet,
    PendingOverlapped,
};
pub use provider::Provider;
pub use queues::{CompletionQueue, QueuePair, SharedReceiveQueue};
pub use rdma_buffer::Buffer;
pub use simulation::Simulation;
pub use status::{Severity, Status};
pub use types::{
    AdapterFlags, AdapterId, AdapterInfo, Affinity, CompletionResult, Immediate, LocalToken,
    MrFlags, NotifyType, OpFlags, QueryFlags, QueuePairOptions, ReadLimits, RemoteAddress,
    RemoteToken, RequestType, Sge, SharedReceiveQueueOptions, VERSION_1, VERSION_2,
};
