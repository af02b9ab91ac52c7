//! The outstanding requests of one queue. A failed result of the device contains neither the kind of its request nor its contexts, and some
//! devices complete requests in another order than ND2 demands, so both are kept here.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use netdirect::{CompletionResult, Immediate, RequestType, Sge, Status};

/// The bit that distinguishes Receives from other requests in the numbers that the device knows.
pub(crate) const RECEIVE: u64 = 1 << 63;

/// The end of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) status: Status,
    pub(crate) octets: u32,
    pub(crate) immediate: Option<Immediate>,
}

impl End {
    pub(crate) fn with(status: Status) -> Self {
        Self {
            status,
            octets: 0,
            immediate: None,
        }
    }
}

/// An outstanding request.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) context: u64,
    pub(crate) kind: RequestType,
    /// No result if the request succeeds.
    pub(crate) silent: bool,
    /// It is silent, and the device reports its end nevertheless.
    pub(crate) tells: bool,
    /// It names memory that is not registered, or not for such a request.
    pub(crate) denied: bool,
    /// The entries of a Receive of a queue pair that was not connected yet, because it may have to be posted again.
    pub(crate) entries: Option<Box<[Sge]>>,
    /// The objects that are kept until the request has ended.
    pub(crate) keeps: Option<Kept>,
    pub(crate) end: Option<End>,
}

impl Slot {
    /// A request that has just been posted.
    pub(crate) fn new(kind: RequestType, context: u64) -> Self {
        Self {
            context,
            kind,
            silent: false,
            tells: false,
            denied: false,
            entries: None,
            keeps: None,
            end: None,
        }
    }
}

/// Objects of the device that a request uses, and the client may have released.
pub(crate) trait Keeps: fmt::Debug + Send + Sync {
    /// The request has ended, and the objects are dropped. Called under the lock of the queue pair, before the client sees the result.
    fn ended(self: Box<Self>, status: Status);
}

pub(crate) type Kept = Box<dyn Keeps>;

/// The numbers of the results in one completion queue that the client has not taken, as far as is known. The slots of their requests are used
/// until then.
#[derive(Debug, Default)]
pub(crate) struct Untaken {
    numbers: VecDeque<Range<u64>>,
    count: usize,
}

impl Untaken {
    /// These results were placed. Numbers come in order.
    pub(crate) fn placed(&mut self, numbers: Range<u64>) {
        self.count += length(&numbers);
        match self.numbers.back_mut() {
            Some(last) if last.end == numbers.start => last.end = numbers.end,
            _ => self.numbers.push_back(numbers),
        }
    }

    /// Forgets the results with numbers below `end`. Returns how many these are.
    pub(crate) fn take_below(&mut self, end: u64) -> usize {
        let before = self.count;
        while let Some(first) = self.numbers.front_mut() {
            let taken = first.start..first.end.min(end.max(first.start));
            self.count -= length(&taken);
            first.start = taken.end;
            if !first.is_empty() {
                break;
            }
            self.numbers.pop_front();
        }
        before - self.count
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

fn length(numbers: &Range<u64>) -> usize {
    usize::try_from(numbers.end - numbers.start).unwrap_or(usize::MAX)
}

/// The requests of one queue, in the order of posting.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    /// The number of silent requests that the device has yet to report.
    telling: usize,
    /// Results of requests that are not in `slots` any more.
    pub(crate) untaken: Untaken,
}

/// Notes the end of a request that has none yet.
fn finish(slot: &mut Slot, end: End, telling: &mut usize) {
    if slot.end.is_none() {
        slot.end = Some(end);
        *telling -= usize::from(std::mem::take(&mut slot.tells));
    }
}

impl Slots {
    /// The number of slots that are used: of requests that have not ended, or whose results the client has not taken.
    pub(crate) fn used(&self) -> usize {
        self.slots.len() + self.untaken.len()
    }

    /// Adds a request, and returns its number.
    pub(crate) fn push(&mut self, slot: Slot) -> u64 {
        self.slots.push_back(slot);
        self.first + self.slots.len() as u64 - 1
    }

    /// Takes back the request that was added last, because the driver has refused it.
    pub(crate) fn pop_last(&mut self) {
        self.slots.pop_back();
    }

    /// Keeps objects until the request has ended.
    pub(crate) fn keep(&mut self, number: u64, kept: Option<Kept>) {
        if let Some(slot) = self.get_mut(number) {
            slot.keeps = kept;
        }
    }

    /// Notes that the device reports the end of this silent request.
    pub(crate) fn tells(&mut self, number: u64) {
        if let Some(slot) = self.get_mut(number)
            && slot.end.is_none()
        {
            slot.tells = true;
            self.telling += 1;
        }
    }

    /// The number of silent requests that the device has yet to report.
    pub(crate) fn telling(&self) -> usize {
        self.telling
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Slot> {
        let at = number.checked_sub(self.first)?;
        self.slots.get(usize::try_from(at).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Slot> {
        let at = number.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(at).ok()?)
    }

    /// Notes the end of a request. On devices that complete in order, the end of a request is the end of all silent ones before
    /// it.
    pub(crate) fn end(&mut self, number: u64, end: End, in_order: bool) {
        if self.get(number).is_none_or(|slot| slot.end.is_some()) {
            return; // the result of a queue pair that was destroyed
        }
        let before = usize::try_from(number - self.first).unwrap_or(0);
        let Self { slots, telling, .. } = self;
        finish(&mut slots[before], end, telling);
        if in_order {
            for earlier in slots.iter_mut().take(before) {
                finish(earlier, End::with(Status::SUCCESS), telling);
            }
        }
    }

    /// Forgets the entries of Receives, which will not be posted again.
    pub(crate) fn forget_entries(&mut self) {
        for slot in &mut self.slots {
            slot.entries = None;
        }
    }

    /// Ends all requests that have not ended.
    pub(crate) fn end_all(&mut self, status: Status) {
        for slot in &mut self.slots {
            finish(slot, End::with(status), &mut self.telling);
        }
    }

    /// The requests that have not ended, with their numbers.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (u64, &Slot)> {
        let numbered = (self.first..).zip(&self.slots);
        numbered.filter(|(_, slot)| slot.end.is_none())
    }

    /// Takes the oldest requests that have ended, up to the first one that has not.
    pub(crate) fn take_ended(
        &mut self,
        queue_pair_context: u64,
        mut result: impl FnMut(CompletionResult),
    ) {
        while let Some(Slot { end: Some(end), .. }) = self.slots.front() {
            let end = *end;
            let Some(slot) = self.slots.pop_front() else {
                return;
            };
            self.first += 1;
            if let Some(kept) = slot.keeps {
                kept.ended(end.status);
            }
            if slot.silent && end.status == Status::SUCCESS {
                continue;
            }
            result(
                CompletionResult::new(slot.kind, slot.context)
                    .status(end.status)
                    .bytes_transferred(end.octets)
                    .queue_pair_context(queue_pair_context)
                    .immediate(end.immediate),
            );
        }
    }
}
