//! RFC 5044 §7.1: Request and Reply, the fence, private data.

use super::common::{Check, Need, Pass, Section, Step, Stop, Verdict, alive, check, ensure, fail};
use crate::bench::{Bench, give_ready};
use crate::conn::{Conn, Seen, describe};
use crate::service::{Answer, REJECTION, Wish};
use crate::wire::{Enhanced, Segment, StartFrame, crc32c, flag, hex};

const S: Section = Section::Startup;

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "MPA-002.silent",
        "the Responder sends nothing before a Request",
        silent,
    )
    .responder(),
    check(
        S,
        "MPA-004.reply-key",
        "the Reply has the Reply key",
        reply_key,
    )
    .responder(),
    check(
        S,
        "MPA-006.reply",
        "Res bits of the Reply are 0",
        reply_reserved,
    )
    .responder(),
    check(
        S,
        "MPA-007.request",
        "Res bits of a Request are not checked, nor echoed",
        request_reserved,
    )
    .responder()
    .also(&["MPA-006"]),
    check(
        S,
        "MPA-008.request",
        "R in a Request is not checked, and does not leak into the Reply",
        request_rejected,
    )
    .responder(),
    check(
        S,
        "MPA-011.waits",
        "Private Data belongs to the frame: no Reply before all of it is there",
        waits_for_data,
    )
    .responder(),
    check(
        S,
        "MPA-013.512",
        "512 octets of Private Data are accepted, and given to the application unchanged",
        data_512,
    )
    .responder()
    .needs(&[Need::Service])
    .also(&["MPA2-035"]),
    check(
        S,
        "MPA-016.request",
        "a Request comes octet by octet",
        request_trickles,
    )
    .responder(),
    check(
        S,
        "MPA-018.reply",
        "nothing follows the Reply: no CRC, no marker, no FPDU",
        reply_alone,
    )
    .responder()
    .also(&["MPA-031", "MPA-017"]),
    check(
        S,
        "MPA-019.reject",
        "a rejection is a Reply with R = 1 and the application's Private Data",
        reject,
    )
    .responder()
    .needs(&[Need::Service])
    .should(),
    check(
        S,
        "MPA-020.reject",
        "after R = 1 no FPDU follows",
        reject_and_silence,
    )
    .responder()
    .needs(&[Need::Service]),
    check(
        S,
        "MPA-031.fence",
        "the Responder holds what its application sends until the first FPDU",
        fence,
    )
    .responder()
    .needs(&[Need::Service]),
    check(
        S,
        "MPA-033.wanted",
        "markers are generated when the peer asks for them",
        markers_wanted,
    )
    .also(&["MPA-032"]),
    check(
        S,
        "MPA-035.either",
        "CRCs are on when either side asks",
        crc_either,
    )
    .responder()
    .needs(&[Need::Service]),
    check(
        S,
        "MPA-029.revision-0",
        "a Request of Rev 0: the target closes, or answers in Rev 0 with M = C = 1",
        revision_0,
    )
    .responder(),
    check(
        S,
        "MPA-001.request",
        "the Initiator begins with one Request: key, Rev 1 or 2",
        request,
    )
    .initiator()
    .also(&["MPA-003", "MPA-009"]),
    check(
        S,
        "MPA-006.request",
        "Res bits of the Request are 0",
        request_res,
    )
    .initiator(),
    check(S, "MPA-008.sent", "R of the Request is 0", request_r).initiator(),
    check(
        S,
        "MPA-011.request",
        "PD_Length counts the Private Data: nothing follows it",
        request_alone,
    )
    .initiator()
    .also(&["MPA-030", "MPA-018"]),
    check(
        S,
        "MPA-007.reply",
        "Res bits of a Reply are not checked",
        reply_res_set,
    )
    .initiator(),
    check(
        S,
        "MPA-013.reply-512",
        "a Reply with 512 octets of Private Data is accepted",
        reply_512,
    )
    .initiator(),
    check(
        S,
        "MPA-016.reply",
        "a Reply comes octet by octet",
        reply_trickles,
    )
    .initiator(),
    check(
        S,
        "MPA-020.rejected",
        "after a Reply with R = 1 the Initiator sends no FPDU",
        rejected,
    )
    .initiator(),
    check(
        S,
        "MPA-035.reply",
        "CRCs are on when the Reply asks for them",
        crc_reply,
    )
    .initiator(),
];

fn silent(bench: &mut Bench) -> Verdict {
    let mut conn = bench.dial()?;
    conn.expect_quiet("nothing before a Request")?;
    conn.send_octets(&bench.plan().request().encode())?;
    let limit = conn.limits().answer;
    match conn.start_frame(limit)? {
        Seen::It(_) => Ok(Pass::Right),
        other => Err(fail("a Reply", describe(&other, limit))),
    }
}

fn reply_key(bench: &mut Bench) -> Verdict {
    let (_, reply) = bench.ask(&bench.plan().request())?;
    ensure(
        reply.key == StartFrame::REPLY,
        "the 16 octets of the Reply key",
        hex(&reply.key, 16),
    )?;
    Ok(Pass::Right)
}

fn no_reserved(frame: &StartFrame) -> Verdict {
    let s = frame.flags & flag::ENHANCED != 0 && frame.revision >= 2;
    let reserved = if s {
        flag::RESERVED
    } else {
        flag::RESERVED | flag::ENHANCED
    };
    ensure(
        frame.flags & reserved == 0,
        "Res bits 0",
        format!("flags {:#04x}", frame.flags),
    )?;
    Ok(Pass::Right)
}

fn reply_reserved(bench: &mut Bench) -> Verdict {
    let (_, reply) = bench.ask(&bench.plan().request())?;
    no_reserved(&reply)
}

fn request_reserved(bench: &mut Bench) -> Verdict {
    let mut request = bench.plan().request();
    request.flags |= 0x07; // one bit has a private meaning for one stack (PEER-018)
    let (mut conn, reply) = bench.accepted(&request)?;
    no_reserved(&reply)?;
    give_ready(&mut conn, &reply)?;
    alive(bench, &mut conn)
}

fn request_rejected(bench: &mut Bench) -> Verdict {
    let mut request = bench.plan().request();
    request.flags |= flag::REJECT;
    let (mut conn, reply) = bench.accepted(&request)?;
    give_ready(&mut conn, &reply)?;
    alive(bench, &mut conn)
}

fn waits_for_data(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.data = b"eight oc".to_vec();
    let octets = plan.request().encode();
    let (head, tail) = octets.split_at(octets.len() - 4);
    let mut conn = bench.dial()?;
    conn.send_octets(head)?;
    conn.expect_quiet("no Reply before the last octet of Private Data")?;
    conn.send_octets(tail)?;
    let limit = conn.limits().answer;
    match conn.start_frame(limit)? {
        Seen::It(_) => Ok(Pass::Right),
        other => Err(fail("a Reply to a whole Request", describe(&other, limit))),
    }
}

fn data_512(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.data = (0..508u16).map(|i| i.to_be_bytes()[1] ^ 0x5A).collect();
    let conn = bench.open_as(&plan)?;
    let offer = conn.offer.clone().unwrap_or_default();
    ensure(
        (offer.private_length, offer.private_crc) == (508, crc32c(&plan.data)),
        "508 octets of the application, unchanged",
        format!(
            "{} octets, CRC32c {:#x}",
            offer.private_length, offer.private_crc
        ),
    )?;
    Ok(Pass::Right)
}

fn trickle(conn: &mut Conn, octets: &[u8]) -> Step {
    octets
        .iter()
        .try_for_each(|octet| conn.send_octets(&[*octet]))
}

fn request_trickles(bench: &mut Bench) -> Verdict {
    let mut conn = bench.dial()?;
    trickle(&mut conn, &bench.plan().request().encode())?;
    let limit = conn.limits().answer;
    match conn.start_frame(limit)? {
        Seen::It(reply) => {
            ensure(
                reply.flags & flag::REJECT == 0,
                "an accepting Reply",
                format!("flags {:#04x}", reply.flags),
            )?;
            Ok(Pass::Right)
        }
        other => Err(fail("a Reply", describe(&other, limit))),
    }
}

fn reply_alone(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bench.accepted(&bench.plan().request())?;
    conn.expect_quiet("nothing behind the Reply before the first FPDU of the Initiator")?;
    Ok(Pass::Right)
}

fn rejecting(bench: &mut Bench) -> Step<(Conn, StartFrame)> {
    let mut plan = bench.plan();
    plan.data = Wish::Reject.to_bytes().to_vec();
    bench.ask(&plan.request())
}

fn reject(bench: &mut Bench) -> Verdict {
    let (_, reply) = rejecting(bench)?;
    ensure(
        reply.flags & flag::REJECT != 0,
        "R = 1 where the application rejects",
        format!("flags {:#04x}", reply.flags),
    )?;
    ensure(
        reply.data() == REJECTION,
        format!("Private Data {}", hex(REJECTION, 32)),
        hex(reply.data(), 32),
    )?;
    Ok(Pass::Right)
}

fn reject_and_silence(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = rejecting(bench)?;
    let quiet = conn.limits().quiet;
    match conn.octets(quiet)? {
        Seen::It(octets) => Err(fail("nothing behind a Reply with R = 1", hex(&octets, 32))),
        Seen::End(..) | Seen::Nothing => Ok(Pass::Right),
    }
}

fn fence(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.revision = 1;
    plan.data = Wish::SpeakFirst.to_bytes().to_vec();
    let (mut conn, _) = bench.accepted(&plan.request())?;
    conn.expect_quiet("no FPDU of the Responder before one of the Initiator")?;
    conn.send(&Segment::write(1, 0, &[]))?;
    match conn.answer("what the application sends, once the fence is open")? {
        Answer::Offer(_) => Ok(Pass::Right),
        other => Err(fail("the offer", format!("{other:?}"))),
    }
}

fn markers_wanted(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.markers = true;
    let mut conn = if bench.target_is_initiator() {
        let (mut conn, request) = bench.request()?;
        let reply = plan.reply(&request);
        conn.send_octets(&reply.encode())?;
        conn.enter(
            (request.flags | reply.flags) & flag::CRC != 0,
            request.flags & flag::MARKERS != 0,
            true,
        );
        crate::bench::take_ready(&mut conn, &reply)?;
        conn
    } else {
        let (mut conn, reply) = bench.accepted(&plan.request())?;
        give_ready(&mut conn, &reply)?;
        conn
    };
    let first = conn.inbound.markers;
    if !bench.target_is_initiator() {
        alive(bench, &mut conn)?;
    } else if first == 0 {
        conn.expect_segment("an FPDU with a marker in front")?;
    }
    ensure(
        conn.inbound.markers > 0,
        "a marker in front of the first FPDU",
        "none",
    )?;
    Ok(Pass::Right)
}

fn crc_either(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.crc = true;
    let mut conn = bench.open_as(&plan)?;
    conn.echo(b"with a CRC that is good")?;
    super::common::no_fault(&conn, &["MPA-055"])
}

fn revision_0(bench: &mut Bench) -> Verdict {
    let mut request = StartFrame::plain(StartFrame::REQUEST, flag::CRC | flag::MARKERS, &[]);
    request.revision = 0;
    let mut conn = bench.dial()?;
    conn.send_octets(&request.encode())?;
    let limit = conn.limits().startup;
    let expected = "the end of the stream, or a Reply of Rev 0 with M = C = 1";
    match conn.start_frame(limit)? {
        Seen::End(..) => Ok(Pass::Right),
        Seen::It(reply) => {
            let both = flag::CRC | flag::MARKERS;
            ensure(
                reply.revision == 0
                    && (reply.flags & both == both || reply.flags & flag::REJECT != 0),
                expected,
                format!("Rev {}, flags {:#04x}", reply.revision, reply.flags),
            )?;
            Ok(Pass::Right)
        }
        Seen::Nothing => Err(fail(expected, format!("nothing for {limit:?}"))),
    }
}

fn request(bench: &mut Bench) -> Verdict {
    let (_, request) = bench.request()?;
    ensure(
        request.key == StartFrame::REQUEST,
        "the 16 octets of the Request key",
        hex(&request.key, 16),
    )?;
    ensure(
        (1..=2).contains(&request.revision),
        "Rev 1 or 2",
        format!("{}", request.revision),
    )?;
    Ok(Pass::Right)
}

fn request_res(bench: &mut Bench) -> Verdict {
    let (_, request) = bench.request()?;
    no_reserved(&request)
}

fn request_r(bench: &mut Bench) -> Verdict {
    let (_, request) = bench.request()?;
    ensure(
        request.flags & flag::REJECT == 0,
        "R = 0",
        format!("flags {:#04x}", request.flags),
    )?;
    Ok(Pass::Right)
}

fn request_alone(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bench.request()?;
    conn.expect_quiet("nothing behind the Request before the Reply")?;
    Ok(Pass::Right)
}

/// Answers the target's Request with an edited Reply, and sees whether the connection works.
fn works_with(bench: &mut Bench, edit: impl FnOnce(&mut StartFrame, &mut Conn) -> Step) -> Verdict {
    let (mut conn, request) = bench.request()?;
    let mut reply = bench.plan().reply(&request);
    edit(&mut reply, &mut conn)?;
    conn.enter(
        (request.flags | reply.flags) & flag::CRC != 0,
        request.flags & flag::MARKERS != 0,
        reply.flags & flag::MARKERS != 0,
    );
    crate::bench::take_ready(&mut conn, &reply)?;
    if bench.facts.service {
        match conn.answer("the offer of a target that connects")? {
            Answer::Offer(_) => {}
            other => return Err(fail("an offer", format!("{other:?}"))),
        }
    }
    alive(bench, &mut conn)
}

fn reply_res_set(bench: &mut Bench) -> Verdict {
    works_with(bench, |reply, conn| {
        reply.flags |= 0x07;
        conn.send_octets(&reply.encode())
    })
}

fn reply_512(bench: &mut Bench) -> Verdict {
    works_with(bench, |reply, conn| {
        reply.private.resize(512, 0xA5);
        conn.send_octets(&reply.encode())
    })
}

fn reply_trickles(bench: &mut Bench) -> Verdict {
    works_with(bench, |reply, conn| trickle(conn, &reply.encode()))
}

fn rejected(bench: &mut Bench) -> Verdict {
    let (mut conn, request) = bench.request()?;
    let mut reply = bench.plan().reply(&request);
    reply.flags |= flag::REJECT;
    conn.send_octets(&reply.encode())?;
    let quiet = conn.limits().quiet;
    match conn.octets(quiet)? {
        Seen::It(octets) => Err(fail("no FPDU after a rejection", hex(&octets, 32))),
        Seen::End(..) | Seen::Nothing => Ok(Pass::Right),
    }
}

fn crc_reply(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    plan.crc = true;
    let mut conn = bench.begin(&plan)?;
    if conn.inbound.segments == 0 {
        conn.expect_segment("an FPDU of the Initiator")?;
    }
    super::common::no_fault(&conn, &["MPA-055"])
}

/// Returns the limits that a frame names.
pub(super) fn limits_of(frame: &StartFrame) -> Step<Enhanced> {
    frame.limits().ok_or_else(|| {
        Stop::Skip(format!(
            "the target does not speak Rev 2 with S = 1 (Rev {}, flags {:#04x})",
            frame.revision, frame.flags
        ))
    })
}
