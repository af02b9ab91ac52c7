//! The queue of Receives: a ring whose slots and SGEs are set aside once.

use super::config::QueueSizes;
use super::ring::{slot_of, slots_for};
use super::work::{Completion, PostError, RequestKind, WqeStatus};
use crate::types::{STag, Sge};

/// One Receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    context: u64,
    /// Octets it can take.
    pub(super) length: u32,
    sges: u32,
    status: WqeStatus,
    octets: u32,
    solicited: bool,
    invalidated: Option<STag>,
    immediate: Option<[u8; 8]>,
}

/// Receives, used and done in posting order: `head <= done <= tail`.
#[derive(Debug)]
pub(super) struct ReceiveQueue {
    depth: u64,
    slots: Box<[Receive]>,
    sges: Box<[Sge]>,
    sges_each: usize,
    head: u64,
    /// The Receive for the next message, or the message under way.
    pub(super) done: u64,
    tail: u64,
}

impl ReceiveQueue {
    pub(super) fn new(sizes: &QueueSizes) -> Self {
        let slots = slots_for(sizes.receive_depth);
        let sges_each = sizes.receive_sges as usize;
        let empty = Receive {
            context: 0,
            length: 0,
            sges: 0,
            status: WqeStatus::Flushed,
            octets: 0,
            solicited: false,
            invalidated: None,
            immediate: None,
        };
        Self {
            depth: sizes.receive_depth.into(),
            slots: vec![empty; slots].into(),
            sges: vec![Sge::default(); slots * sges_each].into(),
            sges_each,
            head: 0,
            done: 0,
            tail: 0,
        }
    }

    fn index(&self, at: u64) -> usize {
        slot_of(at, self.slots.len())
    }

    pub(super) fn post(
        &mut self,
        context: u64,
        sges: &[Sge],
        length: u32,
    ) -> Result<(), PostError> {
        if self.tail - self.head >= self.depth {
            return Err(PostError::QueueFull);
        }
        let index = self.index(self.tail);
        let start = index * self.sges_each;
        let mut count = 0;
        for (slot, sge) in self.sges[start..].iter_mut().zip(sges) {
            *slot = *sge;
            count += 1;
        }
        self.slots[index] = Receive {
            context,
            length,
            sges: count,
            status: WqeStatus::Flushed,
            octets: 0,
            solicited: false,
            invalidated: None,
            immediate: None,
        };
        self.tail += 1;
        Ok(())
    }

    /// The Receive for the message that arrives, if one is posted, and its SGEs.
    pub(super) fn current(&self) -> Option<(&Receive, &[Sge])> {
        if self.done == self.tail {
            return None;
        }
        let index = self.index(self.done);
        let receive = &self.slots[index];
        let start = index * self.sges_each;
        Some((receive, &self.sges[start..start + receive.sges as usize]))
    }

    /// The message is delivered, to the oldest Receive and once (DDP-048), with its length (DDP-050).
    pub(super) fn deliver(&mut self, octets: u32, solicited: bool, invalidated: Option<STag>) {
        self.settle(octets, solicited, invalidated, None);
    }

    /// The Receive was taken by Immediate Data (RDMAPX-022).
    pub(super) fn deliver_immediate(&mut self, data: [u8; 8], solicited: bool) {
        self.settle(0, solicited, None, Some(data));
    }

    fn settle(
        &mut self,
        octets: u32,
        solicited: bool,
        invalidated: Option<STag>,
        immediate: Option<[u8; 8]>,
    ) {
        let index = self.index(self.done);
        let receive = &mut self.slots[index];
        receive.status = WqeStatus::Success;
        receive.octets = octets;
        receive.solicited = solicited;
        receive.invalidated = invalidated;
        receive.immediate = immediate;
        self.done += 1;
    }

    /// The current Receive failed.
    pub(super) fn fail(&mut self, status: WqeStatus) {
        if self.done < self.tail {
            let index = self.index(self.done);
            self.slots[index].status = status;
            self.done += 1;
        }
    }

    /// All come back flushed; they were posted with that status.
    pub(super) const fn flush(&mut self) {
        self.done = self.tail;
    }

    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.sges)
    }

    /// How far completions have been fetched.
    pub(super) const fn fetched(&self) -> u64 {
        self.head
    }

    pub(super) fn take_completion(&mut self) -> Option<Completion> {
        if self.head == self.done {
            return None;
        }
        let receive = &self.slots[self.index(self.head)];
        let completion = Completion {
            context: receive.context,
            kind: RequestKind::Receive,
            status: receive.status,
            octets: receive.octets,
            solicited: receive.solicited,
            invalidated: receive.invalidated,
            immediate: receive.immediate,
            failed_bind: None,
        };
        self.head += 1;
        Some(completion)
    }
}
