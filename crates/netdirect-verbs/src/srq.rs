//! Shared receive queues, ND2's `IND2SharedReceiveQueue`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use netdirect::{Result, Sge, SharedReceiveQueueOptions, Status};
use netdirect_provider::completion_queue::ResizeError;
use netdirect_provider::shared_receive_queue::{SharedReceiveQueueLine, SharedReceiveQueueRules};
use parking_lot::Mutex;

use crate::core::{AsyncOwner, Core};
use crate::cq::{Cq, CqUser};
use crate::entries::{check_sizes, full, not_posted, with_entries};
use crate::handle::{AsyncEvent, SharedReceivesHandle};
use crate::slots::{RECEIVE, Untaken};
use crate::status::shortage;

#[derive(Debug)]
pub(crate) struct Srq {
    rules: SharedReceiveQueueRules<Core>,
    core: Arc<Core>,
    token: u64,
    sges: u32,
    handle: Arc<SharedReceivesHandle>,
    state: Mutex<SrqState>,
}

struct SrqState {
    depth: u32,
    /// The number of Receives that the device has places for.
    places: u32,
    threshold: u32,
    next: u64,
    /// The contexts of the Receives that wait for a message, by their numbers.
    receives: HashMap<u64, u64>,
    /// The slots that are used: of Receives that wait, and of those whose results the client has not taken.
    used: usize,
    /// The results in each completion queue.
    untaken: Vec<(Weak<Cq>, Untaken)>,
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
    /// Frees the slots of Receives whose results the client has taken. It takes none out of a queue that is gone.
    fn free_slots(&mut self) {
        for (queue, untaken) in &mut self.untaken {
            let end = queue.upgrade().map_or(u64::MAX, |queue| queue.taken());
            self.used -= untaken.take_below(end);
        }
        self.untaken.retain(|(_, untaken)| untaken.len() > 0);
    }

    fn is_full(&mut self) -> bool {
        if self.used >= self.depth as usize {
            self.free_slots();
        }
        self.used >= self.depth as usize
    }
}

impl Srq {
    pub(crate) fn handle(&self) -> &Arc<SharedReceivesHandle> {
        &self.handle
    }

    /// A message, or the end of a queue pair, has used the Receive with this number. Returns its context. The caller
    /// [looks](Self::look) for requests to end when it holds no lock any more.
    pub(crate) fn take(&self, number: u64) -> Option<u64> {
        self.state.lock().receives.remove(&number)
    }

    /// This many Receives of a queue pair have results in this completion queue, with these numbers. Those that have none were lost, and their
    /// slots are free. Called before the client can take the results.
    pub(crate) fn placed(&self, queue: &Arc<Cq>, numbers: Range<u64>, count: usize) {
        let mut state = self.state.lock();
        let placed = usize::try_from(numbers.end - numbers.start).unwrap_or(usize::MAX);
        state.used -= count.saturating_sub(placed);
        if numbers.is_empty() {
            return;
        }
        let queue = Arc::downgrade(queue);
        let mut known = state.untaken.iter_mut();
        match known.find(|(known, _)| known.ptr_eq(&queue)) {
            Some((_, untaken)) => untaken.placed(numbers),
            None => {
                let mut untaken = Untaken::default();
                untaken.placed(numbers);
                state.untaken.push((queue, untaken));
            }
        }
    }

    /// Ends requests of Notify if fewer Receives than the threshold are left (SRQ-024). Called without locks.
    pub(crate) fn look(&self) {
        let is_low = || {
            let state = self.state.lock();
            (state.receives.len() as u64) < u64::from(state.threshold)
        };
        self.rules.end_requests_if(Status::SUCCESS, is_low);
    }

    /// Also ends `user` when the queue breaks down.
    pub(crate) fn attach(&self, user: Weak<dyn CqUser>) {
        let mut state = self.state.lock();
        state.users.retain(|user| user.strong_count() > 0);
        state.users.push(user);
    }

    /// The queue cannot be used any more, and its queue pairs end.
    pub(crate) fn break_down(&self, status: Status) {
        self.rules.break_down(self, status);
    }

    /// Has the device report when fewer Receives than the threshold are left.
    fn tell_below(&self, threshold: u32) {
        if threshold > 0
            && let Err(error) = self.handle.arm(threshold)
        {
            // Then the results of Receives show it, as the client takes them.
            tracing::debug!(target: crate::log::TARGET, %error, "the device does not tell of the limit of a shared receive queue");
        }
    }
}

impl AsyncOwner for Srq {
    fn on_async_event(&self, event: AsyncEvent) {
        match event {
            AsyncEvent::SharedReceivesBroke(_) => {
                self.break_down(Status::INTERNAL_ERROR); // SRQ-019
            }
            // The Receives were used, though their results may not be there yet.
            AsyncEvent::SharedReceivesLow(_) => self.rules.end_requests(Status::SUCCESS),
            _ => {}
        }
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        self.core.disown_object(self.token);
    }
}

impl SharedReceiveQueueLine for Srq {
    type Adapter = Core;

    fn create(
        rules: SharedReceiveQueueRules<Core>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<Self>> {
        let core = Arc::clone(rules.adapter());
        let token = core.driver.next_key();
        let handle = SharedReceivesHandle::new(
            &core.pd,
            options.queue_depth,
            options.max_request_sge.max(1),
            token,
        );
        let srq = Arc::new(Self {
            handle: handle.map_err(shortage("cannot create a shared receive queue"))?,
            rules,
            core,
            token,
            sges: options.max_request_sge,
            state: Mutex::new(SrqState {
                depth: options.queue_depth,
                places: options.queue_depth,
                threshold: options.notify_threshold,
                next: 0,
                receives: HashMap::new(),
                used: 0,
                untaken: Vec::new(),
                users: Vec::new(),
            }),
        });
        let weak: Weak<Self> = Arc::downgrade(&srq);
        srq.core.own_object(token, weak);
        Ok(srq)
    }

    fn rules(&self) -> &SharedReceiveQueueRules<Core> {
        &self.rules
    }

    fn arm(&self) {
        self.look();
        let threshold = self.state.lock().threshold;
        self.tell_below(threshold);
    }

    fn modify(&self, depth: Option<u32>, threshold: Option<u32>) -> Result<(), ResizeError> {
        let mut state = self.state.lock();
        if let Some(depth) = depth {
            state.free_slots();
            if state.used > depth as usize {
                return Err(ResizeError::TooSmall);
            }
            if depth > state.places {
                self.handle
                    .resize(depth)
                    .map_err(shortage("cannot enlarge the shared receive queue"))?; // SRQ-012
                state.places = depth;
            }
            state.depth = depth;
        }
        let former = state.threshold;
        let threshold = threshold.unwrap_or(former);
        state.threshold = threshold;
        drop(state);
        self.look();
        if threshold > former && self.rules.waiting() != Some(0) {
            self.tell_below(threshold);
        }
        Ok(())
    }

    fn broke_down(&self, status: Status) {
        tracing::error!(
            target: crate::log::TARGET,
            %status,
            "a shared receive queue broke down, and its connections end; create the queue and its queue pairs anew"
        );
        let users = std::mem::take(&mut self.state.lock().users);
        for user in users.iter().filter_map(Weak::upgrade) {
            user.queue_broke();
        }
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let mut state = self.state.lock();
        self.core.device.present()?; // GEN-015
        let octets = sges.iter().map(|sge| u64::from(sge.length)).sum();
        check_sizes(
            (sges.len(), self.sges),
            (octets, self.core.limits.transfer_length),
        )?;
        if state.is_full() {
            return Err(full());
        }
        let number = state.next | RECEIVE;
        state.next += 1;
        state.receives.insert(number, context);
        let posted = with_entries(&self.core, sges, |entries| {
            self.handle.post(number, entries)
        });
        posted.map_err(|error| {
            state.receives.remove(&number);
            not_posted(&error)
        })?;
        state.used += 1;
        Ok(())
    }
}
