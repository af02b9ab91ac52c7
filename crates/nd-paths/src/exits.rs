//! Calls after which the program runs no more. `nd run`'s libibverbs hears of them, and writes the counters of a program that has devices.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::c::with_errno_kept;
use crate::next::Next;

static EXIT: Next = Next::new(c"_exit");

pub(crate) static ALL: &[&Next] = &[&EXIT];

/// The function of libibverbs, which is preloaded too; null without it.
static PROGRAM_ENDS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks for the function of libibverbs.
pub(crate) fn prepare() {
    // SAFETY: the name ends in a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"softnd_program_ends".as_ptr()) };
    PROGRAM_ENDS.store(found, Ordering::Relaxed);
}

/// The program is about to end, or to become another one.
pub(crate) fn program_ends() {
    let found = PROGRAM_ENDS.load(Ordering::Relaxed);
    // SAFETY: an address of a function is a function pointer, and null is `None`. The type is that of the definition in libibverbs.
    let ends = unsafe { std::mem::transmute::<*mut c_void, Option<extern "C" fn()>>(found) };
    if let Some(ends) = ends {
        with_errno_kept(|| ends());
    }
}

// SAFETY: the C library has a function of this name and type, which the wrapper replaces.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    program_ends();
    // SAFETY: an address of a function is a function pointer, and null is `None`. The type is that of the headers.
    let next = unsafe {
        std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn(c_int) -> !>>(EXIT.find())
    };
    if let Some(next) = next {
        // SAFETY: the function has no requirements.
        unsafe { next(status) }
    }
    loop {
        // SAFETY: the call has no requirements, and ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

// SAFETY: as for `_exit`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the function has no requirements.
    unsafe { _exit(status) }
}
