//! The clients of a world.
//!
//! An adapter may own something that ends only when time passes in the world, such as a connection whose queue pair was released.
//! This keeps the adapter, the adapter keeps the world, and the world keeps the adapter's background task. So nothing of it would
//! ever end once nobody moves the clock. The clients are counted apart for this reason.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::{Inner, World};

/// Shared by the handles of all clients of a world.
pub(super) struct Clients(Arc<Inner>);

impl Clients {
    /// The handle of the first client.
    pub(super) fn first(inner: Arc<Inner>) -> World {
        World {
            inner: Arc::clone(&inner),
            clients: Some(Arc::new(Self(inner))),
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.0.abandoned.store(true, Ordering::SeqCst);
        let adapters = std::mem::take(&mut self.0.state.lock().adapters);
        for adapter in adapters.iter().filter_map(Weak::upgrade) {
            adapter.abandoned();
        }
    }
}

/// Refers to a world without being one of its clients.
#[derive(Clone)]
pub struct WeakWorld(Weak<Clients>);

impl WeakWorld {
    pub(super) fn new(clients: Option<&Arc<Clients>>) -> Self {
        Self(clients.map_or_else(Weak::new, Arc::downgrade))
    }

    /// Whether the world has a client.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The handle of one client more. `None` if the last client has gone.
    pub fn upgrade(&self) -> Option<World> {
        let clients = self.0.upgrade()?;
        Some(World {
            inner: Arc::clone(&clients.0),
            clients: Some(clients),
        })
    }
}

impl std::fmt::Debug for WeakWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakWorld").finish_non_exhaustive()
    }
}
