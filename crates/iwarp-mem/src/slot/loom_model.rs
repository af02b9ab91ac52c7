//! The pin protocol under every interleaving that loom's memory model allows:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-mem --lib loom`.

use loom::{cell::UnsafeCell, sync::Arc, thread};

use super::*;

/// A slot and the memory behind it. The cell is one of loom, which reports an access that is not ordered with
/// another.
struct Model {
    slot: Slot,
    memory: UnsafeCell<u32>,
}

// SAFETY: loom's cell checks at run time what this promises: that accesses from several threads are ordered.
unsafe impl Sync for Model {}

fn backing(len: u64, pd: u32) -> Backing {
    Backing {
        base: std::ptr::null_mut(),
        len,
        pd: Pd(pd),
        rights: Rights::empty(),
        first: len,
        margins: Margins::from_bits(pd),
        owner: pd,
    }
}

fn write(model: &Model, value: u32) {
    model.memory.with_mut(|memory| {
        // SAFETY: loom has checked that nothing else is at the cell, and it lives as long as `model`.
        unsafe { *memory = value };
    });
}

fn read(model: &Model) -> u32 {
    model.memory.with(|memory| {
        // SAFETY: loom has checked that no thread writes the cell, and it lives as long as `model`.
        unsafe { *memory }
    })
}

/// MR-034: everything done under a pin happened before the revocation returned. Afterwards no pin can be taken.
#[test]
fn revocation_waits_for_pins() {
    loom::model(|| {
        let slot = Slot::new();
        let usage = slot.publish(Kind::Region, STag(1), &backing(8, 1));
        let model = Arc::new(Model {
            slot,
            memory: UnsafeCell::new(0),
        });
        let placing = Arc::clone(&model);
        let peer = thread::spawn(move || {
            let pin = placing.slot.pin(usage);
            if pin.is_some() {
                write(&placing, 1);
            }
            pin.is_some()
        });
        assert!(model.slot.change(Kind::Region, usage, Kind::Free));
        model.slot.wait_unpinned();
        // From here on only the owner uses the memory.
        let seen = read(&model);
        write(&model, 9);
        let placed = peer.join().unwrap();
        assert_eq!(seen, u32::from(placed));
        assert_eq!(read(&model), 9);
        assert!(model.slot.pin(usage).is_none());
    });
}

/// A slot that is used again: a stale pin fails, and its attempt does not disturb the new use or the end of that use.
#[test]
fn stale_pins_pass_through_a_new_use() {
    loom::model(|| {
        let slot = Slot::new();
        let old = slot.publish(Kind::Region, STag(1), &backing(8, 1));
        let model = Arc::new(Model {
            slot,
            memory: UnsafeCell::new(0),
        });
        let late = Arc::clone(&model);
        let peer = thread::spawn(move || {
            if let Some(pin) = late.slot.pin(old) {
                assert!(
                    pin.locate(Span::new(0, 1, old.epoch, 0, 8)).is_some(),
                    "the new use's length"
                );
                drop(pin);
            }
        });
        assert!(model.slot.change(Kind::Region, old, Kind::Free));
        model.slot.wait_unpinned();
        let new = model.slot.publish(Kind::Region, STag(2), &backing(4, 2));
        assert_ne!(old, new);
        assert!(model.slot.pin(new).is_some());
        peer.join().unwrap();
        assert_eq!(Word(model.slot.word.load(Ordering::Relaxed)).pins(), 0);
        assert_eq!(model.slot.view().map(|view| view.r#use), Some(new));
    });
}

/// A view never mixes two uses. The model has at most three preemptions, because all interleavings of this many accesses take ten minutes
/// (and pass), and a mixture needs only two.
#[test]
fn views_are_consistent() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let slot = Slot::new();
        let old = slot.publish(Kind::Region, STag(1), &backing(1, 1));
        let model = Arc::new(slot);
        let other = Arc::clone(&model);
        let looking = thread::spawn(move || {
            let Some(view) = other.view() else { return };
            let expected = if view.r#use == old { 1 } else { 2 };
            assert_eq!(view.backing, backing(u64::from(expected), expected));
        });
        assert!(model.change(Kind::Region, old, Kind::Free));
        model.wait_unpinned();
        model.publish(Kind::Region, STag(2), &backing(2, 2));
        looking.join().unwrap();
    });
}

/// Every thread sees a window bound and its stream set at the same time.
#[test]
fn binding_shows_its_stream() {
    loom::model(|| {
        let slot = Slot::new();
        let usage = slot.publish(Kind::Reserved, STag(1), &backing(1, 1));
        let model = Arc::new(slot);
        let other = Arc::clone(&model);
        let looking = thread::spawn(move || {
            let view = other.view().unwrap();
            if view.kind == Kind::Window {
                assert_eq!(view.stream, StreamId(5));
            }
        });
        assert!(model.bind(usage, StreamId(5)));
        looking.join().unwrap();
    });
}
