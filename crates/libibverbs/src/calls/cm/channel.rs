//! Event channels.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use softverbs::{Errno, EventChannel, Result};

use crate::abi::cm::rdma_event_channel;
use crate::border::{
    Facade, Handle, ParentsDescriptor, PerProcess, cancellation, error, guarded, null,
};
use crate::process;

/// The time that a program has to end after it has destroyed a channel from which another thread wants an event.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// A channel until the program destroys it, and nothing afterwards.
pub(crate) struct CmChannel(Mutex<Option<Open>>);

struct Open {
    channel: Arc<EventChannel>,
    #[expect(dead_code, reason = "dropped with the channel")]
    shown: ParentsDescriptor,
}

impl Facade for CmChannel {
    type C = rdma_event_channel;
}

impl CmChannel {
    /// The channel.
    ///
    /// # Errors
    ///
    /// EBADF: the program has destroyed it.
    pub(crate) fn channel(&self) -> Result<Arc<EventChannel>> {
        match &*self.lock() {
            Some(open) => Ok(Arc::clone(&open.channel)),
            None => Err(error(Errno::BADF, "the event channel is destroyed")),
        }
    }

    /// The channel, for a call that waits for an event. One that is too late fails after a while: a thread of a program that ends, such as
    /// rping's, would otherwise report the failure and change the exit status.
    ///
    /// # Errors
    ///
    /// As [`channel`](Self::channel).
    pub(crate) fn channel_to_wait(&self) -> Result<Arc<EventChannel>> {
        self.channel().inspect_err(|_| {
            // Where the thread cannot be cancelled, the call fails at once.
            let _ = cancellation::sleep(None, Some(TIME_TO_END));
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the structure of a channel.
pub(crate) fn show(channel: Arc<EventChannel>) -> Result<Handle<CmChannel>> {
    let shown = ParentsDescriptor::new(channel.descriptor());
    let fd = shown.number();
    let open = Open {
        channel: Arc::clone(&channel),
        shown,
    };
    let handle = Handle::new(rdma_event_channel { fd }, CmChannel(Mutex::new(Some(open))));
    channel.tag().set(handle.tag());
    Ok(handle)
}

pub(crate) extern "C" fn create() -> Handle<CmChannel> {
    null(|| show(EventChannel::create(&process::process()?)?))
}

/// Closes the channel. Its structure lives on for a while, because programs such as rping have a thread that asks the channel for events
/// until the program ends, also after another thread has destroyed the channel. With rdma-core such a call mostly finds a closed descriptor.
pub(crate) extern "C" fn destroy(channel: Handle<CmChannel>) {
    let _ = guarded(|| {
        let Some(object) = channel.get_own()? else {
            return Ok(());
        };
        // Closed after the lock is free: a channel that closes drives the connections.
        let open = object.rust().lock().take();
        if open.is_some() {
            bury(channel);
        }
        Ok(())
    });
}

/// The structures of the last channels that were destroyed.
static DESTROYED: PerProcess<Mutex<VecDeque<Handle<CmChannel>>>> = PerProcess::new();
const MOST_DESTROYED: usize = 64;

fn bury(channel: Handle<CmChannel>) {
    let destroyed = DESTROYED.get().lock();
    let mut destroyed = destroyed.unwrap_or_else(PoisonError::into_inner);
    destroyed.push_back(channel);
    if destroyed.len() > MOST_DESTROYED
        && let Some(oldest) = destroyed.pop_front()
    {
        oldest.release();
    }
}
