//! Atomics on registered memory (RFC 7306 section 5): rights, alignment, and atomicity.

use iwarp::{
    Access, AccessError, AtomicError, AtomicOp, Memory, MessageEnd, Pd, RemoteAddress,
    RemoteRights, STag, Scope, StreamId,
};
use iwarp_mem::{Backend, Registration, Rights, Table, TableOptions};
use rdma_buffer::Buffer;

const PD: Pd = Pd(1);

fn stream(id: u32) -> Scope {
    Scope {
        pd: PD,
        stream: StreamId(id),
    }
}

const ATOMIC: Rights = Rights::REMOTE_ATOMIC;

fn at(stag: STag, buffer: &Buffer, offset: u64) -> RemoteAddress {
    RemoteAddress {
        stag,
        to: buffer.address() + offset,
    }
}

fn register(table: &Table, buffer: &Buffer, rights: Rights) -> Registration {
    table.register(buffer, rights, PD).unwrap()
}

fn word(buffer: &Buffer, offset: usize) -> u64 {
    let mut octets = [0; 8];
    buffer.read(offset, &mut octets);
    u64::from_ne_bytes(octets)
}

/// Checks and carries out one Atomic.
fn change(
    table: &Table,
    target: RemoteAddress,
    op: AtomicOp,
    who: Scope,
) -> Result<u64, AtomicError> {
    let span = table.check(target, AtomicOp::LEN, Access::Atomic, who);
    table.atomic(span.expect("allowed"), op)
}

/// RDMAPX-011: a right apart, through a region and through a window, within its bounds.
#[test]
pub(crate) fn rdmapx_011_atomics_need_their_own_right() {
    let table = Table::new();
    let buffer = Buffer::new(64);
    for (rights, other) in [
        (
            Rights::REMOTE_ATOMIC,
            Rights::REMOTE_READ | Rights::REMOTE_WRITE,
        ),
        (Rights::all(), Rights::empty()),
        (Rights::all() - Rights::REMOTE_ATOMIC, Rights::REMOTE_ATOMIC),
        (Rights::empty(), Rights::all()),
    ] {
        let region = register(&table, &buffer, rights);
        let checked = |offset, need| {
            let target = at(region.stag(), &buffer, offset);
            let span = table.check(target, AtomicOp::LEN, need, stream(1));
            span.map(|span| span.len())
        };
        if rights.contains(Rights::REMOTE_ATOMIC) {
            assert_eq!(checked(0, Access::Atomic), Ok(8));
            assert_eq!(checked(56, Access::Atomic), Ok(8));
            assert_eq!(checked(57, Access::Atomic), Err(AccessError::Bounds));
        } else {
            assert_eq!(checked(0, Access::Atomic), Err(AccessError::Rights));
        }
        for (need, right) in [
            (Access::RemoteRead, Rights::REMOTE_READ),
            (Access::RemoteWrite, Rights::REMOTE_WRITE),
        ] {
            assert_eq!(checked(0, need).is_ok(), !other.contains(right));
        }
    }
    let region = register(&table, &buffer, Rights::all());
    for (read, write, atomic) in [
        (true, false, false),
        (true, true, false),
        (false, false, true),
        (true, true, true),
    ] {
        let rights = RemoteRights {
            read,
            write,
            atomic,
        };
        let window = table.create_window(PD).unwrap();
        let bind = window
            .prepare(&region, region.base() + 8, 16, rights)
            .unwrap();
        table.bind(&bind, stream(1)).unwrap();
        let checked = |offset, who| {
            let target = at(bind.stag, &buffer, offset);
            table.check(target, AtomicOp::LEN, Access::Atomic, who)
        };
        assert_eq!(checked(8, stream(2)), Err(AccessError::NotAssociated));
        if atomic {
            assert_eq!(checked(8, stream(1)).map(|span| span.len()), Ok(8));
            assert_eq!(checked(20, stream(1)), Err(AccessError::Bounds));
            let before = word(&buffer, 8);
            change(
                &table,
                at(bind.stag, &buffer, 8),
                AtomicOp::add(3),
                stream(1),
            )
            .unwrap();
            assert_eq!(word(&buffer, 8), before + 3);
        } else {
            assert_eq!(checked(8, stream(1)), Err(AccessError::Rights));
        }
    }
}

/// RDMAPX-010: the address of the word counts, not its offset in a region or window. Other memory is not touched.
#[test]
fn rdmapx_010_alignment_is_that_of_the_memory() {
    let table = Table::new();
    let whole = Buffer::new(64);
    let view = whole.slice(4..60);
    let region = register(&table, &view, ATOMIC);
    assert!(whole.address().is_multiple_of(8));
    for offset in 0..=48 {
        let target = at(region.stag(), &view, offset);
        let done = change(&table, target, AtomicOp::add(1), stream(1));
        if (offset + 4).is_multiple_of(8) {
            assert_eq!(done, Ok(0), "offset {offset}");
        } else {
            assert_eq!(done, Err(AtomicError::Misaligned), "offset {offset}");
        }
    }
    let words: Vec<u64> = (0..8).map(|at| word(&whole, 8 * at)).collect();
    assert_eq!(words, [0, 1, 1, 1, 1, 1, 1, 0]);
}

/// RDMAPX-019, RDMAPX-020: the old value comes back, a comparison that fails changes nothing.
#[test]
fn rdmapx_020_what_is_returned_is_what_was_there() {
    let table = Table::new();
    let buffer = Buffer::new(8);
    let region = register(&table, &buffer, ATOMIC);
    let target = at(region.stag(), &buffer, 0);
    let mut value = 0x0123_4567_89ab_cdefu64;
    buffer.write(0, &value.to_ne_bytes());
    for op in [
        AtomicOp::add(0), // RDMAPX-021
        AtomicOp::add(u64::MAX),
        AtomicOp::compare_swap(1, 2),
        AtomicOp::compare_swap(0x0123_4567_89ab_cdee, 9),
        AtomicOp::CompareSwap {
            compare: 0,
            compare_mask: 0,
            swap: u64::MAX,
            swap_mask: 0xff00,
        },
        AtomicOp::FetchAdd {
            add: u64::MAX,
            mask: 0x8080_8080_8080_8080,
        },
    ] {
        assert_eq!(change(&table, target, op, stream(1)), Ok(value));
        value = op.apply(value);
        assert_eq!(word(&buffer, 0), value);
    }
}

/// MR-034: no octet is touched once the memory is gone.
#[test]
fn memory_that_has_gone_is_not_changed() {
    let table = Table::new();
    let buffer = Buffer::new(8);
    let region = register(&table, &buffer, ATOMIC);
    let target = at(region.stag(), &buffer, 0);
    let span = table.check(target, AtomicOp::LEN, Access::Atomic, stream(1));
    region.deregister().unwrap();
    let done = table.atomic(span.unwrap(), AtomicOp::add(1));
    assert_eq!(done, Err(AtomicError::Revoked));
    assert_eq!(word(&buffer, 0), 0);
}

/// RDMAPX-015: Atomics of several streams, over two tables, while Writes change the neighbouring octets: none is lost,
/// and no two find the same value.
#[test]
fn rdmapx_015_nothing_comes_between() {
    let rounds = if cfg!(miri) { 20 } else { 5_000u64 };
    for backend in [Backend::Words, Backend::Bulk] {
        let buffer = Buffer::new(2048);
        let tables =
            [0, 1].map(|_| Table::with_options(&TableOptions::default().backend(backend)).unwrap());
        let regions = tables
            .each_ref()
            .map(|table| register(table, &buffer, Rights::all()));
        let target = |index: usize| at(regions[index].stag(), &buffer, 1016);
        let found = std::thread::scope(|scope| {
            let adders: Vec<_> = (0..4)
                .map(|id: u32| {
                    let (table, target) = (&tables[id as usize % 2], target(id as usize % 2));
                    scope.spawn(move || {
                        let add = || change(table, target, AtomicOp::add(1), stream(id));
                        (0..rounds).map(|_| add().unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            let (table, region) = (&tables[0], &regions[0]);
            let neighbours = [(0, 1016), (1024, 1000)];
            for (from, len) in neighbours {
                let place = at(region.stag(), &buffer, from);
                let span = table.check(place, len, Access::RemoteWrite, stream(9));
                let octets = vec![0xaa; len as usize];
                scope.spawn(move || {
                    for _ in 0..rounds / 10 {
                        table
                            .place(span.unwrap(), &octets, MessageEnd::Last)
                            .unwrap();
                    }
                });
            }
            let found = adders.into_iter().map(|adder| adder.join().unwrap());
            found.collect::<Vec<_>>()
        });
        // Each thread finds rising values, and all of them together each value once.
        assert!(found.iter().all(|one| one.is_sorted_by(|a, b| a < b)));
        let mut all: Vec<u64> = found.concat();
        all.sort_unstable();
        assert_eq!(all, (0..4 * rounds).collect::<Vec<_>>());
        assert_eq!(word(&buffer, 1016), 4 * rounds);
        assert_eq!(buffer.slice(0..1016).to_vec(), [0xaa; 1016]);
    }
}

/// RDMAPX-020: a lock made of comparisons and exchanges lets one stream in at a time.
#[test]
fn compare_swap_makes_a_lock() {
    let rounds = if cfg!(miri) { 5 } else { 500 };
    let table = Table::new();
    let buffer = Buffer::new(16);
    let region = register(&table, &buffer, Rights::all());
    let (lock, counter) = (at(region.stag(), &buffer, 0), at(region.stag(), &buffer, 8));
    std::thread::scope(|scope| {
        for id in 1..=3u32 {
            let (table, buffer) = (&table, &buffer);
            scope.spawn(move || {
                let swap = |from, to| {
                    change(table, lock, AtomicOp::compare_swap(from, to), stream(id)).unwrap()
                };
                for _ in 0..rounds {
                    while swap(0, id.into()) != 0 {
                        std::thread::yield_now();
                    }
                    // Not atomic by itself: read, then written through the table.
                    let next = word(buffer, 8) + 1;
                    let span = table.check(counter, 8, Access::RemoteWrite, stream(id));
                    table
                        .place(span.unwrap(), &next.to_ne_bytes(), MessageEnd::Last)
                        .unwrap();
                    assert_eq!(swap(id.into(), 0), u64::from(id), "still ours");
                }
            });
        }
    });
    assert_eq!(word(&buffer, 8), 3 * rounds);
}
