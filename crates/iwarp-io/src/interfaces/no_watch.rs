//! Systems other than Linux, where softnd does not notice that an interface has gone.

use std::io;
use std::sync::{Arc, Weak};

use super::owner::InterfaceOwner;
use crate::progress::domain::Domain;

/// A watch over one interface, which this system cannot have.
#[derive(Debug)]
pub struct NoWatch(());

impl NoWatch {
    /// Watches nothing.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn start(_: &Arc<Domain>, _: u32, _: Weak<dyn InterfaceOwner>) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
