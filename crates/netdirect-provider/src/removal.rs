//! The removal of the device: the objects that end, and their order (GEN-015).
//!
//! The handles of listeners, connectors, completion queues and shared receive queues list their objects at the adapter, and a provider
//! lists its queue pairs. How long an object stays in the list is up to the provider.

use std::fmt;
use std::sync::{Arc, Weak};

/// The order in which the objects of a removed device end. Connectors end before queue pairs. Otherwise a connector would take the end of
/// its queue pair for a disconnect of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalOrder {
    /// Listeners are first.
    Listener,
    /// Then connectors.
    Connector,
    /// Then completion queues.
    CompletionQueue,
    /// Then shared receive queues.
    SharedReceiveQueue,
    /// Queue pairs are last.
    QueuePair,
}

/// The functions of [`DeviceObject`].
trait Listed: Send + Sync {
    fn is_alive(&self) -> bool;
    fn device_removed(&self);
    fn waits(&self) -> Option<String>;
}

struct Functions<T> {
    object: Weak<T>,
    removed: fn(&T),
    waits: fn(&T) -> Option<String>,
}

impl<T: Send + Sync> Listed for Functions<T> {
    fn is_alive(&self) -> bool {
        self.object.strong_count() > 0
    }

    fn device_removed(&self) {
        if let Some(object) = self.object.upgrade() {
            (self.removed)(&object);
        }
    }

    fn waits(&self) -> Option<String> {
        (self.waits)(&*self.object.upgrade()?)
    }
}

/// An object that ends when the device is removed. Does not keep the object.
#[derive(Clone)]
pub struct DeviceObject(Arc<dyn Listed>);

impl DeviceObject {
    /// Lists this object. `removed` ends its pending requests, and `waits` returns the event that they wait for, in words.
    pub fn new<T: Send + Sync + 'static>(
        object: &Arc<T>,
        removed: fn(&T),
        waits: fn(&T) -> Option<String>,
    ) -> Self {
        Self(Arc::new(Functions {
            object: Arc::downgrade(object),
            removed,
            waits,
        }))
    }

    /// Returns true if clients or other objects still hold the object.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Ends the object, if it is still there. Called with no lock held, after [`present`](crate::adapter::ProviderAdapter::present) has
    /// begun to fail. Later requests have to check for the removal under the object's own lock.
    pub fn device_removed(&self) {
        self.0.device_removed();
    }

    /// Returns the event that a pending request of the object waits for, in words. `None` if no request is pending.
    #[must_use]
    pub fn waits(&self) -> Option<String> {
        self.0.waits()
    }
}

impl fmt::Debug for DeviceObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceObject").finish_non_exhaustive()
    }
}
