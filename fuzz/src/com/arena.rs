//! Memory between two pages that nobody may touch.

use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// Memory of whole pages, with a page that cannot be accessed at each end.
pub(super) struct Arena {
    mapping: *mut u8,
    len: usize,
}

impl Arena {
    pub(super) fn new(pages: usize) -> Self {
        let len = pages * PAGE;
        let whole = len + 2 * PAGE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                whole,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        let mapping = mapping.expect("memory").cast::<u8>();
        let arena = Self { mapping, len };
        // SAFETY: these pages are within the mapping, which nothing uses yet.
        let opened = unsafe {
            mprotect(
                arena.start().cast(),
                len,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        };
        opened.expect("pages that can be accessed");
        arena
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.mapping.wrapping_add(PAGE)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The place of an object that has `size` octets: octet `at`, or the last place if the object does not fit there.
    pub(super) fn place(&self, at: usize, size: usize) -> *mut u8 {
        assert!(size <= self.len, "{size} octets");
        self.start().wrapping_add(at.min(self.len - size))
    }

    /// Writes a value to a place that [`place`](Self::place) has returned for its type.
    pub(super) fn write<T>(&self, place: *mut u8, value: T) {
        self.check::<T>(place);
        // SAFETY: the place is within the memory, which only raw pointers use.
        unsafe { place.cast::<T>().write_unaligned(value) };
    }

    /// Reads a value. Octets have to make one, as those of numbers and pointers do.
    pub(super) fn read<T: Number>(&self, place: *mut u8) -> T {
        self.check::<T>(place);
        // SAFETY: the place is within the memory, which is initialized, and any octets make such a value.
        unsafe { place.cast::<T>().read_unaligned() }
    }

    fn check<T>(&self, place: *mut u8) {
        let at = place.addr().wrapping_sub(self.start().addr());
        let is_within = at.checked_add(size_of::<T>());
        assert!(is_within.is_some_and(|end| end <= self.len), "{at}");
    }
}

/// A type whose values are any octets.
pub(super) trait Number: Copy {}

impl Number for u32 {}
impl Number for u64 {}
impl Number for usize {}
impl Number for *mut std::ffi::c_void {}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the whole mapping; what used it has ended.
        let done = unsafe { munmap(self.mapping.cast(), self.len + 2 * PAGE) };
        done.expect("the mapping is ours");
    }
}
