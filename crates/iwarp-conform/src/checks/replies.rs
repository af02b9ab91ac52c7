//! RFC 6581 of a target that connects: its Request, and its reaction to Replies.

use super::common::{Check, Need, Pass, Section, Step, Stop, Verdict, alive, check, ensure, fail};
use super::startup::limits_of;
use crate::bench::{Bench, take_ready};
use crate::conn::{Conn, Seen, describe};
use crate::judge::{Ending, ending};
use crate::service::{Answer, Command};
use crate::wire::{Code, Enhanced, ReadRequest, Segment, StartFrame, flag, opcode};

const S: Section = Section::Negotiation;
const E: &[Need] = &[Need::Enhanced];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "MPA2-001.request",
        "S = 1 if and only if the four octets are there, and Rev is 2 then",
        request_octets,
    )
    .initiator()
    .also(&["MPA2-002", "MPA2-003", "MPA2-008"]),
    check(
        S,
        "MPA2-021.request",
        "with A = 1 the Request offers a type, with A = 0 none",
        request_types,
    )
    .initiator()
    .needs(E)
    .also(&["MPA2-023"]),
    check(
        S,
        "MPA2-027.write",
        "asked for a Write, the ready-to-receive message is one",
        asked_write,
    )
    .initiator()
    .needs(&[Need::PeerToPeer])
    .also(&["MPA2-028"]),
    check(
        S,
        "MPA2-027.read",
        "asked for a Read, the ready-to-receive message is one",
        asked_read,
    )
    .initiator()
    .needs(&[Need::PeerToPeer])
    .also(&["MPA2-028"]),
    check(
        S,
        "MPA2-027.send",
        "asked for a Send, the ready-to-receive message is one",
        asked_send,
    )
    .initiator()
    .needs(&[Need::PeerToPeer])
    .also(&["MPA2-028"]),
    check(
        S,
        "MPA2-029.none",
        "a Reply with A = 1 and no type: Terminate 2/0/07",
        asked_none,
    )
    .initiator()
    .needs(&[Need::PeerToPeer])
    .also(&["MPA2-037"]),
    check(
        S,
        "MPA2-016.ord",
        "a Reply ORD that the Initiator cannot provide: Terminate 2/0/06",
        ord_too_large,
    )
    .initiator()
    .needs(E)
    .also(&["MPA2-037"]),
    check(
        S,
        "MPA2-015.one",
        "a Reply IRD of 1: never more than one Read outstanding",
        ird_one,
    )
    .initiator()
    .needs(&[Need::Enhanced, Need::Service])
    .also(&["RDMAP-047", "MPA2-013"]),
    check(
        S,
        "MPA2-003.reply",
        "a Reply with S = 1 and no four octets: the target closes",
        reply_short,
    )
    .initiator()
    .needs(E),
    check(
        S,
        "MPA2-019.reply",
        "a Reply with IRD and ORD 0x3FFF works",
        reply_not_negotiated,
    )
    .initiator()
    .needs(&[Need::Enhanced, Need::Service]),
];

fn request_octets(bench: &mut Bench) -> Verdict {
    let (_, request) = bench.request()?;
    if request.flags & flag::ENHANCED == 0 {
        return Ok(Pass::Right);
    }
    ensure(
        request.revision >= 2 && request.private.len() >= 4,
        "with S = 1: Rev 2, and at least four octets of Private Data",
        format!("Rev {}, {} octets", request.revision, request.private.len()),
    )?;
    Ok(Pass::Right)
}

fn request_types(bench: &mut Bench) -> Verdict {
    let (_, request) = bench.request()?;
    let limits = limits_of(&request)?;
    ensure(
        limits.a == (limits.b || limits.c || limits.d),
        "at least one of B, C, D with A = 1, none with A = 0",
        format!("{limits:?}"),
    )?;
    Ok(Pass::Right)
}

/// Answers the target's Request with other limits.
fn reply_with(
    bench: &mut Bench,
    edit: impl FnOnce(Enhanced, &mut Enhanced) -> Step,
) -> Step<(Conn, StartFrame)> {
    let (mut conn, request) = bench.request()?;
    let offered = limits_of(&request)?;
    let plan = bench.plan();
    let mut reply = plan.reply(&request);
    let mut limits = limits_of(&reply)?;
    edit(offered, &mut limits)?;
    reply.private[..4].copy_from_slice(&limits.to_bytes());
    conn.send_octets(&reply.encode())?;
    conn.enter(
        (request.flags | reply.flags) & flag::CRC != 0,
        request.flags & flag::MARKERS != 0,
        reply.flags & flag::MARKERS != 0,
    );
    Ok((conn, reply))
}

fn asked(
    bench: &mut Bench,
    (b, c, d): (bool, bool, bool),
    wanted: fn(&Segment) -> bool,
    what: &str,
) -> Verdict {
    let (mut conn, _) = reply_with(bench, |offered, reply| {
        if (b && !offered.b) || (c && !offered.c) || (d && !offered.d) {
            return Err(Stop::Skip(format!("the target does not offer {what}")));
        }
        (reply.b, reply.c, reply.d) = (b, c, d);
        Ok(())
    })?;
    let ready = conn.expect_segment(what)?;
    ensure(wanted(&ready), what, ready.describe())?;
    Ok(Pass::Right)
}

fn asked_write(bench: &mut Bench) -> Verdict {
    let is_wanted = |ready: &Segment| ready.opcode == opcode::WRITE && ready.payload.is_empty();
    asked(
        bench,
        (false, true, false),
        is_wanted,
        "a Write of no length",
    )
}

fn asked_read(bench: &mut Bench) -> Verdict {
    let is_wanted = |ready: &Segment| {
        let read = ReadRequest::parse(&ready.payload);
        ready.opcode == opcode::READ_REQUEST && read.is_some_and(|read| read.size == 0)
    };
    asked(
        bench,
        (false, false, true),
        is_wanted,
        "a Read of no length",
    )
}

fn asked_send(bench: &mut Bench) -> Verdict {
    let is_wanted = |ready: &Segment| ready.opcode == opcode::SEND && ready.payload.is_empty();
    asked(
        bench,
        (true, false, false),
        is_wanted,
        "a Send of no length",
    )
}

fn asked_none(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = reply_with(bench, |_, reply| {
        (reply.a, reply.b, reply.c, reply.d) = (true, false, false, false);
        Ok(())
    })?;
    first_fpdu_terminates(&mut conn, Code(2, 0, 7))
}

/// The Terminate has to be the very first FPDU (MPA2-016), a normal one without headers (MPA2-037).
fn first_fpdu_terminates(conn: &mut Conn, code: Code) -> Verdict {
    let expected = format!("Terminate {code} as the first FPDU");
    let before = conn.inbound.segments;
    match ending(conn, &expected)? {
        Ending::Terminate(segment, terminate) => {
            ensure(
                terminate.code == code && conn.inbound.segments == before + 1,
                expected,
                format!("Terminate {}", terminate.code),
            )?;
            ensure(
                terminate.flags == 0 && segment.payload.len() == 4,
                "a Terminate without headers",
                segment.describe(),
            )?;
            super::common::no_fault(conn, &["RDMAP-070", "RDMAP-007"])
        }
        Ending::Closed(end) => Ok(Pass::Weak(format!("{end:?} without the {expected}"))),
    }
}

fn ord_too_large(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = reply_with(bench, |_, reply| {
        reply.ord = 0x3FFE;
        Ok(())
    })?;
    first_fpdu_terminates(&mut conn, Code(2, 0, 6))
}

fn ird_one(bench: &mut Bench) -> Verdict {
    let (mut conn, reply) = reply_with(bench, |_, reply| {
        reply.ird = 1;
        Ok(())
    })?;
    take_ready(&mut conn, &reply)?;
    conn.answer("the offer of a target that connects")?;
    outstanding(&mut conn, 1)
}

/// Lets the target read four times, and answers each Read only when no further Request comes.
pub(super) fn outstanding(conn: &mut Conn, limit: usize) -> Verdict {
    let (stag, to, length) = (0x0102_0304, 0x1000, 64);
    let read = Command::Read {
        stag,
        to,
        length,
        count: 4,
    };
    conn.say(&read.encode())?;
    let mut waiting = Vec::new();
    let mut served = 0;
    while served < 4 {
        let wait = if waiting.is_empty() {
            conn.limits().answer
        } else {
            conn.limits().quiet
        };
        match conn.segment(wait)? {
            Seen::It(segment) if segment.opcode == opcode::READ_REQUEST => {
                waiting.extend(ReadRequest::parse(&segment.payload));
                ensure(
                    waiting.len() <= limit,
                    format!("at most {limit} Reads outstanding"),
                    format!("{}", waiting.len()),
                )?;
            }
            Seen::It(segment) => return Err(fail("a Read Request", segment.describe())),
            Seen::Nothing if !waiting.is_empty() => {
                let read = waiting.remove(0);
                let zeros = vec![0; read.size as usize];
                conn.send(&Segment::read_response(
                    read.sink_stag,
                    read.sink_to,
                    &zeros,
                ))?;
                served += 1;
            }
            other => return Err(fail("a Read Request", describe(&other, wait))),
        }
    }
    match conn.answer("the target's Reads are done")? {
        Answer::Done(_) => Ok(Pass::Right),
        other => Err(fail("the target's Reads are done", format!("{other:?}"))),
    }
}

fn reply_short(bench: &mut Bench) -> Verdict {
    let (mut conn, request) = bench.request()?;
    limits_of(&request)?;
    let mut reply = bench.plan().reply(&request);
    reply.private.clear();
    conn.send_octets(&reply.encode())?;
    conn.enter(false, false, false);
    match ending(&mut conn, "the end of the stream")? {
        Ending::Closed(_) => Ok(Pass::Right),
        Ending::Terminate(_, terminate) => Ok(Pass::Weak(format!(
            "Terminate {} first, outside full operation",
            terminate.code
        ))),
    }
}

fn reply_not_negotiated(bench: &mut Bench) -> Verdict {
    let (mut conn, reply) = reply_with(bench, |_, reply| {
        (reply.ird, reply.ord) = (Enhanced::NOT_NEGOTIATED, Enhanced::NOT_NEGOTIATED);
        Ok(())
    })?;
    take_ready(&mut conn, &reply)?;
    conn.answer("the offer of a target that connects")?;
    alive(bench, &mut conn)
}
