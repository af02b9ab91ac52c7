//! Listeners, ND2's `IND2Listener`: the backlog of peers' requests, and the connectors that wait for one.
//!
//! A provider's listener contains [`ListenerRules`] and implements [`ListenerLine`], the functions that the rules need of the line below:
//! addresses, and peers. Clients get a [`ListenerHandle`].

mod backlog;
mod handle;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use netdirect::{Call, Error, Overlapped, OverlappedFile, PendingOverlapped, Result, Status};
use parking_lot::Mutex;

use crate::adapter::ProviderAdapter;
use crate::checks::addresses;
use crate::error::{fail, request_ends};
use crate::requests::AfterUnlock;

pub use backlog::{Backlog, Keyed, Queue};
pub use handle::ListenerHandle;

/// A connector, for the listener at which it waits for a peer's request. The listener calls it with the listener locked.
pub trait WaitingConnector: Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter;
    /// A peer's request.
    type PeerRequest;

    /// Returns the connector behind a client's reference.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER_1`](Status::INVALID_PARAMETER_1): it is not one of this adapter's.
    fn of_client(
        connector: &Arc<dyn netdirect::Connector>,
        adapter: &Arc<Self::Adapter>,
    ) -> Result<Arc<Self>>;

    /// Has the connector wait for a request of this listener.
    ///
    /// # Errors
    ///
    /// The connector is in use, or was used before (LSTN-031).
    fn wait_for_request(&self, listener: Weak<dyn AwaitedListener<Self>>) -> Result<()>;

    /// Ends the wait without a request: the connector returns to its state before the wait.
    fn request_cancelled(&self);

    /// Returns true if the connector can be offered a request.
    fn is_waiting(&self) -> bool;

    /// Passes a peer's request to the connector. It comes back if the client has released the connector meanwhile.
    fn offer(&self, request: Self::PeerRequest) -> Option<Self::PeerRequest>;

    /// Takes back a request that was offered and is not answered yet: the connector returns to its state before the wait. `None` if the
    /// peer has given up.
    ///
    /// # Errors
    ///
    /// [`CONNECTION_INVALID`](Status::CONNECTION_INVALID): the connector holds no request of this listener.
    fn take_back(
        &self,
        listener: &Weak<dyn AwaitedListener<Self>>,
    ) -> Result<Option<Self::PeerRequest>>;
}

/// The listener at which a connector waits.
pub trait AwaitedListener<C>: Send + Sync {
    /// The client has released the connector. Called with the connector unlocked.
    fn connector_released(&self, connector: &C);
}

/// The request that a connector of this line is offered.
pub type Offered<L> = <<L as ListenerLine>::Connector as WaitingConnector>::PeerRequest;

/// The request that waits in the backlog of this line.
pub type Queued<L> = <<L as ListenerLine>::Backlog as Backlog>::PeerRequest;

/// A provider's listener: the line below the rules.
pub trait ListenerLine: Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;
    /// The provider's connectors.
    type Connector: WaitingConnector<Adapter = Self::Adapter>;
    /// Where peers' requests wait.
    type Backlog: Backlog;
    /// Addresses that are reserved, or listened on.
    type Bound: Send;

    /// Makes a listener that contains these rules.
    fn new(rules: ListenerRules<Self>) -> Self;

    /// Returns the rules that this listener contains.
    fn rules(&self) -> &ListenerRules<Self>;

    /// Returns the addresses that a Bind to this one covers: see [`addresses::covered`].
    ///
    /// # Errors
    ///
    /// [`INVALID_ADDRESS`](Status::INVALID_ADDRESS).
    fn covered(&self, ip: IpAddr) -> Result<Vec<IpAddr>> {
        let adapter = &self.rules().adapter;
        addresses::covered(ip, adapter.addresses(), |ip| adapter.serves(ip))
    }

    /// Reserves a port of all these addresses. With port 0, one that is free on all of them.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::bind`](netdirect::Listener::bind).
    fn bind(&self, addresses: &[IpAddr], port: u16) -> Result<(Self::Bound, u16)>;

    /// Returns the longest backlog that the adapter can have now (LSTN-016).
    fn longest_backlog(&self) -> usize;

    /// Begins to listen on `address`, with its reservation in `bound`. Peers' requests go to [`ListenerRules::arrived`], which waits until
    /// this call has returned. A reservation left in `bound` stays bound. If the call fails and leaves none, the listener is not bound.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::listen`](netdirect::Listener::listen).
    fn listen(&self, bound: &mut Option<Self::Bound>, address: SocketAddr) -> Result<()>;

    /// Stops accepting peers. Called before the backlog is emptied, and with no lock held.
    fn stop(&self);

    /// Gives the addresses back.
    fn unbind(&self, bound: Self::Bound);

    /// Returns true if the peer has disconnected since its request arrived. Then [`ListenerRules::peer_gone`] may have been called already.
    fn has_gone(&self, request: &Queued<Self>) -> bool {
        let _ = request;
        false
    }

    /// Takes a request out of the backlog's form, for a connector. `None` if the peer has disconnected.
    fn take(&self, request: Queued<Self>) -> Option<Offered<Self>>;

    /// Puts a request that a connector has given back into the form of the backlog. `None` if it is lost.
    fn watch(&self, request: Offered<Self>) -> Option<Queued<Self>>;

    /// Refuses a peer. Called with no lock held.
    fn refuse(&self, request: Queued<Self>);
}

/// The rules that all listeners share.
pub struct ListenerRules<L: ListenerLine> {
    adapter: Arc<L::Adapter>,
    /// Where requests end.
    file: Arc<dyn OverlappedFile>,
    this: Weak<L>,
    /// Not locked while the line is called, but for what Bind and Listen call, and for the two
    /// conversions of requests.
    state: Mutex<ListenerState<L>>,
}

struct ListenerState<L: ListenerLine> {
    address: Option<SocketAddr>,
    bound: Option<L::Bound>,
    listens: bool,
    /// The most requests that wait.
    backlog: usize,
    /// Requests that arrive from now on are refused.
    closed: bool,
    queue: L::Backlog,
    waiting: VecDeque<(Arc<L::Connector>, PendingOverlapped)>,
}

impl<L: ListenerLine> ListenerRules<L> {
    fn new(adapter: Arc<L::Adapter>, file: Arc<dyn OverlappedFile>, this: Weak<L>) -> Self {
        let state = ListenerState {
            address: None,
            bound: None,
            listens: false,
            backlog: 0,
            closed: false,
            queue: L::Backlog::default(),
            waiting: VecDeque::new(),
        };
        Self {
            adapter,
            file,
            this,
            state: Mutex::new(state),
        }
    }

    /// Returns the adapter that the listener belongs to.
    pub fn adapter(&self) -> &Arc<L::Adapter> {
        &self.adapter
    }

    /// Returns the listener that contains these rules.
    pub fn this(&self) -> &Weak<L> {
        &self.this
    }
}

impl<L: ListenerLine> std::fmt::Debug for ListenerRules<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerRules")
            .field("address", &self.state.lock().address)
            .finish_non_exhaustive()
    }
}

type Ends = AfterUnlock<Infallible>;

impl<L: ListenerLine> ListenerState<L> {
    /// Takes a connector out of the list of those that wait for a request.
    fn no_longer_waits(&mut self, connector: &L::Connector) -> Option<PendingOverlapped> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|(waiting, _)| std::ptr::eq(&**waiting, connector))?;
        self.waiting.remove(at).map(|(_, request)| request)
    }

    /// Puts a peer's request into the backlog. Returns the request that has to be refused, if there is one: this one, or one that gives way
    /// to it.
    #[must_use]
    fn queue(&mut self, line: &L, request: Queued<L>) -> Option<Queued<L>> {
        if line.has_gone(&request) {
            return None;
        }
        if self.closed || !self.listens {
            return Some(request);
        }
        let is_full = self.waiting.is_empty() && self.queue.len() >= self.backlog;
        let mut gives_way = None;
        if is_full {
            gives_way = self.queue.give_way_to(&request);
            if gives_way.is_none() {
                return Some(request);
            }
        }
        self.queue.push_back(request);
        gives_way
    }

    /// The connector that gets the next request. Connectors that their clients have released are left out.
    fn next_waiting(&mut self, ends: &mut Ends) -> Option<Arc<L::Connector>> {
        while let Some((connector, _)) = self.waiting.front() {
            if connector.is_waiting() {
                return Some(Arc::clone(connector));
            }
            let released = self.waiting.pop_front();
            ends.end(
                released.map(|(_, request)| request),
                request_ends(Status::CANCELED),
            );
        }
        None
    }
}

impl<L: ListenerLine> ListenerRules<L> {
    // ---- called by the line ----

    /// A peer's request has arrived. Called with no lock held.
    pub fn arrived(&self, line: &L, request: Queued<L>) {
        let refused = self.state.lock().queue(line, request);
        if let Some(refused) = refused {
            line.refuse(refused);
        }
        self.match_up(line);
    }

    /// The peer of the request with this key has disconnected. Returns the request if it was in the backlog.
    #[must_use]
    pub fn peer_gone(&self, key: u64) -> Option<Queued<L>> {
        self.state.lock().queue.remove(key)
    }

    /// The device was removed: requests in flight end with ND_DEVICE_REMOVED, and peers that wait are refused (GEN-015).
    fn device_removed(&self, line: &L) {
        self.state.lock().address = None;
        self.close(line, Status::DEVICE_REMOVED);
    }

    /// Returns the event that a request in flight waits for, in words. `None` if there is none, or if the listener is locked.
    fn waits(&self) -> Option<String> {
        let state = self.state.try_lock()?;
        let (count, address) = (state.waiting.len(), state.address?);
        (count > 0).then(|| {
            format!("GetConnectionRequest ({count} in flight) waits for a peer that connects to {address}")
        })
    }

    // ---- called by the client ----

    fn bind(&self, line: &L, address: SocketAddr) -> Result<()> {
        let mut state = self.state.lock();
        self.adapter.present()?;
        if state.address.is_some() {
            return fail(
                Status::ADDRESS_ALREADY_ASSOCIATED,
                "the listener is bound already",
            ); // LSTN-011
        }
        let covered = line.covered(address.ip())?;
        self.adapter.admit(Call::BindListener)?;
        let (bound, port) = line.bind(&covered, address.port())?;
        state.bound = Some(bound);
        state.address = Some(SocketAddr::new(address.ip(), port));
        Ok(())
    }

    fn listen(&self, line: &L, backlog: u32) -> Result<()> {
        let mut state = self.state.lock();
        self.adapter.present()?; // GEN-015
        let address = state.address.filter(|_| !state.listens);
        let Some(address) = address.filter(|_| state.bound.is_some()) else {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the listener is not bound, or listens already",
            ); // LSTN-017, -018
        };
        self.adapter.admit(Call::Listen)?;
        let longest = line.longest_backlog();
        state.backlog = match backlog {
            0 => longest,
            some => usize::try_from(some).unwrap_or(longest).min(longest),
        };
        if let Err(error) = line.listen(&mut state.bound, address) {
            state.address = state.bound.is_some().then_some(address);
            return Err(error);
        }
        state.listens = true;
        Ok(())
    }

    fn local_address(&self) -> Result<SocketAddr> {
        let address = self.state.lock().address;
        address.ok_or_else(|| Error::new(Status::INVALID_DEVICE_STATE, "the listener is not bound")) // LSTN-021
    }

    fn get_connection_request(
        &self,
        line: &Arc<L>,
        connector: Arc<L::Connector>,
        overlapped: &Overlapped,
    ) -> Result<()> {
        let mut state = self.state.lock();
        self.adapter.present()?; // LSTN-026
        if !state.listens {
            return fail(Status::INVALID_DEVICE_STATE, "the listener does not listen"); // LSTN-030
        }
        let this: Weak<L> = Arc::downgrade(line);
        connector.wait_for_request(this)?;
        let request = overlapped
            .begin(&self.file)
            .inspect_err(|_| connector.request_cancelled())?;
        state.waiting.push_back((connector, request));
        drop(state);
        self.match_up(line);
        Ok(())
    }

    /// Ends the wait of a connector for a request, or takes back the request that the connector was given.
    fn withdraw(&self, line: &Arc<L>, connector: &L::Connector) -> Result<()> {
        let mut ends = Ends::default();
        let mut state = self.state.lock();
        if let Some(request) = state.no_longer_waits(connector) {
            connector.request_cancelled();
            ends.end([request], request_ends(Status::CANCELED));
        } else {
            let this: Weak<L> = Arc::downgrade(line);
            let this: Weak<dyn AwaitedListener<L::Connector>> = this;
            if let Some(request) = connector.take_back(&this)? {
                Self::queue_again(line, &mut state, request);
            }
        }
        drop(state);
        ends.run();
        self.match_up(line);
        Ok(())
    }

    /// Puts a request that a connector has given back in front of the backlog.
    fn queue_again(line: &L, state: &mut ListenerState<L>, request: Offered<L>) {
        if let Some(request) = line.watch(request) {
            state.queue.push_front(request);
        }
    }

    /// Gives queued requests to waiting connectors.
    fn match_up(&self, line: &L) {
        let mut ends = Ends::default();
        {
            let mut state = self.state.lock();
            while let Some(connector) = state.next_waiting(&mut ends) {
                let Some(request) = state.queue.pop_front() else {
                    break;
                };
                // The peer may have disconnected between its request and now.
                let Some(request) = line.take(request) else {
                    continue;
                };
                let waited = state.waiting.pop_front().map(|(_, waited)| waited);
                match connector.offer(request) {
                    None => ends.end(waited, Status::SUCCESS),
                    // The client has released the connector at this moment: the next one gets the request (LSTN-032).
                    Some(request) => {
                        Self::queue_again(line, &mut state, request);
                        ends.end(waited, request_ends(Status::CANCELED));
                    }
                }
            }
        }
        ends.run();
    }

    /// Ends all requests in flight.
    fn end_requests(&self, status: Status) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        let mut ends = Ends::default();
        for (connector, request) in waiting {
            connector.request_cancelled();
            ends.end([request], request_ends(status));
        }
        ends.run();
    }

    /// Refuses the peers in the backlog and those that arrive later (LSTN-033). Requests in flight end with `status`.
    fn close(&self, line: &L, status: Status) {
        line.stop();
        let (bound, queue) = {
            let mut state = self.state.lock();
            state.closed = true;
            (state.bound.take(), state.queue.take())
        };
        if let Some(bound) = bound {
            line.unbind(bound);
        }
        for request in queue {
            line.refuse(request);
        }
        self.end_requests(status);
    }
}

impl<L: ListenerLine> AwaitedListener<L::Connector> for L {
    /// Its request ends at once (LSTN-025).
    fn connector_released(&self, connector: &L::Connector) {
        let request = self.rules().state.lock().no_longer_waits(connector);
        if let Some(request) = request {
            request.complete(request_ends(Status::CANCELED));
        }
    }
}
