//! RFC 5040 §4.8, §5.4: the form of a Terminate, what follows it, and what a received one does.

use super::common::{Check, Conn, Need, Pass, Section, Step, Verdict, check, ensure, no_fault};
use crate::bench::Bench;
use crate::conn::Seen;
use crate::judge::{closed, sample, terminated};
use crate::wire::{Code, CrcStyle, Fpdu, ReadRequest, Segment, Terminate, opcode, queue};

const S: Section = Section::Terminate;

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAP-070.sent",
        "a Terminate is one last segment on queue 2, MSN 1, MO 0",
        form,
    )
    .also(&["RDMAP-007"]),
    check(
        S,
        "RDMAP-071.sent",
        "nothing follows a Terminate but the end of the stream",
        nothing_more,
    ),
    check(
        S,
        "RDMAP-074.graceful",
        "a Terminate is followed by a graceful end, so that it is not lost",
        graceful,
    )
    .should(),
    check(
        S,
        "RDMAP-075.layout",
        "Layer, type and code stand where the RFC has them",
        layout,
    )
    .also(&["RDMAP-077"]),
    check(
        S,
        "RDMAP-076.tagged",
        "about a Write: M = D = 1, R = 0, and its header",
        about_write,
    )
    .should()
    .also(&["RDMAP-077"]),
    check(
        S,
        "RDMAP-076.untagged",
        "about a Send: M = D = 1, R = 0, and its header",
        about_send,
    )
    .should()
    .also(&["RDMAP-077"]),
    check(
        S,
        "RDMAP-078.read",
        "about a Read Request: R = 1, and its header",
        about_read,
    )
    .also(&["RDMAP-076"]),
    check(
        S,
        "RDMAP-078.write",
        "R = 0 about anything but a Read Request",
        no_read,
    )
    .also(&["RDMAP-076"]),
    check(
        S,
        "RDMAP-077.length",
        "with D: length field and DDP header; what is announced is there",
        announced,
    ),
    check(S, "RDMAP-080.sent", "reserved bits are zero", reserved),
    check(
        S,
        "RDMAP-081.crc",
        "about a CRC error: no headers, M = D = R = 0",
        about_crc,
    )
    .needs(&[Need::Crc]),
    check(
        S,
        "RDMAP-082.first",
        "of two errors the first is reported",
        first_error,
    ),
    check(
        S,
        "RDMAP-083.sent",
        "an error is reported before the stream ends",
        reported_before_end,
    )
    .should()
    .also(&["DDP-073"]),
    check(
        S,
        "RDMAP-072.taken",
        "a Terminate is taken, and ends the stream",
        taken,
    )
    .also(&["RDMAP-073"]),
    check(
        S,
        "RDMAP-072.headers",
        "a Terminate with all its headers is taken",
        taken_with_headers,
    ),
    check(
        S,
        "RDMAP-080.ignored",
        "reserved bits of a Terminate are ignored",
        taken_reserved,
    ),
    check(
        S,
        "RDMAP-087.unknown",
        "a Terminate with unknown codes is taken",
        unknown_codes,
    ),
    check(
        S,
        "RDMAP-086.number",
        "a Terminate with MSN 2 closes, without a Terminate",
        bad_number,
    ),
    check(
        S,
        "RDMAP-086.offset",
        "a Terminate with MO 4 closes, without a Terminate",
        bad_offset,
    ),
    check(
        S,
        "RDMAP-086.last",
        "a Terminate with L = 0 closes, without a Terminate",
        bad_last,
    ),
    check(
        S,
        "RDMAP-086.empty",
        "a Terminate without its header closes, without a Terminate",
        bad_empty,
    ),
    check(
        S,
        "RDMAP-086.truncated",
        "a Terminate that announces headers and lacks them closes, without a Terminate",
        bad_truncated,
    ),
];

/// An error in a Send.
fn bad_send(conn: &mut Conn) -> Step<Segment> {
    let segment = Segment {
        msn: conn.send_msn + 5,
        ..Segment::send(0, b"hello")
    };
    conn.send(&segment)?;
    Ok(segment)
}

fn bad_write() -> Segment {
    Segment::write(0x00BA_DBAD, 0x1000, &[0xDE, 0xAD, 0xBE, 0xEF])
}

fn send_sample(bench: &mut Bench) -> Step<(Conn, Segment, Segment, Terminate)> {
    let mut conn = bench.open()?;
    let bad = bad_send(&mut conn)?;
    let (segment, terminate) = sample(&mut conn, &[Code(1, 2, 3)])?;
    Ok((conn, bad, segment, terminate))
}

fn write_sample(bench: &mut Bench) -> Step<(Conn, Segment, Terminate)> {
    let mut conn = bench.open()?;
    let bad = bad_write();
    conn.send(&bad)?;
    let (_, terminate) = sample(&mut conn, &[Code(1, 1, 0)])?;
    Ok((conn, bad, terminate))
}

fn read_sample(bench: &mut Bench) -> Step<(Conn, Segment, ReadRequest, Terminate)> {
    let mut conn = bench.open()?;
    let request = ReadRequest {
        sink_stag: 0x1122_3344,
        sink_to: 0x5566,
        size: 4096,
        source_stag: 0x00BA_DBAD,
        source_to: 0x1000,
    };
    let bad = Segment::read_request(conn.next_request(), request);
    conn.send(&bad)?;
    let (_, terminate) = sample(&mut conn, &[Code(0, 1, 0)])?;
    Ok((conn, bad, request, terminate))
}

fn form(bench: &mut Bench) -> Verdict {
    let (conn, _, _, _) = send_sample(bench)?;
    no_fault(&conn, &["RDMAP-070", "RDMAP-007"])
}

fn nothing_more(bench: &mut Bench) -> Verdict {
    let (mut conn, _, _, _) = send_sample(bench)?;
    // A graceful end may wait for the end of this side (RDMAP-074).
    conn.finish();
    let limit = conn.limits().answer;
    match conn.segment(limit)? {
        Seen::End(..) => Ok(Pass::Right),
        Seen::It(segment) => Err(super::common::fail(
            "the end of the stream",
            segment.describe(),
        )),
        Seen::Nothing => Err(super::common::fail(
            "the end of the stream",
            format!("nothing for {limit:?}"),
        )),
    }
}

fn graceful(bench: &mut Bench) -> Verdict {
    let (mut conn, _, _, _) = send_sample(bench)?;
    conn.finish();
    let limit = conn.limits().answer;
    loop {
        match conn.segment(limit)? {
            Seen::It(_) => {}
            Seen::End(crate::conn::End::Fin, _) => return Ok(Pass::Right),
            other => {
                let seen = crate::conn::describe(&other, limit);
                return Err(super::common::fail(
                    "the end of the stream in good order (FIN)",
                    seen,
                ));
            }
        }
    }
}

fn layout(bench: &mut Bench) -> Verdict {
    let (conn, _, _, _) = send_sample(bench)?;
    no_fault(&conn, &["PEER-084"])
}

fn about(terminate: &Terminate, flags: u8, header: &[u8]) -> Verdict {
    let flag_text = |flags: u8| format!("M D R = {:03b}", flags >> 5);
    ensure(
        terminate.flags == flags,
        flag_text(flags),
        flag_text(terminate.flags),
    )?;
    let seen = terminate.header.as_deref().unwrap_or_default();
    ensure(
        seen == header,
        format!("the header {}", crate::wire::hex(header, 18)),
        crate::wire::hex(seen, 18),
    )?;
    Ok(Pass::Right)
}

fn about_write(bench: &mut Bench) -> Verdict {
    let (_, bad, terminate) = write_sample(bench)?;
    about(
        &terminate,
        Terminate::M | Terminate::D,
        &bad.encode()[..Segment::TAGGED],
    )
}

fn about_send(bench: &mut Bench) -> Verdict {
    let (_, bad, _, terminate) = send_sample(bench)?;
    about(
        &terminate,
        Terminate::M | Terminate::D,
        &bad.encode()[..Segment::UNTAGGED],
    )
}

fn about_read(bench: &mut Bench) -> Verdict {
    let (_, bad, request, terminate) = read_sample(bench)?;
    about(
        &terminate,
        Terminate::M | Terminate::D | Terminate::R,
        &bad.encode()[..Segment::UNTAGGED],
    )?;
    ensure(
        terminate.read == Some(request),
        format!("{request:?}"),
        format!("{:?}", terminate.read),
    )?;
    Ok(Pass::Right)
}

fn no_read(bench: &mut Bench) -> Verdict {
    let (_, _, terminate) = write_sample(bench)?;
    ensure(
        terminate.flags & Terminate::R == 0,
        "R = 0",
        format!("M D R = {:03b}", terminate.flags >> 5),
    )?;
    Ok(Pass::Right)
}

fn announced(bench: &mut Bench) -> Verdict {
    let (conn, _, _, terminate) = send_sample(bench)?;
    no_fault(&conn, &["RDMAP-077", "RDMAP-078"])?;
    ensure(
        terminate.flags & (Terminate::M | Terminate::D) != Terminate::M,
        "M only together with D",
        format!("M D R = {:03b}", terminate.flags >> 5),
    )?;
    Ok(Pass::Right)
}

fn reserved(bench: &mut Bench) -> Verdict {
    let (conn, _, _, _) = send_sample(bench)?;
    no_fault(&conn, &["RDMAP-080"])
}

fn about_crc(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let bad = Fpdu {
        crc: CrcStyle::Flipped,
        ..Fpdu::new(Segment::write(1, 0, &[]).encode())
    };
    conn.send_fpdu(&bad)?;
    let (segment, terminate) = sample(&mut conn, &[Code(2, 0, 2)])?;
    // Absent headers may also be sent as zeros (OPEN-08).
    ensure(
        terminate.flags == 0 && segment.payload[4..].iter().all(|octet| *octet == 0),
        "M = D = R = 0, and no headers",
        crate::wire::hex(&segment.payload, 64),
    )?;
    Ok(Pass::Right)
}

fn first_error(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let bad = Segment {
        qn: 9,
        ..Segment::send(conn.send_msn, b"first")
    };
    conn.send_all(&[bad, bad_write()])?;
    terminated(&mut conn, &[Code(1, 2, 1)])
}

fn reported_before_end(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    bad_send(&mut conn)?;
    match terminated(&mut conn, &[Code(1, 2, 3)])? {
        Pass::Right => Ok(Pass::Right),
        Pass::Weak(why) => Err(super::common::fail("a Terminate", why)),
    }
}

fn receive(bench: &mut Bench, payload: &[u8], edit: impl FnOnce(&mut Segment)) -> Step<Conn> {
    let mut conn = bench.open()?;
    let mut segment = Segment::untagged(opcode::TERMINATE, queue::TERMINATE, 1, payload);
    edit(&mut segment);
    conn.send(&segment)?;
    Ok(conn)
}

fn taken(bench: &mut Bench) -> Verdict {
    let mut conn = receive(bench, &Terminate::bare(Code(0, 0, 0)), |_| {})?;
    closed(&mut conn)
}

fn taken_with_headers(bench: &mut Bench) -> Verdict {
    let mut payload = vec![0x01, 0x01, 0xE0, 0, 0, 46];
    let request = ReadRequest {
        size: 4096,
        ..ReadRequest::default()
    };
    payload.extend(Segment::read_request(1, request).encode());
    let mut conn = receive(bench, &payload, |_| {})?;
    closed(&mut conn)
}

fn taken_reserved(bench: &mut Bench) -> Verdict {
    let mut conn = receive(bench, &[0x11, 0x00, 0x18, 0xFF], |_| {})?;
    closed(&mut conn)
}

fn unknown_codes(bench: &mut Bench) -> Verdict {
    let mut conn = receive(bench, &[0xF7, 0xEE, 0, 0], |_| {})?;
    closed(&mut conn)
}

fn bad_number(bench: &mut Bench) -> Verdict {
    let bare = Terminate::bare(Code(0, 0, 0));
    let mut conn = receive(bench, &bare, |segment| segment.msn = 2)?;
    closed(&mut conn)
}

fn bad_offset(bench: &mut Bench) -> Verdict {
    let bare = Terminate::bare(Code(0, 0, 0));
    let mut conn = receive(bench, &bare, |segment| segment.mo = 4)?;
    closed(&mut conn)
}

fn bad_last(bench: &mut Bench) -> Verdict {
    let bare = Terminate::bare(Code(0, 0, 0));
    let mut conn = receive(bench, &bare, |segment| segment.last = false)?;
    closed(&mut conn)
}

fn bad_empty(bench: &mut Bench) -> Verdict {
    let mut conn = receive(bench, &[], |_| {})?;
    closed(&mut conn)
}

fn bad_truncated(bench: &mut Bench) -> Verdict {
    let mut conn = receive(bench, &[0x11, 0x01, 0xC0, 0, 0, 18, 0xC1], |_| {})?;
    closed(&mut conn)
}
