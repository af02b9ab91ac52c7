//! Waits for events, of any library.
//!
//! A wait for one event or for any of several takes the first signal. A wait for all of several takes none until all are set at one moment.
//! It leaves a signal in its event until then, so a second signal of the same event is lost meanwhile; on Windows the wait would have ended
//! in the call that set the last event.

use std::time::Instant;

use netdirect::Status;

use super::refs::EventRef;
use super::sync::{Condvar, Mutex};
use crate::abi::{Bool, Watcher};
use crate::handle::limit::deadline;

/// `WaitForSingleObject`: waits up to `milliseconds` for an event, and returns true if it was set.
pub fn wait(event: &EventRef, milliseconds: u32) -> bool {
    wait_for_any(std::slice::from_ref(event), milliseconds).is_some()
}

/// `WaitForMultipleObjects` for any event. Returns the position of the event, or `None` when the time has passed. If several are set the
/// first one is taken.
pub fn wait_for_any(events: &[EventRef], milliseconds: u32) -> Option<usize> {
    let is_set = events.iter().position(EventRef::take);
    if is_set.is_some() || milliseconds == 0 {
        return is_set;
    }
    let wait = AnyWait::default();
    let watcher = |index| AnyWatcher {
        watcher: Watcher { wake: wake_any },
        index,
        wait: &wait,
    };
    let watchers: Vec<_> = (0..events.len()).map(watcher).collect();
    for (event, watcher) in events.iter().zip(&watchers) {
        // SAFETY: the watcher does not move until it was removed below.
        unsafe { event.watch(watcher.pointer()) };
    }
    let taken = wait.sleep(deadline(milliseconds));
    for (event, watcher) in events.iter().zip(&watchers) {
        event.unwatch(watcher.pointer());
    }
    taken
}

/// `WaitForMultipleObjects` for all events: takes all of them at once, and returns true, or false when the time has passed.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): an event is named twice.
pub fn wait_for_all(events: &[EventRef], milliseconds: u32) -> Result<bool, Status> {
    let mut ordered: Vec<_> = events.iter().collect();
    ordered.sort_by_key(|event| event.handle().addr());
    let is_same = |pair: &[&EventRef]| pair[0].handle() == pair[1].handle();
    if ordered.windows(2).any(is_same) {
        return Err(Status::INVALID_PARAMETER);
    }
    if milliseconds == 0 {
        return Ok(take_all(&ordered));
    }
    let wait = AllWait {
        watcher: Watcher { wake: wake_all },
        has_changed: Mutex::new(false),
        woken: Condvar::default(),
    };
    let watcher = (&raw const wait).cast();
    for event in events {
        // SAFETY: the watcher does not move until it was removed below.
        unsafe { event.watch(watcher) };
    }
    let deadline = deadline(milliseconds);
    let mut has_passed = false;
    let taken = loop {
        if take_all(&ordered) {
            break true;
        }
        if has_passed {
            break false;
        }
        has_passed = wait.sleep(deadline);
    };
    for event in events {
        event.unwatch(watcher);
    }
    Ok(taken)
}

/// Takes all events, which are in the order of their addresses, or none.
fn take_all(ordered: &[&EventRef]) -> bool {
    let mut held = 0;
    let mut are_set = true;
    while are_set && held < ordered.len() {
        // SAFETY: all events held are before this one in the order, and no other function is called for them.
        are_set = unsafe { ordered[held].hold() };
        held += 1;
    }
    for event in &ordered[..held] {
        // SAFETY: it is held.
        unsafe { event.let_go(are_set) };
    }
    are_set
}

/// A wait for any event, on the stack of the thread that waits.
#[derive(Debug, Default)]
struct AnyWait {
    state: Mutex<AnyState>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct AnyState {
    taken: Option<usize>,
    is_over: bool,
}

impl AnyWait {
    /// Waits for a signal. No signal is taken after this has returned.
    fn sleep(&self, deadline: Option<Instant>) -> Option<usize> {
        let mut state = self.state.lock();
        let mut has_passed = false;
        while state.taken.is_none() && !has_passed {
            (state, has_passed) = self.woken.wait(state, deadline);
        }
        state.is_over = true;
        state.taken
    }
}

/// A watcher of one of the events.
#[derive(Debug)]
#[repr(C)]
struct AnyWatcher<'a> {
    watcher: Watcher,
    index: usize,
    wait: &'a AnyWait,
}

impl AnyWatcher<'_> {
    fn pointer(&self) -> *const Watcher {
        (&raw const *self).cast()
    }
}

unsafe extern "system" fn wake_any(watcher: *const Watcher) -> Bool {
    // SAFETY: only watchers of `wait_for_any` call this, which do not move until they are removed.
    let watcher = unsafe { &*watcher.cast::<AnyWatcher<'_>>() };
    let mut state = watcher.wait.state.lock();
    if state.is_over || state.taken.is_some() {
        return 0;
    }
    state.taken = Some(watcher.index);
    watcher.wait.woken.notify_one();
    1
}

/// A wait for all events, and its watcher.
#[derive(Debug)]
#[repr(C)]
struct AllWait {
    watcher: Watcher,
    has_changed: Mutex<bool>,
    woken: Condvar,
}

impl AllWait {
    /// Waits until an event was set, and returns true if the deadline has passed before.
    fn sleep(&self, deadline: Option<Instant>) -> bool {
        let mut has_changed = self.has_changed.lock();
        let mut has_passed = false;
        while !*has_changed && !has_passed {
            (has_changed, has_passed) = self.woken.wait(has_changed, deadline);
        }
        *has_changed = false;
        has_passed
    }
}

unsafe extern "system" fn wake_all(watcher: *const Watcher) -> Bool {
    // SAFETY: only the watcher of `wait_for_all` calls this, which does not move until it is removed.
    let wait = unsafe { &*watcher.cast::<AllWait>() };
    *wait.has_changed.lock() = true;
    wait.woken.notify_one();
    0
}
