//! The child of a fork: what it inherits is its parent's, and is not used.
//!
//! Another thread of the parent may hold a lock at the moment of the fork. That thread does not exist in the child, so the lock would stay
//! locked there. So statics with locks are [`PerProcess`]. Descriptors that would keep something of the parent alive, or that a child could
//! wait for, are [`ParentsDescriptor`]s.

use std::ptr;
#[cfg(unix)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

#[cfg(target_os = "linux")]
pub use descriptors::ParentsDescriptor;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks between this process and the one that has called [`watch`] first. Only equal or not equal matters: a fork may
/// count twice.
#[inline]
pub fn forked() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The process is the child of a fork. The function makes system calls alone, as the child of a process with several threads may.
#[cfg(unix)]
extern "C" fn in_child() {
    count_one();
    #[cfg(target_os = "linux")]
    descriptors::give_up();
}

/// Counts forks from now on. Threads that come first at the same moment may both have them counted. With a `Once` a child that was forked in
/// this moment would wait for a thread that it does not have.
#[cfg(unix)]
pub fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.load(Ordering::Acquire) {
        // SAFETY: the function may run in any child, and the C library forgets it when the library that it is a part of is unloaded.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        IS_WATCHED.store(true, Ordering::Release);
    }
}

/// There are no forks.
#[cfg(not(unix))]
pub fn watch() {}

/// Counts a fork, for tests of what a child does.
#[doc(hidden)]
pub fn count_one() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value that the child of a fork has for itself. It begins with the default there, and leaves its parent's as it is.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<OfOneProcess<T>>);

#[derive(Debug)]
struct OfOneProcess<T> {
    forks: u32,
    value: T,
}

impl<T: Default + Send + Sync + 'static> PerProcess<T> {
    /// A value that the first use makes.
    #[expect(
        clippy::new_without_default,
        reason = "it is for statics, and a default is not const"
    )]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of this process, if it has been made.
    pub fn get_if(&self) -> Option<&'static T> {
        let known = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or `get` has made the value, which is never freed and only shared.
        let known = unsafe { known.as_ref() }?;
        (known.forks == forked()).then_some(&known.value)
    }

    /// The value of this process, made by the first call.
    pub fn get(&self) -> &'static T {
        loop {
            let known = self.0.load(Ordering::Acquire);
            if let Some(value) = self.get_if() {
                return value;
            }
            watch();
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

/// Without forks, or with a system whose children keep everything open.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct ParentsDescriptor;

#[cfg(not(target_os = "linux"))]
impl ParentsDescriptor {
    /// Nothing to mark.
    pub fn new<T>(_: Option<T>) -> Self {
        Self
    }
}

#[cfg(target_os = "linux")]
mod descriptors {
    use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The descriptors below 65,536, a bit each.
    static MARKED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

    fn bit_of(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        let word = MARKED.get(fd / 64)?;
        Some((word, 1 << (fd % 64)))
    }

    /// Marks a descriptor as long as this exists, which has to end before the descriptor is closed. In the child of a fork the descriptor no
    /// longer leads to the parent's file, which therefore ends when the parent closes it: the port of a UDP socket is free. It leads to an
    /// event that is readable for ever, so that a wait for it ends, and the program's call says what is wrong.
    #[derive(Debug)]
    pub struct ParentsDescriptor(RawFd);

    impl ParentsDescriptor {
        /// Marks the descriptor, if there is one.
        pub fn new(descriptor: Option<BorrowedFd<'_>>) -> Self {
            super::watch();
            let fd = descriptor.map_or(-1, |fd| fd.as_raw_fd());
            if let Some((word, bit)) = bit_of(fd) {
                word.fetch_or(bit, Ordering::Relaxed);
            }
            Self(fd)
        }

        /// The number; -1 if there is no descriptor.
        pub fn number(&self) -> RawFd {
            self.0
        }
    }

    impl Drop for ParentsDescriptor {
        fn drop(&mut self) {
            if let Some((word, bit)) = bit_of(self.0) {
                word.fetch_and(!bit, Ordering::Relaxed);
            }
        }
    }

    /// In the child.
    pub(super) fn give_up() {
        // SAFETY: the call has no requirements.
        let readable = unsafe { libc::eventfd(1, libc::EFD_CLOEXEC) };
        if readable < 0 {
            return;
        }
        for (word, from) in MARKED.iter().zip((0..).step_by(64)) {
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
        count_one();
        assert!(VALUE.get_if().is_none());
        assert_eq!(*VALUE.get().try_lock().unwrap(), 0);
        *of_parent = 2;
        assert_eq!(*VALUE.get().lock().unwrap(), 0);
    }
}
