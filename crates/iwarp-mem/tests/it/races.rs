//! Threads race with each other: memory that is gone is not touched, and memory that is there is whole.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use iwarp::{
    Access, AccessError, Memory, MessageEnd, Pd, RemoteAddress, RemoteRights, STag, Scope, Span,
    StreamId,
};
use iwarp_mem::{Backend, Registration, Rights, Table, TableOptions};
use rdma_buffer::Buffer;

const PD: Pd = Pd(1);
const WHO: Scope = Scope {
    pd: PD,
    stream: StreamId(1),
};
const BACKENDS: [Backend; 2] = [Backend::Words, Backend::Bulk];

fn table(backend: Backend) -> Table {
    Table::with_options(&TableOptions::default().backend(backend)).unwrap()
}

fn rounds(usual: u32) -> u32 {
    if cfg!(miri) { 5 } else { usual }
}

/// Checks a stretch of the STag again and again and places octets there, until it is refused; and once more with the
/// span it had last.
fn place_until_refused(table: &Table, at: RemoteAddress, octets: &[u8], placed: &AtomicU32) {
    let len = u32::try_from(octets.len()).unwrap();
    let mut last: Option<Span> = None;
    loop {
        let span = match (table.check(at, len, Access::RemoteWrite, WHO), last) {
            (Ok(span), _) | (Err(_), Some(span)) => span,
            (Err(_), None) => return,
        };
        last = Some(span);
        if table.place(span, octets, MessageEnd::Last).is_err() {
            return;
        }
        placed.fetch_add(1, Ordering::Release);
    }
}

/// As [`place_until_refused`], several times in each call of the engine.
fn place_in_calls(table: &Table, at: RemoteAddress, octets: &[u8], placed: &AtomicU32) {
    let len = u32::try_from(octets.len()).unwrap();
    loop {
        let call = table.pinned();
        for _ in 0..8 {
            let Ok(span) = call.check(at, len, Access::RemoteWrite, WHO) else {
                return;
            };
            if call.place(span, octets, MessageEnd::Last).is_err() {
                return;
            }
            placed.fetch_add(1, Ordering::Release);
        }
    }
}

/// Lets threads place into `buffer` through `stag` while `end` takes it away; the canary that is laid as soon as
/// `end` has returned must live.
fn canary_lives(table: &Table, buffer: &Buffer, stag: STag, end: impl FnOnce()) {
    let placed = AtomicU32::new(0);
    let at = |from: u64| RemoteAddress {
        stag,
        to: buffer.address() + from,
    };
    std::thread::scope(|scope| {
        for (from, len) in [(0, buffer.len()), (3, 100)] {
            let placed = &placed;
            scope.spawn(move || place_until_refused(table, at(from), &vec![0xaa; len], placed));
        }
        scope.spawn(|| place_in_calls(table, at(1), &[0xaa; 64], &placed));
        while placed.load(Ordering::Acquire) < 3 {
            std::thread::yield_now();
        }
        end();
        buffer.fill(0xee);
    });
    assert!(
        buffer.to_vec().iter().all(|octet| *octet == 0xee),
        "touched after it was taken away"
    );
}

/// MR-034, SEC-005: no octet is placed after Deregister has returned.
#[test]
fn deregister_ends_placing() {
    for backend in BACKENDS {
        let table = table(backend);
        for round in 0..rounds(150) {
            let buffer = Buffer::new(2000);
            let region = table.register(&buffer, Rights::REMOTE_WRITE, PD).unwrap();
            canary_lives(&table, &buffer, region.stag(), || match round % 2 {
                0 => region.deregister().unwrap(),
                _ => drop(region),
            });
        }
    }
}

/// MR-034, QP-048: no access after the end of a window, however it ends.
#[test]
fn invalidation_ends_placing() {
    for backend in BACKENDS {
        let table = table(backend);
        for round in 0..rounds(200) {
            let buffer = Buffer::new(2000);
            let region = table.register(&buffer, Rights::LOCAL_WRITE, PD).unwrap();
            let window = table.create_window(PD).unwrap();
            let bind = window
                .prepare(
                    &region,
                    region.base(),
                    region.len(),
                    RemoteRights::with_both(false, true),
                )
                .unwrap();
            table.bind(&bind, WHO).unwrap();
            canary_lives(&table, &buffer, bind.stag, || match round % 4 {
                0 => table.unbind(window.id(), WHO).unwrap(),
                1 => table.invalidate_remote(bind.stag, WHO).unwrap(),
                2 => drop(window),
                _ => drop(region),
            });
        }
    }
}

/// A stream of registrations in some threads disturbs no lookup in others, and slots that are used again do not mix:
/// each thread finds its own octets in its own memory.
#[test]
fn registrations_do_not_mix() {
    // Few slots, so that they are used again at once.
    let options = TableOptions::default().capacity(8);
    let table = Table::with_options(&options).unwrap();
    let others = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let work = |mark: u8| {
        let buffer = Buffer::new(64);
        for _ in 0..rounds(3000) {
            let Ok(region) = table.register(&buffer, Rights::all(), PD) else {
                continue;
            };
            others.store(u64::from(region.stag().0), Ordering::Relaxed);
            let at = RemoteAddress {
                stag: region.stag(),
                to: region.base() + u64::from(mark),
            };
            let span = table.check(at, 8, Access::RemoteWrite, WHO).unwrap();
            table.place(span, &[mark; 8], MessageEnd::Last).unwrap();
            region.deregister().unwrap();
            let mut expected = [0; 64];
            expected[usize::from(mark)..usize::from(mark) + 8].fill(mark);
            assert_eq!(buffer.to_vec(), expected, "another thread's octets");
        }
    };
    // Checks STags of the other threads all the time, at an address outside of every region.
    let look = || {
        while !stop.load(Ordering::Relaxed) {
            let stag = STag(u32::try_from(others.load(Ordering::Relaxed)).unwrap());
            assert!(
                table
                    .check(RemoteAddress { stag, to: 1 }, 8, Access::RemoteWrite, WHO)
                    .is_err()
            );
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(look);
        let workers: Vec<_> = (1..=3)
            .map(|mark| scope.spawn(move || work(mark * 10)))
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(results.into_iter().all(|result| result.is_ok()));
    });
}

/// MR-026: a Bind that is prepared keeps its region from being deregistered, whether or not it has been carried out yet.
#[test]
fn a_bind_is_in_use_before_and_after_its_turn() {
    let table = Table::new();
    for _ in 0..rounds(500) {
        let buffer = Buffer::new(64);
        let region = table.register(&buffer, Rights::all(), PD).unwrap();
        let window = table.create_window(PD).unwrap();
        let bind = window
            .prepare(
                &region,
                region.base(),
                64,
                RemoteRights::with_both(true, true),
            )
            .unwrap();
        let start = Barrier::new(2);
        let (result, ended): (_, Result<(), Registration>) = std::thread::scope(|scope| {
            let binding = scope.spawn(|| {
                start.wait();
                table.bind(&bind, WHO)
            });
            start.wait();
            let ended = region.deregister().map_err(|(region, _)| region);
            (binding.join().unwrap(), ended)
        });
        assert_eq!(result, Ok(()));
        assert!(ended.is_err() && window.is_bound());
    }
}

/// MW-014, MR-028: window and region may be released while the Bind is carried out. Whichever comes first, the Bind succeeds,
/// and the STag names no memory afterwards.
#[test]
fn a_bind_survives_the_release_of_what_it_names() {
    let table = Table::with_options(&TableOptions::default().capacity(20)).unwrap();
    for round in 0..rounds(500) {
        let buffer = Buffer::new(64);
        let region = table.register(&buffer, Rights::all(), PD).unwrap();
        let window = table.create_window(PD).unwrap();
        let (id, base) = (window.id(), region.base());
        let bind = window
            .prepare(&region, base, 64, RemoteRights::with_both(true, true))
            .unwrap();
        let start = Barrier::new(2);
        let (region, window) = if round % 2 == 0 {
            (Some(region), None)
        } else {
            (None, Some(window))
        };
        let released = (region, window);
        std::thread::scope(|scope| {
            let releasing = scope.spawn(|| {
                start.wait();
                drop(released);
            });
            start.wait();
            assert_eq!(table.bind(&bind, WHO), Ok(()));
            releasing.join().unwrap();
        });
        let at = RemoteAddress {
            stag: bind.stag,
            to: base,
        };
        let got = table.check(at, 1, Access::RemoteRead, WHO);
        assert_eq!(got, Err(AccessError::InvalidSTag));
        assert_eq!(
            table.unbind(id, WHO),
            Ok(()),
            "as if it had been queued behind"
        );
    }
}

/// A thread that sees the last octet of a Write sees all of it (ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED). An application
/// spins on its buffer, while messages are placed in pieces of an FPDU's size.
#[test]
fn spinning_on_the_last_octet() {
    for backend in BACKENDS {
        let table = table(backend);
        for (len, piece) in [(40, 16), (5000, 1448), (65_472, 65_472), (100_003, 65_472)] {
            let buffer = Buffer::new(len);
            let region = table.register(&buffer, Rights::REMOTE_WRITE, PD).unwrap();
            let rounds = u8::try_from(rounds(if len < 1000 { 250 } else { 60 })).unwrap();
            let seen = AtomicU32::new(0);
            let early = std::thread::scope(|scope| {
                let application = scope.spawn(|| {
                    let mut early = 0;
                    for round in 1..=rounds {
                        // Spins, and now and then yields to the other thread in case there is no core for both.
                        while !(0..500).any(|_| buffer.load(len - 1) == round) {
                            std::thread::yield_now();
                        }
                        early += u32::from(buffer.to_vec() != vec![round; len]);
                        seen.store(u32::from(round), Ordering::Release);
                    }
                    early
                });
                for round in 1..=rounds {
                    place_in_pieces(&table, &region, &vec![round; len], piece);
                    while seen.load(Ordering::Acquire) < u32::from(round) {
                        std::thread::yield_now();
                    }
                }
                application.join().unwrap()
            });
            assert_eq!(
                early, 0,
                "{backend:?} {len}: octets were seen after the last one"
            );
        }
    }
}

fn place_in_pieces(table: &Table, region: &Registration, octets: &[u8], piece: usize) {
    let mut to = region.base();
    for part in octets.chunks(piece) {
        let len = u32::try_from(part.len()).unwrap();
        let last = to + u64::from(len) == region.base() + octets.len() as u64;
        let end = if last {
            MessageEnd::Last
        } else {
            MessageEnd::More
        };
        let at = RemoteAddress {
            stag: region.stag(),
            to,
        };
        table
            .place(
                table.check(at, len, Access::RemoteWrite, WHO).unwrap(),
                part,
                end,
            )
            .unwrap();
        to += u64::from(len);
    }
}
