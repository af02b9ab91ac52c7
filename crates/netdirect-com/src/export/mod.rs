//! Any provider of the traits as objects of COM.
//!
//! # The promise of clients
//!
//! A client passes, in each argument, the value that ND2's page for the method demands, or null. An interface pointer is one that this
//! library or another one has issued, with a reference that the client still has. Memory that a method fills or reads is valid while the
//! call lasts; an OVERLAPPED and the object behind its event until the request has ended; a registered buffer as long as it is registered.
//! `object` and `pointers` turn such arguments into values and are the only files that rely on the promise: the classes cannot misuse these
//! values.
//!
//! Wrong arguments that a client may pass by mistake have a status: null, an object of another kind, of another adapter or of another
//! library, a short address, memory that cannot be read. It must not pass pointers to freed memory, which the library cannot recognise.
//!
//! # Who calls whom
//!
//! ```text
//! client > table > method! (object) > a class: provider, adapter, queues, memory, connection > the traits of netdirect
//! provider's thread > Request::completed (requests) > OVERLAPPED, port, event
//! ```

mod adapter;
mod alive;
mod connection;
mod connection_end;
mod faults;
mod file;
mod guard;
mod image;
mod library;
mod memory;
mod object;
mod overlapped;
mod parts;
mod planted;
mod pointers;
mod provider;
mod queues;
mod requests;

pub use image::Library;
pub use library::{can_unload_now, get_class_object};
