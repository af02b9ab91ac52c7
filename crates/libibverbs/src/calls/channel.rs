//! Completion channels.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use softverbs::{CompletionChannel, Result};

use super::objects::{Channel, Context, Cq};
use crate::abi::describe::Zeroed;
use crate::abi::objects::ibv_comp_channel;
use crate::border::{
    Handle, Output, ParentsDescriptor, cancellable, code, guarded_quick, minus_one, null,
};

/// Makes the structure of a channel.
pub(crate) fn show(context: Handle<Context>, channel: Arc<CompletionChannel>) -> Handle<Channel> {
    let mut c = ibv_comp_channel::zeroed();
    c.context = context.raw();
    let shown = ParentsDescriptor::new(channel.descriptor());
    c.fd = shown.number();
    Handle::new(c, Channel(channel, shown))
}

pub(crate) extern "C" fn create(context: Handle<Context>) -> Handle<Channel> {
    null(|| {
        let channel = CompletionChannel::create(&context.get()?.rust().0)?;
        Ok(show(context, channel))
    })
}

pub(crate) fn destroy_handle(channel: Handle<Channel>) -> Result<()> {
    if let Some(object) = channel.get_own()? {
        object.rust().0.destroy()?;
        channel.release();
    }
    Ok(())
}

pub(crate) extern "C" fn destroy(channel: Handle<Channel>) -> c_int {
    code(|| destroy_handle(channel))
}

pub(crate) extern "C-unwind" fn get_event(
    channel: Handle<Channel>,
    cq: Output<Handle<Cq>>,
    context: Output<*mut c_void>,
) -> c_int {
    let get = || {
        let event = channel.get()?.rust().0.get_event()?;
        let handle = Handle::<Cq>::tagged(event.tag());
        cq.set(handle);
        context.set(field!(handle.get()?, cq_context));
        Ok(0)
    };
    cancellable(|| minus_one(get))
}

pub(crate) extern "C" fn ack_events(cq: Handle<Cq>, count: u32) {
    let _ = guarded_quick(|| {
        let object = cq.get()?;
        let completed = field!(object, comp_events_completed).wrapping_add(count);
        field!(object, comp_events_completed = completed);
        // A thread in ibv_destroy_cq may release the structure as soon as the events are acknowledged.
        let queue = Arc::clone(&object.rust().cq);
        queue.acknowledge_events(count.into());
        Ok(())
    });
}
