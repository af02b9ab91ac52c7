//! A library that exports COM's objects as a provider of the traits.
//!
//! # The promise of libraries
//!
//! A library does what ND2's pages say: it fills in the tables of its objects, keeps an object alive as long as there is a reference,
//! writes into memory that it is given within the sizes that it is given, uses an OVERLAPPED until the request has ended, and a registered
//! buffer until it is deregistered. `pointer` and `requests` rely on this, and nothing that a Rust program can do breaks it. A library that
//! does not keep the promise can do what any code of this process can do.
//!
//! # Who calls whom
//!
//! ```text
//! a client of the traits > a class: provider, adapter, queues, memory, connection > the object's table (pointer)
//! the library > port: a packet > ImportedRequests::drain: GetOverlappedResult > the client's Overlapped
//! ```
//!
//! Packets are taken by threads that wait in files or call methods, and by a thread of the adapter if there are none.

mod adapter;
mod addresses;
mod connection;
mod connection_end;
mod extensions;
mod file;
mod library;
mod loaded;
mod memory;
mod of_queue_pair;
mod overlapping;
mod pointer;
mod port;
mod provider;
mod queues;
mod requests;
mod text;

pub use addresses::list as address_list;
pub use file::OwnedHandle;
pub use library::{LoadError, TrustedLibrary, configure, linked, load_failure, loaded, provider};
pub use loaded::{CanUnloadNow, GetClassObject, Linked, Loaded};
pub use pointer::Pointer;
