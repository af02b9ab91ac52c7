//! Protection domains.

use std::sync::Arc;

use iwarp_io::memory::Pd;

use crate::context::Context;
use crate::error::{Errno, Error, Result};
use crate::users::{Tag, User, Users};

/// A protection domain: its regions, queue pairs and shared receive queues work together, and with no others.
#[derive(Debug)]
pub struct ProtectionDomain {
    context: Arc<Context>,
    domain: iwarp_io::memory::ProtectionDomain,
    pub(crate) users: Users,
    tag: Tag,
    user: User,
}

impl ProtectionDomain {
    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// Those of the system, if the driver starts now.
    pub fn allocate(context: &Arc<Context>) -> Result<Arc<Self>> {
        let engine = context.engine()?;
        let domain = engine
            .table
            .create_pd()
            .map_err(|error| Error::new(Errno::NOMEM, error.to_string()))?;
        Ok(Arc::new(Self {
            domain,
            users: Users::default(),
            tag: Tag::default(),
            user: context.users.add(),
            context: Arc::clone(context),
        }))
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Prepares to release the protection domain.
    ///
    /// # Errors
    ///
    /// EBUSY while regions, queue pairs, shared receive queues or address handles of the domain exist.
    pub fn destroy(&self) -> Result<()> {
        let by = "memory regions, queue pairs, shared receive queues and address handles";
        self.users.check_none("the protection domain", by)?;
        self.user.release();
        Ok(())
    }

    pub(crate) fn number(&self) -> Pd {
        self.domain.pd()
    }
}
