//! Event channels.

use std::os::fd::AsRawFd;

use softverbs::{EventChannel, Result};

use super::objects::CmChannel;
use crate::abi::cm::rdma_event_channel;
use crate::border::{Handle, guarded, null};
use crate::process;

/// Makes a channel.
pub(crate) fn make() -> Result<Handle<CmChannel>> {
    let channel = EventChannel::create(&process::process()?)?;
    let fd = channel.descriptor().map_or(-1, |fd| fd.as_raw_fd());
    let handle = Handle::new(rdma_event_channel { fd }, CmChannel(channel));
    handle.get()?.rust().0.tag().set(handle.tag());
    Ok(handle)
}

pub(crate) extern "C" fn create() -> Handle<CmChannel> {
    null(make)
}

pub(crate) extern "C" fn destroy(channel: Handle<CmChannel>) {
    let _ = guarded(|| {
        if channel.get_own()?.is_some() {
            channel.release();
        }
        Ok(())
    });
}
