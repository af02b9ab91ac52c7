//! How streams end, and how their requests complete.

use std::time::Instant;

use super::batch::Outcome;
use super::config::{Delivery, StreamEnd};
use super::connection::Connection;
use super::event::{Event, Notice};
use super::fault::Fault;
use super::initiator::InitiatorQueue;
use super::phase::{Cause, FailingRequest, Phase};
use super::terminated::TerminatedHeaders;
use super::work::{RequestKind, WqeStatus};
use crate::ddp::{Header, TaggedHeader, UntaggedError};
use crate::mpa;
use crate::rdmap::{Class, Opcode, ProtectionError, Terminate, TerminateCode};
use crate::types::RemoteAddress;

/// Returns true if the peer does not carry the operation out, whatever it names: RDMAP's remote operation errors.
const fn is_operation(code: TerminateCode) -> bool {
    code.layer == 0 && code.etype == 2
}

/// The end of the stream within an FPDU.
const CUT: Fault = Fault::Mpa(mpa::Error::Closed);

impl Connection {
    /// Gives up all requests. Before the start, Receives come back flushed and the connection stays usable. After the
    /// start, the stream is in error: all requests come back flushed, nothing more is sent, not even a Terminate, and
    /// octets that still arrive are dropped.
    pub fn flush(&mut self) {
        match self.phase {
            Phase::Running | Phase::Closed => {
                self.close_out(Phase::Failed, None);
            }
            Phase::Idle | Phase::Failed | Phase::Disconnected => self.flush_requests(None),
        }
    }

    /// This side closes the stream. All requests come back flushed, nothing new is sent except a Terminate that is due, and
    /// octets that still arrive are dropped (DDP-071). FPDUs in the batch that were not begun belong to flushed requests.
    /// Drop them ([`TxBatch::keep_cut_only`](super::TxBatch::keep_cut_only)).
    pub fn disconnect(&mut self) {
        self.close_out(Phase::Disconnected, None);
    }

    /// There will be no stream: the oldest request that was [posted early](Self::post_early) fails, and all others come back flushed. Does
    /// nothing after the start. Where delivery is [unreliable](super::Delivery::Unreliable), these requests succeed and are dropped, and the
    /// connection may still start.
    pub fn abandon(&mut self) {
        if self.phase == Phase::Idle {
            self.give_up();
        }
    }

    /// The peer's half of the stream ended, `unread` octets into an FPDU (MPA-090 to MPA-092). Call this after
    /// [`Connection::handle_bytes`] has seen everything that came before. While a Send waits for a Receive, the end waits
    /// with it.
    pub fn handle_stream_end(&mut self, end: StreamEnd, unread: usize) {
        debug_assert!(self.phase != Phase::Idle, "an end before the start");
        match (end, self.phase) {
            (_, Phase::Idle) => {}
            (StreamEnd::Reset, Phase::Running | Phase::Closed) if self.keeps_receives => {
                self.tx.drop_terminate();
                self.peer_is_gone();
                self.raise(Notice::Ended);
            }
            (StreamEnd::Reset, _) => {
                if matches!(self.phase, Phase::Running | Phase::Closed) {
                    self.close_out(Phase::Failed, None); // DDP-003, DDP-086
                }
                self.tx.drop_terminate();
                self.raise(Notice::Ended);
            }
            (StreamEnd::Fin, Phase::Running) if self.is_stalled() && unread > 0 => {
                self.rx.end_waits = true;
            }
            (StreamEnd::Fin, Phase::Running) => self.peer_closed(unread),
            (StreamEnd::Fin, Phase::Closed) if self.rx.cause.is_some() => self.raise(Notice::Ended),
            (StreamEnd::Fin, Phase::Closed) => {}
            (StreamEnd::Fin, Phase::Failed | Phase::Disconnected) => {
                self.rx.peer_closed = true;
                self.raise(Notice::Ended);
            }
        }
    }

    pub(super) fn peer_closed(&mut self, unread: usize) {
        self.rx.end_waits = false;
        if core::mem::replace(&mut self.rx.peer_closed, true) {
            return;
        }
        let in_fpdu = self.rx.early.is_some() || unread > 0;
        if in_fpdu && !self.is_lone_marker(unread) {
            if self.keeps_receives && self.phase == Phase::Running {
                self.rx.cause = Some(Cause::Fault(CUT));
                self.raise(Notice::PeerClosed);
                return self.peer_is_gone();
            }
            self.fail(CUT, None); // MPA-078
            return;
        }
        self.raise(Notice::PeerClosed);
        self.settle();
    }

    /// Fails the stream if an inbound Send has waited for a Receive as long as it may, and fails an announced Send that has waited
    /// [as long as it may](Self::recognition_deadline).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.recognition_timeout(now);
        if self.poll_timeout(now).is_some_and(|end| end <= now) {
            let about = self.rx.stalled_segment();
            self.fail_with(UntaggedError::NoBuffer.into(), about, None);
        }
    }

    /// FPDUs were made and will not be sent. If the stream has not ended, the stream fails, because a gap would be left,
    /// and the request of the first dropped FPDU fails too. If the first FPDU is a response that lost its memory, the
    /// peer's Read is refused (RFC 5040 section 4.8).
    #[cold]
    pub(super) fn handle_dropped(&mut self, outcome: Outcome) {
        self.counters.withdrawn_octets += self.tx.withdraw(outcome.dropped);
        if self.phase != Phase::Running {
            return;
        }
        if outcome.revoked
            && let Some(about) = self.tx.response_at_head()
        {
            return self.fail_with(ProtectionError::InvalidSTag.into(), Some(about), None);
        }
        let status = if outcome.revoked {
            WqeStatus::LocalAccess
        } else {
            WqeStatus::Internal
        };
        let owner = self.initiator.owner_of(self.tx.sent());
        self.fail(Fault::Local, owner.map(|at| (at, status)));
    }

    /// This side found `fault`, which is not in an inbound message. The Terminate has no headers (RDMAP-081).
    pub(super) fn fail(&mut self, fault: Fault, failed: Option<(u64, WqeStatus)>) {
        self.fail_with(fault, None, failed);
    }

    /// This side found `fault`. Only the first fault counts (RDMAP-082). Nothing more is placed, the client gets an event (DDP-070,
    /// DDP-086, RDMAP-083, RDMAP-084), and one Terminate is sent before the end (DDP-073, MPA-062). `about` has the headers of the message
    /// in which the fault was found.
    pub(super) fn fail_with(
        &mut self,
        fault: Fault,
        about: Option<TerminatedHeaders>,
        failed: Option<(u64, WqeStatus)>,
    ) {
        if self.phase != Phase::Running {
            return;
        }
        // MPA-031: before the first FPDU a Responder may answer a faulty one, but not speak for itself.
        let silent = fault == Fault::Local && self.is_fenced();
        let terminate = fault.code().filter(|_| !silent).map(|code| {
            let mut terminate = Terminate::new(code);
            if let Some(about) = about {
                about.include(fault.included(), &mut terminate);
            }
            terminate
        });
        self.end(Cause::Fault(fault), failed);
        if let Some(terminate) = terminate {
            self.tx.queue_terminate(terminate);
        }
    }

    /// Handles the peer's Terminate: raises an event for the client (RDMAP-072), and never answers with a Terminate (RDMAP-073).
    pub(super) fn terminated(&mut self, terminate: Terminate) {
        use RequestKind::{CompareSwap, FetchAdd, Immediate, Read, Send, Write};
        if self.delivery == Delivery::Unreliable {
            return self.end(Cause::Terminated(terminate), None); // no request fails
        }
        let kinds: &[RequestKind] = match terminate.opcode() {
            Some(Opcode::ReadRequest) => &[Read],
            Some(Opcode::AtomicRequest) => &[FetchAdd, CompareSwap],
            Some(Opcode::Write) => &[Write],
            Some(opcode) if opcode.is_send() => &[Send],
            Some(opcode) if opcode.is_immediate() => &[Immediate],
            Some(_) => &[],
            // Without headers the code says which kinds of request can have caused it.
            None => match (terminate.code.layer, terminate.code.etype) {
                (0, 1) => &[Read, FetchAdd, CompareSwap],
                (1, 1) => &[Write],
                (1, 2) => &[Send, Immediate],
                _ => &[],
            },
        };
        let leaving = self.leaving();
        let oldest = |queue: &InitiatorQueue| {
            let open = kinds
                .iter()
                .filter_map(|kind| Some((queue.oldest_open(*kind, leaving)?, *kind)));
            open.min_by_key(|(at, _)| *at)
        };
        // A silent Write completes before it is placed. If the peer refuses it, the request that waits for it fails.
        let waiting = |queue: &InitiatorQueue| {
            let at = queue.oldest_unconfirmed(leaving)?;
            kinds.contains(&Write).then_some((at, Write))
        };
        let failed = self
            .refused_write(&terminate)
            .or_else(|| oldest(&self.initiator))
            .or_else(|| waiting(&self.initiator));
        let failed = failed.map(|(at, kind)| {
            let status = match (terminate.code.class(), kind) {
                (Class::Protection, _) => WqeStatus::RemoteAccess,
                (Class::NoBuffer, Send | Immediate) => WqeStatus::NoReceive,
                (Class::Other, FetchAdd | CompareSwap) if is_operation(terminate.code) => {
                    WqeStatus::RemoteInvalidRequest
                }
                (Class::NoBuffer | Class::Other, _) => WqeStatus::RemoteError,
            };
            (at, status)
        });
        self.end(Cause::Terminated(terminate), failed);
    }

    /// The position behind the last request that has begun, and how much of the stream the transport has taken. The peer
    /// cannot have refused anything behind these.
    fn leaving(&self) -> (u64, u64) {
        if planted!(TerminateEndsAnyRequest) {
            return (u64::MAX, u64::MAX);
        }
        let next = self.initiator.next + u64::from(self.tx.has_begun());
        (next, self.tx.sent())
    }

    /// The open Write that a Terminate names, if it names one.
    fn refused_write(&mut self, terminate: &Terminate) -> Option<(u64, RequestKind)> {
        let (Some(Opcode::Write), Some(Header::Tagged(header))) =
            (terminate.opcode(), terminate.ddp)
        else {
            return None;
        };
        let place = RemoteAddress {
            stag: header.stag(),
            to: header.to(),
        };
        // Some peers count only the payload (OPEN-07). Then this length is less than the real one, and still inside the
        // right Write.
        let length = terminate.segment_length.unwrap_or(0);
        let payload = usize::from(length).saturating_sub(TaggedHeader::LEN);
        let at = self
            .initiator
            .open_write_to(place, payload as u64, self.leaving())?;
        self.initiator.refuse(at);
        Some((at, RequestKind::Write))
    }

    fn end(&mut self, cause: Cause, failed: Option<(u64, WqeStatus)>) {
        self.raise(Notice::Failed);
        self.rx.cause = Some(cause);
        if self.delivery == Delivery::Unreliable && cause.is_by_peer() {
            return self.drop_requests();
        }
        self.close_out(Phase::Failed, failed);
    }

    /// The peer is gone, and nothing more can be sent to it. Receives stay posted, unless a request is open, which fails.
    fn peer_is_gone(&mut self) {
        self.rx.peer_closed = true;
        if self.initiator.is_idle() {
            self.enter(Phase::Closed);
            if planted!(ReceivesFlushedByPeer) {
                self.receive.flush();
            }
        } else {
            self.give_up();
        }
    }

    /// The peer had ended the stream: the oldest open request fails, and all others come back flushed. Where delivery is unreliable, they
    /// are dropped.
    #[cold]
    pub(super) fn give_up(&mut self) {
        if self.delivery == Delivery::Unreliable {
            return self.drop_requests();
        }
        self.raise(Notice::GaveUp);
        let oldest = self.initiator.done;
        self.close_out(Phase::Failed, Some((oldest, WqeStatus::PeerEnded)));
    }

    /// The stream is over, in order or not. [`Notice::Ended`] is raised if the peer has closed its direction before.
    fn close_out(&mut self, phase: Phase, failed: Option<(u64, WqeStatus)>) {
        self.enter(phase);
        self.flush_requests(failed);
        if self.rx.peer_closed {
            self.raise(Notice::Ended);
        }
    }

    /// From here on the stream carries nothing, except for a Terminate after an error (DDP-008, RDMAP-113).
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.tx.stop();
        self.rx.stop();
    }

    fn flush_requests(&mut self, failed: Option<(u64, WqeStatus)>) {
        self.initiator.flush(failed);
        self.receive.flush();
    }

    pub(super) fn raise(&mut self, notice: Notice) {
        self.notices
            .raise(notice, self.initiator.done, self.receive.done);
    }

    /// The event of a failed stream.
    pub(super) fn cause(&self) -> Event {
        match self.rx.cause {
            Some(Cause::Terminated(terminate)) => Event::Terminated(terminate),
            Some(Cause::Fault(fault)) => Event::Fault(fault),
            None => {
                debug_assert!(false, "the cause is set where the notice is raised");
                Event::Fault(Fault::Local)
            }
        }
    }

    /// Does what waited for something else to finish: fails a request, refuses a Read of the peer, ends a stream that the
    /// peer has closed.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.waits() && self.phase == Phase::Running {
            self.settle_what_waits();
        }
    }

    /// Returns true if [`settle`](Self::settle) may have something to do.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.tx.failing.is_some() || self.rx.refusal.is_some() || self.rx.peer_closed
    }

    #[cold]
    fn settle_what_waits(&mut self) {
        match self.tx.failing {
            Some(FailingRequest::Unstarted(status))
                if self.initiator.done == self.initiator.next =>
            {
                return self.fail(Fault::Local, Some((self.initiator.next, status)));
            }
            Some(FailingRequest::Cut(status)) if self.tx.is_all_sent() => {
                return self.fail(Fault::Local, Some((self.initiator.next, status)));
            }
            _ => {}
        }
        if self.tx.responses_are_made()
            && let Some((fault, about)) = self.rx.refusal.take()
        {
            return self.fail_with(fault, Some(about), None);
        }
        if self.rx.peer_closed {
            self.settle_closed();
        }
    }

    /// DDP-084, MPA-091: after the peer's FIN the initiator queue goes on until it is idle. But the peer answers no Read any
    /// more, and a Responder that has received no FPDU may never send.
    fn settle_closed(&mut self) {
        let hopeless =
            !self.initiator.is_idle() && (self.is_fenced() || self.initiator.oldest_is_answered());
        // A message under way is finished first, because an answer may follow it.
        if hopeless && !self.is_in_message() {
            if self.keeps_receives {
                return self.give_up();
            }
            self.initiator.flush(None);
            self.tx.give_up_requests();
            self.rx.flushed = true;
        }
        if self.initiator.is_idle() && (self.is_fenced() || self.tx.is_drained()) {
            self.enter(Phase::Closed);
            if !self.keeps_receives || planted!(ReceivesFlushedByPeer) {
                self.receive.flush();
            }
        }
    }
}
