//! The objects of libibverbs and librdmacm, over the iWARP driver.
//!
//! Every object of verbs is a type here, with the calls of the manual pages as methods and an [`Error`] that has their errno. Nothing here
//! is `unsafe`, no object is a C structure, and no thread is started but the driver's. The objects run in a simulated network as well
//! as on sockets.
//!
//! ```text
//! cm        event channels, identifiers, set-up and end of connections, calls that wait, addresses by names
//! qpn       connections of queue pairs whose numbers the programs exchange by themselves: ports, who connects and when
//! qp        queue pairs: states, requests, the owner of the driver's endpoint; queue pairs for datagrams (ud)
//! srq, cq   shared receive queues; completion queues and completions
//! mr, pd    memory regions, protection domains
//! ah        address handles, and the addresses of peers by rows of the GID table
//! channel   completion channels, over queues of events with descriptors (events)
//! context   opened devices, asynchronous events
//! process   the driver, the table of memory, numbers of queue pairs and connections
//! device    devices over network interfaces
//! writes    when Writes are done, and the Reads that confirm them
//! ```
//!
//! A module uses those below it in this list, and no others.
//!
//! # How a C library uses the objects
//!
//! - One [`Process`] for a program, made when the devices are listed for the first time. After a fork the child calls [`Process::forget`],
//!   leaks its references to the old objects, and makes a new [`Process`].
//! - A C structure holds the [`Arc`](std::sync::Arc) of its object, and the object's [`Tag`] holds the address of the structure. Events
//!   name objects by their tags.
//! - To destroy an object, call its `destroy` (`close`, `deregister`), which fails with EBUSY as long as other objects use it, and waits
//!   for acknowledgements; if it succeeds, drop the `Arc`.
//! - An [`Error`] has the errno: functions that return an errno return [`Error::raw`], the others set it and return -1 or NULL.
//! - [`CompletionQueue::poll`] fills an array of [`WorkCompletion`]s, whose numbers are those of the headers. [`Sge`] is laid out as
//!   `struct ibv_sge`. A list of requests is posted one by one; the first that fails is the `bad_wr`.
//! - Memory of the program becomes a `rdma_buffer::Buffer` by `Buffer::from_pages`, whose safety the C library guarantees.
//!
//! # Systems
//!
//! On Windows the crate is empty: programs for verbs wait by descriptors, which Windows does not have.
#![cfg(unix)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as softverbs;

mod ah;
mod channel;
mod cm;
mod context;
mod counters_file;
mod cq;
mod device;
mod dropped_datagrams;
mod error;
mod events;
mod fault_effects;
pub mod faults;
mod mr;
mod pd;
mod process;
mod qp;
mod qpn;
pub mod security;
mod sge;
mod srq;
mod users;
mod writes;

pub use ah::{AddressHandle, AddressVector};
pub use channel::{CompletionChannel, CompletionEvent};
pub use cm::{
    AddrInfo, AddrInfoError, AddrInfoFlags, AddrInfoHints, AddressFamily, ChannelOf, CmEvent,
    CmEventKind, CmId, ConnParameters, DatagramParameters, EventChannel, EventOf, IdQpOptions,
    LastEvent, NameFailure, NameQuery, PORT_SPACE_TCP, PortSpace, QP_TYPE_RC, Resolver,
    SharedDevice, address_info,
};
#[doc(hidden)]
pub use cm::{CmMessage, MessageError, MessageKind};
pub use context::{AsyncEvent, AsyncEventKind, Context, check_port};
pub use cq::{CompletionQueue, WcOpcode, WcStatus, WorkCompletion, vendor_err};
pub use device::{Device, DeviceKind, Gid, GidEntry, gid, limits};
pub use error::{Errno, Error, Result};
pub use iwarp_io::capture::CaptureOptions;
pub use iwarp_io::interfaces::NetworkInterface;
pub use iwarp_io::simulation::{Chance, Conditions, World};
pub use iwarp_io::transport::congestion_control::CongestionControl;
pub use mr::{AccessFlags, MemoryRegion};
pub use pd::ProtectionDomain;
pub use process::{Cancellation, Process, ProcessOptions, choose_congestion};
#[doc(hidden)]
pub use qp::{DatagramHeader, HeaderError};
pub use qp::{
    Destination, QpAttributes, QpCaps, QpMask, QpOptions, QpState, QueuePair, RemotePlace,
    SendData, SendList, SendOperation, SendRequest, Service,
};
#[doc(hidden)]
pub use qpn::{Call, CallError};
pub use sge::Sge;
pub use srq::{SharedReceiveQueue, SrqAttributes};
pub use users::Tag;
pub use writes::WriteCompletion;
