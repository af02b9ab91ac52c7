//! A connection's stream: a wire, its capture, and the properties of the wire that MPA needs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp::{CopiedPayload, PieceRef, Span, TxBatch};
use iwarp_mem::{Acknowledgements, Received, Sent, Table};
use rdma_buffer::page_offsets_matter;

use super::faulted::{Faulted, RecordedWire};
use super::{Paired, Wire};
use crate::capture::{Capture, Flow, FlowRole, SentBy};
use crate::environment::Environment;
use crate::faults::{FaultOwner, StreamFaults};
use crate::log::{connection_span, has_local, has_transport};
use crate::progress::memberships::Polled;
use crate::progress::readiness::{Edges, Watch};
use crate::progress::set::{Set, SourceId};

/// See the [module](self).
#[derive(Debug)]
pub struct Stream {
    wire: Wire,
    flow: Option<Flow>,
    faulted: Option<Box<Faulted>>,
    /// Octets are not moved directly between registered memory and the wire, because they are recorded, or subject to a fault plan, or
    /// because the transport cannot do that.
    copies: bool,
    /// The stream is recorded, or a fault plan applies to it.
    is_watched: bool,
    local: SocketAddr,
    peer: SocketAddr,
    /// Of the connection, for the log.
    span: tracing::Span,
    /// The span has no transport yet, because it is not decided.
    span_lacks_transport: bool,
    /// The sent octets contain markers.
    markers: bool,
}

impl Watch<Set> for Stream {
    fn id(&self) -> SourceId<'_> {
        self.wire.id()
    }

    fn joins(&self) -> Edges {
        self.wire.joins()
    }

    fn has_bells(&self) -> bool {
        self.wire.has_bells()
    }
}

impl Polled<Set> for Stream {
    fn set_polled(&self, is_polled: bool) {
        self.wire.set_polled(is_polled);
    }
}

impl Stream {
    /// A stream over an established connection.
    pub fn new(wire: Wire, role: FlowRole, capture: Option<&Capture>) -> Self {
        let (local, peer) = wire.addresses();
        let decided = (!wire.is_unpaired()).then(|| wire.transport_name());
        let span = connection_span(decided, peer);
        has_local(&span, local);
        Self::in_span(wire, role, capture, span)
    }

    /// A stream over an established connection, which has a [span](connection_span) with both addresses already, and with the transport unless
    /// it is undecided.
    pub fn in_span(
        wire: Wire,
        role: FlowRole,
        capture: Option<&Capture>,
        span: tracing::Span,
    ) -> Self {
        let (local, peer) = wire.addresses();
        let flow = capture.map(|capture| {
            let flow = capture.flow(local, peer, role);
            match wire.world() {
                Some(world) => flow.in_world(world.clone()),
                None => flow,
            }
        });
        if let Some(flow) = &flow {
            flow.opened();
        }
        Self {
            copies: flow.is_some() || !wire.reaches_memory(),
            is_watched: flow.is_some(),
            span_lacks_transport: wire.is_unpaired(),
            wire,
            flow,
            faulted: None,
            local,
            peer,
            span,
            markers: false,
        }
    }

    /// The span of the connection, as the parent of events about it.
    pub fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Puts a fault plan between the stream and its wire. The capture records the octets of the wire.
    #[must_use]
    pub fn with_faults(
        mut self,
        faults: StreamFaults,
        environment: Environment,
        owner: Arc<dyn FaultOwner>,
    ) -> Self {
        (self.copies, self.is_watched) = (true, true);
        let faults = faults.in_span(&self.span);
        self.faulted = Some(Box::new(Faulted::new(faults, environment, owner)));
        self
    }

    fn below(&self) -> RecordedWire<'_> {
        RecordedWire {
            wire: &self.wire,
            flow: self.flow.as_ref(),
        }
    }

    /// Returns true if a fault plan applies to the stream.
    #[inline]
    pub fn is_faulted(&self) -> bool {
        self.faulted.is_some()
    }

    /// Sends octets that a fault plan has held back until now. Returns true if all of them were sent.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    #[inline]
    pub fn flush(&self) -> io::Result<bool> {
        match &self.faulted {
            None => Ok(true),
            Some(faulted) => faulted.flush(self.below()),
        }
    }

    /// Returns true if octets that were taken were not sent yet, because a fault plan holds or held them.
    #[inline]
    pub fn is_backlogged(&self) -> bool {
        let faulted = self.faulted.as_ref();
        faulted.is_some_and(|faulted| faulted.is_backlogged())
    }

    /// The time at which the stream has to be driven: when the fault plan releases the octets that it holds now, or when the wire has to be
    /// looked at.
    #[inline]
    pub fn wake_at(&self) -> Option<Instant> {
        let look = self.wire.looks_at();
        match &self.faulted {
            Some(faulted) => [faulted.wake_at(), look].into_iter().flatten().min(),
            None => look,
        }
    }

    /// Ends the holds that end at `now` or before, and looks at the wire.
    pub fn awake(&self, now: Instant) {
        self.wire.look(now);
        if let Some(faulted) = &self.faulted {
            faulted.awake(now);
        }
    }

    /// The statuses with which a fault plan has broken the queues that the stream feeds, since the last call.
    pub fn take_broken(&self) -> Vec<String> {
        let faulted = self.faulted.as_ref();
        faulted.map_or_else(Vec::new, |faulted| faulted.take_broken())
    }

    /// The local address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns true if payload is received into buffers only.
    pub fn copies(&self) -> bool {
        self.copies
    }

    /// Returns true if payload is best read straight to its place whenever that is known.
    pub fn holds_octets(&self) -> bool {
        self.wire.holds_octets()
    }

    /// See [`Wire::pair`].
    pub fn pair(self, now: Instant) -> (Self, io::Result<Paired>) {
        let (wire, paired) = self.wire.pair(now);
        let mut this = Self { wire, ..self };
        let is_decided = matches!(paired, Ok(Paired::Decided | Paired::MayWrite));
        if is_decided && std::mem::take(&mut this.span_lacks_transport) {
            has_transport(&this.span, this.transport());
        }
        (this, paired)
    }

    /// See [`Wire::transport_name`].
    pub fn transport(&self) -> &'static str {
        self.wire.transport_name()
    }

    /// See [`Wire::is_unpaired`].
    pub fn is_unpaired(&self) -> bool {
        self.wire.is_unpaired()
    }

    /// Returns true if the octets go through shared memory.
    pub fn is_shared(&self) -> bool {
        self.wire.has_bells()
    }

    /// See [`Wire::has_bells`].
    #[inline]
    pub fn has_bells(&self) -> bool {
        self.wire.has_bells()
    }

    /// See [`Wire::take_room_report`].
    #[inline]
    pub fn take_room_report(&self) -> bool {
        self.wire.take_room_report()
    }

    /// See [`Wire::short_read_is_last`].
    #[inline]
    pub fn short_read_is_last(&self) -> bool {
        !self.is_faulted() && self.wire.short_read_is_last()
    }

    /// The payload that has to be copied out of registered memory before it is sent. Slow places are those from which a kernel copies
    /// slowly ([`rdma_buffer::page_offsets_matter`]); for this crate's copies there are none.
    pub fn copied_payload(&self) -> CopiedPayload {
        if self.copies {
            CopiedPayload::All
        } else if page_offsets_matter() && !self.holds_octets() {
            CopiedPayload::AtSlowPlaces
        } else {
            CopiedPayload::None
        }
    }

    /// The peer wants markers in all octets sent from here on.
    pub fn send_markers(&mut self) {
        self.markers = true;
    }

    /// The largest ULPDU that the path's segment size allows (MPA-082).
    pub fn mulpdu(&self) -> u32 {
        // MPA-088: if the segment size is unknown, it is what every path carries, 576 octets less the headers.
        let segment = self.wire.segment().unwrap_or(536);
        if self.markers {
            iwarp::mpa::marker::mulpdu(segment)
        } else {
            iwarp::mpa::fpdu::mulpdu(segment)
        }
    }

    /// The core on which the kernel received the last data.
    pub fn incoming_core(&self) -> Option<usize> {
        self.wire.incoming_core()
    }

    /// Reads what has arrived, at most `into.len()` octets. 0 is the end of the peer's direction.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, or the error that broke the connection.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_watched {
            return self.read_watched(into);
        }
        self.wire.read(into)
    }

    #[cold]
    fn read_watched(&self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(faulted) = &self.faulted {
            return faulted.read(into, self.below());
        }
        let count = self.wire.read(into)?;
        self.saw(&into[..count]);
        Ok(count)
    }

    /// Like [`read`](Self::read), but puts the first octets into registered memory at `place` and the others into `rest`. If the memory was
    /// revoked or unmapped, nothing is read. Not to be called if the stream [copies](Self::copies).
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Received> {
        debug_assert!(!self.copies, "what is read is shown");
        self.wire.read_to_place(table, place, rest)
    }

    /// Opens the receive window. See [`Wire::open_window`].
    #[cold]
    pub fn open_window(&self, octets: i32) {
        self.wire.open_window(octets);
    }

    /// See [`Wire::acknowledgements`].
    pub fn acknowledgements(&self) -> Option<Acknowledgements> {
        self.wire.acknowledgements()
    }

    /// See [`Wire::ask_within`].
    pub fn ask_within(&self, time: Option<Duration>) {
        self.wire.ask_within(time);
    }

    /// Limits the time that sent octets wait for the peer. See [`Wire::give_up_after`].
    pub fn give_up_after(&self, limit: Duration) {
        self.wire.give_up_after(limit);
    }

    fn saw(&self, octets: &[u8]) {
        match &self.flow {
            Some(flow) if octets.is_empty() => flow.closed(SentBy::Peer),
            Some(flow) => flow.received(octets),
            None => {}
        }
    }

    /// Checks whether octets, or the end of the peer's direction, have arrived, without taking them.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if neither has arrived.
    pub fn peek(&self) -> io::Result<usize> {
        match &self.faulted {
            None => self.wire.peek(),
            Some(faulted) => faulted.peek(self.below()),
        }
    }

    /// Returns true if a fault plan holds back octets to be read, or to be sent. Its time ends that, and not an event of the transport.
    pub fn is_held(&self, edges: Edges) -> bool {
        let faulted = self.faulted.as_ref();
        faulted.is_some_and(|faulted| faulted.is_held(edges))
    }

    /// See [`Wire::take_bells`].
    pub fn take_bells(&self) -> Option<bool> {
        self.wire.take_bells()
    }

    /// Checks that the connection is not broken, without reading. See [`Wire::check`].
    ///
    /// # Errors
    ///
    /// The error that broke the connection, or the reset by a fault plan.
    pub fn check(&self) -> io::Result<()> {
        match &self.faulted {
            None => self.wire.check(),
            Some(faulted) => faulted.check(self.below()),
        }
    }

    /// See [`Wire::knows_arrival`].
    pub fn knows_arrival(&self) -> bool {
        self.wire.knows_arrival()
    }

    /// See [`Wire::end_is_under_way`].
    pub fn end_is_under_way(&self) -> bool {
        self.wire.end_is_under_way()
    }

    /// Sends a start-up frame or a message of this crate, in one write and below any segment size (PEER-053).
    ///
    /// # Errors
    ///
    /// The error that broke the connection. It is also an error if the send buffer, which is empty at the start of a connection, does not
    /// accept the whole frame at once.
    pub fn send_frame(&self, frame: &[u8]) -> io::Result<()> {
        if let Some(faulted) = &self.faulted {
            return faulted.send_frame(frame, self.below());
        }
        let sent = self.wire.write(frame)?;
        if let Some(flow) = &self.flow {
            flow.sent(&[&frame[..sent]]);
        }
        if sent < frame.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    /// Sends as much of a batch as possible.
    ///
    /// # Errors
    ///
    /// Those of `iwarp_mem::io::send`.
    #[inline]
    pub fn send(&self, table: &Table, batch: &mut TxBatch) -> io::Result<(u64, Sent)> {
        if let Some(faulted) = &self.faulted {
            return faulted.send(batch, self.below());
        }
        match &self.flow {
            None => self.wire.send(table, batch),
            Some(flow) => self.send_recorded(flow, table, batch),
        }
    }

    fn send_recorded(
        &self,
        flow: &Flow,
        table: &Table,
        batch: &mut TxBatch,
    ) -> io::Result<(u64, Sent)> {
        // With a capture on, the engine yields copies only, so that all octets can be recorded here.
        let mut octets = Vec::new();
        for (piece, _) in batch.pieces() {
            if let PieceRef::Bytes(bytes) = piece {
                octets.extend_from_slice(bytes);
            }
        }
        let (count, sent) = self.wire.send(table, batch)?;
        let count_here = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(octets.len());
        if count_here > 0 {
            flow.sent(&[&octets[..count_here]]);
        }
        Ok((count, sent))
    }

    /// Ends this side's direction. Everything sent before, a Terminate included, arrives first (RDMAP-074).
    pub fn close_write(&self) {
        if let Some(faulted) = &self.faulted {
            return faulted.close_write(self.below());
        }
        if self.wire.close_write().is_ok()
            && let Some(flow) = &self.flow
        {
            flow.closed(SentBy::Local);
        }
    }

    /// Ends the connection at once, with a reset.
    pub fn reset(self) {
        self.wire.reset();
        if let Some(flow) = &self.flow {
            flow.reset(SentBy::Local);
        }
    }

    /// Records that the peer has reset the connection.
    pub fn was_reset(&self) {
        if let Some(flow) = &self.flow {
            flow.reset(SentBy::Peer);
        }
    }
}
