//! Values of threads that may be asked for while the thread ends.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Runs `act` with the thread's value, or with a new one if the thread's is gone: programs use connections in destructors of their threads,
/// and in functions that run at their end.
#[inline]
pub(crate) fn with_value<V: Default, R>(
    key: &'static LocalKey<RefCell<V>>,
    act: impl FnOnce(&mut V) -> R,
) -> R {
    if is_there(key) {
        key.with_borrow_mut(act)
    } else {
        act(&mut V::default())
    }
}

/// Returns true until the value is gone because the thread ends.
#[inline]
pub(crate) fn is_there<V>(key: &'static LocalKey<V>) -> bool {
    key.try_with(|_| ()).is_ok()
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Sender, unbounded};
    use std::thread;

    use super::*;

    thread_local! {
        static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        static LAST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }

    struct AtEnd(Sender<(bool, usize)>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let len = with_value(&VALUE, |value| value.len());
            self.0.send((is_there(&VALUE), len)).unwrap();
        }
    }

    #[test]
    fn a_thread_that_ends_has_a_new_value() {
        let (sender, ends) = unbounded();
        thread::spawn(move || {
            // The value that was used last is destroyed first.
            LAST.set(Some(AtEnd(sender)));
            with_value(&VALUE, |value| value.push(1));
            assert_eq!(with_value(&VALUE, |value| value.len()), 1);
        })
        .join()
        .unwrap();
        // On this target the standard library itself makes a value anew that is gone.
        let is_made_anew = cfg!(all(windows, target_env = "gnu"));
        assert_eq!(ends.recv(), Ok((is_made_anew, 0)));
    }
}
