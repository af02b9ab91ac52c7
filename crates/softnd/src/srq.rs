//! Shared receive queues, ND2's `IND2SharedReceiveQueue`.

use std::sync::{Arc, Weak};

use iwarp_io::endpoint::shared_receives::{CannotModify, SharedReceiveSizes, SharedReceives};
use iwarp_io::limited;
use netdirect::{
    Affinity, Call, Overlapped, OverlappedFile, OverlappedObject, PendingOverlapped, Result, Sge,
    SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};
use netdirect_provider::checks::sizes;
use netdirect_provider::requests::begin_admitted;
use netdirect_provider::{ProviderAdapter, owned};
use parking_lot::Mutex;

use crate::core::{BreakableQueue, Core, QueueUser, QueueUsers};
use crate::device::{DeviceListEntry, DeviceObject, RemovalOrder};
use crate::file::File;
use crate::sge::with_sges;
use crate::status::{fail, no_memory, post_error};

/// The queue itself, shared by its handle and by the queue pairs that draw from it.
#[derive(Debug)]
pub(crate) struct Srq {
    core: Arc<Core>,
    pub(crate) receives: Arc<SharedReceives>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests of Notify that wait.
    requests: Vec<PendingOverlapped>,
    /// The status that all requests of Notify end with, once the queue or the device has failed.
    ended: Option<Status>,
    /// The queue pairs that break down with the queue.
    queue_pairs: QueueUsers,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("requests", &self.requests.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Srq {
    /// Whether the queue has broken down, and its queue pairs with the queue (AMB-051).
    pub(crate) fn is_broken(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    pub(crate) fn attach(&self, qp: Weak<dyn QueueUser>) {
        self.state.lock().queue_pairs.add(qp);
    }

    /// Drives queue pairs that get a Receive which another one has given back, and ends the requests of Notify if fewer Receives than
    /// the threshold are left. Called with no lock held, after a Receive was drawn (SRQ-023).
    #[inline]
    pub(crate) fn look(&self) {
        self.receives.drive_due();
        if self.receives.take_low() {
            self.end_requests(Status::SUCCESS); // SRQ-024
        }
    }

    fn end_requests(&self, status: Status) {
        let requests = std::mem::take(&mut self.state.lock().requests);
        for request in requests {
            request.complete(status);
        }
    }

    fn cancel(&self) {
        self.receives.disarm();
        self.end_requests(Status::CANCELED); // SRQ-020
    }

    /// Ends all requests of Notify. Later requests of Notify end at once.
    fn end(&self, status: Status) {
        self.state.lock().ended.get_or_insert(status);
        self.end_requests(status);
    }
}

impl BreakableQueue for Srq {
    fn break_down(&self, status: Status) {
        limited!(
            error,
            %status,
            "a shared receive queue broke down, and its connections end; create the queue and its queue pairs anew"
        );
        let mut state = self.state.lock();
        let status = *state.ended.get_or_insert(status);
        // A queue pair that is attached from now on finds the queue broken.
        let queue_pairs = state.queue_pairs.take();
        drop(state);
        queue_pairs.for_each(|qp| qp.queue_broke());
        self.end_requests(status); // SRQ-019
    }
}

impl DeviceObject for Srq {
    fn waits(&self) -> Option<String> {
        let count = self.state.try_lock()?.requests.len();
        let left = self.receives.outstanding();
        (count > 0).then(|| {
            format!("Notify waits until a shared receive queue, which has {left} Receives, falls below its threshold")
        })
    }

    /// Ends the requests of Notify with ND_DEVICE_REMOVED (OVL-010). Receives that no queue pair has drawn get no result, because
    /// they belong to no completion queue.
    fn device_removed(&self) {
        self.end(Status::DEVICE_REMOVED);
    }
}

/// The client's reference to a queue. Queue pairs created with the queue still use its Receives after the handle is released.
#[derive(Debug)]
pub(crate) struct SrqHandle(
    pub(crate) Arc<Srq>,
    Arc<File>,
    #[expect(dead_code, reason = "kept until it is dropped")] DeviceListEntry,
);

impl SrqHandle {
    pub(crate) fn new(
        core: Arc<Core>,
        file: Arc<File>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Self> {
        let sizes = SharedReceiveSizes {
            depth: options.queue_depth,
            sges: options.max_request_sge,
            max_transfer: core.options.limits.transfer_length,
        };
        let receives = SharedReceives::new(sizes, options.notify_threshold);
        let short = no_memory(
            Status::NO_MEMORY, // ADPT-042
            "cannot create a shared receive queue",
        );
        let receives = receives.map_err(short)?;
        let device = Arc::clone(&core.device);
        let srq = Arc::new(Srq {
            core,
            receives: Arc::new(receives),
            state: Mutex::default(),
        });
        let this = Arc::downgrade(&(Arc::clone(&srq) as Arc<dyn DeviceObject>));
        let entry = device.add_object(RemovalOrder::SharedReceiveQueue, this)?;
        Ok(Self(srq, file, entry))
    }
}

impl Drop for SrqHandle {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

owned!(SrqHandle of Core: |queue| &queue.0.core);

impl OverlappedObject for SrqHandle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

impl SharedReceiveQueue for SrqHandle {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        self.0.core.device.present()?; // SRQ-006
        let affinity = self.0.core.notify_affinity(); // SRQ-002, SRQ-003, SRQ-008
        affinity.ok_or_else(|| Status::NOT_SUPPORTED.into()) // SRQ-007
    }

    fn modify(&self, queue_depth: u32, notify_threshold: u32) -> Result<()> {
        let limit = self.0.core.options.limits.shared_receive_queue_depth;
        self.0.core.device.present()?; // SRQ-015
        sizes::modified_shared_receive_queue(queue_depth, limit)?;
        sizes::working_shared_receive_queue(self.0.is_broken(), Status::INVALID_DEVICE_STATE)?;
        self.0.core.device.admit(Call::ModifySharedReceiveQueue)?; // SRQ-012
        let given = |value: u32| Some(value).filter(|value| *value > 0); // SRQ-010, SRQ-011
        let modified = (self.0.receives).modify(given(queue_depth), given(notify_threshold));
        match modified {
            Ok(()) => {}
            Err(CannotModify::TooMany) => {
                return fail(
                    Status::BUFFER_OVERFLOW,
                    "more Receives are outstanding than the new depth holds",
                ); // SRQ-014
            }
            Err(CannotModify::OutOfMemory) => {
                return fail(
                    Status::INSUFFICIENT_RESOURCES,
                    "there is no memory for the new depth",
                ); // SRQ-012
            }
        }
        self.0.look();
        Ok(())
    }

    fn notify(&self, overlapped: &Overlapped) -> Result<Started> {
        let srq = &self.0;
        let file: Arc<dyn OverlappedFile> = self.1.clone();
        let admit = || srq.core.device.admit(Call::NotifySharedReceiveQueue); // SRQ-021, SRQ-022
        let request = begin_admitted(overlapped, &file, admit)?;
        let mut state = srq.state.lock();
        state.requests.push(request);
        let ended = state.ended;
        drop(state);
        match ended {
            Some(status) => srq.end_requests(status),
            None => {
                srq.receives.arm(); // AMB-052
                srq.look();
            }
        }
        Ok(Started::Pending)
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        self.0.core.device.present()?; // GEN-015
        let post = |sges: &[_]| self.0.receives.post(context, sges).map_err(post_error);
        with_sges(sges, post, |_| ())
    }
}
