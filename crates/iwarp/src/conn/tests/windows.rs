//! Memory windows: Bind and Invalidate in the order of the queue, and invalid ones.

use super::*;
use crate::rdmap::TerminateCode;

#[test]
fn iw_030_windows_open_and_close_in_queue_order() {
    let mut pair = pair(Knobs::default());
    let region = pair.b.mem.register(vec![0; 64], Rights::ALL, PD);
    let window = pair.b.mem.window(PD);
    let bind = pair
        .b
        .mem
        .prepare(window, part(region, 16, 16), false, true);
    pair.b.post(1, Operation::Bind(bind)).unwrap();
    pair.run();
    let data = Payload::Inline(&[&[9; 16]]);
    let there = remote(bind.stag, region.address + 16);
    pair.a
        .post(
            1,
            Operation::Write {
                data,
                remote: there,
            },
        )
        .unwrap();
    pair.run();
    assert_eq!(
        pair.b.mem.bytes(region.token)[15..33],
        [&[0][..], &[9; 16], &[0]].concat()
    );
    pair.b.post(2, Operation::Invalidate(window)).unwrap();
    pair.run();
    pair.a
        .post(
            2,
            Operation::Write {
                data,
                remote: there,
            },
        )
        .unwrap();
    pair.run();
    assert_eq!(
        pair.a.terminated().unwrap().code,
        TerminateCode::new(1, 1, 0)
    ); // RDMAP-066
    assert_eq!(statuses(&pair.b, RequestKind::Bind), [WqeStatus::Success]);
    assert_eq!(
        statuses(&pair.b, RequestKind::Invalidate),
        [WqeStatus::Success]
    );
}

#[test]
fn qp_050_binds_and_invalidates_that_make_no_sense() {
    let mut raw = Raw::initiator();
    let region = raw.end.mem.register(vec![0; 64], Rights::ALL, PD);
    let window = raw.end.mem.window(PD);
    raw.end.post(1, Operation::Invalidate(window)).unwrap();
    raw.transmit();
    assert_eq!(
        statuses(&raw.end, RequestKind::Invalidate),
        [WqeStatus::InvalidRequest]
    );

    let mut raw = Raw::initiator();
    raw.end
        .mem
        .register_as(region.token, region.address, vec![0; 64], Rights::ALL, PD);
    let window = raw.end.mem.window(PD);
    let first = raw.end.mem.prepare(window, region, true, false);
    let second = raw.end.mem.prepare(window, region, true, false);
    let third = raw.end.mem.prepare(window, region, true, false);
    for (context, bind) in [first, second, third].into_iter().enumerate() {
        raw.end.post(context as u64, Operation::Bind(bind)).unwrap();
    }
    raw.transmit();
    let done = raw.end.completions();
    let seen: Vec<_> = done
        .iter()
        .map(|done| (done.status, done.failed_bind))
        .collect();
    use WqeStatus::{Flushed, InvalidRequest, Success};
    let failed = [
        (Success, None),
        (InvalidRequest, Some(second.stag)),
        (Flushed, Some(third.stag)),
    ];
    assert_eq!(seen, failed);
}

#[test]
fn res_015_a_bind_is_never_an_access_violation() {
    let mut raw = Raw::initiator();
    let region = raw.end.mem.register(vec![0; 64], Rights::ALL, PD);
    let window = raw.end.mem.window(PD);
    let bind = raw.end.mem.prepare(window, region, true, true);
    raw.end.mem.deregister(region.token);
    raw.end.post(1, Operation::Bind(bind)).unwrap();
    raw.transmit();
    assert_eq!(
        statuses(&raw.end, RequestKind::Bind),
        [WqeStatus::InvalidRequest]
    );
}
