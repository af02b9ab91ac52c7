//! Events of this library.
//!
//! A signal goes to the waits that have begun already, the oldest first: setting an event with automatic reset twice ends two waits, as on
//! Windows, even if no thread has run in between. Only a signal that no wait has taken leaves the event set.

use std::sync::Arc;

use super::refs::{EventRef, table_size};
use super::sync::{Condvar, Mutex, MutexGuard};
use crate::abi::{Bool, EventTable, Handle, HandleKind, HandleTable, Watcher};

/// An event. Its handle is a pointer to it.
#[derive(Debug)]
#[repr(C)]
struct Event {
    table: &'static EventTable,
    has_manual_reset: bool,
    state: Mutex<State>,
    let_go: Condvar,
}

#[derive(Debug)]
struct State {
    is_set: bool,
    /// True between `hold` and `let_go`.
    is_held: bool,
    watchers: Vec<Watching>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watching(*const Watcher);

// SAFETY: any thread may call a watcher.
unsafe impl Send for Watching {}

static TABLE: EventTable = EventTable {
    handle: HandleTable {
        size: table_size::<EventTable>(),
        kind: HandleKind::EVENT,
        add_ref,
        release,
        // Waits have separate references.
        close: release,
    },
    set,
    reset,
    take,
    watch,
    unwatch,
    hold,
    let_go,
};

impl EventRef {
    /// Makes a new event, which is set if `is_set`.
    ///
    /// A set event with manual reset ends all waits until it is reset; one with automatic reset ends one wait, and is reset by it.
    pub fn create(has_manual_reset: bool, is_set: bool) -> Self {
        let event = Arc::new(Event {
            table: &TABLE,
            has_manual_reset,
            state: Mutex::new(State {
                is_set,
                is_held: false,
                watchers: Vec::new(),
            }),
            let_go: Condvar::default(),
        });
        let handle = Arc::into_raw(event).cast_mut().cast();
        // SAFETY: the table is that of the object, whose only reference goes to the new value.
        unsafe { Self::from_reference(handle, &TABLE) }
    }
}

impl Event {
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.is_held {
            (state, _) = self.let_go.wait(state, None);
        }
        state
    }

    fn set(&self) {
        let mut state = self.state();
        state.is_set = true;
        self.signal(&mut state, 0);
    }

    /// Calls the watchers, beginning with this one, until one takes the signal of an event with automatic reset.
    fn signal(&self, state: &mut State, first: usize) {
        for watching in &state.watchers[first..] {
            let is_taken = watching.wake();
            if is_taken && !self.has_manual_reset {
                state.is_set = false;
                return;
            }
        }
    }

    fn take(&self, state: &mut State) -> bool {
        let is_set = state.is_set;
        state.is_set = is_set && self.has_manual_reset;
        is_set
    }

    fn watch(&self, watcher: Watching) {
        let mut state = self.state();
        let at = state.watchers.len();
        state.watchers.push(watcher);
        if state.is_set {
            self.signal(&mut state, at);
        }
    }

    fn unwatch(&self, watcher: Watching) {
        self.state().watchers.retain(|other| *other != watcher);
    }

    fn hold(&self) -> bool {
        let mut state = self.state();
        state.is_held = true;
        state.is_set
    }

    fn let_go(&self, is_taken: bool) {
        let mut state = self.state.lock();
        state.is_held = false;
        if is_taken {
            self.take(&mut state);
        }
        self.let_go.notify_all();
    }
}

impl Watching {
    /// Called with the event's lock held.
    fn wake(self) -> bool {
        // SAFETY: the watcher lives until `unwatch` has returned, which needs the event's lock.
        let wake = unsafe { (*self.0).wake };
        // SAFETY: as above.
        unsafe { wake(self.0) != 0 }
    }
}

/// The event behind a handle.
///
/// # Safety
///
/// The table of the object is [`TABLE`], and the caller has a reference to it.
unsafe fn event<'a>(handle: Handle) -> &'a Event {
    // SAFETY: only events of this file have this table.
    unsafe { &*handle.cast::<Event>() }
}

unsafe extern "system" fn add_ref(handle: Handle) {
    // SAFETY: the object was made by `Arc::into_raw`, and the caller has a reference to it.
    unsafe { Arc::increment_strong_count(handle.cast::<Event>().cast_const()) };
}

unsafe extern "system" fn release(handle: Handle) {
    // SAFETY: as above, and the caller gives its reference back.
    unsafe { Arc::decrement_strong_count(handle.cast::<Event>().cast_const()) };
}

unsafe extern "system" fn set(handle: Handle) {
    // SAFETY: the contract of the table.
    unsafe { event(handle) }.set();
}

unsafe extern "system" fn reset(handle: Handle) {
    // SAFETY: the contract of the table.
    unsafe { event(handle) }.state().is_set = false;
}

unsafe extern "system" fn take(handle: Handle) -> Bool {
    // SAFETY: the contract of the table.
    let event = unsafe { event(handle) };
    event.take(&mut event.state()).into()
}

unsafe extern "system" fn watch(handle: Handle, watcher: *const Watcher) {
    // SAFETY: the contract of the table.
    unsafe { event(handle) }.watch(Watching(watcher));
}

unsafe extern "system" fn unwatch(handle: Handle, watcher: *const Watcher) {
    // SAFETY: the contract of the table.
    unsafe { event(handle) }.unwatch(Watching(watcher));
}

unsafe extern "system" fn hold(handle: Handle) -> Bool {
    // SAFETY: the contract of the table.
    unsafe { event(handle) }.hold().into()
}

unsafe extern "system" fn let_go(handle: Handle, is_taken: Bool) {
    // SAFETY: the contract of the table.
    unsafe { event(handle) }.let_go(is_taken != 0);
}
