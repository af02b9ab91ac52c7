//! Requests on a queue pair as futures: which task waits for which result of a completion queue.
//!
//! A task or thread that finds that a result may have arrived takes all results of the queue and hands them to the tasks that wait for
//! them: a task that is polled while no Notify is in flight, or the thread that ends a Notify. So no task depends on another one being
//! polled.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use netdirect::{
    CompletionQueue, CompletionResult, Error, NotifyType, Overlapped, OverlappedFile, QueuePair,
    Result, SimulatedWait, Started, Status,
};

use crate::completions::{explained, is_final};
use crate::memory::RegisteredBuffer;

/// The requests of one queue pair, among those whose results come to its completion queue.
#[derive(Debug)]
pub(crate) struct PairRequests {
    requests: Arc<Requests>,
    /// The queue pair that explains failed results. Not a strong reference, because the program ends the connection by dropping the queue
    /// pair.
    qp: Weak<dyn QueuePair>,
}

impl PairRequests {
    pub(crate) fn new(requests: Arc<Requests>, qp: &Arc<dyn QueuePair>) -> Arc<Self> {
        Arc::new(Self {
            requests,
            qp: Arc::downgrade(qp),
        })
    }

    /// Makes a request: `post` calls the queue pair with this context.
    pub(crate) fn post(
        self: &Arc<Self>,
        kept: Vec<RegisteredBuffer>,
        post: impl Fn(u64) -> Result<()>,
    ) -> Request {
        Request::new(self, self.requests.post(kept, post))
    }

    /// The error of a failed result.
    #[cold]
    fn explain(&self, result: &CompletionResult) -> Error {
        match self.qp.upgrade() {
            Some(qp) => qp.explain(result),
            None => result.explain(None),
        }
    }
}

impl Deref for PairRequests {
    type Target = Requests;

    fn deref(&self) -> &Requests {
        &self.requests
    }
}

/// The requests whose results come to one completion queue.
pub(crate) struct Requests {
    cq: Arc<dyn CompletionQueue>,
    file: Arc<dyn OverlappedFile>,
    /// How many results the queue can hold.
    depth: usize,
    notify: Overlapped,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<usize>,
    in_flight: usize,
    /// A Notify was started and has not ended yet.
    is_armed: bool,
    /// The last Notify could not be started for now. The tasks that wait look by themselves until another one can.
    is_polled: bool,
    /// The reason why the queue gives no more results.
    error: Option<Error>,
    taking: Taking,
    /// Set while requests are in flight, so that the memory of requests stays registered when no task waits for them any more. The program
    /// may keep the queue pair alive.
    this: Option<Arc<Requests>>,
}

/// Whether a thread takes results. There is one at a time, so that each result is handed over before the thread sleeps.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Taking {
    #[default]
    Nobody,
    Somebody,
    /// The thread has to look once more, for another one.
    Again,
}

/// One request.
#[derive(Default)]
struct Slot {
    /// Distinguishes the requests that have used this slot; never 0, so that no small number is the context of a request.
    generation: u32,
    phase: Phase,
    waker: Option<Waker>,
    /// Memory that has to stay registered.
    kept: Vec<RegisteredBuffer>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Free,
    InFlight,
    /// In flight, and the future was dropped.
    Dropped,
    Ended(CompletionResult),
}

/// Memory to drop and wakers to wake after requests have ended, without the lock.
#[derive(Default)]
struct Left {
    wakers: Vec<Waker>,
    kept: Vec<Vec<RegisteredBuffer>>,
    this: Option<Arc<Requests>>,
}

impl Left {
    fn deliver(self) {
        drop(self.kept);
        self.wakers.into_iter().for_each(Waker::wake);
        drop(self.this); // last, because it may be the caller's only reference
    }
}

impl State {
    /// The place of a request's slot.
    fn place(&self, context: u64) -> Option<usize> {
        let at = usize::try_from(context & u64::from(u32::MAX)).ok()?;
        let slot = self.slots.get(at)?;
        (u64::from(slot.generation) == context >> 32).then_some(at)
    }

    fn slot(&mut self, context: u64) -> Option<&mut Slot> {
        self.place(context).map(|at| &mut self.slots[at])
    }

    fn enter(&mut self, kept: Vec<RegisteredBuffer>) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        (slot.phase, slot.kept) = (Phase::InFlight, kept);
        self.in_flight += 1;
        u64::from(slot.generation) << 32 | at as u64
    }

    /// Empties a slot, which another request can then use.
    fn free(&mut self, at: usize) -> Slot {
        let slot = &mut self.slots[at];
        let empty = Slot {
            generation: slot.generation,
            ..Slot::default()
        };
        self.free.push(at);
        std::mem::replace(&mut self.slots[at], empty)
    }

    /// A request is no longer in flight.
    fn landed(&mut self, left: &mut Left) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            left.this = self.this.take();
        }
    }

    /// The queue gives no more results: waiting tasks get the error, and later requests do not wait.
    fn fail(&mut self, error: Error, left: &mut Left) {
        self.error = Some(error);
        left.wakers.extend(self.all_wakers());
        left.this = self.this.take();
    }

    fn result_came(&mut self, result: CompletionResult, left: &mut Left) {
        let Some(at) = self.place(result.request_context) else {
            return; // not one of ours
        };
        let slot = &mut self.slots[at];
        match slot.phase {
            Phase::InFlight => {
                slot.phase = Phase::Ended(result);
                left.wakers.extend(slot.waker.take());
                left.kept.push(std::mem::take(&mut slot.kept));
            }
            Phase::Dropped => left.kept.push(self.free(at).kept),
            Phase::Free | Phase::Ended(_) => return,
        }
        self.landed(left);
    }

    fn all_wakers(&mut self) -> Vec<Waker> {
        let slots = self.slots.iter_mut();
        slots.filter_map(|slot| slot.waker.take()).collect()
    }
}

/// The next step of the thread that takes results.
enum Next {
    Look,
    Notify,
    Leave,
}

impl Requests {
    pub(crate) fn new(
        cq: Arc<dyn CompletionQueue>,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let this = this.clone();
            let notify = Overlapped::with_sink(Arc::new(move |status| {
                if let Some(this) = this.upgrade() {
                    this.notify_ended(status);
                }
            }));
            Self {
                cq,
                file: file.clone(),
                depth: usize::try_from(depth).unwrap_or(usize::MAX),
                notify: notify.without_port(),
                state: Mutex::default(),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request: `post` calls the queue pair with this context, which is the result.
    fn post(
        self: &Arc<Self>,
        kept: Vec<RegisteredBuffer>,
        post: impl Fn(u64) -> Result<()>,
    ) -> Result<u64> {
        self.enter(kept).and_then(|context| {
            let mut posted = post(context);
            if posted
                .as_ref()
                .is_err_and(|error| error.status() == Status::NO_MORE_ENTRIES)
            {
                // Slots of the queue pair are used until their results are taken, and the client does not take results itself.
                self.take_results();
                posted = post(context);
            }
            posted.inspect_err(|_| self.not_posted(context))?;
            Ok(context)
        })
    }

    fn not_posted(&self, context: u64) {
        let mut left = Left::default();
        let mut state = self.lock();
        let slot = state.place(context).map(|at| state.free(at));
        state.landed(&mut left);
        drop(state);
        drop(slot);
        left.deliver();
    }

    fn enter(self: &Arc<Self>, kept: Vec<RegisteredBuffer>) -> Result<u64> {
        if self.lock().in_flight >= self.depth {
            // Requests that have ended take no room.
            self.take_results();
        }
        let mut state = self.lock();
        if state.in_flight >= self.depth {
            return Err(Error::new(
                Status::NO_MORE_ENTRIES,
                "as many requests are outstanding as the completion queue holds; wait until some have ended",
            ));
        }
        if state.error.is_none() {
            state.this.get_or_insert_with(|| self.clone());
        }
        Ok(state.enter(kept))
    }

    /// Takes all results of the queue, hands them over, and has a Notify in flight if more are to come.
    fn take_results(&self) {
        {
            let mut state = self.lock();
            if state.taking != Taking::Nobody {
                state.taking = Taking::Again;
                return;
            }
            state.taking = Taking::Somebody;
        }
        let mut batch = [CompletionResult::default(); 16];
        loop {
            let taken = self.cq.take_results(&mut batch);
            let mut left = Left::default();
            let mut state = self.lock();
            for result in &batch[..taken] {
                state.result_came(*result, &mut left);
            }
            let next = if taken == batch.len() || state.taking == Taking::Again {
                state.taking = Taking::Somebody;
                Next::Look
            } else if state.in_flight > 0 && !state.is_armed && state.error.is_none() {
                state.is_armed = true;
                Next::Notify
            } else {
                state.taking = Taking::Nobody;
                Next::Leave
            };
            drop(state);
            left.deliver();
            match next {
                Next::Look => {}
                Next::Notify if self.start_notify() => {}
                Next::Notify | Next::Leave => return,
            }
        }
    }

    /// Starts a Notify. Returns whether another look is needed.
    fn start_notify(&self) -> bool {
        // A result that came since the last look ends it at once (CQ-037).
        let started = self.cq.notify(NotifyType::Any, &self.notify);
        let mut left = Left::default();
        let mut state = self.lock();
        let mut again = state.taking == Taking::Again;
        match started {
            Ok(Started::Pending) => state.is_polled = false,
            Ok(Started::Done) => {
                state.is_armed = false;
                again = true;
            }
            Err(error) => {
                state.is_armed = false;
                if is_final(error.status()) {
                    state.fail(error, &mut left);
                } else {
                    state.is_polled = true;
                    left.wakers = state.all_wakers();
                }
            }
        }
        state.taking = match again {
            true => Taking::Somebody,
            false => Taking::Nobody,
        };
        drop(state);
        left.deliver();
        again
    }

    fn notify_ended(&self, status: Status) {
        let mut left = Left::default();
        let mut state = self.lock();
        state.is_armed = false;
        if is_final(status) {
            state.fail(explained(status, &self.notify), &mut left);
        }
        drop(state);
        self.take_results();
        left.deliver();
    }

    /// The result of a request that has ended.
    fn ended(&self, context: u64) -> Option<CompletionResult> {
        let mut state = self.lock();
        let at = state.place(context)?;
        let Phase::Ended(result) = state.slots[at].phase else {
            return None;
        };
        let slot = state.free(at);
        drop(state);
        drop(slot);
        Some(result)
    }

    /// The result of a request when it has ended. An error if no result will come.
    fn poll_request(&self, context: u64, waker: &Waker) -> Poll<Result<CompletionResult>> {
        if let Some(ended) = self.ended(context) {
            return Poll::Ready(Ok(ended));
        }
        if !self.lock().is_armed {
            self.take_results();
        }
        let waker = waker.clone();
        let mut state = self.lock();
        let (error, is_polled) = (state.error.clone(), state.is_polled);
        let Some(slot) = state.slot(context) else {
            return Poll::Pending;
        };
        if matches!(slot.phase, Phase::Ended(_)) {
            drop(state);
            let ended = self.ended(context);
            return ended.map_or(Poll::Pending, |ended| Poll::Ready(Ok(ended)));
        }
        if let Some(error) = error {
            slot.phase = Phase::Dropped;
            let old = slot.waker.take();
            drop(state);
            drop(old);
            return Poll::Ready(Err(error));
        }
        let again = is_polled.then(|| waker.clone());
        let old = slot.waker.replace(waker);
        drop(state);
        drop(old); // may run the executor's code, so not under the lock
        if let Some(again) = again {
            again.wake();
        }
        self.file.polled_in_vain();
        Poll::Pending
    }

    /// Returns true if a poll of this request gets further.
    fn is_worth_a_poll(&self, context: u64) -> bool {
        let mut state = self.lock();
        let has_failed = state.error.is_some();
        let slot = state.slot(context);
        has_failed || slot.is_some_and(|slot| matches!(slot.phase, Phase::Ended(_)))
    }

    /// No task waits for the request any more.
    fn forget(&self, context: u64) {
        let mut state = self.lock();
        let Some(at) = state.place(context) else {
            return;
        };
        let slot = &mut state.slots[at];
        let (mut waker, mut ended) = (None, None);
        match slot.phase {
            Phase::InFlight => {
                slot.phase = Phase::Dropped;
                waker = slot.waker.take();
            }
            Phase::Ended(_) => ended = Some(state.free(at)),
            Phase::Free | Phase::Dropped => {}
        }
        let is_watched = ended.is_some() || state.is_armed || state.error.is_some();
        drop(state);
        drop((waker, ended));
        // The result has to be taken, so that what the request keeps is released.
        if !is_watched {
            self.take_results();
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("in_flight", &self.lock().in_flight)
            .finish_non_exhaustive()
    }
}

/// A request on the queue pair of an [`Endpoint`](crate::Endpoint): the future of its result.
///
/// The request was posted when the method returned, whether the future is polled or not, so requests are in the order of the
/// calls. If the call has failed, the future ends with its error at once.
///
/// The future ends with the result if the request has succeeded, and otherwise with an error that has the result's status, and the words of
/// [`QueuePair::explain`](netdirect::QueuePair::explain): who ended the connection, for example. It also
/// ends with an error, though the request may still be in flight, when the completion queue has broken down or the device was
/// removed.
///
/// Dropping the future does not cancel the request, because ND2 cannot cancel a single one. The memory that the request uses stays
/// registered until the request has ended. To end all requests, call [`Endpoint::flush`](crate::Endpoint::flush) or disconnect.
#[must_use = "the request runs, and whoever drops this does not learn how it ends"]
#[derive(Debug)]
pub struct Request {
    requests: Arc<PairRequests>,
    /// The context of the request, or why there is none. `None` when the future has ended.
    posted: Option<Result<u64>>,
    simulated: SimulatedWait,
}

impl Request {
    pub(crate) fn refused(requests: &Arc<PairRequests>, error: Error) -> Self {
        Self::new(requests, Err(error))
    }

    fn new(requests: &Arc<PairRequests>, posted: Result<u64>) -> Self {
        Self {
            requests: requests.clone(),
            posted: Some(posted),
            simulated: SimulatedWait::new(),
        }
    }
}

impl Future for Request {
    type Output = Result<CompletionResult>;

    /// # Panics
    ///
    /// If the future has ended already.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let context = match this.posted.take().expect("the future has not ended") {
            Ok(context) => context,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let requests = &this.requests;
        let mut polled = requests.poll_request(context, cx.waker());
        if polled.is_pending()
            && let Some(simulation) = requests.file.simulation()
        {
            let done = || requests.is_worth_a_poll(context);
            let (file, waker) = (&*requests.file, cx.waker());
            polled = match this.simulated.poll(file, &*simulation, waker, done) {
                Poll::Ready(Ok(())) => requests.poll_request(context, waker),
                Poll::Ready(Err(error)) => {
                    requests.forget(context);
                    Poll::Ready(Err(error))
                }
                Poll::Pending => Poll::Pending,
            };
        }
        if polled.is_pending() {
            this.posted = Some(Ok(context));
        }
        polled.map(|ended| match ended? {
            result if result.status == Status::SUCCESS => Ok(result),
            result => Err(this.requests.explain(&result)),
        })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(Ok(context)) = self.posted {
            self.requests.forget(context);
        }
    }
}
