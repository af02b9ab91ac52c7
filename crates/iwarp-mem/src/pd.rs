//! Protection domains: numbers by which a table decides which connection may use which memory.

use std::{fmt, sync::Arc};

use iwarp::Pd;

use crate::{error::RegisterError, shared::Shared, table::Table};

/// A protection domain of a [`Table`], made by [`Table::create_pd`]. Regions, windows, queues and connections name it by its
/// [number](Self::pd), and work together only if they name the same one (RFC 5041 §8.2, `ibv_alloc_pd`).
///
/// No other domain gets the number while a clone of this value lives. Nothing else keeps it, so whatever names the number keeps a
/// clone.
#[derive(Clone)]
pub struct ProtectionDomain(Arc<Number>);

/// A number in use, which is given back by a drop.
struct Number {
    shared: Arc<Shared>,
    pd: Pd,
}

impl ProtectionDomain {
    /// The number, for registrations, windows and the [`Scope`](iwarp::Scope) of connections.
    pub fn pd(&self) -> Pd {
        self.0.pd
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtectionDomain").field(&self.pd()).finish()
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.shared.admin.lock().release_pd(self.pd);
    }
}

impl Table {
    /// Makes a protection domain, whose number no other domain of this table has. A client that chooses numbers itself must not
    /// make domains of the same table as well.
    ///
    /// A number that was given back rests until all others have been used.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Full`] if all 2^32 numbers are in use.
    ///
    /// ```
    /// use iwarp_mem::{Rights, Table};
    ///
    /// let table = Table::new();
    /// let (one, other) = (table.create_pd().unwrap(), table.create_pd().unwrap());
    /// assert_ne!(one.pd(), other.pd());
    ///
    /// let buffer = rdma_buffer::Buffer::new(4096);
    /// let region = table.register(&buffer, Rights::LOCAL_WRITE, one.pd()).unwrap();
    /// # drop(region);
    /// ```
    pub fn create_pd(&self) -> Result<ProtectionDomain, RegisterError> {
        let shared = self.shared();
        let pd = shared.admin.lock().take_pd().ok_or(RegisterError::Full)?;
        let shared = Arc::clone(shared);
        Ok(ProtectionDomain(Arc::new(Number { shared, pd })))
    }
}
