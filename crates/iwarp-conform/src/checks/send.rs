//! RFC 5040 §5.3: the Send family, invalidation.

use super::common::{
    Check, Conn, Need, Pass, Section, Step, Verdict, alive, check, ensure, fill, report,
};
use crate::bench::Bench;
use crate::judge::{ended, terminated};
use crate::service::{Command, Region, RegionKind};
use crate::wire::{Code, Segment, crc32c, opcode};

const S: Section = Section::Send;
const V: &[Need] = &[Need::Service];
const W: &[Need] = &[Need::Window];
/// Two error types have this code (OPEN-04).
const CANNOT: &[Code] = &[Code(0, 1, 9), Code(0, 2, 9)];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAP-061.length",
        "a Send is delivered with its length and its octets",
        delivered,
    )
    .needs(V)
    .also(&["DDP-050"]),
    check(
        S,
        "RDMAP-060.zero",
        "a Send of no length is delivered too",
        delivered_empty,
    )
    .needs(V)
    .also(&["DDP-043"]),
    check(
        S,
        "RDMAP-061.full",
        "a Send may fill its buffer",
        delivered_full,
    )
    .needs(V),
    check(
        S,
        "RDMAP-063.order",
        "Sends are delivered in the order they came",
        in_order,
    )
    .needs(V),
    check(
        S,
        "RDMAP-064.solicited",
        "a Send with Solicited Event is delivered",
        solicited,
    )
    .needs(V),
    check(
        S,
        "RDMAP-009.ignored",
        "Invalidate STag of a Send is ignored",
        ignored,
    )
    .needs(V),
    check(
        S,
        "RDMAP-064.sent",
        "the target's Send with Solicited Event is one",
        solicited_sent,
    )
    .needs(V),
    check(
        S,
        "RDMAP-065.window",
        "a Send with Invalidate is delivered, and its STag is gone",
        invalidated,
    )
    .needs(W)
    .also(&["RDMAP-010"]),
    check(
        S,
        "RDMAP-066.write",
        "a Write through an invalidated STag: Terminate 1/1/00",
        write_after,
    )
    .needs(W)
    .also(&["SEC-005", "DDP-065"]),
    check(
        S,
        "RDMAP-066.read",
        "a Read through an invalidated STag: Terminate 0/1/00",
        read_after,
    )
    .needs(W)
    .also(&["SEC-005"]),
    check(
        S,
        "RDMAP-066.solicited",
        "a Send with Solicited Event and Invalidate invalidates as well",
        solicited_invalidated,
    )
    .needs(W),
    check(
        S,
        "RDMAP-010.unknown",
        "an unknown STag to invalidate: Terminate 0/1/09 or 0/2/09",
        unknown,
    )
    .needs(V)
    .also(&["RDMAP-065"]),
    check(
        S,
        "RDMAP-067.shared",
        "an STag that others share is not invalidated: Terminate 0/1/09 or 0/2/09",
        shared,
    )
    .needs(&[Need::Writable])
    .also(&["SEC-010"]),
    check(S, "SEC-010.stays", "and it works afterwards", shared_stays)
        .needs(&[Need::Writable])
        .also(&["RDMAP-067"]),
];

fn deliver(conn: &mut Conn, message: &[u8]) -> Verdict {
    conn.say(message)?;
    let reported = report(conn)?;
    ensure(
        (reported.messages, reported.length as usize, reported.crc)
            == (1, message.len(), crc32c(message)),
        format!("one message of {} octets, as sent", message.len()),
        format!("{reported:?}"),
    )?;
    Ok(Pass::Right)
}

fn delivered(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    deliver(&mut conn, b"a message shorter than its buffer")
}

fn delivered_empty(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    deliver(&mut conn, b"")
}

fn delivered_full(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let size = conn.offer.as_ref().map_or(0, |offer| offer.receive_size);
    deliver(
        &mut conn,
        &crate::service::pattern_of(size.min(60_000) as usize),
    )
}

fn in_order(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let receives = conn.offer.as_ref().map_or(2, |offer| offer.receives);
    let count = u8::try_from(receives.saturating_sub(1).clamp(1, 6)).unwrap_or(1);
    let segments: Vec<Segment> = (1..=count)
        .map(|i| {
            Segment::send(
                conn.next_send(),
                &Command::Echo(vec![i; usize::from(i)]).encode(),
            )
        })
        .collect();
    conn.send_all(&segments)?;
    for i in 1..=count {
        conn.echoed(&vec![i; usize::from(i)])?;
    }
    Ok(Pass::Right)
}

fn echo_by(bench: &mut Bench, edit: impl FnOnce(&mut Segment)) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    let mut segment = Segment::send(msn, &Command::Echo(b"how?".to_vec()).encode());
    edit(&mut segment);
    conn.send(&segment)?;
    conn.echoed(b"how?")?;
    Ok(Pass::Right)
}

fn solicited(bench: &mut Bench) -> Verdict {
    echo_by(bench, |segment| segment.opcode = opcode::SEND_SOLICITED)
}

fn ignored(bench: &mut Bench) -> Verdict {
    echo_by(bench, |segment| segment.stag = 0xDEAD_BEEF)
}

fn solicited_sent(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let emit = Command::Emit {
        length: 10,
        solicited: true,
    };
    conn.say(&emit.encode())?;
    let segment = conn.expect_segment("a Send with Solicited Event")?;
    ensure(
        segment.opcode == opcode::SEND_SOLICITED,
        "a Send with Solicited Event",
        segment.describe(),
    )?;
    Ok(Pass::Right)
}

/// Invalidates the window of this connection by a Send that is an echo as well.
fn invalidate(bench: &mut Bench, opcode: u8) -> Step<(Conn, Region)> {
    let mut conn = bench.open()?;
    let (_, window) = conn.region(RegionKind::Window, true, true)?;
    // The window works before.
    conn.send(&Segment::write(window.stag, window.to, &[1; 8]))?;
    let msn = conn.next_send();
    let echo = Command::Echo(b"gone?".to_vec()).encode();
    conn.send(&Segment {
        opcode,
        stag: window.stag,
        ..Segment::send(msn, &echo)
    })?;
    conn.echoed(b"gone?")?;
    Ok((conn, window))
}

fn invalidated(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = invalidate(bench, opcode::SEND_INVALIDATE)?;
    alive(bench, &mut conn)
}

fn write_after(bench: &mut Bench) -> Verdict {
    let (mut conn, window) = invalidate(bench, opcode::SEND_INVALIDATE)?;
    conn.send(&Segment::write(window.stag, window.to, &[2; 8]))?;
    terminated(&mut conn, &[Code(1, 1, 0)])
}

fn read_after(bench: &mut Bench) -> Verdict {
    let (mut conn, window) = invalidate(bench, opcode::SEND_INVALIDATE)?;
    let msn = conn.next_request();
    let request = crate::wire::ReadRequest {
        sink_stag: 1,
        sink_to: 0,
        size: 8,
        source_stag: window.stag,
        source_to: window.to,
    };
    conn.send(&Segment::read_request(msn, request))?;
    terminated(&mut conn, &[Code(0, 1, 0)])
}

fn solicited_invalidated(bench: &mut Bench) -> Verdict {
    let (mut conn, window) = invalidate(bench, opcode::SEND_SOLICITED_INVALIDATE)?;
    conn.send(&Segment::write(window.stag, window.to, &[2; 8]))?;
    terminated(&mut conn, &[Code(1, 1, 0)])
}

fn invalidate_other(conn: &mut Conn, stag: u32) -> Step {
    let msn = conn.next_send();
    conn.send(&Segment {
        opcode: opcode::SEND_INVALIDATE,
        stag,
        ..Segment::send(msn, b"invalidate")
    })
}

fn unknown(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    invalidate_other(&mut conn, 0x00BA_DBAD)?;
    terminated(&mut conn, CANNOT)
}

fn shared(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, false, true)?;
    invalidate_other(&mut conn, region.stag)?;
    terminated(&mut conn, CANNOT)
}

fn shared_stays(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, false, true)?;
    invalidate_other(&mut conn, region.stag)?;
    // The check before is about whether it ends.
    let _ = ended(&mut conn);
    drop(conn); // a target that connects has one at a time
    let mut conn = bench.open()?;
    // If a target gives each connection its own STags, the check is about the memory.
    let (index, region) = conn.region(RegionKind::Shared, false, true)?;
    fill(&mut conn, index, 0)?;
    conn.send(&Segment::write(region.stag, region.to, &[0x3D; 8]))?;
    let found = super::common::peek_on(&mut conn, index, 0, 8)?;
    ensure(
        found == [0x3D; 8],
        "a Write through the STag is placed as before",
        format!("{found:02x?}"),
    )?;
    Ok(Pass::Right)
}
