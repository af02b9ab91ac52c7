//! The line below softnd's listeners: an [`Acceptor`] accepts peers and reads their Requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use iwarp_io::descriptors;
use iwarp_io::limited;
use iwarp_io::log::targets;
use iwarp_io::setup::{
    Acceptor, AcceptorConfig, AcceptorOwner, ConnectionRequest, HalfOpenLimits, Incoming,
    ResponderConfig,
};
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::{Bound, local_ports};
use netdirect::{Error, Result};
use netdirect_provider::listener::{ListenerLine, ListenerRules};

use super::backlog::RequestBacklog;
use super::connector::Connector;
use crate::core::{Core, UNSTATED_READ_LIMIT};
use crate::device::Device;
use crate::status::{bind_error, bind_status};

/// The backlog when the client asks for no limit (LSTN-016), and no more than half of the descriptors of the process.
const LONGEST_BACKLOG: usize = 16 * 1024;

/// A listener over the transports of `iwarp-io`.
pub(crate) struct Listener {
    rules: ListenerRules<Self>,
    core: Arc<Core>,
    /// Called with the rules unlocked, but for [`Acceptor::listen`] and [`Acceptor::watch`].
    acceptor: Arc<Acceptor>,
}

impl ListenerLine for Listener {
    type Adapter = Core;
    type Connector = Connector;
    type Backlog = RequestBacklog;
    type Bound = Vec<Bound>;

    fn new(rules: ListenerRules<Self>) -> Self {
        let core = Arc::clone(rules.adapter());
        let timeouts = &core.options.timeouts;
        let config = AcceptorConfig {
            responder: ResponderConfig {
                most: core.read_limits(),
                unstated: UNSTATED_READ_LIMIT,
                request_within: timeouts.request,
                ready_within: timeouts.ready,
                spares_crc: core.options.spares_crcs(),
            },
            faults: core.device.faults().cloned(),
            fault_owner: Arc::<Device>::clone(&core.device),
        };
        let this: Weak<Self> = rules.this().clone();
        Self {
            acceptor: Acceptor::new(&core.driver, config, this),
            rules,
            core,
        }
    }

    fn rules(&self) -> &ListenerRules<Self> {
        &self.rules
    }

    fn bind(&self, addresses: &[IpAddr], port: u16) -> Result<(Vec<Bound>, u16)> {
        let transport = &self.core.driver.transport;
        let bound = local_ports::bind_all(transport, addresses, port, Purpose::Listening);
        bound.map_err(|why| bind_error(&why))
    }

    fn longest_backlog(&self) -> usize {
        LONGEST_BACKLOG.min(descriptors::limit() / 2).max(1)
    }

    fn listen(&self, bound: &mut Option<Vec<Bound>>, address: SocketAddr) -> Result<()> {
        let options = &self.core.options;
        let (total, per_peer) = (options.half_open, options.half_open_per_peer);
        let limits = HalfOpenLimits::for_process(total, per_peer, descriptors::limit());
        let bound = bound.take().unwrap_or_default();
        let listening = self.acceptor.listen(bound, Some(address), limits);
        listening
            .map_err(|error| Error::new(bind_status(&error), format!("cannot listen: {error}")))
    }

    fn stop(&self) {
        self.acceptor.close();
    }

    fn unbind(&self, bound: Vec<Bound>) {
        drop(bound);
    }

    fn has_gone(&self, request: &Arc<Incoming>) -> bool {
        request.has_ended()
    }

    fn take(&self, request: Arc<Incoming>) -> Option<ConnectionRequest> {
        request.take()
    }

    fn watch(&self, request: ConnectionRequest) -> Option<Arc<Incoming>> {
        let span = request.span().clone();
        let watched = self.acceptor.watch(request);
        let lost = |error: &_| limited!(error, target: targets::CONNECT, parent: &span, %error, "a peer that came back is lost");
        watched.inspect_err(lost).ok()
    }

    fn refuse(&self, request: Arc<Incoming>) {
        request.refuse();
    }
}

impl AcceptorOwner for Listener {
    fn requested(&self, incoming: Arc<Incoming>) {
        self.rules.arrived(self, incoming);
    }

    fn ended(&self, key: u64) {
        drop(self.rules.peer_gone(key));
    }
}
