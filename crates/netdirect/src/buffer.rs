//! Buffers that an adapter may read and write at any time.
//!
//! The peer writes while the application reads, so no `&[u8]` or `&mut [u8]` over such memory ever exists, not even
//! briefly: memory is an array of atomic words, and every octet is always reached through the same word, whoever reaches
//! for it (overlapping atomics of different sizes are undefined when they race).

use std::alloc::{Layout, alloc_zeroed};
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::types::resolve_range;
use crate::{Error, Result, Status};

const WORD: usize = size_of::<u64>();

/// Shorter buffers begin wherever the allocator puts them: no difference was measured for them, and a page of slack would be
/// much for what they hold.
const PLACED_FROM: usize = 16 * 1024;

/// Memory that an adapter may read and write at any time: what a [memory region](crate::MemoryRegion) registers.
///
/// Data goes in and out by copy: [`write`](Self::write) and [`read`](Self::read). A copy runs from the first octet to the
/// last; each word that it stores is a release and each that it loads an acquire. So when a reader sees one octet of a
/// write, it sees all octets of the same write before it: an application may watch the last octet of an RDMA Write with
/// [`load`](Self::load), where the adapter is
/// [`IN_ORDER_DMA_SUPPORTED`](crate::AdapterFlags::IN_ORDER_DMA_SUPPORTED). Octets outside the range of a copy are not
/// disturbed, whoever else is writing them.
///
/// Clones and [slices](Self::slice) are views of the same memory, which stays as long as one of them does, a registration
/// included.
///
/// ```
/// use netdirect::Buffer;
///
/// let buffer = Buffer::new(4096);
/// buffer.write(10, b"hello");
/// let part = buffer.slice(10..15);
/// assert_eq!(part.to_vec(), b"hello");
/// assert_eq!(part.address(), buffer.address() + 10);
///
/// let peer = std::thread::spawn({
///     let buffer = buffer.clone();
///     move || buffer.write(100, &[7; 50])
/// });
/// while buffer.load(149) == 0 {
///     std::hint::spin_loop();
/// }
/// assert_eq!(buffer.slice(100..150).to_vec(), [7; 50]); // the octets before it are there too
/// peer.join().unwrap();
/// ```
#[derive(Clone)]
pub struct Buffer {
    store: Arc<Store>,
    /// Of this view, in the store.
    offset: usize,
    len: usize,
}

enum Store {
    /// Memory of our own: whole words, of which the first `skip` are not used.
    Owned {
        words: Box<[AtomicU64]>,
        skip: usize,
        len: usize,
    },
    Foreign(Foreign),
}

/// Words from the zeroing allocator, which touches no page of a large buffer: it costs memory only as it is used. `None`
/// when the allocator does not have so many.
fn zeroed(count: usize) -> Option<Box<[AtomicU64]>> {
    let layout = Layout::array::<AtomicU64>(count).ok()?;
    assert_ne!(layout.size(), 0);
    // SAFETY: the layout has a size, as asserted.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    let words = std::ptr::slice_from_raw_parts_mut(start.cast::<AtomicU64>(), count);
    // SAFETY: allocated by the global allocator with the layout of this very slice, owned by nobody else, and all zero, which
    // is a value of `AtomicU64`.
    Some(unsafe { Box::from_raw(words) })
}

/// Memory of the application's: up to 7 octets, aligned words, up to 7 octets.
struct Foreign {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory behind the pointer is reached by atomic operations only, and whoever called `from_raw_parts` has
// promised that it may be reached from any thread as long as the store exists.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// A store as what it consists of. The same octet is always in the same place of the same part.
#[derive(Clone, Copy)]
struct Parts<'a> {
    head: &'a [AtomicU8],
    body: &'a [AtomicU64],
    tail: &'a [AtomicU8],
}

impl Buffer {
    /// Where in a page of 4,096 octets memory should begin that sockets are read into or written from, if it is longer than a
    /// few pages. [`new`](Self::new) and [`try_new`](Self::try_new) begin buffers of 16 KiB and more here; who allocates such
    /// memory in another way uses [`to_page_offset`](Self::to_page_offset).
    ///
    /// The reason: kernels copy to and from sockets by `rep movsb` where the processor says that it is fast (FSRM). AMD's
    /// processors from Zen 3 on say so, and yet take up to six times as long when the destination lies 1 to 63 octets behind
    /// the source modulo 4,096. In a socket's own memory, data often begins at offset 0 of a page, or some 20 octets behind it
    /// because a header precedes it. Allocators put large memory at offset 16 of a page, and applications that align put it at
    /// 0: both lie within those 63 octets, in one direction or the other. This offset is far from them. Two buffers that
    /// both begin here suit each other as well, because their distance is 0, or minus the length of a header.
    pub const PAGE_OFFSET: usize = 1024;

    /// Octets of what [`PAGE_OFFSET`](Self::PAGE_OFFSET) calls a page: what counts is the distance of two addresses modulo 4,096,
    /// whatever the size of the system's pages.
    pub const PAGE: usize = 4096;

    /// How many octets behind `address` the next address at [`PAGE_OFFSET`](Self::PAGE_OFFSET) of a page is: less than a page.
    #[must_use]
    pub const fn to_page_offset(address: usize) -> usize {
        Self::PAGE_OFFSET.wrapping_sub(address) % Self::PAGE
    }

    /// A buffer of `len` octets, all zero, at an address that is a multiple of 8; from 16 KiB on it begins at
    /// [`PAGE_OFFSET`](Self::PAGE_OFFSET) of a page.
    ///
    /// # Panics
    ///
    /// When there is no memory for it. Where the length comes from outside the program, use [`try_new`](Self::try_new).
    #[track_caller]
    pub fn new(len: usize) -> Self {
        match Self::try_new(len) {
            Ok(buffer) => buffer,
            Err(error) => panic!("{error}"),
        }
    }

    /// A buffer of `len` octets as from [`new`](Self::new), or an error.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`](Status::NO_MEMORY): the process cannot have so much memory, by its own limits, the system's or those of
    /// the address space. Memory that the system promises and then lacks is not found here: many systems promise more than
    /// they have.
    ///
    /// ```
    /// use netdirect::{Buffer, Status};
    ///
    /// let error = Buffer::try_new(usize::MAX).unwrap_err();
    /// assert_eq!(error.status(), Status::NO_MEMORY);
    /// ```
    pub fn try_new(len: usize) -> Result<Self> {
        let store = Store::allocate(len).ok_or_else(|| {
            Error::new(
                Status::NO_MEMORY,
                format!("no memory for a buffer of {len} bytes"),
            )
        })?;
        Ok(Self {
            store: Arc::new(store),
            offset: 0,
            len,
        })
    }

    /// A buffer over memory that the application owns.
    ///
    /// # Safety
    ///
    /// Until the last clone and slice of the buffer is gone, registrations included (that is, until
    /// [`deregister`](crate::MemoryRegion::deregister) has ended and the application has dropped its own):
    ///
    /// - `ptr` is valid for reads and writes of `len` octets, and not null; nobody frees, remaps or protects the memory.
    /// - The memory is initialised.
    /// - Nobody holds a reference (`&` or `&mut`) to any of it while the adapter, or a copy through this buffer, may write it:
    ///   the compiler assumes that memory behind a reference does not change on its own. Reach it through this buffer, or
    ///   through atomics or volatile accesses at times when nothing races with them.
    /// - No other `Buffer` is made over any part of it, unless both begin at addresses that are equal modulo 8, and both end
    ///   likewise, or nothing ever races between them.
    pub unsafe fn from_raw_parts(ptr: *mut u8, len: usize) -> Self {
        Self {
            store: Arc::new(Store::Foreign(Foreign { start: ptr, len })),
            offset: 0,
            len,
        }
    }

    /// Octets in this view.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no octets.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The virtual address of the first octet, for [`Sge`](crate::Sge)s and for peers.
    pub fn address(&self) -> u64 {
        self.as_ptr().addr() as u64
    }

    /// The address of the first octet as a pointer, for providers. It may be written through, atomically or from outside the
    /// language (a system call, a device), as long as a view exists.
    pub fn as_ptr(&self) -> *mut u8 {
        self.store.start().wrapping_add(self.offset)
    }

    /// Whether the memory is this crate's own: then it is made of aligned words of 8 octets, also around the ends of a view.
    pub fn is_owned(&self) -> bool {
        matches!(*self.store, Store::Owned { .. })
    }

    /// All of the memory that this is a view of. A word of 8 octets that lies in it as a whole may be stored as a whole, if the
    /// neighbours' octets are merged by compare-exchange.
    pub fn whole(&self) -> Self {
        Self {
            store: self.store.clone(),
            offset: 0,
            len: self.store.len(),
        }
    }

    /// A view of a part of this view.
    ///
    /// # Panics
    ///
    /// When the range lies outside.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let (from, to) = resolve_range(range, self.len);
        Self {
            store: self.store.clone(),
            offset: self.offset + from,
            len: to - from,
        }
    }

    /// Copies octets out, from `at` on. What is being written at the same time may appear in part.
    ///
    /// # Panics
    ///
    /// When the range lies outside.
    #[track_caller]
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let at = self.locate(at, into.len());
        self.store.parts().read(at, into);
    }

    /// Copies octets in, from `at` on.
    ///
    /// # Panics
    ///
    /// When the range lies outside.
    #[track_caller]
    pub fn write(&self, at: usize, from: &[u8]) {
        let at = self.locate(at, from.len());
        self.store.parts().write(at, from);
    }

    /// A copy of all octets.
    ///
    /// # Panics
    ///
    /// When there is no memory for the copy.
    #[track_caller]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        assert!(
            octets.try_reserve_exact(self.len).is_ok(),
            "no memory for a copy of {} bytes",
            self.len
        );
        let mut block = [0; 4096];
        for at in (0..self.len).step_by(block.len()) {
            let part = &mut block[..(self.len - at).min(4096)];
            self.read(at, part);
            octets.extend_from_slice(part);
        }
        octets
    }

    /// Sets all octets.
    pub fn fill(&self, octet: u8) {
        let block = [octet; 512];
        for at in (0..self.len).step_by(block.len()) {
            self.write(at, &block[..block.len().min(self.len - at)]);
        }
    }

    /// One octet, with acquire ordering: what was written before it, in the same copy or earlier, is seen afterwards.
    ///
    /// # Panics
    ///
    /// When it lies outside.
    #[track_caller]
    pub fn load(&self, at: usize) -> u8 {
        let mut octet = [0];
        self.read(at, &mut octet);
        octet[0]
    }

    /// The offset in the store of a range of this view.
    #[track_caller]
    fn locate(&self, at: usize, len: usize) -> usize {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(
            fits,
            "{len} octets at {at} are outside a buffer of {} octets",
            self.len
        );
        self.offset + at
    }
}

impl Store {
    /// Memory of our own for `len` octets, all zero.
    fn allocate(len: usize) -> Option<Self> {
        // At least one word, so that the address is that of memory even when the length is zero.
        let count = len.div_ceil(WORD).max(1);
        if len < PLACED_FROM {
            let words = zeroed(count)?;
            return Some(Self::Owned {
                words,
                skip: 0,
                len,
            });
        }
        let words = zeroed(count + Buffer::PAGE / WORD - 1)?;
        let skip = Buffer::to_page_offset(words.as_ptr().addr()) / WORD;
        Some(Self::Owned { words, skip, len })
    }

    fn start(&self) -> *mut u8 {
        match self {
            Self::Owned { words, skip, .. } => words[*skip..].as_ptr().cast::<u8>().cast_mut(),
            Self::Foreign(foreign) => foreign.start,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Owned { len, .. } => *len,
            Self::Foreign(foreign) => foreign.len,
        }
    }

    fn parts(&self) -> Parts<'_> {
        match self {
            Self::Owned { words, skip, .. } => Parts {
                head: &[],
                body: &words[*skip..],
                tail: &[],
            },
            Self::Foreign(foreign) => foreign.parts(),
        }
    }
}

impl Foreign {
    fn parts(&self) -> Parts<'_> {
        let head = (self.start.addr().wrapping_neg() % WORD).min(self.len);
        let words = (self.len - head) / WORD;
        let tail = self.len - head - words * WORD;
        let body_at = self.start.wrapping_add(head);
        let tail_at = body_at.wrapping_add(words * WORD);
        // SAFETY: the first `head` octets of `start..start + len`, which `from_raw_parts`'s caller keeps valid and free of
        // references as long as the store exists; `self` is borrowed from it. Octets may change: the elements are atomics.
        let head = unsafe { std::slice::from_raw_parts(self.start.cast::<AtomicU8>(), head) };
        // SAFETY: the octets behind them, on the same promise. The address is a multiple of 8, unless there is no word.
        let body = unsafe { std::slice::from_raw_parts(align(body_at, words), words) };
        // SAFETY: the octets that are left, on the same promise.
        let tail = unsafe { std::slice::from_raw_parts(tail_at.cast::<AtomicU8>(), tail) };
        Parts { head, body, tail }
    }
}

/// `at` as a pointer to words; for no words at all any aligned pointer, as `at` need not be aligned then.
fn align(at: *mut u8, words: usize) -> *const AtomicU64 {
    if words == 0 {
        std::ptr::NonNull::dangling().as_ptr()
    } else {
        at.cast::<AtomicU64>()
    }
}

impl Parts<'_> {
    fn read(self, at: usize, into: &mut [u8]) {
        let [head, body, tail] = self.cuts(at, into.len());
        let (first, rest) = into.split_at_mut(head.len);
        let (middle, last) = rest.split_at_mut(body.len);
        read_octets(&self.head[head.at..], first);
        read_words(self.body, body.at, middle);
        read_octets(&self.tail[tail.at..], last);
    }

    fn write(self, at: usize, from: &[u8]) {
        let [head, body, tail] = self.cuts(at, from.len());
        let (first, rest) = from.split_at(head.len);
        let (middle, last) = rest.split_at(body.len);
        write_octets(&self.head[head.at..], first);
        write_words(self.body, body.at, middle);
        write_octets(&self.tail[tail.at..], last);
    }

    /// What a range means in each of the three parts. The caller has checked that it lies inside.
    fn cuts(self, at: usize, len: usize) -> [Cut; 3] {
        let mut begin = 0;
        let end = at + len;
        [self.head.len(), self.body.len() * WORD, self.tail.len()].map(|size| {
            let from = at.clamp(begin, begin + size);
            let to = end.clamp(begin, begin + size);
            let cut = Cut {
                at: from - begin,
                len: to - from,
            };
            begin += size;
            cut
        })
    }
}

struct Cut {
    at: usize,
    len: usize,
}

fn read_octets(memory: &[AtomicU8], into: &mut [u8]) {
    for (octet, cell) in into.iter_mut().zip(memory) {
        *octet = cell.load(Ordering::Acquire);
    }
}

fn write_octets(memory: &[AtomicU8], from: &[u8]) {
    for (octet, cell) in from.iter().zip(memory) {
        cell.store(*octet, Ordering::Release);
    }
}

fn read_words(memory: &[AtomicU64], at: usize, into: &mut [u8]) {
    let mut words = memory[at / WORD..].iter();
    let (first, rest) = into.split_at_mut(before_boundary(at, into.len()));
    if !first.is_empty() {
        take(words.next(), at % WORD, first);
    }
    let (body, last) = rest.as_chunks_mut::<WORD>();
    for (octets, word) in body.iter_mut().zip(&mut words) {
        *octets = word.load(Ordering::Acquire).to_ne_bytes();
    }
    if !last.is_empty() {
        take(words.next(), 0, last);
    }
}

fn write_words(memory: &[AtomicU64], at: usize, from: &[u8]) {
    let mut words = memory[at / WORD..].iter();
    let (first, rest) = from.split_at(before_boundary(at, from.len()));
    if !first.is_empty() {
        merge(words.next(), at % WORD, first);
    }
    let (body, last) = rest.as_chunks::<WORD>();
    for (octets, word) in body.iter().zip(&mut words) {
        word.store(u64::from_ne_bytes(*octets), Ordering::Release);
    }
    if !last.is_empty() {
        merge(words.next(), 0, last);
    }
}

/// How many of `len` octets from `at` on lie before the next word.
fn before_boundary(at: usize, len: usize) -> usize {
    len.min(at.next_multiple_of(WORD) - at)
}

/// Copies some octets of a word.
fn take(word: Option<&AtomicU64>, at: usize, octets: &mut [u8]) {
    let word = word.expect("the range was checked against the length");
    octets.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes()[at..at + octets.len()]);
}

/// Replaces some octets of a word. The others are left to whoever else writes them.
fn merge(word: Option<&AtomicU64>, at: usize, octets: &[u8]) {
    let word = word.expect("the range was checked against the length");
    let replace = |old: u64| {
        let mut new = old.to_ne_bytes();
        new[at..at + octets.len()].copy_from_slice(octets);
        Some(u64::from_ne_bytes(new))
    };
    let stored = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, replace);
    debug_assert!(stored.is_ok(), "the closure always has a new value");
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
