//! Whether the peer takes Sends that Immediate Data announces, and the announcements.
//!
//! No standard has Sends with Immediate Data, and nothing in the start-up frames is free to agree on them. Two sides that want them
//! recognize each other by Writes of no octets ([`Recognition::ByWrites`]). A peer that does not know the values sees Writes that place
//! nothing.
//!
//! | Initiator | Responder |
//! |---|---|
//! | sends its ready-to-receive Write with [`TO_OF_INITIATOR`] | looks at its first FPDU: a Write with that TO, or the peer is another |
//! | looks at its first FPDU: a Write with the TO of the Responder, or the peer is another | sends a Write with [`TO_OF_RESPONDER`] before anything else |
//!
//! Neither value counts in the other direction, so that an echo is not taken for an answer.

use std::time::Instant;

use super::batch::TxBatch;
use super::config::{RECOGNIZED_WITHIN, Recognition, TO_OF_INITIATOR, TO_OF_RESPONDER};
use super::connection::Connection;
use super::event::Notice;
use super::frame::Budget;
use super::phase::{FailingRequest, Phase};
use super::send::empty_write;
use super::tx::TransmitProgress;
use super::work::{IMMEDIATE_LEN, Operation, PostError, WqeStatus};
use crate::ddp::{Qn, UntaggedHeader};
use crate::memory::{LocalAccess, Memory};
use crate::mpa::{Ready, Role};
use crate::rdmap::{Opcode, OperationError, control};

/// The octets behind the number in Immediate Data that announces a Send.
const ANNOUNCES: [u8; 4] = [0, 0, 0, 1];

impl Connection {
    /// Returns true if the peer takes [announced Sends](Operation::SendImmediate), and `None` while that is not known.
    #[must_use]
    pub const fn recognized(&self) -> Option<bool> {
        self.recognized
    }

    fn recognize(&mut self, is_recognized: bool) {
        self.recognized = Some(is_recognized);
        if is_recognized {
            self.confirm_apart(); // it serves one Read more than it states
        }
    }

    /// Refuses an announced Send if the peer is known not to take it.
    #[cold]
    pub(super) fn check_announced(&self) -> Result<(), PostError> {
        match (self.phase, self.recognized) {
            (Phase::Running, Some(false)) => Err(PostError::NotRecognized),
            _ => Ok(()), // after the end it comes back flushed
        }
    }

    /// The TO of the Write that is due as the first FPDU of this side.
    pub(super) fn ready_to(&self) -> u64 {
        match (self.config.recognition, self.config.role) {
            (Recognition::ByWrites, Role::Responder) => TO_OF_RESPONDER,
            (Recognition::ByWrites, Role::Initiator) if self.config.ready == Some(Ready::Write) => {
                TO_OF_INITIATOR
            }
            _ => 0,
        }
    }

    /// The first good FPDU has arrived.
    #[cold]
    pub(super) fn heard_first(&mut self, ulpdu: &[u8]) {
        if self.config.role == Role::Responder {
            self.notices.raise(Notice::Ready, 0, 0); // before the completion that the FPDU may have caused
        }
        if self.recognized.is_some() {
            return;
        }
        let is = |to: u64| ulpdu == empty_write(to).as_bytes();
        match self.config.role {
            Role::Responder if is(TO_OF_INITIATOR) => {
                self.recognize(true);
                self.tx.queue_ready(Ready::Write);
            }
            Role::Initiator if is(TO_OF_RESPONDER) => self.recognize(true),
            Role::Initiator if planted!(EchoIsAnswer) && is(TO_OF_INITIATOR) => {
                self.recognize(true);
            }
            Role::Initiator if planted!(AnswerBehindFirst) => {}
            Role::Responder | Role::Initiator => self.recognize(false),
        }
    }

    /// A later FPDU has arrived.
    #[cfg(planted_bugs)]
    pub(super) fn heard_later(&mut self, ulpdu: &[u8]) {
        let is_answer = ulpdu == empty_write(TO_OF_RESPONDER).as_bytes();
        if planted!(AnswerBehindFirst) && self.recognized.is_none() && is_answer {
            self.recognize(true);
        }
    }

    /// When an announced Send that waits for the peer's first FPDU will have waited long enough. The wait counts from the first call that
    /// finds it. Call [`handle_timeout`](Self::handle_timeout) then.
    pub fn recognition_deadline(&mut self, now: Instant) -> Option<Instant> {
        if !self.awaits_recognition() {
            return None;
        }
        let since = self.rx.unheard_since.get_or_insert(now);
        since.checked_add(RECOGNIZED_WITHIN)
    }

    /// Returns true if an announced Send waits until it is known whether the peer takes it. A Responder's requests wait for the first FPDU
    /// in any case.
    #[inline]
    pub fn awaits_recognition(&self) -> bool {
        self.recognized.is_none() && self.announces_next()
    }

    fn announces_next(&self) -> bool {
        let upcoming = self.initiator.upcoming();
        let announces = upcoming
            .is_some_and(|request| matches!(request.operation, Operation::SendImmediate { .. }));
        announces && self.phase == Phase::Running && self.config.role == Role::Initiator
    }

    /// The peer is taken for another if an announced Send has waited long enough.
    pub(super) fn recognition_timeout(&mut self, now: Instant) {
        if self.recognition_deadline(now).is_some_and(|end| end <= now) {
            self.recognize(false);
        }
    }

    /// Makes the Immediate Data in front of the upcoming Send. The Send fails if the peer does not take it.
    #[inline(never)]
    pub(super) fn announce(
        &mut self,
        number: [u8; 4],
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> TransmitProgress {
        if self.recognized != Some(true) {
            self.tx.failing = Some(FailingRequest::Unstarted(WqeStatus::InvalidRequest));
            return TransmitProgress::Again;
        }
        let Some(current) = self.begun(mem, LocalAccess::Read) else {
            return TransmitProgress::Again;
        };
        let mut data = [0; IMMEDIATE_LEN];
        data[..4].copy_from_slice(&number);
        data[4..].copy_from_slice(&ANNOUNCES);
        let ulp = control(Opcode::immediate(false));
        let header = UntaggedHeader::new(true, ulp, 0, Qn::SEND, self.tx.send_msn, 0);
        if !self.put_small(header.as_bytes(), &data, budget, out) {
            return TransmitProgress::Full;
        }
        self.tx.send_msn = self.tx.send_msn.wrapping_add(1);
        self.counters.sent.immediates += 1;
        let mut current = current;
        current.is_half_done = true;
        self.tx.current = Some(current);
        TransmitProgress::Again
    }

    /// Returns true for Immediate Data of a client that the peer would take for an announcement if it recognizes this side. It may do so
    /// before this side recognizes it.
    pub(super) fn seems_to_announce(&self, data: [u8; IMMEDIATE_LEN]) -> bool {
        self.config.recognition != Recognition::Never && data[4..] == ANNOUNCES
    }

    /// Takes Immediate Data that announces the next Send. It takes no Receive. Returns false if this is other Immediate Data.
    pub(super) fn take_announcement(
        &mut self,
        data: [u8; IMMEDIATE_LEN],
    ) -> Result<bool, OperationError> {
        if self.rx.announced.is_some() {
            return Err(OperationError::UnexpectedOpcode); // the Send has to follow
        }
        let [a, b, c, d, rest @ ..] = data;
        if self.recognized != Some(true) || rest != ANNOUNCES {
            return Ok(false);
        }
        self.rx.announced = Some([a, b, c, d]);
        self.rx.send_msn = self.rx.send_msn.wrapping_add(1);
        self.counters.received.immediates += 1;
        Ok(true)
    }
}
