//! Memory windows: what they open, to whom, and when.

use iwarp::{
    Access, AccessError, BindError, InvalidateError, LocalAccess, Memory, MessageEnd, Pd,
    RemoteAddress, RemoteRights, Revoked, Sge, WindowId,
};
use iwarp_mem::{Registration, Rights, Table, TableOptions, Window};

use super::table::{NEEDS, OTHER_PD, OTHER_STREAM, PD, WHO, bound, register, remote};

/// MW-006, MW-010, TST-062: a window has the rights of its Bind, for one stream, over its range only.
#[test]
pub(crate) fn windows_open_their_range_to_one_stream() {
    let table = Table::new();
    let (buffer, region) = register(&table, 100, Rights::LOCAL_WRITE | Rights::READ_SINK);
    for (read, write) in [(false, false), (true, false), (false, true), (true, true)] {
        let (_window, stag) = bound(&table, &region, 10, 20, read, write);
        for (need, granted) in NEEDS.into_iter().zip([read, write]) {
            let at = |to| RemoteAddress {
                stag,
                to: buffer.address() + to,
            };
            let expected = if granted {
                None
            } else {
                Some(AccessError::Rights)
            };
            assert_eq!(
                table.check(at(10), 20, need, WHO).err(),
                expected,
                "AMB-010"
            );
            assert_eq!(
                table.check(at(10), 20, need, OTHER_STREAM),
                Err(AccessError::NotAssociated),
                "SEC-002"
            );
            assert_eq!(
                table.check(at(10), 20, need, OTHER_PD),
                Err(AccessError::NotAssociated),
                "SEC-001"
            );
            if granted {
                for (to, len) in [(9, 1), (9, 2), (29, 2), (30, 1), (10, 21)] {
                    assert_eq!(
                        table.check(at(to), len, need, WHO),
                        Err(AccessError::Bounds),
                        "{to} {len}"
                    );
                }
            }
        }
        let sge = Sge {
            token: stag,
            address: buffer.address() + 10,
            length: 1,
        };
        let got = table.check_local(sge, LocalAccess::Read, PD);
        assert_eq!(got, Err(AccessError::InvalidSTag), "no local token");
    }
    let (_window, stag) = bound(&table, &region, 10, 20, false, true);
    let at = RemoteAddress {
        stag,
        to: buffer.address() + 12,
    };
    let span = table.check(at, 5, Access::RemoteWrite, WHO).unwrap();
    table.place(span, b"hello", MessageEnd::Last).unwrap();
    assert_eq!(buffer.slice(12..17).to_vec(), b"hello");
}

/// QP-038, QP-039, MW-004: what a Bind is refused for when it is posted.
#[test]
fn prepare_checks_rights_and_range() {
    let table = Table::new();
    let (_a, writable) = register(&table, 100, Rights::LOCAL_WRITE);
    let (_b, readable) = register(&table, 100, Rights::empty());
    let window = table.create_window(PD).unwrap();
    let prepare = |region: &Registration, at: u64, length, write| {
        let bind = window.prepare(
            region,
            region.base().wrapping_add(at),
            length,
            RemoteRights::with_both(true, write),
        );
        bind.map(|bind| window.cancel(bind.stag))
    };
    assert_eq!(prepare(&writable, 0, 100, true), Ok(()));
    assert_eq!(prepare(&readable, 0, 100, false), Ok(()));
    assert_eq!(
        prepare(&readable, 0, 100, true),
        Err(BindError::Access),
        "QP-038"
    );
    for (at, length) in [
        (0, 101),
        (100, 1),
        (u64::MAX, 1),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(
            prepare(&writable, at, length, false),
            Err(BindError::Access),
            "QP-039: {at} {length}"
        );
    }
    let (_c, elsewhere) = register(&Table::new(), 100, Rights::all());
    assert_eq!(
        prepare(&elsewhere, 0, 100, false),
        Err(BindError::Access),
        "MW-004"
    );
    let other = table.create_window(Pd(2)).unwrap();
    assert_eq!(
        other.prepare(
            &writable,
            writable.base(),
            1,
            RemoteRights::with_both(true, false)
        ),
        Err(BindError::Access),
        "SEC-001"
    );
}

/// MW-001, MW-008, QP-043, QP-044: the STag is known when the Bind is posted and valid when it executes.
#[test]
fn a_bind_takes_effect_at_its_turn() {
    let table = Table::new();
    let (_buffer, region) = register(&table, 100, Rights::LOCAL_WRITE);
    let window = table.create_window(PD).unwrap();
    assert_eq!((window.stag(), window.is_bound()), (None, false), "MW-001");
    let first = window
        .prepare(
            &region,
            region.base(),
            50,
            RemoteRights::with_both(true, true),
        )
        .unwrap();
    assert_eq!(
        (window.stag(), window.is_bound(), region.is_in_use()),
        (Some(first.stag), false, true)
    );
    let at = |stag| RemoteAddress {
        stag,
        to: region.base(),
    };
    let check = |stag| {
        table
            .check(at(stag), 1, Access::RemoteRead, WHO)
            .map(|_| ())
    };
    assert_eq!(check(first.stag), Err(AccessError::InvalidSTag));
    assert_eq!(
        table.invalidate_remote(first.stag, WHO),
        Err(InvalidateError::Unknown)
    );

    // Bind, Invalidate, Bind may all be queued at once.
    let second = window
        .prepare(
            &region,
            region.base(),
            60,
            RemoteRights::with_both(true, true),
        )
        .unwrap();
    assert_eq!(window.stag(), Some(second.stag));
    assert_eq!(table.bind(&first, OTHER_PD), Err(BindError::Access));
    table.bind(&first, WHO).unwrap();
    assert!(window.is_bound() && region.is_in_use() && check(first.stag).is_ok());
    assert_eq!(
        table.bind(&second, WHO),
        Err(BindError::InvalidState),
        "QP-043"
    );
    assert_eq!(table.bind(&first, WHO), Err(BindError::InvalidState));
    assert_eq!(
        table.unbind(window.id(), OTHER_STREAM),
        Err(BindError::InvalidState)
    );
    table.unbind(window.id(), WHO).unwrap();
    assert_eq!(table.unbind(window.id(), WHO), Err(BindError::InvalidState));
    assert_eq!(check(first.stag), Err(AccessError::InvalidSTag), "QP-049");
    table.bind(&second, OTHER_STREAM).unwrap();
    assert_eq!(check(second.stag), Err(AccessError::NotAssociated));
    assert_eq!(
        table.unbind(WindowId(99), WHO),
        Err(BindError::InvalidState)
    );
}

/// A Bind that was flushed gives its STag and its region back; one whose region or window was released binds nothing.
#[test]
fn binds_that_do_not_happen() {
    let table = Table::with_options(&TableOptions::default().capacity(3)).unwrap();
    let window = table.create_window(PD).unwrap();
    for round in 0..20 {
        let (_buffer, region) = register(&table, 100, Rights::all());
        let bind = window
            .prepare(
                &region,
                region.base(),
                100,
                RemoteRights::with_both(true, true),
            )
            .unwrap();
        // With `capacity` slots this shows that none is lost.
        let full = window
            .prepare(
                &region,
                region.base(),
                100,
                RemoteRights::with_both(true, true),
            )
            .map(|bind| bind.stag);
        if let Ok(stag) = full {
            table.cancel_prepared(stag);
        }
        assert_eq!(window.stag(), Some(bind.stag));
        let (region, _) = region.deregister().unwrap_err(); // MR-026
        if round % 2 == 0 {
            drop(region);
            assert_eq!(table.bind(&bind, WHO), Ok(()), "MR-028");
            assert!(!window.is_bound());
            assert_eq!(table.unbind(window.id(), WHO), Ok(()));
            assert_eq!(table.unbind(window.id(), WHO), Err(BindError::InvalidState));
        } else {
            window.cancel(bind.stag);
            window.cancel(bind.stag);
            table.cancel_prepared(bind.stag);
            region.deregister().unwrap();
        }
        assert_eq!(table.bind(&bind, WHO), Err(BindError::InvalidState));
        assert_eq!(window.stag(), None);
    }
    let (_buffer, region) = register(&table, 8, Rights::all());
    let bind = window
        .prepare(
            &region,
            region.base(),
            8,
            RemoteRights::with_both(true, true),
        )
        .unwrap();
    table.create_window(PD).unwrap().cancel(bind.stag); // not its own
    table.bind(&bind, WHO).unwrap();
    table.cancel_prepared(bind.stag); // too late
    assert!(window.is_bound());
    let queued = window
        .prepare(
            &region,
            region.base(),
            8,
            RemoteRights::with_both(true, true),
        )
        .unwrap();
    let id = window.id();
    drop(window);
    assert!(!region.is_in_use(), "MW-014");
    assert_eq!(table.bind(&bind, WHO), Err(BindError::InvalidState));
    assert_eq!(table.unbind(id, WHO), Ok(()), "queued before the release");
    assert_eq!(table.bind(&queued, WHO), Ok(()), "MW-014");
    assert_eq!(table.bind(&queued, WHO), Err(BindError::InvalidState));
    assert_eq!(table.unbind(id, WHO), Ok(()));
    region.deregister().unwrap();
}

/// An STag that a queued Bind names is not given to another Bind, whatever was released since.
#[test]
fn stags_of_queued_binds_are_not_reused() {
    let table = Table::with_options(&TableOptions::default().capacity(4)).unwrap();
    let (_buffer, region) = register(&table, 100, Rights::all());
    let window = table.create_window(PD).unwrap();
    let prepare = |window: &Window| {
        let bind = window.prepare(
            &region,
            region.base(),
            100,
            RemoteRights::with_both(true, true),
        );
        bind.map(|bind| bind.stag)
    };
    let [first, second] = [(); 2].map(|()| prepare(&window).unwrap());
    drop(window);
    let other = table.create_window(PD).unwrap();
    let mut free = 0;
    while prepare(&other).is_ok() {
        free += 1;
    }
    assert!(
        (0..=1).contains(&free),
        "one of the four may have the index zero"
    );
    drop(other);
    // The Binds of the first window end, those of the other one have to be ended as well.
    table.cancel_prepared(first);
    table.cancel_prepared(second);
    let third = table.create_window(PD).unwrap();
    assert!(prepare(&third).is_ok() && prepare(&third).is_ok());
}

/// MR-026, MW-011, MW-014: bound windows keep their region busy; releasing either end ends the window.
#[test]
fn windows_hold_their_region() {
    let table = Table::new();
    let (_buffer, region) = register(&table, 100, Rights::all());
    let (a, stag_a) = bound(&table, &region, 0, 10, true, true);
    let (b, stag_b) = bound(&table, &region, 5, 10, true, false);
    let (region, _) = region.deregister().unwrap_err();
    assert!(
        table
            .check(remote(&region, 0), 1, Access::RemoteRead, WHO)
            .is_ok(),
        "unchanged"
    );
    table.unbind(a.id(), WHO).unwrap();
    let (region, _) = region.deregister().unwrap_err();
    drop(b);
    assert!(!region.is_in_use());
    let (c, stag_c) = bound(&table, &region, 0, 10, true, true);
    let at = |stag| RemoteAddress {
        stag,
        to: region.base(),
    };
    let (stale, base) = (
        table
            .check(at(stag_c), 1, Access::RemoteWrite, WHO)
            .unwrap(),
        region.base(),
    );
    drop(region);
    assert!(!c.is_bound(), "dropping a region unbinds its windows");
    assert_eq!(c.stag(), None);
    assert_eq!(
        table.unbind(c.id(), OTHER_STREAM),
        Err(BindError::InvalidState)
    );
    // An Invalidate may have been queued before.
    assert_eq!(table.unbind(c.id(), WHO), Ok(()));
    assert_eq!(table.unbind(c.id(), WHO), Err(BindError::InvalidState));
    assert_eq!(table.place(stale, &[1], MessageEnd::Last), Err(Revoked));
    for stag in [stag_a, stag_b, stag_c] {
        let got = table.check(RemoteAddress { stag, to: base }, 1, Access::RemoteRead, WHO);
        assert_eq!(got, Err(AccessError::InvalidSTag));
    }
}

/// SEC-010, RFC 5040 section 5.3: a peer invalidates what is bound to its own stream, and nothing else.
#[test]
fn peers_invalidate_their_own_windows_only() {
    let table = Table::new();
    let (_buffer, region) = register(&table, 100, Rights::all());
    let (window, stag) = bound(&table, &region, 0, 10, true, true);
    assert_eq!(
        table.invalidate_remote(region.stag(), WHO),
        Err(InvalidateError::NotAllowed)
    );
    assert_eq!(
        table.invalidate_remote(stag, OTHER_STREAM),
        Err(InvalidateError::NotAllowed)
    );
    assert_eq!(
        table.invalidate_remote(stag, OTHER_PD),
        Err(InvalidateError::NotAllowed)
    );
    let span = table
        .check(
            RemoteAddress {
                stag,
                to: region.base(),
            },
            5,
            Access::RemoteWrite,
            WHO,
        )
        .unwrap();
    table.invalidate_remote(stag, WHO).unwrap();
    assert_eq!(
        table.invalidate_remote(stag, WHO),
        Err(InvalidateError::Unknown)
    );
    assert!(!window.is_bound() && !region.is_in_use());
    assert_eq!(
        table.place(span, b"never", MessageEnd::Last),
        Err(Revoked),
        "SEC-005"
    );
    // IW-058: its owner cannot know, and invalidates it too.
    assert_eq!(table.unbind(window.id(), WHO), Ok(()));
    assert_eq!(table.unbind(window.id(), WHO), Err(BindError::InvalidState));
    region.deregister().unwrap();
}
