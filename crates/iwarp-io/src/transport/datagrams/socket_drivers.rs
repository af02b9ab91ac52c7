//! The drivers of UDP sockets that no other thread drives.

use std::sync::Arc;

use crate::progress::background::Background;
use crate::progress::domain::Domain;

/// The domain and the thread that drive sockets for datagrams while no other thread does.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "udp"),
    expect(dead_code, reason = "there are no sockets for datagrams")
)]
pub struct SocketDrivers {
    pub(crate) control: Arc<Domain>,
    pub(crate) background: Arc<Background>,
}
