//! Handles of Windows that a process has: a process of its own counts them.
#![cfg(windows)]

#[path = "../it/client.rs"]
#[allow(dead_code, unused_imports, reason = "a part of it is enough")]
mod client;

use std::ptr;

use windows_sys::Win32::Foundation::GetHandleInformation;

use client::{End, SOFTND, adapter, close, file, release};

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
