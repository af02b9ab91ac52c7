//! The drivers of UDP sockets that no other thread drives.

use std::sync::Arc;

use crate::driver::Driver;
use crate::progress::background::Background;
use crate::progress::domain::Domain;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct SocketDrivers {
    pub(crate) control: Arc<Domain>,
    pub(crate) background: Arc<Background>,
}

impl SocketDrivers {
    /// Those of a driver.
    pub(crate) fn of(driver: &Driver) -> Self {
        Self {
            control: Arc::clone(&driver.control),
            background: Arc::clone(driver.background()),
        }
    }
}
