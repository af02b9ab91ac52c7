//! A record of signals that have interrupted waits of this thread. The waits themselves continue.

use std::cell::Cell;

thread_local! {
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// A signal has interrupted a wait of this thread in the system.
pub(super) fn note() {
    INTERRUPTED.set(true);
}

/// Returns true if a signal has interrupted a wait of this thread since the last call. A caller that parks asks in its `done`
/// ([`Waiters::park`](super::waiters::Waiters::park)), so that a signal can end the call.
///
/// If more than two threads wait in one place, signals do not end the waits of the followers.
pub fn take() -> bool {
    INTERRUPTED.replace(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_is_told_once_and_to_its_own_thread() {
        assert!(!take());
        note();
        note();
        std::thread::spawn(|| assert!(!take())).join().unwrap();
        assert!(take() && !take());
    }
}
