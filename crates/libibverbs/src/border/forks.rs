//! Forks: how many lie behind this process, and state that a child does not take over.
//!
//! Another thread of the parent may hold a lock at the moment of the fork. That thread does not exist in the child, so the lock would stay
//! locked there. So statics with locks are [`PerProcess`].

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks between this process and the one that has loaded the library. Only equal or not equal matters: a fork may
/// count twice.
pub(crate) fn forked() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on.
pub(crate) fn watch_forks() {
    // SAFETY: the function is part of a library that is never unloaded (`-z nodelete`), and it only counts.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// A value that the child of a fork has for itself. It begins with the default there, and leaves its parent's as it is.
pub(crate) struct PerProcess<T>(AtomicPtr<OfOneProcess<T>>);

struct OfOneProcess<T> {
    forks: u32,
    value: T,
}

impl<T: Default + Send + Sync + 'static> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of this process, if it has been made.
    pub(crate) fn get_if(&self) -> Option<&'static T> {
        let known = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or `get` has made the value, which is never freed and only shared.
        let known = unsafe { known.as_ref() }?;
        (known.forks == forked()).then_some(&known.value)
    }

    /// The value of this process, made by the first call.
    pub(crate) fn get(&self) -> &'static T {
        loop {
            let known = self.0.load(Ordering::Acquire);
            if let Some(value) = self.get_if() {
                return value;
            }
            let made = Box::leak(Box::new(OfOneProcess {
                forks: forked(),
                value: T::default(),
            }));
            // If another thread was faster, what was made here is given up: it happens once in a process at most for each thread.
            let _ = self
                .0
                .compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_child_does_not_find_the_locks_of_its_parent_locked() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        assert!(VALUE.get_if().is_none());
        let mut of_parent = VALUE.get().lock().unwrap();
        *of_parent = 1;
        assert!(VALUE.get().try_lock().is_err());
        in_child();
        assert!(VALUE.get_if().is_none());
        assert_eq!(*VALUE.get().try_lock().unwrap(), 0);
        *of_parent = 2;
        assert_eq!(*VALUE.get().lock().unwrap(), 0);
    }
}
