//! Parts of a test that mostly wait, run at the same time.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

/// Calls `part` for each item, each call in its own thread, and waits for all of them. The threads have the name of the test, which
/// messages about skipped tests show.
///
/// # Panics
/// With the panic of the first part that panicked.
pub fn side_by_side<T: Send>(items: impl IntoIterator<Item = T>, part: impl Fn(T) + Sync) {
    let (part, test) = (&part, thread::current());
    let name = test.name().unwrap_or("part of a test");
    thread::scope(|scope| {
        let start = |item| {
            let thread = Builder::new().name(name.to_owned());
            let started = thread.spawn_scoped(scope, move || part(item));
            started.expect("a thread")
        };
        let parts: Vec<_> = items.into_iter().map(start).collect();
        for part in parts {
            if let Err(panic) = part.join() {
                resume_unwind(panic);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn parts_run_at_the_same_time() {
        let all = Barrier::new(3);
        side_by_side(0..3, |_| {
            all.wait();
        });
    }

    #[test]
    fn the_first_part_that_fails_fails_the_test() {
        let parts = || side_by_side(["", "one", "two"], |what| assert_eq!(what, ""));
        let panic = std::panic::catch_unwind(parts).expect_err("two parts fail");
        let text = panic.downcast_ref::<String>().expect("a text");
        assert!(text.contains("one"), "{text}");
    }
}
