//! RFC 5040 §5.1, RFC 5041 §7: RDMA Write, and the checks of tagged segments.

use super::common::{
    Check, Conn, Need, Pass, Section, Step, Verdict, alive, check, ensure, fill, no_fault, peek_on,
    untouched, writable,
};
use crate::bench::Bench;
use crate::judge::terminated;
use crate::service::{Region, RegionKind, pattern_of};
use crate::wire::{Code, Segment};

const S: Section = Section::Write;
const W: &[Need] = &[Need::Writable];
/// DDP has no separate code for rights (OPEN-03).
const RIGHTS: &[Code] = &[Code(1, 1, 0), Code(1, 1, 2), Code(0, 1, 2)];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAP-023.zero",
        "a Write of no length is taken, whatever STag and TO",
        zero,
    )
    .also(&["DDP-044"]),
    check(S, "DDP-044.stag-0", "the same with STag 0", zero_stag_0),
    check(
        S,
        "RDMAP-024.placed",
        "a Write is placed where it says",
        placed,
    )
    .needs(W)
    .also(&["DDP-047"]),
    check(
        S,
        "DDP-028.odd",
        "a Write may begin and end at any octet",
        odd,
    )
    .needs(W),
    check(
        S,
        "RDMAP-024.segments",
        "a Write of many segments is placed",
        placed_segments,
    )
    .needs(W)
    .also(&["DDP-029"]),
    check(
        S,
        "RDMAP-024.end",
        "a Write may end at the last octet of a region",
        last_octet,
    )
    .needs(W),
    check(
        S,
        "RDMAP-094.order",
        "a Send that is delivered behind a Write finds it placed",
        order,
    )
    .needs(W),
    check(
        S,
        "DDP-020.sent",
        "the target's own Writes are placed where it was told",
        own,
    )
    .needs(&[Need::Service])
    .also(&["RDMAP-022", "RDMAP-098"]),
    check(
        S,
        "DDP-065.unknown",
        "an STag that was never advertised: Terminate 1/1/00",
        unknown_stag,
    )
    .also(&["DDP-074"]),
    check(
        S,
        "DDP-065.key",
        "an STag with another key: Terminate 1/1/00",
        other_key,
    )
    .needs(W)
    .also(&["SEC-008"]),
    check(
        S,
        "DDP-067.before",
        "TO in front of the region: Terminate 1/1/01",
        before,
    )
    .needs(W),
    check(
        S,
        "DDP-067.behind",
        "TO behind the region: Terminate 1/1/01",
        behind,
    )
    .needs(W),
    check(
        S,
        "DDP-068.across",
        "a Write across the end of the region: Terminate 1/1/01",
        across,
    )
    .needs(W),
    check(
        S,
        "DDP-070.across",
        "nothing of it is placed, not even the part inside",
        across_placed,
    )
    .needs(W)
    .also(&["SEC-004"]),
    check(
        S,
        "DDP-069.wrap",
        "TO plus length wraps: Terminate 1/1/03 or 1/1/01",
        wraps,
    )
    .needs(W)
    .also(&["SEC-032"]),
    check(
        S,
        "DDP-066.rights",
        "a Write to memory without the right: Terminate 1/1/00, 1/1/02 or 0/1/02",
        rights_none,
    )
    .needs(&[Need::NoRights]),
    check(
        S,
        "DDP-066.read-only",
        "a Write to memory that may be read only",
        rights_read,
    )
    .needs(&[Need::Readable]),
    check(
        S,
        "RDMAP-025.unchanged",
        "a Write without the right changes nothing",
        rights_unchanged,
    )
    .needs(&[Need::Readable])
    .also(&["SEC-006"]),
    check(
        S,
        "DDP-089.foreign",
        "a Write through an STag of another stream: Terminate 1/1/02",
        foreign,
    )
    .responder()
    .needs(&[Need::Window])
    .also(&["SEC-001", "SEC-002", "DDP-066"]),
    check(
        S,
        "RDMAP-020.stags",
        "a Write changes its STag: Terminate 1/1/00",
        stag_changes,
    )
    .needs(W)
    .also(&["DDP-027"]),
    check(
        S,
        "DDP-029.gap",
        "a Write leaves a gap: Terminate 1/1/01, or accepted",
        gap,
    )
    .needs(W),
];

fn zero(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send(&Segment::write(0xDEAD_BEEF, u64::MAX - 1, &[]))?;
    alive(bench, &mut conn)
}

fn zero_stag_0(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send(&Segment::write(0, 0, &[]))?;
    alive(bench, &mut conn)
}

/// Writes in this many pieces, and checks that the data is there and that the octets around it are unchanged.
fn lands(bench: &mut Bench, offset: u16, length: u16, piece: usize) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x10)?;
    let data = pattern_of(usize::from(length));
    let at = region.to + u64::from(offset);
    let count = data.len().div_ceil(piece);
    let segments: Vec<Segment> = data
        .chunks(piece)
        .enumerate()
        .map(|(i, part)| Segment {
            last: i + 1 == count,
            ..Segment::write(region.stag, at + (i * piece) as u64, part)
        })
        .collect();
    conn.send_all(&segments)?;
    let around = peek_on(&mut conn, index, u64::from(offset) - 1, length + 2)?;
    let mut expected = vec![0x10];
    expected.extend(data);
    expected.push(0x10);
    ensure(
        around == expected,
        format!("{length} octets of the pattern at {offset}, and nothing around them"),
        format!("{around:02x?}"),
    )?;
    no_fault(&conn, &[])
}

fn placed(bench: &mut Bench) -> Verdict {
    lands(bench, 64, 128, 128)
}

fn odd(bench: &mut Bench) -> Verdict {
    lands(bench, 33, 13, 13)
}

fn placed_segments(bench: &mut Bench) -> Verdict {
    lands(bench, 5, 300, 11)
}

fn last_octet(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x10)?;
    conn.send(&Segment::write(
        region.stag,
        region.to + region.length - 8,
        &[0x99; 8],
    ))?;
    let found = peek_on(&mut conn, index, region.length - 16, 16)?;
    ensure(
        found == [[0x10; 8], [0x99; 8]].concat(),
        "the last 8 octets of the region",
        format!("{found:02x?}"),
    )?;
    Ok(Pass::Right)
}

fn order(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0)?;
    for round in 1..=8u8 {
        conn.send(&Segment::write(region.stag, region.to, &[round; 512]))?;
        let found = peek_on(&mut conn, index, 0, 512)?;
        ensure(
            found == [round; 512],
            format!("512 octets {round:02x}"),
            "older octets",
        )?;
    }
    Ok(Pass::Right)
}

fn own(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    for (length, to) in [(0, 7), (1, 0xFFFF_FFFF_0000), (3_001, 3), (70_000, 0)] {
        let written = super::tour::write(&mut conn, 0x7766_5544, to, length)?;
        ensure(
            written == pattern_of(length as usize),
            format!("{length} octets of the pattern"),
            "other octets",
        )?;
    }
    Ok(Pass::Right)
}

fn refused(bench: &mut Bench, make: impl FnOnce(Region) -> (u32, u64), codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, false, true)?;
    let (stag, to) = make(region);
    conn.send(&Segment::write(stag, to, &[0xDE, 0xAD, 0xBE, 0xEF]))?;
    terminated(&mut conn, codes)
}

fn unknown_stag(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send(&Segment::write(
        0x00BA_DBAD,
        0x1000,
        &[0xDE, 0xAD, 0xBE, 0xEF],
    ))?;
    terminated(&mut conn, &[Code(1, 1, 0)])
}

fn other_key(bench: &mut Bench) -> Verdict {
    refused(
        bench,
        |region| (region.stag ^ 0x5A, region.to),
        &[Code(1, 1, 0)],
    )
}

fn before(bench: &mut Bench) -> Verdict {
    refused(
        bench,
        |region| (region.stag, region.to.wrapping_sub(1)),
        &[Code(1, 1, 1)],
    )
}

fn behind(bench: &mut Bench) -> Verdict {
    refused(
        bench,
        |region| (region.stag, region.to + region.length),
        &[Code(1, 1, 1)],
    )
}

fn across(bench: &mut Bench) -> Verdict {
    refused(
        bench,
        |region| (region.stag, region.to + region.length - 3),
        &[Code(1, 1, 1)],
    )
}

fn across_placed(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x55)?;
    let end = region.to + region.length;
    conn.send(&Segment::write(region.stag, end - 32, &[0xAA; 64]))?;
    crate::judge::ended(&mut conn)?;
    untouched(bench, conn, index, (region.length - 64, 64), 0x55)?;
    Ok(Pass::Right)
}

fn wraps(bench: &mut Bench) -> Verdict {
    refused(
        bench,
        |region| (region.stag, u64::MAX - 1),
        &[Code(1, 1, 3), Code(1, 1, 1)],
    )
}

fn without_right(bench: &mut Bench, read: bool) -> Step<(Conn, u16, Region)> {
    let mut conn = bench.open()?;
    let (index, region) = conn.region(RegionKind::Shared, read, false)?;
    fill(&mut conn, index, 0x66)?;
    conn.send(&Segment::write(region.stag, region.to, &[0xAA; 16]))?;
    Ok((conn, index, region))
}

fn rights_none(bench: &mut Bench) -> Verdict {
    let (mut conn, _, _) = without_right(bench, false)?;
    terminated(&mut conn, RIGHTS)
}

fn rights_read(bench: &mut Bench) -> Verdict {
    let (mut conn, _, _) = without_right(bench, true)?;
    terminated(&mut conn, RIGHTS)
}

fn rights_unchanged(bench: &mut Bench) -> Verdict {
    let (mut conn, index, _) = without_right(bench, true)?;
    let ended = crate::judge::ended(&mut conn);
    untouched(bench, conn, index, (0, 16), 0x66)?;
    ended
}

fn foreign(bench: &mut Bench) -> Verdict {
    let other = bench.open()?;
    let (_, window) = other.region(RegionKind::Window, true, true)?;
    let mut conn = bench.open()?;
    conn.send(&Segment::write(window.stag, window.to, &[0xAA; 16]))?;
    let verdict = terminated(&mut conn, &[Code(1, 1, 2)])?;
    drop(other);
    Ok(verdict)
}

fn stag_changes(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = writable(&mut conn, 0)?;
    let first = Segment {
        last: false,
        ..Segment::write(region.stag, region.to, &[1; 8])
    };
    let second = Segment::write(0x00BA_DBAD, region.to + 8, &[2; 8]);
    conn.send_all(&[first, second])?;
    terminated(&mut conn, &[Code(1, 1, 0)])
}

fn gap(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = writable(&mut conn, 0)?;
    let first = Segment {
        last: false,
        ..Segment::write(region.stag, region.to, &[1; 8])
    };
    let second = Segment::write(region.stag, region.to + 24, &[2; 8]);
    conn.send_all(&[first, second])?;
    // A sink does not have to notice (DDP-052).
    conn.say(&crate::service::Command::Echo(b"gap".to_vec()).encode())?;
    let limit = conn.limits().answer;
    match conn.segment(limit)? {
        crate::conn::Seen::It(segment) if segment.is_send() => Ok(Pass::Right),
        crate::conn::Seen::It(segment) if segment.opcode == 7 => {
            let code = crate::wire::Terminate::parse(&segment.payload, false).map(|it| it.code);
            ensure(
                code == Some(Code(1, 1, 1)),
                "Terminate 1/1/01, or no matter",
                format!("{code:?}"),
            )?;
            Ok(Pass::Right)
        }
        crate::conn::Seen::End(..) => Ok(Pass::Weak("closed without a Terminate".to_owned())),
        _ => Err(super::common::fail(
            "Terminate 1/1/01, or no matter",
            "neither",
        )),
    }
}
