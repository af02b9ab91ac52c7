//! RFC 5042, and what a hostile peer may try: other connections are not disturbed, nothing grows without bound.

use super::common::{Check, Need, Pass, Section, Step, Stop, Verdict, check, ensure};
use crate::bench::{Bench, give_ready};
use crate::judge::terminated;
use crate::service::{Command, RegionKind};
use crate::wire::{Code, ReadRequest, Segment};

const S: Section = Section::Security;

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "SEC-008.spread",
        "STags do not follow from each other",
        spread,
    )
    .needs(&[Need::Service]),
    check(
        S,
        "SEC-004.octet",
        "bounds have octet granularity: one octet behind the region is refused",
        one_octet,
    )
    .needs(&[Need::Writable]),
    check(
        S,
        "SEC-035.endless",
        "a message that never ends stays within its buffer",
        endless,
    )
    .needs(&[Need::Service]),
    check(
        S,
        "SEC-034.unread",
        "a large Response that nobody reads does not stop another connection",
        unread,
    )
    .responder()
    .needs(&[Need::Readable])
    .also(&["SEC-037", "SEC-038"]),
    check(
        S,
        "SEC-011.others",
        "an error on one stream does not disturb another",
        others,
    )
    .responder()
    .needs(&[Need::Service]),
    check(
        S,
        "SEC-038.inside",
        "a peer that stops inside an FPDU does not stop another connection",
        inside,
    )
    .responder(),
];

fn stags(bench: &mut Bench) -> Step<Vec<u32>> {
    let mut conn = bench.open()?;
    let offer = conn.offer.take().unwrap_or_default();
    Ok(offer.regions.iter().map(|region| region.stag).collect())
}

/// Consecutive indices, or one key for all STags, are easy to guess. A few neighbours by chance do not count.
fn spread(bench: &mut Bench) -> Verdict {
    let mut all = stags(bench)?;
    all.extend(stags(bench)?);
    all.sort_unstable();
    all.dedup();
    if all.len() < 3 {
        return Err(Stop::Skip("fewer than three STags are offered".to_owned()));
    }
    let near = all
        .windows(2)
        .filter(|pair| pair[1] - pair[0] <= 256)
        .count();
    ensure(
        near * 2 < all.len(),
        "most STags are further than 256 from the next",
        format!("{all:08x?}"),
    )?;
    Ok(Pass::Right)
}

fn one_octet(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, false, true)?;
    conn.send(&Segment::write(
        region.stag,
        region.to + region.length,
        &[0xAA],
    ))?;
    terminated(&mut conn, &[Code(1, 1, 1)])
}

fn endless(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let size = conn.offer.as_ref().map_or(0, |offer| offer.receive_size);
    let msn = conn.next_send();
    let mut mo: u32 = 0;
    while mo < size.saturating_add(8_192) {
        let segment = Segment {
            last: false,
            mo,
            ..Segment::send(msn, &[0; 512])
        };
        conn.send(&segment)?;
        mo += 512;
    }
    terminated(&mut conn, &[Code(1, 2, 5), Code(1, 2, 2)])
}

fn unread(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, true, false)?;
    let size = u32::try_from(region.length).unwrap_or(u32::MAX);
    let requests: Vec<Segment> = (0..8)
        .map(|_| {
            let request = ReadRequest {
                sink_stag: 1,
                sink_to: 0,
                size,
                source_stag: region.stag,
                source_to: region.to,
            };
            Segment::read_request(conn.next_request(), request)
        })
        .collect();
    conn.send_all(&requests)?;
    // Nothing is read from the first connection meanwhile.
    works(bench)?;
    drop(conn);
    Ok(Pass::Right)
}

/// Checks that another connection works.
fn works(bench: &mut Bench) -> Step {
    let mut conn = bench.open()?;
    super::common::alive(bench, &mut conn).map(|_| ())
}

fn others(bench: &mut Bench) -> Verdict {
    let mut bystander = bench.open()?;
    let mut conn = bench.open()?;
    conn.send(&Segment::write(0x00BA_DBAD, 0, &[0; 4]))?;
    crate::judge::ended(&mut conn)?;
    super::common::alive(bench, &mut bystander)
}

/// A target decides how many it accepts from one peer at a time. Afterwards it has to go on.
pub(super) fn half_open(bench: &mut Bench) -> Verdict {
    for _ in 0..100 {
        let Ok(conn) = bench.dial() else {
            break; // enough for this target
        };
        drop(conn);
    }
    works(bench)?;
    Ok(Pass::Right)
}

fn inside(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send_octets(&[0x40, 0, 0x41, 0x43, 0, 0])?;
    works(bench)?;
    drop(conn);
    Ok(Pass::Right)
}

/// The check is in this section because a target that does not raise its IRD takes this as an error in the very first FPDU.
pub(super) fn read_with_ord_zero(bench: &mut Bench) -> Verdict {
    let (mut conn, reply, limits) = super::negotiation::replied(bench, |request| {
        (request.c, request.ord) = (false, 0);
    })?;
    if !limits.d {
        return Err(Stop::Skip("the Reply asks for another type".to_owned()));
    }
    give_ready(&mut conn, &reply)?;
    if bench.facts.service {
        conn.say(&Command::Hello.encode())?;
        conn.answer("an offer")?;
    }
    Ok(Pass::Right)
}

/// Comes last: kernels with CVE-2026-23242 do not survive it (PEER-029).
pub(super) fn first(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.revision = 1;
    let (mut conn, _) = bench.accepted(&plan.request())?;
    conn.send(&Segment {
        ddp_version: 0,
        ..Segment::send(1, b"hello")
    })?;
    terminated(&mut conn, &[Code(1, 2, 6)])
}
