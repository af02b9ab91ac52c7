//! Locks: parking_lot, or loom's models.

pub(super) use imp::{Condvar, Mutex, MutexGuard};

#[cfg(not(loom))]
mod imp {
    use std::time::Instant;

    pub(in super::super) use parking_lot::{Mutex, MutexGuard};

    #[derive(Debug, Default)]
    pub(in super::super) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Sleeps until notified or the deadline, and returns true if the deadline has passed. May return early.
        pub(in super::super) fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Option<Instant>,
        ) -> (MutexGuard<'a, T>, bool) {
            let has_passed = match deadline {
                Some(deadline) => self.0.wait_until(&mut guard, deadline).timed_out(),
                None => {
                    self.0.wait(&mut guard);
                    false
                }
            };
            (guard, has_passed)
        }

        pub(in super::super) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(in super::super) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::time::Instant;

    pub(in super::super) use loom::sync::MutexGuard;

    #[derive(Debug, Default)]
    pub(in super::super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model does not poison")
        }
    }

    #[derive(Debug, Default)]
    pub(in super::super) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        /// Loom has no clock: a deadline never passes.
        pub(in super::super) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Option<Instant>,
        ) -> (MutexGuard<'a, T>, bool) {
            let guard = self.0.wait(guard).expect("a model does not poison");
            (guard, false)
        }

        pub(in super::super) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(in super::super) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
