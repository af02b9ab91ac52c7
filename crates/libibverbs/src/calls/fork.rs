//! Forks: nothing has to be prepared, because the kernel copies registered pages as any others.

use std::ffi::{c_int, c_void};

use crate::abi::constants::IBV_FORK_UNNEEDED;

pub(crate) extern "C" fn init() -> c_int {
    0
}

pub(crate) extern "C" fn status() -> c_int {
    IBV_FORK_UNNEEDED
}

pub(crate) extern "C" fn range(_start: *mut c_void, _len: usize) -> c_int {
    0
}
