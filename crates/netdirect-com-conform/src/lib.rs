//! Checks of the COM interface: properties that only a program sees that calls tables of functions.
//!
//! The *border* of a library is where programs in C call it: tables of functions, pointers, and sizes that programs pass.
//!
//! The checks of `netdirect-conform` use the traits, which have no sizes of buffers, null pointers, interface identifiers or entry points.
//! The checks here call the tables of any library directly, and run together with the others in `nd conform com://PATH`. For a provider
//! that is not such a library they are not part of the run.
//!
//! # How to write one
//!
//! Like the checks of `netdirect_conform`, with these differences:
//!
//! - A check starts with only the library (`client`) and opens what it uses. `open_adapter` has an adapter with its objects, `link` two
//!   connected ends, `query` the buffers of queries, and `request` an OVERLAPPED.
//! - Calls are made by `call!`. Arguments for which ND2 has no status are not passed: a check must not bring down a library
//!   that keeps ND2's rules.
//! - A check uses as little as it needs, and passes everything that it is not about in the usual form. So a library that breaks one rule
//!   fails the check of that rule, and few others.
//! - `tests/it/broken` has, for each check, a library that breaks the rule.

mod arguments;
mod call;
mod client;
mod common;
mod connection;
mod entry;
mod identity;
mod info;
mod link;
mod lists;
mod memory;
mod open_adapter;
mod query;
mod queues;
mod request;
mod requests;
mod window;

use netdirect_conform::Check;

/// All checks of the COM interface, in the order they run.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        entry::CHECKS,
        identity::CHECKS,
        lists::CHECKS,
        info::CHECKS,
        arguments::CHECKS,
        memory::CHECKS,
        requests::CHECKS,
        queues::CHECKS,
        window::CHECKS,
        connection::CHECKS,
    ]
    .into_iter()
    .flatten()
}
