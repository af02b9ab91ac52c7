//! Threads that leave bits for the holder of a lock, under every interleaving that loom's memory model allows:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-io --lib loom`.

use loom::sync::Arc;
use loom::thread;

use super::HandOff;
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// A lock whose holder takes up bits.
///
/// The lock is an atomic, because loom changes threads where an atomic is used, and not where a `Mutex` of loom is unlocked.
#[derive(Default)]
struct Object {
    left: HandOff,
    is_locked: AtomicBool,
    /// The number of times that each bit was taken. Changes only under the lock.
    taken: [AtomicU32; 2],
}

impl Object {
    fn try_lock(&self) -> bool {
        let locks =
            (self.is_locked).compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        locks.is_ok()
    }

    fn unlock(&self) {
        self.is_locked.store(false, Ordering::Release);
    }

    /// Takes up bits that were left, if the lock is free.
    fn visit(&self) -> bool {
        if !self.try_lock() {
            return false;
        }
        let bits = self.left.take();
        for (bit, count) in self.taken.iter().enumerate() {
            if bits >> bit & 1 == 1 {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.unlock();
        true
    }

    fn counts(&self) -> [u32; 2] {
        [&self.taken[0], &self.taken[1]].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Two threads leave a bit each, while a third one holds the lock for a moment. `attend` is what each of them does at the end.
fn no_bit_is_lost(attend: fn(&Object)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let object = Arc::new(Object::default());
        let leaves = [1, 2].map(|bit| {
            let object = Arc::clone(&object);
            thread::spawn(move || {
                object.left.leave(bit);
                attend(&object);
            })
        });
        if object.try_lock() {
            object.unlock();
            attend(&object);
        }
        for leaves in leaves {
            leaves.join().unwrap();
        }
        assert_eq!(object.counts(), [1, 1], "each bit is taken once");
    });
}

#[test]
fn bits_that_were_left_are_taken_once() {
    no_bit_is_lost(|object| object.left.attend(|_| object.visit()));
}

#[test]
#[should_panic(expected = "each bit is taken once")]
fn bits_are_lost_without_a_fence_before_the_look() {
    no_bit_is_lost(
        |object| {
            while object.left.0.load(Ordering::SeqCst) != 0 && object.visit() {}
        },
    );
}

#[test]
#[should_panic(expected = "each bit is taken once")]
fn bits_are_lost_by_a_holder_that_does_not_look_after_unlocking() {
    no_bit_is_lost(|object| {
        object.visit();
    });
}
