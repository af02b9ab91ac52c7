//! The functions, called in the way that programs do.

use std::ffi::{c_char, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::thread;

use netdirect_com::abi::{Handle, IID_ND2_ADAPTER, Overlapped, Packet, Status};
use netdirect_com::sockaddr;

use crate::events::{
    CreateEventA, CreateEventW, ResetEvent, SetEvent, WaitForMultipleObjects, WaitForSingleObject,
};
use crate::handles::{CloseHandle, GetLastError, SetLastError};
use crate::helper::{
    NdCheckAddress, NdCleanup, NdFlushProviders, NdOpenAdapter, NdOpenV1Adapter,
    NdQueryAddressList, NdResolveAddress, NdStartup,
};
use crate::ports::{
    CreateIoCompletionPort, GetQueuedCompletionStatus, GetQueuedCompletionStatusEx,
    PostQueuedCompletionStatus,
};
use crate::requests::{BindIoCompletionCallback, GetOverlappedResult};

const INFINITE: u32 = u32::MAX;
const NULL: Handle = ptr::null_mut();

fn invalid() -> Handle {
    ptr::without_provenance_mut(usize::MAX)
}

fn event(manual: bool, set: bool) -> Handle {
    CreateEventA(ptr::null(), manual.into(), set.into(), ptr::null())
}

fn port() -> Handle {
    // SAFETY: a new port.
    unsafe { CreateIoCompletionPort(invalid(), NULL, 0, 0) }
}

fn wait(handle: Handle, milliseconds: u32) -> u32 {
    // SAFETY: null, or a handle that was not closed.
    unsafe { WaitForSingleObject(handle, milliseconds) }
}

fn wait_multiple(handles: &[Handle], all: bool, milliseconds: u32) -> u32 {
    let count = u32::try_from(handles.len()).unwrap();
    // SAFETY: handles that were not closed, or null.
    unsafe { WaitForMultipleObjects(count, handles.as_ptr(), all.into(), milliseconds) }
}

fn set(handle: Handle) -> i32 {
    // SAFETY: null, or a handle that was not closed.
    unsafe { SetEvent(handle) }
}

fn close(handle: Handle) {
    // SAFETY: the handle was not closed.
    assert_eq!(unsafe { CloseHandle(handle) }, 1);
}

fn post(port: Handle, key: usize) -> i32 {
    // SAFETY: a handle that was not closed.
    unsafe { PostQueuedCompletionStatus(port, 7, key, ptr::null_mut()) }
}

/// The result of GetQueuedCompletionStatus, and the values that it leaves.
fn get(port: Handle, milliseconds: u32) -> (i32, u32, usize, *mut Overlapped) {
    let (mut bytes, mut key, mut overlapped) = (0, 0, ptr::dangling_mut());
    // SAFETY: a handle that was not closed, and room.
    let got = unsafe {
        GetQueuedCompletionStatus(port, &mut bytes, &mut key, &mut overlapped, milliseconds)
    };
    (got, bytes, key, overlapped)
}

#[test]
fn events_do_as_windows_says() {
    let automatic = event(false, true);
    assert_eq!(wait(automatic, INFINITE), 0);
    assert_eq!((wait(automatic, 0), wait(automatic, 1)), (258, 258));
    assert_eq!(set(automatic), 1);
    // SAFETY: a handle that was not closed.
    assert_eq!(unsafe { ResetEvent(automatic) }, 1);
    assert_eq!(wait(automatic, 0), 258);
    let manual = CreateEventW(ptr::null(), 5, 1, ptr::null());
    assert_eq!((wait(manual, 0), wait(manual, INFINITE)), (0, 0));
    assert_eq!(wait_multiple(&[automatic, manual], false, INFINITE), 1);
    assert_eq!(wait_multiple(&[automatic, manual], true, 0), 258);
    assert_eq!(set(automatic), 1);
    assert_eq!(wait_multiple(&[automatic, manual], true, INFINITE), 0);
    assert_eq!(wait(automatic, 0), 258);
    close(automatic);
    close(manual);
}

#[test]
fn a_thread_that_wakes_up_may_close_the_event() {
    for _ in 0..500 {
        let event = event(false, false).expose_provenance();
        let waiter = thread::spawn(move || {
            let event = ptr::with_exposed_provenance_mut(event);
            assert_eq!(wait(event, INFINITE), 0);
            close(event);
        });
        assert_eq!(set(ptr::with_exposed_provenance_mut(event)), 1);
        waiter.join().unwrap();
    }
}

#[test]
fn what_is_no_event_is_an_invalid_handle() {
    let port = port();
    for handle in [NULL, invalid(), port] {
        SetLastError(0);
        assert_eq!(set(handle), 0);
        assert_eq!(GetLastError(), 6);
        SetLastError(0);
        assert_eq!(wait(handle, 0), u32::MAX);
        assert_eq!(GetLastError(), 6);
        SetLastError(0);
        assert_eq!(wait_multiple(&[handle], false, 0), u32::MAX);
        assert_eq!(GetLastError(), 6);
    }
    close(port);
    for handle in [NULL, invalid()] {
        SetLastError(0);
        // SAFETY: no handles.
        assert_eq!(unsafe { CloseHandle(handle) }, 0);
        assert_eq!(GetLastError(), 6);
    }
}

#[test]
fn waits_for_none_too_many_or_twice_the_same_are_refused() {
    let event = event(true, true);
    for (handles, all) in [(&[][..], false), (&[event; 65], false), (&[event; 2], true)] {
        SetLastError(0);
        assert_eq!(wait_multiple(handles, all, 0), u32::MAX);
        assert_eq!(GetLastError(), 87);
    }
    assert_eq!(wait_multiple(&[event; 64], false, 0), 0);
    // SAFETY: null is refused.
    let refused = unsafe { WaitForMultipleObjects(1, ptr::null(), 0, 0) };
    assert_eq!((refused, GetLastError()), (u32::MAX, 87));
    close(event);
}

#[test]
fn names_and_security_of_events_are_not_supported() {
    let name: *const c_char = c"name".as_ptr();
    assert!(CreateEventA(ptr::null(), 0, 0, name).is_null());
    assert_eq!(GetLastError(), 50);
    let attributes: *const c_void = name.cast();
    assert!(CreateEventW(attributes, 0, 0, ptr::null()).is_null());
    assert_eq!(GetLastError(), 50);
}

#[test]
fn errors_belong_to_their_thread() {
    SetLastError(7);
    thread::spawn(|| {
        assert_eq!(GetLastError(), 0);
        assert_eq!(set(NULL), 0);
        assert_eq!(GetLastError(), 6);
    })
    .join()
    .unwrap();
    assert_eq!(GetLastError(), 7);
}

#[test]
fn packets_come_in_order_one_by_one_and_many_at_once() {
    let port = port();
    for key in 1..=4 {
        assert_eq!(post(port, key), 1);
    }
    assert_eq!(get(port, INFINITE), (1, 7, 1, ptr::null_mut()));
    let mut entries = [const { std::mem::MaybeUninit::<Packet>::uninit() }; 8];
    let mut removed = 99;
    // SAFETY: a handle that was not closed, and room for 8 entries.
    let got = unsafe {
        GetQueuedCompletionStatusEx(port, entries.as_mut_ptr().cast(), 8, &mut removed, 0, 0)
    };
    assert_eq!((got, removed), (1, 3));
    // SAFETY: three entries were written.
    let keys = [0, 1, 2].map(|index: usize| unsafe { entries[index].assume_init() }.key);
    assert_eq!(keys, [2, 3, 4]);
    // SAFETY: as above.
    let got = unsafe {
        GetQueuedCompletionStatusEx(port, entries.as_mut_ptr().cast(), 8, &mut removed, 1, 0)
    };
    assert_eq!((got, removed, GetLastError()), (0, 0, 258));
    let (got, _, _, overlapped) = get(port, 0);
    assert!(got == 0 && overlapped.is_null());
    assert_eq!(GetLastError(), 258);
    close(port);
}

/// The threads may be waiting before the port is closed: they have separate references, as Windows' calls have.
#[test]
fn closing_a_port_ends_the_waits_in_it() {
    let port = port().expose_provenance();
    // SAFETY: the port lives until it is closed below.
    let of_thread = unsafe {
        netdirect_com::handle::PortRef::retain(ptr::with_exposed_provenance_mut(port)).unwrap()
    };
    let waiter = thread::spawn(move || {
        let (got, _, _, overlapped) = get(of_thread.handle(), INFINITE);
        (got, overlapped.is_null(), GetLastError())
    });
    close(ptr::with_exposed_provenance_mut(port));
    assert_eq!(waiter.join().unwrap(), (0, true, 735));
}

#[test]
fn ports_refuse_what_windows_refuses() {
    let (port, event) = (port(), event(false, false));
    let create = |file, existing| {
        // SAFETY: handles that were not closed, null, or INVALID_HANDLE_VALUE.
        let created = unsafe { CreateIoCompletionPort(file, existing, 0, 0) };
        (created, GetLastError())
    };
    assert_eq!(create(invalid(), port), (NULL, 87));
    assert_eq!(create(NULL, NULL), (NULL, 6));
    assert_eq!(create(event, port), (NULL, 6));
    assert_eq!(create(event, event), (NULL, 6));
    assert_eq!((post(event, 1), GetLastError()), (0, 6));
    assert_eq!((get(event, 0).0, GetLastError()), (0, 6));
    let mut room = 0;
    // SAFETY: null pointers are refused.
    let refused =
        unsafe { GetQueuedCompletionStatus(port, &mut room, ptr::null_mut(), ptr::null_mut(), 0) };
    assert_eq!((refused, GetLastError()), (0, 87));
    // SAFETY: as above.
    let refused = unsafe { GetQueuedCompletionStatusEx(port, ptr::null_mut(), 1, &mut room, 0, 0) };
    assert_eq!((refused, GetLastError()), (0, 87));
    // SAFETY: no file.
    assert_eq!(unsafe { BindIoCompletionCallback(event, None, 0) }, 0);
    assert_eq!(GetLastError(), 6);
    close(port);
    close(event);
}

#[test]
fn a_packet_has_the_outcome_of_its_request() {
    let port = port();
    // SAFETY: the port lives until it is closed below.
    let reference = unsafe { netdirect_com::handle::PortRef::retain(port) }.unwrap();
    let mut overlapped = overlapped(Status::SUCCESS);
    let pointer = &raw mut overlapped;
    for (status, error) in [
        (Status::SUCCESS, 0),
        (Status::TIMEOUT, 0),
        (Status::CANCELED, 995),
        (Status::BUFFER_OVERFLOW, 234),
        (Status::CONNECTION_REFUSED, 1225),
    ] {
        reference.post(&Packet {
            key: 3,
            overlapped: pointer,
            internal: status.bits() as usize,
            bytes: 0,
        });
        SetLastError(0);
        let is_good = i32::from(error == 0);
        assert_eq!(get(port, 0), (is_good, 0, 3, pointer), "{status}");
        assert_eq!(GetLastError(), error, "{status}");
    }
    close(port);
}

fn overlapped(status: Status) -> Overlapped {
    Overlapped {
        internal: status.bits() as usize,
        internal_high: 5,
        offset: 0,
        offset_high: 0,
        event: NULL,
    }
}

#[test]
fn results_are_read_from_the_overlapped() {
    for (status, answer, error) in [
        (Status::SUCCESS, 1, 0),
        (Status::CANCELED, 0, 995),
        (Status::PENDING, 0, 996),
    ] {
        let mut overlapped = overlapped(status);
        let mut bytes = 0;
        SetLastError(0);
        // SAFETY: no other thread uses the OVERLAPPED.
        let got = unsafe { GetOverlappedResult(NULL, &raw mut overlapped, &mut bytes, 0) };
        assert_eq!((got, GetLastError()), (answer, error), "{status}");
        assert_eq!(bytes, if error == 996 { 0 } else { 5 });
    }
    let mut overlapped = overlapped(Status::PENDING);
    let mut bytes = 0;
    // SAFETY: as above; the wait has neither event nor file.
    let got = unsafe { GetOverlappedResult(NULL, &raw mut overlapped, &mut bytes, 1) };
    assert_eq!((got, GetLastError()), (0, 6));
    // SAFETY: null is refused.
    let got = unsafe { GetOverlappedResult(NULL, ptr::null_mut(), &mut bytes, 0) };
    assert_eq!((got, GetLastError()), (0, 87));
}

/// One test, because the helper functions have one state for the process. The tests never set ND_PROVIDER.
#[test]
fn helper_functions_want_a_start_and_count_it() {
    let mut size = 9;
    // SAFETY: no list, and room for a number.
    let query = |size: &mut usize| unsafe { NdQueryAddressList(0, ptr::null_mut(), size) };
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (octets, len) = sockaddr::from_address(local);
    // SAFETY: an address of this length.
    let check = |len| unsafe { NdCheckAddress(octets.as_ptr().cast(), len) };
    let not_ready = Status::DEVICE_NOT_READY;
    assert_eq!(
        (NdCleanup(), query(&mut size), check(len)),
        (not_ready, not_ready, not_ready)
    );
    NdFlushProviders();
    assert_eq!(
        (NdStartup(), NdStartup(), NdCleanup()),
        (Status::SUCCESS, Status::SUCCESS, Status::SUCCESS)
    );
    assert_eq!((query(&mut size), size), (Status::SUCCESS, 0));
    assert_eq!(check(len), Status::INVALID_ADDRESS);
    assert_eq!(check(len - 1), Status::INVALID_PARAMETER_2);
    let mut adapter = ptr::dangling_mut();
    let start = octets.as_ptr().cast();
    // SAFETY: an identifier, an address, and room.
    let opened = unsafe { NdOpenAdapter(&IID_ND2_ADAPTER, start, len, &mut adapter) };
    assert_eq!(
        (opened, adapter),
        (Status::INVALID_ADDRESS, ptr::null_mut())
    );
    // SAFETY: an address, and room.
    let opened = unsafe { NdOpenV1Adapter(start, len, &mut adapter) };
    assert_eq!((opened, adapter), (Status::NO_INTERFACE, ptr::null_mut()));
    let mut room = [0_u64; 4];
    let mut size = 4;
    // SAFETY: an address, and room.
    let mut resolve =
        |size: &mut usize| unsafe { NdResolveAddress(start, len, room.as_mut_ptr().cast(), size) };
    assert_eq!((resolve(&mut size), size), (Status::BUFFER_OVERFLOW, len));
    assert_eq!(
        resolve(&mut size),
        Status::INVALID_ADDRESS,
        "no provider has it"
    );
    assert_eq!((NdCleanup(), NdCleanup()), (Status::SUCCESS, not_ready));
    assert_eq!(check(len), not_ready);
}
