//! Overlapped files where a handle points to a table of functions.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use netdirect::{Error, OverlappedFile, Result, Status};
use parking_lot::Mutex;
use rdma_buffer::forks::forked;

use crate::abi::{Bool, FileTable, Handle, HandleKind, HandleTable, Overlapped, Packet, Watcher};
use crate::context;
use crate::export::alive::ALIVE;
use crate::handle::PortRef;

/// An overlapped file. Its handle is a pointer to it.
#[repr(C)]
#[derive(Debug)]
pub(in crate::export) struct File {
    table: &'static FileTable,
    /// The references of clients, which share one of the `Arc`. Objects and requests of the file have their own.
    references: AtomicUsize,
    file: Arc<dyn OverlappedFile>,
    port: Mutex<Option<(PortRef, usize)>>,
    watchers: Mutex<Vec<Watching>>,
    /// How many forks this process had behind it when the file was made.
    forks: u32,
}

/// A watcher, which lives until `unwatch`.
#[derive(Debug, PartialEq, Eq)]
struct Watching(*const Watcher);

// SAFETY: any thread may call a watcher.
unsafe impl Send for Watching {}

static TABLE: FileTable = FileTable {
    handle: HandleTable {
        #[expect(clippy::cast_possible_truncation, reason = "a table of a few words")]
        size: size_of::<FileTable>() as u32,
        kind: HandleKind::FILE,
        add_ref,
        release,
        // Objects of a closed file remain usable, and their requests still go to its port.
        close: release,
    },
    associate,
    watch,
    unwatch,
    is_of_parent,
};

impl File {
    /// The handle of a new file.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "Windows may have no room for a file"
    )]
    pub(in crate::export) fn create(file: Arc<dyn OverlappedFile>) -> Result<Handle> {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let file = Arc::new(Self {
            table: &TABLE,
            references: AtomicUsize::new(1),
            file,
            port: Mutex::new(None),
            watchers: Mutex::new(Vec::new()),
            forks: forked(),
        });
        Ok(Arc::into_raw(file).cast_mut().cast())
    }

    /// The file of this image behind a handle.
    ///
    /// # Errors
    ///
    /// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null, an object of another kind, or a file of another library (ADPT-086).
    pub(in crate::export) fn from_handle(handle: Handle) -> Result<Arc<Self>> {
        let wrong = |what| Error::new(Status::INVALID_HANDLE, what);
        let object = handle.cast::<*const FileTable>();
        if !context::may_be_object(object) {
            return Err(wrong("no overlapped file"));
        }
        // SAFETY: a handle points to an object that begins with a pointer to its table, and is not closed (export, "the promise of
        // clients").
        let table = unsafe { object.read() };
        if !ptr::eq(table, &raw const TABLE) {
            return Err(wrong("not an overlapped file of this library"));
        }
        let file = handle.cast::<Self>().cast_const();
        // SAFETY: the table is that of `create`, which has made the object by `Arc::into_raw`, and the client has a reference.
        unsafe { Arc::increment_strong_count(file) };
        // SAFETY: the reference that was just counted.
        Ok(unsafe { Arc::from_raw(file) })
    }

    /// The provider's file.
    pub(in crate::export) fn file(&self) -> &Arc<dyn OverlappedFile> {
        &self.file
    }

    /// The status of a request of an object of this file has been written.
    pub(in crate::export) fn ended(&self) {
        let watchers = self.watchers.lock();
        for watcher in &*watchers {
            // SAFETY: a watcher lives until `unwatch` has returned, which takes the lock.
            let wake = unsafe { (*watcher.0).wake };
            // SAFETY: the watcher's own function; it calls no function of this file.
            unsafe { wake(watcher.0) };
        }
    }

    /// Queues the end of a request of an object of this file.
    pub(in crate::export) fn post(&self, overlapped: *mut Overlapped, status: Status) {
        let port = self.port.lock().clone();
        if let Some((port, key)) = port {
            port.post(&Packet {
                key,
                overlapped,
                internal: status.bits() as usize,
                bytes: 0,
            });
        }
    }

    /// Gives up files that clients have closed: here `CloseHandle` has done so.
    pub(in crate::export) fn collect_some() {}

    /// As [`collect_some`](Self::collect_some).
    pub(in crate::export) fn collect_all() {}
}

unsafe extern "system" fn add_ref(handle: Handle) {
    // SAFETY: only files of this library have this table, and the caller has a reference.
    let file = unsafe { &*handle.cast::<File>() };
    file.references.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "system" fn release(handle: Handle) {
    let file = handle.cast::<File>().cast_const();
    // SAFETY: as above; the caller gives its reference back.
    let references = unsafe { &(*file).references };
    if references.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: `create` has made the `Arc`, and this was the last reference of clients.
        unsafe { Arc::decrement_strong_count(file) };
        // Last, as for objects. A request that is just being ended may keep the file a little longer, and its object has waited for it.
        ALIVE.fetch_sub(1, Ordering::Release);
    }
}

unsafe extern "system" fn watch(handle: Handle, watcher: *const Watcher) {
    // SAFETY: only files of this library have this table, and the caller has a reference.
    let file = unsafe { &*handle.cast::<File>() };
    file.watchers.lock().push(Watching(watcher));
}

unsafe extern "system" fn unwatch(handle: Handle, watcher: *const Watcher) {
    // SAFETY: as above.
    let file = unsafe { &*handle.cast::<File>() };
    file.watchers.lock().retain(|known| known.0 != watcher);
}

unsafe extern "system" fn is_of_parent(handle: Handle) -> Bool {
    // SAFETY: only files of this library have this table, and the caller has a reference.
    let file = unsafe { &*handle.cast::<File>() };
    Bool::from(file.forks != forked())
}

unsafe extern "system" fn associate(handle: Handle, port: Handle, key: usize) -> Status {
    // SAFETY: only files of this library have this table, and the caller has a reference.
    let file = unsafe { &*handle.cast::<File>() };
    // SAFETY: the caller has a reference to the port (export, "the promise of clients").
    let port = match unsafe { PortRef::retain(port) } {
        Ok(port) => port,
        Err(status) => return status,
    };
    let mut tie = file.port.lock();
    if tie.is_some() {
        return Status::INVALID_PARAMETER;
    }
    *tie = Some((port, key));
    Status::SUCCESS
}
