//! The accesses that the table allows, those that it refuses, and the reasons.

use iwarp::{
    Access, AccessError, BindError, Crc, InvalidateError, LocalAccess, Memory, MessageEnd, Pd,
    RemoteAddress, RemoteRights, Revoked, STag, Scope, Sge, Span, StreamId, crc32c,
};
use iwarp_mem::{Backend, RegisterError, Registration, Rights, Table, TableOptions, Window};
use rdma_buffer::Buffer;
use std::collections::HashSet;
use std::sync::{Arc, Barrier, Mutex};

pub(super) const PD: Pd = Pd(1);
pub(super) const WHO: Scope = Scope {
    pd: PD,
    stream: StreamId(10),
};
pub(super) const OTHER_STREAM: Scope = Scope {
    pd: PD,
    stream: StreamId(11),
};
pub(super) const OTHER_PD: Scope = Scope {
    pd: Pd(2),
    stream: StreamId(10),
};
pub(super) const NEEDS: [Access; 2] = [Access::RemoteRead, Access::RemoteWrite];

pub(super) fn register(table: &Table, len: usize, rights: Rights) -> (Buffer, Registration) {
    let buffer = Buffer::new(len);
    let region = table.register(&buffer, rights, PD).unwrap();
    (buffer, region)
}

pub(super) fn remote(region: &Registration, at: u64) -> RemoteAddress {
    RemoteAddress {
        stag: region.stag(),
        to: region.base().wrapping_add(at),
    }
}

pub(super) fn local(region: &Registration, at: u64, length: u32) -> Sge {
    Sge {
        token: region.stag(),
        address: region.base().wrapping_add(at),
        length,
    }
}

pub(super) fn bound(
    table: &Table,
    region: &Registration,
    at: u64,
    length: u64,
    read: bool,
    write: bool,
) -> (Window, STag) {
    let window = table.create_window(PD).unwrap();
    let bind = window
        .prepare(
            region,
            region.base() + at,
            length,
            RemoteRights::with_both(read, write),
        )
        .unwrap();
    table.bind(&bind, WHO).unwrap();
    (window, bind.stag)
}

/// IW-044, SEC-006: a region is open to peers only as far as its remote flags go, each by itself.
#[test]
fn regions_open_only_what_their_flags_say() {
    let table = Table::new();
    for bits in 0..16 {
        let rights = Rights::from_bits_truncate(bits);
        let (_buffer, region) = register(&table, 64, rights);
        for (need, right) in NEEDS
            .into_iter()
            .zip([Rights::REMOTE_READ, Rights::REMOTE_WRITE])
        {
            let got = table.check(remote(&region, 0), 64, need, WHO);
            let expected = if rights.contains(right) {
                None
            } else {
                Some(AccessError::Rights)
            };
            assert_eq!(got.err(), expected, "{rights:?} {need:?}");
        }
        let allowed = |need| table.check_local(local(&region, 0, 64), need, PD).is_ok();
        assert!(allowed(LocalAccess::Read), "MR-019");
        assert_eq!(
            allowed(LocalAccess::Write),
            rights.contains(Rights::LOCAL_WRITE),
            "MR-013, AMB-014"
        );
        let sink = Rights::LOCAL_WRITE | Rights::READ_SINK | Rights::REMOTE_WRITE;
        assert_eq!(
            allowed(LocalAccess::ReadSink),
            rights.intersects(sink),
            "AMB-015, AMB-016"
        );
    }
}

/// AMB-015, AMB-071: each lenient sink is counted, and the strict table has none.
#[test]
fn lenient_sinks_are_counted_or_refused() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let telling = || {
        let reported = Arc::clone(&reported);
        TableOptions::default().on_lenient_sink(move |stag| reported.lock().unwrap().push(stag))
    };
    let (lenient, strict) = (
        Table::with_options(&telling()).unwrap(),
        Table::with_options(&telling().strict_sinks(true)).unwrap(),
    );
    let mut first = None;
    for (table, expected, count) in [(&lenient, None, 2), (&strict, Some(AccessError::Rights), 0)] {
        let (_a, only_local) = register(table, 8, Rights::LOCAL_WRITE);
        first = first.or(Some(only_local.stag()));
        for _ in 0..2 {
            let got = table.check_local(local(&only_local, 0, 8), LocalAccess::ReadSink, PD);
            assert_eq!(got.err(), expected);
        }
        for rights in [Rights::READ_SINK, Rights::REMOTE_WRITE, Rights::all()] {
            let (_b, region) = register(table, 8, rights);
            table
                .check_local(local(&region, 0, 8), LocalAccess::ReadSink, PD)
                .unwrap();
        }
        assert_eq!(table.lenient_sinks(), count);
    }
    assert_eq!(
        *reported.lock().unwrap(),
        [first.unwrap()],
        "told once, of the first"
    );
}

/// The order of the checks, where several fail: STag, scope, rights, wrap, bounds.
#[test]
fn first_fault_is_reported() {
    let table = Table::new();
    let (_buffer, region) = register(&table, 64, Rights::REMOTE_READ);
    let far = RemoteAddress {
        stag: region.stag(),
        to: u64::MAX,
    };
    let check = |stag, need, who| {
        table
            .check(RemoteAddress { stag, ..far }, 2, need, who)
            .unwrap_err()
    };
    let wrong = STag(region.stag().0 ^ 1);
    assert_eq!(
        check(wrong, Access::RemoteWrite, OTHER_PD),
        AccessError::InvalidSTag
    );
    assert_eq!(
        check(region.stag(), Access::RemoteWrite, OTHER_PD),
        AccessError::NotAssociated,
        "SEC-001"
    );
    assert_eq!(
        check(region.stag(), Access::RemoteWrite, WHO),
        AccessError::Rights
    );
    assert_eq!(
        check(region.stag(), Access::RemoteRead, WHO),
        AccessError::Wrap,
        "DDP-069"
    );
    let near = RemoteAddress {
        to: u64::MAX - 2,
        ..far
    };
    assert_eq!(
        table.check(near, 2, Access::RemoteRead, WHO),
        Err(AccessError::Bounds)
    );

    let sge = Sge {
        token: region.stag(),
        address: u64::MAX,
        length: 2,
    };
    let check = |token, need, pd| {
        table
            .check_local(Sge { token, ..sge }, need, pd)
            .unwrap_err()
    };
    assert_eq!(
        check(wrong, LocalAccess::Write, Pd(2)),
        AccessError::InvalidSTag
    );
    assert_eq!(
        check(region.stag(), LocalAccess::Write, Pd(2)),
        AccessError::NotAssociated
    );
    assert_eq!(
        check(region.stag(), LocalAccess::Write, PD),
        AccessError::Rights
    );
    assert_eq!(
        check(region.stag(), LocalAccess::Read, PD),
        AccessError::Wrap
    );
}

/// SEC-004: octet granularity at both ends, own and sliced buffers alike.
#[test]
pub(crate) fn bounds_are_exact() {
    let table = Table::new();
    let whole = Buffer::new(200);
    let slice = whole.slice(13..113);
    let region = table.register(&slice, Rights::all(), PD).unwrap();
    assert_eq!((region.base(), region.len()), (whole.address() + 13, 100));
    for from in 0..110_u32 {
        for len in [1, 2, 99, 100, 101, u32::MAX] {
            let inside = from.checked_add(len).is_some_and(|end| end <= 100);
            let expected = if inside {
                None
            } else {
                Some(AccessError::Bounds)
            };
            let got = table.check(
                remote(&region, u64::from(from)),
                len,
                Access::RemoteWrite,
                WHO,
            );
            assert_eq!(got.err(), expected, "{from} {len}");
            assert_eq!(
                got,
                table.check_local(local(&region, u64::from(from), len), LocalAccess::Write, PD)
            );
        }
    }
    let before = remote(&region, u64::MAX);
    assert_eq!(
        table.check(before, 1, Access::RemoteRead, WHO),
        Err(AccessError::Bounds)
    );
    assert_eq!(
        table.check(before, 50, Access::RemoteRead, WHO),
        Err(AccessError::Bounds)
    );
    // The engine never checks lengths of zero, but the table has an answer for them.
    assert!(
        table
            .check(remote(&region, 100), 0, Access::RemoteRead, WHO)
            .is_ok()
    );
    assert!(
        table
            .check(remote(&region, 101), 0, Access::RemoteRead, WHO)
            .is_err()
    );
}

/// `ibv_reg_mr_iova`: peers, local requests, windows and Atomics count from the offset that the registration names, and the octets are
/// those of the buffer. The same buffer keeps its addresses in another registration.
#[test]
fn tagged_offsets_begin_where_the_registration_says() {
    let table = Table::new();
    let buffer = Buffer::new(64);
    let by_address = table.register(&buffer, Rights::all(), PD).unwrap();
    assert_eq!(by_address.base(), buffer.address());
    for first in [0, 1, 0x1_0000_0003, u64::MAX - 64] {
        let region = table
            .register_at(&buffer, first, Rights::all(), PD)
            .unwrap();
        assert_eq!((region.base(), region.len()), (first, 64));
        let span = table
            .check(remote(&region, 10), 3, Access::RemoteWrite, WHO)
            .unwrap();
        table.place(span, b"abc", MessageEnd::Last).unwrap();
        assert_eq!(buffer.slice(9..14).to_vec(), b"\0abc\0");
        let mut back = [0; 3];
        table
            .pinned()
            .fetch_local(local(&region, 10, 3), PD, &mut back, None)
            .unwrap();
        assert_eq!(&back, b"abc");
        for (at, len) in [(u64::MAX, 1), (0, 65), (64, 1)] {
            let refused = |result: Result<Span, AccessError>| {
                matches!(result, Err(AccessError::Bounds | AccessError::Wrap))
            };
            let place = remote(&region, at);
            assert!(refused(table.check(place, len, Access::RemoteRead, WHO)));
            let sge = local(&region, at, len);
            assert!(refused(table.check_local(sge, LocalAccess::Read, PD)));
        }

        let (window, stag) = bound(&table, &region, 8, 16, true, true);
        let at = |at: u64| RemoteAddress {
            stag,
            to: first + at,
        };
        let inside = table.check(at(10), 14, Access::RemoteRead, WHO).unwrap();
        let mut back = [0; 14];
        table.fetch(inside, &mut back, None).unwrap();
        assert_eq!(&back[..4], b"abc\0");
        for (from, len) in [(7, 1), (8, 17), (24, 1)] {
            let outside = table.check(at(from), len, Access::RemoteRead, WHO);
            assert_eq!(outside, Err(AccessError::Bounds));
        }
        // The address of the memory is no offset of this region.
        let address = by_address.base() + 10;
        let by_address = Sge {
            token: region.stag(),
            address,
            length: 1,
        };
        let refused = table.check_local(by_address, LocalAccess::Read, PD);
        assert_eq!(refused, Err(AccessError::Bounds), "{first:#x}");
        let outside = window.prepare(&region, address, 1, RemoteRights::with_both(true, false));
        assert_eq!(outside.err(), Some(BindError::Access));
        drop(window);
        region.deregister().unwrap();
        buffer.fill(0);
    }
}

/// Accesses do not wrap, so `first` plus the length is below 2^64.
#[test]
fn registrations_that_wrap_are_refused() {
    let table = Table::new();
    let buffer = Buffer::new(64);
    for (first, len) in [(u64::MAX, 1), (u64::MAX - 63, 64), (u64::MAX, 64)] {
        let refused = table.register_at(&buffer.slice(..len), first, Rights::all(), PD);
        assert_eq!(
            refused.err(),
            Some(RegisterError::Wraps),
            "{first:#x} {len}"
        );
    }
    let last = table.register_at(&buffer, u64::MAX - 64, Rights::all(), PD);
    let last = last.unwrap();
    assert!(
        table
            .check(remote(&last, 63), 1, Access::RemoteRead, WHO)
            .is_ok()
    );
    let none = table.register_at(&buffer.slice(..0), u64::MAX, Rights::all(), PD);
    assert!(none.unwrap().is_empty());
}

/// STags that were never issued, those of the ready-to-receive message among them, name nothing.
#[test]
fn unissued_stags_are_invalid() {
    let table = Table::new();
    let regions: Vec<_> = (0..20)
        .map(|_| register(&table, 8, Rights::all()))
        .collect();
    let issued: HashSet<_> = regions.iter().map(|(_, region)| region.stag()).collect();
    let near = issued.iter().flat_map(|stag| {
        [
            stag.0 ^ 1,
            stag.0 ^ 0x80,
            stag.0 ^ 0x100,
            stag.0 ^ 0x8000_0000,
        ]
    });
    for stag in near
        .chain([0, 1, 0xff, u32::MAX])
        .map(STag)
        .filter(|stag| !issued.contains(stag))
    {
        let got = table.check(RemoteAddress { stag, to: 0 }, 1, Access::RemoteRead, WHO);
        assert_eq!(got, Err(AccessError::InvalidSTag), "{stag}");
        assert_eq!(
            table.invalidate_remote(stag, WHO),
            Err(InvalidateError::Unknown)
        );
        table.cancel_prepared(stag);
    }
}

/// The octets and the CRC are those of the copy, whatever the length and the backend.
#[test]
fn fetch_sums_what_it_copied() {
    for backend in [Backend::Words, Backend::Bulk] {
        let table = Table::with_options(&TableOptions::default().backend(backend)).unwrap();
        let (buffer, region) = register(&table, 40_000, Rights::REMOTE_READ);
        let octets: Vec<u8> = (0..251).cycle().take(40_000).collect();
        buffer.write(0, &octets);
        for (at, len) in [(0, 1), (5, 511), (3, 16_384), (1, 16_385), (7, 39_993)] {
            let range = usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
            let span = table
                .check(
                    remote(&region, at),
                    u32::try_from(len).unwrap(),
                    Access::RemoteRead,
                    WHO,
                )
                .unwrap();
            let (mut dst, mut crc) = (vec![0; range.len()], Crc::new());
            table.fetch(span, &mut dst, Some(&mut crc)).unwrap();
            assert!(dst == octets[range]);
            assert_eq!(crc.finish(), crc32c(&dst), "{backend:?} {at} {len}");
        }
    }
}

/// A span made up by hand gives no access beyond its slot.
#[test]
fn forged_spans_are_revoked() {
    let table = Table::new();
    let (_buffer, region) = register(&table, 64, Rights::all());
    let real = table
        .check(remote(&region, 0), 64, Access::RemoteRead, WHO)
        .unwrap();
    let forge = |slot, key, epoch, offset| Span::new(slot, key, epoch, offset, 8);
    let (slot, key, epoch) = (real.slot(), real.key(), real.epoch());
    assert!(
        table
            .fetch(forge(slot, key, epoch, 56), &mut [0; 8], None)
            .is_ok()
    );
    for span in [
        forge(slot, key, epoch, 57),
        forge(slot, key, epoch, u64::MAX),
        forge(slot, key, epoch.wrapping_add(1), 0),
        forge(slot, key ^ 1, epoch, 0),
        forge(slot + 1, key, epoch, 0),
        forge(u32::MAX, key, epoch, 0),
    ] {
        assert_eq!(
            table.fetch(span, &mut [0; 8], None),
            Err(Revoked),
            "{span:?}"
        );
        assert_eq!(
            table.place(span, &[0; 8], MessageEnd::Last),
            Err(Revoked),
            "{span:?}"
        );
    }
}

/// MR-034: after Deregister neither the STag nor a span of it gives access to the buffer, even if the slot is used again.
#[test]
fn deregistered_memory_is_out_of_reach() {
    // One slot, so that it is used again at once.
    let table = Table::with_options(&TableOptions::default().capacity(1).seed(1)).unwrap();
    let mut stale = Vec::new();
    for _ in 0..100 {
        let (buffer, region) = register(&table, 64, Rights::all());
        for (at, span) in &stale {
            assert_eq!(
                table.check(*at, 8, Access::RemoteWrite, WHO),
                Err(AccessError::InvalidSTag)
            );
            assert_eq!(
                table.place(*span, &[0xaa; 8], MessageEnd::Last),
                Err(Revoked)
            );
        }
        assert_eq!(buffer.to_vec(), [0; 64]);
        let at = remote(&region, 8);
        stale.push((at, table.check(at, 8, Access::RemoteWrite, WHO).unwrap()));
        assert!(
            matches!(
                table.register(&buffer, Rights::all(), PD),
                Err(RegisterError::Full)
            ),
            "MR-008"
        );
        region.deregister().unwrap();
    }
}

/// TST-091: ten thousand regions at once on one buffer, by several threads; every STag is its own.
#[test]
fn ten_thousand_regions_per_thread() {
    let (threads, each) = if cfg!(miri) { (2, 20) } else { (3, 10_000) };
    let (table, buffer, barrier) = (Table::new(), Buffer::new(4096), Barrier::new(threads));
    let one = || {
        let regions: Vec<_> = (0..each)
            .map(|_| table.register(&buffer, Rights::REMOTE_READ, PD).unwrap())
            .collect();
        barrier.wait();
        for region in &regions {
            assert!(
                table
                    .check(remote(region, 5), 4000, Access::RemoteRead, WHO)
                    .is_ok()
            );
        }
        let stags: Vec<_> = regions.iter().map(Registration::stag).collect();
        barrier.wait();
        for region in regions {
            region.deregister().unwrap();
        }
        stags
    };
    let all: Vec<STag> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), threads * each);
    for stag in all {
        let at = RemoteAddress {
            stag,
            to: buffer.address(),
        };
        assert_eq!(
            table.check(at, 1, Access::RemoteRead, WHO),
            Err(AccessError::InvalidSTag)
        );
    }
}

/// SEC-008, SEC-009: STags issued one after the other, and for one buffer again and again, have no simple relation.
#[test]
fn stags_do_not_follow_from_each_other() {
    let count = if cfg!(miri) { 50 } else { 3 * 4096 };
    // A fixed seed, so that chance does not fail the test.
    let table = Table::with_options(&TableOptions::default().seed(7)).unwrap();
    let buffer = Buffer::new(8);
    let again: Vec<u32> = (0..count)
        .map(|_| table.register(&buffer, Rights::all(), PD).unwrap().stag().0)
        .collect();
    let held: Vec<_> = (0..count)
        .map(|_| table.register(&buffer, Rights::all(), PD).unwrap())
        .collect();
    let held: Vec<u32> = held.iter().map(|region| region.stag().0).collect();
    for stags in [again, held] {
        let distinct =
            |values: Vec<u32>| values.iter().collect::<HashSet<_>>().len() * 100 / values.len();
        assert_eq!(distinct(stags.clone()), 100);
        let pairs = || stags.windows(2).map(|two| (two[0], two[1]));
        assert!(distinct(pairs().map(|(a, b)| b.wrapping_sub(a) >> 8).collect()) >= 97);
        assert!(distinct(pairs().map(|(a, b)| (a ^ b) >> 8).collect()) >= 97);
        assert!(
            distinct(stags.iter().map(|stag| stag >> 12).collect())
                >= if cfg!(miri) { 90 } else { 97 } - 2
        );
        assert!(stags.iter().all(|stag| stag >> 8 != 0));
    }
}

/// The application's own memory: octets next to the buffer are not touched.
#[test]
fn foreign_memory() {
    let mut memory = [0x55_u8; 64];
    // SAFETY: `memory` outlives the buffer and its registration, and is not touched until both are gone.
    let buffer = unsafe { Buffer::from_raw_parts(memory.as_mut_ptr().wrapping_add(5), 50) };
    let table = Table::new();
    let region = table.register(&buffer, Rights::all(), PD).unwrap();
    let span = table
        .check(remote(&region, 0), 50, Access::RemoteWrite, WHO)
        .unwrap();
    table.place(span, &[0xaa; 50], MessageEnd::Last).unwrap();
    table
        .place(span.slice(3, 6), b"inside", MessageEnd::Last)
        .unwrap();
    let mut back = [0; 6];
    table.fetch(span.slice(3, 6), &mut back, None).unwrap();
    assert_eq!(&back, b"inside");
    drop((region, buffer));
    let mut expected = [0x55; 64];
    expected[5..55].fill(0xaa);
    expected[8..14].copy_from_slice(b"inside");
    assert_eq!(memory, expected);
}

/// Two protection domains of one table: memory, windows and local requests of one do not work in the other (SEC-001). The order of the checks
/// is that of `first_fault_is_reported`.
#[test]
fn domains_of_one_table_are_apart() {
    let table = Table::new();
    let domains = [(); 2].map(|()| table.create_pd().unwrap());
    let buffer = Buffer::new(64);
    let [here, there] = domains.each_ref().map(|domain| {
        let region = table.register(&buffer, Rights::all(), domain.pd());
        (domain.pd(), region.unwrap())
    });
    let sge = |region: &Registration| local(region, 0, 64);
    for (own, other) in [(&here, &there), (&there, &here)] {
        let who = Scope {
            pd: own.0,
            stream: StreamId(10),
        };
        for need in NEEDS.into_iter().chain([Access::Atomic]) {
            assert!(table.check(remote(&own.1, 0), 64, need, who).is_ok());
            assert_eq!(
                table.check(remote(&other.1, 0), 64, need, who),
                Err(AccessError::NotAssociated)
            );
        }
        // An lkey of the other domain, for every use that a local request has for it, in a call of the engine as well.
        let call = table.pinned();
        for need in [LocalAccess::Read, LocalAccess::Write, LocalAccess::ReadSink] {
            assert!(table.check_local(sge(&own.1), need, own.0).is_ok());
            let refused = Err(AccessError::NotAssociated);
            assert_eq!(table.check_local(sge(&other.1), need, own.0), refused);
            assert_eq!(call.check_local(sge(&other.1), need, own.0), refused);
        }
        let refused = Err(AccessError::NotAssociated);
        assert_eq!(call.place_local(sge(&other.1), own.0, &[1; 64]), refused);
        let mut back = [0; 64];
        let fetched = call.fetch_local(sge(&other.1), own.0, &mut back, None);
        assert_eq!(fetched, refused);
        drop(call);
        assert_eq!(buffer.to_vec(), [0; 64]);

        // A window belongs to its domain, and is bound to regions of its domain, by queue pairs of its domain.
        let window = table.create_window(own.0).unwrap();
        let base = other.1.base();
        let foreign = window.prepare(&other.1, base, 8, RemoteRights::with_both(true, true));
        assert_eq!(foreign.err(), Some(BindError::Access), "MW-004");
        let bind = window
            .prepare(&own.1, base, 8, RemoteRights::with_both(true, true))
            .unwrap();
        let elsewhere = Scope { pd: other.0, ..who };
        assert_eq!(table.bind(&bind, elsewhere), Err(BindError::Access));
        table.bind(&bind, who).unwrap();
        let at = RemoteAddress {
            stag: bind.stag,
            to: base,
        };
        assert!(table.check(at, 8, Access::RemoteRead, who).is_ok());
        assert_eq!(
            table.check(at, 8, Access::RemoteRead, elsewhere),
            Err(AccessError::NotAssociated)
        );
        assert_eq!(
            table.invalidate_remote(bind.stag, elsewhere),
            Err(InvalidateError::NotAllowed)
        );
        assert_eq!(
            table.unbind(window.id(), elsewhere),
            Err(BindError::InvalidState)
        );
        assert_eq!(table.unbind(window.id(), who), Ok(()));
    }
}

/// A Receive, and with strict sinks a Read, needs the right to write locally, which no remote right implies.
#[test]
fn sinks_without_a_right_are_refused() {
    let table = Table::with_options(&TableOptions::default().strict_sinks(true)).unwrap();
    let none = Rights::REMOTE_READ;
    let (buffer, region) = register(&table, 64, none | Rights::REMOTE_WRITE | Rights::READ_SINK);
    let (_other, readable) = register(&table, 64, none);
    let refused = Err(AccessError::Rights);
    assert_eq!(
        table.check_local(local(&region, 0, 8), LocalAccess::Write, PD),
        refused
    );
    assert_eq!(
        table
            .pinned()
            .place_local(local(&region, 0, 8), PD, &[1; 8]),
        Err(AccessError::Rights)
    );
    assert_eq!(buffer.to_vec(), [0; 64]);
    assert_eq!(
        table.check_local(local(&readable, 0, 8), LocalAccess::ReadSink, PD),
        refused
    );
    let sink = table.check_local(local(&region, 0, 8), LocalAccess::ReadSink, PD);
    assert!(sink.is_ok());
}

/// Registrations of a C program may overlap at any alignment. Each has its own STag and rights, and all of them are the same octets.
#[test]
fn registrations_in_pages_overlap() {
    let mut memory = vec![0x55_u8; 2 * Buffer::PAGE];
    let front = memory.as_ptr().addr().wrapping_neg() % Buffer::PAGE;
    let start = memory.as_mut_ptr().wrapping_add(front);
    for backend in [Backend::Words, Backend::Bulk] {
        let table = Table::with_options(&TableOptions::default().backend(backend)).unwrap();
        let regions = [(3, 1000, Rights::all()), (13, 7, Rights::REMOTE_READ)];
        let [whole, part] = regions.map(|(from, len, rights)| {
            // SAFETY: `memory` outlives the buffers and their registrations, and is not touched until they are gone.
            let buffer = unsafe { Buffer::from_pages(start.wrapping_add(from), len) };
            table.register(&buffer, rights, PD).unwrap()
        });
        let all = table.check(remote(&whole, 0), 1000, Access::RemoteWrite, WHO);
        let all = all.unwrap();
        table.place(all, &[0xaa; 1000], MessageEnd::Last).unwrap();
        table
            .place(all.slice(11, 5), b"12345", MessageEnd::Last)
            .unwrap();
        assert_eq!(
            table.check(remote(&part, 0), 7, Access::RemoteWrite, WHO),
            Err(AccessError::Rights)
        );
        let read = table.check(remote(&part, 0), 7, Access::RemoteRead, WHO);
        let mut back = [0; 7];
        table.fetch(read.unwrap(), &mut back, None).unwrap();
        assert_eq!(&back, b"\xaa12345\xaa");
    }
    let mut expected = vec![0x55; Buffer::PAGE];
    expected[3..1003].fill(0xaa);
    expected[14..19].copy_from_slice(b"12345");
    assert_eq!(memory[front..][..Buffer::PAGE], expected);
}

/// Where a copy would be slow is said of the memory's own address, and of no memory that is gone.
#[test]
fn slow_places_are_known_by_their_address() {
    let table = Table::new();
    let buffer = Buffer::new(3 * Buffer::PAGE);
    let front = buffer.as_ptr().addr().wrapping_neg() % Buffer::PAGE;
    for offset in [0, 16, 1024, 4080] {
        let memory = buffer.slice(front + offset..front + offset + Buffer::PAGE);
        let region = table.register(&memory, Rights::all(), PD).unwrap();
        let at = local(&region, 0, 4096);
        let span = table.check_local(at, LocalAccess::Read, PD).unwrap();
        for further in [0, 100, 3000] {
            let place = offset + further;
            let span = span.slice(u32::try_from(further).unwrap(), 1000);
            // From the place to one that is 20 octets behind it, and to one that is half a page away; and the other way round.
            assert!(table.is_slow_in_place(span, place + 20));
            assert!(!table.is_slow_in_place(span, place + 2048));
            assert!(table.is_slow_target(span, place + 4096 - 20));
            assert!(!table.is_slow_target(span, place + 2048));
        }
        region.deregister().unwrap();
        assert!(!table.is_slow_in_place(span, offset + 20));
        assert!(!table.is_slow_target(span, offset));
    }
}
