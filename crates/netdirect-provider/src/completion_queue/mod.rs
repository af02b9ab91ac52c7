//! Completion queues, ND2's `IND2CompletionQueue`: the checks of calls, and the requests of Notify.
//!
//! How results are stored and taken is up to the provider, which implements [`CompletionQueueLine`] for its queue. Clients get a
//! [`CompletionQueueHandle`].

#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Debug;
use std::sync::Arc;

use netdirect::{
    AdapterFlags, Affinity, Call, CompletionQueue, CompletionResult, Error, NotifyType, Overlapped,
    OverlappedFile, OverlappedObject, PendingOverlapped, Result, Started, Status,
};

use crate::adapter::{ProviderAdapter, notify_affinity};
use crate::checks::own::Owned;
use crate::checks::sizes;
use crate::error::fail;
use crate::removal::{DeviceObject, RemovalOrder};
use crate::requests::begin_admitted;

/// Why a queue keeps its depth.
#[derive(Debug)]
pub enum ResizeError {
    /// More is in the queue than the new depth holds.
    TooSmall,
    /// Anything else.
    Other(Error),
}

impl From<Error> for ResizeError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// A provider's completion queue: the line below the rules.
pub trait CompletionQueueLine: Debug + Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;
    /// The provider's overlapped files.
    type File: OverlappedFile;

    /// Makes a queue. Its requests end at `file`.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_completion_queue`](netdirect::Adapter::create_completion_queue).
    fn create(
        adapter: Arc<Self::Adapter>,
        file: Arc<Self::File>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<Self>>;

    /// Returns true if the queue has broken down.
    fn is_broken(&self) -> bool;

    /// Gives the queue another depth, which the adapter's limits allow.
    ///
    /// # Errors
    ///
    /// The queue is unchanged.
    fn resize(&self, depth: u32) -> Result<(), ResizeError>;

    /// Keeps a request until a result of this kind arrives, or ends the request at once. Called with no lock held.
    fn notify(&self, kind: NotifyType, request: PendingOverlapped);

    /// Ends all requests of Notify with [`CANCELED`](Status::CANCELED). Called with no lock held.
    fn cancel(&self);

    /// The device was removed: all requests of Notify end with [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) (OVL-010). Called with no lock
    /// held.
    fn device_removed(&self);

    /// Returns the event that a request of Notify waits for, in words. `None` if none is in flight.
    fn waits(&self) -> Option<String> {
        None
    }

    /// Moves results to the client: see [`CompletionQueue::get_results`].
    fn get_results(&self, results: &mut [CompletionResult]) -> usize;

    /// Moves results to a future of the client: see [`CompletionQueue::take_results`].
    #[inline]
    fn take_results(&self, results: &mut [CompletionResult]) -> usize {
        self.get_results(results)
    }
}

/// A client's reference to a completion queue. When the client releases it, the requests of Notify are cancelled.
#[derive(Debug)]
pub struct CompletionQueueHandle<L: CompletionQueueLine> {
    line: Arc<L>,
    adapter: Arc<L::Adapter>,
    file: Arc<dyn OverlappedFile>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    entry: <L::Adapter as ProviderAdapter>::Entry,
}

impl<L: CompletionQueueLine> CompletionQueueHandle<L> {
    /// Makes a queue, whose requests end at `file`, and the reference of its client.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_completion_queue`](netdirect::Adapter::create_completion_queue).
    pub fn create(
        adapter: Arc<L::Adapter>,
        file: Arc<L::File>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Self> {
        let line = L::create(Arc::clone(&adapter), Arc::clone(&file), depth, affinity)?;
        let object = DeviceObject::new(&line, L::device_removed, L::waits);
        let entry = adapter.list(RemovalOrder::CompletionQueue, object)?;
        Ok(Self {
            line,
            adapter,
            file,
            entry,
        })
    }

    /// Returns the provider's queue.
    #[must_use]
    pub fn line(&self) -> &Arc<L> {
        &self.line
    }
}

impl<L: CompletionQueueLine> Drop for CompletionQueueHandle<L> {
    fn drop(&mut self) {
        self.line.cancel(); // CQ-023
    }
}

impl<L: CompletionQueueLine> Owned for CompletionQueueHandle<L> {
    type Adapter = L::Adapter;

    fn adapter(&self) -> &Arc<L::Adapter> {
        &self.adapter
    }
}

impl<L: CompletionQueueLine> OverlappedObject for CompletionQueueHandle<L> {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.line.cancel();
        Ok(())
    }
}

impl<L: CompletionQueueLine> CompletionQueue for CompletionQueueHandle<L> {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        notify_affinity(&*self.adapter)
    }

    fn resize(&self, depth: u32) -> Result<()> {
        self.adapter.present()?; // CQ-014
        let info = self.adapter.info();
        if !info.flags.contains(AdapterFlags::CQ_RESIZE_SUPPORTED) {
            return fail(
                Status::NOT_SUPPORTED,
                "the adapter cannot resize completion queues",
            ); // CQ-015
        }
        sizes::resized_completion_queue(depth, info.max_completion_queue_depth)?;
        sizes::working_completion_queue(self.line.is_broken(), Status::INVALID_DEVICE_STATE)?;
        self.adapter.admit(Call::ResizeCompletionQueue)?;
        self.line.resize(depth).map_err(|why| match why {
            ResizeError::TooSmall => Error::new(
                Status::BUFFER_OVERFLOW,
                "more results are queued than the new depth holds; get results first",
            ), // CQ-016
            ResizeError::Other(error) => error, // CQ-011
        })
    }

    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        let admit = || self.adapter.admit(Call::NotifyCompletionQueue);
        let request = begin_admitted(overlapped, &self.file, admit)?;
        self.line.notify(kind, request);
        Ok(Started::Pending)
    }

    #[inline]
    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        self.line.get_results(results)
    }

    #[inline]
    fn take_results(&self, results: &mut [CompletionResult]) -> usize {
        self.line.take_results(results)
    }
}
