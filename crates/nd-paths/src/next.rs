//! The definitions that these wrappers replace: those of the C library.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::c::with_errno_kept;

/// A definition of the C library. Threads that look for it at once find the same.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The address; null where this C library has no such function.
    #[inline]
    pub(crate) fn find(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        match found.is_null() {
            true => self.look(),
            false => found,
        }
    }

    #[cold]
    fn look(&self) -> *mut c_void {
        let found = with_errno_kept(|| {
            // SAFETY: the name ends in a zero. The call is in this library, behind which the dynamic linker looks.
            unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }
        });
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The name of a function, which ends in a zero.
pub(crate) const fn name(with_zero: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(with_zero.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends in a zero"),
    }
}

/// Calls a definition of the C library with the arguments of the wrapper. Without one the call fails with ENOSYS.
macro_rules! call_next {
    ($next:expr, $function:ty, ($($arg:expr),*)) => {{
        // SAFETY: an address of a function is a function pointer, and null is `None`. The type is that of the headers.
        let next = unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, Option<$function>>($next.find())
        };
        match next {
            // SAFETY: the program called the wrapper as it may call this function, and the wrapper changed at most paths and callbacks.
            Some(next) => unsafe { next($($arg),*) },
            None => crate::c::failed(libc::ENOSYS),
        }
    }};
}
