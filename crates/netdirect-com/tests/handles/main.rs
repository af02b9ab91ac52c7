//! Handles of Windows that a process has: a process of its own counts them, and uses numbers that no handle has any more.
#![cfg(windows)]

#[path = "../it/client.rs"]
#[allow(dead_code, unused_imports, reason = "a part of it is enough")]
mod client;

use std::ptr;

use netdirect::Status;
use netdirect_com::abi::{CompletionQueueTable, This};
use netdirect_com::handle::{EventRef, PortRef};
use parking_lot::Mutex;
use windows_sys::Win32::Foundation::GetHandleInformation;

use client::{End, SOFTND, adapter, call, close, file, overlapped, release};

/// Only one test makes and closes handles.
static ALONE: Mutex<()> = Mutex::new(());

/// The handles of this process, of those whose numbers are small: every number is looked at, because wine counts none.
fn handles() -> usize {
    let is_open = |number: &usize| {
        let mut flags = 0;
        // SAFETY: the system refuses a number that is no handle, and there is room for the answer.
        unsafe { GetHandleInformation(ptr::without_provenance_mut(*number), &raw mut flags) != 0 }
    };
    (4..0x4000).step_by(4).filter(is_open).count()
}

/// Nobody says that a client has closed a file.
#[test]
fn files_that_are_closed_take_no_handles() {
    let _alone = ALONE.lock();
    let adapter = adapter(&SOFTND);
    // What is made once, and one file that is given up when the next one is made.
    close(file(adapter));
    let before = handles();
    for _ in 0..1000 {
        close(file(adapter));
    }
    assert_eq!(handles(), before);
    // Files that are in use when they are closed.
    for early in [true, false] {
        for _ in 0..200 {
            let file = file(adapter);
            let end = End::new(adapter, file);
            if early {
                close(file);
                end.release();
            } else {
                end.release();
                close(file);
            }
        }
    }
    close(file(adapter));
    assert_eq!(handles(), before);
    // All at once: the list of files is as long as ever, and becomes shorter with the next ones.
    let all: Vec<_> = (0..100).map(|_| file(adapter)).collect();
    all.into_iter().for_each(close);
    for _ in 0..50 {
        close(file(adapter));
    }
    assert_eq!(handles(), before);
    assert_eq!(release(adapter), 0);
    assert!(handles() < before);
}

/// ND_INVALID_HANDLE, and nothing was submitted, whether the number of a closed event is another object's or nobody's.
#[test]
fn a_closed_event_is_refused() {
    let _alone = ALONE.lock();
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let end = End::new(adapter, file);
    let mut request = overlapped();
    let before = request.internal;
    for is_taken in [false, true] {
        let event = EventRef::create(false, false);
        request.event = event.handle();
        drop(event);
        let mut ports = Vec::new();
        while is_taken && ports.last().map(PortRef::handle) != Some(request.event) {
            ports.push(PortRef::create());
            assert!(ports.len() < 1000, "the system gives numbers away again");
        }
        let status = call!(end.cq, CompletionQueueTable, notify(1, &raw mut request));
        assert_eq!((status, request.internal), (Status::INVALID_HANDLE, before));
    }
    end.release();
    close(file);
    assert_eq!(release(adapter), 0);
}
