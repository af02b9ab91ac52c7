//! A connection: its parts, posting, events, and what can be asked of it.

use core::time::Duration;
use std::time::Instant;

use super::config::{QueueSizes, StreamConfig};
use super::counters::{Counters, Traffic};
use super::event::{Event, Notice, Notices};
use super::initiator::InitiatorQueue;
use super::phase::Phase;
use super::receives::ReceiveQueue;
use super::rx::Rx;
use super::tx::Tx;
use super::work::{InitiatorWqe, PostError};
use crate::memory::Scope;
use crate::mpa::{Markers, Ready, Role};
use crate::types::{ReadLimits, Sge};

/// One stream and its two queues.
///
/// Its memory is set aside at creation, except for what grows and then stays: with Reads under way, at most the read limits,
/// and with Receives that were drawn from a shared source and whose completions wait to be fetched.
#[derive(Debug)]
pub struct Connection {
    pub(super) sizes: QueueSizes,
    pub(super) scope: Scope,
    pub(super) config: StreamConfig,
    pub(super) phase: Phase,
    pub(super) initiator: InitiatorQueue,
    pub(super) receive: ReceiveQueue,
    pub(super) rx: Rx,
    pub(super) tx: Tx,
    pub(super) notices: Notices,
    pub(super) counters: Counters,
}

/// What holds before [`Connection::start`]: nothing of it is looked at.
const NOT_STARTED: StreamConfig = StreamConfig {
    role: Role::Initiator,
    crc: true,
    markers: Markers::NONE,
    limits: ReadLimits { ird: 0, ord: 0 },
    ready: None,
    receive_wait: Duration::ZERO,
    private_payload: false,
    confirm_writes: false,
    early: usize::MAX,
};

impl Connection {
    /// A connection that is not yet connected: Receives may be posted, [`Connection::flush`] gives them back.
    pub fn new(sizes: QueueSizes, scope: Scope) -> Self {
        Self::with_first_msn(sizes, scope, 1) // DDP-031
    }

    /// As [`Connection::new`], with another first message number on every queue and in both directions: to come near
    /// its wrap in a test.
    #[doc(hidden)]
    pub fn with_first_msn(sizes: QueueSizes, scope: Scope, msn: u32) -> Self {
        Self::with_counters(sizes, scope, msn, 0)
    }

    /// As [`Connection::with_first_msn`], with `octets` of the stream taken for sent and received before it starts: to
    /// come near the wraps of marker positions in a test.
    #[doc(hidden)]
    pub fn with_counters(sizes: QueueSizes, scope: Scope, msn: u32, octets: u64) -> Self {
        Self {
            sizes,
            scope,
            config: NOT_STARTED,
            phase: Phase::Idle,
            initiator: InitiatorQueue::new(&sizes),
            receive: ReceiveQueue::new(&sizes),
            rx: Rx::new(sizes.receive_sges as usize, msn, octets),
            tx: Tx::new(
                sizes.initiator_sges.max(sizes.read_sges) as usize,
                msn,
                octets,
            ),
            notices: Notices::default(),
            counters: Counters::default(),
        }
    }

    /// Start-up is over: full operation begins (RFC 5044 section 7.1.2). Initiator requests may be posted from here on.
    ///
    /// A Responder's requests wait for the first FPDU (MPA-031), except for Binds and Invalidates that nothing stands
    /// before. Does nothing when the connection was disconnected before; a second start is an error.
    ///
    /// Both directions begin at once, each behind its start-up frame (MPA-026, DDP-080), and before this not an FPDU
    /// leaves or is looked at (MPA-030).
    pub fn start(&mut self, config: StreamConfig) {
        debug_assert!(
            matches!(self.phase, Phase::Idle | Phase::Disconnected),
            "a connection was started twice"
        );
        if self.phase == Phase::Idle {
            self.config = config;
            self.tx.copies = config.crc || config.private_payload || config.markers.sent;
            self.initiator
                .confirm_writes(config.confirm_writes && config.limits.ord > 0);
            self.phase = Phase::Running;
        }
    }

    /// All payload is copied into the batch, however long it is: it is summed, captured or has markers inside.
    pub const fn copies(&self) -> bool {
        self.tx.copies
    }

    /// Initiator: queues the ready-to-receive message, ahead of all that has not been sent. Without an agreed one it is a
    /// zero-length Write, which opens the fence of any Responder (PEER-033, PEER-063). A Responder has none. Only the
    /// first call counts.
    pub fn send_ready(&mut self) {
        debug_assert!(
            self.phase != Phase::Idle && self.config.role == Role::Initiator,
            "a ready-to-receive message before the start, or of a Responder"
        );
        if self.phase == Phase::Running && self.config.role == Role::Initiator {
            self.tx
                .queue_ready(self.config.ready.unwrap_or(Ready::Write));
        }
    }

    /// Posts an initiator request. SGEs and inline data are copied, buffers are looked at when the request is reached.
    ///
    /// After the stream failed, or the peer closed it, requests are accepted and come back flushed.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was.
    pub fn post_initiator(&mut self, wqe: InitiatorWqe<'_>) -> Result<(), PostError> {
        if matches!(self.phase, Phase::Idle | Phase::Disconnected) {
            return Err(PostError::NotConnected);
        }
        let length = self.sizes.length_of(&wqe.operation)?;
        let flags = (wqe.silent, wqe.fence);
        self.initiator
            .post(wqe.context, wqe.operation, flags, length)?;
        if self.phase != Phase::Running {
            self.initiator.flush(None);
        }
        self.settle(); // a Read that the peer's FIN has made hopeless
        Ok(())
    }

    /// Posts a Receive, connected or not. After the end it comes back flushed. It lets a stalled stream go on:
    /// call [`Connection::handle_bytes`] again.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was.
    pub fn post_receive(&mut self, context: u64, sges: &[Sge]) -> Result<(), PostError> {
        let length = self.sizes.receive_length(sges)?;
        self.receive.post(context, sges, length)?;
        if !matches!(self.phase, Phase::Idle | Phase::Running) {
            self.receive.flush();
        }
        Ok(())
    }

    /// What happened since, in the order it is to be seen: initiator completions in posting order, then Receives in
    /// posting order, with the connection's own events where they belong among them.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.initiator.retire_silent();
        let (initiator, receive) = (self.initiator.fetched(), self.receive.fetched());
        if let Some(notice) = self.notices.take(initiator, receive) {
            return Some(self.event(notice));
        }
        if let Some(completion) = self.initiator.take_completion() {
            return Some(Event::Completed(completion));
        }
        self.receive.take_completion().map(Event::Completed)
    }

    fn event(&self, notice: Notice) -> Event {
        match notice {
            Notice::Ready => Event::Ready,
            Notice::PeerClosed => Event::PeerClosed,
            Notice::Failed => self.cause(),
            Notice::Ended => Event::Ended,
            Notice::Stalled => Event::Stalled,
        }
    }

    /// When [`Connection::handle_timeout`] wants to be called: when an inbound Send will have waited for a Receive as long as
    /// [`StreamConfig::receive_wait`] allows. The wait counts from the first call of this or of `handle_timeout` that sees
    /// it, so call this when [`Event::Stalled`] has come.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_stalled() {
            return None;
        }
        self.rx.deadline(now, self.config.receive_wait)
    }

    /// [`Connection::poll_transmit`] has something to do.
    pub fn wants_transmit(&self) -> bool {
        self.next_source().is_some()
    }

    /// An inbound Send waits for a Receive: the transport need not be read, so that TCP slows the peer down (RFC 5041
    /// section 7.1 allows to close the window). A Receive that
    /// was posted to a shared source ends the wait in the next [`Connection::handle_bytes`].
    pub fn is_stalled(&self) -> bool {
        self.phase == Phase::Running && self.rx.has_stalled() && self.receive.current().is_none()
    }

    /// Nothing will be sent behind what was already handed out: close our direction once the batch is empty. The
    /// connection has one stream, and ends with it (DDP-010, RDMAP-113); by a FIN, so that a Terminate arrives
    /// (RDMAP-074).
    pub const fn write_side_done(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::Running => false,
            Phase::Failed | Phase::Disconnected => !self.tx.terminate_is_due(),
            Phase::Closed => true,
        }
    }

    /// No initiator request is open and all that was made has been taken by the transport.
    pub fn is_idle(&self) -> bool {
        self.initiator.is_idle() && self.tx.is_drained()
    }

    /// Started, and neither failed nor closed: data may flow.
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// The stream failed: a fault on this side, the peer's Terminate, a reset or a flush.
    pub const fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed)
    }

    /// [`Connection::disconnect`] was called.
    pub const fn is_disconnected(&self) -> bool {
        matches!(self.phase, Phase::Disconnected)
    }

    /// A Responder that has not seen an FPDU yet: it may not send (MPA-031).
    pub fn is_fenced(&self) -> bool {
        self.config.role == Role::Responder && !self.rx.seen
    }

    /// A Responder whose peer has sent nothing yet but a ready-to-receive message: it may send (RFC 6581 section 5),
    /// and yet some adapters would not.
    pub const fn would_speak_first(&self) -> bool {
        let received = &self.counters.received;
        let Traffic {
            fpdus,
            payload,
            sends,
            immediates,
            atomic_requests,
            ..
        } = received;
        let heard = *fpdus > 1 || *payload > 0 || *sends + *immediates + *atomic_requests > 0;
        matches!(self.config.role, Role::Responder) && !heard
    }

    /// The read limits in force.
    pub const fn read_limits(&self) -> ReadLimits {
        self.config.limits
    }

    /// The sizes of the queues.
    pub const fn sizes(&self) -> &QueueSizes {
        &self.sizes
    }

    /// What went over the stream.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Octets held by the queues and by Reads under way, for tests of what a connection costs and that it does not
    /// grow.
    #[doc(hidden)]
    pub fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.initiator.footprint()
            + self.receive.footprint()
            + self.rx.footprint()
            + self.tx.footprint()
    }
}
