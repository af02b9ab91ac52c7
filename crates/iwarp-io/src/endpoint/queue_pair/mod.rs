//! The owner of an endpoint that is a queue pair: results on their way from the engine to two completion queues.
//!
//! The results of initiator requests go to one completion queue, and those of Receives to another one or to the same. [`PairOwner`] is what
//! the interfaces differ in; everything else of an [`Owner`] follows from it here. Results are collected under the endpoint's lock, and
//! several are placed at a time. Work that they cause and that needs the lock released is delivered once the endpoint is unlocked.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp::{Completion, RequestKind};

use super::connection_end::ConnectionEnd;
use super::owner::{Owner, Rules, Signals, WorkQueue};
use super::shared_receives::{
    Membership, ReceiveSupply, ResultQueue, SharedReceives, Waiter, wake,
};
use crate::cq::{
    CompletedNotifies, Entry, PlannedFaults, Poller, Queue, QueueUser, Reason, Untaken, each_run,
};
use crate::planted;
use crate::progress::domain::Domain;

/// The number of results that are placed in their completion queue at a time.
const BATCH: usize = 16;

/// A queue pair of some interface, which makes the interface's form of results. Its functions are called with the
/// endpoint locked unless they say otherwise.
pub trait PairOwner: Rules + Send + Sync + Sized + 'static {
    /// The completion queues.
    type Cq: PairCq<Self::Entry, Self::Request>;

    /// The shared receive queues.
    type Srq: PairSrq;

    /// A result on its way into a completion queue.
    type Entry: Entry + Send;

    /// A request of the client that waits for a result.
    type Request: Send;

    /// Sets up and ends the connection.
    type Connection: ConnectionOwner + ?Sized;

    /// The interface's data under the endpoint's lock.
    type State: Send + Default;

    /// The queues of the queue pair.
    fn queues(&self) -> &PairQueues<Self>;

    /// A stream starts.
    fn stream_starts(&self, _state: &mut Self::State) {}

    /// The connection with this peer has ended, for this reason. Called once for a connection, and before the results that the end brings
    /// about.
    fn connection_ended(&self, _state: &mut Self::State, _end: &ConnectionEnd, _peer: SocketAddr) {}

    /// A request has ended: [pushes](PairState::push) its result, or lets it [vanish](PairState::vanish).
    fn ended(&self, state: &mut PairState<Self>, completion: Completion);

    /// The queue pair draws no more Receives from its shared receive queue. Called once for a connection, with no lock held.
    fn last_receive(&self) {}

    /// A request was posted that waits for a stream. Called with no lock held.
    fn waits_for_stream(&self) {}

    /// These events have happened to the connection; its owner is notified next. Called with no lock held.
    fn signalled(&self, _signals: Signals) {}

    /// The stream is gone, and the connection's owner was notified. Called with no lock held.
    fn gone(&self);
}

/// Sets up and ends the connection of a queue pair.
pub trait ConnectionOwner: Send + Sync {
    /// These events have happened to the connection. Called with the queue pair unlocked.
    fn signalled(&self, signals: Signals);
}

/// A completion queue of an interface, with entries `E` and requests `R` that wait for results.
pub trait PairCq<E: Entry, R>: ResultQueue {
    /// The domain, and the queue pairs that end with the queue.
    fn poller(&self) -> &Poller;

    /// The queue itself.
    fn queue(&self) -> &Queue<E, R>;

    /// The faults of a plan.
    fn faults(&self) -> &PlannedFaults<E>;

    /// Completes requests, with no lock held. After a breakdown, ends every queue pair of the queue first.
    fn deliver(&self, notifies: CompletedNotifies<R>);

    /// Places results. The caller delivers the returned requests when no lock is held. The endpoint is locked, which keeps its results in
    /// order.
    ///
    /// `numbered` gets the number of the first result and how many there are, in order, before the client can take any of them. A queue
    /// that has broken down, or has no room, drops results; they have no number.
    #[inline]
    fn place(
        &self,
        entries: impl Iterator<Item = E> + Clone,
        numbered: impl FnOnce(u64, usize),
    ) -> Option<CompletedNotifies<R>> {
        let interest = self.poller().interest();
        self.faults()
            .place(self.queue(), entries, numbered, interest)
    }

    /// Breaks the queue down with all its queue pairs, as an overflow does. Called with no lock held.
    fn break_down(&self, reason: Reason) {
        let interest = self.poller().interest();
        if let Some(notifies) = self.queue().break_down(reason, interest) {
            self.deliver(notifies);
        }
    }

    /// A timer of the [faults](PlannedFaults) has expired.
    fn fault_is_due(&self, now: Instant) {
        if let Some(reason) = self.faults().due_breakdown() {
            self.break_down(reason);
        }
        let interest = self.poller().interest();
        if let Some(notifies) = self.faults().release(Some(now), self.queue(), interest) {
            self.deliver(notifies);
        }
    }
}

/// A shared receive queue of an interface.
pub trait PairSrq {
    /// Notifies the client if the number of Receives has fallen below the threshold, and drives queue pairs that get a Receive which
    /// another one has given back. Called with no lock held.
    fn look(&self);
}

/// The queues to which the results of a queue pair go, and from which its Receives come.
pub struct PairQueues<P: PairOwner> {
    /// The completion queue of initiator requests.
    pub initiator: Arc<P::Cq>,
    /// The completion queue of Receives.
    pub receive: Arc<P::Cq>,
    /// The shared receive queue, if the queue pair uses one, and the right to draw from it.
    pub shared: Option<(Arc<P::Srq>, Membership)>,
}

impl<P: PairOwner> PairQueues<P> {
    /// The queues of an endpoint, which is driven as `waiter` when it gets a shared Receive for which it has waited.
    pub fn new(
        initiator: Arc<P::Cq>,
        receive: Arc<P::Cq>,
        shared: Option<(Arc<P::Srq>, &Arc<SharedReceives>)>,
        waiter: Weak<dyn Waiter>,
    ) -> Self {
        let queue: Weak<P::Cq> = Arc::downgrade(&receive);
        let shared = shared.map(|(srq, receives)| (srq, receives.join(waiter, queue)));
        Self {
            initiator,
            receive,
            shared,
        }
    }

    /// Returns true if both completion queues are the same.
    pub fn is_one(&self) -> bool {
        Arc::ptr_eq(&self.receive, &self.initiator)
    }

    /// Makes the completion queues end this queue pair if they break down.
    pub fn attach(&self, user: Weak<impl QueueUser + 'static>) {
        if !self.is_one() {
            self.initiator.poller().users.add(user.clone());
        }
        self.receive.poller().users.add(user);
    }

    fn cq(&self, queue: WorkQueue) -> &P::Cq {
        match queue {
            WorkQueue::Initiator => &self.initiator,
            WorkQueue::Receive => &self.receive,
        }
    }
}

/// The data of a queue pair under its endpoint's lock.
pub struct PairState<P: PairOwner> {
    /// The interface's data.
    pub own: P::State,
    /// Sets up and ends the connection.
    pub connection: Option<Weak<P::Connection>>,
    /// Results on their way to the queues, in order, with true for those of Receives.
    batch: Vec<(bool, P::Entry)>,
    /// Results that the client has not taken: of initiator requests, and of the queue pair's own Receives.
    untaken: [Untaken; 2],
    /// [`PairOwner::last_receive`] was called for this connection, or will be.
    drew_last: bool,
    notices: PairNotices<P>,
}

/// What is done once the endpoint is unlocked.
pub struct PairNotices<P: PairOwner> {
    /// Requests that complete because of placed results: of initiator requests, and of Receives.
    notifies: [Option<CompletedNotifies<P::Request>>; 2],
    /// The number of shared Receives may have fallen below the threshold, or queue pairs may have to be driven.
    look: bool,
    /// The queue pair draws no more Receives.
    last_receive: bool,
    /// A request waits for a stream.
    waits_for_stream: bool,
    /// The queue pair that gets the shared Receive promised to this queue pair.
    next: Option<Weak<dyn Waiter>>,
    signals: Signals,
    connection: Option<Arc<P::Connection>>,
}

impl<P: PairOwner> Default for PairNotices<P> {
    fn default() -> Self {
        Self {
            notifies: [None, None],
            look: false,
            last_receive: false,
            waits_for_stream: false,
            next: None,
            signals: Signals::empty(),
            connection: None,
        }
    }
}

impl<P: PairOwner> Default for PairState<P> {
    fn default() -> Self {
        Self {
            own: P::State::default(),
            connection: None,
            batch: Vec::new(),
            untaken: Default::default(),
            drew_last: false,
            notices: PairNotices::default(),
        }
    }
}

impl<P: PairOwner> PairState<P> {
    /// The owner of the connection, if there is one.
    pub fn connection(&self) -> Option<Arc<P::Connection>> {
        self.connection.as_ref()?.upgrade()
    }

    /// Forgets the results that the client has not taken. They were removed from the completion queues.
    pub fn forget_untaken(&mut self) {
        self.untaken = Default::default();
    }

    /// Adds a result of this kind of request. It is placed with others.
    #[inline]
    pub fn push(&mut self, kind: RequestKind, entry: P::Entry, queues: &PairQueues<P>) {
        let is_receive = kind == RequestKind::Receive;
        if planted!(ResultLost) && self.batch.len() + 1 == BATCH {
            return;
        }
        self.batch.push((is_receive, entry));
        if planted!(ResultTwice) && self.batch.len() == 3 {
            self.batch.push((is_receive, entry));
        }
        if self.batch.len() == BATCH {
            self.place(queues);
        }
    }

    /// A request of this kind ends without a result for the client.
    pub fn vanish(&mut self, kind: RequestKind, queues: &PairQueues<P>) {
        if let Some((_, membership)) = &queues.shared
            && kind == RequestKind::Receive
        {
            membership.vanished();
        }
    }

    /// Places the results that were collected.
    #[inline]
    fn place(&mut self, queues: &PairQueues<P>) {
        let Self {
            batch,
            untaken,
            notices,
            ..
        } = self;
        if let Some((_, membership)) = &queues.shared {
            let receives = membership.queue();
            notices.look |= receives.is_low() || receives.has_due();
        }
        if batch.is_empty() {
            return;
        }
        let [initiator, receive] = &mut notices.notifies;
        let mut placed = |is_receive, first, count| match &queues.shared {
            Some((_, membership)) if is_receive => membership.placed(first, count),
            _ => untaken[usize::from(is_receive)].placed(first, count),
        };
        if queues.is_one() {
            let entries = batch.iter().map(|(_, entry)| *entry);
            let notifies = queues.receive.place(entries, |first, count| {
                if let [(is_receive, _)] = batch[..] {
                    return placed(is_receive, first, 1); // most of the time
                }
                let kinds = batch[..count].iter().map(|(is_receive, _)| *is_receive);
                each_run(first, kinds, placed);
            });
            CompletedNotifies::add(receive, notifies);
        } else {
            let mut place = |cq: &P::Cq, of_receives| {
                let entries = batch
                    .iter()
                    .filter(|(is_receive, _)| *is_receive == of_receives);
                cq.place(entries.map(|(_, entry)| *entry), |first, count| {
                    placed(of_receives, first, count as u64);
                })
            };
            CompletedNotifies::add(initiator, place(&queues.initiator, false));
            CompletedNotifies::add(receive, place(&queues.receive, true));
        }
        batch.clear();
    }

    /// The queue pair draws no more Receives from the shared receive queue, if it uses one.
    fn draws_no_more(&mut self, queues: &PairQueues<P>) {
        if queues.shared.is_some() && !std::mem::replace(&mut self.drew_last, true) {
            self.notices.last_receive = true;
        }
    }
}

impl<P: PairOwner> Owner for P {
    type State = PairState<P>;
    type Notices = PairNotices<P>;
    type Receives<'a> = ReceiveSupply<'a>;

    #[inline]
    fn receives(&self) -> ReceiveSupply<'_> {
        match &self.queues().shared {
            None => ReceiveSupply::Own,
            Some((_, membership)) => ReceiveSupply::Shared(membership),
        }
    }

    #[inline]
    fn domain(&self, queue: WorkQueue) -> &Arc<Domain> {
        self.queues().cq(queue).poller().domain()
    }

    fn wake(&self, queue: WorkQueue) {
        self.queues().cq(queue).poller().wake();
    }

    fn started(&self, state: &mut PairState<P>) {
        state.batch.reserve(BATCH);
        state.drew_last = false;
        self.stream_starts(&mut state.own);
    }

    fn connection_ended(&self, state: &mut PairState<P>, end: &ConnectionEnd, peer: SocketAddr) {
        PairOwner::connection_ended(self, &mut state.own, end, peer);
    }

    #[inline]
    fn completed(&self, state: &mut PairState<P>, completion: Completion) {
        self.ended(state, completion);
    }

    fn taken(&self, state: &mut PairState<P>, queue: WorkQueue) -> u64 {
        let untaken = &mut state.untaken[usize::from(queue == WorkQueue::Receive)];
        untaken.take_below(self.queues().cq(queue).taken())
    }

    #[inline]
    fn place(&self, state: &mut PairState<P>) {
        state.place(self.queues());
    }

    #[inline]
    fn has_notices(state: &PairState<P>) -> bool {
        let notices = &state.notices;
        let [initiator, receive] = &notices.notifies;
        let notifies = initiator.is_some() || receive.is_some();
        let others = notices.last_receive || notices.waits_for_stream || notices.next.is_some();
        notifies || notices.look || others
    }

    #[inline]
    fn take_notices(&self, state: &mut PairState<P>, signals: Signals) -> PairNotices<P> {
        if signals.contains(Signals::FLUSHED) {
            state.draws_no_more(self.queues());
        }
        let is_signalled = !signals.is_empty();
        let connection = is_signalled.then(|| state.connection()).flatten();
        let notices = &mut state.notices;
        PairNotices {
            notifies: std::mem::take(&mut notices.notifies),
            look: std::mem::take(&mut notices.look),
            last_receive: std::mem::take(&mut notices.last_receive),
            waits_for_stream: std::mem::take(&mut notices.waits_for_stream),
            next: notices.next.take(),
            signals,
            connection,
        }
    }

    #[inline]
    fn deliver(&self, notices: PairNotices<P>) {
        let PairNotices {
            notifies: [initiator, receive],
            look,
            last_receive,
            waits_for_stream,
            next,
            signals,
            connection,
        } = notices;
        let queues = self.queues();
        if let Some(notifies) = receive {
            queues.receive.deliver(notifies);
        }
        if let Some(notifies) = initiator {
            queues.initiator.deliver(notifies);
        }
        if let Some((srq, _)) = &queues.shared
            && look
        {
            srq.look();
        }
        if last_receive {
            self.last_receive();
        }
        if waits_for_stream {
            PairOwner::waits_for_stream(self);
        }
        wake(next);
        self.signalled(signals);
        if let Some(connection) = connection {
            connection.signalled(signals);
        }
        if signals.contains(Signals::GONE) {
            self.gone();
        }
    }

    fn waits_for_stream(&self, state: &mut PairState<P>) {
        state.notices.waits_for_stream = true;
    }

    fn draws_no_more(&self, state: &mut PairState<P>) {
        state.draws_no_more(self.queues());
        self.waits_no_more(state);
    }

    /// Passes on a Receive that was promised to this queue pair to another queue pair.
    fn waits_no_more(&self, state: &mut PairState<P>) {
        if let Some((_, membership)) = &self.queues().shared
            && let Some(next) = membership.step_back()
        {
            let passed_on = state.notices.next.replace(next);
            debug_assert!(
                passed_on.is_none(),
                "a promised Receive was passed on twice"
            );
        }
    }

    /// Breaks down both completion queues, at a time when no lock is held.
    #[cold]
    fn break_queues(&self, status: &str) {
        let queues = self.queues();
        for queue in [&queues.receive, &queues.initiator] {
            queue.faults().break_soon(status);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
