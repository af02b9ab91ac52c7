//! Invalid frames, and peers that do not go on: RFC 5044 §7.1.2, §8.

use std::time::{Duration, Instant};

use super::common::{Check, Need, Pass, Section, Verdict, check, fail};
use crate::bench::Bench;
use crate::conn::{Conn, Seen, describe};
use crate::judge::{Ending, ending};
use crate::wire::{Fpdu, Segment, StartFrame, flag, hex};
use conform_report::Step;

const S: Section = Section::Hostile;

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "MPA-003.first",
        "a Request with its first key octet changed: the target closes",
        key_first,
    )
    .responder()
    .also(&["MPA-021"]),
    check(
        S,
        "MPA-003.last",
        "a Request with its last key octet changed: the target closes",
        key_last,
    )
    .responder()
    .also(&["MPA-021"]),
    check(
        S,
        "MPA-003.reply-key",
        "a Reply sent to a Responder: the target closes",
        key_of_reply,
    )
    .responder()
    .also(&["MPA-021"]),
    check(
        S,
        "MPA-010.revision-3",
        "a Request of Rev 3: the target closes",
        revision_3,
    )
    .responder()
    .also(&["MPA-021"]),
    check(
        S,
        "MPA-010.revision-255",
        "a Request of Rev 255: the target closes",
        revision_255,
    )
    .responder()
    .also(&["MPA-021"]),
    check(
        S,
        "MPA-012.513",
        "a Request with 513 octets of Private Data: the target closes",
        data_513,
    )
    .responder()
    .also(&["MPA-021"]),
    check(
        S,
        "MPA-012.65535",
        "PD_Length 65535: the target closes, before an octet of the Private Data is sent",
        data_65535,
    )
    .responder()
    .also(&["MPA-021", "SEC-030"]),
    check(
        S,
        "MPA-015.fpdu",
        "an FPDU behind the Request and before the Reply: the target closes",
        early_fpdu,
    )
    .responder(),
    check(
        S,
        "MPA-021.garbage",
        "a stream that is not MPA: the target closes",
        garbage,
    )
    .responder(),
    check(
        S,
        "MPA-027.fin",
        "the end of the stream in the middle of a Request ends the attempt",
        fin_in_request,
    )
    .responder(),
    check(
        S,
        "MPA-027.reset",
        "a reset in the middle of a Request ends the attempt",
        reset_in_request,
    )
    .responder(),
    check(
        S,
        "MPA-004.first",
        "a Reply with its first key octet changed: the target closes",
        reply_first,
    )
    .initiator()
    .also(&["MPA-022"]),
    check(
        S,
        "MPA-004.last",
        "a Reply with its last key octet changed: the target closes",
        reply_last,
    )
    .initiator()
    .also(&["MPA-022"]),
    check(
        S,
        "MPA-005.collision",
        "a Request in place of the Reply: the target closes",
        collision,
    )
    .initiator()
    .also(&["MPA-022"]),
    check(
        S,
        "MPA-010.reply",
        "a Reply of Rev 255: the target closes",
        reply_255,
    )
    .initiator()
    .also(&["MPA-022"]),
    check(
        S,
        "MPA-012.reply",
        "a Reply with 513 octets of Private Data: the target closes",
        reply_513,
    )
    .initiator()
    .also(&["MPA-022"]),
    check(
        S,
        "MPA-022.garbage",
        "a frame that is not a Reply: the target closes",
        reply_garbage,
    )
    .initiator(),
    check(
        S,
        "MPA-027.reply",
        "the end of the stream in place of the Reply ends the attempt",
        fin_in_reply,
    )
    .initiator(),
    check(
        S,
        "MPA-023.silence",
        "a peer that sends no Request is given up",
        silence,
    )
    .responder()
    .should()
    .also(&["SEC-030"]),
    check(
        S,
        "MPA-024.trickle",
        "a peer that sends its Request very slowly is given up",
        slow,
    )
    .responder()
    .should()
    .also(&["SEC-030"]),
    check(
        S,
        "MPA-024.half",
        "a peer that stops inside its Request is given up",
        half,
    )
    .responder()
    .should(),
    check(
        S,
        "MPA-024.reply",
        "a peer that sends no Reply is given up",
        no_reply,
    )
    .initiator()
    .should(),
    check(
        S,
        "MPA-024.reply-trickle",
        "a peer that sends its Reply very slowly is given up",
        slow_reply,
    )
    .initiator()
    .should(),
    check(
        S,
        "SEC-031.half-open",
        "a hundred start-ups that fail do not stop another",
        super::security::half_open,
    )
    .responder(),
    check(
        S,
        "MPA2-020.zero",
        "ORD 0 with a ready-to-receive Read works",
        super::security::read_with_ord_zero,
    )
    .responder()
    .should()
    .needs(&[Need::Enhanced]),
    check(
        S,
        "SEC-033.first",
        "an error in the very first FPDU has the same effect as a later one",
        super::security::first,
    )
    .responder()
    .also(&["DDP-024"]),
];

/// Checks that the target closes, and sends no Reply.
fn closes(bench: &mut Bench, octets: &[u8]) -> Verdict {
    let mut conn = bench.dial()?;
    conn.send_octets(octets)?;
    let limit = conn.limits().startup;
    conn.expect_end("the end of the stream, and no Reply", limit)?;
    Ok(Pass::Right)
}

fn edited(bench: &mut Bench, edit: impl FnOnce(&mut StartFrame)) -> Verdict {
    let mut request = bench.plan().request();
    edit(&mut request);
    closes(bench, &request.encode())
}

fn key_first(bench: &mut Bench) -> Verdict {
    edited(bench, |request| request.key[0] ^= 1)
}

fn key_last(bench: &mut Bench) -> Verdict {
    edited(bench, |request| request.key[15] ^= 1)
}

fn key_of_reply(bench: &mut Bench) -> Verdict {
    edited(bench, |request| request.key = StartFrame::REPLY)
}

fn revision_3(bench: &mut Bench) -> Verdict {
    edited(bench, |request| request.revision = 3)
}

fn revision_255(bench: &mut Bench) -> Verdict {
    edited(bench, |request| request.revision = 255)
}

fn data_513(bench: &mut Bench) -> Verdict {
    let crc = if bench.wants.crc { flag::CRC } else { 0 };
    closes(
        bench,
        &StartFrame::plain(StartFrame::REQUEST, crc, &[7; 513]).encode(),
    )
}

fn data_65535(bench: &mut Bench) -> Verdict {
    let mut request = StartFrame::plain(StartFrame::REQUEST, 0, &[]);
    request.announced = Some(u16::MAX);
    closes(bench, &request.encode())
}

fn early_fpdu(bench: &mut Bench) -> Verdict {
    let mut octets = bench.plan().request().encode();
    octets.extend(Fpdu::new(Segment::write(1, 0, &[]).encode()).encode(None));
    closes(bench, &octets)
}

fn garbage(bench: &mut Bench) -> Verdict {
    closes(bench, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Waits until the target has had time to accept the connection, so that it ends during the start-up. SEC-031.half-open is
/// about connections that end before.
fn accepted(conn: &mut Conn) -> Step {
    let quiet = conn.limits().quiet;
    match conn.start_frame(quiet)? {
        Seen::Nothing => Ok(()),
        Seen::It(_) => Err(fail("nothing before the whole Request", "a frame")),
        other @ Seen::End(..) => Err(fail(
            "nothing before the whole Request",
            describe(&other, quiet),
        )),
    }
}

fn fin_in_request(bench: &mut Bench) -> Verdict {
    let octets = bench.plan().request().encode();
    let mut conn = bench.dial()?;
    conn.send_octets(&octets[..11])?;
    accepted(&mut conn)?;
    conn.finish();
    let limit = conn.limits().startup;
    conn.expect_end("the end of the stream", limit)?;
    Ok(Pass::Right)
}

fn reset_in_request(bench: &mut Bench) -> Verdict {
    let octets = bench.plan().request().encode();
    let mut conn = bench.dial()?;
    conn.send_octets(&octets[..11])?;
    accepted(&mut conn)?;
    conn.reset();
    // The probe after every check shows that the target has survived.
    Ok(Pass::Right)
}

/// Checks that the target ends its half. One stack first reports the reason in a Terminate 2/0/04 (PEER-017).
fn gives_up(conn: &mut Conn) -> Verdict {
    match ending(conn, "the end of the stream")? {
        Ending::Closed(_) => Ok(Pass::Right),
        Ending::Terminate(_, terminate) => Ok(Pass::Weak(format!(
            "Terminate {} first, outside full operation",
            terminate.code
        ))),
    }
}

fn answered(bench: &mut Bench, edit: impl FnOnce(&mut StartFrame)) -> Verdict {
    let (mut conn, request) = bench.request()?;
    let mut reply = bench.plan().reply(&request);
    edit(&mut reply);
    conn.send_octets(&reply.encode())?;
    refuses_reply(&mut conn)
}

/// Checks that no FPDU but a Terminate comes, and the end of the stream.
fn refuses_reply(conn: &mut Conn) -> Verdict {
    let limit = conn.limits().answer;
    let expected = "the end of the stream, and no FPDU";
    match conn.octets(limit)? {
        Seen::End(..) => Ok(Pass::Right),
        Seen::It(octets) if octets.get(3).is_some_and(|octet| octet & 0xF == 7) => Ok(Pass::Weak(
            "a Terminate outside full operation (PEER-017)".to_owned(),
        )),
        Seen::It(octets) => Err(fail(expected, hex(&octets, 48))),
        other @ Seen::Nothing => Err(fail(expected, describe(&other, limit))),
    }
}

fn reply_first(bench: &mut Bench) -> Verdict {
    answered(bench, |reply| reply.key[0] ^= 1)
}

fn reply_last(bench: &mut Bench) -> Verdict {
    answered(bench, |reply| reply.key[15] ^= 1)
}

fn collision(bench: &mut Bench) -> Verdict {
    answered(bench, |reply| reply.key = StartFrame::REQUEST)
}

fn reply_255(bench: &mut Bench) -> Verdict {
    answered(bench, |reply| reply.revision = 255)
}

fn reply_513(bench: &mut Bench) -> Verdict {
    answered(bench, |reply| reply.private.resize(513, 7))
}

fn reply_garbage(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bench.request()?;
    conn.send_octets(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")?;
    refuses_reply(&mut conn)
}

fn fin_in_reply(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bench.request()?;
    conn.finish();
    gives_up(&mut conn)
}

fn given_up(conn: &mut Conn, since: Instant, limit: Duration) -> Verdict {
    let left = limit.saturating_sub(since.elapsed());
    conn.expect_end("the target gives up a start-up that does not end", left)?;
    Ok(Pass::Right)
}

fn silence(bench: &mut Bench) -> Verdict {
    let since = Instant::now();
    let mut conn = bench.dial()?;
    let limit = conn.limits().startup;
    given_up(&mut conn, since, limit)
}

fn half(bench: &mut Bench) -> Verdict {
    let since = Instant::now();
    let octets = bench.plan().request().encode();
    let mut conn = bench.dial()?;
    conn.send_octets(&octets[..19])?;
    let limit = conn.limits().startup;
    given_up(&mut conn, since, limit)
}

fn slow(bench: &mut Bench) -> Verdict {
    let octets = bench.plan().request().encode();
    let conn = bench.dial()?;
    given_up_while(conn, &octets)
}

fn slow_reply(bench: &mut Bench) -> Verdict {
    let (conn, request) = bench.request()?;
    let octets = bench.plan().reply(&request).encode();
    given_up_while(conn, &octets)
}

/// The frame is sent so slowly that it would take twice as long as the suite waits.
fn given_up_while(mut conn: Conn, octets: &[u8]) -> Verdict {
    let limit = conn.limits().startup;
    let pause = limit * 2 / u32::try_from(octets.len()).unwrap_or(24);
    let since = Instant::now();
    for octet in octets {
        conn.send_octets(&[*octet])?;
        match conn.octets(pause)? {
            Seen::End(..) => return Ok(Pass::Right),
            Seen::It(octets) => {
                return Err(fail("no answer to a part of a frame", hex(&octets, 32)));
            }
            Seen::Nothing if since.elapsed() > limit => break,
            Seen::Nothing => {}
        }
    }
    Err(fail(
        "the target gives up a start-up that trickles",
        format!("it still waits after {limit:?}"),
    ))
}

fn no_reply(bench: &mut Bench) -> Verdict {
    let since = Instant::now();
    let (mut conn, _): (Conn, StartFrame) = bench.request()?;
    let limit = conn.limits().startup;
    given_up(&mut conn, since, limit)
}
