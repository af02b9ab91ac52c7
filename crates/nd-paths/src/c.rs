//! `errno`, texts, and the environment. Pointers come from C programs and from the C library alone, which keep the promises of C.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// The result of a function that fails with a number in `errno`.
pub(crate) trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl<T> Failed for *mut T {
    const FAILED: Self = ptr::null_mut();
}

fn errno() -> *mut c_int {
    // SAFETY: the function has no requirements; glibc keeps one errno for each thread.
    unsafe { libc::__errno_location() }
}

fn set_errno(number: c_int) {
    // SAFETY: the pointer is valid for the life of this thread, and only this thread uses it.
    unsafe { errno().write(number) };
}

/// Fails with a number.
pub(crate) fn failed<R: Failed>(number: c_int) -> R {
    set_errno(number);
    R::FAILED
}

/// Calls functions of which the program shall see no `errno`.
pub(crate) fn with_errno_kept<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: as for `set_errno`.
    let kept = unsafe { errno().read() };
    let result = body();
    set_errno(kept);
    result
}

/// The size of a page, of which all octets can be read or none.
const PAGE: usize = 4096;

/// The octets of a path that a program passes, which the caller uses no longer than the call lasts. `None` for null, for memory that cannot
/// be read, and beyond `limit` octets: a system call refuses such a path.
pub(crate) fn path<'a>(path: *const c_char, limit: usize) -> Option<&'a [u8]> {
    let mut len = 0;
    while len <= limit {
        let at = path.wrapping_add(len);
        if !is_readable(at) {
            return None;
        }
        let rest = PAGE - at.addr() % PAGE;
        // SAFETY: the rest of a page can be read whose octet at `at` can be read.
        let zero = unsafe { libc::memchr(at.cast(), 0, rest) };
        if !zero.is_null() {
            len += zero.addr() - at.addr();
            // SAFETY: all octets up to the zero were read just now, and the program changes none during the call.
            let octets = unsafe { std::slice::from_raw_parts(path.cast(), len) };
            return (len <= limit).then_some(octets);
        }
        len += rest;
    }
    None
}

/// Returns true if the program may read the octet at an address. The kernel is asked by a call that reads a set of signals there, and
/// refuses to change those of this thread because the change has no such number.
pub(crate) fn is_readable(at: *const c_char) -> bool {
    const SET: usize = size_of::<u64>();
    const NO_SUCH_CHANGE: c_int = -1;
    if at.addr() < PAGE {
        // Null would be no set.
        return false;
    }
    // In the same page.
    let set = at.map_addr(|address| address & !(SET - 1));
    with_errno_kept(|| {
        let no_old = ptr::null_mut::<u64>();
        // SAFETY: the call changes nothing, and the kernel checks the address.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_CHANGE, set, no_old, SET) };
        // SAFETY: as for `set_errno`.
        unsafe { errno().read() != libc::EFAULT }
    })
}

/// The octets of a text, which the caller uses no longer than the call lasts that the text was passed to; `None` for null.
pub(crate) fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: programs pass texts that end in a zero, and change none during the call that they pass it to.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

// SAFETY: the C library has this function with this type; the crate `libc` does not declare it for Linux.
unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// A variable of the environment, which a program with more rights than its user does not follow.
pub(crate) fn environment(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends in a zero. No thread changes the environment before the program starts.
    text(unsafe { secure_getenv(name.as_ptr()) })
}
