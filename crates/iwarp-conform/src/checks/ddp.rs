//! RFC 5041: segments, their numbers, and what is checked before anything is placed.

use super::common::{
    Check, Conn, Need, Pass, Section, Step, Verdict, alive, check, ensure, no_fault, report,
    writable,
};
use super::tour::tour;
use crate::bench::Bench;
use crate::judge::terminated;
use crate::service::Command;
use crate::wire::{Code, Segment, crc32c, queue};

const S: Section = Section::Ddp;
const V: &[Need] = &[Need::Service];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "DDP-023.sent",
        "DDP reserved bits are sent as zero",
        form_reserved,
    ),
    check(
        S,
        "DDP-024.sent",
        "DV is 1 in all the target sends",
        form_version,
    ),
    check(
        S,
        "DDP-025.sent",
        "all segments of a message have one opcode",
        form_opcode,
    )
    .needs(V),
    check(
        S,
        "DDP-027.sent",
        "all segments of a tagged message have one STag",
        form_stag,
    )
    .needs(V),
    check(S, "DDP-029.sent", "TO grows with the payload", form_to)
        .needs(V)
        .also(&["DDP-046"]),
    check(
        S,
        "DDP-031.sent",
        "MSNs begin with 1 on each queue",
        form_first_msn,
    )
    .also(&["DDP-033"]),
    check(
        S,
        "DDP-032.sent",
        "MSNs grow by one for each message",
        form_msn,
    )
    .needs(V)
    .also(&["RDMAP-069"]),
    check(
        S,
        "DDP-034.sent",
        "all segments of a message have one MSN",
        form_one_msn,
    )
    .needs(V),
    check(
        S,
        "DDP-035.sent",
        "MO begins with 0 and grows with the payload",
        form_mo,
    )
    .also(&["DDP-022", "DDP-021", "DDP-046"]),
    check(
        S,
        "DDP-042.sent",
        "all octets of a message arrive",
        all_octets,
    )
    .needs(V)
    .also(&["DDP-045"]),
    check(
        S,
        "DDP-043.sent",
        "a message of no length is one segment, the last",
        empty_message,
    )
    .needs(V)
    .also(&["DDP-021"]),
    check(
        S,
        "DDP-023.ignored",
        "DDP reserved bits are ignored",
        reserved_set,
    ),
    check(
        S,
        "DDP-024.tagged-0",
        "DV 0 in a tagged segment: Terminate 1/1/04",
        tagged_version_0,
    ),
    check(
        S,
        "DDP-024.tagged-2",
        "DV 2 in a tagged segment: Terminate 1/1/04",
        tagged_version_2,
    ),
    check(
        S,
        "DDP-024.untagged-0",
        "DV 0 in an untagged segment: Terminate 1/2/06",
        untagged_version_0,
    ),
    check(
        S,
        "DDP-024.untagged-3",
        "DV 3 in an untagged segment: Terminate 1/2/06",
        untagged_version_3,
    ),
    check(
        S,
        "DDP-060.queue",
        "an unknown queue: Terminate 1/2/01",
        unknown_queue,
    )
    .also(&["DDP-074"]),
    check(
        S,
        "DDP-076.queue",
        "an empty Send on an unknown queue: Terminate 1/2/01",
        empty_unknown_queue,
    ),
    check(
        S,
        "DDP-030.changed",
        "a message changes its queue: Terminate 1/2/01",
        queue_changes,
    )
    .needs(V),
    check(
        S,
        "DDP-031.zero",
        "MSN 0 for the first message of a queue: Terminate 1/2/03",
        msn_zero,
    ),
    check(
        S,
        "DDP-032.gap",
        "a message number is left out: Terminate 1/2/03",
        msn_gap,
    )
    .also(&["DDP-064"]),
    check(
        S,
        "DDP-032.again",
        "a message number comes twice: Terminate 1/2/03",
        msn_again,
    )
    .needs(V)
    .also(&["DDP-064"]),
    check(
        S,
        "DDP-064.far",
        "a message number far beyond all buffers: Terminate 1/2/03",
        msn_far,
    ),
    check(
        S,
        "DDP-076.number",
        "an empty Send with a wrong number: Terminate 1/2/03",
        empty_gap,
    ),
    check(
        S,
        "DDP-033.independent",
        "Requests have numbers of their own, apart from Sends",
        independent,
    )
    .needs(V),
    check(
        S,
        "DDP-034.changed",
        "a message changes its number: Terminate 1/2/03",
        msn_changes,
    )
    .needs(V),
    check(
        S,
        "DDP-035.first",
        "a first segment with MO 4: Terminate 1/2/04",
        mo_first,
    ),
    check(
        S,
        "DDP-062.beyond",
        "MO beyond the buffer: Terminate 1/2/04",
        mo_beyond,
    )
    .also(&["SEC-032"]),
    check(
        S,
        "DDP-035.gap",
        "a gap between segments: Terminate 1/2/04",
        mo_gap,
    )
    .needs(V)
    .also(&["DDP-077"]),
    check(
        S,
        "DDP-077.empty",
        "an empty last segment at the wrong MO: Terminate 1/2/04",
        mo_empty,
    )
    .needs(V)
    .also(&["DDP-022"]),
    check(S, "DDP-062.wrap", "MO 2^32 - 4: Terminate 1/2/04", mo_wrap).also(&["SEC-032"]),
    check(
        S,
        "DDP-063.long",
        "a message longer than its buffer: Terminate 1/2/05 or 1/2/02",
        too_long,
    )
    .needs(V)
    .also(&["RDMAP-062"]),
    check(
        S,
        "DDP-063.segments",
        "the same in segments, each of which would fit",
        too_long_in_segments,
    )
    .needs(V)
    .also(&["SEC-035"]),
    check(
        S,
        "DDP-061.none",
        "a message without a buffer: Terminate 1/2/02",
        no_buffer,
    )
    .needs(V)
    .also(&["RDMAP-068", "RDMAP-060"]),
    check(
        S,
        "DDP-020.segments",
        "a message comes in many segments",
        segments,
    )
    .needs(V)
    .also(&["DDP-021", "DDP-035"]),
    check(
        S,
        "DDP-025.changed",
        "a message changes its opcode: Terminate 0/2/06, or accepted",
        opcode_changes,
    )
    .needs(V),
    check(
        S,
        "DDP-053.between",
        "a Write stands between the segments of a Send",
        between,
    )
    .needs(&[Need::Service, Need::Writable]),
    check(
        S,
        "DDP-071.dropped",
        "nothing behind an error is taken",
        dropped,
    )
    .needs(&[Need::Writable]),
];

fn form(bench: &mut Bench, rows: &[&str]) -> Verdict {
    let conn = tour(bench)?;
    no_fault(&conn, rows)
}

fn form_reserved(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-023"])
}

fn form_version(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-024"])
}

fn form_opcode(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-025"])
}

fn form_stag(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-027"])
}

fn form_to(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-029"])
}

fn form_first_msn(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-031"])
}

fn form_msn(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-032"])
}

fn form_one_msn(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-034"])
}

fn form_mo(bench: &mut Bench) -> Verdict {
    form(bench, &["DDP-035"])
}

fn all_octets(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    for length in [1, 1_443, 65_536, 70_001] {
        super::tour::emit(&mut conn, length)?;
    }
    Ok(Pass::Right)
}

fn empty_message(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.say(&Command::Echo(Vec::new()).encode())?;
    let segment = conn.expect_segment("an empty Send")?;
    ensure(
        segment.last && segment.payload.is_empty() && segment.is_send(),
        "one empty segment with L = 1",
        segment.describe(),
    )?;
    Ok(Pass::Right)
}

fn reserved_set(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send(&Segment {
        ddp_reserved: 0xF,
        ..Segment::write(1, 0, &[])
    })?;
    alive(bench, &mut conn)
}

/// Sends one segment after a legal start. It has to end the stream with one of these codes.
fn provoke(bench: &mut Bench, make: impl FnOnce(&mut Conn) -> Segment, codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    let segment = make(&mut conn);
    conn.send(&segment)?;
    terminated(&mut conn, codes)
}

fn tagged_version(bench: &mut Bench, version: u8) -> Verdict {
    let bad = |_: &mut Conn| Segment {
        ddp_version: version,
        ..Segment::write(1, 0, &[0xDE, 0xAD, 0xBE, 0xEF])
    };
    provoke(bench, bad, &[Code(1, 1, 4)])
}

fn tagged_version_0(bench: &mut Bench) -> Verdict {
    tagged_version(bench, 0)
}

fn tagged_version_2(bench: &mut Bench) -> Verdict {
    tagged_version(bench, 2)
}

fn untagged_version(bench: &mut Bench, version: u8) -> Verdict {
    let bad = |conn: &mut Conn| Segment {
        ddp_version: version,
        ..Segment::send(conn.send_msn, b"hello")
    };
    provoke(bench, bad, &[Code(1, 2, 6)])
}

fn untagged_version_0(bench: &mut Bench) -> Verdict {
    untagged_version(bench, 0)
}

fn untagged_version_3(bench: &mut Bench) -> Verdict {
    untagged_version(bench, 3)
}

fn send_with(
    bench: &mut Bench,
    payload: &[u8],
    edit: impl FnOnce(&mut Segment),
    code: Code,
) -> Verdict {
    let bad = |conn: &mut Conn| {
        let mut segment = Segment::send(conn.send_msn, payload);
        edit(&mut segment);
        segment
    };
    provoke(bench, bad, &[code])
}

fn unknown_queue(bench: &mut Bench) -> Verdict {
    send_with(bench, b"hello", |send| send.qn = 5, Code(1, 2, 1))
}

fn empty_unknown_queue(bench: &mut Bench) -> Verdict {
    send_with(bench, b"", |send| send.qn = 5, Code(1, 2, 1))
}

/// Sends a legal first segment, and a second one.
fn second(bench: &mut Bench, edit: impl FnOnce(&mut Segment), codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    let (first, mut second) = halves(&mut conn);
    edit(&mut second);
    conn.send_all(&[first, second])?;
    terminated(&mut conn, codes)
}

/// A message of eight octets and three, in two segments.
fn halves(conn: &mut Conn) -> (Segment, Segment) {
    let msn = conn.next_send();
    let first = Segment {
        last: false,
        ..Segment::send(msn, b"ABCDEFGH")
    };
    let second = Segment {
        mo: 8,
        ..Segment::send(msn, b"IJK")
    };
    (first, second)
}

fn queue_changes(bench: &mut Bench) -> Verdict {
    second(
        bench,
        |segment| segment.qn = queue::REQUEST,
        &[Code(1, 2, 1), Code(0, 2, 6)],
    )
}

fn msn_zero(bench: &mut Bench) -> Verdict {
    if bench.target_is_initiator() || !bench.facts.service {
        return provoke(
            bench,
            |conn| Segment::send(conn.send_msn.wrapping_sub(1), b"hello"),
            &[Code(1, 2, 3)],
        );
    }
    let plan = bench.plan();
    let mut conn = bench.begin(&plan)?;
    conn.send(&Segment::send(0, b"hello"))?;
    terminated(&mut conn, &[Code(1, 2, 3)])
}

fn msn_gap(bench: &mut Bench) -> Verdict {
    send_with(bench, b"hello", |send| send.msn += 1, Code(1, 2, 3))
}

fn msn_again(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    conn.send_all(&[Segment::send(msn, b"once"), Segment::send(msn, b"twice")])?;
    terminated(&mut conn, &[Code(1, 2, 3)])
}

fn msn_far(bench: &mut Bench) -> Verdict {
    send_with(
        bench,
        b"hello",
        |send| send.msn += 0x7FFF_0000,
        Code(1, 2, 3),
    )
}

fn empty_gap(bench: &mut Bench) -> Verdict {
    send_with(bench, b"", |send| send.msn += 1, Code(1, 2, 3))
}

fn independent(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    for _ in 0..3 {
        conn.echo(b"send")?;
    }
    let msn = conn.next_request();
    conn.send(&Segment::read_request(
        msn,
        crate::wire::ReadRequest::default(),
    ))?;
    conn.expect_segment("a Read Response")?;
    conn.echo(b"send")?;
    Ok(Pass::Right)
}

fn msn_changes(bench: &mut Bench) -> Verdict {
    second(bench, |segment| segment.msn += 1, &[Code(1, 2, 3)])
}

fn mo_first(bench: &mut Bench) -> Verdict {
    send_with(bench, b"hello", |send| send.mo = 4, Code(1, 2, 4))
}

fn mo_beyond(bench: &mut Bench) -> Verdict {
    send_with(bench, b"hello", |send| send.mo = 0x4000_0000, Code(1, 2, 4))
}

fn mo_wrap(bench: &mut Bench) -> Verdict {
    send_with(
        bench,
        b"hello",
        |send| send.mo = u32::MAX - 3,
        Code(1, 2, 4),
    )
}

fn mo_gap(bench: &mut Bench) -> Verdict {
    second(bench, |segment| segment.mo = 12, &[Code(1, 2, 4)])
}

fn mo_empty(bench: &mut Bench) -> Verdict {
    let empty = |segment: &mut Segment| {
        segment.payload.clear();
        segment.mo = 0x1000_0000;
    };
    second(bench, empty, &[Code(1, 2, 4)])
}

/// Octets of a Receive of the target.
fn receive_size(conn: &Conn) -> usize {
    let size = conn.offer.as_ref().map_or(0, |offer| offer.receive_size);
    usize::try_from(size).unwrap_or(0)
}

fn too_long(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let size = receive_size(&conn) + 1;
    if size + Segment::UNTAGGED > 60_000 {
        return Err(super::common::Stop::Skip(
            "the target's Receives are longer than an FPDU".to_owned(),
        ));
    }
    let msn = conn.next_send();
    conn.send(&Segment::send(msn, &vec![0x42; size]))?;
    terminated(&mut conn, &[Code(1, 2, 5), Code(1, 2, 2)])
}

fn too_long_in_segments(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let size = receive_size(&conn);
    let msn = conn.next_send();
    let mut mo = 0;
    while mo <= size {
        let segment = Segment {
            last: false,
            mo: u32::try_from(mo).unwrap_or(u32::MAX),
            ..Segment::send(msn, &[0x42; 1024])
        };
        conn.send(&segment)?;
        mo += 1024;
    }
    terminated(&mut conn, &[Code(1, 2, 5), Code(1, 2, 2)])
}

fn no_buffer(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let receives = conn.offer.as_ref().map_or(0, |offer| offer.receives);
    conn.command(&Command::Hold)?;
    // The command has used one Receive, which is not posted again.
    let segments: Vec<Segment> = (0..receives)
        .map(|_| Segment::send(conn.next_send(), b"held"))
        .collect();
    conn.send_all(&segments)?;
    terminated(&mut conn, &[Code(1, 2, 2)])
}

fn segments(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let size = receive_size(&conn).min(4_000);
    let message: Vec<u8> = crate::service::pattern_of(size);
    let msn = conn.next_send();
    let count = message.len().div_ceil(7);
    let all: Vec<Segment> = message
        .chunks(7)
        .enumerate()
        .map(|(i, piece)| Segment {
            last: i + 1 == count,
            mo: u32::try_from(i * 7).unwrap_or(u32::MAX),
            ..Segment::send(msn, piece)
        })
        .collect();
    conn.send_all(&all)?;
    let reported = report(&mut conn)?;
    ensure(
        (reported.messages, reported.length as usize, reported.crc) == (1, size, crc32c(&message)),
        format!("one message of {size} octets, as sent"),
        format!("{reported:?}"),
    )?;
    Ok(Pass::Right)
}

fn opcode_changes(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (first, mut second) = halves(&mut conn);
    second.opcode = crate::wire::opcode::SEND_SOLICITED;
    conn.send_all(&[first, second])?;
    let msn = conn.next_send();
    conn.send(&Segment::send(msn, &Command::Echo(b"x".to_vec()).encode()))?;
    let limit = conn.limits().answer;
    // DDP-026: no sink needs to check this.
    match conn.segment(limit)? {
        crate::conn::Seen::It(segment) if segment.is_send() => Ok(Pass::Right),
        crate::conn::Seen::It(segment) if segment.opcode == 7 => {
            let terminate = crate::wire::Terminate::parse(&segment.payload, false);
            let code = terminate.map(|terminate| terminate.code);
            ensure(
                code == Some(Code(0, 2, 6)),
                "Terminate 0/2/06, or delivery",
                format!("{code:?}"),
            )?;
            Ok(Pass::Right)
        }
        crate::conn::Seen::End(..) => Ok(Pass::Weak("closed without a Terminate".to_owned())),
        _ => Err(super::common::fail(
            "Terminate 0/2/06, or delivery",
            "neither",
        )),
    }
}

fn between(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0)?;
    let (first, second) = halves(&mut conn);
    let write = Segment::write(region.stag, region.to, &[0xB5; 16]);
    conn.send_all(&[first, write, second])?;
    let reported = report(&mut conn)?;
    ensure(
        reported.length == 11 && reported.crc == crc32c(b"ABCDEFGHIJK"),
        "the message of 11 octets is delivered whole",
        format!("{reported:?}"),
    )?;
    let found = super::common::peek_on(&mut conn, index, 0, 16)?;
    ensure(
        found == [0xB5; 16],
        "the Write is placed",
        format!("{found:02x?}"),
    )?;
    Ok(Pass::Right)
}

fn dropped(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x44)?;
    let bad = Segment {
        qn: 9,
        ..Segment::send(conn.send_msn, b"bad")
    };
    let good = Segment::write(region.stag, region.to, &[0xAA; 32]);
    conn.send_all(&[bad, good])?;
    let verdict = crate::judge::ended(&mut conn)?;
    untouched(bench, conn, index)?;
    Ok(verdict)
}

fn untouched(bench: &mut Bench, conn: Conn, index: u16) -> Step {
    super::common::untouched(bench, conn, index, (0, 32), 0x44)
}
