//! The owner of an adapter over an interface.

/// The owner of a watch.
pub trait InterfaceOwner: Send + Sync {
    /// The interface has gone for good. Called by the thread that drives the domain, which may hold locks.
    fn interface_gone(&self);
}
