//! Copying into and out of memory that others use at the same time.
//!
//! A peer's Write may arrive while the application reads, and two streams may write one buffer. So no `&[u8]` and no `&mut
//! [u8]` over such memory exists here, not even briefly. The code accesses the memory through its base pointer, in one of
//! two ways (Atomics in the first):
//!
//! * **Words** (every target, Miri): aligned 64-bit atomics, in increasing order. All code accesses an octet through the same atomic,
//!   because overlapping atomics of different sizes are undefined when they race. This atomic is the octet's word, if the whole word lies
//!   in the memory ([`Extent`]). A part of a word is merged by compare-exchange, so that neighbouring octets are never torn or lost. Our
//!   own memory consists of whole words. Memory of the application may begin and end inside a word. The octets there have their own
//!   atomics, and octets outside are never rewritten, not even with their old value.
//! * **Bulk** (x86-64, from [`BULK_MIN`] octets): wide moves in `asm!`, which the compiler cannot look into. They have the
//!   standing of a device's write, as a system call on the memory has: the kernel and this copy act as the network adapter.
//!   They may race with anything. Rust code that races with them uses atomics, and relies on a value only after it has
//!   copied the value out. A copy with a CRC is one pass if the processor allows it (`one_pass`).
//!
//! **Last octet last.** An application may spin on the last octet of a message (ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED) and
//! must then see all the rest. The copy by words stores each word with `Release`, the last one last. The bulk copy ends in, or
//! is, `rep movsb`, whose stores have no order among themselves, but no later store overtakes them. So it leaves out the last
//! word of a message and then stores this word separately.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

mod bulk;
mod one_pass;
mod page_offsets;
mod processor;
mod sum;

pub use bulk::prefers_strings;
pub use page_offsets::{is_slow_copy, page_offsets_matter};
pub use sum::Sum;

use bulk::bulk;

use crate::extent::{Extent, WORD};

/// The part of a message that is copied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More of the message follows.
    More,
    /// The end of the message: its last word is stored last, with release order.
    Last,
}

/// The way to copy large pieces. Small ones are always copied by words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Only 64-bit atomics, which are portable, and which Miri supports.
    Words,
    /// Wide moves on x86-64; the same as `Words` elsewhere.
    Bulk,
}

impl Default for Backend {
    fn default() -> Self {
        if cfg!(miri) { Self::Words } else { Self::Bulk }
    }
}

/// From this many octets on a bulk copy is faster in spite of its start-up cost.
pub const BULK_MIN: usize = 512;

/// Octets up to the next word boundary.
fn to_boundary(at: *const u8) -> usize {
    at.addr().wrapping_neg() % WORD
}

/// Copies `src` into shared memory at `dst`.
///
/// # Safety
///
/// - `dst` is valid for reads and writes of `src.len()` octets while this runs. Rust code elsewhere accesses them only by
///   atomics of the kind used here, or not at the same time.
/// - They lie in `extent`, all of which is such memory. The pointer may access all of it.
#[inline]
pub unsafe fn copy_in(dst: *mut u8, extent: Extent, src: &[u8], part: Part, backend: Backend) {
    let mut done = 0;
    if backend == Backend::Bulk && cfg!(target_arch = "x86_64") && src.len() >= BULK_MIN {
        done = match part {
            Part::More => src.len(),
            // Up to the boundary below the last octet. The rest is the word of the last octet, or the part of this word
            // that is ours.
            Part::Last => {
                let last = dst.wrapping_add(src.len() - 1);
                src.len() - 1 - last.addr() % WORD
            }
        };
        // SAFETY: the first `done <= src.len()` octets of both; the caller vouches for `dst`, the slice for `src`.
        unsafe { bulk(dst, src.as_ptr(), done) };
    }
    // SAFETY: what is left of the range the caller vouches for; a part of the same array.
    unsafe { store_words(dst.wrapping_add(done), extent, &src[done..]) };
}

/// Copies shared memory at `src` out into `dst`.
///
/// # Safety
///
/// As for [`copy_in`], with `src` valid for `dst.len()` octets. Nothing is written to `src`.
#[inline]
pub unsafe fn copy_out(src: *mut u8, extent: Extent, dst: &mut [u8], backend: Backend) {
    if backend == Backend::Bulk && cfg!(target_arch = "x86_64") && dst.len() >= BULK_MIN {
        // SAFETY: the caller vouches for `src`, the slice for `dst`, which is private and so does not overlap it.
        unsafe { bulk(dst.as_mut_ptr(), src, dst.len()) };
    } else {
        // SAFETY: exactly what the caller vouches for.
        unsafe { load_words(src, extent, dst) };
    }
}

/// Octets that a copy by words between two stretches of shared memory keeps privately.
const PRIVATE_BLOCK: usize = 256;

/// Copies `len` octets of shared memory at `src` to shared memory at `dst`. What others write to `src` meanwhile may be copied in part.
///
/// # Safety
///
/// As for [`copy_in`] and [`copy_out`], of `len` octets each. The two stretches do not overlap.
#[inline]
pub unsafe fn copy_across(
    (dst, dst_extent): (*mut u8, Extent),
    (src, src_extent): (*mut u8, Extent),
    len: usize,
    backend: Backend,
) {
    if backend == Backend::Bulk && cfg!(target_arch = "x86_64") && len >= BULK_MIN {
        // SAFETY: the caller vouches for both, and that they do not overlap.
        unsafe { bulk(dst, src, len) };
        return;
    }
    let mut block = [0; PRIVATE_BLOCK];
    for at in (0..len).step_by(PRIVATE_BLOCK) {
        let block = &mut block[..PRIVATE_BLOCK.min(len - at)];
        // SAFETY: a part of the range the caller vouches for, as long as `block`.
        unsafe { load_words(src.wrapping_add(at), src_extent, block) };
        // SAFETY: as above.
        unsafe { store_words(dst.wrapping_add(at), dst_extent, block) };
    }
}

/// Octets that are copied at a time, before their CRC is computed, so that they are still in the first cache.
const SUM_BLOCK: usize = 16 << 10;

/// As [`copy_out`], and adds the copy to the CRC.
///
/// # Safety
///
/// As for [`copy_out`].
pub unsafe fn copy_out_summed(
    src: *mut u8,
    extent: Extent,
    dst: &mut [u8],
    sum: &mut impl Sum,
    backend: Backend,
) {
    let mut done = 0;
    if backend == Backend::Bulk && dst.len() >= one_pass::MIN && one_pass::is_in_use() {
        let strides = dst.len() / one_pass::STRIDE;
        done = strides * one_pass::STRIDE;
        // SAFETY: in use, as just asked, and so supported; the first `done <= dst.len()` octets of both, for which the caller and the
        // slice vouch; private memory does not overlap what is shared.
        unsafe { one_pass::copy_and_sum(dst.as_mut_ptr(), src, strides, sum) };
    }
    let mut src = src.wrapping_add(done);
    for block in dst[done..].chunks_mut(SUM_BLOCK) {
        // SAFETY: a part of the range the caller vouches for, as long as `block`.
        unsafe { copy_out(src, extent, block, backend) };
        src = src.wrapping_add(block.len());
        sum.update(block);
    }
}

/// Replaces the word at `at` by `change` of it, indivisibly for all code that uses the same atomic. Returns the old value.
///
/// # Safety
///
/// - `at` is aligned to 8.
/// - As for [`copy_in`], of 8 octets.
pub unsafe fn change_word(at: *mut u8, change: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: aligned and valid, as the caller vouches, and a whole word of a range is always reached as a word.
    let word = unsafe { word(at) };
    let changed = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)));
    changed.unwrap_or_else(|old| old) // never fails: the closure always has a new value
}

/// The word at `at`, which is aligned. A reference to one atomic is the only kind of reference to shared memory.
///
/// # Safety
///
/// `at` is aligned to 8 and valid for reads and writes of 8 octets for as long as the result is used; others reach the
/// word by 64-bit atomics only, or not at the same time.
unsafe fn word<'a>(at: *mut u8) -> &'a AtomicU64 {
    // SAFETY: aligned, valid and shared by atomics only, as the caller vouches.
    unsafe { AtomicU64::from_ptr(at.cast()) }
}

/// # Safety
///
/// As for [`copy_in`].
#[inline]
unsafe fn store_words(dst: *mut u8, extent: Extent, src: &[u8]) {
    let (head, rest) = src.split_at(to_boundary(dst).min(src.len()));
    let (body, tail) = rest.as_chunks::<WORD>();
    // SAFETY: the first octets of the range, at most up to a word boundary.
    unsafe { store_part(dst, extent, head) };
    let mut at = dst.wrapping_add(head.len());
    for octets in body {
        // SAFETY: `at` is aligned because `head` ended at a boundary, and a whole word of the range is left.
        let word = unsafe { word(at) };
        word.store(u64::from_ne_bytes(*octets), Ordering::Release);
        at = at.wrapping_add(WORD);
    }
    // SAFETY: the last octets of the range, from a boundary and fewer than a word.
    unsafe { store_part(at, extent, tail) };
}

/// Stores octets that do not fill a word and do not reach across a boundary.
///
/// # Safety
///
/// As for [`copy_in`].
unsafe fn store_part(dst: *mut u8, extent: Extent, src: &[u8]) {
    if src.is_empty() {
        return;
    }
    if extent.has_word(dst) {
        let skip = dst.addr() % WORD;
        let (mut mask, mut value) = ([0; WORD], [0; WORD]);
        mask[skip..skip + src.len()].fill(0xff);
        value[skip..skip + src.len()].copy_from_slice(src);
        let (mask, value) = (u64::from_ne_bytes(mask), u64::from_ne_bytes(value));
        // SAFETY: rounded down to the boundary, and that word is inside the extent, which `dst` may reach.
        let word = unsafe { word(dst.wrapping_sub(skip)) };
        // Never fails, because the closure always returns a new value.
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| {
            Some(old & !mask | value)
        });
    } else {
        for (i, octet) in src.iter().enumerate() {
            // SAFETY: one octet of the range the caller vouches for.
            let cell = unsafe { AtomicU8::from_ptr(dst.wrapping_add(i)) };
            cell.store(*octet, Ordering::Release);
        }
    }
}

/// # Safety
///
/// As for [`copy_out`].
#[inline]
unsafe fn load_words(src: *mut u8, extent: Extent, dst: &mut [u8]) {
    let head = to_boundary(src).min(dst.len());
    let (head, rest) = dst.split_at_mut(head);
    let (body, tail) = rest.as_chunks_mut::<WORD>();
    // SAFETY: the first octets of the range, at most up to a word boundary.
    unsafe { load_part(src, extent, head) };
    let mut at = src.wrapping_add(head.len());
    for octets in body {
        // SAFETY: `at` is aligned because `head` ended at a boundary, and a whole word of the range is left.
        let word = unsafe { word(at) };
        *octets = word.load(Ordering::Acquire).to_ne_bytes();
        at = at.wrapping_add(WORD);
    }
    // SAFETY: the last octets of the range, from a boundary and fewer than a word.
    unsafe { load_part(at, extent, tail) };
}

/// Loads octets that do not fill a word and do not reach across a boundary.
///
/// # Safety
///
/// As for [`copy_out`].
unsafe fn load_part(src: *mut u8, extent: Extent, dst: &mut [u8]) {
    if dst.is_empty() {
        return;
    }
    if extent.has_word(src) {
        let skip = src.addr() % WORD;
        // SAFETY: rounded down to the boundary, and that word is inside the extent, which `src` may reach.
        let word = unsafe { word(src.wrapping_sub(skip)) };
        let octets = word.load(Ordering::Acquire).to_ne_bytes();
        dst.copy_from_slice(&octets[skip..skip + dst.len()]);
    } else {
        for (i, octet) in dst.iter_mut().enumerate() {
            // SAFETY: one octet of the range the caller vouches for.
            let cell = unsafe { AtomicU8::from_ptr(src.wrapping_add(i)) };
            *octet = cell.load(Ordering::Acquire);
        }
    }
}

#[cfg(test)]
impl Sum for iwarp::Crc {
    fn update(&mut self, octets: &[u8]) {
        Self::update(self, octets);
    }

    fn carry(&self) -> [u8; 4] {
        Self::carry(self)
    }

    fn become_sum_of(&mut self, remainder: &[u8]) {
        *self = Self::of_remainder(remainder);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
