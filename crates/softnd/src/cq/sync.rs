//! The lock and the atomics of a completion queue: parking_lot and the standard library, or loom's models of them.

pub(super) use imp::{AtomicU32, AtomicU64, Mutex, Ordering};

#[cfg(not(loom))]
mod imp {
    pub(in super::super) use parking_lot::Mutex;
    pub(in super::super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[cfg(loom)]
mod imp {
    pub(in super::super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[derive(Debug, Default)]
    pub(in super::super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a model does not poison")
        }
    }
}
