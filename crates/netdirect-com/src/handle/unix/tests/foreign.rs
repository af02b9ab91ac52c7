//! Objects with other tables, as another library has them.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use netdirect::Status;
use parking_lot::Mutex;

use crate::abi::{
    Bool, EventTable, FileTable, Handle, HandleKind, HandleTable, Overlapped, Packet, Watcher,
};
use crate::handle::unix::refs::table_size;
use crate::handle::{EventRef, FileRef, PortRef};

/// An event that reports when it is watched.
#[repr(C)]
pub(super) struct Event {
    table: &'static EventTable,
    inner: EventRef,
    watched: Sender<()>,
}

static EVENT: EventTable = EventTable {
    handle: HandleTable {
        size: table_size::<EventTable>(),
        kind: HandleKind::EVENT,
        add_ref: add_ref::<Event>,
        release: release::<Event>,
        close: release::<Event>,
    },
    set,
    reset,
    take,
    watch,
    unwatch,
    hold,
    let_go,
};

impl Event {
    pub(super) fn create(has_manual_reset: bool, is_set: bool) -> (EventRef, Receiver<()>) {
        let (watched, is_watched) = unbounded();
        let event = Arc::new(Self {
            table: &EVENT,
            inner: EventRef::create(has_manual_reset, is_set),
            watched,
        });
        let handle = Arc::into_raw(event).cast_mut().cast();
        // SAFETY: the table belongs to the object, which has one reference.
        (
            unsafe { EventRef::from_reference(handle, &EVENT) },
            is_watched,
        )
    }
}

unsafe extern "system" fn add_ref<T>(handle: Handle) {
    // SAFETY: the object was made by `Arc::into_raw`.
    unsafe { Arc::increment_strong_count(handle.cast::<T>().cast_const()) };
}

unsafe extern "system" fn release<T>(handle: Handle) {
    // SAFETY: the object was made by `Arc::into_raw`.
    unsafe { Arc::decrement_strong_count(handle.cast::<T>().cast_const()) };
}

fn event<'a>(handle: Handle) -> &'a Event {
    // SAFETY: only these events have the table.
    unsafe { &*handle.cast::<Event>() }
}

unsafe extern "system" fn set(handle: Handle) {
    event(handle).inner.set();
}

unsafe extern "system" fn reset(handle: Handle) {
    event(handle).inner.reset();
}

unsafe extern "system" fn take(handle: Handle) -> Bool {
    event(handle).inner.take().into()
}

unsafe extern "system" fn watch(handle: Handle, watcher: *const Watcher) {
    // SAFETY: the caller's promise.
    unsafe { event(handle).inner.watch(watcher) };
    let _ = event(handle).watched.send(());
}

unsafe extern "system" fn unwatch(handle: Handle, watcher: *const Watcher) {
    event(handle).inner.unwatch(watcher);
}

unsafe extern "system" fn hold(handle: Handle) -> Bool {
    // SAFETY: the caller's promise.
    unsafe { event(handle).inner.hold() }.into()
}

unsafe extern "system" fn let_go(handle: Handle, is_taken: Bool) {
    // SAFETY: the caller's promise.
    unsafe { event(handle).inner.let_go(is_taken != 0) };
}

/// A file whose requests end when a test ends them.
#[repr(C)]
pub(super) struct File {
    table: &'static FileTable,
    port: Mutex<Option<(PortRef, usize)>>,
    watchers: Mutex<Vec<*const Watcher>>,
    watched: Sender<()>,
}

// SAFETY: any thread may call watchers.
unsafe impl Send for File {}
// SAFETY: as above.
unsafe impl Sync for File {}

static FILE: FileTable = FileTable {
    handle: HandleTable {
        size: table_size::<FileTable>(),
        kind: HandleKind::FILE,
        add_ref: add_ref::<File>,
        release: release::<File>,
        close: release::<File>,
    },
    associate,
    watch: watch_file,
    unwatch: unwatch_file,
    is_of_parent: never,
};

impl File {
    pub(super) fn create() -> (Arc<Self>, FileRef, Receiver<()>) {
        let (watched, is_watched) = unbounded();
        let file = Arc::new(Self {
            table: &FILE,
            port: Mutex::new(None),
            watchers: Mutex::new(Vec::new()),
            watched,
        });
        let handle: *const Self = Arc::as_ptr(&file);
        // SAFETY: the object lives, and has a table of files.
        let reference = unsafe { FileRef::retain(handle.cast_mut().cast::<c_void>()) };
        (file, reference.unwrap(), is_watched)
    }

    /// The end of a request.
    pub(super) fn end(&self, overlapped: *mut Overlapped, status: Status) {
        // SAFETY: the request is in flight.
        let event = unsafe { (*overlapped).event };
        // SAFETY: as above.
        let internal = unsafe { &raw mut (*overlapped).internal };
        // SAFETY: as above.
        let internal = unsafe { AtomicUsize::from_ptr(internal) };
        // SAFETY: null, or an event that lives.
        let event = unsafe { EventRef::retain(event) };
        internal.store(status.bits() as usize, Ordering::Release);
        if let Some((port, key)) = &*self.port.lock() {
            port.post(&Packet {
                key: *key,
                overlapped,
                internal: status.bits() as usize,
                bytes: 0,
            });
        }
        if let Ok(event) = event {
            event.set();
        }
        for watcher in &*self.watchers.lock() {
            // SAFETY: the watcher lives until it was removed, which needs the lock.
            let wake = unsafe { (**watcher).wake };
            // SAFETY: as above.
            unsafe { wake(*watcher) };
        }
    }
}

fn file<'a>(handle: Handle) -> &'a File {
    // SAFETY: only these files have the table.
    unsafe { &*handle.cast::<File>() }
}

unsafe extern "system" fn associate(handle: Handle, port: Handle, key: usize) -> Status {
    // SAFETY: the caller's promise.
    let port = unsafe { PortRef::retain(port) };
    let mut tie = file(handle).port.lock();
    match port {
        Err(status) => status,
        Ok(_) if tie.is_some() => Status::INVALID_PARAMETER,
        Ok(port) => {
            *tie = Some((port, key));
            Status::SUCCESS
        }
    }
}

unsafe extern "system" fn watch_file(handle: Handle, watcher: *const Watcher) {
    file(handle).watchers.lock().push(watcher);
    let _ = file(handle).watched.send(());
}

unsafe extern "system" fn unwatch_file(handle: Handle, watcher: *const Watcher) {
    let mut watchers = file(handle).watchers.lock();
    watchers.retain(|other| *other != watcher);
}

unsafe extern "system" fn never(_: Handle) -> Bool {
    0
}
