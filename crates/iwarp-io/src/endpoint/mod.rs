//! One connection in use: an [`Endpoint`] has the engine's connection, its stream, and the threads that drive them.
//!
//! The [`Owner`] of an endpoint is told what happens: requests that have ended, and what becomes of the connection. It is a queue
//! pair of some interface, and decides what its client may do and when.
//!
//! [`StreamIo`] reads and sends for the connection, in visits with a budget. `gather` decides which posts leave at once and which
//! wait for company.
//!
//! # The order at the end of a connection
//!
//! An owner may want to tell its client of the end before the client sees a flushed request. Results are placed with the
//! endpoint locked, and the owner tells its client with no lock held. So the results that the end brings about wait in the engine:
//!
//! 1. The engine reports the end. What happened before it is placed, the rest stays in the engine.
//! 2. With no lock held, the owner is told, and tells its client.
//! 3. The last clone of the [`FlushGuard`] is dropped, and the rest is placed.
//!
//! The owner has a clone of the guard for as long as it may have to tell its client, and so does every thread that is at it. It
//! does not matter which thread is the last one.

pub mod buffers;
mod gather;
mod mulpdu;
mod owner;
pub mod shared_receives;
mod state;
mod stream_io;
mod tx_buffers;

#[cfg(all(test, not(loom)))]
mod tests;

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp::{TerminateCode, mpa, terminate_frame};

pub use iwarp::{
    AtomicOp, Completion, InitiatorWqe, Operation, OwnQueue, Payload, PostError, QueueSizes,
    ReadLimits, ReceiveSlot, ReceiveSource, RemoteAddress, RequestKind, Role, STag, Scope, Sge,
    StreamConfig, StreamId, WqeStatus,
};
pub use owner::{Owner, Queue, Signals};
pub use state::Phase;
pub use stream_io::EARLY;

use crate::driver::Driver;
use crate::limited;
use crate::progress::Edges;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::turns::Turns;
use crate::sync::MutexGuard;
use crate::transport::stream::Stream;
use gather::Leaves;
use shared_receives::Waiter;
use state::{Fixed, Flush, State};
use stream_io::{StreamIo, Visit};

/// What a new endpoint is like.
#[derive(Clone, Copy, Debug)]
pub struct EndpointOptions {
    /// The sizes of the queues.
    pub sizes: QueueSizes,
    /// The protection domain, and the connection's name in the adapter.
    pub scope: Scope,
    /// How long a Send of the peer waits for a Receive, before the connection fails; not at all with zero, without end with
    /// [`Duration::MAX`].
    pub receive_wait: Duration,
    /// How long the peer may take to end its direction after the connection has ended; then the stream is reset.
    pub end_within: Option<Duration>,
}

/// How the stream of an endpoint starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The client may post at once.
    Open,
    /// The client may post when the peer's first FPDU has arrived, for which whoever makes the connection waits.
    Awaited,
    /// The client has not agreed to the connection yet: what comes in stays in the transport until
    /// [`open`](Endpoint::open).
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

/// From where a stream is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// From the domains of its two queues: polls, waits for results, the background thread.
    Queues,
    /// From where connections are made and ended, while somebody waits there for what happens to this one.
    Control,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The owner has shut the endpoint.
    Shut,
    /// The owner does not let its client [speak first](Owner::may_speak_first).
    SpeaksFirst,
    /// The engine does not take it.
    Request(PostError),
}

impl From<PostError> for Refused {
    fn from(error: PostError) -> Self {
        Self::Request(error)
    }
}

/// One connection, from before its stream starts until nothing is left of it. Shared by its owner's objects and by the domains
/// that drive its stream.
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
    /// An endpoint that is not connected. Receives can be posted. `owner` makes the owner, and is given the endpoint that there is
    /// going to be.
    pub fn new(
        driver: Arc<Driver>,
        options: EndpointOptions,
        owner: impl FnOnce(&Weak<Self>) -> O,
        state: O::State,
    ) -> Arc<Self> {
        let state = State::new(options.sizes, options.scope, state);
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            fixed: Fixed {
                owner: owner(this),
                driver,
                receive_wait: options.receive_wait,
                end_within: options.end_within,
                timed: this.clone(),
            },
            state: Turns::new(state),
            this: this.clone(),
        })
    }

    /// The owner.
    pub fn owner(&self) -> &O {
        &self.fixed.owner
    }

    /// Does something with the endpoint locked.
    pub fn with<T>(&self, act: impl FnOnce(Phase, &mut O::State) -> T) -> T {
        let mut state = self.lock();
        let phase = state.phase;
        act(phase, &mut state.owner)
    }

    /// Nothing is left of the stream, or there never was one, and that was signalled.
    pub fn is_gone(&self) -> bool {
        self.lock().is_gone()
    }

    /// Whether a Send of the peer waits for a Receive; `None` while somebody is at work on the endpoint.
    pub fn is_stalled(&self) -> Option<bool> {
        let state = self.try_lock()?;
        Some(state.connection.is_stalled())
    }

    // ---- what makes and ends connections ----
    //
    // Who calls these may hold a lock that the owner takes when it is told something. So news is left to the caller, who delivers it
    // when that lock is released.

    /// Has the results that the end of the connection brings about wait until what is returned has been dropped. Called once, before
    /// the stream starts.
    pub fn guard_flush(&self) -> Arc<FlushGuard<O>> {
        self.lock().flush = Flush::Guarded;
        Arc::new(FlushGuard(self.this.clone()))
    }

    /// Starts full operation on a stream; as Initiator the ready-to-receive message leaves first.
    ///
    /// # Errors
    ///
    /// Those of the system when the stream cannot be driven, and [`ConnectionReset`](io::ErrorKind::ConnectionReset) when the
    /// endpoint has been connected before, or was aborted. The stream is reset then.
    pub fn start(
        &self,
        stream: Stream,
        mut config: StreamConfig,
        start: Start,
    ) -> (io::Result<()>, News<O>) {
        config.receive_wait = self.fixed.receive_wait;
        let mut state = self.lock();
        if state.phase != Phase::Idle {
            stream.reset();
            return (
                Err(io::ErrorKind::ConnectionReset.into()),
                state.into_news(),
            );
        }
        let initiator = config.role == Role::Initiator;
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
        self.fixed.owner.started(&mut state.owner);
        let attached = self.attach(&mut io, start.drivers());
        if attached.is_err() && initiator {
            // MPA2-030: the peer learns that it is not its fault, as far as that still works.
            let code = TerminateCode::new(2, 0, mpa::Error::LocalCatastrophic.code());
            let last = terminate_frame(code, config.crc, config.markers.sent);
            let _ = io.stream().send_frame(&last);
        }
        state.io = Some(io);
        if attached.is_err() {
            state.cut(&self.fixed);
        }
        state.work(Edges::KICK);
        (attached, state.into_news())
    }

    /// Has the stream driven by others from now on, and by nobody else: what happens on it wakes one thread and not two.
    pub fn drive_from(&self, drivers: Drivers) -> News<O> {
        let mut state = self.lock();
        if let Some(io) = &mut state.io
            && let Err(error) = self.attach(io, drivers)
        {
            // Those of before see to it, only a wake-up later.
            limited!(warn, %error, "cannot change who drives a stream");
        }
        state.into_news()
    }

    fn attach(&self, io: &mut StreamIo, drivers: Drivers) -> io::Result<()> {
        let this: Weak<dyn Source> = self.this.clone();
        match drivers {
            Drivers::Queues => {
                let domains = [Queue::Receive, Queue::Initiator];
                let domains = domains.map(|queue| self.fixed.owner.domain(queue));
                io.move_to(domains.into_iter(), &this)
            }
            Drivers::Control => io.move_to(std::iter::once(&self.fixed.driver.control), &this),
        }
    }

    /// The client agrees to a connection that was [held](Start::Held).
    pub fn open(&self) -> News<O> {
        let mut state = self.lock();
        if state.phase == Phase::Starting {
            state.phase = Phase::Open;
        }
        if let Some(io) = &mut state.io {
            io.reading = true;
        }
        state.work(Edges::KICK);
        state.into_news()
    }

    /// This side ends the connection: all requests come back flushed, what was begun is sent, our direction ends, and the peer
    /// has a bounded time to end its own. An endpoint that never was connected gives its Receives back, and is not connected
    /// any more. True when nothing was left of the stream before; otherwise that is signalled.
    pub fn disconnect(&self) -> (bool, News<O>) {
        let mut state = self.lock();
        let gone = state.is_gone();
        match state.phase {
            Phase::Disconnected | Phase::Shut => return (gone, state.into_news()),
            Phase::Idle => {
                state.phase = Phase::Disconnected;
                state.connection.flush();
            }
            Phase::Starting | Phase::Unheard | Phase::Open | Phase::Ended => {
                state.phase = Phase::Disconnected;
                let State { connection, io, .. } = &mut *state;
                connection.disconnect();
                if let Some(io) = io {
                    io.reading = true;
                    io.drop_unsent(connection);
                }
            }
        }
        self.fixed.owner.draws_no_more(&mut state.owner);
        state.work(Edges::KICK);
        (gone, state.into_news())
    }

    /// Ends the connection with a reset, whatever is under way; an endpoint that never was connected cannot be connected any
    /// more.
    pub fn abort(&self) -> News<O> {
        let mut state = self.lock();
        state.cut(&self.fixed);
        if state.phase == Phase::Idle {
            state.phase = Phase::Ended;
        }
        state.work(Edges::empty());
        state.into_news()
    }

    /// Ends the connection with a reset, has all requests come back flushed, and takes none any more.
    pub fn shut(&self) -> News<O> {
        let mut state = self.lock();
        state.phase = Phase::Shut;
        state.cut(&self.fixed);
        state.connection.flush(); // also where there never was a stream
        state.work(Edges::empty());
        state.into_news()
    }

    /// Makes the endpoint one that never was connected, under another name, so that nothing that was bound for the peer before
    /// is open to the next one. Receives that have not completed are forgotten. False, and nothing is done, while anything is
    /// left of a stream, while a [`FlushGuard`] exists, and on an endpoint that is shut.
    pub fn renew(&self, stream: StreamId) -> bool {
        let mut state = self.lock();
        let may = state.is_gone() && state.flush == Flush::Free && state.phase != Phase::Shut;
        if may {
            state.renew(stream);
        }
        may
    }

    // ---- what the client does with it ----

    /// Posts an initiator request. The first ones after a poll leave at once, in this thread; those that follow in a row
    /// are gathered, and leave with the next poll, when enough have come together, or by the background thread.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn post(&self, wqe: InitiatorWqe<'_>) -> Result<(), Refused> {
        let polls = self.fixed.owner.domain(Queue::Initiator).polls();
        let octets = wqe.operation.octets();
        let mut state = self.lock();
        match state.phase {
            Phase::Open | Phase::Ended => {}
            Phase::Unheard => {
                let local = wqe.operation.is_local();
                self.speak_first(&mut state, local)?;
            }
            Phase::Shut => return Err(Refused::Shut),
            Phase::Idle | Phase::Starting | Phase::Disconnected => {
                return Err(PostError::NotConnected.into());
            }
        }
        state.connection.post_initiator(wqe)?;
        let most = stream_io::batch_octets(&state.connection) as u64;
        let clock = || self.fixed.driver.now();
        match state.gather.add(polls, (octets, most), clock) {
            Leaves::Now => {
                state.send();
                state.gather.sent(clock);
            }
            Leaves::Later { first: false } => {}
            Leaves::Later { first: true } => {
                drop(state);
                self.defer(Queue::Initiator);
            }
        }
        Ok(())
    }

    /// The first post of the passive side, but for local ones.
    #[cold]
    fn speak_first(&self, state: &mut State<O>, local: bool) -> Result<(), Refused> {
        if local {
            return Ok(());
        }
        let first = state.connection.would_speak_first();
        if first && !self.fixed.owner.may_speak_first(&mut state.owner) {
            return Err(Refused::SpeaksFirst);
        }
        state.phase = Phase::Open;
        Ok(())
    }

    /// Posts a Receive, connected or not.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn post_receive(&self, context: u64, sges: &[Sge]) -> Result<(), Refused> {
        let mut state = self.lock();
        let flushed = match state.phase {
            Phase::Shut => return Err(Refused::Shut),
            Phase::Ended | Phase::Disconnected => true,
            Phase::Idle | Phase::Starting | Phase::Unheard | Phase::Open => false,
        };
        let stalled = state.connection.is_stalled();
        state.connection.post_receive(context, sges)?;
        if stalled || flushed {
            state.work(Edges::KICK);
        }
        Ok(())
    }

    /// Has all requests come back flushed. A connection fails by this.
    pub fn flush(&self) {
        let mut state = self.lock();
        state.connection.flush();
        if matches!(state.phase, Phase::Unheard | Phase::Open) {
            state.phase = Phase::Ended;
            self.fixed.owner.draws_no_more(&mut state.owner);
        }
        state.work(Edges::KICK);
    }

    // ---- progress ----

    /// The lock, unless somebody has it.
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

    /// Work is left: the next driver of this queue's domain goes on, the background thread at the latest.
    fn defer(&self, queue: Queue) {
        let Fixed { owner, driver, .. } = &self.fixed;
        let domain = owner.domain(queue);
        domain.defer(self.this.clone());
        driver.notice(domain);
        owner.wake(queue);
    }

    /// Releases the lock, then has the owner deliver its notices.
    fn release(&self, mut state: MutexGuard<'_, State<O>>) {
        if !state.has_news() {
            return;
        }
        let signals = std::mem::take(&mut state.signals);
        let notices = self.fixed.owner.take_notices(&mut state.owner, signals);
        drop(state);
        self.fixed.owner.deliver(notices);
    }

    /// Makes progress, or leaves the edges to whoever is at it.
    fn drive(&self, edges: Edges) -> Turn {
        self.state.drive(edges, |mut state, edges| {
            let unfinished = state.work(&self.fixed, edges) == Visit::Unfinished;
            let turn = Turn {
                unfinished,
                blocked: state.io.as_ref().is_some_and(StreamIo::is_sending),
                octets: std::mem::take(&mut state.received),
            };
            self.release(state);
            turn
        })
    }
}

impl<O: Owner> Waiter for Endpoint<O> {
    fn receive_posted(&self) {
        if self.drive(Edges::KICK).unfinished {
            self.defer(Queue::Receive);
        }
    }
}

/// The locked state of an endpoint. When it goes, notices are delivered, and what other threads left behind because they did
/// not get the lock is taken up: every holder owes them that, however short it held the lock.
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

    /// Unlocks without delivering anything.
    fn into_news(mut self) -> News<O> {
        drop(self.state.take());
        News {
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
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        self.endpoint.release(state);
        let left = self.endpoint.state.has_left() && self.endpoint.drive(Edges::empty()).unfinished;
        if left || self.visit == Visit::Unfinished {
            self.endpoint.defer(Queue::Receive);
        }
    }
}

/// What was left undelivered when an endpoint was unlocked. Dropping it delivers, and takes up what other threads have left
/// meanwhile: not to be done with a lock held that what runs then might take.
#[must_use = "dropping it delivers"]
pub struct News<O: Owner> {
    endpoint: Weak<Endpoint<O>>,
    visit: Visit,
}

impl<O: Owner> std::fmt::Debug for News<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("News")
            .field("visit", &self.visit)
            .finish_non_exhaustive()
    }
}

impl<O: Owner> Drop for News<O> {
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            let mut state = endpoint.lock();
            state.visit = self.visit;
        }
    }
}

/// While one of these exists, the results that the end of the connection brings about cannot be seen. Not to be dropped
/// with a lock held that the owner takes when it is told something.
pub struct FlushGuard<O: Owner>(Weak<Endpoint<O>>);

impl<O: Owner> std::fmt::Debug for FlushGuard<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlushGuard").finish_non_exhaustive()
    }
}

impl<O: Owner> Drop for FlushGuard<O> {
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

    fn leave(&self, domain: &Domain) -> bool {
        let state = self.lock();
        state.io.as_ref().is_some_and(|io| io.leave_set(domain))
    }

    fn rejoin(&self, domain: &Domain) -> bool {
        let state = self.lock();
        let io = state.io.as_ref();
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
        state.connection.handle_timeout(now);
        let held = state.io.as_ref().map(StreamIo::stream);
        if let Some(stream) = held.filter(|stream| stream.is_faulted()) {
            stream.awake(now);
            return state.work(Edges::KICK | Edges::READ | Edges::WRITE);
        }
        state.work(Edges::KICK);
    }
}
