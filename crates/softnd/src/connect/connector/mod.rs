//! The line below softnd's connectors: transports and the MPA start-up exchange.
//!
//! [`state`] has the state of a connector, [`active`] Connect and CompleteConnect, [`passive`] Accept. Notifications of the queue pair, the
//! stream and the deadlines arrive here and lock the connector. The connector's lock is held while its queue pair is called, so the queue
//! pair's signals are left in an atomic, and the holder of the lock takes them up after it has unlocked.

mod active;
mod passive;
mod removal;
mod state;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use iwarp_io::endpoint::{self, queue_pair};
use iwarp_io::planted;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::progress::turns::HandOff;
use iwarp_io::setup::ConnectionRequest;
use netdirect::{ConnectionEnd, EndReason, EndedBy, Error, QueuePair, ReadLimits, Result};
use netdirect_provider::checks::own;
use netdirect_provider::connector::machine::{Event, State};
use netdirect_provider::connector::{Acceptance, Attempt, Binding, ConnectorLine, ConnectorRules};

use super::requests::Delivery;
use crate::connection_end;
use crate::core::Core;
use crate::qp::{Claim, ConnectionOwner, Drivers, Qp, QpHandle, Signals};
use iwarp_io::transport::Bound;

pub(crate) use state::Connector;
use state::{ConnectorState, LineState, Setup};

impl ConnectorLine for Connector {
    type Adapter = Core;
    type QueuePair = Qp;
    type Claim = ();
    type Bound = Bound;
    type PeerRequest = ConnectionRequest;
    type State = LineState;
    type Action = Delivery;

    fn new(rules: ConnectorRules<Self>) -> Self {
        Self {
            core: Arc::clone(rules.adapter()),
            rules,
            signals: HandOff::default(),
        }
    }

    fn rules(&self) -> &ConnectorRules<Self> {
        &self.rules
    }

    fn asked_limits(&self, inbound: u32, outbound: u32) -> ReadLimits {
        self.core.options.asked_limits(inbound, outbound)
    }

    fn caller_data(&self, peer: IpAddr) -> u32 {
        self.core.options.for_peer(peer).private_data
    }

    fn callee_data(&self, peer: Option<IpAddr>) -> u32 {
        let options = &self.core.options;
        peer.map_or(options.private_data, |peer| self.caller_data(peer))
    }

    fn queue_pair(&self, qp: &Arc<dyn QueuePair>) -> Result<Arc<Qp>> {
        let qp = own::queue_pair::<QpHandle>(qp, &self.core)?;
        Ok(Arc::clone(&qp.line().0))
    }

    fn claim(&self, qp: &Arc<Qp>) -> Result<()> {
        qp.claim(self.rules.this().clone())
    }

    fn unclaim(&self, qp: &Qp) {
        qp.unclaim();
    }

    fn bind(&self, address: SocketAddr) -> Result<Binding<Bound>> {
        self.binding(address)
    }

    fn connect(&self, state: &mut ConnectorState, attempt: Attempt<'_, ()>) {
        self.start_attempt(state, &attempt);
    }

    fn complete_connect(&self, state: &mut ConnectorState) -> Result<(), Error> {
        self.complete(state);
        Ok(())
    }

    fn offer(&self, state: &mut ConnectorState, request: ConnectionRequest) -> bool {
        self.take_request(state, request)
    }

    fn take_back(&self, state: &mut ConnectorState) -> Option<ConnectionRequest> {
        match std::mem::take(&mut state.line.setup) {
            Setup::Offered(passive) => passive.into_request(),
            _ => None,
        }
    }

    fn look_for_end(&self, state: &mut ConnectorState) {
        self.look_for_peers_end(state);
    }

    fn accept(&self, state: &mut ConnectorState, acceptance: Acceptance<'_, Qp, ()>) {
        self.reply(state, acceptance);
    }

    /// Answers a request with R = 1 (MPA-019).
    fn refuse_request(&self, state: &mut ConnectorState, private_data: &[u8]) -> Result<()> {
        if let Setup::Offered(passive) = std::mem::take(&mut state.line.setup) {
            passive.reject(private_data);
        }
        Ok(())
    }

    fn drop_request(&self, state: &mut ConnectorState) {
        state.line.setup = Setup::None;
    }

    /// The peer sees a reset, which distinguishes this from a refusal (AMB-004).
    fn give_up(&self, state: &mut ConnectorState, _: State) {
        state.end = Some(given_up("this side gave the attempt up"));
        let qp = state.qp.take();
        if let Setup::Connecting(active) = std::mem::take(&mut state.line.setup) {
            active.reset();
            qp.inspect(|qp| qp.unclaim());
        } else if let Some(qp) = qp {
            state
                .done
                .after(qp.abort(endpoint::ConnectionEnd::Disconnected));
        }
    }

    /// The peer sees the end of the stream, and no message on it (AMB-004, IW-017). MPA has no message that could carry the private
    /// data of a Reject (IW-018).
    fn reject_answer(&self, state: &mut ConnectorState) {
        state.end = Some(given_up("this side rejected the peer's answer"));
        let Setup::Answered(mut active) = std::mem::take(&mut state.line.setup) else {
            return;
        };
        match (active.take_stream(), state.qp.take()) {
            (Some((stream, _)), qp) => {
                stream.close_write();
                drop(qp.inspect(|qp| qp.unclaim()));
            }
            (None, Some(qp)) => state.done.after(qp.disconnect().1),
            (None, None) => {}
        }
    }

    fn disconnect(&self, state: &mut ConnectorState) -> bool {
        let Some(qp) = state.qp.clone() else {
            return true;
        };
        let (gone, deferred) = qp.disconnect();
        note_end(state);
        state.done.after(deferred);
        if !gone {
            state.done.after(qp.drive_from(Drivers::Control));
        }
        gone
    }

    /// The queue pair disconnects itself. For the client the connection ends here (CONN-116).
    fn end_released(&self, state: &mut ConnectorState) {
        note_end(state);
        self.show_flushed(state);
        state.qp = None;
    }

    fn forget_all(&self, state: &mut ConnectorState, _: State) {
        self.forget(state);
    }

    fn notifications_end(&self, state: &mut ConnectorState) {
        if let Some(guard) = state.line.guard.clone() {
            state.done.last(guard);
        }
    }

    fn entered(&self, state: &mut ConnectorState) {
        if !matches!(
            state.state(),
            State::Connecting | State::Answered | State::Offered | State::Accepting
        ) {
            state.line.setup = Setup::None;
        }
    }

    fn released(&self, state: &mut ConnectorState) {
        self.show_flushed(state);
    }

    fn unlocked(&self) {
        self.attend();
    }

    fn connection_end(&self, state: &ConnectorState) -> Option<ConnectionEnd> {
        state
            .end
            .clone()
            .or_else(|| connection_end::of_queue_pair(state.qp.as_ref()?))
    }

    fn transport(&self, state: &ConnectorState) -> Option<&'static str> {
        state.line.transport
    }

    fn waits(&self, state: &ConnectorState) -> Option<String> {
        removal::waits(state)
    }
}

/// Keeps the reason why the connection ended, also when the queue pair is gone.
fn note_end(state: &mut ConnectorState) {
    if state.end.is_none() {
        state.end = state.qp.as_ref().and_then(connection_end::of_queue_pair);
    }
}

fn given_up(what: &'static str) -> ConnectionEnd {
    ConnectionEnd::new(EndedBy::ThisSide, EndReason::Disconnect, what)
}

impl Connector {
    /// Takes up the signals of the queue pair that no thread has taken up yet.
    fn attend(&self) {
        self.signals.attend(|signals| {
            self.rules
                .try_with(|state| self.take(state, Signals::from_bits_truncate(signals.take())))
        });
    }

    fn take(&self, state: &mut ConnectorState, signals: Signals) {
        self.accepting(state, signals);
        let mut end = Signals::ENDS;
        if planted!(NotificationLate) {
            end = Signals::GONE;
        }
        if signals.intersects(end) {
            note_end(state);
            self.show_flushed(state);
            let event = match signals.contains(Signals::GONE) {
                true => Event::ConnectionEnds,
                false => Event::PeerLeaves,
            };
            ConnectorRules::happens(self, state, event);
        }
    }
}

impl ConnectionOwner for Connector {}

impl queue_pair::ConnectionOwner for Connector {
    fn signalled(&self, signals: Signals) {
        self.signals.leave(signals.bits());
        self.attend();
    }
}

impl Source for Connector {
    fn ready(&self, edges: Edges) -> Turn {
        let mut state = self.rules.lock(self);
        match &mut state.line.setup {
            Setup::Connecting(active) => {
                let outcome = active.ready(edges);
                self.active_side_came_to(&mut state, outcome);
            }
            Setup::Offered(_) => self.look_for_peers_end(&mut state),
            _ => {}
        }
        Turn::default()
    }
}

impl Timed for Connector {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut state = self.rules.lock(self);
        match &mut state.line.setup {
            Setup::Connecting(active) | Setup::Answered(active) => {
                let outcome = active.expired(key);
                self.active_side_came_to(&mut state, outcome);
            }
            Setup::Accepting(passive) => {
                let outcome = passive.expired(key);
                self.passive_side_came_to(&mut state, outcome);
            }
            _ => {}
        }
    }
}
