//! One entry of the STag table: who may use which memory, and the pins that hold the memory while it is used.
//!
//! One atomic word holds everything that decides whether a span may be used: the epoch, the key, the kind and the number of
//! pins. A pin is counted first and checked afterwards, by a single read-modify-write:
//!
//! * [`Slot::pin`] adds one and examines the old word. If this is not the expected use, it subtracts the one again.
//! * [`Slot::change`] (revocation) changes the kind in the same word. So each pin comes either before the change, and is
//!   counted in the changed word, or after the change, and is refused.
//! * [`Slot::wait_unpinned`] then waits until the count is zero. New pins of the old use cannot appear any more. Only
//!   failed attempts change the count afterwards, and they touch no memory.
//!
//! The other fields, of which the STag is one, are written only after the pins of a revoked use are gone, and before the next publication. They are
//! read either under a pin or, by [`Slot::view`], between two equal reads of the word. The fields are atomics, so no
//! `unsafe` is needed here.

use iwarp::{Pd, STag, Span, StreamId};
use rdma_buffer::Extent;

use crate::{
    rights::Rights,
    sync::{AtomicPtr, AtomicU32, AtomicU64, Backoff, Ordering, fence},
};

/// The current use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not in use: on the free list, never used, or revoked and waiting for its pins.
    Free,
    /// A registered region.
    Region,
    /// A window whose Bind was prepared but not yet executed. Its STag is known, and not yet valid.
    Reserved,
    /// A bound window.
    Window,
}

impl Kind {
    /// Returns true if spans may name the slot.
    fn is_live(self) -> bool {
        matches!(self, Self::Region | Self::Window)
    }
}

/// One use of a slot. No two uses of the same slot have equal epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Use {
    /// The low octet of the STag.
    pub(crate) key: u8,
    pub(crate) epoch: u32,
}

/// The word that decides whether a use is allowed: epoch (32 bits), key (8), kind (3), pins (21).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    const KIND_SHIFT: u32 = 21;
    const KEY_SHIFT: u32 = 24;
    const EPOCH_SHIFT: u32 = 32;
    const PINS: u64 = (1 << Self::KIND_SHIFT) - 1;
    /// Half of the field's range. A count this high means that pins leak. It must not overflow into the kind.
    const PINS_LIMIT: u64 = 1 << (Self::KIND_SHIFT - 1);

    fn new(kind: Kind, usage: Use, pins: u64) -> Self {
        let kind = (kind as u64) << Self::KIND_SHIFT;
        let key = u64::from(usage.key) << Self::KEY_SHIFT;
        Self(u64::from(usage.epoch) << Self::EPOCH_SHIFT | key | kind | pins)
    }

    fn pins(self) -> u64 {
        self.0 & Self::PINS
    }

    fn kind(self) -> Kind {
        match self.0 >> Self::KIND_SHIFT & 0b111 {
            1 => Kind::Region,
            2 => Kind::Reserved,
            3 => Kind::Window,
            _ => Kind::Free,
        }
    }

    fn r#use(self) -> Use {
        let [_, _, _, key, epoch @ ..] = self.0.to_le_bytes();
        Use {
            key,
            epoch: u32::from_le_bytes(epoch),
        }
    }

    fn without_pins(self) -> Self {
        Self(self.0 & !Self::PINS)
    }
}

/// The memory behind a slot while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// The first octet.
    pub(crate) base: *mut u8,
    pub(crate) len: u64,
    /// The tagged offset of the first octet. SGE addresses begin there as well. `first + len` does not overflow.
    pub(crate) first: u64,
    pub(crate) pd: Pd,
    pub(crate) rights: Rights,
    /// The octets around the range that may be accessed together with it, in whole words.
    pub(crate) margins: Margins,
    /// The window, for `Reserved` and `Window`.
    pub(crate) owner: u32,
}

/// The number of octets of the [`Extent`] before and behind a range. A word reaches at most 7 octets beyond the range, so a larger margin
/// is kept as 7, and both fit into the slot's cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margins {
    before: u8,
    behind: u8,
}

impl Margins {
    const MOST: u8 = 7;

    /// The margins of `len` octets at `base`, which lie in `extent`.
    pub(crate) fn within(extent: Extent, base: *mut u8, len: u64) -> Self {
        let from = base.addr() as u64;
        let most = |octets: u64| u8::try_from(octets).map_or(Self::MOST, |few| few.min(Self::MOST));
        Self {
            before: most(from.saturating_sub(extent.from)),
            behind: most(extent.to.saturating_sub(from.saturating_add(len))),
        }
    }

    /// The extent around `len` octets at `base`, as far as their words reach.
    fn extent(self, base: *mut u8, len: u64) -> Extent {
        let from = base.addr() as u64;
        Extent {
            from: from.wrapping_sub(self.before.into()),
            to: from.wrapping_add(len).wrapping_add(self.behind.into()),
        }
    }

    fn to_bits(self) -> u32 {
        u32::from_le_bytes([self.before, self.behind, 0, 0])
    }

    fn from_bits(bits: u32) -> Self {
        let [before, behind, ..] = bits.to_le_bytes();
        Self { before, behind }
    }
}

/// A consistent copy of the fields of a slot in use. It may be out of date as soon as it is returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) kind: Kind,
    pub(crate) r#use: Use,
    pub(crate) stag: STag,
    pub(crate) stream: StreamId,
    pub(crate) backing: Backing,
}

/// One entry of the table. It has its own cache line, so that pins of different regions do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    word: AtomicU64,
    base: AtomicPtr<u8>,
    len: AtomicU64,
    first: AtomicU64,
    stag: AtomicU32,
    pd: AtomicU32,
    stream: AtomicU32,
    owner: AtomicU32,
    rights: AtomicU32,
    margins: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64, "one cache line");

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            base: AtomicPtr::new(std::ptr::null_mut()),
            len: AtomicU64::new(0),
            first: AtomicU64::new(0),
            stag: AtomicU32::new(0),
            pd: AtomicU32::new(0),
            stream: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            rights: AtomicU32::new(0),
            margins: AtomicU32::new(0),
        }
    }

    /// Puts a free slot to use with a new STag, and returns the use. Only the thread that took the slot off the free list
    /// may call this. The slot had no pins when it got there.
    pub(crate) fn publish(&self, kind: Kind, stag: STag, backing: &Backing) -> Use {
        let epoch = Word(self.word.load(Ordering::Relaxed))
            .r#use()
            .epoch
            .wrapping_add(1);
        let [key, ..] = stag.0.to_le_bytes();
        let new = Use { key, epoch };
        // Pairs with the acquire fence of `view`: a thread that reads one of the fields below also reads that the old use
        // is over.
        fence(Ordering::Release);
        self.base.store(backing.base, Ordering::Relaxed);
        self.len.store(backing.len, Ordering::Relaxed);
        self.first.store(backing.first, Ordering::Relaxed);
        self.stag.store(stag.0, Ordering::Relaxed);
        self.pd.store(backing.pd.0, Ordering::Relaxed);
        self.stream.store(0, Ordering::Relaxed);
        self.owner.store(backing.owner, Ordering::Relaxed);
        self.rights.store(backing.rights.bits(), Ordering::Relaxed);
        self.margins
            .store(backing.margins.to_bits(), Ordering::Relaxed);
        // The count of pins stays, because it may include a failed attempt to pin the old use.
        self.update(Ordering::Release, |old| {
            Some(Word::new(kind, new, old.pins()))
        });
        new
    }

    /// Binds a prepared window to its stream and makes its STag valid. False if the slot does not have the expected use any
    /// more.
    pub(crate) fn bind(&self, usage: Use, stream: StreamId) -> bool {
        // No thread reads the stream of a window that is not bound yet, and the caller holds the table's lock.
        self.stream.store(stream.0, Ordering::Relaxed);
        self.change(Kind::Reserved, usage, Kind::Window)
    }

    /// Changes the kind of the expected use; `Kind::Free` revokes the use. False if the slot has another use by now.
    pub(crate) fn change(&self, from: Kind, usage: Use, to: Kind) -> bool {
        self.update(Ordering::AcqRel, |old| {
            let expected = old.kind() == from && old.r#use() == usage;
            expected.then(|| Word::new(to, usage, old.pins()))
        })
    }

    fn update(&self, order: Ordering, mut new: impl FnMut(Word) -> Option<Word>) -> bool {
        let new = |old| new(Word(old)).map(|word| word.0);
        self.word
            .fetch_update(order, Ordering::Relaxed, new)
            .is_ok()
    }

    /// Waits until no pin is left. Pins last one copy, one call of the engine or one system call, none of which blocks, so this never
    /// waits for a peer.
    pub(crate) fn wait_unpinned(&self) {
        let mut backoff = Backoff::default();
        // Acquire: everything done under the pins happened before this returns.
        while Word(self.word.load(Ordering::Acquire)).pins() != 0 {
            backoff.turn();
        }
    }

    /// Pins the slot's memory, if the slot still has the use for which a span was made.
    pub(crate) fn pin(&self, usage: Use) -> Option<Pin<'_>> {
        let (pin, old) = self.pin_any();
        (old.kind().is_live() && old.r#use() == usage).then_some(pin)
    }

    /// Pins the slot's memory, if the slot is in use with this STag.
    #[inline]
    pub(crate) fn pin_stag(&self, stag: STag) -> Option<(Pin<'_>, Use)> {
        if self.stag() != stag {
            return None; // a guess adds no pin, so that guesses do not delay a revocation
        }
        let (pin, old) = self.pin_any();
        // The STag is read again, under the pin, because it may have changed before the pin.
        (old.kind().is_live() && self.stag() == stag).then_some((pin, old.r#use()))
    }

    /// The STag of the present use, or of the last one.
    #[inline]
    pub(crate) fn stag(&self) -> STag {
        STag(self.stag.load(Ordering::Relaxed))
    }

    /// Adds a pin, whatever the slot is used for, and returns the word of before. The pin is dropped at once if this is not the
    /// expected use.
    #[inline]
    fn pin_any(&self) -> (Pin<'_>, Word) {
        #[cfg(all(test, not(loom)))]
        tests::count_pin();
        // Acquire, because the fields of the use were stored before its publication.
        let old = Word(self.word.fetch_add(1, Ordering::Acquire));
        if old.pins() >= Word::PINS_LIMIT {
            // Only leaked pins can get here, and the count would overflow into the kind.
            std::process::abort();
        }
        (Pin { slot: self }, old)
    }

    /// A consistent copy of the fields. `None` for a free slot.
    #[inline]
    pub(crate) fn view(&self) -> Option<View> {
        let mut before = Word(self.word.load(Ordering::Acquire)).without_pins();
        loop {
            if before.kind() == Kind::Free {
                return None;
            }
            let view = self.read_fields(before);
            fence(Ordering::Acquire);
            let after = Word(self.word.load(Ordering::Relaxed)).without_pins();
            if after == before {
                return Some(view);
            }
            before = Word(self.word.load(Ordering::Acquire)).without_pins();
        }
    }

    #[inline]
    fn read_fields(&self, word: Word) -> View {
        View {
            kind: word.kind(),
            r#use: word.r#use(),
            stag: self.stag(),
            stream: StreamId(self.stream.load(Ordering::Relaxed)),
            backing: Backing {
                base: self.base.load(Ordering::Relaxed),
                len: self.len.load(Ordering::Relaxed),
                first: self.first.load(Ordering::Relaxed),
                pd: Pd(self.pd.load(Ordering::Relaxed)),
                rights: Rights::from_bits_truncate(self.rights.load(Ordering::Relaxed)),
                margins: Margins::from_bits(self.margins.load(Ordering::Relaxed)),
                owner: self.owner.load(Ordering::Relaxed),
            },
        }
    }
}

/// A slot that keeps its use: its memory stays valid and its fields unchanged until the pin is dropped.
#[derive(Debug)]
pub(crate) struct Pin<'a> {
    slot: &'a Slot,
}

impl Pin<'_> {
    /// The fields of the slot. The kind is [`Kind::Free`] if a thread has revoked the use, and waits for the pin. The other fields do not
    /// change until the pin is dropped.
    #[inline]
    pub(crate) fn fields(&self) -> View {
        self.slot
            .read_fields(Word(self.slot.word.load(Ordering::Relaxed)))
    }

    /// Returns true if a thread has revoked the use, and waits for the pin.
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        !Word(self.slot.word.load(Ordering::Relaxed))
            .kind()
            .is_live()
    }

    /// The address of the octets of `span`, and the extent of their memory. `None` if they are not all inside. Only a span
    /// made up by hand can cause this, because the check that made a span has found it inside, and this use has not
    /// changed.
    #[inline]
    pub(crate) fn locate(&self, span: Span) -> Option<(*mut u8, Extent)> {
        let end = span.offset().checked_add(u64::from(span.len()))?;
        let len = self.slot.len.load(Ordering::Relaxed);
        if end > len {
            return None;
        }
        let offset = usize::try_from(span.offset()).ok()?;
        let base = self.slot.base.load(Ordering::Relaxed);
        let margins = Margins::from_bits(self.slot.margins.load(Ordering::Relaxed));
        Some((base.wrapping_add(offset), margins.extent(base, len)))
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire load of `wait_unpinned`.
        self.slot.word.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_model;
#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
