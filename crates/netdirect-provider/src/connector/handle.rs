//! A client's reference to a connector.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use netdirect::{
    ConnectionEnd, Connector, Overlapped, OverlappedFile, OverlappedObject, QueuePair, ReadLimits,
    Result, Started,
};

use super::calls::Wanted;
use super::line::{ConnectorLine, ConnectorRules};
use super::machine::Event;
use crate::adapter::ProviderAdapter;
use crate::checks::addresses;
use crate::checks::own::Owned;
use crate::removal::{DeviceObject, RemovalOrder};

/// A client's reference to a connector. When the client releases it, a Connect or Accept under way is given up.
pub struct ConnectorHandle<L: ConnectorLine> {
    line: Arc<L>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    entry: <L::Adapter as ProviderAdapter>::Entry,
}

impl<L: ConnectorLine> ConnectorHandle<L> {
    /// Makes a connector, whose requests end at `file`, and the reference of its client.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_connector`](netdirect::Adapter::create_connector).
    pub fn create(adapter: Arc<L::Adapter>, file: Arc<dyn OverlappedFile>) -> Result<Self> {
        let listed = Arc::clone(&adapter);
        let line = Arc::new_cyclic(|this: &Weak<L>| {
            L::new(ConnectorRules::new(adapter, file, this.clone()))
        });
        let object = DeviceObject::new(&line, device_removed, |line| {
            line.rules().try_read(|state| line.waits(state))?
        });
        let entry = listed.list(RemovalOrder::Connector, object)?;
        Ok(Self { line, entry })
    }

    /// Returns the provider's connector.
    #[must_use]
    pub fn line(&self) -> &Arc<L> {
        &self.line
    }
}

/// All requests end with ND_DEVICE_REMOVED (GEN-015).
fn device_removed<L: ConnectorLine>(line: &L) {
    let mut state = line.rules().lock(line);
    ConnectorRules::happens(line, &mut state, Event::DeviceRemoved);
}

impl<L: ConnectorLine> fmt::Debug for ConnectorHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorHandle").finish_non_exhaustive()
    }
}

impl<L: ConnectorLine> Owned for ConnectorHandle<L> {
    type Adapter = L::Adapter;

    fn adapter(&self) -> &Arc<L::Adapter> {
        self.line.rules().adapter()
    }
}

impl<L: ConnectorLine> Drop for ConnectorHandle<L> {
    fn drop(&mut self) {
        self.line.rules().release(&self.line);
    }
}

impl<L: ConnectorLine> OverlappedObject for ConnectorHandle<L> {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.line.rules().cancel(&self.line);
        Ok(())
    }
}

impl<L: ConnectorLine> Connector for ConnectorHandle<L> {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        let address = addresses::canonical(address);
        self.line.rules().bind(&self.line, address)
    }

    fn connect(
        &self,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let wanted = Wanted {
            qp,
            inbound: inbound_read_limit,
            outbound: outbound_read_limit,
            private_data,
        };
        let rules = self.line.rules();
        let destination = addresses::canonical(destination);
        rules.connect(&self.line, &wanted, destination, overlapped)?;
        Ok(Started::Pending)
    }

    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.line.rules().complete_connect(&self.line, overlapped)?;
        Ok(Started::Pending)
    }

    fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let wanted = Wanted {
            qp,
            inbound: inbound_read_limit,
            outbound: outbound_read_limit,
            private_data,
        };
        self.line.rules().accept(&self.line, &wanted, overlapped)?;
        Ok(Started::Pending)
    }

    fn reject(&self, private_data: &[u8]) -> Result<()> {
        self.line.rules().reject(&self.line, private_data)
    }

    fn get_read_limits(&self) -> Result<ReadLimits> {
        self.line.rules().read_limits(&self.line)
    }

    fn get_private_data(&self) -> Result<Vec<u8>> {
        self.line.rules().private_data(&self.line)
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        self.line.rules().local_address(&self.line)
    }

    fn get_peer_address(&self) -> Result<SocketAddr> {
        self.line.rules().peer_address(&self.line)
    }

    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        let rules = self.line.rules();
        rules.notify_disconnect(&self.line, overlapped)?;
        Ok(Started::Pending)
    }

    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.line.rules().disconnect(&self.line, overlapped)?;
        Ok(Started::Pending)
    }

    fn connection_end(&self) -> Option<ConnectionEnd> {
        let state = self.line.rules().lock(&self.line);
        self.line.connection_end(&state)
    }

    fn transport(&self) -> Option<&'static str> {
        let state = self.line.rules().lock(&self.line);
        self.line.transport(&state)
    }
}
