//! Requests of a file of another library.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::ptr;
use std::sync::{Arc, LazyLock};
use std::thread;

use netdirect::Status;
use parking_lot::Mutex;

use super::foreign::{self, File};
use crate::abi::{Overlapped, WAKE_EVENT_BIT};
use crate::handle::{EventRef, FileRef, INFINITE, PortRef, bind, overlapped_result, wait};

/// An OVERLAPPED of a client, as an address that threads pass on.
struct Client(*mut Overlapped);

impl Client {
    fn in_flight(event: Option<&EventRef>) -> Self {
        let event = event.map_or(ptr::null_mut(), EventRef::handle);
        Self(Box::into_raw(Box::new(Overlapped {
            internal: Status::PENDING.bits() as usize,
            internal_high: 0,
            offset: 0,
            offset_high: 0,
            event,
        })))
    }

    fn result(&self, file: &FileRef, waits: bool) -> Result<Status, Status> {
        // SAFETY: the OVERLAPPED lives as long as this value.
        unsafe { overlapped_result(file.handle(), self.0, waits) }
    }
}

// SAFETY: the memory is used as the functions under test demand.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: it was made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

#[test]
fn a_request_in_flight_is_pending_until_its_end() {
    let (file, reference, _) = File::create();
    let client = Client::in_flight(None);
    assert_eq!(client.result(&reference, false), Ok(Status::PENDING));
    file.end(client.0, Status::CONNECTION_REFUSED);
    let ended = Ok(Status::CONNECTION_REFUSED);
    assert_eq!(client.result(&reference, false), ended);
    assert_eq!(client.result(&reference, true), ended);
}

#[test]
fn without_an_event_the_wait_sleeps_until_requests_of_the_file_end() {
    let (file, reference, watched) = File::create();
    let (client, other) = (Client::in_flight(None), Client::in_flight(None));
    let client = Arc::new(client);
    let waits = Arc::clone(&client);
    let thread = thread::spawn(move || waits.result(&reference, true));
    watched.recv().unwrap();
    file.end(other.0, Status::SUCCESS);
    file.end(client.0, Status::CANCELED);
    assert_eq!(thread.join().unwrap(), Ok(Status::CANCELED));
}

#[test]
fn the_lowest_bit_of_the_event_is_no_part_of_it() {
    let (file, reference, _) = File::create();
    let (event, watched) = foreign::Event::create(true, false);
    let client = Arc::new(Client::in_flight(None));
    // SAFETY: no thread uses the field yet.
    unsafe { (*client.0).event = event.handle().map_addr(|address| address | WAKE_EVENT_BIT) };
    let waits = Arc::clone(&client);
    let thread = thread::spawn(move || waits.result(&reference, true));
    watched.recv().unwrap();
    // The file of the tests sets only events without the bit.
    file.end(client.0, Status::SUCCESS);
    event.set();
    assert_eq!(thread.join().unwrap(), Ok(Status::SUCCESS));
}

#[test]
fn a_wait_without_event_and_file_is_refused() {
    let (_, reference, _) = File::create();
    let client = Client::in_flight(None);
    let port = PortRef::create();
    // SAFETY: the OVERLAPPED lives, and a port is no file.
    let refused = unsafe { overlapped_result(port.handle(), client.0, true) };
    assert_eq!(refused, Err(Status::INVALID_HANDLE));
    // SAFETY: no thread uses the field.
    unsafe { (*client.0).event = port.handle() };
    assert_eq!(client.result(&reference, true), Err(Status::INVALID_HANDLE));
}

/// A call of the routine below: status and OVERLAPPED.
type Call = (u32, usize);

static CALLS: LazyLock<(Sender<Call>, Mutex<Receiver<Call>>)> = LazyLock::new(|| {
    let (sender, receiver) = unbounded();
    (sender, Mutex::new(receiver))
});

/// Set by the test when the calls may return.
static MAY_RETURN: LazyLock<EventRef> = LazyLock::new(|| EventRef::create(true, false));

unsafe extern "system" fn report(status: u32, _bytes: u32, overlapped: *mut Overlapped) {
    CALLS.0.send((status, overlapped.addr())).unwrap();
    assert!(wait(&MAY_RETURN, INFINITE));
}

#[test]
fn each_end_of_a_bound_file_is_a_call_also_while_others_have_not_returned() {
    let (file, reference, _) = File::create();
    // SAFETY: the routine is a function of this program.
    unsafe { bind(&reference, report) }.unwrap();
    // SAFETY: as above.
    let again = unsafe { bind(&reference, report) };
    assert_eq!(again, Err(Status::INVALID_PARAMETER));
    let clients = [(); 5].map(|()| Client::in_flight(None));
    for client in &clients {
        file.end(client.0, Status::CANCELED);
    }
    let calls = CALLS.1.lock();
    let mut called: Vec<_> = clients.iter().map(|_| calls.recv().unwrap()).collect();
    MAY_RETURN.set();
    called.sort_unstable();
    let mut expected = clients
        .each_ref()
        .map(|client| (Status::CANCELED.bits(), client.0.addr()));
    expected.sort_unstable();
    assert_eq!(called, expected);
}
