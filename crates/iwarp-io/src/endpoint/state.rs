//! The data under the lock of an endpoint, and the work on it: reporting events to the owner, ending directions that are done, keeping time
//! limits.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp::{
    Completion, Connection, Delivery, Event, OutOfMemory, Pd, Scope, StreamEnd, StreamId, WqeStatus,
};
use parking_lot::Mutex;
use tracing::Span;

use super::connection_end::ConnectionEnd;
use super::dead_peer::DeadPeerWatch;
use super::gather::Gather;
use super::options::EndpointOptions;
use super::owner::{Owner, ReceivesAhead as _, Signals, WorkQueue};
use super::stream_io::{StreamIo, Visit};
use crate::driver::Driver;
use crate::log::targets;
use crate::progress::Edges;
use crate::progress::timers::{Timed, TimerKey};

/// The most visits in which this side reads and answers before it ends a stream.
const LAST_VISITS: u32 = 16;

/// The state of an endpoint's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Never connected.
    Idle,
    /// The stream has started, but initiator requests are not accepted yet.
    Starting,
    /// Connected as the Responder, and the client has posted no request yet that the peer could notice. The first such post finds
    /// out whether the peer has sent anything.
    Unheard,
    /// Connected.
    Open,
    /// Failed, or ended by the peer. Requests are accepted and come back flushed.
    Ended,
    /// Ended by this side. Receives are accepted and come back flushed.
    Disconnected,
    /// Shut by the owner: no request is accepted.
    Shut,
}

impl Phase {
    /// The phase after the connection has ended by itself.
    fn ended(self) -> Self {
        match self {
            Self::Disconnected | Self::Shut => self,
            _ => Self::Ended,
        }
    }
}

/// The state of a connection's flushed results: whether they may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// They may be placed: there is no [`FlushGuard`](super::FlushGuard), or it was dropped.
    Free,
    /// There is a guard, and the connection has not ended.
    Guarded,
    /// There is a guard, and the connection has ended: no result is placed.
    Held,
}

/// The parts of an endpoint that need no lock.
pub(super) struct Fixed<O> {
    pub(super) owner: O,
    pub(super) driver: Arc<Driver>,
    /// See [`EndpointOptions`](super::EndpointOptions).
    pub(super) end_within: Option<Duration>,
    /// See [`EndpointOptions`](super::EndpointOptions).
    pub(super) early_posts: bool,
    /// The endpoint itself, for the timers.
    pub(super) timed: Weak<dyn Timed>,
    /// The reason why the connection ended. It is not part of [`State`], because callers that hold their own locks read it, and unlocking the
    /// endpoint runs code of clients. Written with the endpoint locked. No other lock is taken while this one is held.
    pub(super) end: Mutex<Option<ConnectionEnd>>,
}

/// The data under the lock.
pub(super) struct State<O: Owner> {
    pub(super) owner: O::State,
    pub(super) connection: Connection,
    pub(super) scope: Scope,
    receive_pd: Pd,
    /// See [`EndpointOptions`].
    keeps_receives: bool,
    /// See [`set_delivery`](super::Endpoint::set_delivery).
    pub(super) delivery: Delivery,
    /// See [`pass_responses`](super::Endpoint::pass_responses).
    pub(super) passes_responses: bool,
    pub(super) phase: Phase,
    pub(super) io: Option<StreamIo>,
    pub(super) signals: Signals,
    pub(super) flush: Flush,
    /// The stream is gone, and [`Signals::GONE`] has not been signalled.
    pub(super) over: bool,
    /// The peer has closed its direction, and the owner does not know that yet. Until then this side's direction stays open: a peer that sees both
    /// closed may connect anew, and the owner would get that request before the end of this connection.
    owner_lags: bool,
    /// [`Turn::work`](crate::progress::domain::Turn::work) of this turn.
    pub(super) turn_work: usize,
    /// The time limit of the Send that waits for a Receive, or of the last one that did.
    stall: Option<Instant>,
    pub(super) gather: Gather,
    /// The time at which the stream is reset, because the peer has not ended its direction.
    pub(super) deadline: Option<Instant>,
    pub(super) timer: Option<(Instant, TimerKey)>,
    /// See [`set_patience`](super::Endpoint::set_patience).
    pub(super) patience: Option<Duration>,
    dead_peer: Option<DeadPeerWatch>,
    /// The peer's address of the connection.
    pub(super) peer: Option<SocketAddr>,
    /// The span of the connection, for the log.
    pub(super) span: Span,
}

impl<O: Owner> State<O> {
    pub(super) fn new(options: &EndpointOptions, owner: O::State) -> Result<Self, OutOfMemory> {
        let EndpointOptions {
            scope,
            receive_pd,
            keeps_receives,
            ..
        } = *options;
        let mut connection = Connection::new(options.sizes, scope)?;
        connection.set_receive_pd(receive_pd);
        if keeps_receives {
            connection.keep_receives();
        }
        Ok(Self {
            owner,
            connection,
            scope,
            receive_pd,
            keeps_receives,
            delivery: Delivery::Reliable,
            passes_responses: false,
            phase: Phase::Idle,
            io: None,
            signals: Signals::empty(),
            flush: Flush::Free,
            over: false,
            owner_lags: false,
            turn_work: 0,
            stall: None,
            gather: Gather::default(),
            deadline: None,
            timer: None,
            patience: None,
            dead_peer: None,
            peer: None,
            span: Span::none(),
        })
    }

    /// A connection like this one that has not started.
    pub(super) fn fresh(&self) -> Result<Connection, OutOfMemory> {
        let mut connection = Connection::new(*self.connection.sizes(), self.scope)?;
        connection.set_receive_pd(self.receive_pd);
        if self.keeps_receives {
            connection.keep_receives();
        }
        connection.set_delivery(self.delivery);
        Ok(connection)
    }

    /// See [`Endpoint::set_delivery`](super::Endpoint::set_delivery).
    pub(super) fn set_delivery(&mut self, delivery: Delivery, fixed: &Fixed<O>) {
        self.delivery = delivery;
        fixed.owner.receives().set_waits(!self.is_unreliable());
        self.keeps_receives |= self.is_unreliable();
        self.connection.set_delivery(delivery);
    }

    pub(super) fn is_unreliable(&self) -> bool {
        self.delivery == Delivery::Unreliable
    }

    /// Takes the connection and its stream out, if there is a stream, and puts `fresh` in the place of the connection.
    pub(super) fn take_stream(&mut self, fresh: Connection, owner: O::State) -> Option<Self> {
        let io = self.io.take()?;
        self.owner_lags = false;
        Some(Self {
            owner,
            connection: std::mem::replace(&mut self.connection, fresh),
            scope: self.scope,
            receive_pd: self.receive_pd,
            keeps_receives: self.keeps_receives,
            delivery: self.delivery,
            passes_responses: self.passes_responses,
            phase: Phase::Ended,
            io: Some(io),
            signals: std::mem::take(&mut self.signals),
            flush: Flush::Free,
            over: false,
            owner_lags: false,
            turn_work: 0,
            stall: None,
            gather: Gather::default(),
            deadline: self.deadline.take(),
            timer: None,
            patience: None,
            dead_peer: None,
            peer: self.peer,
            span: self.span.clone(),
        })
    }

    /// See [`Endpoint::end`](super::Endpoint::end).
    pub(super) fn end(&mut self, fixed: &Fixed<O>) {
        self.ends(fixed, || ConnectionEnd::Disconnected);
        self.disconnect();
        self.phase = Phase::Ended;
        self.set_deadline(fixed);
        fixed.owner.draws_no_more(&mut self.owner);
    }

    /// Reads and answers what has arrived, before this side ends the stream, so that the peer's last requests do not fail. Only where
    /// [Receives stay](EndpointOptions::keeps_receives).
    pub(super) fn answer_all(&mut self, fixed: &Fixed<O>) {
        if !self.keeps_receives || !self.connection.is_running() {
            return;
        }
        for _ in 0..LAST_VISITS {
            if let Some(io) = &mut self.io {
                io.note(Edges::READ);
            }
            if self.work(fixed, Edges::KICK) == Visit::Finished {
                return;
            }
        }
    }

    /// See [`Endpoint::renew`](super::Endpoint::renew).
    pub(super) fn renew(&mut self, stream: StreamId) -> Result<(), OutOfMemory> {
        self.scope.stream = stream;
        self.connection = self.fresh()?;
        self.phase = Phase::Idle;
        self.owner_lags = false;
        self.stall = None;
        self.gather = Gather::default();
        self.deadline = None;
        self.patience = None;
        self.dead_peer = None;
        self.peer = None;
        self.span = Span::none();
        Ok(())
    }

    /// If the initiator queue is full, frees the slots whose completions the client has taken. For posts that are not on the data path.
    #[cold]
    pub(super) fn make_room(&mut self, owner: &O) {
        if self.connection.is_initiator_full() {
            let taken = owner.taken(&mut self.owner, WorkQueue::Initiator);
            self.connection.free_initiator_slots(taken);
        }
    }

    /// Returns true if the owner has to be called when the endpoint has been unlocked.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        O::has_notices(&self.owner) || !self.signals.is_empty()
    }

    /// Makes as much progress as the budget allows. The results of received messages are placed before an answer is sent, because a Read
    /// Response proves that the Sends before it were delivered (RDMAP-094).
    #[inline]
    pub(super) fn work(&mut self, fixed: &Fixed<O>, edges: Edges) -> Visit {
        self.gather.left();
        if let Some(io) = &mut self.io {
            io.note(edges);
        }
        // A poll sends only octets that the socket did not accept before. Posts send by themselves.
        let polled = edges == Edges::READ && !self.io.as_ref().is_some_and(StreamIo::is_sending);
        let sent = if polled {
            Visit::Finished
        } else {
            self.transmit(fixed)
        };
        let received = self.receive(fixed);
        if let Some(io) = &mut self.io {
            let activity = io.take_activity();
            self.turn_work += activity.work;
            if polled && !activity.any {
                return Visit::Finished; // most polls find nothing
            }
        }
        self.settle(fixed);
        if !self.connection.wants_transmit() {
            return sent.and(received);
        }
        let answered = self.transmit(fixed);
        self.settle(fixed);
        sent.and(received).and(answered)
    }

    /// Sends posted requests, and does not read.
    pub(super) fn send(&mut self, fixed: &Fixed<O>) -> Visit {
        self.gather.left();
        let sent = self.transmit(fixed);
        self.settle(fixed);
        sent
    }

    fn transmit(&mut self, fixed: &Fixed<O>) -> Visit {
        let Some(io) = &mut self.io else {
            return Visit::Finished;
        };
        match io.transmit(&mut self.connection, &fixed.driver.buffers) {
            Ok(visit) => visit,
            Err(error) => {
                if self.keeps_receives {
                    self.receive_rest(fixed, &error);
                }
                self.broke(fixed, &error)
            }
        }
    }

    #[inline(always)] // every poll that drives a stream comes here
    fn receive(&mut self, fixed: &Fixed<O>) -> Visit {
        let Some(io) = &mut self.io else {
            return Visit::Finished;
        };
        let buffers = &fixed.driver.buffers;
        match io.receive(&mut self.connection, buffers, fixed.owner.receives()) {
            Ok(visit) if io.may_pass() => self.pass(visit, fixed),
            Ok(visit) => visit,
            Err(error) => self.broke(fixed, &error),
        }
    }

    /// Reads past a Send that waits for a Receive, if one does.
    #[cold]
    fn pass(&mut self, visit: Visit, fixed: &Fixed<O>) -> Visit {
        let Some(io) = &mut self.io else {
            return visit;
        };
        match io.pass(visit, &mut self.connection, &fixed.driver.buffers) {
            Ok(visit) => visit,
            Err(error) => self.broke(fixed, &error),
        }
    }

    /// The stream takes nothing more because of this error. Receives what arrived before.
    #[cold]
    fn receive_rest(&mut self, fixed: &Fixed<O>, error: &io::Error) {
        self.ends(fixed, || ConnectionEnd::of_stream(error));
        let Some(io) = &mut self.io else {
            return;
        };
        io.note(Edges::READ);
        let buffers = &fixed.driver.buffers;
        // The peer adds nothing, so this ends.
        while let Ok(Visit::Unfinished) =
            io.receive(&mut self.connection, buffers, fixed.owner.receives())
        {}
    }

    /// The stream is broken.
    #[cold]
    fn broke(&mut self, fixed: &Fixed<O>, error: &io::Error) -> Visit {
        let span = &self.span;
        tracing::debug!(target: targets::CONNECTION, parent: span, %error, "a stream broke");
        if let Some(io) = &self.io {
            io.stream().was_reset();
        }
        self.lost(fixed, || ConnectionEnd::of_stream(error));
        Visit::Finished
    }

    /// See [`Endpoint::is_gone`](super::Endpoint::is_gone).
    pub(super) fn is_gone(&self) -> bool {
        self.io.is_none() && !self.over
    }

    /// This side ends the connection: FPDUs whose sending has not begun are not sent.
    pub(super) fn disconnect(&mut self) {
        self.connection.disconnect();
        if let Some(io) = &mut self.io {
            io.reading = true;
            io.drop_unsent(&mut self.connection);
        }
    }

    /// The peer did not end its direction in time.
    pub(super) fn overdue(&mut self, fixed: &Fixed<O>) {
        tracing::debug!(
            target: targets::CONNECTION,
            parent: &self.span,
            "the peer did not end the connection in time; reset"
        );
        // There is a reason already: the deadline began with it.
        self.lost(fixed, || ConnectionEnd::Silent);
    }

    /// Notes the reason for which the connection ends, if there is a connection and no earlier reason.
    #[cold]
    pub(super) fn ends(&mut self, fixed: &Fixed<O>, reason: impl FnOnce() -> ConnectionEnd) {
        let Some(peer) = self.peer else {
            return; // never connected
        };
        if fixed.end.lock().is_some() {
            return;
        }
        let end = reason();
        tracing::info!(
            target: targets::CONNECTION,
            parent: &self.span,
            by = ?end.by(),
            terminate = end.terminate().map(tracing::field::debug),
            "the connection ended: {end}"
        );
        *fixed.end.lock() = Some(end.clone());
        (fixed.owner).connection_ended(&mut self.owner, &end, peer);
    }

    /// This side resets the stream, if the endpoint has one. Events from before the reset may have another reason.
    pub(super) fn cut(&mut self, fixed: &Fixed<O>, reason: impl FnOnce() -> ConnectionEnd) {
        self.reset(fixed, reason, true);
    }

    /// The peer or the network has broken the stream.
    fn lost(&mut self, fixed: &Fixed<O>, reason: impl FnOnce() -> ConnectionEnd) {
        let flushes = !self.keeps_receives;
        self.reset(fixed, reason, flushes);
    }

    fn reset(&mut self, fixed: &Fixed<O>, reason: impl FnOnce() -> ConnectionEnd, flushes: bool) {
        if let Some(io) = self.io.take() {
            io.reset();
            self.settle(fixed); // events from before the reset
            self.ends(fixed, reason);
            if flushes {
                self.connection.flush();
                self.signals |= Signals::FLUSHED;
            }
            self.connection.handle_stream_end(StreamEnd::Reset, 0);
            self.signals |= Signals::RESET;
            self.over = true;
            self.hold_flush();
            self.phase = self.phase.ended();
            self.draws_no_more(fixed, flushes);
        }
    }

    /// Flushes Receives that have stayed posted behind the peer's end.
    pub(super) fn flush_kept(&mut self, fixed: &Fixed<O>) {
        if self.keeps_receives && self.peer.is_some() {
            self.connection.flush();
            self.signals |= Signals::FLUSHED;
            self.draws_no_more(fixed, true);
        }
    }

    fn draws_no_more(&mut self, fixed: &Fixed<O>, flushes: bool) {
        if flushes {
            fixed.owner.draws_no_more(&mut self.owner);
        } else {
            fixed.owner.waits_no_more(&mut self.owner);
        }
    }

    /// Reports the engine's events to the owner, ends directions that are done, and keeps the timer.
    pub(super) fn settle(&mut self, fixed: &Fixed<O>) {
        while self.flush != Flush::Held
            && let Some(event) = self.connection.poll_event()
        {
            self.take(event, fixed);
        }
        fixed.owner.place(&mut self.owner);
        if let Some(io) = &mut self.io {
            if self.connection.write_side_done() && !self.owner_lags {
                io.close_write();
            }
            if io.stream().is_faulted() {
                for status in io.stream().take_broken() {
                    fixed.owner.break_queues(&status);
                }
            }
            if io.is_over() {
                self.io.take().expect("looked at above").close();
                self.over = true;
            }
        }
        if self.over && self.flush != Flush::Held {
            self.over = false;
            self.signals |= Signals::GONE;
        }
        self.keep_time(fixed);
    }

    /// The owner knows that the peer has closed its direction.
    pub(super) fn owner_knows(&mut self, fixed: &Fixed<O>) {
        self.owner_lags = false;
        self.settle(fixed);
    }

    fn take(&mut self, event: Event, fixed: &Fixed<O>) {
        match event {
            Event::Completed(completion) => {
                if completion.status != WqeStatus::Success {
                    self.request_failed(&completion, fixed);
                }
                fixed.owner.completed(&mut self.owner, completion);
            }
            Event::Ready => {
                self.signals |= Signals::READY;
                if self.phase == Phase::Starting {
                    self.phase = Phase::Unheard;
                }
            }
            Event::PeerClosed => {
                self.signals |= Signals::PEER_CLOSED;
                self.owner_lags = true;
                if !self.keeps_receives {
                    self.signals |= Signals::FLUSHED;
                }
                let failure = self.connection.failure();
                self.ends(fixed, || match failure {
                    Some(Event::Fault(fault)) => ConnectionEnd::Fault(fault),
                    _ => ConnectionEnd::PeerDisconnected,
                });
                self.hold_flush();
                self.set_deadline(fixed);
            }
            Event::Fault(fault) => {
                tracing::debug!(target: targets::CONNECTION, parent: &self.span, ?fault, "the connection failed");
                if fault.is_protection()
                    && let Some(io) = &self.io
                {
                    let driver = &fixed.driver;
                    let peer = io.stream().peer().ip();
                    driver
                        .protection_faults
                        .count(peer, driver.now(), &self.span);
                }
                self.ends(fixed, || ConnectionEnd::Fault(fault));
                self.fail(Signals::FAILED, fixed);
            }
            Event::Terminated(terminate) => {
                tracing::debug!(target: targets::CONNECTION, parent: &self.span, ?terminate, "the peer terminated the connection");
                self.ends(fixed, || ConnectionEnd::Terminated(terminate.code));
                self.fail(Signals::FAILED | Signals::TERMINATED, fixed);
            }
            Event::Ended => {}
            Event::GaveUp => self.fail(Signals::empty(), fixed),
            Event::Stalled => {
                fixed.owner.stalled(&self.span);
                self.stall = self.connection.poll_timeout(fixed.driver.now());
            }
        }
    }

    /// A request has failed, whose result is the next one that the owner gets.
    #[cold]
    fn request_failed(&mut self, completion: &Completion, fixed: &Fixed<O>) {
        if let Some(stag) = completion.failed_bind {
            fixed.driver.buffers.table().cancel_prepared(stag);
        }
        // The owner knows why the connection ended when it gets the first result of that. The event of the failure comes after the Receive
        // that has failed.
        match self.connection.failure() {
            Some(Event::Fault(fault)) => self.ends(fixed, || ConnectionEnd::Fault(fault)),
            Some(Event::Terminated(terminate)) => {
                self.ends(fixed, || ConnectionEnd::Terminated(terminate.code));
            }
            _ => {}
        }
    }

    fn fail(&mut self, signals: Signals, fixed: &Fixed<O>) {
        // The peer does not fail an unreliable connection.
        let flushes = !self.is_unreliable() || self.connection.flushes_receives();
        self.signals |= signals;
        if flushes {
            self.signals |= Signals::FLUSHED;
        }
        self.hold_flush();
        self.phase = self.phase.ended();
        self.draws_no_more(fixed, flushes);
        self.set_deadline(fixed);
    }

    /// The connection has ended. If there is a guard, further results stay in the engine.
    fn hold_flush(&mut self) {
        if self.flush == Flush::Guarded {
            self.flush = Flush::Held;
        }
    }

    pub(super) fn set_deadline(&mut self, fixed: &Fixed<O>) {
        if self.deadline.is_none() {
            self.deadline = fixed.end_within.map(|limit| fixed.driver.now() + limit);
        }
    }

    /// The time of the next look at a peer that may be gone.
    #[inline]
    fn next_look(&mut self, fixed: &Fixed<O>) -> Option<Instant> {
        let limit = self.patience?;
        if self.dead_peer.is_none() && self.io.is_some() && self.connection.has_open_requests() {
            self.dead_peer = Some(DeadPeerWatch::new(limit, fixed.driver.now()));
        }
        self.dead_peer.as_ref().map(|watch| watch.next)
    }

    /// Looks whether the peer's host is gone, if it is time and a request is open.
    #[cold]
    pub(super) fn look_at_peer(&mut self, fixed: &Fixed<O>, now: Instant) {
        let Some(mut watch) = self.dead_peer.take_if(|watch| watch.next <= now) else {
            return;
        };
        let Some(io) = &self.io else {
            return;
        };
        if !self.connection.has_open_requests() {
            return watch.end(io.stream());
        }
        match watch.look(io.stream(), now) {
            None => self.patience = None,
            Some(false) => self.dead_peer = Some(watch),
            Some(true) => self.lost(fixed, || ConnectionEnd::Silent),
        }
    }

    fn keep_time(&mut self, fixed: &Fixed<O>) {
        if self.phase == Phase::Disconnected {
            self.set_deadline(fixed);
        }
        let stall = self.stall.filter(|_| self.connection.is_stalled());
        let look = self.next_look(fixed);
        let recognition = match self.connection.awaits_recognition() {
            true => self.connection.recognition_deadline(fixed.driver.now()),
            false => None,
        };
        let wanted = match &self.io {
            Some(io) => {
                let held = io.stream().wake_at();
                [stall, self.deadline, held, look, recognition]
                    .into_iter()
                    .flatten()
                    .min()
            }
            None => None,
        };
        if self.timer.map(|(at, _)| at) == wanted {
            return;
        }
        if let Some((_, key)) = self.timer.take() {
            fixed.driver.cancel_timer(key);
        }
        let timed = &fixed.timed;
        self.timer = wanted.map(|at| (at, fixed.driver.set_timer(at, timed.clone())));
    }
}
