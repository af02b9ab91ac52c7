//! Endpoints that their client has released and whose connections have not ended.

use std::collections::HashMap;
use std::sync::Arc;

use iwarp::StreamId;
use parking_lot::Mutex;

use super::{ConnectionEnd, Endpoint, Owner};

/// An endpoint, whatever its owner is. Its functions are those of [`Endpoint`]; they deliver notices, and are called with no lock held.
pub trait AnyEndpoint: Send + Sync {
    /// See [`Endpoint::is_idle`].
    fn is_idle(&self) -> bool;

    /// See [`Endpoint::is_gone`].
    fn is_gone(&self) -> bool;

    /// See [`Endpoint::end`].
    fn end(&self);

    /// See [`Endpoint::abort`].
    fn abort(&self, end: ConnectionEnd);

    /// See [`Endpoint::shut`].
    fn shut(&self, end: ConnectionEnd);
}

impl<O: Owner> AnyEndpoint for Endpoint<O> {
    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn is_gone(&self) -> bool {
        self.is_gone()
    }

    fn end(&self) {
        drop(self.end().1);
    }

    fn abort(&self, end: ConnectionEnd) {
        drop(self.abort(end));
    }

    fn shut(&self, end: ConnectionEnd) {
        drop(self.shut(end));
    }
}

/// Keeps endpoints that their client has released until their connections have ended.
#[derive(Default)]
pub struct Lingering(Mutex<HashMap<StreamId, Arc<dyn AnyEndpoint>>>);

impl Lingering {
    /// Disconnects an endpoint that its client releases, and keeps it until its connection, of this number, has ended. Also ends the
    /// Receives of an endpoint that was never connected.
    pub fn release<O: Owner>(&self, stream: StreamId, endpoint: &Arc<Endpoint<O>>) {
        let (gone, deferred) = endpoint.disconnect();
        drop(deferred);
        if !gone {
            self.keep(stream, endpoint);
        }
    }

    /// Keeps an endpoint to which a connection of this number was [detached](Endpoint::detach), until the connection has ended.
    pub fn keep<O: Owner>(&self, stream: StreamId, endpoint: &Arc<Endpoint<O>>) {
        let kept: Arc<dyn AnyEndpoint> = endpoint.clone();
        self.0.lock().insert(stream, kept);
        // The connection may have ended before the endpoint was kept.
        if endpoint.is_gone() {
            self.gone(stream);
        }
    }

    /// The connection has ended: its endpoint is kept no longer. Called with no lock held, because the endpoint may be dropped.
    pub fn gone(&self, stream: StreamId) {
        let kept = self.0.lock().remove(&stream);
        drop(kept);
    }

    /// The endpoints that are kept.
    pub fn list(&self) -> Vec<Arc<dyn AnyEndpoint>> {
        self.0.lock().values().cloned().collect()
    }

    /// Keeps no endpoint any longer. Called with no lock held.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.0.lock());
        drop(kept);
    }
}
