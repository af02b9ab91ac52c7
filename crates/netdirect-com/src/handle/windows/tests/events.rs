use std::fs::File;
use std::os::windows::io::AsRawHandle;
use std::ptr;
use std::thread;

use netdirect::Status;

use crate::handle::{
    EventRef, FilePipe, INFINITE, PortRef, close, wait, wait_for_all, wait_for_any,
};

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
fn any_takes_one_and_all_takes_all() {
    let events = [true, true, false].map(|is_set| EventRef::create(false, is_set));
    assert_eq!(wait_for_any(&events, 0), Some(0));
    assert_eq!(wait_for_all(&events, 0), Ok(false));
    assert_eq!(wait_for_any(&events, INFINITE), Some(1));
    assert_eq!(wait_for_any(&events, 1), None);
    let waits = events.clone();
    let thread = thread::spawn(move || wait_for_all(&waits, INFINITE));
    for event in &events {
        event.set();
    }
    assert_eq!(thread.join().unwrap(), Ok(true));
    assert!(!events.iter().any(EventRef::take));
    let twice = [events[0].clone(), events[0].clone()];
    assert_eq!(wait_for_all(&twice, 0), Err(Status::INVALID_PARAMETER));
}

#[test]
fn a_reference_outlives_the_handle_that_it_was_made_of() {
    let event = EventRef::create(false, true);
    // SAFETY: an event.
    let other = unsafe { EventRef::retain(event.handle()) }.unwrap();
    assert!(!other.take(), "an event is reset when it is recognised");
    event.set();
    drop(event);
    assert!(other.take());
}

/// As a number that some other object has by now is. The program of tests `handles` has the number of a closed event.
#[test]
fn whatever_is_no_event_is_refused() {
    let port = PortRef::create();
    let (_pipe, client) = FilePipe::create().unwrap();
    let program = File::open(std::env::current_exe().unwrap()).unwrap();
    for handle in [
        port.handle(),
        client.as_raw_handle(),
        program.as_raw_handle(),
        ptr::null_mut(),
        ptr::without_provenance_mut(usize::MAX),
        ptr::without_provenance_mut(0x00DE_AD00),
    ] {
        // SAFETY: numbers for the system to look at.
        let refused = unsafe { EventRef::retain(handle) };
        assert_eq!(refused.unwrap_err(), Status::INVALID_HANDLE, "{handle:p}");
    }
    // SAFETY: null.
    let refused = unsafe { close(ptr::null_mut()) };
    assert_eq!(refused, Err(Status::INVALID_HANDLE));
}
