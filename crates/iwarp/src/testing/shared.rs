//! A queue of Receives that many connections share, for one thread.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::conn::{ReceiveSlot, ReceiveSource};
use crate::types::{Sge, StreamId};

/// Receives in the order in which they were posted, and the streams that have found none.
#[derive(Debug, Default)]
pub(crate) struct SharedReceives {
    posted: RefCell<VecDeque<(u64, Vec<Sge>)>>,
    waiting: RefCell<Vec<StreamId>>,
}

impl SharedReceives {
    /// Posts a Receive. Returns the streams that have asked for one since the last post. Each of them has to get the octets
    /// again that it has not taken.
    #[must_use = "whoever waits has to be driven"]
    pub(crate) fn post(&self, context: u64, sges: &[Sge]) -> Vec<StreamId> {
        self.posted.borrow_mut().push_back((context, sges.to_vec()));
        self.waiting.take()
    }

    /// The source for one stream.
    pub(crate) const fn for_stream(&self, stream: StreamId) -> Share<'_> {
        Share {
            queue: self,
            stream,
        }
    }

    /// The contexts of the Receives that no stream has drawn, in their order.
    pub(crate) fn contexts(&self) -> Vec<u64> {
        let posted = self.posted.borrow();
        posted.iter().map(|(context, _)| *context).collect()
    }
}

/// The queue as one of its streams sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share<'a> {
    queue: &'a SharedReceives,
    stream: StreamId,
}

impl ReceiveSource for Share<'_> {
    fn draw(self, slot: ReceiveSlot<'_>) {
        let mut posted = self.queue.posted.borrow_mut();
        let filled = posted
            .front()
            .is_some_and(|(context, sges)| slot.fill(*context, sges).is_ok());
        if filled {
            posted.pop_front();
            return;
        }
        let mut waiting = self.queue.waiting.borrow_mut();
        if !waiting.contains(&self.stream) {
            waiting.push(self.stream);
        }
    }
}
