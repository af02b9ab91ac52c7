//! Shared receive queues.

use std::sync::Arc;

use netdirect::{
    Affinity, Error, Overlapped, OverlappedObject, Result, Sge, SharedReceiveQueue, Started, Status,
};

use super::rule::{Break, Method};

#[derive(Debug)]
pub(super) struct BrokenPool {
    pub(super) inner: Arc<dyn SharedReceiveQueue>,
    pub(super) rule: Break,
}

impl OverlappedObject for BrokenPool {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        if self.rule == Break::PoolCancelForgotten {
            return Ok(());
        }
        self.inner.cancel_overlapped_requests()
    }

    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        self.inner.get_overlapped_result(overlapped, wait)
    }
}

impl SharedReceiveQueue for BrokenPool {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        let affinity = self.inner.get_notify_affinity();
        self.rule.call(Method::PoolAffinity, affinity)
    }

    fn modify(&self, queue_depth: u32, mut notify_threshold: u32) -> Result<()> {
        match self.rule {
            Break::ModifyNeedsDepth if queue_depth == 0 => {
                return Err(Error::new(Status::INVALID_PARAMETER, "no depth"));
            }
            Break::ThresholdForgotten => notify_threshold = 0,
            _ => {}
        }
        let modified = self.inner.modify(queue_depth, notify_threshold);
        self.rule.call(Method::PoolModify, modified)
    }

    fn notify(&self, overlapped: &Overlapped) -> Result<Started> {
        let started = self.inner.notify(overlapped);
        self.rule.call(Method::PoolNotify, started)
    }

    fn receive(&self, mut context: u64, sges: &[Sge]) -> Result<()> {
        if self.rule == Break::PoolContextCut {
            context &= !(1 << 63);
        }
        let posted = self.inner.receive(context, sges);
        self.rule.call(Method::PoolReceive, posted)
    }
}
