//! Shared receive queues.

use std::fmt;
use std::sync::Arc;

use iwarp_io::endpoint::queue_pair::PairSrq;
use iwarp_io::endpoint::shared_receives::{CannotModify, SharedReceiveSizes, SharedReceives};
use parking_lot::Mutex;

use crate::context::AsyncEventKind;
use crate::device::limits;
use crate::error::{Errno, Error, Result, fail};
use crate::pd::ProtectionDomain;
use crate::sge::{Sge, post_error, with_sges};
use crate::users::{Subject, Tag, User, Users};

/// A queue of Receives that several queue pairs draw from.
pub struct SharedReceiveQueue {
    pd: Arc<ProtectionDomain>,
    pub(crate) receives: Arc<SharedReceives>,
    attributes: Mutex<SrqAttributes>,
    subject: Arc<Subject>,
    pub(crate) users: Users,
    user: User,
}

/// The attributes of a shared receive queue, as in `struct ibv_srq_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqAttributes {
    /// Receives that can be posted.
    pub max_wr: u32,
    /// SGEs of a Receive.
    pub max_sge: u32,
    /// An event is raised once the queue has fewer Receives. 0 after the event, and while none is wanted.
    pub limit: u32,
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceiveQueue")
            .field("receives", &self.receives)
            .finish_non_exhaustive()
    }
}

impl SharedReceiveQueue {
    /// Makes a queue without Receives. `attributes.limit` is ignored, as in verbs.
    ///
    /// # Errors
    ///
    /// EINVAL above the device's limits; ENOMEM.
    pub fn create(pd: &Arc<ProtectionDomain>, attributes: SrqAttributes) -> Result<Arc<Self>> {
        let SrqAttributes {
            max_wr, max_sge, ..
        } = attributes;
        if max_wr == 0 || max_wr > limits::REQUESTS || max_sge > limits::SGES {
            return fail(
                Errno::INVAL,
                format!(
                    "a shared receive queue has 1 to {} Receives of at most {} SGEs",
                    limits::REQUESTS,
                    limits::SGES
                ),
            );
        }
        let max_sge = max_sge.max(1);
        let sizes = SharedReceiveSizes {
            depth: max_wr,
            sges: max_sge,
            max_transfer: limits::MESSAGE,
        };
        let receives = SharedReceives::new(sizes, 0).map_err(|_| no_memory())?;
        Ok(Arc::new(Self {
            user: pd.users.add(),
            pd: Arc::clone(pd),
            receives: Arc::new(receives),
            attributes: Mutex::new(SrqAttributes {
                max_wr,
                max_sge,
                limit: 0,
            }),
            subject: Arc::default(),
            users: Users::default(),
        }))
    }

    /// The protection domain of the memory that Receives name.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.subject.tag
    }

    /// The most SGEs of a Receive.
    #[must_use]
    pub fn max_sge(&self) -> u32 {
        self.receives.sges()
    }

    /// Posts a Receive.
    ///
    /// # Errors
    ///
    /// ENOMEM when the queue is full: a Receive has its slot until the program has taken its completion. EINVAL for too many SGEs.
    pub fn post_receive(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        with_sges(sges, |sges| {
            self.receives.post(wr_id, sges).map_err(post_error)
        })
    }

    /// Changes the depth, the limit, or both. A limit asks for one event when there are fewer Receives.
    ///
    /// # Errors
    ///
    /// EINVAL for values above the limits; ENOMEM.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        let mut attributes = self.attributes.lock();
        let depth = max_wr.unwrap_or(attributes.max_wr);
        if depth == 0 || depth > limits::REQUESTS || limit.is_some_and(|limit| limit > depth) {
            return fail(
                Errno::INVAL,
                "a shared receive queue's depth is within the device's limit, and its limit within its depth",
            );
        }
        self.receives
            .modify(max_wr, limit)
            .map_err(|why| match why {
                CannotModify::TooMany => Error::new(
                    Errno::INVAL,
                    "more Receives are posted, or have completions to be polled, than the new depth holds",
                ),
                CannotModify::OutOfMemory => no_memory(),
            })?;
        attributes.max_wr = depth;
        attributes.limit = limit.unwrap_or(attributes.limit);
        drop(attributes);
        match limit {
            None => {}
            Some(0) => self.receives.disarm(),
            Some(_) => self.receives.arm(),
        }
        self.look();
        Ok(())
    }

    /// The attributes.
    pub fn query(&self) -> SrqAttributes {
        *self.attributes.lock()
    }

    /// Prepares to release the queue: waits until its events are acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while queue pairs use the queue.
    pub fn destroy(&self) -> Result<()> {
        self.users
            .check_none("the shared receive queue", "queue pairs")?;
        self.receives.disarm();
        self.user.release();
        self.pd.context().end_subject(&self.subject)
    }
}

impl PairSrq for SharedReceiveQueue {
    fn look(&self) {
        if self.receives.take_low() {
            self.attributes.lock().limit = 0;
            let subject = Some(&self.subject);
            self.pd
                .context()
                .raise(AsyncEventKind::SharedReceiveLimit, subject);
        }
        self.receives.drive_due();
    }
}

fn no_memory() -> Error {
    Error::new(
        Errno::NOMEM,
        "there is no memory for the shared receive queue",
    )
}
