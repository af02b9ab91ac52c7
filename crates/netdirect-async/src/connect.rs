//! Connections: how they are made from either side, and how they end.

use std::fmt;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use netdirect::{
    Adapter, Connector, Error, Overlapped, OverlappedFile, QueuePair, ReadLimits, Result, Status,
    ext,
};

/// A future in a box, because the futures of `async` blocks have no names.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Connects when it is awaited: [`AsyncAdapter::connect`](crate::AsyncAdapter::connect).
///
/// The future makes a connector and calls `Connect` and `CompleteConnect`. When it ends with success, both sides may send. A
/// Receive for what the peer sends first should be posted before.
///
/// Dropping the future abandons the attempt and releases the connector. The queue pair and its Receives are as before, so the
/// queue pair can be connected again. What the peer sees depends on how far the attempt was: a reset, or a connection request
/// that ends with [`CONNECTION_ABORTED`](Status::CONNECTION_ABORTED) when the peer answers it, or an Accept that ends with
/// [`CONNECTION_REFUSED`](Status::CONNECTION_REFUSED). (CONN-033, CONN-035, AMB-004)
///
/// The errors are those of [`Adapter::create_connector`], [`Connector::bind`], [`Connector::connect`] and
/// [`Connector::complete_connect`], including final statuses.
///
/// ```
/// # async fn demo(adapter: netdirect_async::AsyncAdapter, qp: std::sync::Arc<dyn netdirect::QueuePair>)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// let connection = adapter
///     .connect(&qp, "192.0.2.7:7174".parse()?)
///     .private_data(*b"version 3")
///     .await?;
/// println!("the peer says {:?} and serves {} Reads", connection.private_data(), connection.read_limits().outbound);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "connects only when it is awaited"]
pub struct Connect {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    qp: Arc<dyn QueuePair>,
    destination: SocketAddr,
    local: Option<SocketAddr>,
    limits: Option<ReadLimits>,
    private_data: Vec<u8>,
}

impl Connect {
    pub(crate) fn new(
        adapter: &Arc<dyn Adapter>,
        file: &Arc<dyn OverlappedFile>,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
    ) -> Self {
        Self {
            adapter: adapter.clone(),
            file: file.clone(),
            qp: qp.clone(),
            destination,
            local: None,
            limits: None,
            private_data: Vec::new(),
        }
    }

    /// Sets the private data, which the peer finds in its [`ConnectionRequest`](crate::ConnectionRequest::private_data). At most
    /// [`max_caller_data`](netdirect::AdapterInfo::max_caller_data) octets; none by default.
    pub fn private_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.private_data = data.into();
        self
    }

    /// Sets how many Reads this side serves and issues at a time. By default these are the adapter's limits. The peer may lower
    /// both.
    pub fn read_limits(mut self, limits: ReadLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the local address and port, `Bind`. By default the provider chooses both.
    pub fn local_address(mut self, address: SocketAddr) -> Self {
        self.local = Some(address);
        self
    }

    async fn run(self) -> Result<Connection, ConnectError> {
        let limits = match self.limits {
            Some(limits) => limits,
            None => largest_limits(&self.adapter)?,
        };
        let attempt = Attempt(Some(self.adapter.create_connector(&self.file)?));
        let connector = attempt.connector();
        if let Some(local) = self.local {
            connector.bind(local)?;
        }
        let overlapped = Overlapped::new().without_port();
        let started = connector.connect(
            &self.qp,
            self.destination,
            limits.inbound,
            limits.outbound,
            &self.private_data,
            &overlapped,
        );
        ext::finished(started, &overlapped)
            .await
            .map_err(|error| ConnectError::from_error(error, connector))?;
        let peer = ext::Peer::from_connector(connector)?; // not to be had later (CONN-090)
        ext::finished(connector.complete_connect(&overlapped), &overlapped).await?;
        Ok(Connection::new(attempt.established(), self.qp, peer))
    }
}

/// A connector whose connection was not handed to the program yet. Dropping it gives the connection up: the release of a connector abandons
/// an attempt, and refuses a peer that has accepted, but leaves an established connection as it is.
#[derive(Debug)]
struct Attempt(Option<Arc<dyn Connector>>);

impl Attempt {
    fn connector(&self) -> &Arc<dyn Connector> {
        self.0.as_ref().expect("taken only at the end")
    }

    fn established(mut self) -> Arc<dyn Connector> {
        self.0.take().expect("taken only at the end")
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(connector) = self.0.take() {
            // An error means that the connection is not established.
            let _ = connector.disconnect(&Overlapped::new().without_port());
        }
    }
}

/// The limits of an adapter.
fn largest_limits(adapter: &Arc<dyn Adapter>) -> Result<ReadLimits> {
    let info = adapter.query()?;
    Ok(ReadLimits {
        inbound: info.max_inbound_read_limit,
        outbound: info.max_outbound_read_limit,
    })
}

impl IntoFuture for Connect {
    type Output = Result<Connection, ConnectError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Why [`Connect`] has failed. `?` turns it into the [`Error`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectError {
    /// The error, with the status that ND2 names.
    pub error: Error,
    /// The private data of the peer's rejection; empty if it sent none, or if something else failed.
    pub private_data: Vec<u8>,
}

impl ConnectError {
    fn from_error(error: Error, connector: &Arc<dyn Connector>) -> Self {
        let is_refused = error.status() == Status::CONNECTION_REFUSED;
        let data = is_refused.then(|| connector.get_private_data().ok()); // CONN-089
        Self {
            error,
            private_data: data.flatten().unwrap_or_default(),
        }
    }

    /// The ND status.
    pub fn status(&self) -> Status {
        self.error.status()
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self {
            error,
            private_data: Vec::new(),
        }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        error.error
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for ConnectError {}

/// Accepts when it is awaited: [`ConnectionRequest::accept`](crate::ConnectionRequest::accept).
///
/// When the future ends with success, the peer has completed the connection, and both sides may send.
///
/// Dropping the future abandons the connection. The queue pair is then used up: its Receives complete with
/// [`CANCELED`](Status::CANCELED), and it cannot be connected again (CONN-061). Dropping it before the first poll refuses the
/// peer and does not touch the queue pair.
///
/// The errors are those of [`Connector::accept`], including its final statuses.
#[derive(Debug)]
#[must_use = "accepts only when it is awaited; dropping it refuses the peer"]
pub struct Accept {
    attempt: Attempt,
    qp: Arc<dyn QueuePair>,
    peer: ext::Peer,
    limits: ReadLimits,
    private_data: Vec<u8>,
}

impl Accept {
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        qp: &Arc<dyn QueuePair>,
        peer: ext::Peer,
    ) -> Self {
        Self {
            attempt: Attempt(Some(connector)),
            qp: qp.clone(),
            limits: peer.limits,
            peer,
            private_data: Vec::new(),
        }
    }

    /// Sets the private data, which the peer finds in its [`Connection`]. At most
    /// [`max_callee_data`](netdirect::AdapterInfo::max_callee_data) octets; none by default.
    pub fn private_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.private_data = data.into();
        self
    }

    /// Sets how many Reads this side serves and issues at a time. The default, which is also the most that these limits can be,
    /// is what the peer has asked for and the adapter can do.
    pub fn read_limits(mut self, limits: ReadLimits) -> Self {
        self.limits = limits;
        self
    }

    async fn run(self) -> Result<Connection> {
        let overlapped = Overlapped::new().without_port();
        let limits = ReadLimits {
            inbound: self.limits.inbound.min(self.peer.limits.inbound),
            outbound: self.limits.outbound.min(self.peer.limits.outbound),
        };
        let started = self.attempt.connector().accept(
            &self.qp,
            limits.inbound,
            limits.outbound,
            &self.private_data,
            &overlapped,
        );
        ext::finished(started, &overlapped).await?;
        let mut peer = self.peer;
        peer.limits = limits; // CONN-063
        Ok(Connection::new(self.attempt.established(), self.qp, peer))
    }
}

impl IntoFuture for Accept {
    type Output = Result<Connection>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// An established connection of a queue pair, from [`Connect`] or [`Accept`].
///
/// Dropping it does not end the connection, because the queue pair keeps the connection too. The connection ends when either
/// side [disconnects](Self::disconnect) or releases its queue pair.
#[derive(Debug)]
pub struct Connection {
    connector: Arc<dyn Connector>,
    qp: Arc<dyn QueuePair>,
    peer: ext::Peer,
    /// The one NotifyDisconnect of this connection, for all who wait for the end.
    end: Mutex<Option<Overlapped>>,
}

impl Connection {
    fn new(connector: Arc<dyn Connector>, qp: Arc<dyn QueuePair>, peer: ext::Peer) -> Self {
        Self {
            connector,
            qp,
            peer,
            end: Mutex::new(None),
        }
    }

    /// The connector, `IND2Connector`.
    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }

    /// The queue pair, `IND2QueuePair`.
    pub fn queue_pair(&self) -> &Arc<dyn QueuePair> {
        &self.qp
    }

    /// The private data that the peer sent with Connect or Accept.
    pub fn private_data(&self) -> &[u8] {
        &self.peer.private_data
    }

    /// Returns how many Reads this side serves and issues at a time.
    pub fn read_limits(&self) -> ReadLimits {
        self.peer.limits
    }

    /// The address and port of this side, `GetLocalAddress`.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::get_local_address`].
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.connector.get_local_address()
    }

    /// The address and port of the peer, `GetPeerAddress`.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::get_peer_address`].
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.connector.get_peer_address()
    }

    /// `NotifyDisconnect`: waits for the end of the connection, whichever side ends it. Any number of tasks may wait. Dropping
    /// the future changes nothing, and leaves no request behind for each time it is done.
    ///
    /// Results that the end of the connection brings about, such as those of flushed Receives, come after this. (CONN-106)
    ///
    /// # Errors
    ///
    /// Those of [`Connector::notify_disconnect`], including its final statuses.
    pub async fn disconnected(&self) -> Result<()> {
        let overlapped = self.end()?;
        (&overlapped).await.ok().or_else(|_| overlapped.result())
    }

    /// The request that ends with the connection.
    fn end(&self) -> Result<Overlapped> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(overlapped) = &*end
            && [Status::PENDING, Status::SUCCESS].contains(&overlapped.status())
        {
            return Ok(overlapped.clone());
        }
        let overlapped = Overlapped::new().without_port();
        let _ = self.connector.notify_disconnect(&overlapped)?;
        *end = Some(overlapped.clone());
        Ok(overlapped)
    }

    /// `Disconnect`: ends the connection, and waits until it has ended. Outstanding requests of the queue pair complete with
    /// [`CANCELED`](Status::CANCELED). The queue pair cannot be connected again. Once the call was made, the connection ends even
    /// if the future is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::disconnect`], including its final statuses. If the peer has ended the connection before,
    /// `disconnect` still succeeds.
    pub async fn disconnect(&self) -> Result<()> {
        let overlapped = Overlapped::new().without_port();
        ext::finished(self.connector.disconnect(&overlapped), &overlapped).await
    }
}
