//! A client's reference to a listener.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use netdirect::{
    Connector, Listener, Overlapped, OverlappedFile, OverlappedObject, Result, Started, Status,
};

use super::{ListenerLine, ListenerRules, WaitingConnector};
use crate::adapter::ProviderAdapter;
use crate::checks::addresses;
use crate::removal::{DeviceObject, RemovalOrder};

/// A client's reference to a listener. When the client releases it, the listener is closed.
pub struct ListenerHandle<L: ListenerLine> {
    line: Arc<L>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    entry: <L::Adapter as ProviderAdapter>::Entry,
}

impl<L: ListenerLine> ListenerHandle<L> {
    /// Makes a listener, whose requests end at `file`, and the reference of its client.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_listener`](netdirect::Adapter::create_listener).
    pub fn create(adapter: Arc<L::Adapter>, file: Arc<dyn OverlappedFile>) -> Result<Self> {
        let listed = Arc::clone(&adapter);
        let line = Arc::new_cyclic(|this: &Weak<L>| {
            L::new(ListenerRules::new(adapter, file, this.clone()))
        });
        let object = DeviceObject::new(
            &line,
            |line| line.rules().device_removed(line),
            |line| line.rules().waits(),
        );
        let entry = listed.list(RemovalOrder::Listener, object)?;
        Ok(Self { line, entry })
    }

    /// Returns the provider's listener.
    #[must_use]
    pub fn line(&self) -> &Arc<L> {
        &self.line
    }
}

impl<L: ListenerLine> fmt::Debug for ListenerHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListenerHandle")
            .field(self.line.rules())
            .finish()
    }
}

impl<L: ListenerLine> Drop for ListenerHandle<L> {
    fn drop(&mut self) {
        self.line.rules().close(&self.line, Status::CANCELED); // LSTN-025
    }
}

impl<L: ListenerLine> OverlappedObject for ListenerHandle<L> {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.line.rules().end_requests(Status::CANCELED);
        Ok(())
    }
}

impl<L: ListenerLine> Listener for ListenerHandle<L> {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        let address = addresses::canonical(address);
        self.line.rules().bind(&self.line, address)
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        self.line.rules().listen(&self.line, backlog)
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        self.line.rules().local_address()
    }

    fn get_connection_request(
        &self,
        connector: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let rules = self.line.rules();
        let connector = L::Connector::of_client(connector, rules.adapter())?;
        rules.get_connection_request(&self.line, connector, overlapped)?;
        Ok(Started::Pending)
    }

    fn withdraw(&self, connector: &Arc<dyn Connector>) -> Result<()> {
        let rules = self.line.rules();
        let connector = L::Connector::of_client(connector, rules.adapter())?;
        rules.withdraw(&self.line, &connector)
    }
}
