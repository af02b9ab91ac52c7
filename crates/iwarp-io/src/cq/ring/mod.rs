//! The bounded ring of a completion queue. Many threads place results in it and take results out, and none waits for another.
//!
//! Results are numbered in the order of their arrival. `tail` is the number that the next result gets, `head` the number of the next result
//! to be taken. Both only grow. A placer claims numbers for all of its results in one step, fills their slots, and publishes them, the
//! first one last, so that the results of one call appear together. A taker copies the published results from `head` on and then moves
//! `head` over them. If another taker was quicker, the copied slots may have been overwritten meanwhile, and the taker throws its copies
//! away. A placer uses a slot again only after it has seen `head` move over the slot. A taker stops at a slot that is claimed and not
//! published yet; it takes the results behind that slot later.
//!
//! Slots are in arrays whose lengths are powers of two. A deep queue begins with an array of at most 2^[`FIRST`] slots, and a placer that
//! finds the array full makes a longer one, so that the memory in use follows the number of results that wait at once. Memory for the depth
//! is reserved from the start, so that this cannot fail; the system gives pages only to what was used. Placers continue in the longer array
//! from then on, takers once the shorter one is empty. So no result is moved, no taker has to stop, and nothing is lost; only placers that
//! find the array full take a lock. The ring keeps its arrays until it is dropped, which at most doubles the memory of the longest array. A
//! queue that shrinks keeps its array.

use std::collections::TryReserveError;
use std::sync::OnceLock;

use super::Entry;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The greatest depth of a queue, in entries.
pub const GREATEST_DEPTH: u32 = 1 << 22;

/// The binary logarithm of the longest array that a queue begins with. Tests grow through short ones.
const FIRST: usize = if cfg!(test) { 2 } else { 12 };

/// One array for each power of two up to the greatest depth.
const ARRAYS: usize = GREATEST_DEPTH.ilog2() as usize + 1;
const ARRAY_BITS: u32 = 5;
const _: () = assert!(GREATEST_DEPTH.is_power_of_two() && ARRAYS < 1 << ARRAY_BITS);

/// The bits of an entry's tag, in the same word as the number of the result.
const TAG: u64 = (1 << TURN_SHIFT) - 1;
const TURN_SHIFT: u32 = 4;

/// The reason why the depth of a queue was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotResize {
    /// More results are queued than the new depth holds.
    TooMany,
    /// There is no memory for the new depth.
    OutOfMemory,
}

impl From<TryReserveError> for CannotResize {
    fn from(_: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

/// A word that threads write to often has separate cache lines: two, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct CacheLine<T>(T);

/// A result's number and the array that the result lies in. Both only grow, so no place occurs twice: 2^59 results take many
/// years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

impl Place {
    fn new(number: u64, array: usize) -> Self {
        Self(number << ARRAY_BITS | array as u64)
    }

    fn number(self) -> u64 {
        self.0 >> ARRAY_BITS
    }

    #[expect(clippy::cast_possible_truncation, reason = "five bits")]
    fn array(self) -> usize {
        self.0 as usize & ((1 << ARRAY_BITS) - 1)
    }

    /// The place `count` results later in the same array.
    fn plus(self, count: u64) -> Self {
        Self::new(self.number() + count, self.array())
    }

    /// The same number in another array.
    fn moved(self, array: usize) -> Self {
        Self::new(self.number(), array)
    }
}

/// The place of one result, whose words are `W`.
#[derive(Debug, Default)]
struct Slot<W> {
    words: W,
    /// One more than the number of the result in this slot, and its tag; published with it.
    turn: AtomicU64,
}

impl<W> Slot<W> {
    /// Publishes the entry that was stored here, so that takers can take it.
    fn publish(&self, number: u64, entry: &impl Entry<Words = W>) {
        let tag = entry.tag();
        debug_assert!(tag <= TAG, "{tag:#x} has more than four bits");
        self.turn
            .store((number + 1) << TURN_SHIFT | tag, Ordering::Release);
    }

    /// Returns true if the result of this number was published here, now or earlier.
    fn was_published(&self, number: u64) -> bool {
        self.turn.load(Ordering::Acquire) >> TURN_SHIFT > number
    }

    /// The result of this number, if it is published and not overwritten. Another thread may overwrite the slot during the
    /// copy; the caller learns that from `head`.
    fn copy<E: Entry<Words = W>>(&self, number: u64) -> Option<E::Result> {
        let turn = self.turn.load(Ordering::Acquire);
        (turn >> TURN_SHIFT == number + 1).then(|| E::load(&self.words, turn & TAG))
    }
}

/// Memory for an array.
fn reserve<W>(array: usize) -> Result<Vec<Slot<W>>, TryReserveError> {
    let mut slots = Vec::new();
    slots.try_reserve_exact(1 << array)?;
    Ok(slots)
}

#[derive(Debug)]
struct Array<W> {
    slots: Box<[Slot<W>]>,
    /// The first place of the next array, in which the ring continues after this array. The value is certain only when `tail` is in another
    /// array.
    end: AtomicU64,
}

/// The `end` of an array that has no successor.
const ENDLESS: u64 = 0;

impl<W: Default> Array<W> {
    fn new(array: usize) -> Result<Self, TryReserveError> {
        Ok(Self::in_slots(reserve(array)?, array))
    }

    /// The array in memory that was reserved for it, or for a longer one.
    fn in_slots(mut slots: Vec<Slot<W>>, array: usize) -> Self {
        slots.resize_with(1 << array, Slot::default);
        Self {
            slots: slots.into(),
            end: AtomicU64::new(ENDLESS),
        }
    }

    /// Returns true if the array has no successor.
    fn is_endless(&self) -> bool {
        self.end.load(Ordering::Relaxed) == ENDLESS
    }

    #[expect(clippy::cast_possible_truncation, reason = "only low bits count")]
    fn slot(&self, number: u64) -> &Slot<W> {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }
}

/// The bounded ring. The [module](self) says how it works.
#[derive(Debug)]
pub(super) struct Ring<E: Entry> {
    /// The place after the last claimed result.
    tail: CacheLine<AtomicU64>,
    /// The place of the next result to be taken.
    head: CacheLine<AtomicU64>,
    /// One more than the number of the last result that a solicited Notify waits for.
    solicited: CacheLine<AtomicU64>,
    depth: AtomicU64,
    arrays: [OnceLock<Array<E::Words>>; ARRAYS],
    /// Memory for the longest array that the depth needs, while the ring is in a shorter one. Locked to change the depth and to continue in a
    /// longer array.
    reserved: Mutex<Vec<Slot<E::Words>>>,
}

/// The index of the array for a depth.
fn array_for(depth: u32) -> usize {
    depth.next_power_of_two().ilog2() as usize
}

impl<E: Entry> Ring<E> {
    /// A ring for `depth` results, at least one and at most [`GREATEST_DEPTH`].
    pub(super) fn new(depth: u32) -> Result<Self, TryReserveError> {
        let longest = array_for(depth);
        let start = Place::new(0, longest.min(FIRST));
        let reserved = match longest > start.array() {
            true => reserve(longest)?,
            false => Vec::new(),
        };
        let mut arrays = [const { OnceLock::new() }; ARRAYS];
        arrays[start.array()] = OnceLock::from(Array::new(start.array())?);
        Ok(Self {
            tail: CacheLine(AtomicU64::new(start.0)),
            head: CacheLine(AtomicU64::new(start.0)),
            solicited: CacheLine(AtomicU64::new(0)),
            depth: AtomicU64::new(depth.into()),
            arrays,
            reserved: Mutex::new(reserved),
        })
    }

    fn array(&self, place: Place) -> &Array<E::Words> {
        let array = self.arrays[place.array()].get();
        array.expect("made before the first place in it")
    }

    /// The number of the next result to be taken.
    pub(super) fn taken(&self) -> u64 {
        Place(self.head.0.load(Ordering::Acquire)).number()
    }

    /// One more than the number of the last result that a solicited Notify waits for, 0 if there was none.
    pub(super) fn solicited(&self) -> u64 {
        self.solicited.0.load(Ordering::Acquire)
    }

    /// Places the next `wanted` entries, and returns how many found room. The entries that found no room are the last ones. `numbered` gets
    /// the number of the first result, and how many there are, before any of them can be taken.
    #[inline]
    pub(super) fn place(
        &self,
        entries: impl Iterator<Item = E>,
        wanted: usize,
        numbered: impl FnOnce(u64, usize),
    ) -> usize {
        let (at, count) = self.claim(wanted);
        let array = self.array(at);
        let mut entries = (at.number()..).zip(entries.take(count));
        let Some((number, first)) = entries.next() else {
            return 0;
        };
        numbered(number, count);
        let mut solicited = first.wakes().then_some(number);
        first.store(&array.slot(number).words);
        for (number, entry) in entries {
            let slot = array.slot(number);
            entry.store(&slot.words);
            slot.publish(number, &entry);
            if entry.wakes() {
                solicited = Some(number);
            }
        }
        if let Some(last) = solicited {
            self.solicited.0.fetch_max(last + 1, Ordering::AcqRel);
        }
        array.slot(number).publish(number, &first);
        count
    }

    /// Claims room for `wanted` results, or for as many as the ring has room for.
    fn claim(&self, wanted: usize) -> (Place, usize) {
        let mut tail = Place(self.tail.0.load(Ordering::Acquire));
        loop {
            // Read after `tail`, because an older `head` would make a queue that was emptied meanwhile look full.
            let taken = self.taken();
            // Until the ring continues in a longer array, the length of the present array is the limit.
            let limit = self.depth.load(Ordering::Relaxed).min(1 << tail.array());
            let room = (taken + limit).saturating_sub(tail.number());
            let count = wanted.min(usize::try_from(room).unwrap_or(usize::MAX));
            if count < wanted {
                if let Some(longer) = self.grow(tail, wanted) {
                    tail = longer;
                    continue;
                }
                if count == 0 {
                    return (tail, 0);
                }
            }
            let claimed = self.tail.0.compare_exchange_weak(
                tail.0,
                tail.plus(count as u64).0,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match claimed {
                Ok(_) => return (tail, count),
                Err(now) => tail = Place(now),
            }
        }
    }

    /// Takes out as many results as are ready and fit into `results`, and returns their number. The other elements of `results` are
    /// unspecified.
    #[inline]
    pub(super) fn take(&self, results: &mut [E::Result]) -> usize {
        self.take_row(results).1
    }

    /// As [`take`](Self::take). Also returns the number of the first result; the others have the numbers behind it.
    #[inline]
    pub(super) fn take_row(&self, results: &mut [E::Result]) -> (u64, usize) {
        let head = Place(self.head.0.load(Ordering::Acquire));
        let array = self.array(head);
        // Most polls find nothing and return here.
        if !array.slot(head.number()).was_published(head.number()) && array.is_endless() {
            return (head.number(), 0);
        }
        self.take_from(head, results)
    }

    /// Takes from a place that was `head` a moment ago. This is a separate function, because the registers that it saves would cost an
    /// empty poll more than the poll itself.
    #[inline(never)]
    fn take_from(&self, mut head: Place, results: &mut [E::Result]) -> (u64, usize) {
        let mut taken = 0;
        while taken < results.len() {
            let room = &mut results[taken..];
            let wanted = room.len();
            let count = self.copy(head, room);
            let next = if count > 0 {
                head.plus(count as u64)
            } else if let Some(next) = self.successor(head) {
                next
            } else {
                let now = Place(self.head.0.load(Ordering::Acquire));
                if now == head || taken > 0 {
                    break;
                }
                head = now;
                continue;
            };
            // Releases the copied slots: a placer that fills them again has acquired this.
            let moved =
                self.head
                    .0
                    .compare_exchange(head.0, next.0, Ordering::AcqRel, Ordering::Acquire);
            match moved {
                Ok(_) if (1..wanted).contains(&count) && self.array(head).is_endless() => {
                    // Results that arrived meanwhile are left to the next call.
                    (taken, head) = (taken + count, next);
                    break;
                }
                Ok(_) => (taken, head) = (taken + count, next),
                // Another taker has the results that follow.
                Err(_) if taken > 0 => break,
                Err(now) => head = Place(now),
            }
        }
        (head.number() - taken as u64, taken)
    }

    /// Copies the published results, beginning at a place.
    fn copy(&self, from: Place, results: &mut [E::Result]) -> usize {
        let array = self.array(from);
        let mut count = 0;
        for (number, into) in (from.number()..).zip(results) {
            let Some(result) = array.slot(number).copy::<E>(number) else {
                break;
            };
            *into = result;
            count += 1;
        }
        count
    }

    /// The place in the next array, if the array of `place` ends there or before.
    fn successor(&self, place: Place) -> Option<Place> {
        let end = &self.array(place).end;
        if end.load(Ordering::Relaxed) == ENDLESS {
            return None;
        }
        // Until the tail has moved, a thread may still be trying to move it, and the end is not certain.
        let tail = Place(self.tail.0.load(Ordering::Acquire));
        if tail.array() == place.array() {
            return None;
        }
        let next = Place(end.load(Ordering::Relaxed));
        (next.number() <= place.number()).then(|| place.moved(next.array()))
    }

    /// One more than the number of the last result, from result `from` on, that was published and before which all others are
    /// published as well.
    #[inline]
    pub(super) fn published(&self, from: u64) -> u64 {
        let tail = Place(self.tail.0.load(Ordering::Acquire)).number();
        let head = Place(self.head.0.load(Ordering::Acquire));
        let mut at = Place::new(head.number().max(from), head.array());
        while at.number() < tail {
            if let Some(next) = self.successor(at) {
                at = next;
            } else if self.array(at).slot(at.number()).was_published(at.number()) {
                at = at.plus(1);
            } else {
                break;
            }
        }
        at.number()
    }

    /// See [`Queue::resize`](super::Queue::resize). `besides` is a number of results that are elsewhere and count as well.
    pub(super) fn resize(&self, depth: u32, besides: u64) -> Result<(), CannotResize> {
        let mut reserved = self.reserved.lock();
        let tail = Place(self.tail.0.load(Ordering::Acquire));
        if tail.number().saturating_sub(self.taken()) + besides > depth.into() {
            return Err(CannotResize::TooMany);
        }
        let longest = array_for(depth);
        if longest > tail.array() && reserved.capacity() < 1 << longest {
            *reserved = reserve(longest)?;
        }
        self.depth.store(depth.into(), Ordering::Relaxed);
        Ok(())
    }

    /// The array that ends at `full` has no room for `wanted` results. Makes placers continue in one that has, as far as the depth permits.
    /// Returns the tail of the moment, or `None` if the array is as long as the depth needs.
    #[cold]
    fn grow(&self, full: Place, wanted: usize) -> Option<Place> {
        let longest = || {
            let depth = self.depth.load(Ordering::Relaxed);
            array_for(u32::try_from(depth).unwrap_or(GREATEST_DEPTH))
        };
        if longest() <= full.array() {
            return None;
        }
        let mut reserved = self.reserved.lock();
        let tail = Place(self.tail.0.load(Ordering::Acquire));
        if tail.array() > full.array() {
            return Some(tail); // another placer was quicker
        }
        let needed = tail.number().saturating_sub(self.taken()) + wanted as u64;
        let needed = u32::try_from(needed).unwrap_or(GREATEST_DEPTH);
        let longest = longest();
        if longest <= tail.array() {
            return None; // the depth has changed meanwhile
        }
        let array = array_for(needed.min(GREATEST_DEPTH)).clamp(tail.array() + 1, longest);
        if array < longest
            && let Ok(made) = Array::new(array)
        {
            return Some(self.go_on_in(array, made));
        }
        let made = Array::in_slots(std::mem::take(&mut *reserved), longest);
        Some(self.go_on_in(longest, made))
    }

    /// Makes placers continue in a longer array. Returns the tail of the moment. Called by one thread at a time.
    fn go_on_in(&self, array: usize, made: Array<E::Words>) -> Place {
        let mut tail = Place(self.tail.0.load(Ordering::Acquire));
        self.arrays[array].get_or_init(|| made);
        loop {
            let next = tail.moved(array);
            // Stored before the tail moves, so that every thread that finds the new array in use also finds its first place.
            self.array(tail).end.store(next.0, Ordering::Relaxed);
            let moved =
                self.tail
                    .0
                    .compare_exchange(tail.0, next.0, Ordering::AcqRel, Ordering::Acquire);
            match moved {
                Ok(_) => return next,
                Err(now) => tail = Place(now),
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_model;
#[cfg(all(test, not(loom)))]
mod tests;
