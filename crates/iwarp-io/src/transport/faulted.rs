//! A fault plan between a stream and its wire.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use iwarp::{PieceRef, TxBatch};
use iwarp_mem::Sent;
use parking_lot::Mutex;

use super::Wire;
use crate::capture::{Flow, SentBy};
use crate::environment::Environment;
use crate::faults::{Blocked, Effect, FaultOwner, StreamFaults};
use crate::progress::Edges;

/// The faults of a plan on one stream.
#[derive(Debug)]
pub(super) struct Faulted {
    state: Mutex<State>,
    environment: Environment,
    owner: Arc<dyn FaultOwner>,
}

#[derive(Debug)]
struct State {
    faults: StreamFaults,
    /// Why octets were taken that were not sent yet, if there are any.
    blocked: Option<Blocked>,
    /// The wire has been closed for sending.
    closed: bool,
    /// Statuses with which the plan has broken the queues that the stream feeds.
    broken: Vec<String>,
}

/// The wire below the plan, and the capture that records what the wire carries.
#[derive(Clone, Copy)]
pub(super) struct RecordedWire<'a> {
    pub(super) wire: &'a Wire,
    pub(super) flow: Option<&'a Flow>,
}

impl RecordedWire<'_> {
    fn read(self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.wire.read(into)?;
        match self.flow {
            Some(flow) if count == 0 => flow.closed(SentBy::Peer),
            Some(flow) => flow.received(&into[..count]),
            None => {}
        }
        Ok(count)
    }

    fn write(self, octets: &[u8]) -> io::Result<usize> {
        let count = self.wire.write(octets)?;
        if let Some(flow) = self.flow
            && count > 0
        {
            flow.sent(&[&octets[..count]]);
        }
        Ok(count)
    }

    fn close_write(self) {
        if self.wire.close_write().is_ok()
            && let Some(flow) = self.flow
        {
            flow.closed(SentBy::Local);
        }
    }
}

impl Faulted {
    pub(super) fn new(
        faults: StreamFaults,
        environment: Environment,
        owner: Arc<dyn FaultOwner>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                faults,
                blocked: None,
                closed: false,
                broken: Vec::new(),
            }),
            environment,
            owner,
        }
    }

    /// Lets the plan act, and passes on effects beyond the stream.
    fn act<T>(&self, below: RecordedWire<'_>, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.environment.now();
        let mut state = self.state.lock();
        let outcome = act(&mut state, now);
        if state.faults.is_reset() {
            below.wire.break_off();
        }
        let effects = state.faults.take_effects();
        let mut removed = false;
        for effect in effects {
            match effect {
                Effect::RemoveDevice => removed = true,
                Effect::BreakQueue(status) => state.broken.push(status),
            }
        }
        drop(state);
        if removed {
            self.owner.remove_device();
        }
        outcome
    }

    pub(super) fn read(&self, into: &mut [u8], below: RecordedWire<'_>) -> io::Result<usize> {
        self.act(below, |state, now| {
            let source = |into: &mut [u8]| below.read(into);
            state.faults.read(now, into, source)
        })
    }

    pub(super) fn peek(&self, below: RecordedWire<'_>) -> io::Result<usize> {
        match self.act(below, |state, now| state.faults.is_readable(now)) {
            Some(true) => Ok(1),
            Some(false) => Err(io::ErrorKind::WouldBlock.into()),
            None => below.wire.peek(),
        }
    }

    pub(super) fn check(&self, below: RecordedWire<'_>) -> io::Result<()> {
        if self.state.lock().faults.is_reset() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        below.wire.check()
    }

    /// Sends a frame. The whole frame is taken, unless octets sent before still wait.
    pub(super) fn send_frame(&self, frame: &[u8], below: RecordedWire<'_>) -> io::Result<()> {
        let (count, blocked) = self.write(frame, below)?;
        if count < frame.len() || blocked == Some(Blocked::Full) {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    fn write(
        &self,
        octets: &[u8],
        below: RecordedWire<'_>,
    ) -> io::Result<(usize, Option<Blocked>)> {
        self.act(below, |state, now| {
            let sink = |octets: &[u8]| below.write(octets);
            let (count, blocked) = state.faults.write(now, octets, sink)?;
            state.settle(blocked, below);
            Ok((count, blocked))
        })
    }

    pub(super) fn send(
        &self,
        batch: &mut TxBatch,
        below: RecordedWire<'_>,
    ) -> io::Result<(u64, Sent)> {
        // The engine yields copies only, because the stream copies.
        let mut octets = Vec::new();
        for (piece, _) in batch.pieces() {
            let PieceRef::Bytes(bytes) = piece else {
                return Err(io::Error::other(
                    "payload has to be copied before it is sent",
                ));
            };
            octets.extend_from_slice(bytes);
        }
        let (count, blocked) = self.write(&octets, below)?;
        batch.advance(count as u64);
        let sent = match blocked {
            None => Sent::All,
            Some(_) => Sent::WouldBlock,
        };
        Ok((count as u64, sent))
    }

    /// Sends the octets that were taken and not sent yet. Returns true if all were sent.
    pub(super) fn flush(&self, below: RecordedWire<'_>) -> io::Result<bool> {
        self.act(below, |state, now| {
            let blocked = state.faults.flush(now, |octets| below.write(octets))?;
            state.settle(blocked, below);
            Ok(blocked.is_none())
        })
    }

    pub(super) fn close_write(&self, below: RecordedWire<'_>) {
        self.state.lock().faults.end_sending();
        // Octets that can no longer be sent are lost with the connection.
        let _ = self.flush(below);
        if !std::mem::replace(&mut self.state.lock().closed, true) {
            below.close_write();
        }
    }

    pub(super) fn is_backlogged(&self) -> bool {
        self.state.lock().blocked.is_some()
    }

    /// Returns true if the plan holds back octets to be read, or to be sent. The transport may have octets, or room, all the same.
    pub(super) fn is_held(&self, edges: Edges) -> bool {
        let now = self.environment.now();
        let state = self.state.lock();
        if edges.contains(Edges::READ) {
            state.faults.is_reading_held(now)
        } else {
            matches!(state.blocked, Some(Blocked::Held(_)))
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.state.lock().faults.wake_at()
    }

    pub(super) fn awake(&self, now: Instant) {
        self.state.lock().faults.awake(now);
    }

    pub(super) fn take_broken(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().broken)
    }
}

impl State {
    fn settle(&mut self, blocked: Option<Blocked>, below: RecordedWire<'_>) {
        self.blocked = blocked;
        if self.faults.has_closed_sending() && !std::mem::replace(&mut self.closed, true) {
            below.close_write();
        }
    }
}
