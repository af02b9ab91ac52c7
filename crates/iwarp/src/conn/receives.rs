//! The Receives of a connection: its own queue, and sources that several connections share.
//!
//! When a message needs a shared Receive, the Receive becomes the connection's own. From then on it is like a Receive that
//! was posted to the connection: it completes there once, filled, failed or flushed.

use super::config::QueueSizes;
use super::ring::{OutOfMemory, filled, slot_of, slots_for};
use super::work::{Completion, PostError, ReceivedImmediate, RequestKind, WqeStatus};
use crate::types::{STag, Sge};

/// Supplies Receives when the connection's own queue has none. An argument of each call that may need one.
///
/// The source is a handle, which is cheap to copy. For a queue that connections of several threads share, it is a reference
/// to the queue and the name of the connection that asks.
pub trait ReceiveSource: Copy {
    /// Passes the Receive that was posted first to [`ReceiveSlot::fill`], and takes it out of the queue. Does nothing if
    /// there is none.
    ///
    /// A connection that gets none waits, with [`Event::Stalled`](super::Event::Stalled) where a whole Send is here. It
    /// asks again when [`handle_bytes`](super::Connection::handle_bytes) is called again. So a source that finds no Receive
    /// notes which connection has asked, before it unlocks. The thread that posts the next Receive then makes sure that
    /// this connection is driven.
    fn draw(self, slot: ReceiveSlot<'_>);
}

/// A source without Receives: the connection has only those that were posted to it
/// ([`post_receive`](super::Connection::post_receive)).
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnQueue;

impl ReceiveSource for OwnQueue {
    #[inline(always)]
    fn draw(self, _: ReceiveSlot<'_>) {}
}

/// The place of one Receive in the queue of the connection that asks for it.
#[derive(Debug)]
pub struct ReceiveSlot<'a> {
    queue: &'a mut ReceiveQueue,
    sizes: &'a QueueSizes,
}

impl ReceiveSlot<'_> {
    /// Gives the connection a Receive. It completes, or comes back flushed, on this connection.
    ///
    /// # Errors
    ///
    /// [`PostError::TooManySges`] or [`PostError::TooLong`], as if the Receive were posted to this connection. The
    /// connection then does not take it.
    pub fn fill(self, context: u64, sges: &[Sge]) -> Result<(), PostError> {
        let length = self.sizes.receive_length(sges)?;
        self.queue.take_in(context, sges, length);
        Ok(())
    }

    /// Like [`fill`](Self::fill), for a source that has added up the lengths of the SGEs before. A message longer than the SGEs then fails
    /// as one whose Receive names memory that is not registered.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill).
    #[inline]
    pub fn fill_with_length(
        self,
        context: u64,
        sges: &[Sge],
        length: u32,
    ) -> Result<(), PostError> {
        debug_assert_eq!(self.sizes.receive_length(sges).unwrap_or(length), length);
        self.sizes.check_receive(sges.len(), length)?;
        self.queue.take_in(context, sges, length);
        Ok(())
    }
}

/// One Receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    context: u64,
    /// Octets that the Receive can take.
    pub(super) length: u32,
    sges: u32,
    status: WqeStatus,
    octets: u32,
    solicited: bool,
    invalidated: Option<STag>,
    immediate: Option<ReceivedImmediate>,
}

const EMPTY: Receive = Receive {
    context: 0,
    length: 0,
    sges: 0,
    status: WqeStatus::Flushed,
    octets: 0,
    solicited: false,
    invalidated: None,
    immediate: None,
};

/// Receives, used and done in posting order: `freed <= head <= done <= tail`.
#[derive(Debug)]
pub(super) struct ReceiveQueue {
    depth: u64,
    /// The number of slots that are free again, because the client has taken the completions of their Receives.
    freed: u64,
    slots: Box<[Receive]>,
    sges: Box<[Sge]>,
    sges_each: usize,
    head: u64,
    /// The Receive for the next message, or for the current message.
    pub(super) done: u64,
    tail: u64,
}

impl ReceiveQueue {
    pub(super) fn new(sizes: &QueueSizes) -> Result<Self, OutOfMemory> {
        let slots = slots_for(sizes.receive_depth);
        let sges_each = sizes.receive_sges as usize;
        Ok(Self {
            depth: sizes.receive_depth.into(),
            freed: 0,
            slots: filled(EMPTY, slots, 1)?,
            sges: filled(Sge::default(), slots, sges_each)?,
            sges_each,
            head: 0,
            done: 0,
            tail: 0,
        })
    }

    /// Returns the number of Receives for this message and later ones.
    #[expect(clippy::cast_possible_truncation, reason = "at most as many as slots")]
    pub(super) const fn posted(&self) -> usize {
        (self.tail - self.done) as usize
    }

    fn index(&self, at: u64) -> usize {
        slot_of(at, self.slots.len())
    }

    #[inline]
    pub(super) fn post(
        &mut self,
        context: u64,
        sges: &[Sge],
        length: u32,
        taken: impl FnOnce() -> u64,
    ) -> Result<(), PostError> {
        if self.is_full() {
            self.make_room(taken)?;
        }
        self.push(context, sges, length);
        Ok(())
    }

    /// Returns true if a Receive would find no slot.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.tail - self.freed >= self.depth
    }

    /// Frees the slots of completions that the client has taken meanwhile.
    #[inline(never)]
    fn make_room(&mut self, taken: impl FnOnce() -> u64) -> Result<(), PostError> {
        self.free(taken());
        match self.is_full() {
            true => Err(PostError::QueueFull),
            false => Ok(()),
        }
    }

    /// The client has taken this many completions.
    pub(super) fn free(&mut self, completions: u64) {
        self.freed += completions;
        debug_assert!(
            self.freed <= self.head,
            "a completion was taken that was not fetched"
        );
    }

    /// Takes a shared Receive in, and makes room if necessary, whatever the number of completions that were not fetched yet.
    fn take_in(&mut self, context: u64, sges: &[Sge], length: u32) {
        debug_assert!(self.done == self.tail, "a Receive is there already");
        if self.tail - self.head == self.slots.len() as u64 {
            self.grow();
        }
        self.push(context, sges, length);
    }

    /// Doubles the slots. All Receives in them are done, because a connection draws only then, so their SGEs are not copied.
    #[cold]
    fn grow(&mut self) {
        let slots = 2 * self.slots.len();
        let mut larger = Self {
            slots: vec![EMPTY; slots].into(),
            sges: vec![Sge::default(); slots * self.sges_each].into(),
            ..*self
        };
        for at in self.head..self.tail {
            let (from, to) = (self.index(at), larger.index(at));
            larger.slots[to] = self.slots[from];
        }
        *self = larger;
    }

    #[inline]
    fn push(&mut self, context: u64, sges: &[Sge], length: u32) {
        let index = self.index(self.tail);
        let start = index * self.sges_each;
        let mut count = 1;
        if let [one] = sges {
            self.sges[start] = *one; // most Receives, without a call that copies memory
        } else {
            count = 0;
            for (slot, sge) in self.sges[start..].iter_mut().zip(sges) {
                *slot = *sge;
                count += 1;
            }
        }
        self.slots[index] = Receive {
            context,
            length,
            sges: count,
            ..EMPTY
        };
        self.tail += 1;
    }

    /// As [`current`](Self::current), but asks `source` for a Receive if none is posted.
    #[inline(always)]
    pub(super) fn current_or_drawn(
        &mut self,
        source: impl ReceiveSource,
        sizes: &QueueSizes,
    ) -> Option<(&Receive, &[Sge])> {
        if self.done == self.tail {
            source.draw(ReceiveSlot { queue: self, sizes });
        }
        self.current()
    }

    /// The Receive for the message that arrives, if one is posted, and its SGEs.
    #[inline]
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

    /// The Receive was taken by Immediate Data (RDMAPX-022), after a Write of `written` octets.
    pub(super) fn deliver_immediate(&mut self, data: [u8; 8], solicited: bool, written: u32) {
        let immediate = ReceivedImmediate::Alone(data);
        self.settle(written, solicited, None, Some(immediate));
    }

    /// The message is delivered, which was announced with `number`.
    #[cold]
    pub(super) fn deliver_announced(&mut self, octets: u32, solicited: bool, number: [u8; 4]) {
        let immediate = ReceivedImmediate::OfSend(number);
        self.settle(octets, solicited, None, Some(immediate));
    }

    fn settle(
        &mut self,
        octets: u32,
        solicited: bool,
        invalidated: Option<STag>,
        immediate: Option<ReceivedImmediate>,
    ) {
        let index = self.index(self.done);
        let receive = &mut self.slots[index];
        receive.status = WqeStatus::Success;
        receive.octets = octets - u32::from(planted!(LengthMiscounted) && octets > 1460);
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

    /// Makes all Receives come back flushed. They have had this status since they were posted.
    pub(super) const fn flush(&mut self) {
        self.done = self.tail;
    }

    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.sges)
    }

    /// The position up to which completions were fetched.
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
