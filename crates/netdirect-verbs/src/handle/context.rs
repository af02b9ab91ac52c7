//! Devices, protection domains, and asynchronous events.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{is_empty, made, never_block, outcome};
use crate::sys::{Libraries, bindings as c};

/// An open device.
#[derive(Debug)]
pub(crate) struct Context {
    libraries: &'static Libraries,
    raw: NonNull<c::ibv_context>,
}

// SAFETY: libibverbs allows any thread to use a context.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The limits of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceLimits {
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) registration_size: u64,
    pub(crate) queue_depth: u32,
    pub(crate) sges: u32,
    pub(crate) read_sges: u32,
    pub(crate) completion_queue_depth: u32,
    pub(crate) inbound_reads: u32,
    pub(crate) outbound_reads: u32,
    pub(crate) shared_receive_queues: u32,
    pub(crate) shared_receives: u32,
    pub(crate) shared_receive_sges: u32,
    pub(crate) memory_windows: u32,
    pub(crate) ports: u8,
    pub(crate) has_window_type_1: bool,
    pub(crate) has_window_type_2: bool,
    pub(crate) has_atomics: bool,
}

/// A port of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The link is down, or is not ready for connections yet.
    pub(crate) is_down: bool,
    /// The longest message, in octets.
    pub(crate) longest: u32,
}

/// An event that a device reports unasked. An object is named by the key that it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsyncEvent {
    CompletionQueueBroke(u64),
    QueuePairBroke(u32, QueuePairError),
    /// A queue pair that has failed takes no more from its shared receive queue, and all its results are in the queue.
    LastReceiveEnded(u32),
    SharedReceivesBroke(u64),
    SharedReceivesLow(u64),
    DeviceGone,
    Other(u32),
}

/// The error of a queue pair in an asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePairError {
    /// `IBV_EVENT_QP_FATAL`
    Fatal,
    /// `IBV_EVENT_QP_REQ_ERR`
    Request,
    /// `IBV_EVENT_QP_ACCESS_ERR`
    Access,
}

impl Context {
    /// The names of all devices of this machine.
    pub(crate) fn names(libraries: &'static Libraries) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        with_devices(libraries, |device, name| {
            let _ = device;
            names.push(name.to_owned());
        })?;
        Ok(names)
    }

    /// Opens the device of this name.
    pub(crate) fn open(libraries: &'static Libraries, wanted: &str) -> io::Result<Arc<Self>> {
        let mut opened = Err(io::ErrorKind::NotFound.into());
        with_devices(libraries, |device, name| {
            if name == wanted {
                // SAFETY: the device is one of the list, which is not freed yet.
                opened = made(unsafe { (libraries.verbs.ibv_open_device)(device) });
            }
        })?;
        let context = Self {
            libraries,
            raw: opened?,
        };
        never_block(context.descriptor())?;
        Ok(Arc::new(context))
    }

    pub(crate) fn libraries(&self) -> &'static Libraries {
        self.libraries
    }

    pub(super) fn raw(&self) -> *mut c::ibv_context {
        self.raw.as_ptr()
    }

    /// The functions of the data path, which belong to the device's driver.
    pub(super) fn operations(&self) -> &c::ibv_context_ops {
        let context = self.raw.as_ptr();
        // SAFETY: the context is open as long as `self` exists.
        let table = unsafe { &raw const (*context).ops };
        // SAFETY: libibverbs writes the table before it returns the context. It writes other fields later, to which no reference is
        // made.
        unsafe { &*table }
    }

    /// Returns true if the device speaks iWARP.
    pub(crate) fn is_iwarp(&self) -> bool {
        // SAFETY: the context is open as long as `self` exists.
        let device = unsafe { self.raw.as_ref() }.device;
        // SAFETY: libibverbs keeps the device of an open context.
        let device = unsafe { &*device };
        device.transport_type == c::IBV_TRANSPORT_IWARP
    }

    /// The number of processors' vectors that completion queues can be spread over.
    pub(crate) fn completion_vectors(&self) -> u32 {
        // SAFETY: the context is open as long as `self` exists.
        let context = unsafe { self.raw.as_ref() };
        context.num_comp_vectors.try_into().unwrap_or(0)
    }

    /// A descriptor that is readable when there is an asynchronous event.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open as long as `self` exists.
        let descriptor = unsafe { self.raw.as_ref() }.async_fd;
        // SAFETY: the descriptor is open as long as the context.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    pub(crate) fn limits(&self) -> io::Result<DeviceLimits> {
        let mut attributes = c::ibv_device_attr::default();
        // SAFETY: the context is open, and the structure is one that may be written.
        outcome(unsafe {
            (self.libraries.verbs.ibv_query_device)(self.raw.as_ptr(), &raw mut attributes)
        })?;
        let count = |number: i32| u32::try_from(number).unwrap_or(0);
        let has = |capability| attributes.device_cap_flags & capability != 0;
        Ok(DeviceLimits {
            vendor_id: attributes.vendor_id,
            vendor_part_id: attributes.vendor_part_id,
            registration_size: attributes.max_mr_size,
            queue_depth: count(attributes.max_qp_wr),
            sges: count(attributes.max_sge),
            read_sges: count(attributes.max_sge_rd).max(1),
            completion_queue_depth: count(attributes.max_cqe),
            inbound_reads: count(attributes.max_qp_rd_atom),
            outbound_reads: count(attributes.max_qp_init_rd_atom),
            shared_receive_queues: count(attributes.max_srq),
            shared_receives: count(attributes.max_srq_wr),
            shared_receive_sges: count(attributes.max_srq_sge),
            memory_windows: count(attributes.max_mw),
            ports: attributes.phys_port_cnt,
            has_window_type_1: has(c::IBV_DEVICE_MEM_WINDOW),
            has_window_type_2: has(c::IBV_DEVICE_MEM_WINDOW_TYPE_2A)
                || has(c::IBV_DEVICE_MEM_WINDOW_TYPE_2B),
            has_atomics: attributes.atomic_cap != c::IBV_ATOMIC_NONE,
        })
    }

    /// A port. The first one has the number 1.
    pub(crate) fn port(&self, number: u8) -> io::Result<Port> {
        // SAFETY: the context is open as long as `self` exists.
        unsafe { port(self.libraries, self.raw, number) }
    }

    /// The next asynchronous event; `None` if there is none.
    pub(crate) fn next_event(&self) -> io::Result<Option<AsyncEvent>> {
        let mut event = c::ibv_async_event::default();
        // SAFETY: the context is open, and its descriptor does not block.
        let got = outcome(unsafe {
            (self.libraries.verbs.ibv_get_async_event)(self.raw.as_ptr(), &raw mut event)
        });
        match got {
            Ok(()) => {}
            Err(error) if is_empty(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let read = read_event(&event);
        // SAFETY: the event was got above, and is acknowledged once.
        unsafe { (self.libraries.verbs.ibv_ack_async_event)(&raw mut event) };
        Ok(Some(read))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all objects of the context hold it, so none is left; the context is not used after its last owner.
        let _ = unsafe { (self.libraries.verbs.ibv_close_device)(self.raw.as_ptr()) };
    }
}

/// A port of an open device.
///
/// # Safety
///
/// The context is open.
pub(super) unsafe fn port(
    libraries: &'static Libraries,
    context: NonNull<c::ibv_context>,
    number: u8,
) -> io::Result<Port> {
    let mut attributes = c::ibv_port_attr::default();
    let query = libraries.verbs.ibv_query_port;
    let into = (&raw mut attributes).cast();
    // SAFETY: the caller promises that the context is open. The function writes the part of the structure that its first version had.
    outcome(unsafe { query(context.as_ptr(), number, into) })?;
    let down = [c::IBV_PORT_DOWN, c::IBV_PORT_INIT, c::IBV_PORT_ARMED];
    Ok(Port {
        is_down: down.contains(&attributes.state),
        longest: attributes.max_msg_sz,
    })
}

/// Calls `visit` for each device with its name.
fn with_devices(
    libraries: &'static Libraries,
    mut visit: impl FnMut(*mut c::ibv_device, &str),
) -> io::Result<()> {
    let mut count = 0;
    // SAFETY: the count may be written.
    let list = unsafe { (libraries.verbs.ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        let error = io::Error::last_os_error();
        // Without the kernel's part of RDMA there are no devices.
        return match error.raw_os_error() {
            Some(libc::ENOSYS | libc::ENOENT) => Ok(()),
            _ => Err(error),
        };
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` entries.
        let entry = unsafe { list.add(at) };
        // SAFETY: as above.
        let device = unsafe { *entry };
        // SAFETY: the device is one of the list.
        let name = unsafe { (libraries.verbs.ibv_get_device_name)(device) };
        // SAFETY: the name ends with a zero, and lives as long as the list.
        let name = unsafe { CStr::from_ptr(name) };
        visit(device, &name.to_string_lossy());
    }
    // SAFETY: the list is freed once; devices that were opened stay.
    unsafe { (libraries.verbs.ibv_free_device_list)(list) };
    Ok(())
}

fn read_event(event: &c::ibv_async_event) -> AsyncEvent {
    match event.event_type {
        c::IBV_EVENT_CQ_ERR => {
            // SAFETY: the event is one of a completion queue, so this member of the union was written.
            let queue = unsafe { event.element.cq };
            // SAFETY: the queue exists at least until the event is acknowledged.
            let key = unsafe { (*queue).cq_context };
            AsyncEvent::CompletionQueueBroke(key as u64)
        }
        c::IBV_EVENT_QP_FATAL
        | c::IBV_EVENT_QP_REQ_ERR
        | c::IBV_EVENT_QP_ACCESS_ERR
        | c::IBV_EVENT_QP_LAST_WQE_REACHED => {
            // SAFETY: as above, for an event of a queue pair.
            let pair = unsafe { event.element.qp };
            // SAFETY: as above.
            let number = unsafe { (*pair).qp_num };
            match event.event_type {
                c::IBV_EVENT_QP_LAST_WQE_REACHED => AsyncEvent::LastReceiveEnded(number),
                c::IBV_EVENT_QP_REQ_ERR => {
                    AsyncEvent::QueuePairBroke(number, QueuePairError::Request)
                }
                c::IBV_EVENT_QP_ACCESS_ERR => {
                    AsyncEvent::QueuePairBroke(number, QueuePairError::Access)
                }
                _ => AsyncEvent::QueuePairBroke(number, QueuePairError::Fatal),
            }
        }
        c::IBV_EVENT_SRQ_ERR | c::IBV_EVENT_SRQ_LIMIT_REACHED => {
            // SAFETY: as above, for an event of a shared receive queue.
            let queue = unsafe { event.element.srq };
            // SAFETY: as above.
            let key = unsafe { (*queue).srq_context } as u64;
            if event.event_type == c::IBV_EVENT_SRQ_ERR {
                AsyncEvent::SharedReceivesBroke(key)
            } else {
                AsyncEvent::SharedReceivesLow(key)
            }
        }
        c::IBV_EVENT_DEVICE_FATAL => AsyncEvent::DeviceGone,
        other => AsyncEvent::Other(other),
    }
}

/// The protection domain of an adapter.
#[derive(Debug)]
pub(crate) struct ProtectionDomain {
    context: Arc<Context>,
    raw: NonNull<c::ibv_pd>,
}

// SAFETY: libibverbs allows any thread to use a protection domain.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    pub(crate) fn new(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open.
        let raw = unsafe { (context.libraries.verbs.ibv_alloc_pd)(context.raw()) };
        Ok(Arc::new(Self {
            raw: made(raw)?,
            context: Arc::clone(context),
        }))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn raw(&self) -> *mut c::ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: all objects of the domain hold it, so none is left.
        let _ = unsafe { (self.context.libraries.verbs.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}
