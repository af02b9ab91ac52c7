//! The calls of identifiers, and the notifications of queue pairs, streams and deadlines. Each locks the identifier. The lock is held while
//! the queue pair is called, so the queue pair's signals are left in an atomic, and the thread that holds the lock handles them before it
//! continues.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp_io::limited;
use iwarp_io::log::targets;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::setup::{AcceptorOwner, Incoming};
use parking_lot::MutexGuard;
use tracing::Span;

use super::datagram_side::{REJECTED, datagram_attributes};
use super::datagrams::{AnswerTaker, Asked, CmMessage, MessageKind, OwnPair, RequestTaker};
use super::event::{CmEventKind, ConnParameters, DatagramParameters};
use super::resolve::canonical;
use super::space::PortSpace;
use super::state::{CmId, IdState, Phase};
use crate::ah::AddressVector;
use crate::device::{Device, DeviceKind};
use crate::error::{Errno, Error, Result, fail};
use crate::qp::{
    ConnectionOwner, PendingConnection, QpAttributes, QpMask, QpState, QueuePair, Signals,
};

/// The time after the end of a connection until its queue pair may be used again, as InfiniBand devices report it.
const TIMEWAIT: Duration = Duration::from_secs(1);

impl CmId {
    /// Locks the identifier. What is in it is not locked in another way, except by the thread that makes it.
    pub(super) fn lock(&self) -> LockedId<'_> {
        LockedId {
            id: self,
            state: Some(self.state.lock()),
        }
    }

    /// The device, once it is known.
    pub fn device(&self) -> Option<Arc<Device>> {
        self.lock().device.clone()
    }

    /// The local address, once it is known.
    pub fn local(&self) -> Option<SocketAddr> {
        self.lock().local
    }

    /// The peer's address, once it is known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.lock().peer
    }

    /// Listens for one address family only (`RDMA_OPTION_ID_AFONLY`).
    ///
    /// # Errors
    ///
    /// EINVAL once the identifier is bound.
    pub fn set_one_family(&self, one_family: bool) -> Result<()> {
        let mut state = self.lock();
        if state.local.is_some() {
            return fail(Errno::INVAL, "the identifier is bound already");
        }
        state.one_family = one_family;
        Ok(())
    }

    /// Sets the time limit of an acknowledgement to 2^`exponent` times 4.096 µs, or to that of the system if `exponent` is 0
    /// (`RDMA_OPTION_ID_ACK_TIMEOUT`), for the next connection. A connection ends when the peer has acknowledged nothing for this time,
    /// multiplied by [`retry_count`](ConnParameters::retry_count) + 1.
    ///
    /// A connection whose [`rnr_retry_count`](ConnParameters::rnr_retry_count) is without end has no such limit, because TCP cannot
    /// tell a peer that has no Receives from one that is gone. Only TCP on Linux has the limit.
    ///
    /// # Errors
    ///
    /// EINVAL if `exponent` is above 31.
    pub fn set_ack_timeout(&self, exponent: u8) -> Result<()> {
        if exponent > 31 {
            return fail(
                Errno::INVAL,
                "the time limit of an acknowledgement is 2^31 times 4.096 us at most",
            );
        }
        self.lock().ack_timeout = Some(exponent);
        Ok(())
    }

    /// Reserves a local address; port 0 means any port. An IPv4 address in the form of one of IPv6 (`::ffff:192.0.2.7`) is that IPv4 address
    /// here and in [`resolve_addr`](Self::resolve_addr).
    ///
    /// # Errors
    ///
    /// EINVAL if the identifier is bound, ENODEV if no device has the address, EADDRINUSE.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        self.bind_locked(&mut self.lock(), canonical(address))
    }

    /// Finds the device and the local address from which `peer` is reached. [`CmEventKind::AddrResolved`] follows, or
    /// [`CmEventKind::AddrError`].
    ///
    /// # Errors
    ///
    /// EINVAL in a wrong state; those of [`bind`](Self::bind) for `source`.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, peer: SocketAddr) -> Result<()> {
        let (source, peer) = (source.map(canonical), canonical(peer));
        self.resolve_locked(&mut self.lock(), source, peer)?;
        self.wait_for_answer()
    }

    /// Finds the route to the peer. [`CmEventKind::RouteResolved`] follows.
    ///
    /// # Errors
    ///
    /// EINVAL unless the address was resolved.
    pub fn resolve_route(&self) -> Result<()> {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::AddressResolved) {
            return fail(Errno::INVAL, "the address was not resolved");
        }
        state.phase = Phase::RouteResolved;
        self.tell(CmEventKind::RouteResolved, 0, ConnParameters::default());
        drop(state);
        self.wait_for_answer()
    }

    /// Listens. [`CmEventKind::ConnectRequest`] follows for each peer, with a new identifier.
    ///
    /// # Errors
    ///
    /// EINVAL in a wrong state; EADDRINUSE.
    pub fn listen(&self, backlog: i32) -> Result<()> {
        self.listen_locked(&mut self.lock(), backlog)
    }

    /// Asks the peer for a connection. With a queue pair of the identifier [`CmEventKind::Established`] follows, without one
    /// [`CmEventKind::ConnectResponse`]; or an event that says why there is no connection.
    ///
    /// # Errors
    ///
    /// EINVAL in a wrong state, or with too much private data.
    pub fn connect(&self, parameters: &ConnParameters) -> Result<()> {
        self.connect_locked(&mut self.lock(), parameters)?;
        self.wait_for_answer()
    }

    /// Completes a connection that the peer has accepted, if the program has moved its queue pair itself, or if the connection has none.
    ///
    /// # Errors
    ///
    /// EINVAL in a wrong state; ECONNRESET if the peer is gone.
    pub fn establish(&self) -> Result<()> {
        self.establish_locked(&mut self.lock())
    }

    /// Completes a connection that the peer has accepted, for a program that had named no queue pair before the peer's answer came, and has one
    /// now. The queue pair is then in RTS.
    ///
    /// # Errors
    ///
    /// EINVAL if no peer has accepted, or if the queue pair cannot carry a connection; ECONNRESET if the peer is gone.
    pub fn complete(&self, qp: &Arc<QueuePair>) -> Result<()> {
        self.complete_with(&mut self.lock(), qp)
    }

    /// Accepts the peer's request. [`CmEventKind::Established`] follows, but for datagrams: there the peer alone gets this event.
    ///
    /// # Errors
    ///
    /// EINVAL in a wrong state, or with too much private data; ECONNRESET if the peer has given up.
    pub fn accept(&self, parameters: &ConnParameters) -> Result<()> {
        self.accept_locked(&mut self.lock(), parameters)?;
        if self.space() == PortSpace::Udp {
            self.forget_last_event();
            return Ok(());
        }
        self.wait_for_answer()
    }

    /// Rejects the peer's request, or its acceptance.
    ///
    /// # Errors
    ///
    /// EINVAL if there is nothing to reject, or with too much private data.
    pub fn reject(&self, private_data: &[u8]) -> Result<()> {
        self.reject_locked(&mut self.lock(), private_data)
    }

    /// Ends the connection: the queue pair goes to ERR, and [`CmEventKind::Disconnected`] follows at both ends.
    ///
    /// # Errors
    ///
    /// EINVAL without a connection.
    pub fn disconnect(&self) -> Result<()> {
        let had_ended = self.lock().end_reported;
        self.disconnect_locked(&mut self.lock())?;
        // If the program has already received the event of the end, it does not come again.
        if had_ended && !self.channel().has_event() {
            return Ok(());
        }
        self.wait_for_answer()
    }

    fn disconnect_locked(&self, state: &mut IdState) -> Result<()> {
        match state.phase {
            Phase::Connected | Phase::Accepting(_) => {}
            Phase::Disconnecting => return Ok(()),
            Phase::Over if state.end_reported => {
                // Receives may have stayed posted behind the peer's end.
                if let Some(qp) = state
                    .qp
                    .as_ref()
                    .filter(|qp| qp.connected().is_ok_and(|qp| qp.is_claimed_by(&self.this)))
                {
                    state.done.deferred.extend(qp.end().1);
                }
                return Ok(());
            }
            _ => return fail(Errno::INVAL, "the identifier has no connection"),
        }
        state.phase = Phase::Disconnecting;
        let Some(qp) = state.qp.clone() else {
            // The program has destroyed the queue pair. Its connection ends by itself, and `gone` follows.
            self.tell_end(state);
            return Ok(());
        };
        let (gone, deferred) = qp.end();
        state.done.deferred.extend(deferred);
        state.done.guard = state.guard.take();
        if gone {
            self.gone(state);
        }
        Ok(())
    }

    /// The attributes for the change of a queue pair to a state, for a program that moves its queue pair itself.
    ///
    /// # Errors
    ///
    /// EINVAL for other states than INIT, RTR and RTS.
    pub fn init_qp_attributes(&self, to: QpState) -> Result<(QpAttributes, QpMask)> {
        match (self.space(), to) {
            (PortSpace::Udp, QpState::Init | QpState::Rtr | QpState::Rts) => {
                Ok(datagram_attributes(to))
            }
            _ => self.lock().qp_attributes(self.number, to),
        }
    }

    /// Prepares to release the identifier: ends its activity, drops its events that the program has not received, and waits until the
    /// others are acknowledged.
    ///
    /// # Errors
    ///
    /// In a simulation EDEADLK if events are not acknowledged.
    pub fn destroy(&self) -> Result<()> {
        self.forget_last_event();
        self.give_up_all();
        self.wait_for_acknowledgements()
    }

    /// Ends the activity of the identifier.
    pub(super) fn give_up_all(&self) {
        let mut locked = self.lock();
        let state = &mut *locked;
        self.clear_timer(state);
        let mut acceptor = None;
        match std::mem::replace(&mut state.phase, Phase::Over) {
            Phase::Connecting(active) => drop(active.reset()),
            Phase::Offered(passive) => passive.reject(&[]),
            Phase::Answered(active) => active.close(),
            Phase::Listening(listening) => acceptor = Some(listening),
            Phase::Serving(service) => service.close(),
            Phase::Asked(asked) => asked.answer(MessageKind::Rejected, OwnPair::default(), &[]),
            Phase::Accepting(_) | Phase::Connected | Phase::Disconnecting => {
                if let Some(qp) = &state.qp {
                    state.done.deferred.extend(qp.end().1);
                }
            }
            _ => {}
        }
        state.done.guard = state.guard.take();
        let qp = state.qp.take();
        if !std::mem::take(&mut state.owns_qp) {
            state.done.carrier = qp;
        }
        drop(locked);
        // The acceptor locks the connections that it has accepted, so it is not called under the lock.
        if let Some(acceptor) = acceptor {
            acceptor.close();
        }
        // The identifiers of requests that the program has not received refuse their peers when they are dropped.
        for event in &self.end_events() {
            if event.listener.is_some() {
                event.id.give_up_all();
            }
        }
    }

    // ---- shares of peers at a listener ----

    /// Returns true if the backlog has room for this request. In a full backlog the youngest request of the peer that has the most may give
    /// way.
    fn has_room_for(&self, peer: IpAddr, span: &Span) -> bool {
        let Some(pending) = self.pending.get() else {
            return false;
        };
        let backlog = {
            let state = self.state.lock();
            match state.phase {
                Phase::Listening(_) | Phase::Serving(_) => state.backlog,
                _ => return false,
            }
        };
        while pending.requests.len() >= backlog {
            limited!(
                warn,
                target: targets::CONNECT,
                parent: span,
                "a listener's backlog is full, and a peer is refused: get its events sooner, or give rdma_listen a longer backlog"
            );
            match pending.requests.give_way_to(peer) {
                Some(youngest) => self.refuse_waiting(&youngest),
                None => return false,
            }
        }
        true
    }

    /// Refuses a peer whose request waits in the channel of this listener. Does nothing if the program has received the request meanwhile.
    fn refuse_waiting(&self, id: &Weak<Self>) {
        let channel = self.channel();
        let event = channel
            .events
            .extract_last(|event| Arc::as_ptr(&event.id) == id.as_ptr() && self.is_of(event));
        if let Some(event) = event {
            event.id.give_up_all();
        }
    }

    /// Ends the youngest connection of the peer that has most of those that the program has accepted and that wait for the
    /// ready-to-receive message. Returns false if there is none.
    fn accepted_gives_way(&self) -> bool {
        let Some(pending) = self.pending.get() else {
            return false;
        };
        while let Some(youngest) = pending.accepted.give_way() {
            if youngest.upgrade().is_some_and(|id| id.give_way()) {
                return true;
            }
        }
        false
    }

    /// Ends a connection that waits for the ready-to-receive message. Returns false if it does not wait any more.
    fn give_way(&self) -> bool {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Accepting(_)) {
            return false;
        }
        let qp = state.qp.as_ref();
        let span = qp
            .and_then(|qp| qp.endpoint())
            .map_or_else(Span::none, |endpoint| endpoint.span());
        limited!(
            warn,
            target: targets::CONNECT,
            parent: &span,
            "no descriptor is left, and an accepted peer that has not sent its ready-to-receive message gives way to a newcomer"
        );
        let cause = Error::new(
            Errno::CONNRESET,
            "no descriptor is left, and the peer gives way to a newcomer before its ready-to-receive message",
        );
        self.accepting_failed(&mut state, CmEventKind::ConnectError, cause);
        true
    }

    // ---- called by the queue pair and by deadlines ----

    fn attend(&self) {
        self.signals.attend(|signals| {
            let Some(mut state) = self.state.try_lock() else {
                return false;
            };
            self.take(&mut state, Signals::from_bits_truncate(signals.take()));
            let done = std::mem::take(&mut state.done);
            drop(state);
            done.deliver();
            true
        });
    }

    fn take(&self, state: &mut IdState, signals: Signals) {
        self.accepting(state, signals);
        if !signals.intersects(Signals::ENDS) {
            return;
        }
        match state.phase {
            Phase::Connected => {
                self.tell_end(state);
                if signals.contains(Signals::GONE) {
                    self.gone(state);
                }
            }
            Phase::Disconnecting if signals.contains(Signals::GONE) => self.gone(state),
            _ => state.done.guard = state.guard.take(),
        }
    }

    /// The connection is over, and its stream is gone.
    fn gone(&self, state: &mut IdState) {
        self.tell_end(state);
        state.phase = Phase::Over;
        let kind = state.device.as_ref().map(|device| device.kind());
        if kind == Some(DeviceKind::Roce) {
            self.set_timer(state, TIMEWAIT);
        }
    }
}

/// The locked state of an identifier. Dropping it unlocks the identifier, does the work of [`Done`], then takes up the signals that other
/// threads left meanwhile. Every holder of the lock that may change the connection has to do this.
pub(super) struct LockedId<'a> {
    id: &'a CmId,
    /// Taken only in the drop.
    state: Option<MutexGuard<'a, IdState>>,
}

impl Deref for LockedId<'_> {
    type Target = IdState;

    fn deref(&self) -> &IdState {
        self.state.as_ref().expect("taken only in the drop")
    }
}

impl DerefMut for LockedId<'_> {
    fn deref_mut(&mut self) -> &mut IdState {
        self.state.as_mut().expect("taken only in the drop")
    }
}

impl Drop for LockedId<'_> {
    fn drop(&mut self) {
        let done = std::mem::take(&mut self.done);
        drop(self.state.take());
        done.deliver();
        self.id.attend();
    }
}

impl ConnectionOwner for CmId {
    fn signalled(&self, signals: Signals) {
        self.signals.leave(signals.bits());
        self.attend();
    }
}

impl PendingConnection for CmId {
    fn attach(&self, queue_pair: &Arc<QueuePair>) -> Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::Offered(_) => {
                let owner: Weak<dyn ConnectionOwner> = self.this.clone();
                queue_pair.connected()?.claim(owner)?;
                state.qp = Some(Arc::clone(queue_pair));
                Ok(())
            }
            Phase::Answered(_) => self.complete_locked(&mut state, queue_pair),
            _ => fail(Errno::INVAL, "the connection has no peer that waits"),
        }
    }
}

impl Source for CmId {
    fn ready(&self, edges: Edges) -> Turn {
        let mut state = self.lock();
        match &mut state.phase {
            Phase::Connecting(active) => {
                let outcome = active.ready(edges);
                self.active_side_came_to(&mut state, outcome);
            }
            Phase::Offered(_) => self.look_for_end(&mut state),
            _ => {}
        }
        Turn::default()
    }
}

impl Timed for CmId {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut state = self.lock();
        if state.timer.take_if(|own| *own == key).is_some() {
            match state.phase {
                Phase::Over => self.tell(CmEventKind::TimewaitExit, 0, ConnParameters::default()),
                Phase::Asking(_) => self.ask_again(&mut state),
                _ => {}
            }
            return;
        }
        match &mut state.phase {
            Phase::Connecting(active) => {
                let outcome = active.expired(key);
                self.active_side_came_to(&mut state, outcome);
            }
            Phase::Offered(passive) => {
                let outcome = passive.expired(key);
                self.passive_side_came_to(&mut state, outcome);
            }
            Phase::Accepting(accepting) => {
                let outcome = accepting.passive.expired(key);
                self.passive_side_came_to(&mut state, outcome);
            }
            _ => {}
        }
    }
}

impl AcceptorOwner for CmId {
    fn requested(&self, incoming: Arc<Incoming>) {
        let refused = if self.has_room_for(incoming.peer().ip(), incoming.span()) {
            self.take_request(incoming)
        } else {
            Some(incoming)
        };
        if let Some(refused) = refused {
            refused.refuse();
        }
    }

    /// Requests are taken at once, so there is none here that could end.
    fn ended(&self, _: u64) {}

    fn one_gives_way(&self) -> bool {
        self.accepted_gives_way()
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        self.process.numbers.release(self.number);
    }
}

impl AnswerTaker for CmId {
    fn answered(&self, answer: CmMessage) {
        let mut state = self.lock();
        match &state.phase {
            Phase::Asking(asking) if asking.is_answer(&answer) => {}
            _ => return,
        }
        self.clear_timer(&mut state);
        state.phase = Phase::Over;
        let parameters = ConnParameters {
            private_data: answer.private_data,
            ..ConnParameters::default()
        };
        if answer.kind == MessageKind::Rejected {
            return self.tell(CmEventKind::Unreachable, REJECTED, parameters);
        }
        let datagrams = Self::vector(&state, answer.gid).map(|address| DatagramParameters {
            address,
            number: answer.number,
            key: answer.key,
        });
        let parameters = ConnParameters {
            datagrams,
            ..parameters
        };
        self.tell(CmEventKind::Established, 0, parameters);
    }
}

impl RequestTaker for CmId {
    fn asked(&self, asked: Asked<Self>, request: CmMessage) -> bool {
        let peer = asked.peer();
        if !self.has_room_for(peer.ip(), &tracing::Span::none()) {
            return false;
        }
        let local = asked.local;
        let device = self.process.device_of(local.ip()).cloned();
        let (Some(device), Some(pending)) = (device, self.pending.get()) else {
            return false;
        };
        let Ok(id) = Self::create_in(&self.channel(), self.space()) else {
            return false;
        };
        let nonce = asked.nonce();
        {
            let mut state = id.state.lock();
            state.device = Some(device);
            (state.local, state.peer) = (Some(local), Some(peer));
            state.phase = Phase::Asked(Box::new(asked));
        }
        let place = pending.requests.add(nonce, peer.ip(), id.this.clone());
        let parameters = ConnParameters {
            private_data: request.private_data,
            datagrams: Some(DatagramParameters {
                number: request.number,
                key: request.key,
                address: AddressVector::default(),
            }),
            ..ConnParameters::default()
        };
        self.tell_request(id, parameters, place);
        true
    }
}
