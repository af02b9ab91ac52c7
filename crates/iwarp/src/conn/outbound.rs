//! The outbound half: chooses what is sent next, and learns how much the transport has taken. `send` makes the FPDUs, `tx`
//! holds the state.
//!
//! Messages are sent in the order of their posts (DDP-045, RDMAP-022, RDMAP-069, RDMAP-098), responses in the order of
//! their requests (RDMAP-101). Messages are never interleaved (PEER-028, OPEN-10). Messages and responses take turns, so
//! that neither starves the other (SEC-037). The stream contains nothing else (RDMAP-013).

use super::batch::{TxBatch, TxLimit};
use super::config::Confirmations;
use super::connection::Connection;
use super::frame::Budget;
use super::phase::{FailingRequest, Phase};
use super::tx::{RequestPurpose, Source, TransmitProgress};
use super::work::Operation;
use crate::memory::Memory;

/// One Read confirms at most this many Writes in a row. So a row that fills the initiator queue is confirmed in parts, and
/// the client can go on posting before the whole row is confirmed. On demand, this many requests are made at most before the first of
/// them is confirmed, or a quarter of the queue if that is less.
const WRITES_CONFIRMED: u32 = 16;

impl Connection {
    /// Appends FPDUs to `out` until the limit or the batch is exhausted or nothing is left to send. Returns how many.
    /// Carries out Binds and Invalidates between them. `out` has to be empty or to hold FPDUs of this connection.
    pub fn poll_transmit(&mut self, mem: &impl Memory, limit: TxLimit, out: &mut TxBatch) -> usize {
        if out.has_outcome() {
            self.handle_transmitted(out);
        }
        debug_assert!(
            out.remaining() == self.tx.unsent(),
            "the batch of another connection, or not the only one of this"
        );
        let mut budget = Budget::new(limit, out, self.config.markers.sent);
        loop {
            self.settle();
            let step = match self.next_source() {
                Some(Source::Terminate) => self.send_terminate(&mut budget, out),
                Some(Source::Ready) => self.send_ready_message(&mut budget, out),
                Some(Source::Response) => self.send_response(mem, &mut budget, out),
                Some(Source::Confirmation) => self.send_confirmation(&mut budget, out),
                Some(Source::Own) if self.send_row(mem, &mut budget, out) => {
                    TransmitProgress::Again
                }
                Some(Source::Own) => self.send_own(mem, &mut budget, out),
                None => TransmitProgress::Full,
            };
            if step == TransmitProgress::Full {
                return budget.fpdus();
            }
        }
    }

    /// Learns from `batch` which of its FPDUs were sent or dropped. A Send or Write completes when the transport has taken
    /// its last octet. A request whose FPDUs were dropped fails. Call this after `batch` was passed to the transport.
    pub fn handle_transmitted(&mut self, batch: &mut TxBatch) {
        let outcome = batch.take_outcome();
        self.counters.sent.octets += self.tx.take_transmitted(outcome.taken);
        self.initiator.sent_up_to(self.tx.sent);
        if outcome.dropped > 0 {
            self.handle_dropped(outcome);
        }
        self.settle();
    }

    /// Where the next FPDU, or local request, comes from.
    #[inline]
    pub(super) fn next_source(&self) -> Option<Source> {
        match self.phase {
            Phase::Idle => return None, // MPA-030
            Phase::Closed | Phase::Failed | Phase::Disconnected => {
                return self.tx.terminate_is_due().then_some(Source::Terminate);
            }
            Phase::Running => {}
        }
        if self.tx.has_only_requests() && self.initiator.upcoming().is_none() {
            return None;
        }
        if matches!(self.tx.failing, Some(FailingRequest::Cut(_))) {
            return None; // `settle` ends the stream when everything is sent
        }
        if self.is_fenced() {
            // MPA-031: a local request puts nothing on the wire.
            let local = self
                .initiator
                .upcoming()
                .is_some_and(|request| request.operation.is_local());
            return (local && self.may_start()).then_some(Source::Own);
        }
        // A message that has begun is finished before another begins.
        if self
            .tx
            .responses
            .front()
            .is_some_and(|response| response.made > 0)
        {
            return Some(Source::Response);
        }
        if self.is_in_message() {
            return Some(Source::Own);
        }
        if self.tx.ready.is_some() {
            return Some(Source::Ready); // MPA2-028
        }
        if self.tx.unconfirmed > 0 && self.confirmation_is_due() {
            let answers = !self.tx.responses.is_empty() && self.tx.response_turn;
            return Some(if answers {
                Source::Response
            } else {
                Source::Confirmation
            });
        }
        match (self.may_start(), !self.tx.responses.is_empty()) {
            (true, true) if self.tx.response_turn => Some(Source::Response),
            (true, _) => Some(Source::Own),
            (false, true) => Some(Source::Response),
            (false, false) => None,
        }
    }

    /// Returns true if the Writes made so far need their own Read, and the Read may be sent. They need one if the upcoming request cannot
    /// start now, or if it confirms nothing and is not one that the same Read could confirm.
    #[cold]
    fn confirmation_is_due(&self) -> bool {
        let later = self.initiator.upcoming().is_some_and(|request| {
            let shares = match request.operation {
                Operation::Read { .. } | Operation::Atomic { .. } => return true,
                Operation::Write { .. } => true,
                _ => self.initiator.confirms_on_demand(),
            };
            shares && self.tx.unconfirmed < self.most_unconfirmed()
        });
        self.may_confirm() && !(later && self.may_start())
    }

    /// The requests that are made at most before a Read confirms them.
    fn most_unconfirmed(&self) -> u32 {
        match self.initiator.confirms_on_demand() {
            true => WRITES_CONFIRMED.min(self.sizes.initiator_depth / 4).max(1),
            false => WRITES_CONFIRMED,
        }
    }

    /// The requests of a row that may be made before a Read confirms them: without a limit if no Read may be sent.
    pub(super) fn longest_row(&self) -> u32 {
        match self.initiator.confirms_on_demand() && self.may_confirm() {
            true => self.most_unconfirmed(),
            false => u32::MAX,
        }
    }

    /// Returns true if a Read may be sent that confirms Writes.
    fn may_confirm(&self) -> bool {
        match self.initiator.confirmations() {
            Confirmations::OnDemand { .. } if self.tx.is_confirming => false,
            Confirmations::OnDemand { apart: true } => !self.rx.peer_closed,
            _ => self.may_read(),
        }
    }

    /// Returns true if a message of our own has begun and is not finished.
    pub(super) fn is_in_message(&self) -> bool {
        self.tx.has_begun() && !self.reads_next()
    }

    /// Returns true if the upcoming request is a Read, whose parts are separate messages.
    pub(super) fn reads_next(&self) -> bool {
        self.initiator
            .upcoming()
            .is_some_and(|request| matches!(request.operation, Operation::Read { .. }))
    }

    /// Returns true if the upcoming request may begin, or a Read may go on with its next part.
    #[inline]
    fn may_start(&self) -> bool {
        let Some(request) = self.initiator.upcoming() else {
            return false;
        };
        if self.tx.failing.is_some() {
            return false;
        }
        // A fenced request waits for all earlier Reads and Atomics.
        if request.fence && self.tx.current.is_none() && self.initiator.open_reads > 0 {
            return false;
        }
        match request.operation {
            Operation::Read { .. } | Operation::Atomic { .. } => self.may_read(),
            Operation::SendImmediate { .. } => self.recognized.is_some(),
            _ => true,
        }
    }

    /// Returns true if one more Read or Atomic of the client may be outstanding (RDMAP-047). A ready-to-receive Read does not count against the
    /// client's limit, but a peer that takes one Read at a time has to answer this Read first.
    fn may_read(&self) -> bool {
        if self.rx.peer_closed {
            return false; // the peer will not answer: `settle` flushes the request when it is the oldest
        }
        let ord = self.config.limits.ord as usize;
        let ready = self
            .tx
            .reads
            .front()
            .is_some_and(|read| read.purpose == RequestPurpose::Ready);
        let is_apart = self.initiator.confirmations() == Confirmations::OnDemand { apart: true };
        let apart = is_apart && self.tx.is_confirming;
        let open = self.tx.reads.len() - usize::from(ready) - usize::from(apart);
        ord == 0 || (open < ord && !(ready && ord == 1))
    }
}
