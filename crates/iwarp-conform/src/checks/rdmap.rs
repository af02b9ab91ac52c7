//! RFC 5040 §4.1, §7: the RDMAP control octet, opcodes, queues.

use super::common::{Check, Conn, Need, Pass, Section, Verdict, alive, check, no_fault};
use super::tour::tour;
use crate::bench::Bench;
use crate::judge::{closed, ended, terminated};
use crate::wire::{Code, ReadRequest, Segment, Terminate, opcode, queue};

const S: Section = Section::Rdmap;
const UNEXPECTED: Code = Code(0, 2, 6);

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAP-001.sent",
        "RV is 01 in all the target sends",
        form_version,
    ),
    check(
        S,
        "RDMAP-002.sent",
        "RDMAP reserved bits are sent as zero",
        form_reserved,
    ),
    check(
        S,
        "RDMAP-003.sent",
        "only assigned opcodes are sent",
        form_opcodes,
    ),
    check(
        S,
        "RDMAP-004.sent",
        "each opcode is sent with its T",
        form_t,
    ),
    check(S, "RDMAP-005.sent", "Sends go to queue 0", form_send_queue),
    check(
        S,
        "RDMAP-006.sent",
        "Read Requests go to queue 1",
        form_request_queue,
    )
    .needs(&[Need::Service]),
    check(
        S,
        "RDMAP-008.sent",
        "Invalidate STag is 0 where it means nothing",
        form_stag,
    ),
    check(
        S,
        "RDMAP-002.ignored",
        "RDMAP reserved bits are ignored",
        reserved_set,
    ),
    check(S, "RDMAP-001.zero", "RV 0: Terminate 0/2/05", version_0).also(&["RDMAP-088"]),
    check(S, "RDMAP-001.two", "RV 2: Terminate 0/2/05", version_2).also(&["RDMAP-088"]),
    check(
        S,
        "RDMAP-001.tagged",
        "RV 3 in a Write: Terminate 0/2/05",
        version_tagged,
    )
    .also(&["RDMAP-088"]),
    check(S, "RDMAP-003.c", "opcode 0xC: Terminate 0/2/06", opcode_c).also(&["RDMAP-088"]),
    check(
        S,
        "RDMAP-003.e",
        "opcode 0xE in a tagged segment: Terminate 0/2/06",
        opcode_e,
    ),
    check(S, "RDMAP-003.f", "opcode 0xF: Terminate 0/2/06", opcode_f),
    check(
        S,
        "RDMAP-004.write",
        "a Write that is not tagged: Terminate 0/2/06, 1/2/01 or 1/1/00",
        write_untagged,
    )
    .also(&["DDP-020"]),
    check(
        S,
        "RDMAP-004.send",
        "a Send that is tagged: Terminate 0/2/06, 1/2/01 or 1/1/00",
        send_tagged,
    )
    .also(&["DDP-020"]),
    check(
        S,
        "RDMAP-004.request",
        "a Read Request that is tagged: Terminate 0/2/06, 1/2/01 or 1/1/00",
        request_tagged,
    ),
    check(
        S,
        "RDMAP-004.response",
        "a Read Response that is not tagged: Terminate 0/2/06, 1/2/01 or 1/1/00",
        response_untagged,
    ),
    check(
        S,
        "RDMAP-005.queue",
        "a Send on queue 1: Terminate 1/2/01 or 0/2/06",
        send_queue,
    )
    .also(&["DDP-030"]),
    check(
        S,
        "RDMAP-006.queue",
        "a Read Request on queue 0: Terminate 1/2/01 or 0/2/06",
        request_queue,
    ),
    check(
        S,
        "RDMAP-007.queue",
        "a Terminate on queue 0 closes",
        terminate_queue,
    )
    .also(&["RDMAP-086"]),
    check(
        S,
        "RDMAP-009.request",
        "Invalidate STag of a Read Request is ignored",
        request_stag,
    ),
    check(
        S,
        "RDMAP-011.payload",
        "a Read Request with octets behind its header ends the stream",
        request_payload,
    ),
    check(
        S,
        "RDMAP-011.short",
        "a Read Request with half a header ends the stream",
        request_short,
    )
    .also(&["SEC-032"]),
    check(
        S,
        "RDMAP-013.text",
        "anything that is not an RDMA Message ends the stream",
        text,
    ),
];

fn form(bench: &mut Bench, rows: &[&str]) -> Verdict {
    let conn = tour(bench)?;
    no_fault(&conn, rows)
}

fn form_version(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-001"])
}

fn form_reserved(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-002"])
}

fn form_opcodes(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-003"])
}

fn form_t(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-004"])
}

fn form_send_queue(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-005"])
}

fn form_request_queue(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-006"])
}

fn form_stag(bench: &mut Bench) -> Verdict {
    form(bench, &["RDMAP-008"])
}

fn reserved_set(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send(&Segment {
        rdmap_reserved: 3,
        ..Segment::write(1, 0, &[])
    })?;
    alive(bench, &mut conn)
}

fn provoke(bench: &mut Bench, make: impl FnOnce(&mut Conn) -> Segment, codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    let segment = make(&mut conn);
    conn.send(&segment)?;
    terminated(&mut conn, codes)
}

fn send_as(bench: &mut Bench, edit: impl FnOnce(&mut Segment), codes: &[Code]) -> Verdict {
    provoke(
        bench,
        |conn| {
            let mut segment = Segment::send(conn.send_msn, b"hello");
            edit(&mut segment);
            segment
        },
        codes,
    )
}

fn version_0(bench: &mut Bench) -> Verdict {
    send_as(bench, |send| send.rdmap_version = 0, &[Code(0, 2, 5)])
}

fn version_2(bench: &mut Bench) -> Verdict {
    send_as(bench, |send| send.rdmap_version = 2, &[Code(0, 2, 5)])
}

fn version_tagged(bench: &mut Bench) -> Verdict {
    let bad = |_: &mut Conn| Segment {
        rdmap_version: 3,
        ..Segment::write(1, 0, &[1, 2, 3, 4])
    };
    provoke(bench, bad, &[Code(0, 2, 5)])
}

fn opcode_c(bench: &mut Bench) -> Verdict {
    send_as(bench, |send| send.opcode = 0xC, &[UNEXPECTED])
}

fn opcode_e(bench: &mut Bench) -> Verdict {
    provoke(
        bench,
        |_| Segment::tagged(0xE, 1, 0, &[0; 4]),
        &[UNEXPECTED],
    )
}

fn opcode_f(bench: &mut Bench) -> Verdict {
    send_as(bench, |send| send.opcode = 0xF, &[UNEXPECTED])
}

/// OPEN-01.
const T: &[Code] = &[UNEXPECTED, Code(1, 2, 1), Code(1, 1, 0)];

fn write_untagged(bench: &mut Bench) -> Verdict {
    send_as(bench, |send| send.opcode = opcode::WRITE, T)
}

fn send_tagged(bench: &mut Bench) -> Verdict {
    provoke(bench, |_| Segment::tagged(opcode::SEND, 1, 0, b"hello"), T)
}

fn request_tagged(bench: &mut Bench) -> Verdict {
    let request = ReadRequest::default().to_bytes();
    provoke(
        bench,
        |_| Segment::tagged(opcode::READ_REQUEST, 1, 0, &request),
        T,
    )
}

fn response_untagged(bench: &mut Bench) -> Verdict {
    send_as(bench, |send| send.opcode = opcode::READ_RESPONSE, T)
}

fn send_queue(bench: &mut Bench) -> Verdict {
    provoke(
        bench,
        |conn| Segment::untagged(opcode::SEND, queue::REQUEST, conn.request_msn, b"hello"),
        &[Code(1, 2, 1), UNEXPECTED],
    )
}

fn request_queue(bench: &mut Bench) -> Verdict {
    provoke(
        bench,
        |conn| Segment {
            qn: queue::SEND,
            ..Segment::read_request(conn.send_msn, ReadRequest::default())
        },
        &[Code(1, 2, 1), UNEXPECTED],
    )
}

fn terminate_queue(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let payload = Terminate::bare(Code(0, 0, 0));
    let msn = conn.send_msn;
    conn.send(&Segment::untagged(
        opcode::TERMINATE,
        queue::SEND,
        msn,
        &payload,
    ))?;
    closed(&mut conn)
}

fn request_stag(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_request();
    conn.send(&Segment {
        stag: 0xDEAD_BEEF,
        ..Segment::read_request(msn, ReadRequest::default())
    })?;
    conn.expect_segment("a Read Response")?;
    Ok(Pass::Right)
}

fn request_payload(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let mut segment = Segment::read_request(conn.request_msn, ReadRequest::default());
    segment.payload.extend([0xEE; 8]);
    conn.send(&segment)?;
    terminated(&mut conn, &[UNEXPECTED, Code(1, 2, 5)])
}

fn request_short(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let mut segment = Segment::read_request(conn.request_msn, ReadRequest::default());
    segment.payload.truncate(14);
    conn.send(&segment)?;
    ended(&mut conn)
}

fn text(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send_octets(&[b'A'; 70_000])?;
    ended(&mut conn)
}
