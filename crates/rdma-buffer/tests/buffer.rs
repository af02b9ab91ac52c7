//! Compares buffers with a plain vector, and checks their promises to readers and neighbours (INFO-022, TST-103, MR-012).
#![cfg(not(loom))]

use std::thread;

use proptest::prelude::*;
use rdma_buffer::{Buffer, Extent};

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: prop::sample::Index,
        data: Vec<u8>,
    },
    Read {
        at: prop::sample::Index,
        len: prop::sample::Index,
    },
    Slice {
        from: prop::sample::Index,
        len: prop::sample::Index,
    },
    Fill(u8),
    Whole,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, data)| Step::Write { at, data }),
        4 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(at, len)| Step::Read { at, len }),
        1 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(from, len)| Step::Slice { from, len }),
        1 => any::<u8>().prop_map(Step::Fill),
        1 => Just(Step::Whole),
    ];
    prop::collection::vec(step, 0..40)
}

/// Runs the steps on a buffer and on a vector that models all of its memory.
fn extent_len(buffer: &Buffer) -> u64 {
    let Extent { from, to } = buffer.extent();
    assert_eq!(from, buffer.address());
    to - from
}

fn compare(buffer: &Buffer, steps: &[Step]) -> Vec<u8> {
    let mut model = buffer.to_vec();
    let (mut view, mut base) = (buffer.clone(), 0);
    for step in steps {
        match step {
            Step::Write { at, data } => {
                let at = at.index(view.len() + 1);
                let data = &data[..data.len().min(view.len() - at)];
                view.write(at, data);
                model[base + at..base + at + data.len()].copy_from_slice(data);
            }
            Step::Read { at, len } => {
                let at = at.index(view.len() + 1);
                let mut into = vec![0xEE; len.index(view.len() - at + 1)];
                view.read(at, &mut into);
                assert_eq!(into, model[base + at..base + at + into.len()]);
            }
            Step::Slice { from, len } => {
                let from = from.index(view.len() + 1);
                let len = len.index(view.len() - from + 1);
                view = view.slice(from..from + len);
                base += from;
                assert_eq!(view.address(), buffer.address() + base as u64);
                assert_eq!(view.len(), len);
            }
            Step::Fill(octet) => {
                view.fill(*octet);
                model[base..base + view.len()].fill(*octet);
            }
            Step::Whole => (view, base) = (view.whole(), 0),
        }
    }
    assert_eq!(view.whole().to_vec(), model);
    for (at, octet) in model.iter().enumerate().take(20) {
        assert_eq!(buffer.load(at), *octet);
    }
    model
}

proptest! {
    #[test]
    fn owned_buffer_is_a_vector(len in 0..100_usize, steps in steps()) {
        let buffer = Buffer::new(len);
        prop_assert_eq!(buffer.address() % 8, 0);
        prop_assert!(buffer.to_vec().iter().all(|octet| *octet == 0));
        prop_assert_eq!(extent_len(&buffer), len.next_multiple_of(8) as u64);
        compare(&buffer, &steps);
    }

    #[test]
    fn foreign_buffer_is_a_vector_and_touches_nothing_else(
        before in 0..16_usize,
        len in 0..100_usize,
        steps in steps(),
    ) {
        // Every alignment of both ends, with guards around them.
        let mut memory = vec![0x5A_u8; before + len + 16];
        let start = memory.as_mut_ptr().wrapping_add(before);
        // SAFETY: inside the vector, which outlives the buffer and is not touched meanwhile.
        let buffer = unsafe { Buffer::from_raw_parts(start, len) };
        prop_assert_eq!(extent_len(&buffer), buffer.len() as u64);
        prop_assert_eq!(buffer.as_ptr(), start);
        let model = compare(&buffer, &steps);
        drop(buffer);
        prop_assert!(memory[..before].iter().all(|octet| *octet == 0x5A));
        prop_assert_eq!(&memory[before..before + len], model);
        prop_assert!(memory[before + len..].iter().all(|octet| *octet == 0x5A));
    }
}

/// Memory of whole pages, as a C program has it.
struct Pages {
    memory: Vec<u8>,
    front: usize,
}

impl Pages {
    fn new(count: usize) -> Self {
        let memory = vec![0x5A_u8; (count + 1) * Buffer::PAGE];
        let front = memory.as_ptr().addr().wrapping_neg() % Buffer::PAGE;
        Self { memory, front }
    }

    fn start(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(self.front)
    }
}

proptest! {
    /// Registrations of a C program, which overlap in any way: what is written through one is read through all others, and octets
    /// around them stay as they are.
    #[test]
    fn buffers_in_pages_are_views_of_one_memory(
        ranges in prop::collection::vec((0..40_usize, 0..60_usize), 1..6),
        writes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..40)),
            0..20,
        ),
    ) {
        let mut pages = Pages::new(1);
        let start = pages.start();
        let buffers: Vec<_> = ranges
            .iter()
            // SAFETY: inside the page, which outlives the buffers and is not touched meanwhile.
            .map(|(from, len)| unsafe { Buffer::from_pages(start.wrapping_add(*from), *len) })
            .collect();
        let mut model = vec![0x5A_u8; Buffer::PAGE];
        for (buffer, at, data) in &writes {
            let buffer = buffer.index(buffers.len());
            let ((from, len), buffer) = (ranges[buffer], &buffers[buffer]);
            let at = at.index(len + 1);
            let data = &data[..data.len().min(len - at)];
            buffer.write(at, data);
            model[from + at..][..data.len()].copy_from_slice(data);
            for ((from, len), buffer) in ranges.iter().zip(&buffers) {
                prop_assert_eq!(buffer.len(), *len);
                prop_assert_eq!(buffer.to_vec(), &model[*from..][..*len]);
            }
        }
        drop(buffers);
        prop_assert_eq!(&pages.memory[pages.front..][..Buffer::PAGE], model);
    }
}

#[test]
fn an_extent_in_pages_is_that_of_the_pages_touched() {
    let mut pages = Pages::new(3);
    let start = pages.start();
    let page = Buffer::PAGE as u64;
    for (from, len, first, last) in [
        (0, 1, 0, 1),
        (4095, 1, 0, 1),
        (4095, 2, 0, 2),
        (4096, 4096, 1, 2),
        (1, 3 * 4096 - 1, 0, 3),
    ] {
        // SAFETY: inside the pages, which outlive the buffer and are not touched meanwhile.
        let buffer = unsafe { Buffer::from_pages(start.wrapping_add(from), len) };
        let base = start.addr() as u64;
        let extent = Extent {
            from: base + first * page,
            to: base + last * page,
        };
        assert_eq!(buffer.extent(), extent, "{from} {len}");
        assert_eq!(buffer.slice(len / 2..).extent(), extent);
        assert_eq!(
            (buffer.whole().len(), buffer.as_ptr()),
            (len, start.wrapping_add(from))
        );
    }
    // The last page of the address space, and no octets.
    for (address, len, from, to) in [
        (usize::MAX - 10, 0, u64::MAX - 10, u64::MAX - 10),
        (usize::MAX - 10, 10, u64::MAX - 4095, u64::MAX),
    ] {
        let ptr = std::ptr::without_provenance_mut(address);
        // SAFETY: nothing is accessed.
        let buffer = unsafe { Buffer::from_pages(ptr, len) };
        assert_eq!(buffer.extent(), Extent { from, to });
    }
}

/// Overlapping buffers whose ends lie inside of words: 16 threads write their own octets by turns, and none is lost.
#[test]
fn overlapping_buffers_in_pages_do_not_tear_each_other() {
    const ROUNDS: u8 = if cfg!(miri) { 5 } else { 200 };
    const WRITERS: usize = 16;
    let mut pages = Pages::new(1);
    let start = pages.start();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            // Each reaches into the octets of its neighbours, and writes only its own three.
            let from = writer * 3;
            // SAFETY: inside the page, which outlives the buffer and is not touched meanwhile.
            let buffer = unsafe { Buffer::from_pages(start.wrapping_add(from), 3 + 7) };
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    buffer.write(0, &[round; 3]);
                    assert_eq!(buffer.slice(..3).to_vec(), [round; 3]);
                }
            });
        }
    });
    let memory = &pages.memory[pages.front..];
    assert!(memory[..WRITERS * 3].iter().all(|octet| *octet == ROUNDS));
    assert!(
        memory[WRITERS * 3..Buffer::PAGE]
            .iter()
            .all(|octet| *octet == 0x5A)
    );
}

#[test]
fn no_octets_may_lie_anywhere() {
    // Up to the very end of the address space, because a pointer to no octets need not point to memory.
    for address in (usize::MAX - 10)..=usize::MAX {
        // SAFETY: any pointer but null is valid for no octets.
        let buffer =
            unsafe { Buffer::from_raw_parts(std::ptr::without_provenance_mut(address), 0) };
        buffer.write(0, &[]);
        assert!(buffer.to_vec().is_empty());
    }
}

#[test]
fn copies_of_long_buffers_are_whole() {
    let buffer = Buffer::new(10_000).slice(3..);
    let octets: Vec<_> = (0..9997)
        .map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[1])
        .collect();
    buffer.write(0, &octets);
    assert_eq!(buffer.to_vec(), octets);
}

#[test]
fn neighbours_in_one_word_do_not_tear_each_other() {
    // Eight threads, each with its own octets of shared words: every write must survive.
    const ROUNDS: u8 = 200;
    let mut memory = vec![0_u8; 64 * 3 + 5];
    let start = memory.as_mut_ptr().wrapping_add(5);
    // SAFETY: inside the vector, which outlives the buffer and is not touched meanwhile.
    let foreign = unsafe { Buffer::from_raw_parts(start, 64 * 3) };
    for buffer in [Buffer::new(64 * 3), foreign] {
        thread::scope(|scope| {
            for writer in 0..64 {
                let part = buffer.slice(writer * 3..writer * 3 + 3);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        part.write(0, &[round; 3]);
                        assert_eq!(part.to_vec(), [round; 3]);
                    }
                });
            }
        });
        assert_eq!(buffer.to_vec(), [ROUNDS; 64 * 3]);
    }
}

#[test]
fn last_octet_is_seen_last() {
    // INFO-022, TST-103: a reader that spins on the last octet then sees all of the message.
    let len = 1001;
    let buffer = Buffer::new(len + 3).slice(3..);
    for round in 1..=100_u8 {
        let writer = thread::spawn({
            let buffer = buffer.clone();
            move || buffer.write(0, &vec![round; len])
        });
        while buffer.load(len - 1) != round {
            std::hint::spin_loop();
        }
        assert!(buffer.to_vec().iter().all(|octet| *octet == round));
        writer.join().unwrap();
    }
}

#[test]
fn views_keep_the_memory() {
    let part = Buffer::new(100).slice(10..=19);
    part.fill(3);
    assert_eq!((part.len(), part.is_empty()), (10, false));
    assert!(part.slice(4..4).is_empty());
    let whole = part.whole();
    assert_eq!(whole.len(), 100);
    assert_eq!(
        whole.slice(9..21).to_vec(),
        [0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0]
    );
}

#[test]
#[should_panic(expected = "outside a buffer of 10 octets")]
fn write_outside_a_view_panics() {
    Buffer::new(100).slice(..10).write(8, &[0; 3]);
}

#[test]
#[should_panic(expected = "outside a buffer of 10 octets")]
fn read_far_outside_panics_without_overflow() {
    Buffer::new(10).read(usize::MAX, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "range 5..11 is outside")]
fn slice_outside_panics() {
    let _ = Buffer::new(10).slice(5..11);
}

#[test]
fn large_buffers_cost_memory_only_when_used() {
    // Two pages of a gibibyte are touched.
    let buffer = Buffer::new(1 << 30);
    buffer.write((1 << 30) - 5, b"there");
    assert_eq!(buffer.slice((1 << 30) - 5..).to_vec(), b"there");
}

/// Sizes beyond every address space, and one that no process of today can have.
const HUGE: [usize; 4] = [
    usize::MAX,
    isize::MAX as usize + 1,
    isize::MAX as usize,
    isize::MAX as usize / 2,
];

#[test]
fn a_buffer_that_cannot_be_had_is_an_error() {
    for len in HUGE {
        let error = Buffer::try_new(len).unwrap_err();
        assert_eq!(error.octets, len);
        assert!(error.to_string().contains(&len.to_string()), "{error}");
    }
    // A system that promises memory without limit allows this, others do not. Neither ends the process.
    match Buffer::try_new((1 << 40) + 1) {
        Ok(buffer) => assert_eq!(buffer.len(), (1 << 40) + 1),
        Err(error) => assert_eq!(error.octets, (1 << 40) + 1),
    }
    assert_eq!(Buffer::try_new(10).unwrap().to_vec(), [0; 10]);
    assert!(Buffer::try_new(0).unwrap().is_empty());
}

#[test]
fn new_panics_where_try_new_fails() {
    for len in HUGE {
        let panic = thread::spawn(move || Buffer::new(len)).join().unwrap_err();
        let message = panic.downcast::<String>().unwrap();
        assert!(message.contains("no memory for a buffer of"), "{message}");
    }
}

#[test]
fn long_buffers_begin_at_the_offset_of_a_page_that_sockets_like() {
    for len in [16 << 10, (16 << 10) + 1, 65_536, 100_003, 1 << 20] {
        for buffer in [Buffer::new(len), Buffer::try_new(len).unwrap()] {
            assert_eq!(buffer.address() % 4096, 1024, "{len} octets");
            assert_eq!(buffer.whole().address(), buffer.address());
            // All of it is there, and all of it is zero.
            assert_eq!(buffer.to_vec(), vec![0; len]);
            buffer.write(len - 3, b"end");
            buffer.write(0, b"begin");
            assert_eq!(buffer.slice(len - 3..).to_vec(), b"end");
            assert_eq!(buffer.slice(..5).to_vec(), b"begin");
        }
    }
    // Whole words, as for every buffer.
    assert_eq!(Buffer::new(10).address() % 8, 0);
    for address in [0, 1, 1023, 1024, 1025, 4095, 4096, usize::MAX] {
        let gap = Buffer::to_page_offset(address);
        assert!(gap < 4096);
        assert_eq!(address.wrapping_add(gap) % 4096, Buffer::PAGE_OFFSET);
    }
}
