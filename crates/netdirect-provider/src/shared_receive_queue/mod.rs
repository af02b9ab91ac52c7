//! Shared receive queues, ND2's `IND2SharedReceiveQueue`: the checks of calls, the requests of Notify, and the breakdown.
//!
//! How Receives are stored is up to the provider, which implements [`SharedReceiveQueueLine`] for a queue that contains
//! [`SharedReceiveQueueRules`]. Clients get a [`SharedReceiveQueueHandle`].

#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Debug;
use std::sync::Arc;

use netdirect::{
    Affinity, Call, Error, Overlapped, OverlappedFile, OverlappedObject, PendingOverlapped, Result,
    Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};
use parking_lot::Mutex;

use crate::adapter::{ProviderAdapter, notify_affinity};
use crate::checks::own::Owned;
use crate::checks::sizes;
use crate::completion_queue::ResizeError;
use crate::error::request_ends;
use crate::removal::{DeviceObject, RemovalOrder};
use crate::requests::begin_admitted;

/// A provider's shared receive queue: the line below the rules. All methods are called with no lock of the rules held.
pub trait SharedReceiveQueueLine: Debug + Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;

    /// Makes a queue that contains these rules.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_shared_receive_queue`](netdirect::Adapter::create_shared_receive_queue).
    fn create(
        rules: SharedReceiveQueueRules<Self::Adapter>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<Self>>;

    /// Returns the rules that this queue contains.
    fn rules(&self) -> &SharedReceiveQueueRules<Self::Adapter>;

    /// Sees to it that [`SharedReceiveQueueRules::end_requests`] or [`end_requests_if`](SharedReceiveQueueRules::end_requests_if) is
    /// called when fewer Receives than the threshold are left, which may be now (SRQ-024, AMB-052). A request of Notify waits for it.
    fn arm(&self);

    /// No request of Notify waits any more, because the client cancels them.
    fn disarm(&self) {}

    /// Changes the depth, which the adapter's limits allow, and the threshold. `None` leaves a value unchanged. Requests of Notify
    /// may wait for a threshold that is reached by that.
    ///
    /// # Errors
    ///
    /// The queue is unchanged.
    fn modify(&self, depth: Option<u32>, threshold: Option<u32>) -> Result<(), ResizeError>;

    /// Returns the event that a request of Notify waits for, in words. `None` if none is in flight.
    fn waits(&self) -> Option<String> {
        None
    }

    /// Ends the queue pairs that use the queue, which has broken down with this status (AMB-051).
    fn broke_down(&self, status: Status);

    /// Adds a Receive.
    ///
    /// # Errors
    ///
    /// Those of [`SharedReceiveQueue::receive`].
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()>;
}

/// The rules that all shared receive queues share.
#[derive(Debug)]
pub struct SharedReceiveQueueRules<A> {
    adapter: Arc<A>,
    state: Mutex<NotifyState>,
}

#[derive(Debug, Default)]
struct NotifyState {
    /// Requests of Notify that wait.
    requests: Vec<PendingOverlapped>,
    /// The status that all requests of Notify end with, once the queue or the device has failed.
    ended: Option<Status>,
}

impl<A: ProviderAdapter> SharedReceiveQueueRules<A> {
    fn new(adapter: Arc<A>) -> Self {
        Self {
            adapter,
            state: Mutex::default(),
        }
    }

    /// Returns the adapter that the queue belongs to.
    pub fn adapter(&self) -> &Arc<A> {
        &self.adapter
    }

    /// Returns true if the queue has broken down, or the device was removed.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    /// Returns how many requests of Notify wait. `None` if another thread has the lock.
    #[must_use]
    pub fn waiting(&self) -> Option<usize> {
        Some(self.state.try_lock()?.requests.len())
    }

    /// Ends all requests of Notify. Called with no lock held.
    pub fn end_requests(&self, status: Status) {
        self.end_requests_if(status, || true);
    }

    /// Ends all requests of Notify if `is_due` returns true, which is called under the lock of the rules if requests wait.
    pub fn end_requests_if(&self, status: Status, is_due: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if state.requests.is_empty() || !is_due() {
            return;
        }
        let requests = std::mem::take(&mut state.requests);
        drop(state);
        for request in requests {
            match status {
                Status::SUCCESS => request.complete(status),
                _ => request.complete(request_ends(status)),
            }
        }
    }

    /// The device was removed: the requests of Notify end (OVL-010). Receives that no queue pair has drawn get no result, because they
    /// belong to no completion queue.
    fn device_removed(&self) {
        let status = Status::DEVICE_REMOVED;
        self.state.lock().ended.get_or_insert(status);
        self.end_requests(status);
    }

    /// Breaks the queue down, and ends its queue pairs. A queue pair that is attached to the line from now on finds the queue broken.
    pub fn break_down(&self, line: &impl SharedReceiveQueueLine, status: Status) {
        let status = *self.state.lock().ended.get_or_insert(status);
        line.broke_down(status);
        self.end_requests(status); // SRQ-019
    }

    fn notify(&self, line: &impl SharedReceiveQueueLine, request: PendingOverlapped) {
        let ended = {
            let mut state = self.state.lock();
            state.requests.push(request);
            state.ended
        };
        match ended {
            Some(status) => self.end_requests(status),
            None => line.arm(),
        }
    }

    fn cancel(&self, line: &impl SharedReceiveQueueLine) {
        line.disarm();
        self.end_requests(Status::CANCELED); // SRQ-020
    }
}

/// A client's reference to a shared receive queue. Queue pairs still use its Receives after the client has released it.
#[derive(Debug)]
pub struct SharedReceiveQueueHandle<L: SharedReceiveQueueLine> {
    line: Arc<L>,
    file: Arc<dyn OverlappedFile>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    entry: <L::Adapter as ProviderAdapter>::Entry,
}

impl<L: SharedReceiveQueueLine> SharedReceiveQueueHandle<L> {
    /// Makes a queue, whose requests end at `file`, and the reference of its client.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_shared_receive_queue`](netdirect::Adapter::create_shared_receive_queue).
    pub fn create(
        adapter: Arc<L::Adapter>,
        file: Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Self> {
        let rules = SharedReceiveQueueRules::new(Arc::clone(&adapter));
        let line = L::create(rules, options)?;
        let removed = |line: &L| line.rules().device_removed();
        let object = DeviceObject::new(&line, removed, L::waits);
        let entry = adapter.list(RemovalOrder::SharedReceiveQueue, object)?;
        Ok(Self { line, file, entry })
    }

    /// Returns the provider's queue.
    #[must_use]
    pub fn line(&self) -> &Arc<L> {
        &self.line
    }
}

impl<L: SharedReceiveQueueLine> Drop for SharedReceiveQueueHandle<L> {
    fn drop(&mut self) {
        self.line.rules().cancel(&*self.line);
    }
}

impl<L: SharedReceiveQueueLine> Owned for SharedReceiveQueueHandle<L> {
    type Adapter = L::Adapter;

    fn adapter(&self) -> &Arc<L::Adapter> {
        self.line.rules().adapter()
    }
}

impl<L: SharedReceiveQueueLine> OverlappedObject for SharedReceiveQueueHandle<L> {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.line.rules().cancel(&*self.line);
        Ok(())
    }
}

impl<L: SharedReceiveQueueLine> SharedReceiveQueue for SharedReceiveQueueHandle<L> {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        notify_affinity(&**self.line.rules().adapter())
    }

    fn modify(&self, queue_depth: u32, notify_threshold: u32) -> Result<()> {
        let rules = self.line.rules();
        rules.adapter.present()?; // SRQ-015
        let most = rules.adapter.info().max_shared_receive_queue_depth;
        sizes::modified_shared_receive_queue(queue_depth, most)?;
        sizes::working_shared_receive_queue(rules.is_broken(), Status::INVALID_DEVICE_STATE)?;
        rules.adapter.admit(Call::ModifySharedReceiveQueue)?;
        let given = |value: u32| Some(value).filter(|value| *value > 0); // SRQ-010, SRQ-011
        let modified = self
            .line
            .modify(given(queue_depth), given(notify_threshold));
        modified.map_err(|why| match why {
            ResizeError::TooSmall => Error::new(
                Status::BUFFER_OVERFLOW,
                "more Receives are outstanding than the new depth holds",
            ), // SRQ-014
            ResizeError::Other(error) => error, // SRQ-012
        })
    }

    fn notify(&self, overlapped: &Overlapped) -> Result<Started> {
        let rules = self.line.rules();
        let admit = || rules.adapter.admit(Call::NotifySharedReceiveQueue); // SRQ-021, SRQ-022
        let request = begin_admitted(overlapped, &self.file, admit)?;
        rules.notify(&*self.line, request);
        Ok(Started::Pending)
    }

    #[inline]
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        self.line.receive(context, sges)
    }
}
