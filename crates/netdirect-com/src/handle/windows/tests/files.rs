//! What a client sees of the ends of its requests.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::io;
use std::mem::zeroed;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr;
use std::sync::{Arc, LazyLock};
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use netdirect::Status;
use parking_lot::Mutex;
use windows_sys::Win32::Foundation::{
    ERROR_MORE_DATA, ERROR_OPERATION_ABORTED, ERROR_PIPE_NOT_CONNECTED,
};
use windows_sys::Win32::System::IO::{
    BindIoCompletionCallback, GetQueuedCompletionStatus, OVERLAPPED,
};
use windows_sys::Win32::System::Threading::{
    CloseThreadpoolIo, CreateThreadpoolIo, PTP_CALLBACK_INSTANCE, PTP_IO, StartThreadpoolIo,
    WaitForThreadpoolIoCallbacks,
};

use crate::abi::Overlapped;
use crate::handle::{EventRef, FilePipe, FileRef, INFINITE, PortRef};

const KEY: usize = 0x77;

/// Each status, with the status in a port's packet, and the error of GetQueuedCompletionStatus.
const STATUSES: [(Status, u32, u32); 5] = [
    (Status::SUCCESS, 0, 0),
    (Status::CANCELED, 0xC000_0120, ERROR_OPERATION_ABORTED),
    (Status::BUFFER_OVERFLOW, 0x8000_0005, ERROR_MORE_DATA),
    (
        Status::CONNECTION_REFUSED,
        0xC000_00B0,
        ERROR_PIPE_NOT_CONNECTED,
    ),
    (Status::TIMEOUT, 0, 0),
];

/// A client's memory. The files never touch it.
struct Client(UnsafeCell<Overlapped>);

// SAFETY: only its address is used.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    fn new() -> Self {
        Self(UnsafeCell::new(Overlapped {
            internal: usize::MAX,
            internal_high: usize::MAX,
            offset: u32::MAX,
            offset_high: u32::MAX,
            event: ptr::null_mut(),
        }))
    }

    fn pointer(&self) -> *mut Overlapped {
        self.0.get()
    }
}

fn tie(client: &OwnedHandle, port: &PortRef) {
    // SAFETY: a file.
    let file = unsafe { FileRef::retain(client.as_raw_handle()) }.unwrap();
    file.associate(port, KEY).unwrap();
}

fn tied() -> (FilePipe, OwnedHandle, PortRef) {
    let (pipe, client) = FilePipe::create().unwrap();
    let port = PortRef::create();
    tie(&client, &port);
    (pipe, client, port)
}

/// GetQueuedCompletionStatus without a wait: the error, or 0, the key and the OVERLAPPED.
fn dequeue(port: &PortRef) -> (u32, usize, *mut Overlapped) {
    let (mut octets, mut key, mut overlapped) = (0, 0, ptr::null_mut());
    // SAFETY: the port is open, and there is room for the answers.
    let succeeded = unsafe {
        GetQueuedCompletionStatus(
            port.handle(),
            &raw mut octets,
            &raw mut key,
            &raw mut overlapped,
            0,
        )
    };
    let error = match succeeded {
        0 => io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or_default(),
        _ => 0,
    };
    (error.cast_unsigned(), key, overlapped.cast())
}

fn status(internal: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "32 bits mean something")]
    let status = internal as u32;
    status
}

#[test]
fn each_end_is_in_the_port_when_the_call_returns() {
    let (pipe, _client, port) = tied();
    for _ in 0..20 {
        for (end, _, error) in STATUSES {
            let client = Client::new();
            pipe.end(client.pointer(), end);
            assert_eq!(dequeue(&port), (error, KEY, client.pointer()), "{end}");
        }
    }
    for (end, of_packet, _) in STATUSES {
        let client = Client::new();
        pipe.end(client.pointer(), end);
        let packet = port.take_one(0).unwrap().unwrap();
        assert_eq!((packet.key, packet.overlapped), (KEY, client.pointer()));
        assert_eq!(status(packet.internal), of_packet, "{end}");
    }
    assert!(port.take_one(0).unwrap().is_none());
}

#[test]
fn a_file_without_a_port_takes_ends_too() {
    let (pipe, client) = FilePipe::create().unwrap();
    for (end, _, _) in STATUSES {
        pipe.end(Client::new().pointer(), end);
    }
    let port = PortRef::create();
    tie(&client, &port);
    assert!(port.take_one(0).unwrap().is_none());
    let last = Client::new();
    pipe.end(last.pointer(), Status::SUCCESS);
    assert_eq!(dequeue(&port), (0, KEY, last.pointer()));
}

#[test]
fn a_client_may_close_its_file_and_its_port_early() {
    let (pipe, client, port) = tied();
    drop(client);
    for (end, _, error) in STATUSES {
        let client = Client::new();
        pipe.end(client.pointer(), end);
        assert_eq!(dequeue(&port), (error, KEY, client.pointer()), "{end}");
    }
    drop(port);
    for (end, _, _) in STATUSES {
        pipe.end(Client::new().pointer(), end);
    }
}

#[test]
fn an_association_by_a_duplicate_counts() {
    let (pipe, client) = FilePipe::create().unwrap();
    let (first, second) = (PortRef::create(), PortRef::create());
    let other = pipe.another();
    tie(&other, &first);
    // SAFETY: a file.
    let file = unsafe { FileRef::retain(client.as_raw_handle()) }.unwrap();
    assert_eq!(file.associate(&second, KEY), Err(Status::INVALID_PARAMETER));
    let end = Client::new();
    pipe.end(end.pointer(), Status::SUCCESS);
    assert_eq!(dequeue(&first), (0, KEY, end.pointer()));
}

#[test]
fn a_file_is_recognised_by_any_of_its_handles() {
    let (pipe, client) = FilePipe::create().unwrap();
    let (other, other_client) = FilePipe::create().unwrap();
    let twin = pipe.another();
    assert!(pipe.is(client.as_raw_handle()) && pipe.is(twin.as_raw_handle()));
    assert!(!pipe.is(other_client.as_raw_handle()) && !other.is(twin.as_raw_handle()));
    assert!(!pipe.is(EventRef::create(false, false).handle()));
    assert!(!pipe.is(ptr::null_mut()));
    assert!(!pipe.is(ptr::without_provenance_mut(0x00DE_AD00)));
    assert!(!pipe.is_abandoned());
    drop(client);
    assert!(!pipe.is_abandoned(), "the client's other handle is left");
    drop(twin);
    assert!(pipe.is_abandoned());
    assert!(!other.is_abandoned());
}

/// AMB-023.
#[test]
fn a_thousand_rounds_of_cancelled_requests_come_in_their_order() {
    let (pipe, _client, port) = tied();
    for _ in 0..1000 {
        let clients = [(); 3].map(|()| Client::new());
        for client in &clients {
            pipe.end(client.pointer(), Status::CANCELED);
        }
        for client in &clients {
            let aborted = (ERROR_OPERATION_ABORTED, KEY, client.pointer());
            assert_eq!(dequeue(&port), aborted);
        }
    }
}

#[test]
fn ends_by_four_threads_arrive_once_each() {
    const ENDS: usize = 2000;
    let (pipe, _client, port) = tied();
    let pipe = Arc::new(pipe);
    let clients: Arc<Vec<_>> = Arc::new((0..4 * ENDS).map(|_| Client::new()).collect());
    let threads = [0, 1, 2, 3].map(|part| {
        let (pipe, clients) = (Arc::clone(&pipe), Arc::clone(&clients));
        thread::spawn(move || {
            for (n, client) in clients[part * ENDS..][..ENDS].iter().enumerate() {
                let (end, _, _) = STATUSES[if n % 50 == 49 { 1 + n / 50 % 3 } else { 0 }];
                pipe.end(client.pointer(), end);
            }
        })
    });
    let takers = [(); 2].map(|()| {
        let port = port.clone();
        thread::spawn(move || {
            let mut taken = Vec::new();
            loop {
                let packet = port.take_one(INFINITE).unwrap().unwrap();
                if packet.overlapped.is_null() {
                    return taken;
                }
                taken.push(packet.overlapped.addr());
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    for _ in &takers {
        port.post(&crate::abi::Packet {
            key: 0,
            overlapped: ptr::null_mut(),
            internal: 0,
            bytes: 0,
        });
    }
    let taken = takers.map(|taker| taker.join().unwrap());
    let mut taken: Vec<_> = taken.into_iter().flatten().collect();
    let mut ended: Vec<_> = clients
        .iter()
        .map(|client| client.pointer().addr())
        .collect();
    taken.sort_unstable();
    ended.sort_unstable();
    assert_eq!(taken, ended);
}

/// A client's own read takes the message of an end, whose packet then says that it was cancelled.
#[test]
fn a_client_that_uses_the_file_as_a_pipe_does_not_break_it() {
    use windows_sys::Win32::Storage::FileSystem::ReadFile;
    use windows_sys::Win32::System::Pipes::DisconnectNamedPipe;
    let (pipe, file, port) = tied();
    // SAFETY: a structure of numbers.
    let mut own: Box<OVERLAPPED> = Box::new(unsafe { zeroed() });
    let mut octets = [0_u8; 4];
    // SAFETY: both live until the read has ended, which is before the next packet.
    unsafe {
        ReadFile(
            file.as_raw_handle(),
            octets.as_mut_ptr(),
            4,
            ptr::null_mut(),
            &raw mut *own,
        )
    };
    let lost = Client::new();
    pipe.end(lost.pointer(), Status::SUCCESS);
    let first = port.take_one(0).unwrap().unwrap();
    assert_eq!(first.overlapped.addr(), (&raw const *own).addr());
    // Its own read took the message; the request's was cancelled.
    assert_eq!(
        port.take_one(0).unwrap().unwrap().overlapped,
        lost.pointer()
    );
    // SAFETY: the file is open.
    unsafe { DisconnectNamedPipe(file.as_raw_handle()) };
    for (end, _, error) in STATUSES {
        let client = Client::new();
        pipe.end(client.pointer(), end);
        assert_eq!(dequeue(&port), (error, KEY, client.pointer()), "{end}");
    }
}

/// A call of one of the routines below: error or status, and OVERLAPPED.
type Call = (u32, usize);

struct Calls(Sender<Call>, Mutex<Receiver<Call>>);

impl Calls {
    fn new() -> Self {
        let (sender, receiver) = unbounded();
        Self(sender, Mutex::new(receiver))
    }
}

static OF_BIND: LazyLock<Calls> = LazyLock::new(Calls::new);
static OF_POOL: LazyLock<Calls> = LazyLock::new(Calls::new);

unsafe extern "system" fn bound(error: u32, _octets: u32, overlapped: *mut OVERLAPPED) {
    OF_BIND.0.send((error, overlapped.addr())).unwrap();
}

#[test]
fn bind_io_completion_callback_calls_for_each_end() {
    let (pipe, client) = FilePipe::create().unwrap();
    // SAFETY: the file is open, and the routine is a function of this program.
    let is_bound = unsafe { BindIoCompletionCallback(client.as_raw_handle(), Some(bound), 0) };
    assert_ne!(is_bound, 0);
    let calls = OF_BIND.1.lock();
    for (end, _, error) in STATUSES {
        let client = Client::new();
        pipe.end(client.pointer(), end);
        let (code, of) = calls.recv().unwrap();
        assert_eq!(of, client.pointer().addr());
        // Windows passes the status, and wine its error.
        assert_eq!(code != 0, error != 0, "{end}: {code:#x}");
    }
}

unsafe extern "system" fn pooled(
    _instance: PTP_CALLBACK_INSTANCE,
    _context: *mut c_void,
    overlapped: *mut c_void,
    error: u32,
    _octets: usize,
    _io: PTP_IO,
) {
    OF_POOL.0.send((error, overlapped.addr())).unwrap();
}

#[test]
fn a_thread_pool_calls_for_each_end() {
    let (pipe, client) = FilePipe::create().unwrap();
    // SAFETY: the file is open, and the routine is a function of this program.
    let io = unsafe {
        CreateThreadpoolIo(
            client.as_raw_handle(),
            Some(pooled),
            ptr::null_mut(),
            ptr::null(),
        )
    };
    assert_ne!(io, 0);
    let calls = OF_POOL.1.lock();
    for (end, _, error) in STATUSES {
        let client = Client::new();
        // SAFETY: a request follows.
        unsafe { StartThreadpoolIo(io) };
        pipe.end(client.pointer(), end);
        let (code, of) = calls.recv().unwrap();
        assert_eq!(of, client.pointer().addr());
        assert_eq!(code, error, "{end}");
    }
    // SAFETY: no request is left.
    unsafe { WaitForThreadpoolIoCallbacks(io, 0) };
    // SAFETY: as above.
    unsafe { CloseThreadpoolIo(io) };
}
