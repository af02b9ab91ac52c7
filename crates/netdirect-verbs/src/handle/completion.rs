//! Completion queues with their channels.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{Context, is_empty, made, never_block, outcome};
use crate::sys::bindings as c;

/// The report of a completion queue about a request.
pub(crate) type WorkCompletion = c::ibv_wc;

/// The four octets that the message of a Receive carried.
pub(crate) fn immediate(completion: &WorkCompletion) -> [u8; 4] {
    // SAFETY: both members of the union are numbers of four octets, for which all values are valid.
    let number = unsafe { completion.__bindgen_anon_1.imm_data };
    number.to_ne_bytes()
}

/// The key that the peer has invalidated with the message of a Receive.
pub(crate) fn invalidated_key(completion: &WorkCompletion) -> Option<u32> {
    // SAFETY: as above.
    let key = unsafe { completion.__bindgen_anon_1.invalidated_rkey };
    (completion.wc_flags & c::IBV_WC_WITH_INV != 0).then_some(key)
}

/// A completion queue, and the channel that reports when it has results.
#[derive(Debug)]
pub(crate) struct CompletionChannelQueue {
    context: Arc<Context>,
    channel: NonNull<c::ibv_comp_channel>,
    queue: NonNull<c::ibv_cq>,
}

// SAFETY: libibverbs allows any thread to use a completion queue and its channel.
unsafe impl Send for CompletionChannelQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannelQueue {}

impl CompletionChannelQueue {
    /// Makes a queue for `depth` results. `key` names it in asynchronous events.
    pub(crate) fn new(
        context: &Arc<Context>,
        depth: u32,
        key: u64,
        vector: u32,
    ) -> io::Result<Self> {
        let verbs = &context.libraries().verbs;
        let depth = i32::try_from(depth).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the context is open.
        let channel = made(unsafe { (verbs.ibv_create_comp_channel)(context.raw()) })?;
        let key = ptr::without_provenance_mut::<c_void>(usize::try_from(key).unwrap_or(0));
        // SAFETY: context and channel exist. The key is a number, which is never used as a pointer.
        let queue = made(unsafe {
            (verbs.ibv_create_cq)(
                context.raw(),
                depth,
                key,
                channel.as_ptr(),
                vector.cast_signed(),
            )
        });
        let queue = queue.inspect_err(|_| {
            // SAFETY: no queue uses the channel.
            let _ = unsafe { (verbs.ibv_destroy_comp_channel)(channel.as_ptr()) };
        })?;
        let made = Self {
            context: Arc::clone(context),
            channel,
            queue,
        };
        never_block(made.descriptor())?;
        Ok(made)
    }

    pub(super) fn raw(&self) -> *mut c::ibv_cq {
        self.queue.as_ptr()
    }

    /// A descriptor that is readable when an armed queue has a result.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel exists as long as `self`.
        let descriptor = unsafe { self.channel.as_ref() }.fd;
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    /// Moves results to the start of `into`.
    pub(crate) fn poll(&self, into: &mut [WorkCompletion]) -> io::Result<usize> {
        let poll = self.context.operations().poll_cq;
        let poll = poll.ok_or(io::ErrorKind::Unsupported)?;
        let room = i32::try_from(into.len()).unwrap_or(i32::MAX);
        // SAFETY: the queue exists, and there is room for this many results.
        let count = unsafe { poll(self.queue.as_ptr(), room, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(count.saturating_abs()))
    }

    /// Makes the channel report the next result.
    pub(crate) fn arm(&self, solicited_only: bool) -> io::Result<()> {
        let arm = self.context.operations().req_notify_cq;
        let arm = arm.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue exists.
        outcome(unsafe { arm(self.queue.as_ptr(), solicited_only.into()) })
    }

    /// Takes a report of the channel. Returns true if there was one.
    pub(crate) fn take_event(&self) -> io::Result<bool> {
        let verbs = &self.context.libraries().verbs;
        let (mut queue, mut key) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel exists, and its descriptor does not block.
        let got = outcome(unsafe {
            (verbs.ibv_get_cq_event)(self.channel.as_ptr(), &raw mut queue, &raw mut key)
        });
        match got {
            Ok(()) => {
                // SAFETY: the one event that was got is acknowledged once, for the only queue of the channel.
                unsafe { (verbs.ibv_ack_cq_events)(queue, 1) };
                Ok(true)
            }
            Err(error) if is_empty(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn resize(&self, depth: u32) -> io::Result<()> {
        let depth = i32::try_from(depth).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the queue exists.
        outcome(unsafe {
            (self.context.libraries().verbs.ibv_resize_cq)(self.queue.as_ptr(), depth)
        })
    }
}

impl Drop for CompletionChannelQueue {
    fn drop(&mut self) {
        let verbs = &self.context.libraries().verbs;
        // SAFETY: all queue pairs hold their completion queues, so none is left.
        let _ = unsafe { (verbs.ibv_destroy_cq)(self.queue.as_ptr()) };
        // SAFETY: its only queue is destroyed.
        let _ = unsafe { (verbs.ibv_destroy_comp_channel)(self.channel.as_ptr()) };
    }
}
