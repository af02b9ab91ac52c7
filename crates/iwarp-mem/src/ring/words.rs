//! The words that the writer and the reader of one ring share, and the rules by which one wakes the other.
//!
//! A thread that polls needs no bell. A reader that is about to sleep says that it wants one, and looks again: [`Reading::want_bell`]. A
//! writer publishes octets, and then looks whether the reader wants one: [`Writing::takes_bell`]. A full fence stands between the two
//! steps on both sides, so that one of them sees the other. In the same way a writer that finds the ring full says that it waits for room,
//! [`Writing::await_room`], and the reader looks for that when half of the ring has become free, and when it finds the ring empty.
//!
//! How a bell is rung is up to the callers. Whoever takes a bell rings it: nobody else will.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A line of the cache to itself. Two lines of 64 octets, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line<T>(T);

/// The writer's index and its end.
#[derive(Debug, Default)]
#[repr(C)]
struct Published {
    /// The number of octets that were written since the beginning.
    tail: AtomicU64,
    /// Not 0: nothing follows these octets.
    closed: AtomicU32,
}

/// The words of one ring. All of them zero is the beginning: an empty ring, whose reader wants a bell.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Words {
    published: Line<Published>,
    /// The number of octets that were read since the beginning.
    head: Line<AtomicU64>,
    /// 0: the reader wants a bell. It is 0 at first, because the reader may come later than the first octets.
    needs_no_bell: Line<AtomicU32>,
    /// Not 0: the writer waits for room.
    waits_for_room: Line<AtomicU32>,
}

/// The other end has written something into its words that no ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What the writer of a ring knows.
#[derive(Debug)]
pub struct Writing {
    capacity: u64,
    tail: AtomicU64,
    /// The reader's index when it was last read.
    seen_head: AtomicU64,
}

impl Writing {
    /// The writer of an empty ring for `capacity` octets.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            tail: AtomicU64::new(0),
            seen_head: AtomicU64::new(0),
        }
    }

    /// The number of octets that were written.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail.load(Ordering::Relaxed)
    }

    /// The number of octets of which it is known that they were read.
    pub fn seen(&self) -> u64 {
        self.seen_head.load(Ordering::Relaxed)
    }

    /// Returns the room in the ring. The reader's index is read only if less than `wanted` is known to be there.
    ///
    /// # Errors
    ///
    /// The reader says that it has read what it has not.
    #[inline]
    pub fn room(&self, words: &Words, wanted: u64) -> Result<u64, Broken> {
        let seen = self.seen_head.load(Ordering::Relaxed);
        let known = self.capacity - (self.tail() - seen);
        if known >= wanted {
            return Ok(known);
        }
        self.look_for_room(words)
    }

    fn look_for_room(&self, words: &Words) -> Result<u64, Broken> {
        let seen = self.seen_head.load(Ordering::Relaxed);
        // Acquire: the reader has copied what it gives back.
        let head = words.head.0.load(Ordering::Acquire);
        let unread = self.tail() - seen;
        let read = head.wrapping_sub(seen);
        if read > unread {
            return Err(Broken);
        }
        self.seen_head.store(head, Ordering::Relaxed);
        Ok(self.capacity - (unread - read))
    }

    /// Publishes further octets, which are in the ring.
    #[inline]
    pub fn publish(&self, words: &Words, octets: u64) {
        let tail = self.tail() + octets;
        self.tail.store(tail, Ordering::Relaxed);
        words.published.0.tail.store(tail, Ordering::Release);
    }

    /// Returns true if the reader wants a bell for what was published. The caller then rings it.
    #[inline]
    pub fn takes_bell(&self, words: &Words) -> bool {
        if !iwarp::planted!(FenceLeftOut) {
            fence(Ordering::SeqCst);
        }
        let word = &words.needs_no_bell.0;
        word.load(Ordering::Relaxed) == 0 && word.swap(1, Ordering::Relaxed) == 0
    }

    /// Nothing follows what was published. The caller rings.
    pub fn close(&self, words: &Words) {
        words.published.0.closed.store(1, Ordering::Release);
    }

    /// The ring has too little room: asks for a bell when half of it is free. Returns true if so much is free by now.
    ///
    /// # Errors
    ///
    /// As for [`room`](Self::room).
    pub fn await_room(&self, words: &Words) -> Result<bool, Broken> {
        words.waits_for_room.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let has_room = self.look_for_room(words)? >= self.capacity / 2;
        if has_room {
            self.await_no_room(words);
        }
        Ok(has_room)
    }

    /// Takes [`await_room`](Self::await_room) back.
    pub fn await_no_room(&self, words: &Words) {
        words.waits_for_room.0.store(0, Ordering::Relaxed);
    }
}

/// What the reader of a ring knows.
#[derive(Debug)]
pub struct Reading {
    capacity: u64,
    head: AtomicU64,
    /// The writer's index when it was last read.
    seen_tail: AtomicU64,
}

impl Reading {
    /// The reader of an empty ring for `capacity` octets.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            head: AtomicU64::new(0),
            seen_tail: AtomicU64::new(0),
        }
    }

    /// The number of octets that were read.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// The number of octets of which it is known that they were written.
    pub fn seen(&self) -> u64 {
        self.seen_tail.load(Ordering::Relaxed)
    }

    /// Returns the number of octets that can be read.
    ///
    /// # Errors
    ///
    /// The writer says that it has written more than there is room for, or takes octets back.
    #[inline]
    pub fn octets(&self, words: &Words) -> Result<u64, Broken> {
        let seen = self.seen_tail.load(Ordering::Relaxed);
        // Acquire: the octets before the index are there.
        let tail = words.published.0.tail.load(Ordering::Acquire);
        let unread = seen - self.head();
        let more = tail.wrapping_sub(seen);
        if more > self.capacity - unread {
            return Err(Broken);
        }
        self.seen_tail.store(tail, Ordering::Relaxed);
        Ok(unread + more)
    }

    /// Returns true if nothing follows the octets that [`octets`](Self::octets) returns after this.
    #[inline]
    pub fn is_closed(&self, words: &Words) -> bool {
        words.published.0.closed.load(Ordering::Acquire) != 0
    }

    /// Gives octets back that were copied out. Returns true if that makes half of the ring free, as far as the reader knows.
    ///
    /// # Panics
    ///
    /// If they are more than there were.
    #[inline]
    pub fn release(&self, words: &Words, octets: u64) -> bool {
        let before = self.seen_tail.load(Ordering::Relaxed) - self.head();
        assert!(octets <= before, "octets that were not there");
        let head = self.head() + octets;
        self.head.store(head, Ordering::Relaxed);
        words.head.0.store(head, Ordering::Release);
        let half = self.capacity / 2;
        before > half && before - octets <= half
    }

    /// Returns true if the writer waits for room. The caller then rings for it.
    pub fn takes_room_bell(&self, words: &Words) -> bool {
        fence(Ordering::SeqCst);
        self.takes_room_bell_unfenced(words)
    }

    /// As [`takes_room_bell`](Self::takes_room_bell), for a caller that asks again and again.
    #[inline]
    pub fn takes_room_bell_unfenced(&self, words: &Words) -> bool {
        let word = &words.waits_for_room.0;
        word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
    }

    /// The reader sleeps soon: asks for a bell. Returns true if there are octets by now, or the end.
    ///
    /// # Errors
    ///
    /// As for [`octets`](Self::octets).
    pub fn want_bell(&self, words: &Words) -> Result<bool, Broken> {
        words.needs_no_bell.0.store(0, Ordering::Relaxed);
        if !iwarp::planted!(FenceLeftOut) {
            fence(Ordering::SeqCst);
        }
        if iwarp::planted!(SecondLookLeftOut) {
            return Ok(false);
        }
        // Closed first: the octets before the end are found after it.
        let is_closed = self.is_closed(words);
        Ok(self.octets(words)? > 0 || is_closed)
    }

    /// The reader looks by itself.
    pub fn want_no_bell(&self, words: &Words) {
        words.needs_no_bell.0.store(1, Ordering::Relaxed);
    }
}
