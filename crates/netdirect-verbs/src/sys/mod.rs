//! The interface of libibverbs and librdmacm in C: types, constants, and the functions as tables.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    unreachable_pub,
    unnameable_types,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction,
    reason = "made by bindgen"
)]
#[rustfmt::skip]
pub(crate) mod bindings;
mod library;

pub(crate) use library::Libraries;
#[cfg(test)]
pub(crate) use library::{CmLibrary, VerbsLibrary};

#[cfg(test)]
mod tests;
