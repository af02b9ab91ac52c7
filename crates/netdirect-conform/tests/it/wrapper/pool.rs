//! Shared receive queues, and what the wrapper knows of their Receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use netdirect::{
    Affinity, CompletionResult, Error, Overlapped, OverlappedFile, OverlappedObject,
    PendingOverlapped, QueuePair, RequestType, Result, Sge, SharedReceiveQueue,
    SharedReceiveQueueOptions, Started, Status,
};

use super::data::{CompletionQueues, drain_all};
use super::rule::{Break, Method, PoolDeed};

#[derive(Debug)]
pub(super) struct BrokenPool {
    pub(super) inner: Arc<dyn SharedReceiveQueue>,
    pub(super) book: Arc<PoolBook>,
    file: Arc<dyn OverlappedFile>,
    /// All completion queues of the adapter.
    pub(super) queues: CompletionQueues,
    rule: Break,
}

/// The Receives and the queue pairs of a shared receive queue.
#[derive(Debug, Default)]
pub(super) struct PoolBook {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The contexts of Receives that have no result yet.
    open: Vec<u64>,
    /// The contexts of Receives whose results the client never gets.
    lost: Vec<u64>,
    /// Receives that were posted, less the messages that were sent to the queue pairs.
    left: i64,
    queue_pairs: Vec<Weak<dyn QueuePair>>,
    /// Requests of Notify that should have ended.
    held: Vec<PendingOverlapped>,
    /// Requests of Notify end, because the queue has broken down.
    broken: bool,
}

impl PoolBook {
    pub(super) fn joined(&self, qp: &Arc<dyn QueuePair>) {
        let mut state = self.state.lock().unwrap();
        state.queue_pairs.push(Arc::downgrade(qp));
    }

    fn posted(&self, context: u64) {
        let mut state = self.state.lock().unwrap();
        state.open.push(context);
        state.left += 1;
    }

    /// A message is on its way to one of the queue pairs. Returns whether there is a Receive for it.
    pub(super) fn is_ready_for_message(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.left -= 1;
        state.left >= 0
    }

    /// A queue pair was released, and the Receives with it.
    pub(super) fn lose_receives(&self) {
        let mut state = self.state.lock().unwrap();
        let open = std::mem::take(&mut state.open);
        state.lost.extend(open);
    }

    /// Changes the results of a completion queue in which Receives of this queue end. Returns how many results are left.
    pub(super) fn results(&self, rule: Break, got: &mut [CompletionResult]) -> usize {
        let mut state = self.state.lock().unwrap();
        let mut count = 0;
        for at in 0..got.len() {
            let context = got[at].request_context;
            let is_lost =
                got[at].request_type == RequestType::Receive && state.lost.contains(&context);
            state.open.retain(|open| *open != context);
            if !is_lost {
                got[count] = got[at];
                count += 1;
            }
        }
        let queue_pairs = state.queue_pairs.clone();
        drop(state);
        let got = &mut got[..count];
        if rule == Break::Pool(PoolDeed::ResultsReversed) {
            got.reverse();
        }
        let short = |result: &CompletionResult| result.status == Status::BUFFER_OVERFLOW;
        if rule == Break::Pool(PoolDeed::ShortEndsAll) && got.iter().any(short) {
            for qp in queue_pairs.iter().filter_map(Weak::upgrade) {
                qp.flush().expect("a flush does not fail");
            }
        }
        count
    }

    /// Keeps a request of Notify that should end.
    fn hold(&self, request: PendingOverlapped) {
        self.state.lock().unwrap().held.push(request);
    }

    fn end_held(&self, status: Status) {
        let held = std::mem::take(&mut self.state.lock().unwrap().held);
        for request in held {
            request.complete(status);
        }
    }

    fn is_broken(&self) -> bool {
        self.state.lock().unwrap().broken
    }
}

impl BrokenPool {
    pub(super) fn new(
        inner: Arc<dyn SharedReceiveQueue>,
        file: &Arc<dyn OverlappedFile>,
        rule: Break,
    ) -> Self {
        Self {
            inner,
            book: Arc::default(),
            file: Arc::clone(file),
            queues: Arc::default(),
            rule,
        }
    }

    /// Requests of Notify end as if the queue had broken down.
    pub(super) fn tell_of_breakdown(&self) -> Result<()> {
        self.book.state.lock().unwrap().broken = true;
        self.inner.cancel_overlapped_requests()
    }

    fn notify_wrongly(&self, deed: PoolDeed, overlapped: &Overlapped) -> Result<Started> {
        let pending = overlapped.begin(&self.file)?;
        if self.book.is_broken() {
            pending.complete(Status::INTERNAL_ERROR);
            return Ok(Started::Pending);
        }
        let pending = Arc::new(Mutex::new(Some(pending)));
        let in_call = Arc::new(AtomicBool::new(true));
        let (outer, called) = (Arc::clone(&pending), Arc::clone(&in_call));
        let book = Arc::clone(&self.book);
        let sink = move |status| {
            let Some(pending) = outer.lock().unwrap().take() else {
                return;
            };
            let hidden = match deed {
                PoolDeed::NotifiedNeverAtOnce => called.load(Ordering::SeqCst),
                PoolDeed::NotifiedNeverLater => !called.load(Ordering::SeqCst),
                _ => false,
            };
            if hidden && status == Status::SUCCESS {
                book.hold(pending);
            } else if book.is_broken() {
                pending.complete(Status::INTERNAL_ERROR);
            } else {
                pending.complete(status);
            }
        };
        let own = Overlapped::with_sink(Arc::new(sink)).without_port();
        let started = self.inner.notify(&own);
        in_call.store(false, Ordering::SeqCst);
        if let Err(error) = &started
            && let Some(pending) = pending.lock().unwrap().take()
        {
            pending.abandon(error.status());
        }
        started
    }
}

/// The options with which the inner queue is made.
pub(super) fn options(
    rule: Break,
    options: SharedReceiveQueueOptions,
    deepest: u32,
) -> SharedReceiveQueueOptions {
    let deeper = options.queue_depth.saturating_add(1).min(deepest);
    match rule {
        Break::Pool(PoolDeed::DepthExceeded) if options.queue_depth > 0 => {
            options.queue_depth(deeper.max(options.queue_depth))
        }
        _ => options.notify_threshold(threshold(rule, options.notify_threshold)),
    }
}

/// The threshold of the inner queue.
fn threshold(rule: Break, asked: u32) -> u32 {
    match rule {
        Break::Pool(PoolDeed::NotifiedEarly) if asked > 0 => asked + 1,
        Break::Pool(PoolDeed::NotifiedWithoutThreshold) if asked == 0 => 1,
        _ => asked,
    }
}

impl OverlappedObject for BrokenPool {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        if self.rule == Break::PoolCancelForgotten {
            return Ok(());
        }
        self.book.end_held(Status::CANCELED);
        self.inner.cancel_overlapped_requests()
    }

    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        self.inner.get_overlapped_result(overlapped, wait)
    }
}

impl SharedReceiveQueue for BrokenPool {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        let affinity = self.inner.get_notify_affinity();
        self.rule.call(Method::PoolAffinity, affinity)
    }

    fn modify(&self, queue_depth: u32, mut notify_threshold: u32) -> Result<()> {
        match self.rule {
            Break::ModifyNeedsDepth if queue_depth == 0 => {
                return Err(Error::new(Status::INVALID_PARAMETER, "no depth"));
            }
            Break::ThresholdForgotten => notify_threshold = 0,
            Break::Pool(PoolDeed::NotifiedEarly) => {
                notify_threshold = threshold(self.rule, notify_threshold);
            }
            _ => {}
        }
        let modified = self.inner.modify(queue_depth, notify_threshold);
        self.rule.call(Method::PoolModify, modified)
    }

    fn notify(&self, overlapped: &Overlapped) -> Result<Started> {
        if let Break::Pool(deed) = self.rule {
            return self.notify_wrongly(deed, overlapped);
        }
        let started = self.inner.notify(overlapped);
        self.rule.call(Method::PoolNotify, started)
    }

    fn receive(&self, mut context: u64, sges: &[Sge]) -> Result<()> {
        if self.rule == Break::PoolContextCut {
            context &= !(1 << 63);
        }
        if self.rule == Break::Pool(PoolDeed::SlotFreeEarly) {
            drain_all(&self.queues);
        }
        let posted = self.inner.receive(context, sges);
        if posted.is_ok() {
            self.book.posted(context);
        }
        self.rule.call(Method::PoolReceive, posted)
    }
}
