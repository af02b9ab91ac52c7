//! Event channels.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use softverbs::{EventChannel, Result};

use crate::abi::cm::rdma_event_channel;
use crate::border::{Facade, Handle, guarded, null};
use crate::process;

pub(crate) struct CmChannel(pub(crate) Arc<EventChannel>);

impl Facade for CmChannel {
    type C = rdma_event_channel;
}

/// Makes the structure of a channel.
pub(crate) fn show(channel: Arc<EventChannel>) -> Result<Handle<CmChannel>> {
    let fd = channel.descriptor().map_or(-1, |fd| fd.as_raw_fd());
    let handle = Handle::new(rdma_event_channel { fd }, CmChannel(channel));
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
