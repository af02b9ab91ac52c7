//! Functions that most applications need, on top of the traits. They are not part of ND2.
//!
//! - [`wait`] and [`finished`] return the final result of an overlapped method, whether it ended at once or later.
//! - [`connect`], [`accept`] and [`get_connection_request`] do connection set-up in one call, and [`disconnect`] ends the connection. Each has
//!   a form with a time limit, such as [`connect_timeout`].
//! - [`Results`] waits for the results of a completion queue.
//!
//! All but [`finished`] block the calling thread. Async programs use the crate `netdirect-async`.
//!
//! ```
//! # use std::{net::SocketAddr, sync::Arc};
//! # use netdirect::{ext, Adapter, NotifyType, OverlappedFile, QueuePair, ReadLimits, Result};
//! # fn demo(adapter: Arc<dyn Adapter>, file: Arc<dyn OverlappedFile>, qp: Arc<dyn QueuePair>, to: SocketAddr) -> Result<()> {
//! let connector = adapter.create_connector(&file)?;
//! let peer = ext::connect(&connector, &qp, to, ReadLimits { inbound: 4, outbound: 4 }, b"hello")?;
//! println!("the peer says {:?} and serves {} Reads", peer.private_data, peer.limits.outbound);
//! # Ok(()) }
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{
    CompletionPort, CompletionQueue, CompletionResult, Connector, Error, Listener, NotifyType,
    Overlapped, QueuePair, ReadLimits, Result, Started, Status,
};

/// The final result of an overlapped method. If the method has failed, this is its error; otherwise `wait` waits for the end of
/// the request and returns its status. Every status but [`SUCCESS`](crate::Status::SUCCESS) is an error here, see
/// [`Status::ok`](crate::Status::ok).
///
/// ```
/// # use netdirect::{ext, Overlapped, Started};
/// # let start = |_: &Overlapped| Ok(Started::Done);
/// let overlapped = Overlapped::new();
/// ext::wait(start(&overlapped), &overlapped)?;
/// # Ok::<(), netdirect::Error>(())
/// ```
///
/// # Errors
///
/// Those of the method, and its final statuses.
pub fn wait(started: Result<Started>, overlapped: &Overlapped) -> Result<()> {
    match started? {
        Started::Done => Ok(()),
        Started::Pending => ended(overlapped.wait(), overlapped),
    }
}

/// As [`wait`], for async code.
///
/// # Errors
///
/// Those of the method, and its final statuses.
pub async fn finished(started: Result<Started>, overlapped: &Overlapped) -> Result<()> {
    match started? {
        Started::Done => Ok(()),
        Started::Pending => ended(overlapped.await, overlapped),
    }
}

/// The end of a wait as a result, with the provider's explanation unless the `Overlapped` has got another request meanwhile.
fn ended(status: Status, overlapped: &Overlapped) -> Result<()> {
    status.ok().map_err(|ended| match overlapped.result() {
        Err(explained) if explained.status() == status => explained,
        // The wait has ended, and the request has not.
        Err(explained) if explained.status() == Status::PENDING => {
            Error::new(status, explained.into_what())
        }
        _ => ended,
    })
}

/// As [`wait`], for a limited time; then `cancel` cancels the request. `None`: the request was cancelled. A request that has ended just before
/// has its result.
fn wait_or_cancel(
    started: Result<Started>,
    overlapped: &Overlapped,
    limit: Duration,
    cancel: impl FnOnce() -> Result<()>,
) -> Result<Option<()>> {
    if started? == Started::Done {
        return Ok(Some(()));
    }
    if let Some(status) = overlapped.wait_timeout(limit) {
        return ended(status, overlapped).map(Some);
    }
    // It is no error if there is nothing left to cancel (OVL-004).
    let _ = cancel();
    match overlapped.wait() {
        Status::CANCELED => Ok(None),
        status => ended(status, overlapped).map(Some),
    }
}

/// Has the end of an overlapped method come to a completion port in every case: as the packet of the request, or, for a request that
/// ended at once ([`Done`](Started::Done)), as a packet that this call queues. So a program that takes all its ends from a port has
/// one place for them. `user` is for the packet of a request that ended at once; in the other case the packet has the
/// [`user`](Overlapped::user) of the `Overlapped`, so give both the same value. `key` is the one with which
/// the file was associated with the port (`file.associate(&port, key)`).
///
/// ```
/// # use std::sync::Arc;
/// # use netdirect::{ext, CompletionPort, CompletionQueue, NotifyType, Overlapped};
/// # fn demo(port: &CompletionPort, cq: &Arc<dyn CompletionQueue>) -> netdirect::Result<()> {
/// const RESULTS: u64 = 1;
/// let overlapped = Overlapped::new();
/// overlapped.set_user(RESULTS);
/// ext::start_on(port, 0, RESULTS, cq.notify(NotifyType::Any, &overlapped))?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Those of the method; no packet is queued then.
pub fn start_on(
    port: &CompletionPort,
    key: u64,
    user: u64,
    started: Result<Started>,
) -> Result<()> {
    if started? == Started::Done {
        port.post(key, user);
    }
    Ok(())
}

/// The peer's data from connection set-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The peer's private data.
    pub private_data: Vec<u8>,
    /// The negotiated limits, as [`Connector::get_read_limits`] reports them.
    pub limits: ReadLimits,
}

impl Peer {
    /// The data that the peer of a connector sent. Available between Connect and CompleteConnect, and between GetConnectionRequest and
    /// Accept.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::get_private_data`] and [`Connector::get_read_limits`].
    pub fn from_connector(connector: &Arc<dyn Connector>) -> Result<Self> {
        Ok(Self {
            private_data: connector.get_private_data()?,
            limits: connector.get_read_limits()?,
        })
    }
}

/// Connect and CompleteConnect: makes a connection from the active side, ready for Sends.
///
/// Applications that want to look at the peer's answer before they complete the connection use the two methods of
/// [`Connector`].
///
/// # Errors
///
/// Those of [`Connector::connect`] and [`Connector::complete_connect`], including their final statuses.
pub fn connect(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    destination: SocketAddr,
    limits: ReadLimits,
    private_data: &[u8],
) -> Result<Peer> {
    let overlapped = Overlapped::new().without_port();
    let started = connector.connect(
        qp,
        destination,
        limits.inbound,
        limits.outbound,
        private_data,
        &overlapped,
    );
    wait(started, &overlapped)?;
    let peer = Peer::from_connector(connector)?;
    wait(connector.complete_connect(&overlapped), &overlapped)?;
    Ok(peer)
}

/// As [`connect`], for a limited time. `None` when the time has run out: the attempt was cancelled, as by
/// [`cancel_overlapped_requests`](crate::OverlappedObject::cancel_overlapped_requests), and the peer sees a reset. Another attempt needs
/// another connector.
///
/// ```
/// # use std::{net::SocketAddr, sync::Arc, time::Duration};
/// # use netdirect::{ext, Adapter, OverlappedFile, QueuePair, ReadLimits, Result};
/// # fn demo(adapter: Arc<dyn Adapter>, file: Arc<dyn OverlappedFile>, qp: Arc<dyn QueuePair>, to: SocketAddr) -> Result<()> {
/// let connector = adapter.create_connector(&file)?;
/// let limit = Duration::from_secs(5);
/// match ext::connect_timeout(&connector, &qp, to, ReadLimits::default(), b"", limit)? {
///     Some(_) => println!("connected"),
///     None => println!("{to} has not answered in {limit:?}"),
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// As [`connect`].
pub fn connect_timeout(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    destination: SocketAddr,
    limits: ReadLimits,
    private_data: &[u8],
    limit: Duration,
) -> Result<Option<Peer>> {
    let overlapped = Overlapped::new().without_port();
    let cancel = || connector.cancel_overlapped_requests();
    let ReadLimits { inbound, outbound } = limits;
    let started = connector.connect(
        qp,
        destination,
        inbound,
        outbound,
        private_data,
        &overlapped,
    );
    if wait_or_cancel(started, &overlapped, limit, cancel)?.is_none() {
        return Ok(None);
    }
    let peer = Peer::from_connector(connector)?;
    // The peer has answered: nothing is left that takes long.
    wait(connector.complete_connect(&overlapped), &overlapped)?;
    Ok(Some(peer))
}

/// GetConnectionRequest: waits for a peer and returns what the peer sent. `connector` is then ready for [`accept`] or
/// [`Connector::reject`].
///
/// # Errors
///
/// Those of [`Listener::get_connection_request`], including its final statuses, and
/// [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED) if the peer has given up in the meantime.
pub fn get_connection_request(
    listener: &Arc<dyn Listener>,
    connector: &Arc<dyn Connector>,
) -> Result<Peer> {
    let overlapped = Overlapped::new().without_port();
    wait(
        listener.get_connection_request(connector, &overlapped),
        &overlapped,
    )?;
    Peer::from_connector(connector)
}

/// As [`get_connection_request`], for a limited time. `None` when the time has run out. The connector can be used again, and no peer is lost: one
/// that came at that moment is returned, or waits in the listener, ahead of all others.
///
/// Calls of other threads for the same listener go on. Where the provider has no [`Listener::withdraw`], they are cancelled too.
///
/// # Errors
///
/// As [`get_connection_request`].
pub fn get_connection_request_timeout(
    listener: &Arc<dyn Listener>,
    connector: &Arc<dyn Connector>,
    limit: Duration,
) -> Result<Option<Peer>> {
    let overlapped = Overlapped::new().without_port();
    let started = listener.get_connection_request(connector, &overlapped);
    let mut withdrawn = false;
    let cancel = || match listener.withdraw(connector) {
        Ok(()) => {
            withdrawn = true;
            Ok(())
        }
        Err(error) if error.status() == Status::NOT_SUPPORTED => {
            listener.cancel_overlapped_requests()
        }
        Err(error) => Err(error),
    };
    let arrived = wait_or_cancel(started, &overlapped, limit, cancel)?;
    if withdrawn || arrived.is_none() {
        return Ok(None);
    }
    Peer::from_connector(connector).map(Some)
}

/// Accept: waits until the connection is established from the passive side.
///
/// # Errors
///
/// Those of [`Connector::accept`], including its final statuses.
pub fn accept(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    limits: ReadLimits,
    private_data: &[u8],
) -> Result<()> {
    let overlapped = Overlapped::new().without_port();
    wait(
        connector.accept(
            qp,
            limits.inbound,
            limits.outbound,
            private_data,
            &overlapped,
        ),
        &overlapped,
    )
}

/// As [`accept`], for a limited time. `None` when the time has run out: the peer, which has not completed its Connect, was given up and sees a
/// reset.
///
/// # Errors
///
/// As [`accept`].
pub fn accept_timeout(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    limits: ReadLimits,
    private_data: &[u8],
    limit: Duration,
) -> Result<Option<()>> {
    let overlapped = Overlapped::new().without_port();
    let ReadLimits { inbound, outbound } = limits;
    let started = connector.accept(qp, inbound, outbound, private_data, &overlapped);
    let cancel = || connector.cancel_overlapped_requests();
    wait_or_cancel(started, &overlapped, limit, cancel)
}

/// Disconnect: waits until the connection has ended.
///
/// # Errors
///
/// Those of [`Connector::disconnect`], including its final statuses.
pub fn disconnect(connector: &Arc<dyn Connector>) -> Result<()> {
    let overlapped = Overlapped::new().without_port();
    wait(connector.disconnect(&overlapped), &overlapped)
}

/// As [`disconnect`], for a limited time. `None` when the time has run out: this side has ended the connection, and the peer has not ended its
/// direction. The provider goes on with that by itself, within its own time limit.
///
/// # Errors
///
/// As [`disconnect`].
pub fn disconnect_timeout(connector: &Arc<dyn Connector>, limit: Duration) -> Result<Option<()>> {
    let overlapped = Overlapped::new().without_port();
    let started = connector.disconnect(&overlapped);
    let cancel = || connector.cancel_overlapped_requests();
    wait_or_cancel(started, &overlapped, limit, cancel)
}

/// Waits for the results of a completion queue. It takes all queued results, asks for a notification, waits, and takes results
/// again, in the order that misses no result (CQ-036, CQ-037).
///
/// ```
/// # use std::sync::Arc;
/// # use netdirect::{ext, CompletionQueue, CompletionResult, Result};
/// # fn demo(cq: Arc<dyn CompletionQueue>) -> Result<()> {
/// let results = ext::Results::new(&cq);
/// let mut batch = [CompletionResult::default(); 32];
/// loop {
///     let count = results.get(&mut batch)?;
///     for result in &batch[..count] {
///         result.status.ok()?;
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Results {
    cq: Arc<dyn CompletionQueue>,
    overlapped: Overlapped,
}

impl Results {
    /// For a completion queue. Only one `Results` may take results from a queue.
    pub fn new(cq: &Arc<dyn CompletionQueue>) -> Self {
        Self {
            cq: cq.clone(),
            overlapped: Overlapped::new().without_port(),
        }
    }

    /// Waits until the queue has results, moves the oldest ones to the start of `into`, and returns their number.
    ///
    /// # Errors
    ///
    /// Those of [`CompletionQueue::notify`], including its final statuses.
    ///
    /// # Panics
    ///
    /// If `into` is empty.
    pub fn get(&self, into: &mut [CompletionResult]) -> Result<usize> {
        loop {
            let count = self.take(into)?;
            if count > 0 {
                return Ok(count);
            }
            self.overlapped.wait().ok()?;
        }
    }

    /// As [`get`](Self::get), for a limited time; returns 0 if the time has run out.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    pub fn get_timeout(&self, into: &mut [CompletionResult], limit: Duration) -> Result<usize> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            let count = self.take(into)?;
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if count > 0 || left.is_zero() {
                return Ok(count);
            }
            if let Some(status) = self.overlapped.wait_timeout(left) {
                status.ok()?;
            }
        }
    }

    /// The number of queued results, or 0 with a notification in flight or just ended.
    fn take(&self, into: &mut [CompletionResult]) -> Result<usize> {
        assert!(!into.is_empty(), "no room for a result");
        let count = self.cq.get_results(into);
        if count == 0 && !self.overlapped.is_pending() {
            // A result that came since then ends the request at once (CQ-037).
            if self.cq.notify(NotifyType::Any, &self.overlapped)? == Started::Done {
                return Ok(self.cq.get_results(into));
            }
        }
        Ok(count)
    }
}
