//! Checks of the border: what only a program sees that calls tables of functions.
//!
//! The checks of `netdirect-conform` use the traits, which have no sizes of buffers, null pointers, interface identifiers or entry points.
//! The checks here call the tables of a library directly, anybody's, and run beside the others in `nd conform com://PATH`. For a provider
//! that is no such library they are not part of the run.
//!
//! # How to write one
//!
//! As `netdirect_conform`'s checks, with these differences:
//!
//! - A check starts with the library alone (`client`) and opens what it uses. `open_adapter` has an adapter with its objects, `link` two connected
//!   ends, `query` the buffers of queries, and `request` an OVERLAPPED.
//! - Calls are made by `call!` of `import`. What ND2 has no status for is not passed: a check must not bring down a library that keeps ND2's
//!   rules.
//! - A check uses as little as it needs, and what it is not about in the form that everybody uses. So a library that breaks one rule fails
//!   the check of that rule, and few others.
//! - `tests/broken` has, for each check, a library that breaks the rule.

mod arguments;
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

/// All checks of the border, in the order they run.
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
