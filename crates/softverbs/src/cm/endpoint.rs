//! Identifiers with all objects that belong to them, in one call: `rdma_create_ep`, `rdma_get_request` and `rdma_destroy_ep`.

use std::net::SocketAddr;
use std::sync::Arc;

use super::addrinfo::{AddrInfo, AddrInfoFlags, check_type};
use super::event::CmEventKind;
use super::options::IdQpOptions;
use super::state::CmId;
use super::sync::{check, keep};
use crate::error::{Errno, Error, Result, fail};
use crate::process::Process;

impl CmId {
    /// Makes a synchronous identifier for an address that [`address_info`](crate::address_info) has found: one that is bound, for a
    /// listener, or one whose route is resolved. The queue pair of the options is the identifier's, or those that a listener's
    /// [requests](Self::get_request) get.
    ///
    /// # Errors
    ///
    /// EINVAL if the information lacks an address; EOPNOTSUPP for queue pairs other than those of reliable connections; those of the steps.
    pub fn create_endpoint(
        process: &Arc<Process>,
        info: &AddrInfo,
        options: Option<IdQpOptions>,
    ) -> Result<Arc<Self>> {
        let space = check_type(info.qp_type, info.port_space)?;
        let id = Self::create_synchronous(process, space)?;
        match id.prepare(info, options) {
            Ok(()) => Ok(id),
            Err(error) => {
                id.destroy()?;
                Err(error)
            }
        }
    }

    fn prepare(&self, info: &AddrInfo, options: Option<IdQpOptions>) -> Result<()> {
        let needed = |address: Option<SocketAddr>, what: &'static str| {
            address.ok_or_else(|| Error::new(Errno::INVAL, what))
        };
        if info.flags.contains(AddrInfoFlags::PASSIVE) {
            self.bind(needed(info.source, "a listener has no local address")?)?;
            self.lock().template = options;
            return Ok(());
        }
        let peer = needed(info.destination, "a connection has no address of the peer")?;
        self.resolve_addr(info.source, peer)?;
        self.resolve_route()?;
        if let Some(options) = options {
            self.make_queue_pair(options)?;
        }
        Ok(())
    }

    /// Waits for the next request at a synchronous listener, and returns its identifier, which is synchronous as well
    /// (`rdma_get_request`). If the listener was made with [options of a queue pair](Self::create_endpoint), the identifier has one.
    ///
    /// # Errors
    ///
    /// EINVAL for a listener with a channel of the program, or if the event is not a request; the error that the event reports; those of
    /// the queue pair.
    pub fn get_request(&self) -> Result<Arc<Self>> {
        if !self.is_synchronous() {
            return fail(
                Errno::INVAL,
                "the listener has a channel: get its events from there",
            );
        }
        self.forget_last_event();
        let event = self.channel().get_event()?;
        let id = Arc::clone(event.id());
        let last = keep(event);
        if last.kind != CmEventKind::ConnectRequest || last.status != 0 {
            let failed = check(&last);
            *self.last_event.lock() = Some(last);
            failed?;
            return fail(Errno::INVAL, "the event is no request");
        }
        let made = id.migrate(None).and_then(|()| match self.template() {
            Some(options) => id.make_queue_pair(options).map(|_| ()),
            None => Ok(()),
        });
        if let Err(error) = made {
            // The peer is refused.
            id.destroy()?;
            return Err(error);
        }
        *id.last_event.lock() = Some(last);
        Ok(id)
    }

    /// The options of the queue pairs that a listener makes for its requests.
    fn template(&self) -> Option<IdQpOptions> {
        self.lock().template.clone()
    }

    /// Destroys the queue pair and the shared receive queue of the identifier, then [prepares](Self::destroy) to release it.
    ///
    /// # Errors
    ///
    /// EBUSY while other queue pairs use the identifier's queues. In a simulation EDEADLK if events are not acknowledged.
    pub fn destroy_endpoint(&self) -> Result<()> {
        if self.queue_pair().is_some() {
            self.destroy_queue_pair()?;
        }
        self.destroy_own_queues()?;
        self.destroy_shared_receive_queue()?;
        self.destroy()
    }
}
