//! ND2's COM interface.
//!
//! ND2 programs are written in C and C++ and call tables of functions: an interface pointer points to a pointer to a table, whose first
//! three functions are those of `IUnknown`. This crate connects such programs to the traits of the crate [`netdirect`].
//!
//! - [`abi`] has the binary interface: tables, structures, numbers, interface identifiers, and on systems without Windows' handles the
//!   tables that events, completion ports and overlapped files begin with.
//! - [`export`] makes objects of COM from any provider of the traits, and has the exports of a provider's library.
//! - [`import`] makes a provider of the traits from a library that exports such objects.
//! - [`sockaddr`] reads and writes socket addresses as structures of C.
//! - [`catalogue`] reads and changes Winsock's list of providers, which Windows has.
//! - [`environment`] has the variables that a library of this project may follow.
//! - [`handle`] has Windows' handles, also on systems that have none.
//!
//! C and C++ programs have [`abi`] as `include/netdirect.h` of the repository. The tests of this crate compare both.
//!
//! # Why the tables are our own
//!
//! The crate `windows-core` can declare such tables and implement them, on Linux too. Its objects cannot be used here for two reasons. They
//! have one count of references, which the client and the library share, and are freed while their last method still runs; ND2 wants
//! Release to count only the client's references (AMB-070), and to be called while another thread waits in a method of the same object. And
//! an argument is recognised by the Rust type of the object, which a second copy of the same library has as well, whose objects have to
//! count as foreign (GEN-022). Only the declaration of 13 tables would remain.

pub mod abi;
pub mod catalogue;
mod context;
pub mod export;
pub mod handle;
pub mod import;
mod log;
pub mod sockaddr;

pub use rdma_buffer::environment;
