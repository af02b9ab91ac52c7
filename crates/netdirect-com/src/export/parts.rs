//! The parts of an adapter that its objects share.

use std::sync::Arc;

use netdirect::Adapter;

/// The parts of an adapter that its objects share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) adapter: Arc<dyn Adapter>,
    /// The most octets of inline data that a queue pair of the adapter can have.
    pub(super) max_inline: usize,
    /// The most octets of private data.
    pub(super) max_private_data: u32,
}
