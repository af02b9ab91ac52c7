//! The border between C and Rust: objects that C programs hold, what they pass, and panics.
//!
//! The functions of this library take [`Handle`]s, [`Input`]s and their like in place of pointers. Only C programs call these functions,
//! and only they make such values. So the promise of every C interface is made here once: a pointer that a program passes is null, or
//! what the manual page says, and no other thread of the program destroys it meanwhile.

#[macro_use]
mod object;
pub(crate) mod cancellation;
pub(crate) mod counter_requests;
mod explain;
mod guard;
mod names;
mod pointers;
mod signals;

pub(crate) use cancellation::cancellable;
pub(crate) use counter_requests::CounterRequests;
pub(crate) use explain::{explain, explain_words, finish as finish_explaining};
pub(crate) use guard::{code, code_quick, guarded, guarded_quick, minus_one, null, set_errno};
pub(crate) use names::{code_of, look_up};
pub(crate) use object::{Facade, Handle, Kept, Object, at_exit};
pub(crate) use pointers::{
    Address, Elements, InOut, Input, Memory, Octets, Output, Packed, Text, storage,
};
pub(crate) use signals::end_waits;

pub(crate) use rdma_buffer::forks::{ParentsDescriptor, PerProcess};

use softverbs::{Errno, Error};

/// An error whose words only a debugger shows: C programs get the number alone.
pub(crate) fn error(errno: Errno, what: &'static str) -> Error {
    Error::new(errno, what)
}
