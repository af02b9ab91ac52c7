use std::cell::Cell;

use super::*;

thread_local! {
    static PINS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a pin that this thread has added, even if it was refused and dropped at once.
pub(super) fn count_pin() {
    PINS.set(PINS.get() + 1);
}

/// The pins that this thread has added so far.
pub(crate) fn pins_added() -> u64 {
    PINS.get()
}

fn backing() -> Backing {
    Backing {
        base: std::ptr::null_mut(),
        len: 100,
        first: 77,
        pd: Pd(3),
        rights: Rights::REMOTE_READ | Rights::READ_SINK,
        margins: Margins {
            before: 1,
            behind: 2,
        },
        owner: 4,
    }
}

#[test]
fn word_keeps_its_fields_apart() {
    for kind in [Kind::Free, Kind::Region, Kind::Reserved, Kind::Window] {
        for (key, epoch, pins) in [
            (0, 0, 0),
            (0xff, 0, 1),
            (0, u32::MAX, Word::PINS),
            (0xa5, 0x8000_0001, 7),
        ] {
            let usage = Use { key, epoch };
            let word = Word::new(kind, usage, pins);
            assert_eq!(
                (word.kind(), word.r#use(), word.pins()),
                (kind, usage, pins)
            );
            assert!(word.without_pins() == Word::new(kind, usage, 0));
        }
    }
}

#[test]
fn view_shows_what_was_published() {
    let slot = Slot::new();
    assert!(slot.view().is_none());
    let usage = slot.publish(Kind::Reserved, STag(0x1234_5609), &backing());
    let view = slot.view().unwrap();
    assert_eq!(
        (view.kind, view.r#use, view.stag, view.backing),
        (Kind::Reserved, usage, STag(0x1234_5609), backing())
    );
    assert_eq!(usage.key, 9);
    assert!(slot.pin(usage).is_none(), "not valid before it is bound");
    assert!(slot.bind(usage, StreamId(8)));
    let view = slot.view().unwrap();
    assert_eq!((view.kind, view.stream), (Kind::Window, StreamId(8)));
    assert!(slot.pin(usage).is_some());
    assert!(!slot.bind(usage, StreamId(9)), "bound already");
}

/// Each use has its own epoch, so that spans of earlier ones are refused even when a key comes back.
#[test]
fn epochs_tell_uses_with_one_key_apart() {
    let slot = Slot::new();
    let first = slot.publish(Kind::Region, STag(7), &backing());
    assert!(slot.change(Kind::Region, first, Kind::Free));
    let second = slot.publish(Kind::Region, STag(7), &backing());
    assert!(slot.pin(first).is_none());
    assert!(!slot.change(Kind::Region, first, Kind::Free));
    assert!(slot.pin(second).is_some());
}

#[test]
fn spans_are_checked_again_at_use() {
    let slot = Slot::new();
    let usage = slot.publish(Kind::Region, STag(7), &backing());
    let pin = slot.pin(usage).unwrap();
    let locate = |offset, len| {
        pin.locate(Span::new(0, 7, usage.epoch, offset, len))
            .is_some()
    };
    assert!(locate(0, 100) && locate(100, 0) && locate(99, 1));
    assert!(!locate(0, 101) && !locate(101, 0) && !locate(u64::MAX, 1) && !locate(u64::MAX, 0));
}

/// A slot keeps as much of an extent as the words of its range reach. Every word that holds an octet of the range lies in what is kept
/// exactly if it lies in the extent.
#[test]
fn margins_keep_the_words_of_a_range() {
    const WORD: u64 = 8;
    for (from, to) in [(64, 128), (61, 131), (0, 4096), (67, 90), (70, 71)] {
        for start in from..=to {
            for len in 0..=to.min(start + 20) - start {
                let base = std::ptr::without_provenance_mut(usize::try_from(start).unwrap());
                let extent = Extent { from, to };
                let margins = Margins::within(extent, base, len);
                assert_eq!(Margins::from_bits(margins.to_bits()), margins);
                let kept = margins.extent(base, len);
                for octet in start..start + len {
                    let word = octet / WORD * WORD;
                    let holds = |extent: Extent| extent.from <= word && word + WORD <= extent.to;
                    assert_eq!(
                        holds(kept),
                        holds(extent),
                        "{octet} of {start}+{len} in {extent:?}"
                    );
                }
            }
        }
    }
}

/// The whole STag counts, not only its octet in the word, and a guess adds no pin.
#[test]
fn only_the_whole_stag_pins() {
    let slot = Slot::new();
    assert!(slot.pin_stag(STag(0)).is_none(), "a slot of no use");
    let stag = STag(0x1234_5607);
    let usage = slot.publish(Kind::Region, stag, &backing());
    let before = pins_added();
    for bit in 0..32 {
        assert!(slot.pin_stag(STag(stag.0 ^ 1 << bit)).is_none(), "{bit}");
        slot.wait_unpinned();
    }
    assert_eq!(pins_added(), before);
    assert_eq!(slot.pin_stag(stag).map(|(_, pinned)| pinned), Some(usage));
    assert!(slot.change(Kind::Region, usage, Kind::Free));
    assert!(slot.pin_stag(stag).is_none());
}
