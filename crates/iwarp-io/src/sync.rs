//! The locks and atomics where threads meet: parking_lot and the standard library, or loom's models of them.
//!
//! Crates over the driver use these types for the parts of theirs that loom checks.

pub use imp::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering,
    after_unlocking, fence, spin_loop, thread_local, yield_now,
};

#[cfg(not(loom))]
mod imp {
    pub use parking_lot::{Mutex, MutexGuard};
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use std::thread::yield_now;
    pub use std::thread_local;
    use std::time::Instant;

    /// A condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Sleeps until notified or the deadline. May return early.
        pub fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            match deadline {
                Some(deadline) => drop(self.0.wait_until(&mut guard, deadline)),
                None => self.0.wait(&mut guard),
            }
            guard
        }

        /// Wakes one thread that sleeps.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all threads that sleep.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Orders an unlocking before a sequentially consistent load that follows. The load reads edges left by threads that found the lock
    /// taken. Processors keep this order by themselves: x86 because unlocking is a locked instruction, ARM because a load-acquire waits for
    /// the store-release before it, others because such a load begins with a fence. The language's rules do not promise this order. A fence
    /// would promise it, but would cost every poll some 10 ns.
    #[inline]
    pub fn after_unlocking() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(loom)]
#[allow(missing_docs, reason = "as without loom")]
mod imp {
    pub use loom::hint::spin_loop;
    pub use loom::sync::MutexGuard;
    pub use loom::sync::atomic::{Ordering, fence};
    pub use loom::thread::yield_now;
    pub use loom::thread_local;
    use std::time::Instant;

    #[derive(Debug, Default)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        /// Loom has no clock: a deadline never passes.
        pub fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect("a model does not poison")
        }

        /// Wakes one thread that sleeps.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all threads that sleep.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// An atomic of loom. A fence follows its sequentially consistent writes, because loom has a total order of fences
    /// only. Its sequentially consistent stores are exchanges, because loom may place a store before an exchange that has
    /// not seen it.
    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub struct $name(loom::sync::atomic::$name);

            #[allow(dead_code, reason = "each kind is used in its own way")]
            impl $name {
                pub fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $value {
                    self.0.load(order)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    if order == Ordering::SeqCst {
                        self.swap(value, order);
                    } else {
                        self.0.store(value, order);
                    }
                }

                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    let result = self.0.compare_exchange(current, new, success, failure);
                    written(success);
                    result
                }

                pub fn compare_exchange_weak(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    let result = self.0.compare_exchange_weak(current, new, success, failure);
                    written(success);
                    result
                }

                pub fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    update: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    let result = self.0.fetch_update(set, fetch, update);
                    written(set);
                    result
                }

                atomic!(@modify $value, swap);
            }
        };
        (@modify $value:ty, $($method:ident),+) => {
            $(pub fn $method(&self, value: $value, order: Ordering) -> $value {
                let before = self.0.$method(value, order);
                written(order);
                before
            })+
        };
        ($name:ident, $value:ty, $($method:ident),+) => {
            atomic!($name, $value);

            #[allow(dead_code, reason = "each kind is used in its own way")]
            impl $name {
                atomic!(@modify $value, $($method),+);
            }
        };
    }

    /// Loom models only the rules of the language, so this needs a fence.
    pub fn after_unlocking() {
        fence(Ordering::SeqCst);
    }

    fn written(order: Ordering) {
        if order == Ordering::SeqCst {
            fence(Ordering::SeqCst);
        }
    }

    atomic!(AtomicBool, bool);
    atomic!(AtomicU8, u8, fetch_or, fetch_and, fetch_max);
    atomic!(AtomicU32, u32, fetch_add);
    atomic!(AtomicU64, u64, fetch_max);
    atomic!(AtomicUsize, usize, fetch_add, fetch_sub);

    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model does not poison")
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}
