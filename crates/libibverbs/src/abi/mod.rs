//! The structures and numbers of libibverbs and librdmacm, as C programs know them.
//!
//! Structures have the layout of rdma-core 44, which later releases keep; `newer` has what they add. A test compiles C against the installed headers, and
//! compares every size, offset and number. Unions are written as plain fields, of which the widest member or the one that this
//! library reads has a name: so that no field needs `unsafe`.

#![allow(non_camel_case_types, reason = "the names of the headers")]
#![allow(
    dead_code,
    reason = "a structure is written whole, also where this library reads a part"
)]

#[macro_use]
pub(crate) mod describe;
pub(crate) mod attributes;
pub(crate) mod cm;
pub(crate) mod constants;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod newer;
pub(crate) mod objects;

#[cfg(test)]
mod compare;
