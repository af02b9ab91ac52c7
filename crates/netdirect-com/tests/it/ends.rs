//! The ends of requests, with careless clients.

#[cfg(target_os = "linux")]
use std::fs;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::ptr;
#[cfg(target_os = "linux")]
use std::thread;

use netdirect::Status;
use netdirect_com::abi::*;

use crate::client::{End, SOFTND, adapter, call, close, file, overlapped, release};

/// A pointer of the client that several threads use.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: the tests share the objects as clients of COM may.
#[cfg(target_os = "linux")]
unsafe impl<T> Send for Shared<T> {}

#[cfg(target_os = "linux")]
impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

/// Returns when the thread sleeps. It may call a method of the object only until the last release.
#[cfg(target_os = "linux")]
fn sleeps(thread: &Path) {
    let stat = Path::new("/proc").join(thread).join("stat");
    let is_asleep = || {
        let stat = fs::read_to_string(&stat).unwrap();
        let (_, state) = stat.rsplit_once(") ").unwrap();
        state.starts_with('S')
    };
    while !is_asleep() {
        thread::yield_now();
    }
}

/// One client releases its completion queue while another thread waits in that queue's GetOverlappedResult, and never closes the file.
#[cfg(target_os = "linux")]
#[test]
fn the_last_release_ends_a_wait_in_another_thread() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    for _ in 0..50 {
        let end = End::new(adapter, file);
        let request = Box::into_raw(Box::new(overlapped()));
        let status = call!(end.cq, CompletionQueueTable, notify(1, request));
        assert_eq!(status, Status::PENDING);
        let (cq, shared) = (Shared(end.cq), Shared(request));
        let (sender, receiver) = crossbeam_channel::unbounded();
        let waiter = thread::spawn(move || {
            let (cq, request) = (cq.get(), shared.get());
            sender
                .send(fs::read_link("/proc/thread-self").unwrap())
                .unwrap();
            call!(cq, OverlappedTable, get_overlapped_result(request, 1))
        });
        sleeps(&receiver.recv().unwrap());
        end.release();
        assert_eq!(waiter.join().unwrap(), Status::CANCELED);
        // SAFETY: made above; the request has ended.
        let request = unsafe { Box::from_raw(request) };
        assert_eq!(request.internal, Status::CANCELED.bits() as usize);
    }
    assert_eq!(release(adapter), 0);
}

/// TST-024: one OVERLAPPED in two requests, freed right after the last release.
#[test]
fn one_overlapped_in_two_requests_is_left_alone_after_the_last_release() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    for _ in 0..50 {
        let end = End::new(adapter, file);
        let mut request = Box::new(overlapped());
        for kind in [1, 2] {
            let status = call!(
                end.cq,
                CompletionQueueTable,
                notify(kind, &raw mut *request)
            );
            assert_eq!(status, Status::PENDING);
        }
        let status = call!(end.region, MemoryRegionTable, deregister(&raw mut *request));
        assert_eq!(status, Status::PENDING);
        end.release();
        // The memory is used again, as after a free: the library must not write to it.
        request.internal = 7;
        assert_eq!(request.internal, 7);
    }
    close(file);
    assert_eq!(release(adapter), 0);
}

#[test]
fn an_overlapped_that_was_never_used_has_what_it_says() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let end = End::new(adapter, file);
    let mut fresh = overlapped();
    for status in [Status::SUCCESS, Status::CONNECTION_REFUSED] {
        fresh.internal = status.bits() as usize;
        for wait in [0, 1] {
            let got = call!(
                end.cq,
                OverlappedTable,
                get_overlapped_result(&raw mut fresh, wait)
            );
            assert_eq!(got, status); // TST-005, AMB-068
        }
    }
    let got = call!(
        end.cq,
        OverlappedTable,
        get_overlapped_result(ptr::null_mut(), 1)
    );
    assert_eq!(got, Status::INVALID_PARAMETER_1);
    end.release();
    close(file);
    assert_eq!(release(adapter), 0);
}

/// A file or a port in place of an event: nothing is submitted.
#[test]
fn something_else_in_place_of_an_event_is_refused() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let end = End::new(adapter, file);
    let mut request = overlapped();
    for bit in [0, WAKE_EVENT_BIT] {
        request.event = file.map_addr(|address| address | bit);
        request.internal = 7;
        let status = call!(end.cq, CompletionQueueTable, notify(1, &raw mut request));
        assert_eq!((status, request.internal), (Status::INVALID_HANDLE, 7));
    }
    let status = call!(end.cq, CompletionQueueTable, notify(9, &raw mut request));
    assert_eq!(status, Status::INVALID_PARAMETER_1); // AMB-054
    end.release();
    close(file);
    assert_eq!(release(adapter), 0);
}

#[test]
fn missing_entries_and_missing_memory_have_statuses() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let mut end = End::new(adapter, file);
    let sge = end.sge();
    let missing = Sge {
        buffer: ptr::null_mut(),
        ..sge
    };
    let receive = |sges, count| {
        call!(
            end.qp,
            QueuePairTable,
            receive(ptr::null_mut(), sges, count)
        )
    };
    assert_eq!(receive(ptr::null(), 1), Status::INVALID_PARAMETER_2);
    assert_eq!(receive(ptr::null(), 0), Status::SUCCESS);
    // The client's structure may be unaligned.
    let mut packed = [0_u8; 24];
    let unaligned = packed.as_mut_ptr().wrapping_add(1).cast::<Sge>();
    // SAFETY: there is room for the entry behind the first octet.
    unsafe { unaligned.write_unaligned(sge) };
    assert_eq!(receive(unaligned, 1), Status::SUCCESS);
    let inline = netdirect::OpFlags::INLINE.bits();
    let send = |sge: &Sge| {
        call!(
            end.qp,
            QueuePairTable,
            send(ptr::null_mut(), ptr::from_ref(sge), 1, inline)
        )
    };
    assert_eq!(send(&missing), Status::ACCESS_VIOLATION);
    let mut octets = [0_u64; 5];
    let odd = octets
        .as_mut_ptr()
        .wrapping_byte_add(1)
        .cast::<Overlapped>();
    assert_eq!(
        call!(end.cq, CompletionQueueTable, notify(1, odd)),
        Status::INVALID_PARAMETER_2
    );
    end.release();
    close(file);
    assert_eq!(release(adapter), 0);
}
