//! Requests of clients that wait by the system's events and completion ports.

use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::ptr;

use netdirect::{MrFlags, Status};
use netdirect_com::abi::*;
use netdirect_com::handle::{EventRef, FileRef, PortRef, close, wait};

use crate::client::{End, SOFTND, adapter, call, end, file, overlapped, release};

const KEY: usize = 0x1234;

/// An adapter with a file, the file's port, and an end.
struct Client {
    adapter: This,
    file: OwnedHandle,
    port: PortRef,
    end: End,
}

impl Client {
    fn new() -> Self {
        let adapter = adapter(&SOFTND);
        let handle = file(adapter);
        let end = End::new(adapter, handle);
        let port = PortRef::create();
        // SAFETY: a file.
        let tied = unsafe { FileRef::retain(handle) }.unwrap();
        tied.associate(&port, KEY).unwrap();
        Self {
            adapter,
            // SAFETY: the library has made the handle for this client.
            file: unsafe { OwnedHandle::from_raw_handle(handle) },
            port,
            end,
        }
    }

    fn notify(&self, request: &mut Overlapped) -> Status {
        let request = &raw mut *request;
        call!(self.end.cq, CompletionQueueTable, notify(1, request))
    }

    fn cancel(&self) {
        let status = call!(self.end.cq, OverlappedTable, cancel_overlapped_requests());
        assert_eq!(status, Status::SUCCESS);
    }

    /// The OVERLAPPED and the status of the next packet, which is there.
    fn packet(&self) -> (*mut Overlapped, u32) {
        let packet = self.port.take_one(0).unwrap().expect("a packet");
        assert_eq!(packet.key, KEY);
        #[expect(clippy::cast_possible_truncation, reason = "32 bits mean something")]
        let status = packet.internal as u32;
        (packet.overlapped, status)
    }

    fn release(self) {
        drop(self.file);
        self.end.release();
        assert_eq!(release(self.adapter), 0);
    }
}

#[test]
fn the_packets_of_cancelled_requests_are_there_when_cancel_returns() {
    let client = Client::new();
    for _ in 0..200 {
        let mut requests = [(); 3].map(|()| Box::new(overlapped()));
        for request in &mut requests {
            assert_eq!(client.notify(request), Status::PENDING);
            assert_eq!(request.internal, Status::PENDING.bits() as usize);
        }
        client.cancel();
        for request in &mut requests {
            let canceled = Status::CANCELED.bits();
            assert_eq!(client.packet(), (&raw mut **request, canceled));
            assert_eq!(request.internal, canceled as usize);
        }
    }
    assert!(client.port.take_one(0).unwrap().is_none());
    client.release();
}

#[test]
fn an_event_is_set_at_the_end_and_its_lowest_bit_keeps_packets_away() {
    let client = Client::new();
    for bit in [0, WAKE_EVENT_BIT] {
        // A request resets its event, whatever the client has left.
        let event = EventRef::create(true, true);
        let mut request = Box::new(overlapped());
        request.event = event.handle().map_addr(|address| address | bit);
        assert_eq!(client.notify(&mut request), Status::PENDING);
        assert!(!event.take());
        client.cancel();
        assert!(wait(&event, 0));
        match bit {
            0 => assert_eq!(client.packet().0, &raw mut *request),
            _ => assert!(client.port.take_one(0).unwrap().is_none()),
        }
        let got = call!(
            client.end.cq,
            OverlappedTable,
            get_overlapped_result(&raw mut *request, 1)
        );
        assert_eq!(got, Status::CANCELED);
    }
    client.release();
}

/// The request has its own handle of the event.
#[test]
fn a_client_may_close_its_event_and_its_file_while_requests_are_in_flight() {
    let Client {
        adapter,
        file,
        port,
        end,
    } = Client::new();
    let event = EventRef::create(false, false);
    // SAFETY: an event.
    let seen = unsafe { EventRef::retain(event.handle()) }.unwrap();
    let mut request = Box::new(overlapped());
    request.event = event.handle();
    let status = call!(end.cq, CompletionQueueTable, notify(1, &raw mut *request));
    assert_eq!(status, Status::PENDING);
    drop(event);
    drop(file);
    end.release();
    assert!(seen.take());
    let packet = port.take_one(0).unwrap().unwrap();
    assert_eq!((packet.key, packet.overlapped), (KEY, &raw mut *request));
    assert_eq!(request.internal, Status::CANCELED.bits() as usize);
    assert_eq!(release(adapter), 0);
}

/// ND_INVALID_HANDLE, and nothing was submitted.
#[test]
fn what_is_no_event_is_refused() {
    let client = Client::new();
    for handle in [
        client.port.handle(),
        ptr::without_provenance_mut(0x00DE_AD00),
        ptr::without_provenance_mut(usize::MAX - 3),
    ] {
        let mut request = overlapped();
        request.event = handle;
        let before = request.internal;
        let status = client.notify(&mut request);
        assert_eq!((status, request.internal), (Status::INVALID_HANDLE, before));
    }
    client.cancel();
    assert!(client.port.take_one(0).unwrap().is_none());
    client.release();
}

/// Register asks for the rights of every page (MR-009).
#[test]
fn memory_that_is_not_there_is_not_registered() {
    let client = Client::new();
    let mut memory = vec![0_u8; 3 * 4096];
    let nowhere = ptr::without_provenance_mut::<u8>(0x10_0000_0000_0000);
    for (start, size, wanted) in [
        (nowhere, 4096, Status::ACCESS_VIOLATION),
        (memory.as_mut_ptr(), 1 << 46, Status::ACCESS_VIOLATION),
        (memory.as_mut_ptr(), memory.len(), Status::SUCCESS),
    ] {
        let mut region = ptr::null_mut();
        let iid = &IID_ND2_MEMORY_REGION;
        let handle = std::os::windows::io::AsRawHandle::as_raw_handle(&client.file);
        let status = call!(
            client.adapter,
            AdapterTable,
            create_memory_region(iid, handle, &raw mut region)
        );
        assert_eq!(status, Status::SUCCESS);
        let mut request = overlapped();
        let flags = MrFlags::ALLOW_LOCAL_WRITE.bits();
        let (start, request_at) = (start.cast_const().cast(), &raw mut request);
        let status = call!(
            region,
            MemoryRegionTable,
            register(start, size, flags, request_at)
        );
        let status = end(region, status, &mut request);
        assert_eq!(status, wanted);
        assert_eq!(release(region), 0);
    }
    client.release();
}

#[test]
fn a_file_is_recognised_by_the_system() {
    let adapter = adapter(&SOFTND);
    let first = file(adapter);
    let event = EventRef::create(false, false);
    let make = |handle: Handle| {
        let mut cq = ptr::null_mut();
        let iid = &IID_ND2_COMPLETION_QUEUE;
        let out = &raw mut cq;
        let status = call!(
            adapter,
            AdapterTable,
            create_completion_queue(iid, handle, 4, 0, 0, out)
        );
        if status == Status::SUCCESS {
            assert_eq!(release(cq), 0);
        }
        status
    };
    assert_eq!(make(first), Status::SUCCESS);
    assert_eq!(make(event.handle()), Status::INVALID_HANDLE);
    assert_eq!(make(ptr::null_mut()), Status::INVALID_HANDLE);
    // SAFETY: the handle of this client.
    unsafe { close(first) }.unwrap();
    assert_eq!(release(adapter), 0);
}
