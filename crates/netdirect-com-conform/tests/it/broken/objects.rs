//! Objects with a wrong identity, wrong counts, and wrong statuses for mistakes of clients.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use netdirect::Status;
use netdirect_com::abi::*;

use super::library::{
    create_completion_queue, create_memory_window, get, open_adapter, original, put,
};
use super::{Line, line};

pub(super) const LINES: &[Line] = &[
    line(
        "AddRef of a window counts nothing",
        |broken| broken.tables.window.unknown.add_ref = no_count,
        &["GEN-001.references"],
    ),
    line(
        "a listener leaves a pointer for an interface that it does not have",
        |broken| broken.tables.listener.unknown().query_interface = left,
        &["GEN-003.unknown"],
    ),
    line(
        "a region has every interface",
        |broken| broken.tables.region.unknown().query_interface = every,
        &["GEN-003.unknown"],
    ),
    line(
        "CreateMemoryWindow knows IUnknown alone",
        |broken| broken.tables.adapter.create_memory_window = unknown_alone,
        &[
            "GEN-001.references",
            "GEN-003.unknown",
            "GEN-004.own",
            "GEN-021.same",
            "AMB-070.references",
            "MW-013.token",
        ],
    ),
    line(
        "a window does not know its own interface",
        |broken| broken.tables.window.unknown.query_interface = not_itself,
        &["GEN-004.own", "GEN-021.same"],
    ),
    line(
        "a connector has no IND2Overlapped",
        |broken| broken.tables.connector.unknown().query_interface = not_overlapped,
        &["GEN-021.same"],
    ),
    line(
        "OpenAdapter has a status of its own for an unknown interface",
        |broken| broken.tables.provider.open_adapter = another_status,
        &["PROV-020.unknown"],
    ),
    line(
        "Release of a completion queue counts what the library has",
        |broken| broken.tables.cq.unknown().release = one_more,
        &["AMB-070.references"],
    ),
    line(
        "Release of a connector counts a request that is in flight",
        |broken| {
            broken.tables.connector.notify_disconnect = remember;
            broken.tables.connector.unknown().release = one_more_if_busy;
        },
        &["TST-027.connector"],
    ),
    line(
        "an adapter has one overlapped file",
        |broken| broken.tables.adapter.create_overlapped_file = one_file,
        &["AMB-025.file"],
    ),
    line(
        "a completion queue without a file gets one",
        |broken| broken.tables.adapter.create_completion_queue = own_file,
        &["AMB-025.file"],
    ),
    line(
        "Register takes memory that is not there",
        |broken| broken.tables.region.register = takes_all,
        &["MR-009.unreadable"],
    ),
    line(
        "Register of nothing has the status for memory that is not there",
        |broken| broken.tables.region.register = no_memory,
        &["TST-083.null"],
    ),
    line(
        "a completion queue's GetNotifyAffinity needs no pointers",
        |broken| broken.tables.cq.get_notify_affinity = no_pointers,
        &["CQ-006.null"],
    ),
    line(
        "a shared receive queue's GetNotifyAffinity needs no pointers",
        |broken| broken.tables.srq.get_notify_affinity = no_pointers,
        &["SRQ-005.null"],
    ),
    line(
        "Notify takes every other kind for any result",
        |broken| broken.tables.cq.notify = every_kind,
        &["CQ-030.kind"],
    ),
    line(
        "Receive takes a null array for an empty one",
        |broken| broken.tables.qp.receive = receive,
        &["QP-075.null"],
    ),
    line(
        "Send takes a null array for an empty one",
        |broken| broken.tables.qp.send = send,
        &["QP-075.null"],
    ),
    line(
        "Read has a status of its own for a null array",
        |broken| broken.tables.qp.read = read,
        &["QP-075.null"],
    ),
    line(
        "Write has a status of its own for a null array",
        |broken| broken.tables.qp.write = write,
        &["QP-075.null"],
    ),
    line(
        "a window has version 1's functions, and no token",
        |broken| broken.tables.window.get_remote_token = no_token,
        &["MW-013.token"],
    ),
];

/// The first three functions of a table of an object with overlapped requests.
trait OfUnknown {
    fn unknown(&mut self) -> &mut UnknownTable;
}

macro_rules! of_unknown {
    ($($table:ty),*) => {
        $(impl OfUnknown for $table {
            fn unknown(&mut self) -> &mut UnknownTable {
                &mut self.overlapped.unknown
            }
        })*
    };
}

of_unknown!(
    CompletionQueueTable,
    MemoryRegionTable,
    ConnectorTable,
    ListenerTable
);

unsafe extern "system" fn no_count(_: This) -> u32 {
    1
}

unsafe extern "system" fn left(this: This, iid: *const Guid, object: *mut This) -> Status {
    let status = original!(
        listener
            .overlapped
            .unknown
            .query_interface(this, iid, object)
    );
    if status == Status::NO_INTERFACE {
        put(object, this);
    }
    status
}

unsafe extern "system" fn every(this: This, iid: *const Guid, object: *mut This) -> Status {
    let status = original!(region.overlapped.unknown.query_interface(this, iid, object));
    if status == Status::NO_INTERFACE {
        original!(region.overlapped.unknown.add_ref(this));
        put(object, this);
    }
    Status::SUCCESS
}

unsafe extern "system" fn unknown_alone(this: This, iid: *const Guid, object: *mut This) -> Status {
    if get(iid) == IID_IUNKNOWN {
        // SAFETY: the client's arguments.
        return unsafe { create_memory_window(this, iid, object) };
    }
    put(object, ptr::null_mut());
    Status::NO_INTERFACE
}

unsafe extern "system" fn not_itself(this: This, iid: *const Guid, object: *mut This) -> Status {
    if get(iid) == IID_ND2_MEMORY_WINDOW {
        put(object, ptr::null_mut());
        return Status::NO_INTERFACE;
    }
    original!(window.unknown.query_interface(this, iid, object))
}

unsafe extern "system" fn not_overlapped(
    this: This,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    if get(iid) == IID_ND2_OVERLAPPED {
        put(object, ptr::null_mut());
        return Status::NO_INTERFACE;
    }
    original!(
        connector
            .overlapped
            .unknown
            .query_interface(this, iid, object)
    )
}

unsafe extern "system" fn another_status(
    this: This,
    iid: *const Guid,
    id: u64,
    object: *mut This,
) -> Status {
    // SAFETY: the client's arguments.
    match unsafe { open_adapter(this, iid, id, object) } {
        Status::NO_INTERFACE => Status::INVALID_PARAMETER_1,
        status => status,
    }
}

unsafe extern "system" fn one_more(this: This) -> u32 {
    original!(cq.overlapped.unknown.release(this)).max(1)
}

/// A connector has a request in flight.
static BUSY: AtomicBool = AtomicBool::new(false);

unsafe extern "system" fn remember(this: This, overlapped: *mut Overlapped) -> Status {
    BUSY.store(true, Ordering::Relaxed);
    original!(connector.notify_disconnect(this, overlapped))
}

unsafe extern "system" fn one_more_if_busy(this: This) -> u32 {
    let left = original!(connector.overlapped.unknown.release(this));
    if left == 0 && BUSY.swap(false, Ordering::Relaxed) {
        1
    } else {
        left
    }
}

/// An adapter, and its file, with one additional reference.
struct OneFile(This, Handle);

// SAFETY: any thread may use a handle.
unsafe impl Send for OneFile {}

static FILE: Mutex<Option<OneFile>> = Mutex::new(None);

unsafe extern "system" fn one_file(this: This, file: *mut Handle) -> Status {
    let mut known = FILE.lock().unwrap();
    let own = known.as_ref().filter(|one| one.0 == this).map(|one| one.1);
    let handle = match own {
        Some(handle) => handle,
        None => {
            let status = original!(adapter.create_overlapped_file(this, file));
            if status != Status::SUCCESS {
                return status;
            }
            // No other adapter gets this address.
            original!(adapter.unknown.add_ref(this));
            let handle = get(file);
            *known = Some(OneFile(this, handle));
            handle
        }
    };
    outlive_a_close(handle);
    put(file, handle);
    Status::SUCCESS
}

/// Lets the client close the file once more.
#[cfg(unix)]
fn outlive_a_close(file: Handle) {
    let table: HandleTable = get(get(file.cast::<*const HandleTable>()));
    // SAFETY: the file is alive, because a reference was added when it was made.
    unsafe { (table.add_ref)(file) };
}

/// Lets the client close the file in vain.
#[cfg(windows)]
fn outlive_a_close(file: Handle) {
    use windows_sys::Win32::Foundation::{HANDLE_FLAG_PROTECT_FROM_CLOSE, SetHandleInformation};
    let flag = HANDLE_FLAG_PROTECT_FROM_CLOSE;
    // SAFETY: the file's handle, which is open.
    let is_kept = unsafe { SetHandleInformation(file, flag, flag) };
    assert_ne!(is_kept, 0);
}

unsafe extern "system" fn own_file(
    this: This,
    iid: *const Guid,
    mut file: Handle,
    depth: u32,
    group: u16,
    affinity: usize,
    object: *mut This,
) -> Status {
    if file.is_null() {
        original!(adapter.create_overlapped_file(this, &raw mut file));
    }
    // SAFETY: the client's arguments, and a file.
    unsafe { create_completion_queue(this, iid, file, depth, group, affinity, object) }
}

fn is_there(start: *const c_void) -> bool {
    start.addr() > 0x10000
}

unsafe extern "system" fn takes_all(
    this: This,
    start: *const c_void,
    size: usize,
    flags: u32,
    overlapped: *mut Overlapped,
) -> Status {
    if !start.is_null() && !is_there(start) {
        return Status::SUCCESS;
    }
    original!(region.register(this, start, size, flags, overlapped))
}

unsafe extern "system" fn no_memory(
    this: This,
    start: *const c_void,
    size: usize,
    flags: u32,
    overlapped: *mut Overlapped,
) -> Status {
    if !is_there(start) {
        return Status::ACCESS_VIOLATION;
    }
    original!(region.register(this, start, size, flags, overlapped))
}

unsafe extern "system" fn no_pointers(_: This, group: *mut u16, affinity: *mut usize) -> Status {
    put(group, 0);
    put(affinity, 0);
    Status::SUCCESS
}

unsafe extern "system" fn every_kind(this: This, kind: u32, overlapped: *mut Overlapped) -> Status {
    let kind = if kind > 2 { 1 } else { kind };
    original!(cq.notify(this, kind, overlapped))
}

unsafe extern "system" fn receive(
    this: This,
    context: *mut c_void,
    sges: *const Sge,
    count: u32,
) -> Status {
    let count = if sges.is_null() { 0 } else { count };
    original!(qp.receive(this, context, sges, count))
}

unsafe extern "system" fn send(
    this: This,
    context: *mut c_void,
    sges: *const Sge,
    count: u32,
    flags: u32,
) -> Status {
    let count = if sges.is_null() { 0 } else { count };
    original!(qp.send(this, context, sges, count, flags))
}

macro_rules! transfer {
    ($($name:ident),*) => {$(
        unsafe extern "system" fn $name(
            this: This,
            context: *mut c_void,
            sges: *const Sge,
            count: u32,
            address: u64,
            token: u32,
            flags: u32,
        ) -> Status {
            if sges.is_null() && count > 0 {
                return Status::ACCESS_VIOLATION;
            }
            original!(qp.$name(this, context, sges, count, address, token, flags))
        }
    )*};
}

transfer!(read, write);

unsafe extern "system" fn no_token(_: This) -> u32 {
    0
}
