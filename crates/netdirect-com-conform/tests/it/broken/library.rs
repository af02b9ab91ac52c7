//! A library that exports softnd's objects with other functions in their tables.

use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use netdirect::Status;
use netdirect_com::abi::*;
use netdirect_com::export::get_class_object;

use crate::client::{End, SOFTND, adapter, call, close, file, provider, release};

/// The tables of all objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) provider: ProviderTable,
    pub(crate) adapter: AdapterTable,
    pub(crate) cq: CompletionQueueTable,
    pub(crate) region: MemoryRegionTable,
    pub(crate) window: MemoryWindowTable,
    pub(crate) srq: SharedReceiveQueueTable,
    pub(crate) qp: QueuePairTable,
    pub(crate) connector: ConnectorTable,
    pub(crate) listener: ListenerTable,
}

/// The tables of softnd.
pub(crate) static ORIGINAL: LazyLock<Tables> = LazyLock::new(|| {
    let (provider, adapter) = (provider(&SOFTND), adapter(&SOFTND));
    let file = file(adapter);
    let end = End::new(adapter, file);
    let (mut window, mut srq, mut listener) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let (iid, out) = (&IID_ND2_MEMORY_WINDOW, &raw mut window);
    let returned = call!(adapter, AdapterTable, create_memory_window(iid, out));
    assert_eq!(returned, Status::SUCCESS);
    let (iid, out) = (&IID_ND2_SHARED_RECEIVE_QUEUE, &raw mut srq);
    let returned = call!(
        adapter,
        AdapterTable,
        create_shared_receive_queue(iid, file, 4, 1, 0, 0, 0, out)
    );
    assert_eq!(returned, Status::SUCCESS);
    let (iid, out) = (&IID_ND2_LISTENER, &raw mut listener);
    let returned = call!(adapter, AdapterTable, create_listener(iid, file, out));
    assert_eq!(returned, Status::SUCCESS);
    let tables = Tables {
        provider: table(provider),
        adapter: table(adapter),
        cq: table(end.cq),
        region: table(end.region),
        window: table(window),
        srq: table(srq),
        qp: table(end.qp),
        connector: table(end.connector),
        listener: table(listener),
    };
    end.release();
    close(file);
    for object in [window, srq, listener, adapter, provider] {
        release(object);
    }
    tables
});

/// Calls a function of softnd's own tables.
macro_rules! original {
    ($($path:ident).+ ($($arg:expr),* $(,)?)) => {{
        let function = $crate::broken::library::ORIGINAL.$($path).+;
        // SAFETY: the arguments of the client's call, or others that it may pass.
        unsafe { function($($arg),*) }
    }};
}

pub(crate) use original;

fn table<T: Copy>(object: This) -> T {
    get(get(object.cast::<*const T>()))
}

/// Reads the value at an address.
pub(crate) fn get<T: Copy>(at: *const T) -> T {
    // SAFETY: tests pass pointers of objects and of clients, which are alive.
    unsafe { at.read() }
}

/// Writes to an address, which may be null.
pub(crate) fn put<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: as above.
        unsafe { at.write(value) };
    }
}

/// The tables that new objects get.
static CURRENT: AtomicPtr<Tables> = AtomicPtr::new(ptr::null_mut());

/// From now on new objects get these tables, which live for ever: an object may outlive its test.
pub(crate) fn use_tables(tables: Tables) {
    CURRENT.store(Box::leak(Box::new(tables)), Ordering::Release);
}

fn current() -> *const Tables {
    CURRENT.load(Ordering::Acquire)
}

/// Gives an object that a call has made another table.
fn dress<T>(status: Status, made: *const This, table: *const T) {
    if status == Status::SUCCESS {
        put(get(made).cast::<*const T>(), table);
    }
}

macro_rules! field {
    ($field:ident) => {{
        let tables = current();
        // SAFETY: the tables live for ever.
        unsafe { &raw const (*tables).$field }
    }};
}

macro_rules! dressing {
    ($($name:ident = $table:ident.$method:ident($($arg:ident: $type:ty),*) makes $made:ident;)*) => {$(
        pub(crate) unsafe extern "system" fn $name(this: This, $($arg: $type,)* made: *mut This) -> Status {
            let status = original!($table.$method(this, $($arg,)* made));
            dress(status, made, field!($made));
            status
        }
    )*};
}

dressing! {
    open_adapter = provider.open_adapter(iid: *const Guid, id: u64) makes adapter;
    create_completion_queue = adapter.create_completion_queue(
        iid: *const Guid, file: Handle, depth: u32, group: u16, affinity: usize) makes cq;
    create_memory_region = adapter.create_memory_region(iid: *const Guid, file: Handle) makes region;
    create_memory_window = adapter.create_memory_window(iid: *const Guid) makes window;
    create_shared_receive_queue = adapter.create_shared_receive_queue(
        iid: *const Guid, file: Handle, depth: u32, sges: u32, threshold: u32, group: u16, affinity: usize) makes srq;
    create_queue_pair = adapter.create_queue_pair(
        iid: *const Guid, receives: This, initiated: This, context: *mut c_void, receive_depth: u32, initiator_depth: u32,
        receive_sges: u32, initiator_sges: u32, inline: u32) makes qp;
    create_connector = adapter.create_connector(iid: *const Guid, file: Handle) makes connector;
    create_listener = adapter.create_listener(iid: *const Guid, file: Handle) makes listener;
}

/// Tables that break nothing.
pub(crate) fn whole() -> Tables {
    let mut tables = *ORIGINAL;
    tables.provider.open_adapter = open_adapter;
    tables.adapter.create_completion_queue = create_completion_queue;
    tables.adapter.create_memory_region = create_memory_region;
    tables.adapter.create_memory_window = create_memory_window;
    tables.adapter.create_shared_receive_queue = create_shared_receive_queue;
    tables.adapter.create_queue_pair = create_queue_pair;
    tables.adapter.create_connector = create_connector;
    tables.adapter.create_listener = create_listener;
    tables
}

/// `DllGetClassObject`.
pub(crate) unsafe extern "system" fn class_object(
    _class: *const Guid,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    // SAFETY: the client's pointers.
    let status = unsafe { get_class_object(&SOFTND, iid, object) };
    dress(status, object, field!(provider));
    status
}
