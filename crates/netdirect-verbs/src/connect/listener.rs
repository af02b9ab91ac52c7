//! The line below the listeners: identifiers of the connection manager, whose events report changes of peers.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use netdirect::{Error, ReadLimits, Result, Status};
use netdirect_provider::listener::{Keyed, ListenerLine, ListenerRules, Queue};

use super::connector::{Connector, PeerRequest, received, reject};
use crate::core::{CmOwner, Core};
use crate::handle::{CmEvent, CmEventKind, CmId};
use crate::status::bind_status;

/// The longest backlog.
const LONGEST_BACKLOG: usize = 4096;
/// The number of ports that are picked and may be free on one address and not on all.
const PICKS: u32 = 16;
/// Requests that the device holds until they are taken, which is at once.
const DEVICE_BACKLOG: i32 = 256;

/// A listener over the connection manager.
pub(crate) struct Listener {
    rules: ListenerRules<Self>,
    core: Arc<Core>,
}

impl Keyed for PeerRequest {
    fn key(&self) -> u64 {
        self.key
    }
}

impl Listener {
    fn own(&self, key: u64) {
        let this: Weak<dyn CmOwner> = self.rules.this().clone();
        self.core.own_connection(key, this);
    }

    /// Makes identifiers that are bound to one port of all these addresses; to one that is picked if the port is 0.
    fn bind_all(&self, addresses: &[IpAddr], port: u16) -> Result<(Vec<(CmId, u64)>, u16)> {
        let mut port = port;
        let mut ids = Vec::new();
        for ip in addresses {
            if port != 0 {
                self.core.not_of_tcp(SocketAddr::new(*ip, port))?;
            }
            let (id, key, bound) = self.core.bind(SocketAddr::new(*ip, port))?;
            port = bound.port();
            ids.push((id, key));
        }
        Ok((ids, port))
    }
}

impl ListenerLine for Listener {
    type Adapter = Core;
    type Connector = Connector;
    type Backlog = Queue<PeerRequest>;
    /// An identifier for each address, with its key.
    type Bound = Vec<(CmId, u64)>;

    fn new(rules: ListenerRules<Self>) -> Self {
        Self {
            core: Arc::clone(rules.adapter()),
            rules,
        }
    }

    fn rules(&self) -> &ListenerRules<Self> {
        &self.rules
    }

    fn bind(&self, addresses: &[IpAddr], port: u16) -> Result<(Self::Bound, u16)> {
        let mut bound = self.bind_all(addresses, port);
        for _ in 1..PICKS {
            match &bound {
                Err(error) if port == 0 && error.status() == Status::SHARING_VIOLATION => {
                    bound = self.bind_all(addresses, 0);
                }
                _ => break,
            }
        }
        bound
    }

    fn longest_backlog(&self) -> usize {
        LONGEST_BACKLOG
    }

    /// After a failure, possibly for one address of several, the listener is bound as before; if it cannot be, it is not bound.
    fn listen(&self, bound: &mut Option<Self::Bound>, address: SocketAddr) -> Result<()> {
        let listening = bound.iter().flatten().try_for_each(|(id, key)| {
            self.own(*key);
            id.listen(DEVICE_BACKLOG)
        });
        let Err(error) = listening else {
            return Ok(());
        };
        self.unbind(bound.take().unwrap_or_default());
        let covered = self.covered(address.ip());
        match covered.and_then(|covered| self.bind_all(&covered, address.port())) {
            Ok((ids, _)) => *bound = Some(ids),
            Err(error) => {
                tracing::warn!(target: crate::log::TARGET, %error, "a listener has lost its address")
            }
        }
        let status = bind_status(&error);
        let advice = match status {
            Status::SHARING_VIOLATION => ": another program, or the system's TCP, uses the port",
            _ => "",
        };
        let what = format!("cannot listen: {error}{advice}");
        Err(Error::new(status, what))
    }

    fn stop(&self) {}

    fn unbind(&self, bound: Self::Bound) {
        for (id, key) in bound {
            self.core.disown_connection(key);
            drop(id);
        }
    }

    fn take(&self, request: PeerRequest) -> Option<PeerRequest> {
        Some(request)
    }

    fn watch(&self, request: PeerRequest) -> Option<PeerRequest> {
        self.own(request.key);
        Some(request)
    }

    fn refuse(&self, request: PeerRequest) {
        self.core.disown_connection(request.key);
        reject(&self.core, &request.id);
    }
}

impl CmOwner for Listener {
    fn on_cm_event(&self, event: CmEvent) {
        match event.kind {
            CmEventKind::Request(id) => {
                let most = &self.core.limits;
                let (inbound, outbound) = match self.core.needs.requests_lack_limits {
                    true => (most.inbound_reads, most.outbound_reads),
                    false => (
                        event.responder_resources.into(),
                        event.initiator_depth.into(),
                    ),
                };
                let request = PeerRequest {
                    id,
                    key: event.new_key,
                    private_data: received(&self.core, event.private_data),
                    limits: ReadLimits {
                        inbound: inbound.min(most.inbound_reads),
                        outbound: outbound.min(most.outbound_reads),
                    },
                };
                // The peer may give up while its request waits, which an event after this one reports.
                self.own(request.key);
                self.rules.arrived(self, request);
            }
            kind if kind.has_lost_peer() => {
                if let Some(gone) = self.rules.peer_gone(event.key) {
                    self.core.disown_connection(gone.key);
                }
            }
            _ => {}
        }
    }
}
