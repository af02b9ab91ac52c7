//! RFC 6581 of a target that listens: revisions, limits, and the ready-to-receive message.

use super::common::{Check, Need, Pass, Section, Step, Stop, Verdict, alive, check, ensure, fail};
use super::startup::limits_of;
use crate::bench::{Bench, Plan, give_ready};
use crate::conn::{Conn, Seen, describe};
use crate::service::{Answer, Wish};
use crate::wire::{Enhanced, ReadRequest, Segment, StartFrame, flag};

const S: Section = Section::Negotiation;
const E: &[Need] = &[Need::Enhanced];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "MPA2-005.revision-1",
        "a Request of Rev 1 is accepted",
        revision_1,
    )
    .responder()
    .also(&["MPA-009"]),
    check(
        S,
        "MPA2-036.revision-1",
        "the Reply to Rev 1 has Rev 1 and S = 0",
        revision_1_reply,
    )
    .responder()
    .also(&["MPA2-007"]),
    check(
        S,
        "MPA2-006.enhanced",
        "a Request with S = 1 is answered with S = 1 and Rev 2",
        enhanced,
    )
    .responder()
    .also(&["MPA2-002"]),
    check(
        S,
        "MPA2-007.revision-2",
        "a Request of Rev 2 with S = 0 is answered with S = 0",
        revision_2_plain,
    )
    .responder(),
    check(
        S,
        "MPA2-002.revision-1",
        "S = 1 in a Request of Rev 1: the target closes, or takes S for a Res bit",
        enhanced_revision_1,
    )
    .responder(),
    check(
        S,
        "MPA2-003.none",
        "S = 1 without Private Data: the target closes",
        short_none,
    )
    .responder()
    .also(&["MPA2-001"]),
    check(
        S,
        "MPA2-003.three",
        "S = 1 with three octets of Private Data: the target closes",
        short_three,
    )
    .responder()
    .also(&["MPA2-001"]),
    check(
        S,
        "MPA2-001.reply",
        "the Reply's Private Data begins with the four octets",
        reply_octets,
    )
    .responder()
    .needs(E)
    .also(&["MPA2-004"]),
    check(
        S,
        "MPA2-012.one",
        "Reply ORD is at most the Request's IRD of 1",
        ord_one,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-012.zero",
        "Reply ORD is 0 where the Request's IRD is",
        ord_zero,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-017.ird",
        "Request ORD 0x3FFF is answered with IRD 0x3FFF",
        not_negotiated_ird,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-018.ord",
        "Request IRD 0x3FFF is answered with ORD 0x3FFF",
        not_negotiated_ord,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-022.one",
        "A of the Reply is the Request's: 1",
        a_one,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-022.zero",
        "A of the Reply is the Request's: 0",
        a_zero,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-023.reply",
        "with A = 0 the Reply has B = C = D = 0",
        a_zero_bits,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-023.request",
        "with A = 0 received B, C and D are ignored",
        a_zero_ignored,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-025.write",
        "offered a Write alone, the Reply has a type",
        types_write,
    )
    .responder()
    .needs(E)
    .also(&["MPA2-024"]),
    check(
        S,
        "MPA2-025.read",
        "offered a Read alone, the Reply has a type",
        types_read,
    )
    .responder()
    .needs(E)
    .also(&["MPA2-024"]),
    check(
        S,
        "MPA2-025.send",
        "offered a Send alone, the Reply has a type",
        types_send,
    )
    .responder()
    .needs(E)
    .also(&["MPA2-024"]),
    check(
        S,
        "MPA2-025.none",
        "offered nothing, the Reply has a type",
        types_none,
    )
    .responder()
    .needs(E)
    .also(&["MPA2-024", "MPA2-026"]),
    check(
        S,
        "MPA2-032.write",
        "a ready-to-receive Write is not checked: any STag and TO",
        ready_write,
    )
    .responder()
    .needs(E)
    .also(&["MPA2-031"]),
    check(
        S,
        "MPA2-032.read",
        "a ready-to-receive Read is not checked, and answered with its sink",
        ready_read,
    )
    .responder()
    .needs(E)
    .also(&["RDMAP-040"]),
    check(
        S,
        "MPA2-033.send",
        "a ready-to-receive Send is taken where the Reply asks for it",
        ready_send,
    )
    .responder()
    .needs(E),
    check(
        S,
        "MPA2-031.speaks",
        "with A = 1 the Responder may send once it has the ready-to-receive message",
        speaks,
    )
    .responder()
    .needs(&[Need::Enhanced, Need::Service]),
    check(
        S,
        "MPA2-034.large",
        "limits of 0x3FFE are accepted, and cut to what the target has",
        large_limits,
    )
    .responder()
    .needs(E)
    .should(),
];

fn revision_1_plan(bench: &Bench) -> Plan {
    Plan {
        revision: 1,
        ..bench.plan()
    }
}

fn revision_1(bench: &mut Bench) -> Verdict {
    let plan = revision_1_plan(bench);
    bench.open_as(&plan)?;
    Ok(Pass::Right)
}

fn revision_1_reply(bench: &mut Bench) -> Verdict {
    let (_, reply) = bench.ask(&revision_1_plan(bench).request())?;
    ensure(
        (reply.revision, reply.flags & flag::ENHANCED) == (1, 0),
        "Rev 1, S = 0",
        format!("Rev {}, flags {:#04x}", reply.revision, reply.flags),
    )?;
    Ok(Pass::Right)
}

fn enhanced(bench: &mut Bench) -> Verdict {
    let (_, reply) = bench.ask(&bench.plan().request())?;
    ensure(
        reply.revision == 2 && reply.flags & flag::ENHANCED != 0,
        "Rev 2, S = 1",
        format!("Rev {}, flags {:#04x}", reply.revision, reply.flags),
    )?;
    Ok(Pass::Right)
}

fn revision_2_plain(bench: &mut Bench) -> Verdict {
    let mut request = revision_1_plan(bench).request();
    request.revision = 2;
    let (_, reply) = bench.ask(&request)?;
    ensure(
        (1..=2).contains(&reply.revision) && reply.flags & flag::ENHANCED == 0,
        "S = 0, and Rev 2 or 1 (OPEN-12)",
        format!("Rev {}, flags {:#04x}", reply.revision, reply.flags),
    )?;
    Ok(Pass::Right)
}

fn enhanced_revision_1(bench: &mut Bench) -> Verdict {
    let mut request = bench.plan().request();
    request.revision = 1;
    let mut conn = bench.dial()?;
    conn.send_octets(&request.encode())?;
    let limit = conn.limits().startup;
    match conn.start_frame(limit)? {
        Seen::End(..) => Ok(Pass::Right),
        Seen::It(reply) => {
            ensure(
                reply.flags & flag::ENHANCED == 0,
                "the end of the stream, or a Reply with S = 0",
                format!("Rev {}, flags {:#04x}", reply.revision, reply.flags),
            )?;
            Ok(Pass::Right)
        }
        Seen::Nothing => Err(fail("the end of the stream, or a Reply", "nothing")),
    }
}

fn short(bench: &mut Bench, octets: usize) -> Verdict {
    let mut request = bench.plan().request();
    request.private.truncate(octets);
    let mut conn = bench.dial()?;
    conn.send_octets(&request.encode())?;
    let limit = conn.limits().startup;
    let expected = "the end of the stream, and no accepting Reply";
    match conn.start_frame(limit)? {
        Seen::End(..) => Ok(Pass::Right),
        Seen::It(reply) if reply.flags & flag::REJECT != 0 => {
            Ok(Pass::Weak("rejected by a Reply, not closed on".to_owned()))
        }
        Seen::It(reply) => Err(fail(expected, format!("flags {:#04x}", reply.flags))),
        other @ Seen::Nothing => Err(fail(expected, describe(&other, limit))),
    }
}

fn short_none(bench: &mut Bench) -> Verdict {
    short(bench, 0)
}

fn short_three(bench: &mut Bench) -> Verdict {
    short(bench, 3)
}

fn reply_octets(bench: &mut Bench) -> Verdict {
    let (_, reply) = bench.ask(&bench.plan().request())?;
    ensure(
        reply.flags & flag::ENHANCED == 0 || reply.private.len() >= 4,
        "with S = 1, at least four octets of Private Data",
        format!("{}", reply.private.len()),
    )?;
    Ok(Pass::Right)
}

/// The limits in the Reply to a Request with these.
pub(super) fn replied(
    bench: &mut Bench,
    edit: impl FnOnce(&mut Enhanced),
) -> Step<(Conn, StartFrame, Enhanced)> {
    let mut plan = bench.plan();
    edit(&mut plan.enhanced);
    let (conn, reply) = bench.accepted(&plan.request())?;
    let limits = limits_of(&reply)?;
    Ok((conn, reply, limits))
}

fn ord_at_most(bench: &mut Bench, ird: u16) -> Verdict {
    let (_, _, limits) = replied(bench, |request| request.ird = ird)?;
    ensure(
        limits.ord <= ird,
        format!("ORD of at most {ird}"),
        format!("{}", limits.ord),
    )?;
    Ok(Pass::Right)
}

fn ord_one(bench: &mut Bench) -> Verdict {
    ord_at_most(bench, 1)
}

fn ord_zero(bench: &mut Bench) -> Verdict {
    ord_at_most(bench, 0)
}

fn not_negotiated_ird(bench: &mut Bench) -> Verdict {
    let (_, _, limits) = replied(bench, |request| request.ord = Enhanced::NOT_NEGOTIATED)?;
    ensure(
        limits.ird == Enhanced::NOT_NEGOTIATED,
        "IRD 0x3fff",
        format!("{:#x}", limits.ird),
    )?;
    Ok(Pass::Right)
}

fn not_negotiated_ord(bench: &mut Bench) -> Verdict {
    let (_, _, limits) = replied(bench, |request| request.ird = Enhanced::NOT_NEGOTIATED)?;
    ensure(
        limits.ord == Enhanced::NOT_NEGOTIATED,
        "ORD 0x3fff",
        format!("{:#x}", limits.ord),
    )?;
    Ok(Pass::Right)
}

fn a_of_reply(bench: &mut Bench, a: bool) -> Verdict {
    let (_, _, limits) = replied(bench, |request| {
        if !a {
            (request.a, request.c, request.d) = (false, false, false);
        }
    })?;
    ensure(
        limits.a == a,
        format!("A = {}", u8::from(a)),
        format!("A = {}", u8::from(limits.a)),
    )?;
    Ok(Pass::Right)
}

fn a_one(bench: &mut Bench) -> Verdict {
    a_of_reply(bench, true)
}

fn a_zero(bench: &mut Bench) -> Verdict {
    a_of_reply(bench, false)
}

fn a_zero_bits(bench: &mut Bench) -> Verdict {
    let (_, _, limits) = replied(bench, |request| {
        (request.a, request.c, request.d) = (false, false, false);
    })?;
    no_types(limits)
}

fn no_types(limits: Enhanced) -> Verdict {
    ensure(
        limits.a || !(limits.b || limits.c || limits.d),
        "B = C = D = 0 with A = 0",
        format!("{limits:?}"),
    )?;
    Ok(Pass::Right)
}

fn a_zero_ignored(bench: &mut Bench) -> Verdict {
    let (mut conn, _, limits) = replied(bench, |request| request.a = false)?;
    no_types(limits)?;
    alive(bench, &mut conn)
}

fn types(bench: &mut Bench, (b, c, d): (bool, bool, bool)) -> Verdict {
    let (_, _, limits) = replied(bench, |request| {
        (request.b, request.c, request.d) = (b, c, d);
    })?;
    ensure(
        !limits.a || limits.b || limits.c || limits.d,
        "at least one of B, C, D with A = 1",
        format!("{limits:?}"),
    )?;
    Ok(Pass::Right)
}

fn types_write(bench: &mut Bench) -> Verdict {
    types(bench, (false, true, false))
}

fn types_read(bench: &mut Bench) -> Verdict {
    types(bench, (false, false, true))
}

fn types_send(bench: &mut Bench) -> Verdict {
    types(bench, (true, false, false))
}

fn types_none(bench: &mut Bench) -> Verdict {
    types(bench, (false, false, false))
}

fn ready_write(bench: &mut Bench) -> Verdict {
    let (mut conn, _, limits) = replied(bench, |request| request.d = false)?;
    if !limits.c {
        return Err(Stop::Skip("the Reply asks for another type".to_owned()));
    }
    conn.send(&Segment::write(0xDEAD_BEEF, u64::MAX - 2, &[]))?;
    alive(bench, &mut conn)
}

fn ready_read(bench: &mut Bench) -> Verdict {
    let (mut conn, _, limits) = replied(bench, |request| request.c = false)?;
    if !limits.d {
        return Err(Stop::Skip("the Reply asks for another type".to_owned()));
    }
    let msn = conn.next_request();
    let read = ReadRequest {
        sink_stag: 0x0BAD_CAFE,
        sink_to: 0x1234_5678_9ABC_DEF0,
        size: 0,
        source_stag: 0xDEAD_BEEF,
        source_to: u64::MAX - 2,
    };
    conn.send(&Segment::read_request(msn, read))?;
    let response = conn.expect_segment("a Read Response of no length")?;
    let wanted = Segment::read_response(read.sink_stag, read.sink_to, &[]);
    ensure(response == wanted, wanted.describe(), response.describe())?;
    alive(bench, &mut conn)
}

fn ready_send(bench: &mut Bench) -> Verdict {
    let (mut conn, _, limits) = replied(bench, |request| {
        (request.b, request.c, request.d) = (true, false, false);
    })?;
    if !limits.b {
        return Err(Stop::Skip("the Reply asks for another type".to_owned()));
    }
    let msn = conn.next_send();
    conn.send(&Segment::send(msn, &[]))?;
    alive(bench, &mut conn)
}

fn speaks(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.data = Wish::SpeakFirst.to_bytes().to_vec();
    let mut conn = bench.begin(&plan)?;
    match conn.answer("what the application sends, with the ready-to-receive message alone")? {
        Answer::Offer(_) => Ok(Pass::Right),
        other => Err(fail("the offer", format!("{other:?}"))),
    }
}

fn large_limits(bench: &mut Bench) -> Verdict {
    let (mut conn, reply, limits) = replied(bench, |request| {
        (request.ird, request.ord) = (0x3FFE, 0x3FFE);
    })?;
    ensure(
        limits.ird <= 0x3FFE && limits.ord <= 0x3FFE,
        "limits that are negotiated",
        format!("{limits:?}"),
    )?;
    give_ready(&mut conn, &reply)?;
    alive(bench, &mut conn)
}
