//! Buffers that an adapter may read and write at any time.

use std::alloc::{Layout, alloc_zeroed};
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::copy::{Backend, copy_in, copy_out};
use crate::extent::{Extent, WORD};
use crate::{NoMemory, Part};

/// Shorter buffers begin where the allocator puts them, because no difference was measured for them, and a page of unused
/// memory would be much for their size.
const PLACED_FROM: usize = 16 * 1024;

/// Memory that an adapter may read and write at any time. A memory region registers a `Buffer`.
///
/// [`write`](Self::write) and [`read`](Self::read) copy data in and out. A copy runs from the first octet to the last. It
/// stores words with release ordering, and loads words with acquire ordering. So a reader that sees one octet of a copy also
/// sees all octets of the same copy before it. If the adapter places data in order, an application can watch the last octet
/// of an RDMA Write with [`load`](Self::load). A copy does not disturb octets outside its range, even while others write
/// them.
///
/// Clones and [slices](Self::slice) are views of the same memory. The memory lives as long as a view of it exists. A
/// registration holds a view.
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
/// assert_eq!(buffer.slice(100..150).to_vec(), [7; 50]); // all octets before the last are there too
/// peer.join().unwrap();
/// ```
#[derive(Clone)]
pub struct Buffer {
    store: Arc<Store>,
    /// The offset of this view in the store.
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

/// Words from the zeroing allocator. It touches no page of a large buffer, so the buffer costs memory only as it is used. `None` if the
/// allocator does not have this many words.
fn zeroed(count: usize) -> Option<Box<[AtomicU64]>> {
    let layout = Layout::array::<AtomicU64>(count).ok()?;
    assert_ne!(layout.size(), 0);
    // SAFETY: the layout has a size, as asserted.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    let words = std::ptr::slice_from_raw_parts_mut(start.cast::<AtomicU64>(), count);
    // SAFETY: allocated by the global allocator with the layout of this very slice, without another owner, and all zero, which is a value
    // of `AtomicU64`.
    Some(unsafe { Box::from_raw(words) })
}

/// Memory of the application. It may begin and end inside a word.
struct Foreign {
    start: *mut u8,
    len: usize,
    /// Where whole words may be accessed.
    extent: Extent,
}

// SAFETY: the memory behind the pointer is accessed by atomic operations only, and the caller of `from_raw_parts` or
// `from_pages` has promised that any thread may access it as long as the store exists.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Buffer {
    /// The best offset in a page of 4,096 octets for the start of memory that is longer than a few pages and that sockets
    /// read into or write from. [`new`](Self::new) and [`try_new`](Self::try_new) place buffers of 16 KiB and more at this
    /// offset. Code that allocates such memory in another way can use [`to_page_offset`](Self::to_page_offset).
    ///
    /// The reason is speed. Kernels copy to and from sockets by `rep movsb` if the processor reports that this instruction is
    /// fast (FSRM). AMD's processors from Zen 3 on report so. But they take up to six times as long if the destination lies 1
    /// to 63 octets behind the source, modulo 4,096. In a socket's own memory, data often starts at offset 0 of a page, or
    /// some 20 octets behind it, because a header precedes the data. Allocators place large memory at offset 16 of a page,
    /// and applications that align memory place it at offset 0. Copies between these offsets are often slow. `PAGE_OFFSET` is
    /// far from all of them. Copies between two buffers at `PAGE_OFFSET` are fast too, because the distance is 0, or minus
    /// the length of a header.
    pub const PAGE_OFFSET: usize = 1024;

    /// The length of a page in the sense of [`PAGE_OFFSET`](Self::PAGE_OFFSET), in octets. The processor compares addresses
    /// modulo 4,096, whatever the size of the system's pages is.
    pub const PAGE: usize = 4096;

    /// The number of octets from `address` to the next address at [`PAGE_OFFSET`](Self::PAGE_OFFSET) of a page, which is less
    /// than a page.
    #[must_use]
    pub const fn to_page_offset(address: usize) -> usize {
        Self::PAGE_OFFSET.wrapping_sub(address) % Self::PAGE
    }

    /// A buffer of `len` octets, all zero, at an address that is a multiple of 8. A buffer of 16 KiB or more starts at
    /// [`PAGE_OFFSET`](Self::PAGE_OFFSET) of a page.
    ///
    /// # Panics
    ///
    /// If there is not enough memory. For a length that comes from outside the program use [`try_new`](Self::try_new).
    #[track_caller]
    pub fn new(len: usize) -> Self {
        match Self::try_new(len) {
            Ok(buffer) => buffer,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`new`](Self::new), but returns an error if there is not enough memory.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]: the limits of the process, of the system or of the address space do not allow a buffer of this length.
    /// Many systems promise more memory than they have. The call then succeeds, and the process fails when it uses the
    /// memory.
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
    /// These conditions have to hold until the last clone and slice of the buffer is dropped, those of registrations
    /// included; that is, until Deregister has ended and the application has dropped its own:
    ///
    /// - `ptr` is not null, and is valid for reads and writes of `len` octets. The memory is not freed, remapped or protected.
    /// - The memory is initialised.
    /// - While the adapter, or a copy through this buffer, may write the memory, there is no reference (`&` or `&mut`) to any
    ///   part of it, and no ordinary or volatile access to it by a pointer. The compiler assumes that memory behind a reference
    ///   does not change, and such an access races with the write.
    /// - While the adapter, or a copy through this buffer, may read the memory, there is no `&mut` to any part of it, and no
    ///   ordinary or volatile write to it by a pointer, because such a write races with the read. This holds for memory that
    ///   nobody but the application writes, too. `&` and ordinary reads are allowed.
    /// - There is no other `Buffer` over any part of the memory, with two exceptions: buffers whose start addresses are equal
    ///   modulo 8 and whose end addresses are equal modulo 8, and buffers that are never accessed at the same time.
    ///
    /// The adapter may read or write the memory from the post of a request that names it until the request's result, and as long
    /// as a registration or a window gives the right to peers. In these times access the memory through this buffer, or by
    /// `AtomicU64`s of the aligned words that lie in the memory and `AtomicU8`s of the octets before and behind these words.
    ///
    /// The example `foreign_memory` keeps and breaks each rule that a sanitizer can examine.
    pub unsafe fn from_raw_parts(ptr: *mut u8, len: usize) -> Self {
        Self::foreign(ptr, len, Extent::new(ptr, len))
    }

    /// A buffer over memory of a program in another language, such as a C program that registers memory with libibverbs.
    /// This memory begins and ends at any address, and other buffers may overlap with it in any way.
    ///
    /// A copy accesses every word that holds an octet of the buffer as a whole, the words at both ends included. So all
    /// buffers of this kind use the same words. The [`extent`](Self::extent) is the pages, of [`PAGE`](Self::PAGE) octets
    /// each, that hold an octet of the buffer. A word lies in one page, so no copy reaches beyond memory that is mapped. A copy
    /// changes no octet outside its range: where the range holds a part of a word, the word is replaced only if nobody
    /// has changed it meanwhile (compare-exchange), whatever instruction the other used.
    ///
    /// # Safety
    ///
    /// These conditions have to hold until the last clone and slice of the buffer is dropped, those of registrations
    /// included:
    ///
    /// - `ptr` is not null, and the words of the buffer, which are the aligned groups of 8 octets that hold an octet of `ptr..ptr +
    ///   len`, are valid for reads and writes through `ptr`. The memory is not remapped or protected.
    /// - If the program frees or unmaps the memory nevertheless, nobody copies through the buffer any more. System
    ///   calls on the memory are allowed then. They fail with EFAULT while nothing is mapped there. (A copy ends the process, as
    ///   any access of such memory.)
    /// - Code in other languages was compiled without knowledge of this program's code, so that its accesses are instructions of
    ///   the processor and nothing more. It may read and write the words at any time. What it reads is what the
    ///   processor gives it.
    /// - Rust code accesses the words only through buffers of this kind, or by `AtomicU64`s, as long as the adapter or a
    ///   copy through the buffer may access the memory. There is no reference to the words, except to these atomics.
    ///   A buffer by [`from_raw_parts`](Self::from_raw_parts) may share words with this one only if it begins and ends at a
    ///   multiple of 8, or if the two are never accessed at the same time.
    ///
    /// The example `foreign_memory` keeps these rules under the sanitizers.
    pub unsafe fn from_pages(ptr: *mut u8, len: usize) -> Self {
        Self::foreign(ptr, len, Extent::new(ptr, len).in_pages(Self::PAGE as u64))
    }

    fn foreign(start: *mut u8, len: usize, extent: Extent) -> Self {
        let foreign = Foreign { start, len, extent };
        Self {
            store: Arc::new(Store::Foreign(foreign)),
            offset: 0,
            len,
        }
    }

    /// The length of this view in octets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if this view is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The virtual address of the first octet, for scatter/gather entries and for peers.
    #[inline]
    pub fn address(&self) -> u64 {
        self.as_ptr().addr() as u64
    }

    /// A pointer to the first octet, for providers. As long as a view exists, atomic operations, system calls and devices may
    /// write through this pointer.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.store.start().wrapping_add(self.offset)
    }

    /// A view of the whole memory of which this is a view.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self {
            store: self.store.clone(),
            offset: 0,
            len: self.store.len(),
        }
    }

    /// Where whole words lie in the memory of which this is a view. Memory that [`new`](Self::new) has allocated consists of
    /// whole words, whatever its length is. Memory by [`from_raw_parts`](Self::from_raw_parts) ends where it ends, and memory by
    /// [`from_pages`](Self::from_pages) where its pages end.
    pub fn extent(&self) -> Extent {
        self.store.extent()
    }

    /// A view of a part of this view.
    ///
    /// # Panics
    ///
    /// If the range lies outside this view.
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

    /// Copies octets out, from offset `at` on. A copy of memory that is being written at the same time may mix old and new
    /// octets.
    ///
    /// # Panics
    ///
    /// If the range lies outside this view.
    #[track_caller]
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let at = self.locate(at, into.len());
        let extent = self.store.extent();
        // SAFETY: `locate` found the range inside the store, which `self` keeps, and all of the store is reached by atomics of this
        // kind only: it is ours, or the caller of `from_raw_parts` or `from_pages` has promised that. By words, so that each load
        // acquires.
        unsafe { copy_out(at, extent, into, Backend::Words) };
    }

    /// Copies octets in, from offset `at` on.
    ///
    /// # Panics
    ///
    /// If the range lies outside this view.
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
    /// If there is not enough memory for the copy.
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

    /// Sets all octets to the same value.
    pub fn fill(&self, octet: u8) {
        let block = [octet; 512];
        for at in (0..self.len).step_by(block.len()) {
            self.write(at, &block[..block.len().min(self.len - at)]);
        }
    }

    /// Loads one octet with acquire ordering: later loads see everything that was written before this octet, by the same copy
    /// or earlier ones.
    ///
    /// # Panics
    ///
    /// If the octet lies outside this view.
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
        match self {
            Self::Owned { len, .. } => Extent::new(self.start(), len.next_multiple_of(WORD)),
            Self::Foreign(foreign) => foreign.extent,
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
