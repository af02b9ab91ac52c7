//! The drivers of an adapter's UDP sockets while no thread drives their streams.

use std::sync::Arc;

use crate::progress::background::Background;
use crate::progress::domain::Domain;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct SocketDrivers {
    pub(super) control: Arc<Domain>,
    pub(super) background: Arc<Background>,
}
