//! Results on their way from the engine to completion queues, without the engine.

use std::num::NonZeroU32;

use parking_lot::Mutex;

use super::super::shared_receives::SharedReceiveSizes;
use super::*;
use crate::cq::{NotifyOn, Queue, Reason, Word};
use RequestKind::{Receive, Send};
use iwarp::WqeStatus;

/// A result with a number.
#[derive(Clone, Copy)]
struct Numbered(u64);

impl Entry for Numbered {
    type Result = u64;
    type Words = Word;

    const OVERFLOW: Reason = Reason(NonZeroU32::MIN);

    fn wakes(&self) -> bool {
        false
    }

    fn tag(&self) -> u64 {
        0
    }

    fn store(&self, words: &Word) {
        words.set(self.0);
    }

    fn load(words: &Word, _: u64) -> u64 {
        words.get()
    }
}

/// The calls that notices lead to, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

/// A completion queue without a domain.
struct Cq {
    queue: Queue<Numbered, &'static str>,
    calls: Calls,
}

impl Cq {
    fn new(calls: &Calls) -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(64).unwrap(),
            calls: Arc::clone(calls),
        })
    }

    fn take(&self) -> Vec<u64> {
        let mut taken = [0; 64];
        let count = self.queue.take(&mut taken);
        taken[..count].to_vec()
    }

    fn notify(&self, request: &'static str) {
        assert!(self.queue.notify(NotifyOn::Any, request, |_| {}).is_none());
    }
}

impl ResultQueue for Cq {
    fn taken(&self) -> u64 {
        self.queue.taken()
    }
}

impl PairCq<Numbered, &'static str> for Cq {
    fn poller(&self) -> &Poller {
        unreachable!("nothing is driven here")
    }

    fn queue(&self) -> &Queue<Numbered, &'static str> {
        &self.queue
    }

    fn faults(&self) -> &PlannedFaults<Numbered> {
        unreachable!("there is no fault plan")
    }

    fn place(
        &self,
        entries: impl Iterator<Item = Numbered> + Clone,
        numbered: impl FnOnce(u64, usize),
    ) -> Option<CompletedNotifies<&'static str>> {
        self.queue.place(entries, numbered, |_| {})
    }

    fn deliver(&self, notifies: CompletedNotifies<&'static str>) {
        self.calls.lock().extend(notifies.into_requests());
    }
}

/// A shared receive queue that notes the calls.
struct Srq(Calls);

impl PairSrq for Srq {
    fn look(&self) {
        self.0.lock().push("look");
    }
}

struct NoWaiter;

impl Waiter for NoWaiter {
    fn receive_posted(&self) {}
}

impl ConnectionOwner for Calls {
    fn signalled(&self, _: Signals) {
        self.lock().push("signals of the connection");
    }
}

/// A queue pair.
struct Pair {
    queues: PairQueues<Self>,
    calls: Calls,
}

impl Rules for Pair {}

impl PairOwner for Pair {
    type Cq = Cq;
    type Srq = Srq;
    type Entry = Numbered;
    type Request = &'static str;
    type Connection = Calls;
    type State = ();

    fn queues(&self) -> &PairQueues<Self> {
        &self.queues
    }

    fn ended(&self, state: &mut PairState<Self>, completion: Completion) {
        state.push(completion.kind, Numbered(completion.context), &self.queues);
    }

    fn last_receive(&self) {
        self.calls.lock().push("last Receive");
    }

    fn signalled(&self, _: Signals) {
        self.calls.lock().push("signals");
    }

    fn gone(&self) {
        self.calls.lock().push("gone");
    }
}

impl Pair {
    fn new(initiator: &Arc<Cq>, receive: &Arc<Cq>, receives: Option<&Arc<SharedReceives>>) -> Self {
        let calls = Arc::clone(&initiator.calls);
        let srq = Arc::new(Srq(Arc::clone(&calls)));
        let (initiator, receive) = (Arc::clone(initiator), Arc::clone(receive));
        let shared = receives.map(|receives| (srq, receives));
        Self {
            queues: PairQueues::new(initiator, receive, shared, Weak::<NoWaiter>::new()),
            calls,
        }
    }

    /// A request with this context ends.
    fn ends(&self, state: &mut PairState<Self>, kind: RequestKind, context: u64) {
        let completion = Completion {
            kind,
            context,
            status: WqeStatus::Success,
            octets: 0,
            solicited: false,
            invalidated: None,
            immediate: None,
            failed_bind: None,
        };
        self.completed(state, completion);
    }

    /// Takes and delivers notices. Returns the calls that they lead to.
    fn notices(&self, state: &mut PairState<Self>, signals: Signals) -> Vec<&'static str> {
        assert!(Self::has_notices(state) || !signals.is_empty());
        let notices = self.take_notices(state, signals);
        assert!(!Self::has_notices(state));
        self.deliver(notices);
        std::mem::take(&mut self.calls.lock())
    }
}

fn shared_receives(depth: u32, threshold: u32) -> Arc<SharedReceives> {
    let sizes = SharedReceiveSizes {
        depth,
        sges: 1,
        max_transfer: 64,
    };
    Arc::new(SharedReceives::new(sizes, threshold).unwrap())
}

#[test]
fn results_in_one_queue_are_counted_by_the_queue_of_their_requests() {
    let cq = Cq::new(&Calls::default());
    let (pair, mut state) = (Pair::new(&cq, &cq, None), PairState::default());
    for (context, kind) in (1..).zip([Send, Receive, Receive, Send, Receive]) {
        pair.ends(&mut state, kind, context);
    }
    assert_eq!(cq.take(), []);
    pair.place(&mut state);
    assert_eq!(pair.taken(&mut state, WorkQueue::Initiator), 0);
    assert_eq!(cq.take(), [1, 2, 3, 4, 5]);
    assert_eq!(pair.taken(&mut state, WorkQueue::Initiator), 2);
    assert_eq!(pair.taken(&mut state, WorkQueue::Receive), 3);
    assert_eq!(pair.taken(&mut state, WorkQueue::Receive), 0);
}

#[test]
fn a_full_batch_is_placed_without_waiting() {
    let cq = Cq::new(&Calls::default());
    let (pair, mut state) = (Pair::new(&cq, &cq, None), PairState::default());
    for context in 1..=BATCH as u64 + 1 {
        pair.ends(&mut state, Send, context);
    }
    assert_eq!(cq.take().len(), BATCH);
    pair.place(&mut state);
    assert_eq!(cq.take(), [BATCH as u64 + 1]);
}

#[test]
fn each_queue_gets_its_results_and_completes_its_requests() {
    let calls = Calls::default();
    let (initiator, receive) = (Cq::new(&calls), Cq::new(&calls));
    let (pair, mut state) = (Pair::new(&initiator, &receive, None), PairState::default());
    initiator.notify("Send");
    receive.notify("Receive");
    pair.ends(&mut state, Send, 1);
    pair.ends(&mut state, Receive, 2);
    pair.place(&mut state);
    // A second request, before the first one is delivered.
    receive.notify("another Receive");
    pair.ends(&mut state, Receive, 3);
    pair.place(&mut state);
    assert_eq!((initiator.take(), receive.take()), (vec![1], vec![2, 3]));
    let calls = pair.notices(&mut state, Signals::empty());
    assert_eq!(calls, ["Receive", "another Receive", "Send", "signals"]);
}

#[test]
fn the_owner_of_a_connection_learns_of_the_end_before_the_queue_pair_is_given_up() {
    let calls = Calls::default();
    let cq = Cq::new(&calls);
    let (pair, mut state) = (Pair::new(&cq, &cq, None), PairState::default());
    let connection = Arc::new(calls);
    state.connection = Some(Arc::downgrade(&connection));
    let calls = pair.notices(&mut state, Signals::PEER_CLOSED | Signals::GONE);
    assert_eq!(calls, ["signals", "signals of the connection", "gone"]);
}

/// The event of the last Receive comes once for a connection, after the shared queue was looked at.
#[test]
fn the_last_shared_receive_is_reported_once() {
    let cq = Cq::new(&Calls::default());
    let receives = shared_receives(4, 1);
    let (pair, mut state) = (Pair::new(&cq, &cq, Some(&receives)), PairState::default());
    pair.started(&mut state);
    pair.place(&mut state);
    assert!(
        !Pair::has_notices(&state),
        "no client has asked for a report"
    );
    receives.arm();
    pair.place(&mut state);
    pair.draws_no_more(&mut state);
    let calls = pair.notices(&mut state, Signals::FAILED | Signals::FLUSHED);
    assert_eq!(calls[..2], ["look", "last Receive"]);
    assert!(receives.take_low());
    pair.draws_no_more(&mut state);
    assert_eq!(pair.notices(&mut state, Signals::GONE), ["signals", "gone"]);
    pair.started(&mut state);
    pair.draws_no_more(&mut state);
    assert_eq!(pair.notices(&mut state, Signals::READY)[0], "last Receive");
}

/// The slot of a shared Receive is free when its result was taken, and not when a result of the initiator was.
#[test]
fn results_of_shared_receives_are_counted_by_the_shared_queue() {
    let cq = Cq::new(&Calls::default());
    let receives = shared_receives(1, 0);
    let (pair, mut state) = (Pair::new(&cq, &cq, Some(&receives)), PairState::default());
    receives.post(7, &[]).unwrap();
    pair.ends(&mut state, Send, 1);
    pair.ends(&mut state, Receive, 2);
    pair.place(&mut state);
    let mut one = [0];
    assert_eq!(cq.queue.take(&mut one), 1);
    assert!(receives.post(8, &[]).is_err());
    assert_eq!(cq.queue.take(&mut one), 1);
    receives.post(8, &[]).unwrap();
    assert_eq!(pair.taken(&mut state, WorkQueue::Receive), 0);
}
