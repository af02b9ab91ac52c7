//! NetworkDirect v2 (ND2) as Rust traits.
//!
//! ND2 is Microsoft's user-mode interface to RDMA adapters: registered memory, queue pairs, completion queues, and a
//! connection set-up in three steps. This crate describes the whole interface, with one trait for each ND2 interface and one
//! Rust method for each ND2 method. It contains no provider: a program that is written against `&dyn` [`Provider`] runs on any
//! provider.
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
//! Methods have their ND2 names in snake case, and list all their documented statuses. Microsoft's pages leave some cases open.
//! This project has a catalogue of requirements that decides each of these cases. Identifiers such as CQ-037 or AMB-008 name a
//! row of the catalogue. The project's book explains all of them, on a page for each family (`docs/check/nd-provider`).
//!
//! # Where Rust differs
//!
//! - Methods return values instead of filling out parameters. A [`Result`] holds an [`Error`] with a status and an explanation.
//!   An overlapped method returns [`Started`], which is `Pending` or `Done`.
//! - Queries return a `Vec`, a `SocketAddr` or a structure, so the caller need not ask for the size of a buffer first.
//! - There is no COM. `Arc` counts references, `Any` replaces `QueryInterface`, and all objects are `Send + Sync`. An object is
//!   released when its last `Arc` is dropped.
//! - Memory addresses in an [`Sge`] and in Bind are numbers, not pointers. Requests read and write a [`Buffer`], a type that
//!   owns its memory and is safe to use while the adapter writes the memory. One `unsafe` constructor,
//!   [`Buffer::from_raw_parts`], wraps the application's own memory. It excludes references and ordinary accesses while the
//!   adapter may write the memory, and ordinary writes while the adapter may read it.
//! - Inline data is passed as slices to [`send_inline`](QueuePair::send_inline) and [`write_inline`](QueuePair::write_inline),
//!   because safe code cannot turn a number into a pointer.
//! - Contexts are `u64`. [`QueuePairOptions`], with defaults, replaces the size arguments of `CreateQueuePair`.
//! - Waiting does the provider's work: [`Overlapped::wait`] and [`CompletionPort::get`] run the provider in the calling thread.
//!   An [`Overlapped`] can be awaited as a future. On Unix an [`OverlappedFile`] has a descriptor for event loops.
//!
//! The module [`ext`] contains what most applications need on top of the traits. Features that ND2 lacks and some providers
//! have are found by the `extensions` methods: Atomics and Immediate Data by [`QueuePair::extensions`]; the capabilities of
//! an adapter, its counters, and faults for tests by [`Adapter::extensions`] and [`Provider::extensions`].
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
//!     ext::Results::new(&cq).get(&mut results)?;
//!     results[0].status.ok()?;
//!
//!     ext::disconnect(&connector)
//! }
//! ```
//!
//! # For providers
//!
//! An overlapped method calls [`Overlapped::begin`] and later ends the request by [`PendingOverlapped::complete`]. Any thread
//! may do so, even before the method has returned `Started::Pending`. This crate does everything else that concerns a
//! request: it stores the status, sets the event, queues the packet, wakes futures and calls sinks, in a defined order. The
//! provider supplies an [`OverlappedFile`], through which a waiting thread runs the provider.
//!
//! In addition to the contract of each method, every provider keeps these rules:
//!
//! - **Everything progresses without calls.** A request that was started ends, and the peer's Reads and Writes of registered memory are
//!   served, while the application computes, sleeps, or spins on an octet of its buffer (TST-103). Waiting and polling may speed this up,
//!   but are never needed. With hardware the device does the work, and a thread of the provider runs the control path. A provider in
//!   software uses its own thread for both.
//! - **Futures and events drive nothing.** A task that awaits an [`Overlapped`], and a thread that waits on an [`Event`],
//!   do not run the provider. By the first rule, the provider ends their requests nevertheless.
//! - **A buffer lives until the device has stopped using it.** A registration owns a clone of its [`Buffer`]. It drops the
//!   clone only when the device can no longer reach the memory: when Deregister has ended, or, if a region is released while
//!   registered, when the provider has deregistered the memory itself (MR-028). The same holds for a device that was removed
//!   or does not answer. Memory that such a device may still write is leaked rather than freed.
//! - **No method panics, and no method blocks** for the peer or the device longer than the call itself takes, except methods whose purpose
//!   is to wait. If a lower interface blocks, such as a resolver or a driver's call, the provider calls it in a separate thread.
//! - **No lock is held while the caller's code runs,** if a method of the provider takes this lock: the end of a request wakes
//!   tasks and calls [sinks](CompletionSink), and both may call the provider again.
//!
//! [`AdapterInfo::check_queue_pair`] and its siblings compare what a client asks for with the adapter's limits.
//!
//! ## A provider over verbs
//!
//! The traits can be implemented over libibverbs and librdmacm. This shows in three places:
//!
//! - [`cancel_overlapped_requests`](OverlappedObject::cancel_overlapped_requests) ends the requests at once, though a thread
//!   may still be blocked in a driver's call for one of them. This thread owns the objects that the call uses. They are
//!   released when the call returns, and its result is dropped.
//! - [`NotifyType::Solicited`] may end for any result if the device cannot say which results are solicited:
//!   [`Capabilities::SOLICITED_EVENTS`].
//! - [`Immediate`] Data has 4 octets on InfiniBand and 8 on iWARP. Memory windows and Atomics may be missing: [`Capabilities`].

#![forbid(unsafe_code)]

mod adapter;
mod atomics;
mod connection;
mod connection_end;
mod counters;
mod error;
mod event;
mod explanation;
pub mod ext;
mod extension;
mod fault;
mod limits;
mod memory;
mod object;
mod overlapped;
mod prometheus;
mod provider;
mod queues;
mod simulation;
mod sleep;
mod status;
mod sync;
mod types;

pub use adapter::Adapter;
pub use atomics::{AtomicOp, QueuePairExtensions};
pub use connection::{Connector, Listener};
pub use connection_end::{ConnectionEnd, EndReason, EndedBy, TerminateCode};
pub use counters::Counters;
pub use error::{Error, Result, Started};
pub use event::Event;
pub use extension::{AdapterExtensions, Capabilities, ProviderExtensions};
pub use fault::{Call, Fault};
pub use memory::{MemoryRegion, MemoryWindow};
pub use object::OverlappedObject;
pub use overlapped::{
    Association, Awaited, CompletionPort, CompletionSink, Finished, Overlapped, OverlappedFile,
    Packet, PendingOverlapped, SimulatedWait,
};
pub use provider::Provider;
pub use queues::{CompletionQueue, QueuePair, SharedReceiveQueue};
pub use rdma_buffer::Buffer;
pub use simulation::SimulatedTime;
pub use sleep::Sleep;
pub use status::{Severity, Status};
pub use types::{
    AdapterFlags, AdapterId, AdapterInfo, Affinity, CompletionResult, Immediate, LocalToken,
    MrFlags, NotifyType, OpFlags, QueryFlags, QueuePairOptions, ReadLimits, RemoteAddress,
    RemoteToken, RequestType, Sge, SharedReceiveQueueOptions, VERSION_1, VERSION_2,
};
