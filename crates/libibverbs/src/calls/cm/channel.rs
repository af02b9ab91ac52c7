//! Event channels.

use std::sync::Arc;

use softverbs::{EventChannel, Result};

use crate::abi::cm::rdma_event_channel;
use crate::border::{Facade, Handle, ParentsDescriptor, guarded, null};
use crate::process;

pub(crate) struct CmChannel(
    pub(crate) Arc<EventChannel>,
    #[expect(dead_code, reason = "dropped with the object")] ParentsDescriptor,
);

impl Facade for CmChannel {
    type C = rdma_event_channel;
}

/// Makes the structure of a channel.
pub(crate) fn show(channel: Arc<EventChannel>) -> Result<Handle<CmChannel>> {
    let shown = ParentsDescriptor::new(channel.descriptor());
    let fd = shown.number();
    let handle = Handle::new(rdma_event_channel { fd }, CmChannel(channel, shown));
    handle.get()?.rust().0.tag().set(handle.tag());
    Ok(handle)
}

pub(crate) extern "C" fn create() -> Handle<CmChannel> {
    null(|| show(EventChannel::create(&process::process()?)?))
}

pub(crate) extern "C" fn destroy(channel: Handle<CmChannel>) {
    let _ = guarded(|| {
        if channel.get_own()?.is_some() {
            channel.release();
        }
        Ok(())
    });
}
