//! Notices that the interface of an adapter has gone.
//!
//! A socket of the adapter gets a message when any interface of the machine changes. It lies in the domain of connection set-up, so that no
//! thread looks for changes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use super::netlink;
use super::owner::InterfaceOwner;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::set::SourceId;
use crate::progress::{Edges, Set, Watch};

/// A watch over one interface. It ends when this is dropped.
pub struct InterfaceWatch {
    changes: OwnedFd,
    index: u32,
    domain: Arc<Domain>,
    token: OnceLock<u64>,
    owner: Weak<dyn InterfaceOwner>,
}

impl std::fmt::Debug for InterfaceWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterfaceWatch")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl InterfaceWatch {
    /// Starts to watch the interface with this number. If it has gone already, the owner learns it at once.
    ///
    /// # Errors
    ///
    /// Those of the system, if it permits no such socket or has no descriptors left.
    pub fn start(
        domain: &Arc<Domain>,
        index: u32,
        owner: Weak<dyn InterfaceOwner>,
    ) -> io::Result<Arc<Self>> {
        let watch = Arc::new(Self {
            changes: netlink::changes()?,
            index,
            domain: Arc::clone(domain),
            token: OnceLock::new(),
            owner,
        });
        let source: Weak<dyn Source> = Arc::<Self>::downgrade(&watch);
        let token = domain.add(&*watch, source, Edges::READ)?;
        // Set once, here.
        let _ = watch.token.set(token);
        watch.look();
        Ok(watch)
    }

    /// Tells the owner if the interface has gone.
    fn look(&self) {
        if netlink::exists(self.index).is_ok_and(|exists| !exists)
            && let Some(owner) = self.owner.upgrade()
        {
            owner.interface_gone();
        }
    }
}

impl Drop for InterfaceWatch {
    fn drop(&mut self) {
        if let Some(token) = self.token.get() {
            self.domain.remove(self, *token);
        }
    }
}

impl Watch<Set> for InterfaceWatch {
    fn id(&self) -> SourceId<'_> {
        SourceId::Descriptor(self.changes.as_fd())
    }
}

impl Source for InterfaceWatch {
    fn ready(&self, _: Edges) -> Turn {
        // A bridge reports the end of a port in the same way.
        let may_have_gone = netlink::may_have_gone(&self.changes, self.index);
        self.domain.arm(self, Edges::READ);
        if may_have_gone {
            self.look();
        }
        Turn::default()
    }
}
