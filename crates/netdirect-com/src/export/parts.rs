//! What classes share of their adapter.

use std::sync::Arc;

use netdirect::Adapter;

/// What the objects of an adapter have of it.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) adapter: Arc<dyn Adapter>,
    /// Octets of inline data that a queue pair of the adapter can have at most.
    pub(super) max_inline: usize,
    /// Octets of private data at most.
    pub(super) max_private_data: u32,
}
