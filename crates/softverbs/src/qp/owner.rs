//! The owner of a queue pair's endpoint: turns the engine's completions into work completions.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use iwarp_io::cq::{Untaken, each_run};
use iwarp_io::endpoint::shared_receives::{
    Membership, ReceiveSupply, ResultQueue as _, Waiter, wake,
};
use iwarp_io::endpoint::{self, Completion, Owner, RequestKind, StreamId, WorkQueue};
use iwarp_io::planted;
use iwarp_io::progress::domain::Domain;

pub(crate) use endpoint::Signals;

use super::state::QpState;
use crate::context::{AsyncEventKind, Context, EventSubject};
use crate::cq::{CompletionQueue, CqEntry, DueEvents, WcOpcode, WcStatus, WorkCompletion};
use crate::process::Process;
use crate::srq::SharedReceiveQueue;
use crate::users::{Acknowledgements, Tag};

/// The number of completions that are placed in their queue at a time.
const COMPLETIONS: usize = 16;

/// The signals after which a connection carries no more messages.
const ENDS: Signals = Signals::PEER_CLOSED
    .union(Signals::FAILED)
    .union(Signals::RESET)
    .union(Signals::GONE);

/// The endpoint of a queue pair.
pub(crate) type QpEndpoint = endpoint::Endpoint<QpOwner>;

/// Work to do once an endpoint is unlocked.
pub(crate) type QpNews = endpoint::News<QpOwner>;

/// Holds back the results that the end of a connection flushes.
pub(crate) type QpFlushGuard = endpoint::FlushGuard<QpOwner>;

/// Sets up and ends the connection of a queue pair. Called with the queue pair unlocked.
pub(crate) trait ConnectionOwner: Send + Sync {
    /// These events have happened to the connection.
    fn signalled(&self, signals: Signals);
}

/// The identity of a queue pair in asynchronous events.
#[derive(Debug, Default)]
pub(crate) struct QpSubject {
    pub(super) tag: Tag,
    pub(super) acknowledgements: Acknowledgements,
}

impl EventSubject for QpSubject {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn acknowledgements(&self) -> &Acknowledgements {
        &self.acknowledgements
    }
}

/// The parts of a queue pair other than its connection.
pub(crate) struct QpOwner {
    pub(super) process: Arc<Process>,
    pub(super) context: Arc<Context>,
    pub(super) number: u32,
    /// The number of the connection in the driver.
    pub(super) stream: AtomicU32,
    pub(super) send_cq: Arc<CompletionQueue>,
    pub(super) receive_cq: Arc<CompletionQueue>,
    pub(super) shared: Option<SharedMember>,
    /// A [`QpState`].
    pub(super) state: AtomicU8,
    pub(super) subject: Arc<QpSubject>,
    /// Requests vanish without a completion: the program has destroyed the queue pair, or resets it.
    pub(super) is_muted: AtomicBool,
}

/// The shared receive queue of a queue pair.
pub(super) struct SharedMember {
    pub(super) srq: Arc<SharedReceiveQueue>,
    pub(super) membership: Membership,
}

/// The data under the queue pair's lock other than its connection.
#[derive(Default)]
pub(crate) struct QpOwnerState {
    pub(super) connection_owner: Option<Weak<dyn ConnectionOwner>>,
    /// Completions on their way from the engine to the queues, in order.
    completions: Vec<(bool, CqEntry)>,
    /// Completions that the program has not taken: of the send queue, and of the queue pair's own Receives.
    pub(super) untaken: [Untaken; 2],
    due: DueOfQueues,
    shared: SharedNews,
    /// A request of the send queue has failed. Requests behind it count as flushed, including those that the transport has accepted.
    has_failed: bool,
    /// The event of the last Receive was raised for this connection.
    pub(super) last_receive_told: bool,
}

/// News of the shared receive queue.
#[derive(Default)]
struct SharedNews {
    /// The number of Receives may have fallen below the limit, or queue pairs may have to be driven.
    look: bool,
    /// The queue pair that gets the Receive promised to this queue pair.
    next: Option<Weak<dyn Waiter>>,
    /// The queue pair draws no more Receives.
    last: bool,
}

/// Events of the two completion queues that placed completions have made due.
#[derive(Default)]
struct DueOfQueues {
    receive: Option<DueEvents>,
    send: Option<DueEvents>,
}

impl DueOfQueues {
    fn add(of: &mut Option<DueEvents>, due: Option<DueEvents>) {
        if let Some(due) = due {
            *of = Some(match of.take() {
                Some(before) => before.and(due),
                None => due,
            });
        }
    }
}

/// Notifications to send once the queue pair is unlocked.
pub(crate) struct QpNotices {
    due: DueOfQueues,
    signals: Signals,
    connection_owner: Option<Arc<dyn ConnectionOwner>>,
    shared: SharedNews,
}

impl QpOwner {
    pub(super) fn state(&self) -> QpState {
        QpState::from_bits(self.state.load(Ordering::Acquire))
    }

    pub(super) fn set_state(&self, state: QpState) {
        self.state.store(state as u8, Ordering::Release);
    }

    pub(super) fn stream(&self) -> StreamId {
        StreamId(self.stream.load(Ordering::Relaxed))
    }

    /// The queue pair draws no more Receives from its shared receive queue.
    fn note_last_receive(&self, state: &mut QpOwnerState) {
        if !std::mem::replace(&mut state.last_receive_told, true) {
            state.shared.last = true;
        }
    }

    fn cq(&self, queue: WorkQueue) -> &Arc<CompletionQueue> {
        match queue {
            WorkQueue::Initiator => &self.send_cq,
            WorkQueue::Receive => &self.receive_cq,
        }
    }
}

impl Owner for QpOwner {
    type State = QpOwnerState;
    type Notices = QpNotices;
    type Receives<'a> = ReceiveSupply<'a>;

    fn receives(&self) -> ReceiveSupply<'_> {
        match &self.shared {
            None => ReceiveSupply::Own,
            Some(shared) => ReceiveSupply::Shared(&shared.membership),
        }
    }

    fn domain(&self, queue: WorkQueue) -> &Arc<Domain> {
        self.cq(queue).poller.domain()
    }

    fn wake(&self, queue: WorkQueue) {
        self.cq(queue).poller.wake();
    }

    fn started(&self, state: &mut QpOwnerState) {
        state.completions.reserve(COMPLETIONS);
        state.last_receive_told = false;
        state.has_failed = false;
    }

    fn completed(&self, state: &mut QpOwnerState, completion: Completion) {
        let is_receive = completion.kind == RequestKind::Receive;
        if self.is_muted.load(Ordering::Relaxed) {
            if let Some(shared) = self.shared.as_ref().filter(|_| is_receive) {
                shared.membership.vanished();
            }
            return;
        }
        let mut status = WcStatus::of(completion.status);
        if !is_receive {
            if state.has_failed && status == WcStatus::Success {
                status = WcStatus::Flushed;
            }
            state.has_failed |= status != WcStatus::Success;
        }
        let mut opcode = WcOpcode::of(completion.kind);
        let mut byte_len = completion.octets;
        let immediate = completion.immediate.map(|data| {
            opcode = WcOpcode::ReceiveImmediate;
            let (number, length) = parse_immediate(data, completion.octets);
            byte_len = length;
            number
        });
        let entry = CqEntry {
            completion: WorkCompletion {
                wr_id: completion.context,
                status,
                opcode,
                byte_len,
                qp_num: self.number,
                invalidated: completion.invalidated.map(|stag| stag.0),
                immediate,
            },
            solicited: completion.solicited,
        };
        if planted!(ResultLost) && state.completions.len() == 2 {
            return;
        }
        state.completions.push((is_receive, entry));
        if planted!(ResultTwice) && state.completions.len() == 3 {
            state.completions.push((is_receive, entry));
        }
        if state.completions.len() == COMPLETIONS {
            self.place(state);
        }
    }

    fn taken(&self, state: &mut QpOwnerState, queue: WorkQueue) -> u64 {
        let untaken = &mut state.untaken[usize::from(queue == WorkQueue::Receive)];
        untaken.take_below(self.cq(queue).taken())
    }

    fn place(&self, state: &mut QpOwnerState) {
        if let Some(shared) = &self.shared {
            let receives = &shared.srq.receives;
            state.shared.look |= receives.is_low() || receives.has_due();
        }
        let QpOwnerState {
            completions,
            untaken,
            due,
            ..
        } = state;
        if completions.is_empty() {
            return;
        }
        let mut placed = |is_receive, first, count| match &self.shared {
            Some(shared) if is_receive => shared.membership.placed(first, count),
            _ => untaken[usize::from(is_receive)].placed(first, count),
        };
        if Arc::ptr_eq(&self.receive_cq, &self.send_cq) {
            let entries = completions.iter().map(|(_, entry)| *entry);
            let events = self.receive_cq.place(entries, |first, count| {
                if let [(is_receive, _)] = completions[..] {
                    return placed(is_receive, first, 1); // most of the time
                }
                let kinds = completions[..count].iter();
                each_run(first, kinds.map(|(is_receive, _)| *is_receive), placed);
            });
            DueOfQueues::add(&mut due.receive, events);
        } else {
            let of = |receive| {
                let completions = completions.iter();
                completions
                    .filter(move |(is, _)| *is == receive)
                    .map(|(_, entry)| *entry)
            };
            let (send, receive) = (
                self.send_cq.place(of(false), |first, count| {
                    placed(false, first, count as u64);
                }),
                self.receive_cq
                    .place(of(true), |first, count| placed(true, first, count as u64)),
            );
            DueOfQueues::add(&mut due.send, send);
            DueOfQueues::add(&mut due.receive, receive);
        }
        completions.clear();
    }

    fn has_notices(state: &QpOwnerState) -> bool {
        let QpOwnerState { due, shared, .. } = state;
        due.receive.is_some()
            || due.send.is_some()
            || shared.look
            || shared.last
            || shared.next.is_some()
    }

    fn take_notices(&self, state: &mut QpOwnerState, signals: Signals) -> QpNotices {
        if self.shared.is_some() && signals.intersects(ENDS) {
            self.note_last_receive(state);
        }
        let owner = state.connection_owner.as_ref();
        QpNotices {
            due: std::mem::take(&mut state.due),
            signals,
            connection_owner: match signals.is_empty() {
                true => None,
                false => owner.and_then(Weak::upgrade),
            },
            shared: std::mem::take(&mut state.shared),
        }
    }

    fn deliver(&self, notices: QpNotices) {
        let QpNotices {
            due,
            signals,
            connection_owner,
            shared,
        } = notices;
        if let Some(due) = due.receive {
            self.receive_cq.deliver(due);
        }
        if let Some(due) = due.send {
            self.send_cq.deliver(due);
        }
        if let Some(own) = &self.shared
            && shared.look
        {
            own.srq.look();
        }
        if shared.last && !self.is_muted.load(Ordering::Relaxed) {
            let subject = Arc::clone(&self.subject);
            self.context
                .raise(AsyncEventKind::LastReceiveReached, subject);
        }
        wake(shared.next);
        if signals.intersects(ENDS) && matches!(self.state(), QpState::Rtr | QpState::Rts) {
            self.set_state(QpState::Err);
        }
        if let Some(owner) = connection_owner {
            owner.signalled(signals);
        }
        if signals.contains(Signals::GONE) {
            drop(self.process.unlinger(self.stream()));
        }
    }

    fn queue_broke(&self) {
        self.set_state(QpState::Err);
    }

    #[cold]
    fn break_queues(&self, _: &str) {
        for queue in [&self.receive_cq, &self.send_cq] {
            let queue: Weak<CompletionQueue> = Arc::downgrade(queue);
            self.process.break_soon(queue);
        }
    }

    /// Passes on a Receive that was promised to this queue pair to another queue pair, and reports once to the program that the queue pair
    /// draws no more.
    fn draws_no_more(&self, state: &mut QpOwnerState) {
        if let Some(shared) = &self.shared {
            self.note_last_receive(state);
            if let Some(next) = shared.membership.step_back() {
                state.shared.next = Some(next);
            }
        }
    }
}

/// The number in the Immediate Data of a peer, and the length of its Write. A peer of this library states the length. A length of more than
/// `written` is not believed, because the program may read as many octets.
fn parse_immediate([a, b, c, d, length @ ..]: [u8; 8], written: u32) -> ([u8; 4], u32) {
    ([a, b, c, d], u32::from_be_bytes(length).min(written))
}

#[cfg(test)]
mod tests {
    use super::parse_immediate;

    #[test]
    fn a_write_is_no_longer_than_what_was_written() {
        let said = |length: u32| {
            let [a, b, c, d] = length.to_be_bytes();
            [9, 8, 7, 6, a, b, c, d]
        };
        assert_eq!(parse_immediate(said(7), 7), ([9, 8, 7, 6], 7));
        assert_eq!(parse_immediate(said(7), 100), ([9, 8, 7, 6], 7));
        assert_eq!(parse_immediate(said(u32::MAX), 100), ([9, 8, 7, 6], 100));
    }
}
