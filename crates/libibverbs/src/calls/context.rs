//! Opened devices, and their asynchronous events.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softverbs::{AsyncEvent, AsyncEventKind, Errno, Result};

use super::objects::{Context, Device};
use super::table;
use crate::abi::constants::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_SRQ_LIMIT_REACHED,
};
use crate::abi::objects::ibv_async_event;
use crate::border::{
    Handle, InOut, Output, ParentsDescriptor, PerProcess, cancellable, guarded, minus_one, null,
};
use crate::process;

/// Makes the structure of an opened device.
pub(crate) fn show(
    device: Handle<Device>,
    context: Arc<softverbs::Context>,
) -> Result<Handle<Context>> {
    let mut c = table::functions();
    c.context.device = device.raw();
    // No call of the program goes to the kernel by this descriptor. Programs duplicate it, hand it to other processes, and poll it: it is that
    // of the device node, as `nd run` shows it.
    let node = File::open("/dev/null");
    let node = node.map_err(|failure| {
        let errno = failure.raw_os_error().unwrap_or(libc::EMFILE);
        softverbs::Error::new(
            Errno::from_raw_os_error(errno),
            format!("cannot open a descriptor for the device: {failure}"),
        )
    })?;
    c.context.cmd_fd = node.as_raw_fd();
    let shown = ParentsDescriptor::new(context.descriptor());
    c.context.async_fd = shown.number();
    let handle = Handle::new(c, Context(context, shown, node));
    handle.get()?.rust().0.tag().set(handle.tag());
    Ok(handle)
}

pub(crate) extern "C" fn open(device: Handle<Device>) -> Handle<Context> {
    null(|| {
        let of_list = process::device(device.get()?.rust().index)?;
        show(
            device,
            softverbs::Context::open(&process::process()?, &of_list)?,
        )
    })
}

/// Structures of devices that the program has closed with objects left. The objects name them until they are destroyed.
static CLOSED: PerProcess<Mutex<Vec<Handle<Context>>>> = PerProcess::new();

pub(crate) extern "C" fn close(context: Handle<Context>) -> c_int {
    minus_one(|| {
        let Some(object) = context.get_own()? else {
            return Ok(0);
        };
        object.rust().0.close();
        let mut closed = CLOSED.get().lock().unwrap_or_else(PoisonError::into_inner);
        if !closed.iter().any(|known| known.tag() == context.tag()) {
            closed.push(context);
        }
        // Also those of before whose objects the program has destroyed since.
        closed.retain(|context| {
            let has_objects = context
                .get()
                .is_ok_and(|object| object.rust().0.has_objects());
            if !has_objects {
                context.release();
            }
            has_objects
        });
        Ok(0)
    })
}

/// An event of a kind at an element.
type OpenEvent = (usize, c_int, AsyncEvent);

/// Events that programs have got and not acknowledged. A program acknowledges by a copy of the structure.
static OPEN: PerProcess<Mutex<Vec<OpenEvent>>> = PerProcess::new();

fn open_events() -> MutexGuard<'static, Vec<OpenEvent>> {
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) extern "C-unwind" fn get_async_event(
    context: Handle<Context>,
    to: Output<ibv_async_event>,
) -> c_int {
    let get = || {
        let event = context.get()?.rust().0.get_async_event()?;
        let event_type = match event.kind() {
            AsyncEventKind::CompletionQueueError => IBV_EVENT_CQ_ERR,
            AsyncEventKind::QueuePairFatal => IBV_EVENT_QP_FATAL,
            AsyncEventKind::LastReceiveReached => IBV_EVENT_QP_LAST_WQE_REACHED,
            AsyncEventKind::SharedReceiveLimit => IBV_EVENT_SRQ_LIMIT_REACHED,
            _ => IBV_EVENT_DEVICE_FATAL,
        };
        let element = Handle::<Context>::tagged(event.tag().unwrap_or(0)).raw::<c_void>();
        open_events().push((element.addr(), event_type, event));
        to.set(ibv_async_event {
            element,
            event_type,
        });
        Ok(0)
    };
    cancellable(|| minus_one(get))
}

pub(crate) extern "C" fn ack_async_event(event: InOut<ibv_async_event>) {
    let _ = guarded(|| {
        let acknowledged = event.get()?;
        let (element, event_type) = (acknowledged.element.addr(), acknowledged.event_type);
        let mut open = open_events();
        let same = open
            .iter()
            .position(|(subject, kind, _)| (*subject, *kind) == (element, event_type));
        let event = same.map(|index| open.swap_remove(index).2);
        drop(open);
        if let Some(event) = event {
            event.acknowledge();
        }
        Ok(())
    });
}
