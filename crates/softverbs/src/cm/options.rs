//! Options of queue pairs that are made for identifiers.

use std::sync::Arc;

use crate::cq::CompletionQueue;
use crate::pd::ProtectionDomain;
use crate::qp::{QpCaps, Service};
use crate::srq::SharedReceiveQueue;

/// The options of an identifier's queue pair (`rdma_create_qp`).
#[derive(Clone, Debug, Default)]
pub struct IdQpOptions {
    /// The service.
    pub service: Service,
    /// The protection domain; without one, that which the identifiers of the device share.
    pub pd: Option<Arc<ProtectionDomain>>,
    /// The completion queue of requests; without one the queue pair gets one, with a channel.
    pub send_cq: Option<Arc<CompletionQueue>>,
    /// The completion queue of Receives; without one the queue pair gets one, with a channel.
    pub receive_cq: Option<Arc<CompletionQueue>>,
    /// The shared receive queue; without one, that of the identifier, if it has one.
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// The sizes of the queues.
    pub caps: QpCaps,
    /// Every request has a completion.
    pub signal_all: bool,
}
