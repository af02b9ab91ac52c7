//! The queue pair and the shared receive queue of an identifier, and the queues that the program leaves to the connection manager.

use std::sync::Arc;

use super::carrier::initialize;
use super::datagram_side::service_of;
use super::options::IdQpOptions;
use super::shared::SharedDevice;
use super::space::PortSpace;
use super::state::CmId;
use crate::channel::CompletionChannel;
use crate::cq::CompletionQueue;
use crate::error::{Errno, Error, Result, fail};
use crate::pd::ProtectionDomain;
use crate::qp::{QpOptions, QueuePair};
use crate::srq::{SharedReceiveQueue, SrqAttributes};

impl CmId {
    /// Returns the objects that the identifier shares with the others of its device, once the device is known.
    ///
    /// # Errors
    ///
    /// Those of [`SharedDevice::get`]; ENODEV before the device is known.
    pub fn shared_device(&self) -> Result<Arc<SharedDevice>> {
        let device = self
            .device()
            .ok_or_else(|| Error::new(Errno::NODEV, "the identifier has no device yet"))?;
        let shared = SharedDevice::get(&self.process, &device)?;
        self.lock().shared = Some(Arc::clone(&shared));
        Ok(shared)
    }

    /// The queue pair that was made for the identifier, or that the program has [named](Self::use_queue_pair).
    pub fn queue_pair(&self) -> Option<Arc<QueuePair>> {
        let state = self.lock();
        state.qp.clone().filter(|_| state.owns_qp)
    }

    /// Makes a queue pair for the identifier, in INIT, which the connection then uses.
    ///
    /// # Errors
    ///
    /// EINVAL if there is one, or if the protection domain is of another device; those of [`QueuePair::create`].
    pub fn create_queue_pair(
        &self,
        pd: &Arc<ProtectionDomain>,
        options: QpOptions,
    ) -> Result<Arc<QueuePair>> {
        let mut state = self.lock();
        if state.qp.is_some() {
            return fail(Errno::INVAL, "the identifier has a queue pair");
        }
        if !state.is_of_device_of(pd) {
            return fail(
                Errno::INVAL,
                "the protection domain is of another device than the identifier",
            );
        }
        let service = service_of(self);
        if options.service != service {
            return fail(
                Errno::INVAL,
                format!(
                    "queue pairs of this identifier are {service:?}: those of RDMA_PS_TCP have the type IBV_QPT_RC, and those of \
                     RDMA_PS_UDP the type IBV_QPT_UD"
                ),
            );
        }
        let qp = match self.space() {
            PortSpace::Tcp => {
                let qp = QueuePair::create_without_port(pd, options)?;
                initialize(&qp)?;
                qp
            }
            PortSpace::Udp => {
                let qp = QueuePair::create(pd, options)?;
                Self::advance_datagrams(&qp)?;
                qp
            }
        };
        state.qp = Some(Arc::clone(&qp));
        state.owns_qp = true;
        Ok(qp)
    }

    /// Names the queue pair that the identifier's next connection uses, or none. Programs make queue pairs themselves, or take one from
    /// another identifier (`id->qp = qp`). Does nothing while the identifier has a connection, or sets one up.
    ///
    /// # Errors
    ///
    /// EINVAL if the queue pair is of another device than the identifier.
    pub fn use_queue_pair(&self, qp: Option<&Arc<QueuePair>>) -> Result<()> {
        let mut state = self.lock();
        if state.phase.has_connection() {
            return Ok(());
        }
        match qp {
            Some(qp) if !state.is_of_device_of(qp.pd()) => {
                return fail(
                    Errno::INVAL,
                    "the queue pair is of another device than the identifier",
                );
            }
            // A queue pair that the program has attached by the number of the connection stays.
            None if !state.owns_qp => {}
            _ => {
                state.qp = qp.map(Arc::clone);
                state.owns_qp = qp.is_some();
            }
        }
        Ok(())
    }

    /// The program has destroyed the queue pair of the identifier. The queues that were made with it are still there.
    pub fn forget_queue_pair(&self) {
        let mut state = self.lock();
        state.qp = None;
        state.owns_qp = false;
    }

    /// Destroys the queue pair that was made for the identifier, and the queues that were made with it.
    ///
    /// # Errors
    ///
    /// EINVAL if there is none; EBUSY while other queue pairs use the queues.
    pub fn destroy_queue_pair(&self) -> Result<()> {
        let mut state = self.lock();
        if !state.owns_qp {
            return fail(Errno::INVAL, "the identifier has no queue pair");
        }
        let qp = state.qp.take();
        state.owns_qp = false;
        drop(state);
        if let Some(qp) = qp {
            qp.destroy()?;
        }
        self.destroy_own_queues()
    }

    /// Makes the queue pair of the identifier, with the completion queues that the options leave out.
    ///
    /// # Errors
    ///
    /// Those of [`create_queue_pair`](Self::create_queue_pair) and of the objects that are made.
    pub fn make_queue_pair(&self, options: IdQpOptions) -> Result<Arc<QueuePair>> {
        let pd = self.pd_or_shared(options.pd)?;
        let mut own = Vec::new();
        let mut cq_or_own = |cq: Option<Arc<CompletionQueue>>, depth: u32| {
            if let Some(cq) = cq {
                return Ok(cq);
            }
            let channel = CompletionChannel::create(pd.context())?;
            let made = CompletionQueue::create(pd.context(), depth.max(1), Some(&channel))?;
            own.push(Arc::clone(&made));
            Ok(made)
        };
        let caps = options.caps;
        let send_cq = cq_or_own(options.send_cq, caps.max_send_wr)?;
        let receive_cq = cq_or_own(options.receive_cq, caps.max_recv_wr)?;
        let srq = options.srq.or_else(|| self.shared_receive_queue());
        let of_queue_pair = QpOptions {
            service: options.service,
            send_cq,
            receive_cq,
            caps,
            srq,
            signal_all: options.signal_all,
        };
        let qp = self.create_queue_pair(&pd, of_queue_pair)?;
        self.lock().own_queues = own;
        Ok(qp)
    }

    fn pd_or_shared(&self, pd: Option<Arc<ProtectionDomain>>) -> Result<Arc<ProtectionDomain>> {
        match pd {
            Some(pd) => Ok(pd),
            None => Ok(Arc::clone(self.shared_device()?.pd())),
        }
    }

    /// The completion queues that were made with the queue pair.
    pub fn own_queues(&self) -> Vec<Arc<CompletionQueue>> {
        self.lock().own_queues.clone()
    }

    /// Destroys the completion queues that were made with the queue pair, with their channels. Waits until their events are acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while queue pairs use the queues.
    pub fn destroy_own_queues(&self) -> Result<()> {
        let mut own = std::mem::take(&mut self.lock().own_queues);
        let mut destroyed = Ok(());
        while let Some(cq) = own.last() {
            let channel = cq.channel();
            let both = cq.destroy();
            destroyed = both.and_then(|()| channel.map_or(Ok(()), |channel| channel.destroy()));
            if destroyed.is_err() {
                break;
            }
            own.pop();
        }
        // Queues that other queue pairs use are kept.
        self.lock().own_queues = own;
        destroyed
    }

    /// The shared receive queue of the identifier.
    pub fn shared_receive_queue(&self) -> Option<Arc<SharedReceiveQueue>> {
        self.lock().srq.clone()
    }

    /// Names the shared receive queue that the identifier's next queue pair draws from, or none. Programs make one themselves, or take it
    /// from another identifier (`id->srq = srq`).
    pub fn use_shared_receive_queue(&self, srq: Option<Arc<SharedReceiveQueue>>) {
        self.lock().srq = srq;
    }

    /// Makes the shared receive queue of the identifier (`rdma_create_srq`), which its queue pair then draws from.
    ///
    /// # Errors
    ///
    /// EINVAL if there is one; those of [`SharedReceiveQueue::create`].
    pub fn create_shared_receive_queue(
        &self,
        pd: Option<Arc<ProtectionDomain>>,
        attributes: SrqAttributes,
    ) -> Result<Arc<SharedReceiveQueue>> {
        if self.shared_receive_queue().is_some() {
            return fail(
                Errno::INVAL,
                "the identifier has a shared receive queue already",
            );
        }
        let srq = SharedReceiveQueue::create(&self.pd_or_shared(pd)?, attributes)?;
        self.lock().srq = Some(Arc::clone(&srq));
        Ok(srq)
    }

    /// Destroys the shared receive queue of the identifier, if it has one.
    ///
    /// # Errors
    ///
    /// EBUSY while queue pairs draw from it.
    pub fn destroy_shared_receive_queue(&self) -> Result<()> {
        if let Some(srq) = self.shared_receive_queue() {
            srq.destroy()?;
            self.lock().srq = None;
        }
        Ok(())
    }
}
