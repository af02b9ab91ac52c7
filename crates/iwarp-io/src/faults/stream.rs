//! A stream with faults: both directions, between the user of the stream and the transport.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use iwarp::Role;
use iwarp::mpa::startup::FrameKind;
use tracing::Span;

use super::active_plan::{Effect, Faults};
use super::direction::{DirectionFaults, Identity, Step};
use super::plan::Direction;

/// The faults of a plan on one stream. This does no I/O: each call gets the transport as an argument.
#[derive(Debug)]
pub struct StreamFaults {
    sent: DirectionFaults,
    received: DirectionFaults,
    reset: bool,
    effects: Vec<Effect>,
}

/// The receiver of effects beyond one stream.
pub trait FaultOwner: std::fmt::Debug + Send + Sync {
    /// Removes the device. The removal happens soon after the call, because the caller may hold locks.
    fn remove_device(&self);
}

/// The reason why octets that are to be sent were not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The transport accepts no more for now.
    Full,
    /// The octets are held until this time, or for ever.
    Held(Option<Instant>),
}

impl Faults {
    /// Reports that a connection with this peer was established, in which this side has this role. `None` if no rule is
    /// about it.
    #[must_use]
    pub fn stream(self: &Arc<Self>, role: Role, peer: SocketAddr) -> Option<StreamFaults> {
        let (own, peers) = match role {
            Role::Initiator => (FrameKind::Request, FrameKind::Reply),
            Role::Responder => (FrameKind::Reply, FrameKind::Request),
        };
        let number = self.next_stream();
        let identity = Identity { number, peer };
        let sent = DirectionFaults::new(self, identity, Direction::Sent, own);
        let received = DirectionFaults::new(self, identity, Direction::Received, peers);
        let watched = sent.is_watched() || received.is_watched();
        watched.then_some(StreamFaults {
            sent,
            received,
            reset: false,
            effects: Vec::new(),
        })
    }
}

impl StreamFaults {
    /// Makes the faults events of this connection.
    #[must_use]
    pub fn in_span(mut self, span: &Span) -> Self {
        self.sent.span.clone_from(span);
        self.received.span.clone_from(span);
        self
    }

    /// Reads octets that may pass, at most `into.len()`; 0 is the end. `source` reads from the transport, at most as many octets as it is
    /// given room for, and never more than `into` has.
    ///
    /// # Errors
    ///
    /// Those of `source`. `WouldBlock` also if octets are held. `ConnectionReset` if the plan [resets](Self::is_reset) the
    /// stream; the caller then resets the transport.
    pub fn read(
        &mut self,
        now: Instant,
        into: &mut [u8],
        mut source: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let step = self.received.step(now);
            self.exchange();
            match step {
                Step::Pass => {
                    let octets = self.received.passing();
                    let count = octets.len().min(into.len());
                    into[..count].copy_from_slice(&octets[..count]);
                    self.received.passed(count);
                    if self.received.passing().is_empty() {
                        self.follow(now);
                    }
                    return Ok(count);
                }
                Step::Wait(_) => return Err(io::ErrorKind::WouldBlock.into()),
                Step::Closed => return Ok(0),
                Step::Reset => return Err(self.resets()),
                Step::Effect(effect) => self.effects.push(effect),
                Step::Starved if self.received.is_ended() => return Ok(0),
                Step::Starved => {
                    // Octets that are held back count, so that the transport is not asked for more octets than the caller
                    // wants.
                    let backlog = self.received.backlog();
                    let room = into.len().saturating_sub(backlog).max(1);
                    let octets = &mut into[..room];
                    match source(octets)? {
                        0 => self.received.end(),
                        count => self.received.push(&octets[..count]),
                    }
                }
            }
        }
    }

    /// Returns true if octets to be read are held back at this time.
    #[must_use]
    pub fn is_reading_held(&self, now: Instant) -> bool {
        self.received.is_held(now)
    }

    /// Returns true if there is something to [`read`](Self::read), without asking the transport. `None` if only the transport knows.
    pub fn is_readable(&mut self, now: Instant) -> Option<bool> {
        if self.reset {
            return Some(true);
        }
        match self.received.step(now) {
            Step::Pass | Step::Closed => Some(true),
            Step::Wait(_) => Some(false),
            Step::Reset => {
                self.reset = true;
                Some(true)
            }
            Step::Effect(effect) => {
                self.effects.push(effect);
                Some(false)
            }
            Step::Starved if self.received.is_ended() => Some(true),
            Step::Starved => None,
        }
    }

    /// Sends octets, unless octets taken before were not sent. In this case no octets are taken, and the reason is returned. Octets that
    /// are taken are sent now, or with a later call. `sink` writes to the transport.
    ///
    /// # Errors
    ///
    /// Those of `sink`; `ConnectionReset` when the plan resets the stream, see [`read`](Self::read).
    pub fn write(
        &mut self,
        now: Instant,
        octets: &[u8],
        mut sink: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<(usize, Option<Blocked>)> {
        let blocked = self.flush(now, &mut sink)?;
        if blocked.is_some() {
            return Ok((0, blocked));
        }
        self.sent.push(octets);
        let blocked = self.flush(now, sink)?;
        Ok((octets.len(), blocked))
    }

    /// Sends the octets that were taken and not sent yet. Returns the reason if some of them stay.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub fn flush(
        &mut self,
        now: Instant,
        mut sink: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Option<Blocked>> {
        if self.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        loop {
            let step = self.sent.step(now);
            self.exchange();
            match step {
                Step::Pass => match sink(self.sent.passing()) {
                    Ok(0) => return Ok(Some(Blocked::Full)),
                    Ok(count) => self.sent.passed(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Some(Blocked::Full));
                    }
                    Err(error) => return Err(error),
                },
                Step::Starved | Step::Closed => return Ok(None),
                Step::Wait(until) => return Ok(Some(Blocked::Held(until))),
                Step::Reset => return Err(self.resets()),
                Step::Effect(effect) => self.effects.push(effect),
            }
        }
    }

    /// Ends the octets to be sent. Part of a frame that waits for the rest is sent with the next [`flush`](Self::flush).
    pub fn end_sending(&mut self) {
        self.sent.end();
    }

    /// Returns true if the plan has ended the direction to the peer. The caller then ends this direction of the transport.
    #[must_use]
    pub fn has_closed_sending(&self) -> bool {
        self.sent.is_closed()
    }

    /// Returns the time at which the next hold ends, in either direction.
    #[must_use]
    pub fn wake_at(&self) -> Option<Instant> {
        let both = [self.sent.wake_at(), self.received.wake_at()];
        both.into_iter().flatten().min()
    }

    /// Ends the holds that end at `now` or before. From then on [`wake_at`](Self::wake_at) returns only later ones.
    pub fn awake(&mut self, now: Instant) {
        self.sent.awake(now);
        self.received.awake(now);
    }

    /// Returns true if the plan has reset the connection.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.reset
    }

    /// The effects beyond the stream. The caller carries them out when it holds no lock.
    #[must_use]
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// All received octets have passed. The faults that the plan has behind them happen now, not at the next read.
    fn follow(&mut self, now: Instant) {
        match self.received.step(now) {
            Step::Reset => self.reset = true,
            Step::Effect(effect) => self.effects.push(effect),
            Step::Pass | Step::Starved | Step::Wait(_) | Step::Closed => {}
        }
        self.exchange();
    }

    fn resets(&mut self) -> io::Error {
        self.reset = true;
        io::ErrorKind::ConnectionReset.into()
    }

    fn exchange(&mut self) {
        let Self { sent, received, .. } = self;
        sent.learn_from(received);
        received.learn_from(sent);
    }
}
