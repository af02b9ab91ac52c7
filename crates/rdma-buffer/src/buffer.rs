//! Buffers that an adapter may read and write at any time.

use std::alloc::{Layout, alloc_zeroed};
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::copy::{Backend, copy_in, copy_out};
use crate::extent::{Extent, WORD};
use crate::{NoMemory, Part};

/// Shorter buffers begin wherever the allocator puts them: no difference was measured for them, and a page of slack would be
/// much for what they hold.
const PLACED_FROM: usize = 16 * 1024;

/// Memory that an adapter may read and write at any time: what a memory region registers.
///
/// Data goes in and out by copy: [`write`](Self::write) and [`read`](Self::read). A copy runs from the first octet to the
/// last; each word that it stores is a release and each that it loads an acquire. So when a reader sees one octet of a
/// write, it sees all octets of the same write before it: an application may watch the last octet of an RDMA Write with
/// [`load`](Self::load), where the adapter places data in order. Octets outside the range of a copy are not
/// disturbed, whoever else is writing them.
///
/// Clones and [slices](Self::slice) are views of the same memory, which stays as long as one of them does, a registration
/// included.
///
/// ```
/// use rdma_buffer::Buffer;
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

/// Memory of the application's. It may begin and end inside a word.
struct Foreign {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory behind the pointer is reached by atomic operations only, and whoever called `from_raw_parts` has
// promised that it may be reached from any thread as long as the store exists.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

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
    /// [`NoMemory`]: the process cannot have so much memory, by its own limits, the system's or those of the address space.
    /// Memory that the system promises and then lacks is not found here: many systems promise more than they have.
    ///
    /// ```
    /// use rdma_buffer::Buffer;
    ///
    /// let error = Buffer::try_new(usize::MAX).unwrap_err();
    /// assert!(error.to_string().starts_with("no memory for a buffer of "));
    /// ```
    pub fn try_new(len: usize) -> Result<Self, NoMemory> {
        let store = Store::allocate(len).ok_or(NoMemory { octets: len })?;
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
    /// Until the last clone and slice of the buffer is gone, registrations included (that is, until Deregister has ended and the
    /// application has dropped its own):
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

    /// The virtual address of the first octet, for scatter/gather entries and for peers.
    pub fn address(&self) -> u64 {
        self.as_ptr().addr() as u64
    }

    /// The address of the first octet as a pointer, for providers. It may be written through, atomically or from outside the
    /// language (a system call, a device), as long as a view exists.
    pub fn as_ptr(&self) -> *mut u8 {
        self.store.start().wrapping_add(self.offset)
    }

    /// All of the memory that this is a view of.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self {
            store: self.store.clone(),
            offset: 0,
            len: self.store.len(),
        }
    }

    /// Where the words of the memory lie that this is a view of: own memory consists of whole words, whatever its length; the
    /// application's ends where it ends.
    pub fn extent(&self) -> Extent {
        self.store.extent()
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
        let extent = self.store.extent();
        // SAFETY: `locate` found the range inside the store, which `self` keeps, and all of the store is reached by atomics of this
        // kind only: it is ours, or the caller of `from_raw_parts` has promised that. By words, so that each load acquires.
        unsafe { copy_out(at, extent, into, Backend::Words) };
    }

    /// Copies octets in, from `at` on.
    ///
    /// # Panics
    ///
    /// When the range lies outside.
    #[track_caller]
    pub fn write(&self, at: usize, from: &[u8]) {
        let at = self.locate(at, from.len());
        let extent = self.store.extent();
        // SAFETY: as in `read`. By words, so that each store releases.
        unsafe { copy_in(at, extent, from, Part::Last, Backend::Words) };
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

    /// The first octet of a range of this view.
    #[track_caller]
    fn locate(&self, at: usize, len: usize) -> *mut u8 {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(
            fits,
            "{len} octets at {at} are outside a buffer of {} octets",
            self.len
        );
        self.as_ptr().wrapping_add(at)
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

    fn extent(&self) -> Extent {
        let len = match self {
            Self::Owned { len, .. } => len.next_multiple_of(WORD),
            Self::Foreign(foreign) => foreign.len,
        };
        let from = self.start().addr() as u64;
        Extent {
            from,
            to: from.saturating_add(len as u64),
        }
    }
}

/// Both ends of a range within `len`; panics as slicing does.
#[track_caller]
fn resolve_range(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let from = match range.start_bound() {
        Bound::Included(&at) => at,
        Bound::Excluded(&at) => at.checked_add(1).expect("range start overflows"),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(&at) => at.checked_add(1).expect("range end overflows"),
        Bound::Excluded(&at) => at,
        Bound::Unbounded => len,
    };
    assert!(
        from <= to && to <= len,
        "range {from}..{to} is outside a buffer of {len} octets"
    );
    (from, to)
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
