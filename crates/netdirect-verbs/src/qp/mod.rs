//! Queue pairs: the device's queue pair, its outstanding requests, and the end of both.
//!
//! The device's queue pair ends with its connection. Then it is destroyed, and outstanding requests are cancelled, so that no request stays
//! behind whatever the driver flushes. After an attempt to connect that failed, another one takes its place, with the Receives that wait.
//!
//! The lock of a queue pair is taken under that of a completion queue's poller, and never the other way round. Under it results are placed,
//! so that they are in the order of posting.

mod events;
mod handle;

use std::sync::{Arc, Weak};
use std::time::Duration;

use netdirect::{ConnectionEnd, QueuePairOptions, RequestType, Result, Sge, Status};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::connector::QueuePairOwner;
use netdirect_provider::removal::{DeviceObject, RemovalOrder};
use parking_lot::{Mutex, MutexGuard};

use crate::connection_end::{self, FirstReason};
use crate::core::Core;
use crate::cq::{Cq, CqUser};
use crate::driver::{Deadline, Timed};
use crate::entries::{NotPosted, Posting, check_sizes, full, has_ended, not_posted, with_entries};
use crate::handle::{
    Operation, PostFailure, QueuePairHandle, QueuePairSizes, RemoteMemory, SendRequest,
};
use crate::mw::WindowBinding;
use crate::slots::{End, Kept, RECEIVE, Slot, Slots};
use crate::srq::Srq;
use crate::status::{fail, shortage};

pub(crate) use handle::{ClientQp, QpHandle};

/// The number of the provider's own Read, which no request of the client has.
const OWN_READ: u64 = RECEIVE - 1;

/// The time within which the device should report that a queue pair takes no more from a shared receive queue. Not all drivers report it.
const LAST_RECEIVE: Duration = Duration::from_secs(1);

/// The key of a Read of no octets, which no peer looks at. Some cards give 0 another meaning.
const ANY_KEY: u32 = 1;

/// The connector of a queue pair. Called without locks.
pub(crate) trait ConnectionOwner: QueuePairOwner {
    /// Requests of the queue pair were flushed: the connection has ended.
    fn connection_ended(&self);
}

/// The requests that may be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpPhase {
    /// Receives wait for a connection.
    Idle,
    /// A connector makes a connection.
    Claimed,
    /// Connected.
    Open,
    /// The connection was ended by the peer or by an error. Requests are cancelled.
    Ended,
    /// The connection was ended by this side.
    Disconnected,
}

pub(crate) struct Qp {
    core: Arc<Core>,
    number: u64,
    pub(crate) options: QueuePairOptions,
    receive_cq: Arc<Cq>,
    initiator_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    state: Mutex<QpState>,
    this: Weak<Self>,
}

struct QpState {
    raw: Option<Arc<QueuePairHandle>>,
    phase: QpPhase,
    owner: Option<Arc<dyn ConnectionOwner>>,
    initiator: Slots,
    receives: Slots,
    /// The reason why the connection has ended.
    reason: FirstReason,
    /// The end of the connection has been noticed.
    end_noticed: bool,
    /// The connector has to be notified of it, after which the queues are released.
    tells_end: bool,
    /// This side [has begun to end](Qp::begin_end) the connection.
    ended_here: bool,
    /// A thread ends the device's queue pair, or its last Receive is awaited.
    ending: bool,
    /// The device's queue pair that has failed, and has taken Receives from a shared queue which the device has yet to report.
    draining: Option<Draining>,
    /// The work to do afterwards.
    when_ended: Vec<Box<dyn FnOnce() + Send>>,
    outbound_reads: u32,
    /// Requests since the last one that reports its end.
    untold: u32,
    /// The silent requests that the completion queue counts for this queue pair.
    counted: usize,
    /// Windows that the peer may invalidate.
    windows: Vec<Weak<WindowBinding>>,
}

/// A queue pair of the device whose last Receive is awaited, and the time limit.
struct Draining {
    raw: Arc<QueuePairHandle>,
    deadline: Deadline,
}

impl QpState {
    /// An open connection ends for this reason.
    fn note(&mut self, end: ConnectionEnd) {
        if self.phase == QpPhase::Open {
            self.reason.note(end);
        }
    }

    /// The peer has invalidated the window with this key (IW-058).
    fn peer_has_invalidated(&mut self, key: u32) {
        self.windows.retain(|window| match window.upgrade() {
            Some(window) if window.key() == key => {
                window.lapse();
                false
            }
            Some(_) => true,
            None => false,
        });
    }
}

impl std::fmt::Debug for Qp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qp").finish_non_exhaustive()
    }
}

impl Qp {
    pub(crate) fn new(
        core: Arc<Core>,
        receive_cq: Arc<Cq>,
        initiator_cq: Arc<Cq>,
        srq: Option<Arc<Srq>>,
        options: QueuePairOptions,
    ) -> Result<Arc<Self>> {
        // Programs post a few more entries than they have asked for (AMB-009). No entries stay none (AMB-036).
        let most = core.limits.sges;
        let grant = |asked: u32| {
            if asked == 0 {
                0
            } else {
                asked.max(2).min(most)
            }
        };
        let options = options
            .max_initiator_request_sge(grant(options.max_initiator_request_sge))
            .max_receive_request_sge(grant(options.max_receive_request_sge));
        let qp = Arc::new_cyclic(|this| Self {
            number: core.driver.next_key(),
            core,
            options,
            receive_cq,
            initiator_cq,
            srq,
            state: Mutex::new(QpState {
                raw: None,
                phase: QpPhase::Idle,
                owner: None,
                initiator: Slots::default(),
                receives: Slots::default(),
                reason: FirstReason::default(),
                end_noticed: false,
                tells_end: false,
                ended_here: false,
                ending: false,
                draining: None,
                when_ended: Vec::new(),
                outbound_reads: 0,
                untold: 0,
                counted: 0,
                windows: Vec::new(),
            }),
            this: this.clone(),
        });
        let raw = qp.make()?;
        qp.state.lock().raw = Some(raw);
        if let Some(srq) = &qp.srq {
            let user: Weak<Self> = qp.this.clone();
            srq.attach(user);
        }
        let this: Weak<Self> = qp.this.clone();
        qp.core.device.add_queue_pair(this);
        let object = DeviceObject::new(&qp, Self::device_removed, |_| None);
        qp.core.list(RemovalOrder::QueuePair, object)?;
        Ok(qp)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// A queue pair of the device, whose results come here.
    fn make(&self) -> Result<Arc<QueuePairHandle>> {
        let cannot = shortage("cannot create a queue pair");
        let options = &self.options;
        let own_reads = u32::from(self.core.needs.leaves_first_octets);
        let sizes = QueuePairSizes {
            // Drivers make no empty queues. The client's posts are checked here.
            send_depth: options
                .initiator_queue_depth
                .max(1)
                .saturating_add(own_reads)
                .min(self.core.limits.queue_depth),
            receive_depth: if self.srq.is_some() {
                0
            } else {
                options.receive_queue_depth.max(1)
            },
            send_sges: options.max_initiator_request_sge.max(1),
            receive_sges: options.max_receive_request_sge.max(1),
            inline: options.inline_data_size,
            serves_atomics: self.core.limits.device.has_atomics,
        };
        let raw = QueuePairHandle::new(
            &self.core.pd,
            self.initiator_cq.queue(),
            self.receive_cq.queue(),
            self.srq.as_ref().map(|srq| srq.handle()),
            sizes,
        );
        let raw = raw.map_err(&cannot)?;
        raw.init(self.core.limits.is_iwarp).map_err(&cannot)?;
        for cq in self.queues() {
            if let Some(this) = self.this.upgrade() {
                cq.attach(raw.number(), this);
            }
        }
        Ok(raw)
    }

    /// Its completion queues, each once.
    fn queues(&self) -> impl Iterator<Item = &Arc<Cq>> {
        let other =
            (!Arc::ptr_eq(&self.receive_cq, &self.initiator_cq)).then_some(&self.initiator_cq);
        std::iter::once(&self.receive_cq).chain(other)
    }

    /// Ends requests for results that were placed. Called without locks.
    pub(crate) fn settle(&self) {
        for cq in self.queues() {
            cq.settle();
        }
    }

    pub(crate) fn poll(&self) {
        for cq in self.queues() {
            cq.poll();
        }
    }

    /// The status of an initiator request of this kind that has failed, if the driver does not report one. The cause is its own entries, or
    /// the end that this side has made or that is known already, otherwise the peer. The peer may have refused a Write that was under way
    /// when the peer ended the connection (AMB-002), whichever of the two is known first.
    fn vague(&self, state: &QpState, kind: RequestType, denied: bool) -> Option<Status> {
        let ended_here = state.ended_here || state.phase == QpPhase::Disconnected;
        let end_is_known = state.end_noticed || state.phase != QpPhase::Open;
        let status = if denied {
            Status::ACCESS_VIOLATION
        } else if ended_here || end_is_known && kind != RequestType::Write {
            Status::CANCELED
        } else {
            Status::REMOTE_ERROR
        };
        self.core.needs.fails_vaguely.then_some(status)
    }

    /// A request has failed, and so has the connection. Results stay invisible until the connector [was notified](CqUser::tell). Returns
    /// true if it has to be.
    fn notice_end(&self, state: &mut QpState) -> bool {
        if state.phase != QpPhase::Open || state.end_noticed {
            return false;
        }
        state.end_noticed = true;
        state.tells_end = true;
        for cq in self.queues() {
            cq.hold();
        }
        true
    }

    /// The connection ends, and no request reports this: the connector is notified if `is_so`.
    fn tell_of_end(&self, is_so: impl FnOnce(&QpState) -> bool) {
        let owner = {
            let mut state = self.state.lock();
            if state.phase != QpPhase::Open || state.end_noticed || !is_so(&state) {
                return;
            }
            state.end_noticed = true;
            state.owner.clone()
        };
        if let Some(owner) = owner {
            owner.connection_ended();
        }
    }

    /// Reports the number of silent requests that still come to the completion queue.
    fn count_silent(&self, state: &mut QpState) {
        let telling = state.initiator.telling();
        let former = std::mem::replace(&mut state.counted, telling);
        if telling != former {
            self.initiator_cq.count_silent(former, telling);
        }
    }

    /// Places the results that are complete.
    fn place(&self, state: &mut MutexGuard<'_, QpState>) {
        let context = self.options.context;
        let take = |slots: &mut Slots| {
            let mut results = Vec::new();
            slots.take_ended(context, |result| results.push(result));
            results
        };
        let QpState {
            initiator,
            receives,
            phase,
            ..
        } = &mut **state;
        let results = take(initiator);
        if !results.is_empty() {
            let untaken = &mut initiator.untaken;
            (self.initiator_cq).place(results.into_iter(), |numbers| untaken.placed(numbers));
        }
        // Messages that the peer sends before the client has completed the connection are seen afterwards (IW-001).
        if *phase != QpPhase::Claimed {
            let results = take(receives);
            let (count, cq) = (results.len(), &self.receive_cq);
            if count > 0 {
                cq.place(results.into_iter(), |numbers| match &self.srq {
                    Some(srq) => srq.placed(cq, numbers, count),
                    None => receives.untaken.placed(numbers),
                });
            }
        }
        self.count_silent(state);
    }

    /// An open connection ends for this reason.
    fn note(&self, end: ConnectionEnd) {
        self.state.lock().note(end);
    }

    // ---- for the connector ----

    /// The connection has ended, or ends, for this reason. Returns the first reason.
    pub(crate) fn ends(&self, end: ConnectionEnd) -> ConnectionEnd {
        self.state.lock().reason.note(end).clone()
    }

    /// The reason why the connection has ended, if it is known.
    pub(crate) fn connection_end(&self) -> Option<ConnectionEnd> {
        self.state.lock().reason.get().cloned()
    }

    /// Reserves the queue pair for a connection.
    pub(crate) fn claim(&self, owner: Arc<dyn ConnectionOwner>) -> Result<Arc<QueuePairHandle>> {
        let mut state = self.state.lock();
        self.core.device.present()?;
        match state.phase {
            QpPhase::Idle => {}
            QpPhase::Claimed | QpPhase::Open => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the queue pair is connected or connecting already",
                ); // CONN-020
            }
            // For its connector it is connected until Disconnect (ADPT-063).
            QpPhase::Ended if state.owner.is_some() => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the queue pair is connected to a peer that has gone; disconnect it first",
                );
            }
            QpPhase::Ended | QpPhase::Disconnected => {
                return fail(
                    Status::INVALID_DEVICE_STATE,
                    "the queue pair was connected before, or its completion queue has broken down; create a new queue pair",
                ); // AMB-035
            }
        }
        let Some(raw) = state.raw.clone() else {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the device could not make the queue pair anew; create a new queue pair",
            );
        };
        state.phase = QpPhase::Claimed;
        state.reason = FirstReason::default();
        state.owner = Some(owner);
        Ok(raw)
    }

    /// Ends the reservation before anything was done with it.
    pub(crate) fn unclaim(&self) {
        let owner = {
            let mut state = self.state.lock();
            if state.phase == QpPhase::Claimed {
                state.phase = QpPhase::Idle;
            }
            state.owner.take()
        };
        drop(owner); // outside the lock
    }

    /// Ends the reservation after an attempt that failed: another queue pair of the device takes the Receives. The last user of the old one
    /// drops it.
    pub(crate) fn remake(&self) {
        self.replace(QpPhase::Claimed);
    }

    /// Another queue pair of the device takes the place of the one that was claimed, with its Receives, or of an idle one, whose Receives
    /// are cancelled. Returns true if the queue pair still was in this phase; otherwise nothing is changed.
    fn replace(&self, expected: QpPhase) -> bool {
        let made = self.make();
        let mut state = self.state.lock();
        if state.phase != expected {
            drop(state);
            if let Ok(raw) = made {
                self.let_go(raw);
            }
            return false;
        }
        let raw = made.inspect_err(
            |error| tracing::error!(target: crate::log::TARGET, %error, "a queue pair is lost"),
        );
        if expected == QpPhase::Idle {
            state.receives.end_all(Status::CANCELED);
        } else if raw.is_ok() {
            state.phase = QpPhase::Idle;
        } else {
            state.phase = QpPhase::Ended;
        }
        let old = std::mem::replace(&mut state.raw, raw.ok());
        self.post_again(&mut state);
        let owner = state.owner.take();
        drop(state);
        drop(owner);
        if let Some(old) = old {
            self.let_go(old);
        }
        self.settle();
        true
    }

    /// Drops this queue pair of the device, and ignores its results from now on. It may be in use by a thread that still connects; then
    /// that thread destroys it.
    fn let_go(&self, raw: Arc<QueuePairHandle>) {
        for cq in self.queues() {
            cq.detach(raw.number(), self);
        }
    }

    /// Posts the Receives that wait to a new queue pair of the device.
    fn post_again(&self, state: &mut MutexGuard<'_, QpState>) {
        let QpState { raw, receives, .. } = &mut **state;
        let Some(raw) = raw else {
            receives.end_all(Status::CANCELED);
            return self.place(state);
        };
        let mut lost = Vec::new();
        for (number, slot) in receives.outstanding() {
            let entries = slot.entries.as_deref().unwrap_or_default();
            let posted = self.post_receive_to(raw, number, entries);
            if posted.is_err() {
                lost.push(number);
            }
        }
        for number in lost {
            receives.end(number, End::with(Status::INTERNAL_ERROR), false);
        }
        self.place(state);
    }

    /// Makes the peer send something: a Response to a Read of no octets. The client does not see it.
    pub(crate) fn ask_for_response(&self, raw: &QueuePairHandle) {
        let request = SendRequest {
            id: OWN_READ,
            operation: Operation::Read(RemoteMemory {
                address: 0,
                key: ANY_KEY,
            }),
            sges: &[self.core.empty_entry()],
            signaled: false,
            fence: false,
            solicited: false,
        };
        let _state = self.state.lock(); // Posts have an order.
        if let Err(failure) = raw.post(&request) {
            let error = failure.error;
            tracing::debug!(target: crate::log::TARGET, %error, "the peer is not asked for a response");
        }
    }

    /// The connection is established: requests may be posted. The caller [settles](Self::settle) the queues when it holds no lock any more,
    /// since results may have waited for this.
    pub(crate) fn open(&self, outbound_reads: u32) {
        let mut state = self.state.lock();
        if state.phase == QpPhase::Claimed {
            state.phase = QpPhase::Open;
            state.outbound_reads = outbound_reads;
            state.receives.forget_entries();
            self.place(&mut state);
        }
    }

    /// This side ends the connection: requests that the device fails from now on are cancelled.
    pub(crate) fn begin_end(&self, phase: QpPhase) {
        let mut state = self.state.lock();
        if state.phase == QpPhase::Open {
            state.phase = phase;
            state.ended_here = true;
        }
    }

    /// The connection has ended, or there will be none: destroys the device's queue pair, and cancels outstanding requests.
    pub(crate) fn end(&self, phase: QpPhase) {
        self.end_then(phase, || {});
    }

    /// Like [`end`](Self::end), and calls `then` when the outstanding requests have been cancelled. If another thread ends the queue pair
    /// at the moment, that thread does it. With a shared receive queue this may be later, so that no Receive of it is lost.
    pub(crate) fn end_then(&self, phase: QpPhase, then: impl FnOnce() + Send + 'static) {
        let (raw, drains) = {
            let mut state = self.state.lock();
            let drains = self.drains(&state);
            state.phase = phase;
            state.when_ended.push(Box::new(then));
            if state.ending {
                drop(state);
                if self.core.device.is_removed() {
                    self.drained(|_| true);
                }
                return;
            }
            state.ending = true;
            let raw = state.raw.take();
            // Before the device may report it.
            state.draining = raw.clone().filter(|_| drains).map(|raw| {
                let this: Weak<dyn Timed> = self.this.clone();
                let driver = &self.core.driver;
                Draining {
                    raw,
                    deadline: driver.remind(LAST_RECEIVE, driver.next_key(), this),
                }
            });
            (raw, drains)
        };
        let failed = raw.as_ref().map(|raw| raw.fail());
        if let Some(Err(error)) = &failed {
            tracing::debug!(target: crate::log::TARGET, %error, "the device does not flush a queue pair");
        }
        if !drains {
            return self.destroy(raw);
        }
        drop(raw);
        self.poll();
        // The device may have been removed before it was waited for.
        if !matches!(failed, Some(Ok(()))) || self.core.device.is_removed() {
            self.drained(|_| true);
        }
    }

    /// Returns true if the device may have results of Receives of a shared queue that it only reports later.
    fn drains(&self, state: &QpState) -> bool {
        let was_open = !matches!(state.phase, QpPhase::Idle | QpPhase::Claimed);
        let can_wait = !self.core.needs.flushes_at_once && !self.core.device.is_removed();
        self.srq.is_some() && state.raw.is_some() && was_open && can_wait
    }

    /// The last Receive of a shared queue has ended, or is no longer awaited, if `is_so` returns true for the awaited queue pair.
    fn drained(&self, is_so: impl FnOnce(&Draining) -> bool) {
        let draining = {
            let mut state = self.state.lock();
            match state.draining.take() {
                Some(draining) if is_so(&draining) => draining,
                other => return state.draining = other,
            }
        };
        self.core.driver.forget(draining.deadline);
        self.destroy(Some(draining.raw));
    }

    /// Destroys the device's queue pair, which has failed, and cancels outstanding requests.
    fn destroy(&self, raw: Option<Arc<QueuePairHandle>>) {
        if let Some(raw) = raw {
            let number = raw.number();
            self.poll();
            drop(raw);
            self.poll();
            for cq in self.queues() {
                cq.detach(number, self);
            }
        }
        let mut state = self.state.lock();
        state.ending = false;
        state.initiator.end_all(Status::CANCELED);
        state.receives.end_all(Status::CANCELED);
        self.place(&mut state);
        let when_ended = std::mem::take(&mut state.when_ended);
        drop(state);
        self.settle();
        for then in when_ended {
            then();
        }
    }

    /// The device's queue pair.
    pub(crate) fn raw(&self) -> Option<Arc<QueuePairHandle>> {
        self.state.lock().raw.clone()
    }

    /// There will be no connection, but the device's queue pair cannot be ended yet. Outstanding requests are cancelled. The caller has to
    /// drop the device's queue pair in a thread that may block.
    pub(crate) fn give_up(&self) -> Option<Arc<QueuePairHandle>> {
        let raw = {
            let mut state = self.state.lock();
            state.phase = QpPhase::Disconnected;
            state.raw.take()
        };
        self.poll();
        if let Some(raw) = &raw {
            for cq in self.queues() {
                cq.detach(raw.number(), self);
            }
        }
        self.end(QpPhase::Disconnected);
        raw
    }

    // ---- for the client ----

    /// Locks the state; if a queue is full, frees the slots of requests whose results the client has taken, and of silent ones that have
    /// ended.
    fn with_room(
        &self,
        queue: fn(&mut QpState) -> &mut Slots,
        depth: u32,
        results: &Cq,
    ) -> MutexGuard<'_, QpState> {
        let is_full = |state: &mut QpState| {
            let queue = queue(state);
            if queue.used() >= depth as usize {
                queue.untaken.take_below(results.taken());
            }
            queue.used() >= depth as usize
        };
        let mut state = self.state.lock();
        if !is_full(&mut state) {
            return state;
        }
        drop(state);
        results.poll();
        state = self.state.lock();
        is_full(&mut state);
        state
    }

    /// Posts an initiator request. `post` gets the number of the request for the device, and true if the device has to report its end.
    pub(crate) fn post(
        &self,
        posting: Posting,
        post: impl FnOnce(&QueuePairHandle, u64, bool) -> Result<(), PostFailure>,
    ) -> Result<()> {
        self.post_keeping(posting, |raw, number, tells| {
            post(raw, number, tells)?;
            Ok(None)
        })
    }

    /// Like [`post`](Self::post). The result of `post` is kept until the request has ended. `post` is called under the lock of the queue
    /// pair, in the order of requests.
    pub(crate) fn post_keeping(
        &self,
        posting: Posting,
        post: impl FnOnce(&QueuePairHandle, u64, bool) -> Result<Option<Kept>, NotPosted>,
    ) -> Result<()> {
        let depth = self.options.initiator_queue_depth;
        let mut state = self.with_room(|state| &mut state.initiator, depth, &self.initiator_cq);
        self.core.device.present()?;
        match state.phase {
            QpPhase::Open | QpPhase::Ended => {}
            QpPhase::Idle | QpPhase::Claimed | QpPhase::Disconnected => {
                return fail(
                    Status::CONNECTION_INVALID,
                    "the queue pair is not connected",
                );
            }
        }
        check_sizes(posting.sges, posting.octets)?;
        if state.initiator.used() >= depth as usize {
            return Err(full());
        }
        let number = state.initiator.push(Slot {
            silent: posting.silent,
            denied: posting.denied,
            ..Slot::new(posting.kind, posting.context)
        });
        let is_read = matches!(posting.kind, RequestType::Read | RequestType::Atomic);
        let raw = match &state.raw {
            Some(raw) if state.phase == QpPhase::Open => Arc::clone(raw),
            _ => {
                state
                    .initiator
                    .end(number, End::with(Status::CANCELED), false);
                return self.placed(state);
            }
        };
        let tells = !posting.silent
            || self.core.needs.completes_out_of_order
            // The device gives back the places of other requests when such a request has ended.
            || state.untold + 1 >= depth.div_ceil(2);
        let posted = if is_read && state.outbound_reads == 0 {
            Err(NotPosted::Ends(Status::INVALID_DEVICE_REQUEST)) // AMB-045
        } else {
            post(&raw, number, tells)
        };
        match posted {
            Ok(kept) => {
                state.initiator.keep(number, kept);
                state.untold = if tells { 0 } else { state.untold + 1 };
                if posting.silent && tells {
                    state.initiator.tells(number);
                    self.count_silent(&mut state);
                    drop(state);
                    self.initiator_cq.make_room();
                }
                Ok(())
            }
            Err(NotPosted::Ends(status)) => {
                state.initiator.end(number, End::with(status), false);
                if !status.is_success() {
                    state.note(connection_end::of_request(status));
                    self.notice_end(&mut state);
                    let _ = raw.fail();
                }
                self.placed(state)?;
                self.tell();
                Ok(())
            }
            Err(NotPosted::Fails(error)) => {
                state.initiator.pop_last();
                Err(error)
            }
            Err(NotPosted::Refused(failure)) if self.has_ended(&state, &failure) => {
                // The end of the connection follows, and cancels the request.
                if !failure.is_queued {
                    let end = End::with(Status::CANCELED);
                    state.initiator.end(number, end, false);
                }
                self.placed(state)
            }
            Err(NotPosted::Refused(failure)) => {
                state.initiator.pop_last();
                Err(not_posted(&failure.error))
            }
        }
    }

    /// A number that distinguishes the queue pair from others.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// From now on the peer may invalidate a window with a Send.
    pub(crate) fn add_window(&self, binding: &Arc<WindowBinding>) {
        let mut state = self.state.lock();
        let windows = &mut state.windows;
        if windows.len() == windows.capacity() {
            windows.retain(|window| window.strong_count() > 0);
        }
        windows.push(Arc::downgrade(binding));
    }

    /// Posts a Receive.
    pub(crate) fn post_receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let depth = self.options.receive_queue_depth;
        let mut state = self.with_room(|state| &mut state.receives, depth, &self.receive_cq);
        self.core.device.present()?;
        let octets = sges.iter().map(|sge| u64::from(sge.length)).sum();
        check_sizes(
            (sges.len(), self.options.max_receive_request_sge),
            (octets, self.core.limits.transfer_length),
        )?;
        if state.receives.used() >= depth as usize {
            return Err(full());
        }
        let waits = matches!(state.phase, QpPhase::Idle | QpPhase::Claimed);
        let number = state.receives.push(Slot {
            entries: waits.then(|| sges.into()),
            ..Slot::new(RequestType::Receive, context)
        });
        let raw = match &state.raw {
            Some(raw) if waits || state.phase == QpPhase::Open => Arc::clone(raw),
            _ => {
                state
                    .receives
                    .end(number, End::with(Status::CANCELED), false);
                return self.placed(state);
            }
        };
        match self.post_receive_to(&raw, number, sges) {
            Ok(()) => Ok(()),
            Err(failure) if self.has_ended(&state, &failure) => {
                if !failure.is_queued {
                    state
                        .receives
                        .end(number, End::with(Status::CANCELED), false);
                }
                self.placed(state)
            }
            Err(failure) => {
                state.receives.pop_last();
                Err(not_posted(&failure.error))
            }
        }
    }

    /// Returns true if the driver has taken a request with a connection that is over, or has refused it for that reason. After a failure
    /// that is known it may refuse any request (AMB-046).
    fn has_ended(&self, state: &QpState, failure: &PostFailure) -> bool {
        failure.is_queued || state.end_noticed || has_ended(&failure.error, &self.core)
    }

    fn post_receive_to(
        &self,
        raw: &QueuePairHandle,
        number: u64,
        sges: &[Sge],
    ) -> Result<(), PostFailure> {
        with_entries(&self.core, sges, |entries| {
            raw.post_receive(number | RECEIVE, entries)
        })
    }

    /// Places results, unlocks, and settles the queues.
    #[cold]
    fn placed(&self, mut state: MutexGuard<'_, QpState>) -> Result<()> {
        self.place(&mut state);
        drop(state);
        self.settle();
        Ok(())
    }

    /// The client flushes the queue pair (QP-004). This ends a connection, or an attempt to make one.
    pub(crate) fn flush(&self) {
        loop {
            let (phase, owner) = {
                let state = self.state.lock();
                (state.phase, state.owner.clone())
            };
            if let Some(owner) = owner {
                owner.queue_pair_flushed();
            }
            match phase {
                // If a connector claims the queue pair meanwhile, the attempt ends as well.
                QpPhase::Idle if !self.replace(QpPhase::Idle) => {}
                QpPhase::Claimed if self.state.lock().phase == QpPhase::Idle => {}
                QpPhase::Open => return self.end(QpPhase::Ended),
                _ => return,
            }
        }
    }

    fn device_removed(&self) {
        self.note(connection_end::of_removal());
        self.begin_end(QpPhase::Ended);
        self.end(QpPhase::Ended);
    }

    /// The client has released the queue pair (QP-074).
    pub(crate) fn released(&self) {
        let owner = self.state.lock().owner.clone();
        if let Some(owner) = owner {
            owner.queue_pair_released();
        }
        self.end(QpPhase::Disconnected);
        let owner = self.state.lock().owner.take();
        drop(owner);
    }
}
