//! One connection in use: an [`Endpoint`] holds the engine's connection and its stream, and lets one thread at a time drive them.
//!
//! The [`Owner`] of an endpoint is a queue pair of some interface. The endpoint notifies the owner of ended requests and of changes of the
//! connection. The owner decides what its client may do and when.
//!
//! `stream_io` reads and sends for the connection, in visits with a budget. `posts` takes the client's requests, and `gather` decides which
//! of them are sent at once and which wait for more.
//!
//! # The order at the end of a connection
//!
//! An owner may want to report the end to its client before the client sees a flushed request. The endpoint is locked while results are
//! placed, and unlocked while the owner notifies its client. So the results that follow from the end wait in the engine:
//!
//! 1. The engine reports the end. The owner places the results of what happened before. The other results stay in the engine.
//! 2. The endpoint is unlocked. It reports the end to the owner, and the owner to its client.
//! 3. The last clone of the [`FlushGuard`] is dropped. The owner places the other results.
//!
//! The owner keeps a clone of the guard for as long as it may have to notify its client. Every thread that is notifying the client keeps
//! another clone. Any of these threads may be the last one.

mod connection_end;
mod dead_peer;
mod gather;
pub mod lingering;
mod mulpdu;
mod options;
mod owner;
mod posts;
pub mod queue_pair;
pub mod shared_receives;
mod state;
mod stream_io;
mod tx_buffers;

#[cfg(all(test, unix, not(loom)))]
mod tests;

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp::{mpa, terminate_frame};

pub use connection_end::{ConnectionEnd, EndedBy};
pub use iwarp::{
    AtomicOp, Completion, Counters, Delivery, InitiatorWqe, Operation, OutOfMemory, OwnQueue,
    Payload, PostError, QueueSizes, ReadLimits, ReceiveSlot, ReceiveSource, ReceivedImmediate,
    Recognition, RemoteAddress, RemoteRights, RequestKind, Role, STag, Scope, Sge, StreamConfig,
    StreamId, TerminateCode, WqeStatus,
};
pub use options::EndpointOptions;
pub use owner::{Owner, ReceivesAhead, Rules, Signals, WorkQueue};
pub use posts::Posts;
pub use state::Phase;
pub use stream_io::EARLY;
pub use tx_buffers::COPIED_BELOW;

use crate::cq::QueueUser;
use crate::driver::Driver;
use crate::limited;
use crate::log::{has_queue_pair, targets};
use crate::progress::Edges;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::turns::Turns;
use crate::sync::MutexGuard;
use crate::transport::stream::Stream;
use shared_receives::Waiter;
use state::{Fixed, Flush, State};
use stream_io::{StreamIo, Visit};

/// How the stream of an endpoint starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The client may post at once.
    Open,
    /// The client may post when the peer's first FPDU has arrived. The code that makes the connection waits for that FPDU.
    Awaited,
    /// The client has not agreed to the connection yet. Until [`open`](Endpoint::open) the endpoint does not read from the
    /// transport.
    Held,
}

impl Start {
    fn drivers(self) -> Drivers {
        match self {
            Self::Open | Self::Held => Drivers::Queues,
            Self::Awaited => Drivers::Control,
        }
    }
}

/// The domains that drive a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// The domains of the endpoint's two queues: polls and waits of the client, and the background thread.
    Queues,
    /// The domain of connection set-up and tear-down, while a request there waits for this stream.
    Control,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The owner has shut the endpoint.
    Shut,
    /// The owner does not let its client [speak first](Rules::may_speak_first).
    SpeaksFirst,
    /// The engine refuses the request.
    Request(PostError),
}

impl From<PostError> for Refused {
    fn from(error: PostError) -> Self {
        Self::Request(error)
    }
}

/// One connection, from before its stream starts until the stream is gone. The owner's objects share the endpoint, and the domains that
/// drive its stream refer to it.
pub struct Endpoint<O: Owner> {
    fixed: Fixed<O>,
    state: Turns<State<O>>,
    this: Weak<Self>,
}

impl<O: Owner> std::fmt::Debug for Endpoint<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

impl<O: Owner> Endpoint<O> {
    /// Makes an endpoint that is not connected. Receives can be posted. `owner` makes the owner, and is given a reference to the endpoint,
    /// which can be used after this call has returned.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if there is not enough memory for the queues. `owner` is not called then.
    pub fn new(
        driver: Arc<Driver>,
        options: EndpointOptions,
        owner: impl FnOnce(&Weak<Self>) -> O,
        state: O::State,
    ) -> Result<Arc<Self>, OutOfMemory> {
        let state = State::new(&options, state)?;
        Ok(Arc::new_cyclic(|this: &Weak<Self>| Self {
            fixed: Fixed {
                owner: owner(this),
                driver,
                end_within: options.end_within,
                early_posts: options.early_posts,
                timed: this.clone(),
                end: parking_lot::Mutex::default(),
            },
            state: Turns::new(state),
            this: this.clone(),
        }))
    }

    /// The owner.
    pub fn owner(&self) -> &O {
        &self.fixed.owner
    }

    /// Calls `act` with the endpoint locked.
    pub fn with<T>(&self, act: impl FnOnce(Phase, &mut O::State) -> T) -> T {
        let mut state = self.lock();
        let phase = state.phase;
        act(phase, &mut state.owner)
    }

    /// Returns true if the endpoint has no stream, and has signalled [`Signals::GONE`] if it had one.
    pub fn is_gone(&self) -> bool {
        self.lock().is_gone()
    }

    /// Returns true if no initiator request is open and the transport has taken everything that there was to send.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.io.is_none() || state.connection.is_idle()
    }

    /// Limits the rights of the peer, whatever the memory grants that it names. Holds until the endpoint is [renewed](Self::renew).
    pub fn set_remote_rights(&self, rights: RemoteRights) {
        self.lock().connection.set_remote_rights(rights);
    }

    /// Sets what becomes of messages that this side cannot take, and of requests when the peer is gone: a property of the queue pair, for all
    /// connections of the endpoint. Called before the first request is posted and before the first stream starts.
    ///
    /// With [`Delivery::Unreliable`] Receives [stay](EndpointOptions::keeps_receives), whatever the options say. Requests that find no
    /// connection succeed and are dropped: those of an endpoint that takes no [early posts](EndpointOptions::early_posts) at once, others
    /// when the owner [abandons](Self::abandon) them. [`Signals::FLUSHED`] does not follow what the peer does.
    pub fn set_delivery(&self, delivery: Delivery) {
        let mut state = self.lock();
        debug_assert_eq!(state.phase, Phase::Idle, "set before the first stream");
        state.set_delivery(delivery, &self.fixed);
    }

    /// From now on Read Responses and Atomic Responses pass a Send of the peer that waits for a Receive, on all connections of the endpoint.
    /// Up to 1 MiB is read past the Send, and up to 64 MiB for all connections of the process. Beyond that, reading stops until there is a
    /// Receive. Everything but Responses keeps its order.
    pub fn pass_responses(&self) {
        let mut state = self.lock();
        state.passes_responses = true;
        if let Some(io) = &mut state.io {
            io.pass_responses();
        }
    }

    /// Counts of the messages and octets of the connection, or of the last one.
    pub fn counters(&self) -> Counters {
        *self.lock().connection.counters()
    }

    /// Returns true if the peer takes [announced Sends](iwarp::Operation::SendImmediate), so that it is a device of the same kind. `None`
    /// while that is not known, and before the stream starts.
    pub fn is_peer_recognized(&self) -> Option<bool> {
        self.lock().connection.recognized()
    }

    /// The span of the connection's events; none without a connection.
    pub fn span(&self) -> tracing::Span {
        self.lock().span.clone()
    }

    /// Returns true if a Send of the peer waits for a Receive, and `None` while the endpoint is locked.
    pub fn is_stalled(&self) -> Option<bool> {
        let state = self.try_lock()?;
        Some(state.connection.is_stalled())
    }

    // ---- the start and the end of connections ----
    //
    // The caller may hold a lock that the owner takes in `deliver`. So these calls return `DeferredWork`, which the caller drops when it has
    // released that lock.

    /// From now on, results that follow from the end of the connection wait until the returned guard has been dropped. Called once,
    /// before the stream starts.
    pub fn guard_flush(&self) -> Arc<FlushGuard<O>> {
        self.lock().flush = Flush::Guarded;
        Arc::new(FlushGuard(self.this.clone()))
    }

    /// The reason why the connection ended, if it has. The caller may hold locks that the owner takes in `deliver`: this does not lock the
    /// endpoint.
    pub fn connection_end(&self) -> Option<ConnectionEnd> {
        self.fixed.end.lock().clone()
    }

    /// Starts full operation on a stream. As Initiator the endpoint sends its ready-to-receive message first.
    ///
    /// # Errors
    ///
    /// An error of the system when no domain can drive the stream, and [`ConnectionReset`](io::ErrorKind::ConnectionReset) when
    /// the endpoint was connected before, or was aborted. In both cases the stream is reset.
    pub fn start(
        &self,
        stream: Stream,
        config: StreamConfig,
        start: Start,
    ) -> (io::Result<()>, DeferredWork<O>) {
        let mut state = self.lock();
        if state.phase != Phase::Idle {
            stream.reset();
            return (
                Err(io::ErrorKind::ConnectionReset.into()),
                state.into_deferred_work(),
            );
        }
        let initiator = config.role == Role::Initiator;
        state.peer = Some(stream.peer());
        state.span.clone_from(stream.span());
        let number = self.fixed.owner.number();
        has_queue_pair(&state.span, number.unwrap_or(state.scope.stream.0));
        tracing::debug!(target: targets::CONNECTION, parent: &state.span, "a connection starts");
        state.connection.start(config);
        if initiator {
            state.connection.send_ready(); // MPA2-028: before anything can be posted
        }
        state.phase = match start {
            Start::Open if initiator => Phase::Open,
            Start::Open => Phase::Unheard,
            Start::Awaited | Start::Held => Phase::Starting,
        };
        let mut io = StreamIo::new(stream, start != Start::Held, &self.fixed.driver.buffers);
        if state.passes_responses {
            io.pass_responses();
        }
        self.fixed.owner.started(&mut state.owner);
        let attached = self.attach(&mut io, start.drivers());
        if attached.is_err() && initiator {
            // MPA2-030: the Terminate tells the peer that the error is local to this side.
            let code = TerminateCode::new(2, 0, mpa::Error::LocalCatastrophic.code());
            let last = terminate_frame(code, config.crc, config.markers.sent);
            let _ = io.stream().send_frame(&last);
        }
        state.io = Some(io);
        if let Err(error) = &attached {
            state.cut(&self.fixed, || ConnectionEnd::Broken(error.to_string()));
        }
        state.work(Edges::KICK);
        (attached, state.into_deferred_work())
    }

    /// Makes these domains drive the stream from now on, and no others. Each event on a stream wakes one thread only.
    pub fn drive_from(&self, drivers: Drivers) -> DeferredWork<O> {
        let mut state = self.lock();
        if let Some(io) = &mut state.io
            && let Err(error) = self.attach(io, drivers)
        {
            // The previous domains continue to drive the stream.
            limited!(warn, target: targets::CONNECTION, parent: &state.span, %error, "cannot change who drives a stream");
        }
        state.into_deferred_work()
    }

    fn attach(&self, io: &mut StreamIo, drivers: Drivers) -> io::Result<()> {
        let this: Weak<dyn Source> = self.this.clone();
        match drivers {
            Drivers::Queues => {
                let domains = [WorkQueue::Receive, WorkQueue::Initiator];
                let domains = domains.map(|queue| self.fixed.owner.domain(queue));
                io.move_to(domains.into_iter(), &this)
            }
            Drivers::Control => io.move_to(std::iter::once(&self.fixed.driver.control), &this),
        }
    }

    /// The client agrees to a connection that was [held](Start::Held).
    pub fn open(&self) -> DeferredWork<O> {
        let mut state = self.lock();
        if state.phase == Phase::Starting {
            state.phase = Phase::Open;
        }
        if let Some(io) = &mut state.io {
            io.reading = true;
        }
        state.work(Edges::KICK);
        state.into_deferred_work()
    }

    /// This side ends the connection. All requests come back flushed. FPDUs whose sending has begun are sent, then this side ends its
    /// direction. The peer has a [limited time](EndpointOptions::end_within) to end its direction. An endpoint that was never connected
    /// gives its Receives back, and cannot be connected any more.
    ///
    /// Returns true if the endpoint [was gone](Self::is_gone) before. If not, [`Signals::GONE`] follows.
    pub fn disconnect(&self) -> (bool, DeferredWork<O>) {
        let mut state = self.lock();
        let gone = state.is_gone();
        state.answer_all(&self.fixed);
        state.ends(&self.fixed, || ConnectionEnd::Disconnected);
        match state.phase {
            Phase::Disconnected | Phase::Shut => return (gone, state.into_deferred_work()),
            Phase::Idle => {
                state.phase = Phase::Disconnected;
                state.connection.flush();
            }
            Phase::Starting | Phase::Unheard | Phase::Open | Phase::Ended => {
                state.phase = Phase::Disconnected;
                state.disconnect();
            }
        }
        self.fixed.owner.draws_no_more(&mut state.owner);
        state.work(Edges::KICK);
        (gone, state.into_deferred_work())
    }

    /// This side ends the connection as [`disconnect`](Self::disconnect) does, for a client that may continue to post: from now on every
    /// request is accepted and comes back flushed.
    ///
    /// Returns true if the endpoint [was gone](Self::is_gone) before. If not, [`Signals::GONE`] follows.
    pub fn end(&self) -> (bool, DeferredWork<O>) {
        let mut state = self.lock();
        let gone = state.is_gone();
        let has_ended = state.phase == Phase::Ended && state.connection.is_disconnected();
        if has_ended || matches!(state.phase, Phase::Disconnected | Phase::Shut) {
            return (gone, state.into_deferred_work());
        }
        state.answer_all(&self.fixed);
        state.end(&self.fixed);
        state.work(Edges::KICK);
        (gone, state.into_deferred_work())
    }

    /// This side ends the connection, as [`end`](Self::end) does, for an owner that begins anew at once: the connection and its stream move
    /// to an endpoint of their own, whose owner's client learns of no request. This endpoint can be [renewed](Self::renew) then.
    /// [`Signals::GONE`] follows at the other endpoint, which somebody has to keep until then ([`lingering`]). `None` if there is no stream.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; nothing has changed then.
    pub fn detach(
        &self,
        owner: impl FnOnce(&Weak<Self>) -> O,
        owner_state: impl FnOnce(&mut O::State) -> O::State,
    ) -> Result<(Option<Arc<Self>>, DeferredWork<O>), OutOfMemory> {
        let mut state = self.lock();
        let fresh = state.fresh()?;
        state.flush = Flush::Free; // no request is seen
        state.answer_all(&self.fixed);
        state.end(&self.fixed);
        State::settle(&mut state, &self.fixed);
        let own_state = owner_state(&mut state.owner);
        let Some(mut moved) = state.take_stream(fresh, own_state) else {
            return Ok((None, state.into_deferred_work()));
        };
        State::settle(&mut state, &self.fixed); // there is no stream to keep time for
        let end = self.fixed.end.lock().clone();
        let deferred = state.into_deferred_work();
        let other = Arc::new_cyclic(|this: &Weak<Self>| {
            let fixed = Fixed {
                owner: owner(this),
                driver: Arc::clone(&self.fixed.driver),
                end_within: self.fixed.end_within,
                early_posts: self.fixed.early_posts,
                timed: this.clone(),
                end: parking_lot::Mutex::new(end),
            };
            let source: Weak<dyn Source> = this.clone();
            let domains = [WorkQueue::Receive, WorkQueue::Initiator];
            let domains = domains.map(|queue| fixed.owner.domain(queue));
            if let Some(io) = &mut moved.io
                && let Err(error) = io.move_to(domains.into_iter(), &source)
            {
                // The deadline resets the stream, which no domain drives.
                limited!(warn, target: targets::CONNECTION, parent: &moved.span, %error, "cannot drive a stream that ends");
            }
            Self {
                fixed,
                state: Turns::new(moved),
                this: this.clone(),
            }
        });
        // What has arrived while the stream moved was reported to nobody.
        other.lock().work(Edges::KICK | Edges::READ | Edges::WRITE);
        Ok((Some(other), deferred))
    }

    /// Ends the connection with a reset, for this reason. An endpoint that was never connected cannot be connected any more.
    pub fn abort(&self, end: ConnectionEnd) -> DeferredWork<O> {
        let mut state = self.lock();
        state.cut(&self.fixed, || end);
        state.flush_kept(&self.fixed);
        if state.phase == Phase::Idle {
            state.phase = Phase::Ended;
            if self.fixed.early_posts {
                state.connection.disconnect(); // what was posted early comes back flushed
            }
        }
        state.work(Edges::empty());
        state.into_deferred_work()
    }

    /// There will be no stream: the oldest early request fails, and all others come back flushed. Does nothing once a stream has started.
    ///
    /// Where delivery is [unreliable](Delivery::Unreliable), all early requests are dropped, with success. A stream may start later, and
    /// requests that are posted from now on wait for it until the next call.
    pub fn abandon(&self) -> DeferredWork<O> {
        let mut state = self.lock();
        if state.phase == Phase::Idle {
            if !state.is_unreliable() {
                state.phase = Phase::Ended;
            }
            state.connection.abandon();
            state.work(Edges::empty());
        }
        state.into_deferred_work()
    }

    /// A request fails, and the connection ends, when the peer's host has acknowledged nothing for this time although it has room. `None` sets no
    /// limit. Only over TCP on Linux. Holds until the endpoint is [renewed](Self::renew).
    pub fn set_patience(&self, limit: Option<Duration>) {
        let mut state = self.lock();
        state.patience = limit;
    }

    /// At most this many Reads of this side are outstanding from now on, if the start-up has agreed on more.
    pub fn limit_reads(&self, ord: u32) {
        self.lock().connection.limit_reads(ord);
    }

    /// Ends the connection with a reset, for this reason. All requests come back flushed, and the endpoint refuses further ones.
    pub fn shut(&self, end: ConnectionEnd) -> DeferredWork<O> {
        let mut state = self.lock();
        state.phase = Phase::Shut;
        state.cut(&self.fixed, || end);
        state.connection.flush(); // also if there never was a stream
        state.work(Edges::empty());
        state.into_deferred_work()
    }

    /// Resets the endpoint to its state before the first connection, so that it can be connected again. `stream` is the number of the next
    /// connection. The next peer cannot use windows that were bound for the last one, because windows are bound to such a number. Receives
    /// that have not completed are dropped without a completion.
    ///
    /// Does nothing and returns false while the endpoint is not [gone](Self::is_gone), while a [`FlushGuard`] exists, after
    /// [`shut`](Self::shut), and if there is not enough memory for new queues.
    pub fn renew(&self, stream: StreamId) -> bool {
        let mut state = self.lock();
        let may = state.is_gone() && state.flush == Flush::Free && state.phase != Phase::Shut;
        let is_new = may && state.renew(stream).is_ok();
        if is_new {
            *self.fixed.end.lock() = None;
        }
        is_new
    }

    // ---- progress ----

    /// Locks the endpoint, unless another thread has locked it.
    fn try_lock(&self) -> Option<Locked<'_, O>> {
        Some(Locked {
            endpoint: self,
            state: Some(self.state.try_lock()?),
            visit: Visit::Finished,
        })
    }

    fn lock(&self) -> Locked<'_, O> {
        Locked {
            endpoint: self,
            state: Some(self.state.lock()),
            visit: Visit::Finished,
        }
    }

    /// Leaves work to the next driver of a queue's domain, the background thread at the latest.
    fn defer(&self, queue: WorkQueue) {
        let Fixed { owner, driver, .. } = &self.fixed;
        let domain = owner.domain(queue);
        domain.defer(self.this.clone());
        driver.notice(domain);
        owner.wake(queue);
    }

    /// Unlocks the endpoint, then calls the owner with its notices, if there are any.
    #[inline]
    fn release(&self, state: MutexGuard<'_, State<O>>) {
        if state.has_news() {
            self.deliver(state);
        }
    }

    /// Out of line, so that most calls of [`release`](Self::release) only look and unlock.
    #[inline(never)]
    fn deliver(&self, mut state: MutexGuard<'_, State<O>>) {
        let signals = std::mem::take(&mut state.signals);
        let notices = self.fixed.owner.take_notices(&mut state.owner, signals);
        drop(state);
        self.fixed.owner.deliver(notices);
        if signals.contains(Signals::PEER_CLOSED) {
            self.lock().owner_knows(&self.fixed);
        }
    }

    /// Makes progress, or leaves the edges to the thread that has locked the endpoint.
    #[inline]
    fn drive(&self, edges: Edges) -> Turn {
        self.state.drive(edges, |mut state, edges| {
            let unfinished = state.work(&self.fixed, edges) == Visit::Unfinished;
            let turn = Turn {
                unfinished,
                blocked: state.io.as_ref().is_some_and(StreamIo::is_blocked),
                work: std::mem::take(&mut state.turn_work),
            };
            self.release(state);
            turn
        })
    }
}

impl<O: Owner> Waiter for Endpoint<O> {
    fn receive_posted(&self) {
        if self.drive(Edges::KICK).unfinished {
            self.defer(WorkQueue::Receive);
        }
    }
}

impl<O: Owner> QueueUser for Endpoint<O> {
    /// Ends the connection. An endpoint without a connection cannot be connected any more.
    fn queue_broke(&self) {
        self.fixed.owner.queue_broke();
        drop(self.abort(ConnectionEnd::QueueBroke));
    }
}

/// The locked state of an endpoint. Dropping it unlocks the endpoint, delivers notices, and takes up the edges that other threads
/// left because they did not get the lock. Every thread that has locked the endpoint has to do that.
struct Locked<'a, O: Owner> {
    endpoint: &'a Endpoint<O>,
    /// Taken only in the drop.
    state: Option<MutexGuard<'a, State<O>>>,
    visit: Visit,
}

impl<O: Owner> Locked<'_, O> {
    fn work(&mut self, edges: Edges) {
        let fixed = &self.endpoint.fixed;
        self.visit = State::work(self, fixed, edges);
    }

    fn send(&mut self) {
        let fixed = &self.endpoint.fixed;
        self.visit = State::send(self, fixed);
    }

    /// Unlocks the endpoint, and leaves the rest to the caller.
    fn into_deferred_work(mut self) -> DeferredWork<O> {
        drop(self.state.take());
        DeferredWork {
            endpoint: self.endpoint.this.clone(),
            visit: self.visit,
        }
    }
}

impl<O: Owner> Deref for Locked<'_, O> {
    type Target = State<O>;

    fn deref(&self) -> &State<O> {
        self.state.as_ref().expect("taken only in the drop")
    }
}

impl<O: Owner> DerefMut for Locked<'_, O> {
    fn deref_mut(&mut self) -> &mut State<O> {
        self.state.as_mut().expect("taken only in the drop")
    }
}

impl<O: Owner> Drop for Locked<'_, O> {
    #[inline]
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        self.endpoint.release(state);
        let left = self.endpoint.state.has_left() && self.endpoint.drive(Edges::empty()).unfinished;
        if left || self.visit == Visit::Unfinished {
            self.endpoint.defer(WorkQueue::Receive);
        }
    }
}

/// The work left after an endpoint was unlocked. Dropping it delivers notices, and takes up the edges that other threads have left. The
/// thread that drops it must not hold a lock that the owner takes in `deliver`.
#[must_use = "dropping it delivers notices"]
pub struct DeferredWork<O: Owner> {
    endpoint: Weak<Endpoint<O>>,
    visit: Visit,
}

impl<O: Owner> std::fmt::Debug for DeferredWork<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeferredWork")
            .field("visit", &self.visit)
            .finish_non_exhaustive()
    }
}

impl<O: Owner> Drop for DeferredWork<O> {
    #[inline]
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            let mut state = endpoint.lock();
            state.visit = self.visit;
        }
    }
}

/// While one of these exists, results that follow from the end of the connection are not placed. The thread that drops the last one
/// must not hold a lock that the owner takes in `deliver`.
pub struct FlushGuard<O: Owner>(Weak<Endpoint<O>>);

impl<O: Owner> std::fmt::Debug for FlushGuard<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlushGuard").finish_non_exhaustive()
    }
}

impl<O: Owner> Drop for FlushGuard<O> {
    #[inline]
    fn drop(&mut self) {
        if let Some(endpoint) = self.0.upgrade() {
            let mut state = endpoint.lock();
            state.flush = Flush::Free;
            State::settle(&mut state, &endpoint.fixed);
        }
    }
}

impl<O: Owner> Source for Endpoint<O> {
    fn ready(&self, edges: Edges) -> Turn {
        self.drive(edges)
    }

    fn incoming_core(&self) -> Option<usize> {
        self.lock().io.as_ref()?.stream().incoming_core()
    }

    fn has_bells(&self) -> bool {
        let state = self.lock();
        let io = state.io.as_ref();
        io.is_some_and(|io| io.stream().has_bells())
    }

    fn leave(&self, domain: &Domain) -> bool {
        let mut state = self.lock();
        state.io.as_mut().is_some_and(|io| io.leave_set(domain))
    }

    fn rejoin(&self, domain: &Domain) -> bool {
        let mut state = self.lock();
        let io = state.io.as_mut();
        io.is_none_or(|io| io.rejoin_set(domain))
    }
}

impl<O: Owner> Timed for Endpoint<O> {
    fn expired(&self, key: TimerKey, now: Instant) {
        let mut state = self.lock();
        if state.timer.is_some_and(|(_, set)| set == key) {
            state.timer = None;
        }
        if state.deadline.is_some_and(|deadline| deadline <= now) {
            state.overdue(&self.fixed);
        }
        state.look_at_peer(&self.fixed, now);
        state.connection.handle_timeout(now);
        let held = state.io.as_ref().map(StreamIo::stream);
        if let Some(stream) = held.filter(|stream| stream.is_faulted() || stream.has_bells()) {
            stream.awake(now);
            return state.work(Edges::KICK | Edges::READ | Edges::WRITE);
        }
        state.work(Edges::KICK);
    }
}
