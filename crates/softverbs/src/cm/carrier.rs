//! Carriers: queue pairs that the connection manager makes for connections that carry private data only.
//!
//! A program may connect an identifier for which it made no queue pair. Such a connection needs one all the same, because the queue pair has
//! the stream.

use std::sync::Arc;

use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::device::Device;
use crate::error::Result;
use crate::pd::ProtectionDomain;
use crate::process::Process;
use crate::qp::{QpAttributes, QpCaps, QpMask, QpOptions, QpState, QueuePair, Service};

/// A queue pair in INIT to which no program posts.
pub(super) fn carrier(process: &Arc<Process>, device: &Arc<Device>) -> Result<Arc<QueuePair>> {
    let context = Context::open(process, device)?;
    let pd = ProtectionDomain::allocate(&context)?;
    let cq = CompletionQueue::create(&context, 1, None)?;
    let options = QpOptions {
        service: Service::Reliable,
        send_cq: Arc::clone(&cq),
        receive_cq: cq,
        srq: None,
        caps: QpCaps {
            max_send_wr: 1,
            max_recv_wr: 1,
            ..QpCaps::default()
        },
        signal_all: false,
    };
    let qp = QueuePair::create_without_port(&pd, options)?;
    initialize(&qp)?;
    Ok(qp)
}

/// The change to INIT that the connection manager makes.
pub(super) fn initialize(qp: &Arc<QueuePair>) -> Result<()> {
    let (attributes, mask) = init_attributes();
    qp.modify(&attributes, mask)
}

/// The attributes of INIT.
pub(super) fn init_attributes() -> (QpAttributes, QpMask) {
    use crate::mr::AccessFlags;
    // The memory decides.
    let access = AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC;
    let attributes = QpAttributes {
        state: QpState::Init,
        port: 1,
        access: access.bits(),
        ..QpAttributes::default()
    };
    let mask = QpMask::STATE | QpMask::PKEY_INDEX | QpMask::PORT | QpMask::ACCESS_FLAGS;
    (attributes, mask)
}
