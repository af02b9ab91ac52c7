//! Listeners, ND2's `IND2Listener`: the backlog of peers' requests, and the connectors that wait for one.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use netdirect::{
    Call, Error, Overlapped, OverlappedFile, OverlappedObject, PendingOverlapped, ReadLimits,
    Result, Started, Status,
};
use netdirect_provider::checks::{addresses, own};
use parking_lot::Mutex;

use super::connector::{
    AwaitedListener, Connector, ConnectorHandle, PeerRequest, received, reject,
};
use super::requests::Done;
use crate::core::{CmOwner, Core};
use crate::device::{DeviceObject, RemovalOrder};
use crate::file::File;
use crate::handle::{CmEvent, CmId, CmNews};
use crate::status::{bind_status, fail};

/// The longest backlog.
const LONGEST_BACKLOG: usize = 4096;
/// How many ports are picked that are free on one address and not on all.
const PICKS: u32 = 16;
/// Requests that the device holds until they are taken, which is at once.
const DEVICE_BACKLOG: i32 = 256;

pub(crate) struct Listener {
    core: Arc<Core>,
    file: Arc<File>,
    state: Mutex<ListenerState>,
    this: Weak<Self>,
}

#[derive(Default)]
struct ListenerState {
    address: Option<SocketAddr>,
    /// One for each address, with their keys.
    ids: Vec<(CmId, u64)>,
    listens: bool,
    backlog: usize,
    closed: bool,
    queue: VecDeque<PeerRequest>,
    waiting: VecDeque<(Arc<Connector>, PendingOverlapped)>,
}

impl ListenerState {
    fn no_longer_waits(&mut self, connector: &Connector) -> Option<PendingOverlapped> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|(waiting, _)| std::ptr::eq(&**waiting, connector))?;
        self.waiting.remove(at).map(|(_, request)| request)
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
    /// The addresses that a Bind to `address` covers.
    fn covered(&self, address: SocketAddr) -> Result<Vec<IpAddr>> {
        let serves = |ip| self.core.serves(ip);
        addresses::covered(address.ip(), &self.core.addresses, serves)
    }

    fn bind(&self, address: SocketAddr) -> Result<()> {
        let mut state = self.state.lock();
        self.core.device.present()?;
        if state.address.is_some() {
            return fail(
                Status::ADDRESS_ALREADY_ASSOCIATED,
                "the listener is bound already",
            ); // LSTN-011
        }
        let covered = self.covered(address)?;
        self.core.device.admit(Call::BindListener)?;
        let mut bound = self.bind_all(&covered, address.port());
        for _ in 1..PICKS {
            match &bound {
                Err(error)
                    if address.port() == 0 && error.status() == Status::SHARING_VIOLATION =>
                {
                    bound = self.bind_all(&covered, 0);
                }
                _ => break,
            }
        }
        let (ids, port) = bound?;
        state.ids = ids;
        state.address = Some(SocketAddr::new(address.ip(), port));
        Ok(())
    }

    /// Identifiers that are bound to one port of all these addresses; to one that is picked if the port is 0.
    fn bind_all(&self, addresses: &[IpAddr], port: u16) -> Result<(Vec<(CmId, u64)>, u16)> {
        let mut port = port;
        let mut ids = Vec::new();
        for ip in addresses {
            if port != 0 {
                self.core.not_of_tcp(SocketAddr::new(*ip, port))?;
            }
            let (id, key, bound) = self.core.bind(SocketAddr::new(*ip, port))?;
            port = bound.port();
            ids.push((id, key));
        }
        Ok((ids, port))
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        let mut state = self.state.lock();
        self.core.device.present()?; // GEN-015
        if state.ids.is_empty() || state.listens {
            return fail(
                Status::INVALID_DEVICE_STATE,
                "the listener is not bound, or listens already",
            ); // LSTN-017, -018
        }
        self.core.device.admit(Call::Listen)?;
        state.backlog = match backlog {
            0 => LONGEST_BACKLOG,
            some => usize::try_from(some).map_or(LONGEST_BACKLOG, |some| some.min(LONGEST_BACKLOG)),
        };
        let listening = state.ids.iter().try_for_each(|(id, key)| {
            let this: Weak<dyn CmOwner> = self.this.clone();
            self.core.own_connection(*key, this);
            id.listen(DEVICE_BACKLOG)
        });
        if let Err(error) = listening {
            self.stop_listening(&mut state);
            let status = bind_status(&error);
            let advice = match status {
                Status::SHARING_VIOLATION => {
                    ": another program, or the system's TCP, uses the port"
                }
                _ => "",
            };
            return Err(Error::new(
                status,
                format!("cannot listen: {error}{advice}"),
            ));
        }
        state.listens = true;
        Ok(())
    }

    /// Listen has failed, maybe for one address of several. The listener is bound as before; if it cannot be, it is not bound.
    fn stop_listening(&self, state: &mut ListenerState) {
        for (id, key) in std::mem::take(&mut state.ids) {
            self.core.disown_connection(key);
            drop(id);
        }
        let Some(address) = state.address.take() else {
            return;
        };
        let covered = self.covered(address);
        match covered.and_then(|covered| self.bind_all(&covered, address.port())) {
            Ok((ids, _)) => {
                state.ids = ids;
                state.address = Some(address);
            }
            Err(error) => tracing::warn!(%error, "a listener has lost its address"),
        }
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

    fn queue_again(&self, state: &mut ListenerState, request: PeerRequest) {
        let this: Weak<dyn CmOwner> = self.this.clone();
        self.core.own_connection(request.key, this);
        state.queue.push_front(request);
    }

    /// Gives requests to connectors that wait.
    fn match_up(&self) {
        let mut done = Done::default();
        {
            let mut state = self.state.lock();
            while let Some(connector) = Self::next_waiting(&mut state, &mut done) {
                let Some(request) = state.queue.pop_front() else {
                    break;
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

    /// The first connector that waits and was not released.
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

    fn end_requests(&self, status: Status) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        let mut done = Done::default();
        for (connector, request) in waiting {
            connector.request_cancelled();
            done.push(Some(request), status);
        }
        done.deliver();
    }

    /// Ends the listener. Requests in its backlog are rejected (LSTN-033).
    fn close(&self, status: Status) {
        let (ids, queue) = {
            let mut state = self.state.lock();
            state.closed = true;
            (
                std::mem::take(&mut state.ids),
                std::mem::take(&mut state.queue),
            )
        };
        for (id, key) in ids {
            self.core.disown_connection(key);
            drop(id);
        }
        for request in queue {
            self.core.disown_connection(request.key);
            reject(&self.core, &request.id);
        }
        self.end_requests(status);
    }
}

impl AwaitedListener for Listener {
    fn connector_released(&self, connector: &Connector) {
        let request = self.state.lock().no_longer_waits(connector);
        if let Some(request) = request {
            request.complete(Status::CANCELED);
        }
    }
}

impl CmOwner for Listener {
    fn told(&self, event: CmEvent) {
        let most = ReadLimits {
            inbound: self.core.limits.inbound_reads,
            outbound: self.core.limits.outbound_reads,
        };
        match event.news {
            CmNews::Request(id) => {
                let request = PeerRequest {
                    id,
                    key: event.new_key,
                    private_data: received(&self.core, event.private_data),
                    limits: if self.core.needs.requests_lack_limits {
                        most
                    } else {
                        ReadLimits {
                            inbound: u32::from(event.responder_resources).min(most.inbound),
                            outbound: u32::from(event.initiator_depth).min(most.outbound),
                        }
                    },
                };
                let mut state = self.state.lock();
                let is_full = state.waiting.is_empty() && state.queue.len() >= state.backlog;
                if state.closed || !state.listens || is_full {
                    drop(state);
                    reject(&self.core, &request.id);
                } else {
                    // The peer may give up while its request waits.
                    let this: Weak<dyn CmOwner> = self.this.clone();
                    self.core.own_connection(request.key, this);
                    state.queue.push_back(request);
                    drop(state);
                    self.match_up();
                }
            }
            news if news.has_lost_peer() => {
                let mut state = self.state.lock();
                let mut queue = state.queue.iter();
                let at = queue.position(|request| request.key == event.key);
                let gone = at.and_then(|at| state.queue.remove(at));
                drop(state);
                if let Some(gone) = &gone {
                    self.core.disown_connection(gone.key);
                }
                drop(gone);
            }
            _ => {}
        }
    }
}

impl DeviceObject for Listener {
    fn removal_order(&self) -> RemovalOrder {
        RemovalOrder::Listener
    }

    fn device_removed(&self) {
        self.state.lock().address = None;
        self.close(Status::DEVICE_REMOVED);
    }
}

/// The client's reference to a listener.
#[derive(Debug)]
pub(crate) struct ListenerHandle(Arc<Listener>);

impl ListenerHandle {
    pub(crate) fn new(core: Arc<Core>, file: Arc<File>) -> Self {
        let listener = Arc::new_cyclic(|this| Listener {
            core,
            file,
            state: Mutex::default(),
            this: this.clone(),
        });
        let object: Weak<Listener> = Arc::downgrade(&listener);
        listener.core.device.add_object(object);
        Self(listener)
    }

    /// The connector, if it is one of this adapter's.
    fn own(&self, connector: &Arc<dyn netdirect::Connector>) -> Result<Arc<ConnectorHandle>> {
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
