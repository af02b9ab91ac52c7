//! What every application writes again, on top of the traits. Not part of ND2.
//!
//! - [`wait`] and [`finished`]: the final result of an overlapped method, whichever way it went.
//! - [`connect`], [`accept`], [`get_connection_request`], each with an `_async` twin: connection set-up in one call.
//! - [`Results`]: a completion queue that can be waited on.
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
    CompletionQueue, CompletionResult, Connector, Listener, NotifyType, Overlapped, QueuePair,
    ReadLimits, Result, Started,
};

/// The final result of an overlapped method: its own error, or the status that its request ended with, waited for if need be.
/// Every status but [`SUCCESS`](crate::Status::SUCCESS) is an error here, see [`Status::ok`](crate::Status::ok).
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
        Started::Pending => overlapped.wait().ok(),
    }
}

/// As [`wait`], awaited.
///
/// # Errors
///
/// Those of the method, and its final statuses.
pub async fn finished(started: Result<Started>, overlapped: &Overlapped) -> Result<()> {
    match started? {
        Started::Done => Ok(()),
        Started::Pending => overlapped.await.ok(),
    }
}

/// What the peer has said during connection set-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The peer's private data.
    pub private_data: Vec<u8>,
    /// The negotiated limits, as [`Connector::get_read_limits`] reports them.
    pub limits: ReadLimits,
}

impl Peer {
    /// What the peer of a connector has said, while the connector can tell it: between Connect and CompleteConnect, and
    /// between GetConnectionRequest and Accept.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::get_private_data`] and [`Connector::get_read_limits`].
    pub fn of(connector: &Arc<dyn Connector>) -> Result<Self> {
        Ok(Self {
            private_data: connector.get_private_data()?,
            limits: connector.get_read_limits()?,
        })
    }
}

/// Connect and CompleteConnect: a connection from the active side, ready for Sends.
///
/// Applications that want to look at the answer before they take it use the two methods of [`Connector`].
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
    let peer = Peer::of(connector)?;
    wait(connector.complete_connect(&overlapped), &overlapped)?;
    Ok(peer)
}

/// As [`connect`], awaited. Dropping the future abandons the attempt.
///
/// # Errors
///
/// As [`connect`].
pub async fn connect_async(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    destination: SocketAddr,
    limits: ReadLimits,
    private_data: &[u8],
) -> Result<Peer> {
    let overlapped = Overlapped::new().without_port();
    let abandon = Abandon {
        connector,
        overlapped: &overlapped,
    };
    let started = connector.connect(
        qp,
        destination,
        limits.inbound,
        limits.outbound,
        private_data,
        &overlapped,
    );
    finished(started, &overlapped).await?;
    let peer = Peer::of(connector)?;
    finished(connector.complete_connect(&overlapped), &overlapped).await?;
    drop(abandon);
    Ok(peer)
}

/// GetConnectionRequest, waited for: what the peer has said; `connector` is then ready for [`accept`] or
/// [`Connector::reject`].
///
/// # Errors
///
/// Those of [`Listener::get_connection_request`], including its final statuses, and
/// [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED) when the peer has gone again.
pub fn get_connection_request(
    listener: &Arc<dyn Listener>,
    connector: &Arc<dyn Connector>,
) -> Result<Peer> {
    let overlapped = Overlapped::new().without_port();
    wait(
        listener.get_connection_request(connector, &overlapped),
        &overlapped,
    )?;
    Peer::of(connector)
}

/// As [`get_connection_request`], awaited.
///
/// Dropping the future withdraws the connector ([`Listener::withdraw`]): it can be used again, and the next peer goes to
/// whoever asks next, also a peer that came just before. A provider that cannot withdraw leaves the request in flight, and
/// the connector with it.
///
/// # Errors
///
/// As [`get_connection_request`].
pub async fn get_connection_request_async(
    listener: &Arc<dyn Listener>,
    connector: &Arc<dyn Connector>,
) -> Result<Peer> {
    let overlapped = Overlapped::new().without_port();
    let started = listener.get_connection_request(connector, &overlapped);
    let mut dropped = Withdraw {
        listener,
        connector,
        armed: started.is_ok(),
    };
    let ended = finished(started, &overlapped).await;
    dropped.armed = false;
    ended?;
    Peer::of(connector)
}

/// Withdraws the connector of a future that is dropped before it has seen the end of its request.
struct Withdraw<'a> {
    listener: &'a Arc<dyn Listener>,
    connector: &'a Arc<dyn Connector>,
    armed: bool,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        if self.armed {
            // The future is gone: nobody is left to tell an error to.
            let _ = self.listener.withdraw(self.connector);
        }
    }
}

/// Accept, waited for: the connection is established from the passive side.
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

/// As [`accept`], awaited. Dropping the future abandons the connection.
///
/// # Errors
///
/// As [`accept`].
pub async fn accept_async(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    limits: ReadLimits,
    private_data: &[u8],
) -> Result<()> {
    let overlapped = Overlapped::new().without_port();
    let abandon = Abandon {
        connector,
        overlapped: &overlapped,
    };
    let started = connector.accept(
        qp,
        limits.inbound,
        limits.outbound,
        private_data,
        &overlapped,
    );
    finished(started, &overlapped).await?;
    drop(abandon);
    Ok(())
}

/// Disconnect, waited for.
///
/// # Errors
///
/// Those of [`Connector::disconnect`], including its final statuses.
pub fn disconnect(connector: &Arc<dyn Connector>) -> Result<()> {
    let overlapped = Overlapped::new().without_port();
    wait(connector.disconnect(&overlapped), &overlapped)
}

/// Gives up the attempt of a future that is dropped in the middle of it; does nothing when its request has ended.
struct Abandon<'a> {
    connector: &'a Arc<dyn Connector>,
    overlapped: &'a Overlapped,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if self.overlapped.is_pending() {
            // The future is gone: nobody is left to tell an error to.
            let _ = self.connector.cancel_overlapped_requests();
        }
    }
}

/// The results of a completion queue, with waiting: drain, notify, wait and drain again, in the order that loses nothing
/// (CQ-036, CQ-037).
///
/// ```
/// # use std::sync::Arc;
/// # use netdirect::{ext, CompletionQueue, CompletionResult, Result};
/// # fn demo(cq: Arc<dyn CompletionQueue>) -> Result<()> {
/// let results = ext::Results::of(&cq);
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
    /// For a completion queue whose results nobody else takes.
    pub fn of(cq: &Arc<dyn CompletionQueue>) -> Self {
        Self {
            cq: cq.clone(),
            overlapped: Overlapped::new().without_port(),
        }
    }

    /// Waits until there are results, moves the oldest to the start of `into`, and returns their number.
    ///
    /// # Errors
    ///
    /// Those of [`CompletionQueue::notify`], including its final statuses.
    ///
    /// # Panics
    ///
    /// When `into` has no room at all.
    pub fn get(&self, into: &mut [CompletionResult]) -> Result<usize> {
        loop {
            let count = self.take(into)?;
            if count > 0 {
                return Ok(count);
            }
            self.overlapped.wait().ok()?;
        }
    }

    /// As [`get`](Self::get), for a limited time; 0 when the time ran out.
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

    /// As [`get`](Self::get), awaited. Dropping the future loses no result.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    pub async fn get_async(&self, into: &mut [CompletionResult]) -> Result<usize> {
        loop {
            let count = self.take(into)?;
            if count > 0 {
                return Ok(count);
            }
            (&self.overlapped).await.ok()?;
        }
    }

    /// What is queued, or 0 with a notification in flight or just ended.
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
