//! What the lock of an endpoint guards, and the work on it: events become calls of the owner, directions that are done are
//! ended, and the time limits are kept.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp::{Connection, Event, QueueSizes, Scope, StreamEnd, StreamId};

use super::gather::Gather;
use super::owner::{Owner, Signals};
use super::stream_io::{StreamIo, Visit};
use crate::driver::Driver;
use crate::progress::Edges;
use crate::progress::timers::{Timed, TimerKey};

/// Where an endpoint stands with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Never connected.
    Idle,
    /// The stream is there, initiator requests are not accepted yet.
    Starting,
    /// Connected as the Responder, and nothing was posted yet that a peer could notice: whether the peer has sent anything is
    /// looked at with the first such post.
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
    /// The connection has ended by itself, where it had not been ended before.
    fn ended(self) -> Self {
        match self {
            Self::Disconnected | Self::Shut => self,
            _ => Self::Ended,
        }
    }
}

/// Whether the results that the end of the connection brings about may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// At once: nobody wants to be told of the end first, or has been told.
    Free,
    /// The connection has not ended, and the owner wants to be told first.
    Guarded,
    /// The connection has ended and the owner is being told: no result is placed.
    Held,
}

/// What an endpoint has beside its lock.
pub(super) struct Fixed<O> {
    pub(super) owner: O,
    pub(super) driver: Arc<Driver>,
    /// How long a Send of the peer waits for a Receive.
    pub(super) receive_wait: Duration,
    /// How long the peer may take to end its direction.
    pub(super) end_within: Option<Duration>,
    /// The endpoint.
    pub(super) timed: Weak<dyn Timed>,
}

/// What the lock guards.
pub(super) struct State<O: Owner> {
    pub(super) owner: O::State,
    pub(super) connection: Connection,
    scope: Scope,
    pub(super) phase: Phase,
    pub(super) io: Option<StreamIo>,
    pub(super) signals: Signals,
    pub(super) flush: Flush,
    /// Nothing is left of the stream, and [`Signals::GONE`] has not been signalled.
    pub(super) over: bool,
    /// Octets received in this visit.
    pub(super) received: usize,
    /// Until when the Send of the peer that found no Receive last may wait for one.
    stall: Option<Instant>,
    pub(super) gather: Gather,
    /// When the end of the connection is forced.
    pub(super) deadline: Option<Instant>,
    pub(super) timer: Option<(Instant, TimerKey)>,
}

impl<O: Owner> State<O> {
    pub(super) fn new(sizes: QueueSizes, scope: Scope, owner: O::State) -> Self {
        Self {
            owner,
            connection: Connection::new(sizes, scope),
            scope,
            phase: Phase::Idle,
            io: None,
            signals: Signals::empty(),
            flush: Flush::Free,
            over: false,
            received: 0,
            stall: None,
            gather: Gather::default(),
            deadline: None,
            timer: None,
        }
    }

    /// Makes the endpoint one that never was connected, and calls it `stream`. Nothing is left of the stream before.
    pub(super) fn renew(&mut self, stream: StreamId) {
        let sizes = *self.connection.sizes();
        self.scope.stream = stream;
        self.connection = Connection::new(sizes, self.scope);
        self.phase = Phase::Idle;
        self.stall = None;
        self.gather = Gather::default();
        self.deadline = None;
    }

    /// Something is to be told when the lock has been released.
    pub(super) fn has_news(&self) -> bool {
        O::has_notices(&self.owner) || !self.signals.is_empty()
    }

    /// Makes what progress is possible, within a budget. The results of what was received are placed before an answer leaves: a
    /// Read Response proves that the Sends before it were delivered (RDMAP-094).
    pub(super) fn work(&mut self, fixed: &Fixed<O>, edges: Edges) -> Visit {
        self.gather.left();
        if let Some(io) = &mut self.io {
            io.note(edges);
        }
        // A poll has nothing to send but what the socket did not take: posts see to themselves.
        let polled = edges == Edges::READ && !self.io.as_ref().is_some_and(StreamIo::is_sending);
        let sent = if polled {
            Visit::Finished
        } else {
            self.transmit(fixed)
        };
        let received = self.step(fixed, |io, connection| {
            io.receive(connection, &fixed.driver.buffers, fixed.owner.receives())
        });
        if let Some(io) = &mut self.io {
            let activity = io.take_activity();
            self.received += activity.octets;
            if polled && !activity.any {
                return Visit::Finished; // it found nothing: most of them
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

    /// Sends what was posted; what was received meanwhile waits for its own turn.
    pub(super) fn send(&mut self, fixed: &Fixed<O>) -> Visit {
        self.gather.left();
        let sent = self.transmit(fixed);
        self.settle(fixed);
        sent
    }

    fn transmit(&mut self, fixed: &Fixed<O>) -> Visit {
        self.step(fixed, |io, connection| {
            io.transmit(connection, &fixed.driver.buffers)
        })
    }

    /// One direction of the stream, if there still is one.
    fn step(
        &mut self,
        fixed: &Fixed<O>,
        act: impl FnOnce(&mut StreamIo, &mut Connection) -> io::Result<Visit>,
    ) -> Visit {
        let Some(io) = &mut self.io else {
            return Visit::Finished;
        };
        match act(io, &mut self.connection) {
            Ok(visit) => visit,
            Err(error) => {
                tracing::debug!(%error, "a stream broke");
                io.stream().was_reset();
                self.cut(fixed);
                Visit::Finished
            }
        }
    }

    /// Nothing is left of the stream, and that was signalled.
    pub(super) fn is_gone(&self) -> bool {
        self.io.is_none() && !self.over
    }

    /// The stream did not end in time: it is reset.
    pub(super) fn overdue(&mut self, fixed: &Fixed<O>) {
        tracing::debug!(
            stream = ?self.scope.stream,
            "the peer did not end the connection in time; reset"
        );
        self.cut(fixed);
    }

    /// Ends the stream here and now, by a reset.
    pub(super) fn cut(&mut self, fixed: &Fixed<O>) {
        if let Some(io) = self.io.take() {
            io.reset();
            self.settle(fixed); // what happened before
            self.connection.handle_stream_end(StreamEnd::Reset, 0);
            self.signals |= Signals::RESET;
            self.over = true;
            self.hold_flush();
            self.phase = self.phase.ended();
            fixed.owner.draws_no_more(&mut self.owner);
        }
    }

    /// Tells the owner of the engine's events, ends directions that are done, and keeps the timer.
    pub(super) fn settle(&mut self, fixed: &Fixed<O>) {
        while self.flush != Flush::Held
            && let Some(event) = self.connection.poll_event()
        {
            self.take(event, fixed);
        }
        fixed.owner.place(&mut self.owner);
        if let Some(io) = &mut self.io {
            if self.connection.write_side_done() {
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

    fn take(&mut self, event: Event, fixed: &Fixed<O>) {
        match event {
            Event::Completed(completion) => {
                if let Some(stag) = completion.failed_bind {
                    fixed.driver.buffers.table().cancel_prepared(stag);
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
                self.hold_flush();
                self.set_deadline(fixed);
            }
            Event::Fault(fault) => {
                tracing::debug!(stream = ?self.scope.stream, ?fault, "the connection failed");
                self.fail(Signals::FAILED, fixed);
            }
            Event::Terminated(terminate) => {
                tracing::debug!(stream = ?self.scope.stream, ?terminate, "the peer terminated the connection");
                self.fail(Signals::FAILED | Signals::TERMINATED, fixed);
            }
            Event::Ended => {}
            Event::Stalled => {
                fixed.owner.stalled(&mut self.owner);
                self.stall = self.connection.poll_timeout(fixed.driver.now());
            }
        }
    }

    fn fail(&mut self, signals: Signals, fixed: &Fixed<O>) {
        self.signals |= signals;
        self.hold_flush();
        self.phase = self.phase.ended();
        fixed.owner.draws_no_more(&mut self.owner);
        self.set_deadline(fixed);
    }

    /// The connection has ended: what the engine has from here on waits until the owner was told.
    fn hold_flush(&mut self) {
        if self.flush == Flush::Guarded {
            self.flush = Flush::Held;
        }
    }

    fn set_deadline(&mut self, fixed: &Fixed<O>) {
        if self.deadline.is_none() {
            self.deadline = fixed.end_within.map(|limit| fixed.driver.now() + limit);
        }
    }

    fn keep_time(&mut self, fixed: &Fixed<O>) {
        if self.phase == Phase::Disconnected {
            self.set_deadline(fixed);
        }
        let stall = self.stall.filter(|_| self.connection.is_stalled());
        let wanted = match &self.io {
            Some(io) => {
                let held = io.stream().wake_at();
                [stall, self.deadline, held].into_iter().flatten().min()
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
