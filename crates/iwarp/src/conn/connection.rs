//! The parts of a connection, its queues' posts, its events and its getters.

use core::time::Duration;
use std::time::Instant;

use super::config::{
    Confirmations, CopiedPayload, Delivery, QueueSizes, Recognition, StreamConfig,
};
use super::counters::{Counters, Traffic};
use super::event::{Event, Notice, Notices};
use super::initiator::InitiatorQueue;
use super::phase::Phase;
use super::receives::ReceiveQueue;
use super::ring::OutOfMemory;
use super::rx::Rx;
use super::tx::Tx;
use super::work::{InitiatorWqe, Operation, PostError};
use crate::memory::{Access, AccessError, Memory, RemoteRights, Scope, Span};
use crate::mpa::{Markers, Ready, Role};
use crate::types::{Pd, ReadLimits, RemoteAddress, Sge};

/// One stream and its two queues.
///
/// A connection allocates its memory when it is created. Two lists grow later and keep their size: outstanding Reads, up to the read
/// limits, and Receives that were drawn from a shared source and whose completions were not fetched yet.
///
/// A post takes a slot of its queue. The caller frees slots by [`free_initiator_slots`](Self::free_initiator_slots) and
/// [`free_receive_slots`](Self::free_receive_slots), when the client has taken completions.
#[derive(Debug)]
pub struct Connection {
    pub(super) sizes: QueueSizes,
    pub(super) scope: Scope,
    /// The protection domain of the memory that Receives name.
    pub(super) receive_pd: Pd,
    /// The rights of the peer, whatever the memory grants.
    pub(super) remote_rights: RemoteRights,
    pub(super) config: StreamConfig,
    pub(super) phase: Phase,
    /// See [`keep_receives`](Self::keep_receives).
    pub(super) keeps_receives: bool,
    /// See [`set_delivery`](Self::set_delivery).
    pub(super) delivery: Delivery,
    /// See [`recognized`](Self::recognized).
    pub(super) recognized: Option<bool>,
    pub(super) initiator: InitiatorQueue,
    pub(super) receive: ReceiveQueue,
    pub(super) rx: Rx,
    pub(super) tx: Tx,
    pub(super) notices: Notices,
    pub(super) counters: Counters,
}

/// The configuration before [`Connection::start`]. It is never read.
const NOT_STARTED: StreamConfig = StreamConfig {
    role: Role::Initiator,
    crc: true,
    markers: Markers::NONE,
    limits: ReadLimits { ird: 0, ord: 0 },
    ready: None,
    recognition: Recognition::Never,
    receive_wait: Duration::ZERO,
    copied: CopiedPayload::None,
    copied_below: 0,
    confirmations: Confirmations::Off,
    early: usize::MAX,
};

impl Connection {
    /// A connection that is not yet connected. Receives may be posted, and [`Connection::flush`] returns them.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] where there is no memory for queues of these sizes.
    pub fn new(sizes: QueueSizes, scope: Scope) -> Result<Self, OutOfMemory> {
        Self::with_first_msn(sizes, scope, 1) // DDP-031
    }

    /// As [`Connection::new`], with another first message number on every queue and in both directions. A test begins
    /// shortly before the number wraps.
    #[doc(hidden)]
    pub fn with_first_msn(sizes: QueueSizes, scope: Scope, msn: u32) -> Result<Self, OutOfMemory> {
        Self::with_counters(sizes, scope, msn, 0)
    }

    /// As [`Connection::with_first_msn`], as if `octets` had been sent and received before the start. A test begins shortly
    /// before marker positions wrap.
    #[doc(hidden)]
    pub fn with_counters(
        sizes: QueueSizes,
        scope: Scope,
        msn: u32,
        octets: u64,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self {
            sizes,
            scope,
            receive_pd: scope.pd,
            remote_rights: RemoteRights::default(),
            config: NOT_STARTED,
            phase: Phase::Idle,
            keeps_receives: false,
            delivery: Delivery::Reliable,
            recognized: None,
            initiator: InitiatorQueue::new(&sizes)?,
            receive: ReceiveQueue::new(&sizes)?,
            rx: Rx::new(sizes.receive_sges as usize, msn, octets),
            tx: Tx::new(
                sizes.initiator_sges.max(sizes.read_sges) as usize,
                msn,
                octets,
            ),
            notices: Notices::default(),
            counters: Counters::default(),
        })
    }

    /// Receives name memory of this protection domain. Until the call it is that of the connection. A queue of shared Receives has its own
    /// protection domain, whatever connections draw from it.
    pub const fn set_receive_pd(&mut self, pd: Pd) {
        self.receive_pd = pd;
    }

    /// The peer may do no more than this, whatever the memory grants that it names. Until the call the memory alone decides.
    pub const fn set_remote_rights(&mut self, rights: RemoteRights) {
        self.remote_rights = rights;
    }

    /// The Receives stay posted when the peer ends the stream, in order or not. They come back flushed once this side
    /// [disconnects](Self::disconnect), or once a request of this side fails. A request that the end leaves open, or that is posted later,
    /// fails with [`WqeStatus::PeerEnded`](super::WqeStatus::PeerEnded). Called before the start.
    pub const fn keep_receives(&mut self) {
        self.keeps_receives = true;
    }

    /// At most this many Reads of this side may be outstanding from now on, if the start-up has agreed on more. One may be in any case
    /// where Reads confirm Writes and count against the limit.
    pub fn limit_reads(&mut self, ord: u32) {
        let least = match self.initiator.confirmations() {
            Confirmations::Off | Confirmations::OnDemand { apart: true } => 0,
            Confirmations::EachWrite | Confirmations::OnDemand { apart: false } => 1,
        };
        self.config.limits.ord = self.config.limits.ord.min(ord.max(least));
    }

    /// The peer serves one Read more than was agreed on. From now on the Read that confirms Writes
    /// [on demand](Confirmations::OnDemand) does not count against the outbound read limit.
    pub(super) fn confirm_apart(&mut self) {
        if let Confirmations::OnDemand { apart } = &mut self.config.confirmations {
            *apart = true;
            self.initiator.set_confirmations(self.config.confirmations);
        }
    }

    /// Returns true if Receives come back flushed as soon as they are posted.
    pub fn flushes_receives(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::Running => false,
            Phase::Closed => !self.keeps_receives,
            Phase::Failed | Phase::Disconnected => true,
        }
    }

    /// Checks an access of the peer.
    #[inline]
    pub(super) fn check_remote(
        &self,
        mem: &impl Memory,
        at: RemoteAddress,
        len: u32,
        need: Access,
    ) -> Result<Span, AccessError> {
        let span = mem.check(at, len, need, self.scope)?;
        if self.remote_rights.allow(need) {
            Ok(span)
        } else {
            Err(AccessError::Rights)
        }
    }

    /// Start-up is over: full operation begins (RFC 5044 section 7.1.2). Initiator requests may be posted from here on.
    ///
    /// A Responder's requests wait for the peer's first FPDU (MPA-031). Binds and Invalidates do not wait, unless another request is before
    /// them. A connection that was disconnected stays disconnected. A second start is an error.
    ///
    /// Both directions begin now, each behind its start-up frame (MPA-026, DDP-080). No FPDU leaves or is taken in before
    /// (MPA-030).
    pub fn start(&mut self, config: StreamConfig) {
        debug_assert!(
            matches!(self.phase, Phase::Idle | Phase::Disconnected),
            "a connection was started twice"
        );
        if self.phase == Phase::Idle {
            self.config = self.as_delivered(config);
            self.tx.copies =
                config.crc || config.copied == CopiedPayload::All || config.markers.sent;
            self.initiator
                .set_confirmations(match self.config.confirmations {
                    apart @ Confirmations::OnDemand { apart: true } => apart,
                    _ if config.limits.ord == 0 => Confirmations::Off,
                    other => other,
                });
            self.recognized = match config.recognition {
                Recognition::Agreed => Some(true),
                Recognition::ByWrites if config.ready == Some(Ready::Write) => None,
                Recognition::Never | Recognition::ByWrites => Some(false),
            };
            self.phase = Phase::Running;
        }
    }

    /// All payload is copied into the batch, however long it is, because it has a CRC or markers inside, or for the transport's sake.
    pub const fn copies(&self) -> bool {
        self.tx.copies
    }

    /// Returns true if the transport copies slowly from and to some places ([`CopiedPayload::AtSlowPlaces`]).
    pub fn has_slow_places(&self) -> bool {
        self.config.copied == CopiedPayload::AtSlowPlaces
    }

    /// Queues the Initiator's ready-to-receive message ahead of everything that has not been sent. If start-up agreed on
    /// none, a zero-length Write is sent, after which any Responder may send (PEER-033, PEER-063). Later calls do nothing.
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

    /// Posts an initiator request. SGEs and inline data are copied now; the buffers of SGEs are checked when the request is
    /// sent.
    ///
    /// After the stream has failed, or the peer has closed it, requests are accepted and come back flushed. If Receives
    /// [stay](Self::keep_receives), the first request after the peer's end fails. Where delivery is
    /// [unreliable](Delivery::Unreliable), it succeeds and is dropped.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was.
    #[inline(always)]
    pub fn post_initiator(&mut self, wqe: InitiatorWqe<'_>) -> Result<(), PostError> {
        self.post_initiator_taking(wqe, || 0)
    }

    /// As [`post_initiator`](Self::post_initiator). If the queue is full, `taken` is called, and returns the argument for
    /// [`free_initiator_slots`](Self::free_initiator_slots).
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was, but for slots that were freed.
    #[inline(always)]
    pub fn post_initiator_taking(
        &mut self,
        wqe: InitiatorWqe<'_>,
        taken: impl FnOnce() -> u64,
    ) -> Result<(), PostError> {
        if matches!(self.phase, Phase::Idle | Phase::Disconnected) {
            return Err(PostError::NotConnected);
        }
        let length = self.sizes.length_of(&wqe.operation)?;
        if matches!(wqe.operation, Operation::SendImmediate { .. }) {
            self.check_announced()?;
        }
        let flags = (wqe.silent, wqe.fence);
        self.initiator
            .post(wqe.context, wqe.operation, flags, length, taken)?;
        if self.keeps_receives && self.rx.peer_closed && !self.has_failed() {
            self.give_up();
        } else if self.phase != Phase::Running || self.rx.flushed && !planted!(RequestBehindFlushed)
        {
            self.initiator.flush(None);
        }
        self.settle(); // flushes a Read that nobody will answer after the peer's FIN
        Ok(())
    }

    /// Posts an initiator request before the [start](Self::start), for clients that may post early. It is carried out after the start.
    /// If there is none, [`flush`](Self::flush), [`disconnect`](Self::disconnect) or [`abandon`](Self::abandon) gives it back.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; [`PostError::NotConnected`] after the start. The connection is as it was.
    #[cold]
    pub fn post_early(&mut self, wqe: InitiatorWqe<'_>) -> Result<(), PostError> {
        if self.phase != Phase::Idle {
            return Err(PostError::NotConnected);
        }
        let length = self.sizes.length_of(&wqe.operation)?;
        let flags = (wqe.silent, wqe.fence);
        self.initiator
            .post(wqe.context, wqe.operation, flags, length, || 0)
    }

    /// Posts an initiator request that comes back flushed, to a connection that this side has [disconnected](Self::disconnect). For
    /// clients that may go on posting then.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was.
    #[cold]
    pub fn post_flushed(&mut self, wqe: InitiatorWqe<'_>) -> Result<(), PostError> {
        debug_assert!(
            self.is_disconnected(),
            "requests are carried out until then"
        );
        let length = self.sizes.length_of(&wqe.operation)?;
        let flags = (wqe.silent, wqe.fence);
        self.initiator
            .post(wqe.context, wqe.operation, flags, length, || 0)?;
        self.initiator.flush(None);
        Ok(())
    }

    /// Posts a Receive, connected or not. After the end of the connection it comes back flushed. If an inbound Send waits
    /// for a Receive, call [`Connection::handle_bytes`] again.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was.
    #[inline]
    pub fn post_receive(&mut self, context: u64, sges: &[Sge]) -> Result<(), PostError> {
        self.post_receive_taking(context, sges, || 0)
    }

    /// As [`post_receive`](Self::post_receive). If the queue is full, `taken` is called, and returns the argument for
    /// [`free_receive_slots`](Self::free_receive_slots).
    ///
    /// # Errors
    ///
    /// See [`PostError`]; the connection is as it was, but for slots that were freed.
    #[inline]
    pub fn post_receive_taking(
        &mut self,
        context: u64,
        sges: &[Sge],
        taken: impl FnOnce() -> u64,
    ) -> Result<(), PostError> {
        let length = self.sizes.receive_length(sges)?;
        self.receive.post(context, sges, length, taken)?;
        if self.flushes_receives() {
            self.receive.flush();
        }
        Ok(())
    }

    /// The next event. Initiator requests complete in the order of their posts, and so do Receives; the connection's own
    /// events come between the completions before and after which they happened.
    #[inline]
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

    /// Returns true if an initiator request would find no free slot, unless silent requests have succeeded since the last
    /// [`poll_event`](Self::poll_event).
    #[inline]
    pub const fn is_initiator_full(&self) -> bool {
        self.initiator.is_full()
    }

    /// The client has taken this many completions of initiator requests, of those that [`poll_event`](Self::poll_event) has returned. Their
    /// slots are free again.
    ///
    /// A slot counts as used from the post until then, in every state. So there are never more completions that the client has not taken
    /// than the queue has slots. A silent request that succeeds frees its slot by itself.
    pub fn free_initiator_slots(&mut self, completions: u64) {
        self.initiator.free(completions);
    }

    /// As [`free_initiator_slots`](Self::free_initiator_slots), for completions of Receives. Receives that were
    /// [drawn](super::ReceiveSource) take slots too, and find one whatever their number.
    pub fn free_receive_slots(&mut self, completions: u64) {
        self.receive.free(completions);
    }

    /// The event of the failure of the stream, if the stream has failed. [`poll_event`](Self::poll_event) returns this event too, but after
    /// the completion of the Receive in whose message the fault was found.
    #[must_use]
    pub fn failure(&self) -> Option<Event> {
        self.rx.cause.is_some().then(|| self.cause())
    }

    /// Cold, or loops that take completions would read the fields of a failure in each round.
    #[cold]
    #[inline(never)]
    fn event(&self, notice: Notice) -> Event {
        match notice {
            Notice::Ready => Event::Ready,
            Notice::PeerClosed => Event::PeerClosed,
            Notice::Failed => self.cause(),
            Notice::Ended => Event::Ended,
            Notice::Stalled => Event::Stalled,
            Notice::GaveUp => Event::GaveUp,
        }
    }

    /// When to call [`Connection::handle_timeout`]: when an inbound Send will have waited for a Receive as long as
    /// [`StreamConfig::receive_wait`] allows. The wait counts from the first `poll_timeout` or `handle_timeout` after the Send has arrived,
    /// so call `poll_timeout` on [`Event::Stalled`].
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_stalled() {
            return None;
        }
        self.rx.deadline(now, self.config.receive_wait)
    }

    /// Returns true if [`Connection::poll_transmit`] has something to do.
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        self.next_source().is_some()
    }

    /// Returns true if an inbound Send waits for a Receive. Do not read from the transport meanwhile. TCP then closes its window,
    /// which RFC 5041 section 7.1 allows, and the peer slows down. Or read a limited number of octets, so that Responses pass the Send
    /// ([`handle_ahead`](Self::handle_ahead)). After a post to a shared source, the next [`Connection::handle_bytes`] ends the wait.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.phase == Phase::Running && self.rx.has_stalled() && self.receive.current().is_none()
    }

    /// Returns true if everything that will ever be sent has been made. If so, close our direction once the batch is empty. The
    /// connection has one stream and ends with this stream (DDP-010, RDMAP-113). Close it by a FIN, so that a Terminate
    /// arrives (RDMAP-074).
    pub const fn write_side_done(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::Running => false,
            Phase::Closed | Phase::Failed | Phase::Disconnected => !self.tx.terminate_is_due(),
        }
    }

    /// Returns true if this side has found a fault and has answered it, or will answer it, with a Terminate.
    pub const fn has_terminated(&self) -> bool {
        self.tx.has_terminate()
    }

    /// Returns true if no initiator request is open and the transport has taken everything that was made.
    pub fn is_idle(&self) -> bool {
        self.initiator.is_idle() && self.tx.is_drained()
    }

    /// Returns true if an initiator request is open.
    pub const fn has_open_requests(&self) -> bool {
        !self.initiator.is_idle()
    }

    /// Returns true if data may flow: the connection has started, and has neither failed nor closed.
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Returns true if the stream failed, by a fault on this side, the peer's Terminate, a reset or a flush.
    pub const fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed)
    }

    /// Returns true if [`Connection::disconnect`] was called.
    pub const fn is_disconnected(&self) -> bool {
        matches!(self.phase, Phase::Disconnected)
    }

    /// Returns true if this is a Responder that has not received an FPDU yet and so may not send (MPA-031).
    pub fn is_fenced(&self) -> bool {
        self.config.role == Role::Responder && !self.rx.seen
    }

    /// Returns true if this is a Responder whose peer has sent nothing yet but a ready-to-receive message. RFC 6581 section 5 lets
    /// such a Responder send; some adapters do not.
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

    /// Counts of the messages and octets of the stream.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Octets of memory that the connection holds. Tests limit them, and check that they do not grow.
    #[doc(hidden)]
    pub fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.initiator.footprint()
            + self.receive.footprint()
            + self.rx.footprint()
            + self.tx.footprint()
    }
}
