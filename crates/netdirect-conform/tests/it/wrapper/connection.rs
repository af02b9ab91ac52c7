//! Connectors and listeners.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use netdirect::{
    Connector, Error, Listener, Overlapped, OverlappedFile, OverlappedObject, QueuePair,
    ReadLimits, Result, Started, Status,
};

use super::data::Introductions;
use super::rule::{Break, Deed, Method};
use super::{inner_connector, inner_qp, overlapped_result, start};

#[derive(Debug)]
pub(super) struct BrokenConnector {
    pub(super) inner: Arc<dyn Connector>,
    file: Arc<dyn OverlappedFile>,
    own: Vec<IpAddr>,
    introductions: Arc<Introductions>,
    rule: Break,
}

impl BrokenConnector {
    pub(super) fn new(
        inner: Arc<dyn Connector>,
        file: &Arc<dyn OverlappedFile>,
        own: Vec<IpAddr>,
        introductions: Arc<Introductions>,
        rule: Break,
    ) -> Self {
        let file = file.clone();
        Self {
            inner,
            file,
            own,
            introductions,
            rule,
        }
    }

    fn does(&self, deed: Deed) -> bool {
        self.rule == Break::Connection(deed)
    }
}

impl OverlappedObject for BrokenConnector {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        if self.does(Deed::CancelForgotten) {
            return Ok(());
        }
        self.inner.cancel_overlapped_requests()
    }

    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        if self.rule == Break::OwnRequestsOnly {
            return Status::INVALID_PARAMETER;
        }
        overlapped_result(self.rule, &*self.inner, overlapped, wait)
    }
}

impl Connector for BrokenConnector {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        let bound = self.inner.bind(address);
        self.rule.call(Method::BindConnector, bound)
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
        if self.rule == Break::NoLoopback && self.own.contains(&destination.ip()) {
            return Err(Error::new(Status::CONNECTION_REFUSED, "the own address"));
        }
        if self.does(Deed::ConnectorStays) {
            std::mem::forget(Arc::clone(&self.inner));
        }
        self.introductions.connects(qp);
        let outbound_read_limit = if self.does(Deed::ReadsForAll) {
            outbound_read_limit.max(1)
        } else {
            outbound_read_limit
        };
        let connect = |own: &Overlapped| {
            self.inner.connect(
                &inner_qp(qp),
                destination,
                inbound_read_limit,
                outbound_read_limit,
                private_data,
                own,
            )
        };
        start(self.rule, Method::Connect, &self.file, overlapped, connect)
    }

    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        let started = self.inner.complete_connect(overlapped);
        self.rule.call(Method::CompleteConnect, started)
    }

    fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.introductions.accepts(qp);
        let started = self.inner.accept(
            &inner_qp(qp),
            inbound_read_limit,
            outbound_read_limit,
            private_data,
            overlapped,
        );
        self.rule.call(Method::Accept, started)
    }

    fn reject(&self, private_data: &[u8]) -> Result<()> {
        let lost = self.does(Deed::RejectDataLost) && private_data.len() <= 248;
        let rejected = self.inner.reject(if lost { &[] } else { private_data });
        self.rule.call(Method::Reject, rejected)
    }

    fn get_read_limits(&self) -> Result<ReadLimits> {
        let limits = self.inner.get_read_limits()?;
        Ok(if self.does(Deed::LimitsSwapped) {
            ReadLimits {
                inbound: limits.outbound,
                outbound: limits.inbound,
            }
        } else {
            limits
        })
    }

    fn get_private_data(&self) -> Result<Vec<u8>> {
        let mut data = self.inner.get_private_data()?;
        if self.does(Deed::PrivateDataCut) {
            data.truncate(36);
        }
        Ok(data)
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        let address = self.inner.get_local_address();
        self.rule.call(Method::LocalAddress, address)
    }

    fn get_peer_address(&self) -> Result<SocketAddr> {
        let mut address = self.inner.get_peer_address();
        if let Ok(address) = &mut address
            && self.does(Deed::PeerPortLost)
        {
            address.set_port(0);
        }
        self.rule.call(Method::PeerAddress, address)
    }

    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        let at_once = self.does(Deed::NotifiedAtOnce);
        let own = Overlapped::new().without_port();
        let request = if at_once { &own } else { overlapped };
        let started = self.inner.notify_disconnect(request);
        let started = self.rule.call(Method::NotifyDisconnect, started)?;
        Ok(if at_once { Started::Done } else { started })
    }

    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        let started = self.inner.disconnect(overlapped);
        self.rule.call(Method::Disconnect, started)
    }
}

#[derive(Debug)]
pub(super) struct BrokenListener {
    inner: Arc<dyn Listener>,
    file: Arc<dyn OverlappedFile>,
    asked: Mutex<Vec<Overlapped>>,
    rule: Break,
}

impl BrokenListener {
    pub(super) fn new(
        inner: Arc<dyn Listener>,
        file: &Arc<dyn OverlappedFile>,
        rule: Break,
    ) -> Self {
        Self {
            inner,
            file: file.clone(),
            asked: Mutex::new(Vec::new()),
            rule,
        }
    }
}

impl OverlappedObject for BrokenListener {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        let asked = self.asked.lock().unwrap().clone();
        if self.rule == Break::NothingToCancel && !asked.iter().any(Overlapped::is_pending) {
            return Err(Error::new(Status::UNSUCCESSFUL, "nothing to cancel"));
        }
        self.inner.cancel_overlapped_requests()
    }

    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        overlapped_result(self.rule, &*self.inner, overlapped, wait)
    }
}

impl Listener for BrokenListener {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        if self.rule == Break::Connection(Deed::PortNeverBack) && address.port() != 0 {
            return Err(Error::new(Status::SHARING_VIOLATION, "a port was named"));
        }
        let bound = self.inner.bind(address);
        self.rule.call(Method::BindListener, bound)
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        let ignored = self.rule == Break::Connection(Deed::BacklogIgnored);
        let listening = self.inner.listen(if ignored { 0 } else { backlog });
        self.rule.call(Method::Listen, listening)
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        let address = self.inner.get_local_address();
        self.rule.call(Method::ListenerAddress, address)
    }

    fn get_connection_request(
        &self,
        connector: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let (connector, method) = (inner_connector(connector), Method::GetConnectionRequest);
        let started = start(self.rule, method, &self.file, overlapped, |own| {
            self.inner.get_connection_request(&connector, own)
        });
        match started {
            Ok(_) => self.asked.lock().unwrap().push(overlapped.clone()),
            Err(_) if self.rule == Break::RefusedNotifies => {
                overlapped.begin(&self.file)?.complete(Status::CANCELED);
            }
            Err(_) => {}
        }
        started
    }
}
