//! Shared receive queues, ND2's `IND2SharedReceiveQueue`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use netdirect::{
    Affinity, Call, Overlapped, OverlappedFile, OverlappedObject, PendingOverlapped, Result, Sge,
    SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};
use netdirect_provider::checks::sizes;
use netdirect_provider::owned;
use netdirect_provider::requests::begin_admitted;
use parking_lot::Mutex;

use crate::core::{AsyncOwner, Core};
use crate::cq::CqUser;
use crate::device::{DeviceObject, RemovalOrder};
use crate::entries::{check_sizes, full, not_posted, with_entries};
use crate::file::File;
use crate::handle::{AsyncEvent, SharedReceivesHandle};
use crate::slots::RECEIVE;
use crate::status::{fail, shortage};

#[derive(Debug)]
pub(crate) struct Srq {
    core: Arc<Core>,
    file: Arc<File>,
    token: u64,
    sges: u32,
    handle: Arc<SharedReceivesHandle>,
    state: Mutex<SrqState>,
}

struct SrqState {
    depth: u32,
    /// How many Receives the device has places for.
    places: u32,
    threshold: u32,
    next: u64,
    /// The contexts of the Receives that wait for a message, by their numbers.
    receives: HashMap<u64, u64>,
    requests: Vec<PendingOverlapped>,
    broken: Option<Status>,
    users: Vec<Weak<dyn CqUser>>,
}

impl std::fmt::Debug for SrqState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SrqState")
            .field("receives", &self.receives.len())
            .finish_non_exhaustive()
    }
}

impl SrqState {
    /// Takes the requests of Notify if fewer Receives than the threshold are left (SRQ-024).
    fn take_low(&mut self) -> Vec<PendingOverlapped> {
        if (self.receives.len() as u64) < u64::from(self.threshold) {
            return std::mem::take(&mut self.requests);
        }
        Vec::new()
    }
}

impl Srq {
    pub(crate) fn handle(&self) -> &Arc<SharedReceivesHandle> {
        &self.handle
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state.lock().broken.is_some()
    }

    /// A message, or the end of a queue pair, has used the Receive with this number. Returns its context. The caller
    /// [looks](Self::look) for requests to end when it holds no lock any more.
    pub(crate) fn take(&self, number: u64) -> Option<u64> {
        self.state.lock().receives.remove(&number)
    }

    /// Ends requests of Notify if fewer Receives than the threshold are left. Called without locks.
    pub(crate) fn look(&self) {
        let low = self.state.lock().take_low();
        for request in low {
            request.complete(Status::SUCCESS);
        }
    }

    /// Has the results of all queue pairs moved out of the device: a Receive that has ended leaves room.
    fn look_for_results(&self) {
        let users = self.state.lock().users.clone();
        for user in users.iter().filter_map(Weak::upgrade) {
            user.look_for_results();
        }
    }

    /// Also ends `user` when the queue breaks down.
    pub(crate) fn attach(&self, user: Weak<dyn CqUser>) {
        let mut state = self.state.lock();
        state.users.retain(|user| user.strong_count() > 0);
        state.users.push(user);
    }

    /// The queue cannot be used any more, and its queue pairs end (AMB-051).
    pub(crate) fn break_down(&self, status: Status) {
        let users = {
            let mut state = self.state.lock();
            state.broken.get_or_insert(status);
            std::mem::take(&mut state.users)
        };
        tracing::error!(
            %status,
            "a shared receive queue broke down, and its connections end; create the queue and its queue pairs anew"
        );
        for user in users {
            if let Some(user) = user.upgrade() {
                user.queue_broke();
            }
        }
        self.end_requests(status);
    }

    /// Adds a request of Notify, which may end at once.
    pub(crate) fn add_notify(&self, request: PendingOverlapped) {
        let mut state = self.state.lock();
        state.requests.push(request);
        let (broken, threshold) = (state.broken, state.threshold);
        drop(state);
        if let Some(status) = broken {
            return self.end_requests(status);
        }
        self.look(); // AMB-052
        self.arm(threshold);
        if self.core.device.is_removed() {
            DeviceObject::device_removed(self); // The call was admitted before.
        }
    }

    /// Has the device tell when fewer Receives than the threshold are left.
    fn arm(&self, threshold: u32) {
        if threshold > 0
            && let Err(error) = self.handle.arm(threshold)
        {
            // Then the results of Receives tell it, as the client takes them.
            tracing::debug!(%error, "the device does not tell of the limit of a shared receive queue");
        }
    }

    fn end_requests(&self, status: Status) {
        let requests = std::mem::take(&mut self.state.lock().requests);
        for request in requests {
            request.complete(status);
        }
    }
}

impl AsyncOwner for Srq {
    fn told(&self, event: AsyncEvent) {
        match event {
            AsyncEvent::SharedReceivesBroke(_) => {
                self.break_down(Status::INTERNAL_ERROR); // SRQ-019
            }
            // The Receives were used, though their results may not be there yet.
            AsyncEvent::SharedReceivesLow(_) => self.end_requests(Status::SUCCESS),
            _ => {}
        }
    }
}

impl DeviceObject for Srq {
    fn removal_order(&self) -> RemovalOrder {
        RemovalOrder::SharedReceiveQueue
    }

    fn device_removed(&self) {
        self.end_requests(Status::DEVICE_REMOVED);
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        self.core.disown_object(self.token);
    }
}

/// The client's reference to a shared receive queue.
#[derive(Debug)]
pub(crate) struct SrqHandle(pub(crate) Arc<Srq>);

impl SrqHandle {
    pub(crate) fn new(
        core: Arc<Core>,
        file: Arc<File>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Self> {
        let token = core.driver.next_key();
        let handle = SharedReceivesHandle::new(
            &core.pd,
            options.queue_depth,
            options.max_request_sge.max(1),
            token,
        );
        let srq = Arc::new(Srq {
            handle: handle.map_err(shortage("cannot create a shared receive queue"))?,
            core,
            file,
            token,
            sges: options.max_request_sge,
            state: Mutex::new(SrqState {
                depth: options.queue_depth,
                places: options.queue_depth,
                threshold: options.notify_threshold,
                next: 0,
                receives: HashMap::new(),
                requests: Vec::new(),
                broken: None,
                users: Vec::new(),
            }),
        });
        let weak: Weak<Srq> = Arc::downgrade(&srq);
        srq.core.own_object(token, weak.clone());
        srq.core.device.add_object(weak);
        Ok(Self(srq))
    }
}

impl Drop for SrqHandle {
    fn drop(&mut self) {
        self.0.end_requests(Status::CANCELED);
    }
}

owned!(SrqHandle of Core: |queue| &queue.0.core);

impl OverlappedObject for SrqHandle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.end_requests(Status::CANCELED); // SRQ-020
        Ok(())
    }
}

impl SharedReceiveQueue for SrqHandle {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        self.0.core.device.present()?;
        fail(
            Status::NOT_SUPPORTED,
            "the processors of notifications are not known",
        )
    }

    fn modify(&self, queue_depth: u32, notify_threshold: u32) -> Result<()> {
        let srq = &self.0;
        srq.core.device.present()?; // SRQ-015
        sizes::modified_shared_receive_queue(queue_depth, srq.core.limits.shared_receive_depth)?;
        let mut state = srq.state.lock();
        sizes::working_shared_receive_queue(state.broken.is_some(), Status::INVALID_DEVICE_STATE)?;
        srq.core.device.admit(Call::ModifySharedReceiveQueue)?;
        if queue_depth > 0 {
            if state.receives.len() as u64 > u64::from(queue_depth) {
                return fail(
                    Status::BUFFER_OVERFLOW,
                    "more Receives are outstanding than the new depth holds",
                ); // SRQ-014
            }
            if queue_depth > state.places {
                srq.handle
                    .resize(queue_depth)
                    .map_err(shortage("cannot enlarge the shared receive queue"))?; // SRQ-012
                state.places = queue_depth;
            }
            state.depth = queue_depth; // SRQ-010
        }
        let former = state.threshold;
        if notify_threshold > 0 {
            state.threshold = notify_threshold; // SRQ-011
        }
        drop(state);
        srq.look();
        if notify_threshold > former && !srq.state.lock().requests.is_empty() {
            srq.arm(notify_threshold);
        }
        Ok(())
    }

    fn notify(&self, overlapped: &Overlapped) -> Result<Started> {
        let srq = &self.0;
        let file: Arc<dyn OverlappedFile> = srq.file.clone();
        let admit = || srq.core.device.admit(Call::NotifySharedReceiveQueue);
        let request = begin_admitted(overlapped, &file, admit)?;
        srq.add_notify(request);
        Ok(Started::Pending)
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let srq = &self.0;
        let is_full = |state: &SrqState| state.receives.len() >= state.depth as usize;
        let mut state = srq.state.lock();
        if is_full(&state) {
            drop(state);
            srq.look_for_results();
            state = srq.state.lock();
        }
        srq.core.device.present()?; // GEN-015
        let octets = sges.iter().map(|sge| u64::from(sge.length)).sum();
        check_sizes(
            (sges.len(), srq.sges),
            (octets, srq.core.limits.transfer_length),
        )?;
        if is_full(&state) {
            return Err(full());
        }
        let number = state.next | RECEIVE;
        state.next += 1;
        state.receives.insert(number, context);
        let posted = with_entries(&srq.core, sges, |entries| srq.handle.post(number, entries));
        posted.map_err(|error| {
            state.receives.remove(&number);
            not_posted(&error)
        })
    }
}
