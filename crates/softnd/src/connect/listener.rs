//! Listeners, ND2's `IND2Listener`. An [`Acceptor`] accepts peers and reads their Requests. The backlog of whole Requests, and
//! the connectors that wait for one, are here.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::{Bound, local_ports};
use netdirect::{
    Call, Error, Overlapped, OverlappedFile, OverlappedObject, PendingOverlapped, Result, Started,
    Status,
};
use netdirect_provider::checks::{addresses, own};
use parking_lot::Mutex;

use super::backlog::Backlog;
use super::connector::{self, AwaitedListener, Connector};
use super::requests::Done;
use crate::core::{Core, UNSTATED_READ_LIMIT};
use crate::device::{Device, DeviceListEntry, DeviceObject, RemovalOrder};
use crate::file::File;
use crate::status::{bind_error, bind_status, fail};
use iwarp_io::descriptors;
use iwarp_io::limited;
use iwarp_io::setup::{
    Acceptor, AcceptorConfig, AcceptorOwner, ConnectionRequest, Incoming, ResponderConfig,
};

/// The backlog when the client asks for no limit (LSTN-016), and no more than half of the descriptors of the process.
const LONGEST_BACKLOG: usize = 16 * 1024;

/// The listener itself.
pub(crate) struct Listener {
    core: Arc<Core>,
    file: Arc<File>,
    acceptor: Arc<Acceptor>,
    /// Not locked while the acceptor is called, but for [`Acceptor::listen`] and [`Acceptor::watch`].
    state: Mutex<ListenerState>,
    this: Weak<Self>,
}

#[derive(Default)]
struct ListenerState {
    address: Option<SocketAddr>,
    bound: Vec<Bound>,
    listens: bool,
    /// The most Requests that wait.
    backlog: usize,
    /// Requests that come from now on are refused.
    closed: bool,
    queue: Backlog,
    waiting: VecDeque<(Arc<Connector>, PendingOverlapped)>,
}

impl ListenerState {
    /// Takes a connector out of the list of those that wait for a request.
    fn no_longer_waits(&mut self, connector: &Connector) -> Option<PendingOverlapped> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|(waiting, _)| std::ptr::eq(&**waiting, connector))?;
        self.waiting.remove(at).map(|(_, request)| request)
    }

    /// Puts a whole Request into the backlog. Returns the Request that has to be refused, if one has to: this one, or one that gives
    /// way to it (IW-055).
    #[must_use]
    fn queue(&mut self, incoming: Arc<Incoming>) -> Option<Arc<Incoming>> {
        if incoming.has_ended() {
            return None; // the peer has gone since its Request came
        }
        if self.closed {
            return Some(incoming);
        }
        let is_full = self.waiting.is_empty() && self.queue.len() >= self.backlog;
        let mut gives_way = None;
        if is_full {
            gives_way = self.queue.give_way_to(&incoming);
            if gives_way.is_none() {
                return Some(incoming);
            }
        }
        self.queue.push_back(incoming);
        gives_way
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("address", &self.state.lock().address)
            .finish_non_exhaustive()
    }
}

impl Listener {
    fn new(core: Arc<Core>, file: Arc<File>) -> Arc<Self> {
        let timeouts = &core.options.timeouts;
        let config = AcceptorConfig {
            responder: ResponderConfig {
                most: core.read_limits(),
                unstated: UNSTATED_READ_LIMIT,
                request_within: timeouts.request,
                ready_within: timeouts.ready,
            },
            faults: core.device.faults().cloned(),
            fault_owner: Arc::<Device>::clone(&core.device),
        };
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            acceptor: Acceptor::new(&core.driver, config, this.clone()),
            core,
            file,
            state: Mutex::default(),
            this: this.clone(),
        })
    }

    /// The addresses that a Bind to `address` covers.
    fn covered(&self, address: SocketAddr) -> Result<Vec<IpAddr>> {
        let serves = |ip| self.core.serves(ip);
        addresses::covered(address.ip(), &self.core.addresses, serves)
    }

    fn bind(&self, address: SocketAddr) -> Result<()> {
        let mut state = self.state.lock();
        if state.address.is_some() {
            return fail(
                Status::ADDRESS_ALREADY_ASSOCIATED,
                "the listener is bound already",
            ); // LSTN-011
        }
        let covered = self.covered(address)?;
        self.core.device.admit(Call::BindListener)?;
        let bound = local_ports::bind_all(
            &self.core.driver.transport,
            &covered,
            address.port(),
            Purpose::Listening,
        );
        let (bound, port) = bound.map_err(|why| bind_error(&why))?;
        state.bound = bound;
        state.address = Some(SocketAddr::new(address.ip(), port));
        Ok(())
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        let mut state = self.state.lock();
        self.core.device.present()?; // GEN-015
        // The first call takes the addresses, so that a second call finds none.
        if state.bound.is_empty() {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the listener is not bound, or listens already",
            ); // LSTN-017, -018
        }
        self.core.device.admit(Call::Listen)?;
        let descriptors = descriptors::limit();
        let longest = LONGEST_BACKLOG.min(descriptors / 2).max(1);
        state.backlog = match backlog {
            0 => longest,
            some => usize::try_from(some).unwrap_or(longest).min(longest),
        };
        let limits = self.core.options.half_open_limits(descriptors);
        let bound = std::mem::take(&mut state.bound);
        let listening = self.acceptor.listen(bound, state.address, limits);
        listening
            .map_err(|error| Error::new(bind_status(&error), format!("cannot listen: {error}")))?;
        state.listens = true;
        Ok(())
    }

    fn get_connection_request(
        &self,
        connector: Arc<Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let mut state = self.state.lock();
        self.core.device.present()?; // LSTN-026
        if !state.listens {
            return fail(Status::INVALID_DEVICE_STATE, "the listener does not listen"); // LSTN-030
        }
        connector.wait_for_request(self.this.clone())?;
        let file: Arc<dyn OverlappedFile> = self.file.clone();
        let request = overlapped
            .begin(&file)
            .inspect_err(|_| connector.request_cancelled())?;
        state.waiting.push_back((connector, request));
        drop(state);
        self.match_up();
        Ok(Started::Pending)
    }

    /// Ends the wait of a connector for a request, or takes back the request that the connector was given.
    fn withdraw(&self, connector: &Connector) -> Result<()> {
        let mut done = Done::default();
        let mut state = self.state.lock();
        if let Some(request) = state.no_longer_waits(connector) {
            connector.request_cancelled();
            done.push(Some(request), Status::CANCELED);
        } else {
            let this: Weak<dyn AwaitedListener> = self.this.clone();
            if let Some(request) = connector.take_back(&this)? {
                self.queue_again(&mut state, request);
            }
        }
        drop(state);
        done.deliver();
        self.match_up();
        Ok(())
    }

    /// Puts a request that a connector has given back in front of the backlog.
    fn queue_again(&self, state: &mut ListenerState, request: ConnectionRequest) {
        match self.acceptor.watch(request) {
            Ok(incoming) => state.queue.push_front(incoming),
            Err(error) => limited!(error, %error, "a peer that came back is lost"),
        }
    }

    /// Gives queued requests to waiting connectors.
    fn match_up(&self) {
        let mut done = Done::default();
        {
            let mut state = self.state.lock();
            while let Some(connector) = Self::next_waiting(&mut state, &mut done) {
                let Some(incoming) = state.queue.pop_front() else {
                    break;
                };
                // The peer may have gone between its Request and now.
                let Some(request) = incoming.take() else {
                    continue;
                };
                let waited = state.waiting.pop_front().map(|(_, waited)| waited);
                match connector.offer(request) {
                    None => done.push(waited, Status::SUCCESS),
                    // The client has released the connector this very moment: the next one gets the request (LSTN-032).
                    Some(request) => {
                        self.queue_again(&mut state, request);
                        done.push(waited, Status::CANCELED);
                    }
                }
            }
        }
        done.deliver();
    }

    /// The connector that gets the next request. Connectors that their clients have released are left out.
    fn next_waiting(state: &mut ListenerState, done: &mut Done) -> Option<Arc<Connector>> {
        while let Some((connector, _)) = state.waiting.front() {
            if connector.is_waiting() {
                return Some(Arc::clone(connector));
            }
            let released = state.waiting.pop_front();
            done.push(released.map(|(_, request)| request), Status::CANCELED);
        }
        None
    }

    /// Ends all requests in flight.
    fn end_requests(&self, status: Status) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        let mut done = Done::default();
        for (connector, request) in waiting {
            connector.request_cancelled();
            done.push(Some(request), status);
        }
        done.deliver();
    }

    /// Refuses the peers in the backlog and those that come later (LSTN-033). Requests in flight end with `status`.
    fn close(&self, status: Status) {
        self.acceptor.close();
        let queue = {
            let mut state = self.state.lock();
            state.bound.clear();
            state.closed = true;
            state.queue.take()
        };
        for incoming in &queue {
            incoming.refuse();
        }
        self.end_requests(status);
    }
}

impl AwaitedListener for Listener {
    /// Its request ends at once (LSTN-025).
    fn connector_released(&self, connector: &Connector) {
        let request = self.state.lock().no_longer_waits(connector);
        if let Some(request) = request {
            request.complete(Status::CANCELED);
        }
    }
}

impl AcceptorOwner for Listener {
    fn requested(&self, incoming: Arc<Incoming>) {
        let refused = self.state.lock().queue(incoming);
        if let Some(refused) = refused {
            refused.refuse();
        }
        self.match_up();
    }

    fn ended(&self, key: u64) {
        let ended = {
            let mut state = self.state.lock();
            state.queue.remove(key)
        };
        drop(ended);
    }
}

impl DeviceObject for Listener {
    fn waits(&self) -> Option<String> {
        let state = self.state.try_lock()?;
        let (count, address) = (state.waiting.len(), state.address?);
        (count > 0).then(|| {
            format!("GetConnectionRequest ({count} in flight) waits for a peer that connects to {address}")
        })
    }

    /// Requests in flight end with ND_DEVICE_REMOVED, and peers that wait are refused (GEN-015).
    fn device_removed(&self) {
        self.state.lock().address = None;
        self.close(Status::DEVICE_REMOVED);
    }
}

/// The client's reference to a listener.
#[derive(Debug)]
pub(crate) struct ListenerHandle(
    pub(crate) Arc<Listener>,
    #[expect(dead_code, reason = "kept until it is dropped")] DeviceListEntry,
);

impl ListenerHandle {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Result<Self> {
        let device = Arc::clone(&core.device);
        let listener = Listener::new(core, file);
        let this = Arc::downgrade(&(Arc::clone(&listener) as Arc<dyn DeviceObject>));
        Ok(Self(
            listener,
            device.add_object(RemovalOrder::Listener, this)?,
        ))
    }

    /// The connector, if it is one of this adapter's.
    fn own(
        &self,
        connector: &Arc<dyn netdirect::Connector>,
    ) -> Result<Arc<connector::ConnectorHandle>> {
        own::connector(connector, &self.0.core)
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.0.close(Status::CANCELED); // LSTN-025
    }
}

impl OverlappedObject for ListenerHandle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.end_requests(Status::CANCELED);
        Ok(())
    }
}

impl netdirect::Listener for ListenerHandle {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        self.0.bind(address)
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        self.0.listen(backlog)
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        let address = self.0.state.lock().address;
        address.ok_or_else(|| Error::new(Status::INVALID_DEVICE_STATE, "the listener is not bound")) // LSTN-021
    }

    fn get_connection_request(
        &self,
        connector: &Arc<dyn netdirect::Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let connector = self.own(connector)?;
        self.0
            .get_connection_request(Arc::clone(&connector.0), overlapped)
    }

    fn withdraw(&self, connector: &Arc<dyn netdirect::Connector>) -> Result<()> {
        self.0.withdraw(&self.own(connector)?.0)
    }
}
