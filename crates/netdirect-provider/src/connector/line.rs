//! The functions of a provider that the rules of connectors need, and the state that both share.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use netdirect::{
    ConnectionEnd, Error, OverlappedFile, PendingOverlapped, QueuePair, ReadLimits, Result, Status,
};
use parking_lot::Mutex;

use super::machine::State;
use crate::adapter::ProviderAdapter;
use crate::listener::AwaitedListener;
use crate::requests::{Action, AfterUnlock, Requests};

/// A local address that no attempt has used yet.
#[derive(Debug)]
pub struct Binding<B> {
    /// The reservation.
    pub bound: B,
    /// The address, with the port that was picked.
    pub local: SocketAddr,
}

/// A Connect that begins.
#[derive(Debug)]
pub struct Attempt<'a, C> {
    /// The peer's address.
    pub destination: SocketAddr,
    /// The client's read limits, cut by [`ConnectorLine::asked_limits`].
    pub limits: ReadLimits,
    /// The client's private data.
    pub private_data: &'a [u8],
    /// The result of the claim of the queue pair.
    pub claim: C,
}

/// An Accept that begins.
#[derive(Debug)]
pub struct Acceptance<'a, Q, C> {
    /// The queue pair.
    pub qp: Arc<Q>,
    /// The client's read limits, cut by [`ConnectorLine::asked_limits`].
    pub limits: ReadLimits,
    /// The client's private data.
    pub private_data: &'a [u8],
    /// The result of the claim of the queue pair.
    pub claim: C,
}

/// A provider's connector: the line below the rules.
///
/// Most methods get the locked state, and report results by [`ConnectorRules::happens`] and [`ConnectorRules::fails`]. Work that must not
/// be done under the lock they put into [`ConnectorState::done`]. Methods that some lines do not need do nothing by default.
pub trait ConnectorLine: Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;
    /// The provider's queue pairs.
    type QueuePair: Send + Sync;
    /// The value that a queue pair gives to the connector that claims it.
    type Claim;
    /// The reservation of a local address.
    type Bound: Send;
    /// A peer's request for a connection.
    type PeerRequest;
    /// The state that the line keeps under the connector's lock.
    type State: Default + Send;
    /// Work to do once the connector is unlocked.
    type Action: Action + Send;

    /// Makes a connector that contains these rules.
    fn new(rules: ConnectorRules<Self>) -> Self;

    /// Returns the rules that this connector contains.
    fn rules(&self) -> &ConnectorRules<Self>;

    // ---- checks ----

    /// Returns the read limits for a client's request: limits above the adapter's are cut, without an error (CONN-027).
    fn asked_limits(&self, inbound: u32, outbound: u32) -> ReadLimits;

    /// Returns the most private data of a Connect to this peer, in octets.
    fn caller_data(&self, peer: IpAddr) -> u32;

    /// Returns the most private data of an Accept or Reject, in octets.
    fn callee_data(&self, peer: Option<IpAddr>) -> u32;

    // ---- queue pairs and addresses ----

    /// Returns the provider's queue pair behind a client's reference.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER_1`](netdirect::Status::INVALID_PARAMETER_1): it is not one of this adapter's (CONN-062).
    fn queue_pair(&self, qp: &Arc<dyn QueuePair>) -> Result<Arc<Self::QueuePair>>;

    /// Reserves a queue pair for a connection of this connector.
    ///
    /// # Errors
    ///
    /// It has a connection, or had one (CONN-020, CONN-054, AMB-035).
    fn claim(&self, qp: &Arc<Self::QueuePair>) -> Result<Self::Claim>;

    /// Ends the reservation before anything was done with the queue pair.
    fn unclaim(&self, qp: &Self::QueuePair);

    /// Reserves a local address. With port 0, a port is picked.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::bind`](netdirect::Connector::bind).
    fn bind(&self, address: SocketAddr) -> Result<Binding<Self::Bound>>;

    // ---- the active side ----

    /// Begins to connect. Ends in [`PeerAccepts`](super::machine::Event::PeerAccepts) or
    /// [`AttemptFails`](super::machine::Event::AttemptFails), possibly at once.
    fn connect(&self, state: &mut ConnectorState<Self>, attempt: Attempt<'_, Self::Claim>);

    /// Completes a connection that the peer has accepted.
    ///
    /// # Errors
    ///
    /// The connector cannot be used any more (CONN-047). A connection that has ended already is no error (CONN-042).
    fn complete_connect(&self, state: &mut ConnectorState<Self>) -> Result<(), Error>;

    // ---- the passive side ----

    /// Takes a peer's request. Fills in addresses, read limits and private data of the state. Returns false if the peer has disconnected.
    fn offer(&self, state: &mut ConnectorState<Self>, request: Self::PeerRequest) -> bool;

    /// Gives the peer's request back. `None` if the peer has disconnected. Afterwards the rules remove the values that
    /// [`offer`](Self::offer) has filled in.
    fn take_back(&self, state: &mut ConnectorState<Self>) -> Option<Self::PeerRequest>;

    /// Notices a peer that has given up its request, for lines that are not notified of this.
    fn look_for_end(&self, state: &mut ConnectorState<Self>) {
        let _ = state;
    }

    /// Answers the peer's request. Ends in [`PeerCompletes`](super::machine::Event::PeerCompletes) or
    /// [`AcceptFails`](super::machine::Event::AcceptFails), possibly at once.
    fn accept(
        &self,
        state: &mut ConnectorState<Self>,
        acceptance: Acceptance<'_, Self::QueuePair, Self::Claim>,
    );

    // ---- acts of the machine ----

    /// Refuses the peer of the request, with the private data of Reject.
    ///
    /// # Errors
    ///
    /// [`CONNECTION_ABORTED`](netdirect::Status::CONNECTION_ABORTED): the peer has given up (CONN-071).
    fn refuse_request(&self, state: &mut ConnectorState<Self>, private_data: &[u8]) -> Result<()>;

    /// Drops the request of a peer that has disconnected.
    fn drop_request(&self, state: &mut ConnectorState<Self>);

    /// Gives up the Connect or Accept that was under way.
    fn give_up(&self, state: &mut ConnectorState<Self>, from: State);

    /// Rejects a peer that has accepted.
    fn reject_answer(&self, state: &mut ConnectorState<Self>);

    /// Begins to end the connection. Returns true if it has ended already. Otherwise
    /// [`ConnectionEnds`](super::machine::Event::ConnectionEnds) follows.
    fn disconnect(&self, state: &mut ConnectorState<Self>) -> bool;

    /// The connection of a Disconnect has ended. The line may put the end of the requests off, until the queue pair has ended: by default
    /// they end when the connector is unlocked.
    fn finish_disconnect(&self, state: &mut ConnectorState<Self>) {
        state.end_disconnect();
    }

    /// The peer, or an error, has ended the connection. CompleteConnect was called for it if `from` is [`Connected`](State::Connected).
    fn peer_has_left(&self, state: &mut ConnectorState<Self>, from: State) {
        let _ = (state, from);
    }

    /// The client has flushed the queue pair, which ends the connection.
    fn end_flushed(&self, state: &mut ConnectorState<Self>) {
        let _ = state;
    }

    /// The client has released the queue pair, which ends the connection.
    fn end_released(&self, state: &mut ConnectorState<Self>);

    /// The client no longer waits for the end of the connection.
    fn leave_disconnect(&self, state: &mut ConnectorState<Self>) {
        let _ = state;
    }

    /// The device was removed: drops everything.
    fn forget_all(&self, state: &mut ConnectorState<Self>, from: State);

    // ---- other events ----

    /// Requests of NotifyDisconnect are going to end. A line that holds flushed requests back until then (CONN-106) puts its guard
    /// last into [`ConnectorState::done`].
    fn notifications_end(&self, state: &mut ConnectorState<Self>) {
        let _ = state;
    }

    /// The connector has entered another state.
    fn entered(&self, state: &mut ConnectorState<Self>) {
        let _ = state;
    }

    /// The client has released its last reference.
    fn released(&self, state: &mut ConnectorState<Self>) {
        let _ = state;
    }

    /// The connector was unlocked, and all work is done.
    fn unlocked(&self) {}

    /// Returns the reason why the connection ended, or why the last attempt failed, if there is one.
    fn connection_end(&self, state: &ConnectorState<Self>) -> Option<ConnectionEnd> {
        state.end.clone()
    }

    /// Returns the name of the transport of the connection, if there is or was one and the line knows it.
    fn transport(&self, state: &ConnectorState<Self>) -> Option<&'static str> {
        let _ = state;
        None
    }

    /// Returns the event that the requests of the connector wait for, in words. `None` if none is in flight.
    fn waits(&self, state: &ConnectorState<Self>) -> Option<String> {
        let _ = state;
        None
    }
}

/// The rules that all connectors share.
pub struct ConnectorRules<L: ConnectorLine> {
    pub(super) adapter: Arc<L::Adapter>,
    /// Where requests end.
    pub(super) file: Arc<dyn OverlappedFile>,
    this: Weak<L>,
    pub(super) state: Mutex<ConnectorState<L>>,
}

/// The state of a connector.
pub struct ConnectorState<L: ConnectorLine> {
    pub(super) state: State,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// The reservation of the local address, until an attempt uses it up.
    pub bound: Option<L::Bound>,
    /// The client has neither chosen nor seen the local port, so another port may take its place.
    pub picked: bool,
    /// The last attempt failed and may be repeated: Bind replaces the binding (AMB-034).
    pub failed: bool,
    /// The peer's address.
    pub peer: Option<SocketAddr>,
    /// The peer's private data.
    pub private_data: Option<Vec<u8>>,
    /// The read limits that hold, or that the peer offers.
    pub limits: Option<ReadLimits>,
    /// The queue pair of the connection.
    pub qp: Option<Arc<L::QueuePair>>,
    /// The connection has ended, though the client has not disconnected.
    pub ended: bool,
    /// The reason why the last attempt failed, or why the connection ended, once the line knows it.
    pub end: Option<ConnectionEnd>,
    /// The state of the line.
    pub line: L::State,
    /// Work to do once the connector is unlocked.
    pub done: AfterUnlock<L::Action>,
    /// The address that [`bound`](Self::bound) reserves.
    pub(super) reserved: Option<SocketAddr>,
    pub(super) requests: Requests,
    /// The listener at which the connector waits, or at which its request has arrived.
    pub(super) listener: Option<Weak<dyn AwaitedListener<L>>>,
}

impl<L: ConnectorLine> ConnectorRules<L> {
    pub(super) fn new(
        adapter: Arc<L::Adapter>,
        file: Arc<dyn OverlappedFile>,
        this: Weak<L>,
    ) -> Self {
        let state = ConnectorState {
            state: State::Idle,
            local: None,
            bound: None,
            picked: false,
            failed: false,
            peer: None,
            private_data: None,
            limits: None,
            qp: None,
            ended: false,
            end: None,
            line: L::State::default(),
            done: AfterUnlock::default(),
            reserved: None,
            requests: Requests::default(),
            listener: None,
        };
        Self {
            adapter,
            file,
            this,
            state: Mutex::new(state),
        }
    }

    /// Returns the adapter that the connector belongs to.
    pub fn adapter(&self) -> &Arc<L::Adapter> {
        &self.adapter
    }

    /// Returns the connector that contains these rules.
    pub fn this(&self) -> &Weak<L> {
        &self.this
    }
}

impl<L: ConnectorLine> fmt::Debug for ConnectorRules<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorRules").finish_non_exhaustive()
    }
}

impl<L: ConnectorLine> ConnectorState<L> {
    /// Returns the state of the connector.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns true if a request is in flight.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Takes a local address.
    pub fn take_binding(&mut self, binding: Binding<L::Bound>, picked: bool) {
        self.local = Some(binding.local);
        self.reserved = self.local;
        self.bound = Some(binding.bound);
        self.picked = picked;
        self.failed = false;
    }

    /// Ends the requests of NotifyDisconnect, and then the Disconnect (AMB-033).
    pub fn end_disconnect(&mut self) {
        let notifications = self.requests.take_notifications();
        self.done.end(notifications, Status::SUCCESS);
        let disconnect = self.requests.take_state_change();
        self.done.end(disconnect, Status::SUCCESS);
    }

    /// Takes out the requests of NotifyDisconnect and the Disconnect, for a line that ends them in this order (AMB-033).
    pub fn take_disconnect(&mut self) -> (Vec<PendingOverlapped>, Vec<PendingOverlapped>) {
        (
            self.requests.take_notifications(),
            self.requests.take_state_change(),
        )
    }

    /// The connector has no peer any more, and its address is the reserved one, if there is one.
    pub(super) fn forget_peer(&mut self) {
        self.local = self.reserved.filter(|_| self.bound.is_some());
        (self.peer, self.private_data, self.limits) = (None, None, None);
    }
}
