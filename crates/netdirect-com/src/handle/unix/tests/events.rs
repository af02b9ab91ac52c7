use crossbeam_channel::unbounded;
use std::cell::Cell;
use std::ptr;
use std::thread;

use netdirect::Status;

use super::foreign;
use crate::abi::{Bool, Watcher};
use crate::handle::{EventRef, INFINITE, PortRef, close, wait, wait_for_all, wait_for_any};

#[test]
fn an_event_starts_as_it_was_asked_for_and_resets_itself_or_not() {
    let automatic = EventRef::create(false, true);
    assert!(automatic.take());
    assert!(!automatic.take(), "the first one has reset it");
    let manual = EventRef::create(true, false);
    assert!(!manual.take());
    manual.set();
    assert!(manual.take() && wait(&manual, INFINITE) && manual.take());
    manual.reset();
    assert!(!manual.take() && !wait(&manual, 0) && !wait(&manual, 1));
}

#[test]
fn each_signal_of_an_event_with_automatic_reset_ends_one_wait() {
    const THREADS: usize = 4;
    let event = EventRef::create(false, false);
    let (ended, ends) = unbounded();
    let threads = [(); THREADS].map(|()| {
        let (event, ended) = (event.clone(), ended.clone());
        thread::spawn(move || {
            assert!(wait(&event, INFINITE));
            ended.send(()).unwrap();
        })
    });
    for _ in 0..THREADS {
        event.set();
        ends.recv().unwrap();
    }
    // If a signal had ended two waits, none would be left for the last one.
    assert!(!event.take());
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn two_signals_end_two_waits_before_a_thread_has_run() {
    let (event, watched) = foreign::Event::create(false, false);
    let threads = [(); 2].map(|()| {
        let event = event.clone();
        thread::spawn(move || wait(&event, INFINITE))
    });
    for _ in 0..2 {
        watched.recv().unwrap();
    }
    event.set();
    event.set();
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [true; 2]);
    assert!(!event.take());
}

#[test]
fn manual_reset_ends_every_wait_even_if_the_event_is_reset_at_once() {
    let (event, watched) = foreign::Event::create(true, false);
    let threads = [(); 3].map(|()| {
        let event = event.clone();
        thread::spawn(move || wait(&event, INFINITE))
    });
    for _ in 0..3 {
        watched.recv().unwrap();
    }
    event.set();
    event.reset();
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [true; 3]);
}

#[test]
fn any_takes_the_first_in_the_order_of_the_list_and_leaves_the_others() {
    let events = [true, true, false].map(|is_set| EventRef::create(false, is_set));
    let reversed = [2, 1, 0].map(|i: usize| events[i].clone());
    assert_eq!(wait_for_any(&events, 0), Some(0));
    assert_eq!(wait_for_any(&events, INFINITE), Some(1));
    assert_eq!(wait_for_any(&events, 0), None);
    assert_eq!(wait_for_any(&events, 1), None);
    events[0].set();
    assert_eq!(wait_for_any(&reversed, INFINITE), Some(2));
    assert!(!events.iter().any(EventRef::take));
}

#[test]
fn any_ends_by_one_signal_and_takes_no_second_one() {
    // The thread may run between the two signals. In some rounds it does not.
    for _ in 0..100 {
        let (last, watched) = foreign::Event::create(false, false);
        let events = [
            EventRef::create(false, false),
            EventRef::create(false, false),
            last,
        ];
        let waits = events.clone();
        let thread = thread::spawn(move || wait_for_any(&waits, INFINITE));
        watched.recv().unwrap();
        events[1].set();
        events[0].set();
        assert_eq!(thread.join().unwrap(), Some(1));
        assert!(events[0].take(), "the signal of the other event is left");
        assert!(!events[1].take());
    }
}

#[test]
fn all_takes_nothing_until_everything_is_set() {
    let events = [(); 3].map(|()| EventRef::create(false, false));
    for missing in 0..3 {
        let others = || (0..3).filter(move |index| *index != missing);
        others().for_each(|index| events[index].set());
        assert_eq!(wait_for_all(&events, 0), Ok(false));
        assert_eq!(wait_for_all(&events, 1), Ok(false));
        assert!(others().all(|index| events[index].take()), "{missing}");
        assert!(!events[missing].take());
    }
}

#[test]
fn all_takes_everything_once_it_is_set() {
    let (last, watched) = foreign::Event::create(false, false);
    let events = [
        EventRef::create(false, true),
        EventRef::create(true, false),
        last,
    ];
    let waits = events.clone();
    let thread = thread::spawn(move || wait_for_all(&waits, INFINITE));
    watched.recv().unwrap();
    for event in &events {
        event.set();
    }
    assert_eq!(thread.join().unwrap(), Ok(true));
    assert_eq!(
        events.map(|event| event.take()),
        [false, true, false],
        "automatic ones are reset"
    );
}

/// A watcher that counts its calls.
#[repr(C)]
struct Counter {
    watcher: Watcher,
    takes: bool,
    calls: Cell<u32>,
}

impl Counter {
    fn new(takes: bool) -> Self {
        Self {
            watcher: Watcher { wake: count },
            takes,
            calls: Cell::new(0),
        }
    }

    fn pointer(&self) -> *const Watcher {
        (&raw const *self).cast()
    }
}

unsafe extern "system" fn count(watcher: *const Watcher) -> Bool {
    // SAFETY: only these watchers have the function.
    let counter = unsafe { &*watcher.cast::<Counter>() };
    counter.calls.set(counter.calls.get() + 1);
    counter.takes.into()
}

#[test]
fn a_watcher_is_called_for_each_signal_and_at_once_if_the_event_is_set() {
    let looks = Counter::new(false);
    let (takes, later) = (Counter::new(true), Counter::new(true));
    let calls = || [&looks, &takes, &later].map(|counter| counter.calls.get());
    let event = EventRef::create(false, true);
    for counter in [&looks, &takes, &later] {
        // SAFETY: the counter lives longer than its watch.
        unsafe { event.watch(counter.pointer()) };
    }
    assert_eq!(calls(), [1, 1, 0], "the second one has taken the signal");
    event.set();
    assert_eq!(calls(), [2, 2, 0]);
    assert!(!event.take());
    event.unwatch(takes.pointer());
    event.set();
    assert_eq!(calls(), [3, 2, 1]);
    event.unwatch(later.pointer());
    event.set();
    assert!(event.take(), "nobody has taken the signal");
    event.unwatch(looks.pointer());
    event.set();
    assert_eq!(calls(), [4, 2, 1]);
}

/// Each thread waits for both events, in another order.
#[test]
fn waits_for_all_do_not_block_each_other() {
    let events = [EventRef::create(false, true), EventRef::create(false, true)];
    let threads = [false, true].map(|is_reversed| {
        let mut waits = events.clone();
        if is_reversed {
            waits.reverse();
        }
        thread::spawn(move || {
            for _ in 0..1000 {
                assert_eq!(wait_for_all(&waits, INFINITE), Ok(true));
                for event in &waits {
                    event.set();
                }
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn all_refuses_an_event_that_is_named_twice() {
    let event = EventRef::create(true, true);
    let twice = [event.clone(), event];
    let refused = Err(Status::INVALID_PARAMETER);
    assert_eq!(wait_for_all(&twice, INFINITE), refused);
    assert_eq!(wait_for_any(&twice, INFINITE), Some(0));
}

#[test]
fn a_wait_keeps_the_event_that_is_closed_meanwhile() {
    let (event, watched) = foreign::Event::create(false, false);
    let setter = event.clone();
    let handle = event.into_handle();
    // SAFETY: the handle is closed below, when the thread has its reference.
    let waits = unsafe { EventRef::retain(handle) }.unwrap();
    let thread = thread::spawn(move || wait(&waits, INFINITE));
    watched.recv().unwrap();
    // SAFETY: the reference of the creator.
    unsafe { close(handle) }.unwrap();
    setter.set();
    drop(setter);
    assert!(thread.join().unwrap());
}

#[test]
fn a_handle_of_another_kind_is_no_event() {
    let port = PortRef::create();
    for handle in [
        port.handle(),
        ptr::null_mut(),
        ptr::without_provenance_mut(usize::MAX),
    ] {
        // SAFETY: a live port, null, and INVALID_HANDLE_VALUE.
        let refused = unsafe { EventRef::retain(handle) };
        assert_eq!(refused.unwrap_err(), Status::INVALID_HANDLE);
    }
    // SAFETY: null.
    let refused = unsafe { close(ptr::null_mut()) };
    assert_eq!(refused, Err(Status::INVALID_HANDLE));
}
