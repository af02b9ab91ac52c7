//! State that the child of a fork does not take over, and the descriptors that end its waits.
//!
//! Another thread of the parent may hold a lock at the moment of the fork. That thread does not exist in the child, so the lock would stay
//! locked there. So statics with locks are [`PerProcess`].

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rdma_buffer::forks::forked;

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

/// The descriptors of event channels below 65,536, a bit each. A child that polls one of its parent's would wait for ever, for example a
/// server that calls `daemon` after it has begun to listen.
static SHOWN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

fn bit_of(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    let word = SHOWN.get(fd / 64)?;
    Some((word, 1 << (fd % 64)))
}

/// A descriptor of an event channel that the program sees, as long as this exists.
pub(crate) struct ShownDescriptor(RawFd);

impl ShownDescriptor {
    /// The descriptor of a channel.
    pub(crate) fn new(descriptor: Option<BorrowedFd<'_>>) -> Self {
        let fd = descriptor.map_or(-1, |fd| fd.as_raw_fd());
        if let Some((word, bit)) = bit_of(fd) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Self(fd)
    }

    /// The number; -1 if there is no descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.0
    }
}

impl Drop for ShownDescriptor {
    fn drop(&mut self) {
        if let Some((word, bit)) = bit_of(self.0) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// In the child, the descriptors of its parent's channels become readable for ever: the program's call then says what is wrong. The parent's
/// own descriptors stay as they are.
extern "C" fn wake_child() {
    // SAFETY: the call has no requirements.
    let readable = unsafe { libc::eventfd(1, libc::EFD_CLOEXEC) };
    if readable < 0 {
        return;
    }
    for (word, from) in SHOWN.iter().zip((0..).step_by(64)) {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let fd = from + bits.trailing_zeros().cast_signed();
            // SAFETY: the call has no requirements on numbers; the child never uses its parent's object that has this descriptor.
            unsafe { libc::dup3(readable, fd, libc::O_CLOEXEC) };
            bits &= bits - 1;
        }
    }
    // SAFETY: this function has made the descriptor, and nothing else knows of it.
    unsafe { libc::close(readable) };
}

/// Has children of forks wake up what waits there.
pub(crate) fn watch_descriptors() {
    // SAFETY: the function is part of a library that is never unloaded (`-z nodelete`). It makes system calls alone, as the child of a
    // process with several threads may.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(wake_child)) };
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
        rdma_buffer::forks::count_one();
        assert!(VALUE.get_if().is_none());
        assert_eq!(*VALUE.get().try_lock().unwrap(), 0);
        *of_parent = 2;
        assert_eq!(*VALUE.get().lock().unwrap(), 0);
    }
}
