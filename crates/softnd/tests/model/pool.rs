//! The model of one shared receive queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use netdirect::SharedReceiveQueue;

use super::connection::Receive;

/// A shared receive queue of a host. The model does not know when a queue pair takes a Receive. It knows that each message takes
/// at most one Receive, and that a Receive with a result was taken.
pub(crate) struct Pool {
    /// `None` once the client has released the queue.
    pub(crate) srq: Option<Arc<dyn SharedReceiveQueue>>,
    pub(crate) broken: bool,
    pub(crate) depth: u64,
    pub(crate) threshold: u64,
    /// Receives without a result, by their contexts, which grow with each post.
    open: BTreeMap<u64, Receive>,
    posted: u64,
    /// The context of the last posted Receive that has a result.
    last: u64,
    /// Messages that the peers of its queue pairs have posted.
    pub(crate) said: u64,
    /// The reason why requests of Notify may end with ND_CANCELED.
    pub(crate) canceled: bool,
    /// A Receive that is too short was posted.
    pub(crate) short: bool,
    /// Memory for Receives.
    pub(crate) free: Vec<usize>,
    /// Requests of Notify that have not ended.
    pub(crate) notifies: Vec<PoolNotify>,
}

/// A request of Notify.
#[derive(Debug)]
pub(crate) struct PoolNotify {
    /// Its place among the run's controls.
    pub(crate) control: usize,
    /// The number of Receives that had been posted when the request was made.
    posted: u64,
    /// The largest threshold since then.
    threshold: u64,
}

impl Pool {
    pub(crate) fn new(srq: Arc<dyn SharedReceiveQueue>, depth: u32, threshold: u32) -> Self {
        Self {
            srq: Some(srq),
            broken: false,
            depth: depth.into(),
            threshold: threshold.into(),
            open: BTreeMap::new(),
            posted: 0,
            last: 0,
            said: 0,
            canceled: false,
            short: false,
            free: Vec::new(),
            notifies: Vec::new(),
        }
    }

    /// Returns true if queue pairs can be made with it.
    pub(crate) fn is_usable(&self) -> bool {
        self.srq.is_some() && !self.broken
    }

    /// The number of Receives whose results the client has not taken. Some of the results may have been lost with their completion queue.
    pub(crate) fn at_most(&self) -> u64 {
        self.open.len() as u64
    }

    /// The smallest possible number of Receives that no queue pair has taken.
    pub(crate) fn at_least(&self) -> u64 {
        self.posted.saturating_sub(self.said)
    }

    /// Returns true if the peers have sent more messages than Receives were posted.
    pub(crate) fn is_short_of_receives(&self) -> bool {
        self.said > self.posted
    }

    pub(crate) fn posted(&mut self, receive: Receive) {
        self.posted += 1;
        self.open.insert(receive.context, receive);
    }

    /// A result has arrived for the Receive with this context.
    pub(crate) fn ended(&mut self, context: u64) -> Receive {
        self.last = self.last.max(context);
        let receive = self.open.remove(&context);
        receive.expect("a Receive has two results, or was never posted to this queue")
    }

    /// No event is left, and no result was lost: queue pairs have taken the Receives in the order of posting.
    pub(crate) fn check_order(&self) {
        if let Some((context, _)) = self.open.first_key_value() {
            assert!(
                *context > self.last,
                "Receive {context} has no result, and {} has one",
                self.last
            );
        }
    }

    /// A request of Notify is in flight.
    pub(crate) fn notify(&mut self, control: usize) {
        self.notifies.push(PoolNotify {
            control,
            posted: self.posted,
            threshold: self.threshold,
        });
    }

    /// Modify has set the threshold.
    pub(crate) fn set_threshold(&mut self, threshold: u64) {
        self.threshold = threshold;
        for notify in &mut self.notifies {
            notify.threshold = notify.threshold.max(threshold);
        }
    }

    /// A request of Notify has ended with success.
    pub(crate) fn notified(&self, notify: &PoolNotify) {
        let left = notify.posted.saturating_sub(self.said);
        assert!(
            left < notify.threshold,
            "Notify has ended, and the threshold was {} at most, but {left} Receives were outstanding all the time",
            notify.threshold
        );
    }

    /// No event is left: no request of Notify is in flight while too few Receives are left.
    pub(crate) fn check_notifies(&self) {
        assert!(
            self.notifies.is_empty() || self.at_most() >= self.threshold,
            "Notify has not ended although {} Receives are left, and the threshold is {}",
            self.at_most(),
            self.threshold
        );
    }
}
