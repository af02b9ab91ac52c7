//! Shared receive queues, ND2's `IND2SharedReceiveQueue`.

use std::sync::Arc;

use iwarp_io::cq::QueueUsers;
use iwarp_io::endpoint::queue_pair::PairSrq;
use iwarp_io::endpoint::shared_receives::{CannotModify, SharedReceiveSizes, SharedReceives};
use iwarp_io::limited;
use iwarp_io::log::targets;
use netdirect::{Error, Result, Sge, SharedReceiveQueueOptions, Status};
use netdirect_provider::completion_queue::ResizeError;
use netdirect_provider::shared_receive_queue::{SharedReceiveQueueLine, SharedReceiveQueueRules};

use crate::core::Core;
use crate::sge::with_sges;
use crate::status::{no_memory, post_error};

/// The queue itself, shared by its handle and by the queue pairs that draw from it.
#[derive(Debug)]
pub(crate) struct Srq {
    rules: SharedReceiveQueueRules<Core>,
    core: Arc<Core>,
    pub(crate) receives: Arc<SharedReceives>,
    /// The queue pairs that break down with the queue.
    pub(crate) users: QueueUsers,
}

impl PairSrq for Srq {
    /// Ends the requests of Notify if fewer Receives than the threshold are left (SRQ-023).
    #[inline]
    fn look(&self) {
        self.receives.drive_due();
        if self.receives.take_low() {
            self.rules.end_requests(Status::SUCCESS); // SRQ-024
        }
    }
}

impl SharedReceiveQueueLine for Srq {
    type Adapter = Core;

    fn create(
        rules: SharedReceiveQueueRules<Core>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<Self>> {
        let core = Arc::clone(rules.adapter());
        let sizes = SharedReceiveSizes {
            depth: options.queue_depth,
            sges: options.max_request_sge,
            max_transfer: core.options.limits.transfer_length,
        };
        let receives = SharedReceives::new(sizes, options.notify_threshold);
        let short = no_memory(
            Status::NO_MEMORY, // ADPT-042
            "cannot create a shared receive queue",
        );
        let receives = receives.map_err(short)?;
        Ok(Arc::new(Self {
            rules,
            core,
            receives: Arc::new(receives),
            users: QueueUsers::default(),
        }))
    }

    fn rules(&self) -> &SharedReceiveQueueRules<Core> {
        &self.rules
    }

    fn arm(&self) {
        self.receives.arm();
        self.look();
    }

    fn disarm(&self) {
        self.receives.disarm();
    }

    fn modify(&self, depth: Option<u32>, threshold: Option<u32>) -> Result<(), ResizeError> {
        let modified = self.receives.modify(depth, threshold);
        modified.map_err(|why| match why {
            CannotModify::TooMany => ResizeError::TooSmall,
            CannotModify::OutOfMemory => ResizeError::Other(Error::new(
                Status::INSUFFICIENT_RESOURCES,
                "there is no memory for the new depth",
            )), // SRQ-012
        })?;
        self.look();
        Ok(())
    }

    fn waits(&self) -> Option<String> {
        let count = self.rules.waiting()?;
        let left = self.receives.outstanding();
        (count > 0).then(|| {
            format!("Notify waits until a shared receive queue, which has {left} Receives, falls below its threshold")
        })
    }

    fn broke_down(&self, status: Status) {
        limited!(
            error,
            target: targets::QUEUE,
            %status,
            "a shared receive queue broke down, and its connections end; create the queue and its queue pairs anew"
        );
        self.users.end();
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        self.core.device.present()?; // GEN-015
        let post = |sges: &[_]| self.receives.post(context, sges).map_err(post_error);
        with_sges(sges, post, |_| ())
    }
}
