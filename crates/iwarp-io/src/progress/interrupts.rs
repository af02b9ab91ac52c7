//! A record of signals that have interrupted waits of this thread, and a client's own way to sleep. The waits themselves continue.

use std::cell::Cell;
use std::time::Duration;

/// How a thread sleeps until the descriptor with this number is readable, or until the limit has passed. Without a descriptor the function
/// returns at once. It returns true if something has interrupted the sleep, which then counts as a signal; and `None` if it has not slept,
/// because this thread sleeps as others do. It may not unwind.
///
/// A thread can be cancelled in such a function, for example (`pthread_cancel(3)`), which none of the calls of the driver lets happen.
pub type Sleep = fn(Option<i32>, Option<Duration>) -> Option<bool>;

/// A thread that sleeps without a descriptor calls its [`Sleep`] this often.
pub(super) const LOOKS_AFTER: Duration = Duration::from_millis(100);

thread_local! {
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    static SLEEP: Cell<Option<Sleep>> = const { Cell::new(None) };
}

/// Calls `wait`. This thread sleeps by `sleep` meanwhile, where epoll reports its sources.
pub fn sleeping_by<T>(sleep: Option<Sleep>, wait: impl FnOnce() -> T) -> T {
    let before = SLEEP.replace(sleep);
    let done = wait();
    SLEEP.set(before);
    done
}

/// Sleeps in the client's way. Returns false if there is none, and the caller has to sleep.
pub(super) fn sleep(descriptor: Option<i32>, limit: Option<Duration>) -> bool {
    let slept = SLEEP.get().and_then(|sleep| sleep(descriptor, limit));
    if slept == Some(true) {
        note();
    }
    slept.is_some()
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
    fn a_client_sleeps_in_its_own_way_during_a_wait() {
        let long = Some(Duration::from_secs(3600));
        assert!(!sleep(Some(7), long));
        let interrupted = sleeping_by(Some(|descriptor, _| Some(descriptor == Some(7))), || {
            assert!(sleep(None, Some(Duration::ZERO)) && !take());
            assert!(sleep(Some(7), long));
            take()
        });
        assert!(interrupted && !sleep(Some(7), long));
        sleeping_by(Some(|_, _| None), || assert!(!sleep(Some(7), long)));
    }

    #[test]
    fn an_interruption_is_told_once_and_to_its_own_thread() {
        assert!(!take());
        note();
        note();
        std::thread::spawn(|| assert!(!take())).join().unwrap();
        assert!(take() && !take());
    }
}
