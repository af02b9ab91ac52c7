//! Waits for events.

use netdirect::Status;
use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::Threading::WaitForMultipleObjects;

use super::event::EventRef;
use crate::abi::Handle;

/// The most events of one wait: `MAXIMUM_WAIT_OBJECTS`.
const MOST: usize = 64;

/// `WaitForSingleObject`: waits up to `milliseconds` for an event, and returns true if it was set.
pub fn wait(event: &EventRef, milliseconds: u32) -> bool {
    wait_for_any(std::slice::from_ref(event), milliseconds).is_some()
}

/// `WaitForMultipleObjects` for any event, of at most 64. Returns the position of the event, or `None` when the time has passed. If several
/// are set the first one is taken.
///
/// # Panics
///
/// There are no events, or more than 64.
pub fn wait_for_any(events: &[EventRef], milliseconds: u32) -> Option<usize> {
    let index = wait_for(events, false, milliseconds) as usize;
    (index < events.len()).then_some(index)
}

/// `WaitForMultipleObjects` for all events, at most 64: takes all of them at once, and returns true, or false when the time has passed.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): an event is named twice.
///
/// # Panics
///
/// There are no events, or more than 64.
pub fn wait_for_all(events: &[EventRef], milliseconds: u32) -> Result<bool, Status> {
    let mut handles: Vec<_> = events.iter().map(|event| event.handle().addr()).collect();
    handles.sort_unstable();
    if handles.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Status::INVALID_PARAMETER);
    }
    let index = wait_for(events, true, milliseconds) as usize;
    Ok(index < events.len())
}

fn wait_for(events: &[EventRef], all: bool, milliseconds: u32) -> u32 {
    assert!((1..=MOST).contains(&events.len()), "1 to {MOST} events");
    let handles: Vec<Handle> = events.iter().map(EventRef::handle).collect();
    let count = u32::try_from(handles.len()).expect("at most 64");
    // SAFETY: the references keep the handles open, and there are as many.
    let ended =
        unsafe { WaitForMultipleObjects(count, handles.as_ptr(), all.into(), milliseconds) };
    // `WAIT_OBJECT_0` is 0; other answers are larger than any position.
    ended.wrapping_sub(WAIT_OBJECT_0)
}
