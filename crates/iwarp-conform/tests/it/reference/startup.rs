//! Request and Reply of the reference target, both roles.

use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp_conform::service::{REJECTION, Wish};
use iwarp_conform::wire::{Code, Enhanced, ReadRequest, Segment, StartFrame, flag, opcode};
use iwarp_conform::{Conn, Seen};

use super::engine::Engine;
use super::{Break, World};

const LIMIT: u16 = 16;

/// A whole frame, and the octets behind it. `None` if the connection has to be closed.
fn frame(
    world: &World,
    conn: &mut Conn,
    limit: Duration,
    most: usize,
) -> Option<(StartFrame, Vec<u8>)> {
    let deadline = Instant::now() + limit;
    let mut octets = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match conn.octets(left) {
            Ok(Seen::It(more)) => octets.extend(more),
            _ => return None,
        }
        if world.breaks(Break::AnswersGarbage) && octets.starts_with(b"GET ") {
            conn.send_octets(b"HTTP/1.1 400 Bad Request\r\n\r\n").ok()?;
            return None;
        }
        let Some(header) = octets.first_chunk::<{ StartFrame::HEADER }>() else {
            continue;
        };
        let announced = StartFrame::announced(header);
        if announced > most {
            return None;
        }
        let whole = StartFrame::HEADER + announced;
        if octets.len() >= whole {
            let frame = StartFrame::decode(header, &octets[StartFrame::HEADER..whole]);
            return Some((frame, octets.split_off(whole)));
        }
    }
}

fn key_fits(world: &World, key: &[u8; 16], wanted: &[u8; 16]) -> bool {
    match world.options.broken {
        Break::FirstKeyOctet => key[1..] == wanted[1..],
        Break::LastKeyOctet => key[..15] == wanted[..15],
        Break::Collision => key == wanted || *key == StartFrame::REQUEST,
        _ => key == wanted,
    }
}

fn revision_fits(world: &World, revision: u8) -> bool {
    (1..=2).contains(&revision)
        || world.breaks(Break::Revision3) && revision == 3
        || world.breaks(Break::Revision255) && revision == 255
}

fn flags(world: &World) -> u8 {
    let bit = |set: bool, mask: u8| if set { mask } else { 0 };
    bit(world.options.crc, flag::CRC) | bit(world.options.markers, flag::MARKERS)
}

pub(crate) fn respond(world: &Arc<World>, mut conn: Conn) -> Option<Engine> {
    let most = match world.options.broken {
        Break::Data513 => 513,
        Break::Data512 => 511,
        _ => 512,
    };
    let (request, behind) = frame(world, &mut conn, world.options.startup, most)?;
    if !key_fits(world, &request.key, &StartFrame::REQUEST)
        || !revision_fits(world, request.revision)
        || !(behind.is_empty() || world.breaks(Break::EarlyFpdu))
    {
        return None;
    }
    let enhanced = request.revision >= 2 && request.flags & flag::ENHANCED != 0;
    if enhanced && request.limits().is_none() {
        return if world.breaks(Break::ShortEnhanced) && request.private.is_empty() {
            conn.send_octets(&StartFrame::plain(StartFrame::REPLY, 0, &[]).encode())
                .ok()?;
            None
        } else {
            None
        };
    }
    let offered = request.limits().filter(|_| enhanced);
    let data = if enhanced {
        request.data()
    } else {
        &request.private[..]
    }
    .to_vec();
    let wish = Wish::parse(&data);
    let mut reply = reply(world, &request, offered);
    if wish == Some(Wish::Reject)
        || world.breaks(Break::NoMarkers) && request.flags & flag::MARKERS != 0
    {
        reply.flags |= flag::REJECT;
        if !world.breaks(Break::SilentReject) {
            reply.private.extend(REJECTION);
        }
        conn.send_octets(&reply.encode()).ok()?;
        if world.breaks(Break::TalksAfterReject) {
            conn.send(&Segment::write(1, 0, &[])).ok()?;
        }
        conn.finish();
        let _ = conn.octets(world.options.startup);
        return None;
    }
    conn.send_octets(&reply.encode()).ok()?;
    conn.enter(
        (request.flags | reply.flags) & flag::CRC != 0,
        request.flags & flag::MARKERS != 0,
        reply.flags & flag::MARKERS != 0,
    );
    let limits = reply
        .limits()
        .filter(|_| reply.revision >= 2 && reply.flags & flag::ENHANCED != 0);
    let count = |limit: Option<u16>| limit.filter(|limit| *limit < 0x3FFF).unwrap_or(LIMIT);
    let mut engine = Engine::new(
        world,
        conn,
        count(limits.map(|limits| limits.ird)),
        count(limits.map(|limits| limits.ord)),
        &data,
    );
    engine.speak_first = wish == Some(Wish::SpeakFirst);
    engine.wants_ready = limits.is_some_and(|limits| limits.a);
    Some(engine)
}

fn reply(world: &World, request: &StartFrame, offered: Option<Enhanced>) -> StartFrame {
    let mut flags = flags(world);
    if world.breaks(Break::EchoesReserved) {
        flags |= request.flags & 0x07;
    }
    if world.breaks(Break::EchoesReject) {
        flags |= request.flags & flag::REJECT;
    }
    let mut reply = match offered {
        None => StartFrame::plain(StartFrame::REPLY, flags, &[]),
        Some(offered) => {
            let limits = answer_limits(world, offered);
            StartFrame::enhanced(StartFrame::REPLY, flags, limits, &[])
        }
    };
    reply.revision = request.revision.min(2);
    if world.breaks(Break::Rev1AnsweredAs2) && request.revision == 1 {
        reply.revision = 2;
    }
    if world.breaks(Break::PlainAnsweredEnhanced) && request.revision == 2 && offered.is_none() {
        reply.flags |= flag::ENHANCED;
        reply.private = vec![0; 4];
    }
    if world.breaks(Break::ReplyKey) {
        reply.key = *b"MPA ID REP Frame";
    }
    reply
}

fn answer_limits(world: &World, offered: Enhanced) -> Enhanced {
    let cut = |theirs: u16| {
        if theirs == 0x3FFF {
            theirs
        } else {
            theirs.min(LIMIT)
        }
    };
    let b = offered.a && !offered.c && !offered.d && offered.b;
    let c = offered.a && offered.c;
    let mut limits = Enhanced {
        a: offered.a,
        b,
        c,
        d: offered.a && !b && !c,
        ird: cut(offered.ord),
        ord: cut(offered.ird),
    };
    match world.options.broken {
        Break::OrdAboveOne if offered.ird == 1 => limits.ord = 2,
        Break::OrdAboveZero if offered.ird == 0 => limits.ord = 1,
        Break::IrdNotNegotiated if limits.ird == 0x3FFF => limits.ird = LIMIT,
        Break::OrdNotNegotiated if limits.ord == 0x3FFF => limits.ord = LIMIT,
        Break::AlwaysPeerToPeer if !offered.a => limits.a = true,
        Break::TypesWithoutA if !offered.a && !offered.c => limits.c = true,
        Break::NoTypeForSend if b => limits.b = false,
        Break::NoTypeForNone if offered.a && !(offered.b || offered.c || offered.d) => {
            limits.d = false;
        }
        _ => {}
    }
    limits
}

pub(crate) fn initiate(world: &Arc<World>, mut conn: Conn) -> Option<Engine> {
    let enhanced = Enhanced {
        a: true,
        b: true,
        c: true,
        d: true,
        ird: LIMIT,
        ord: LIMIT,
    };
    let mut request = StartFrame::enhanced(StartFrame::REQUEST, flags(world), enhanced, &[]);
    match world.options.broken {
        Break::RequestReserved => request.flags |= 1,
        Break::RequestReject => request.flags |= flag::REJECT,
        Break::RequestKey => request.key = *b"MPA ID REQ Frame",
        _ => {}
    }
    conn.send_octets(&request.encode()).ok()?;
    let most = if world.breaks(Break::Data513) {
        513
    } else {
        512
    };
    let (reply, _) = frame(world, &mut conn, Duration::from_secs(1), most)?;
    let rejected = reply.flags & flag::REJECT != 0 && !world.breaks(Break::TakesReject);
    let revision = reply.revision == 2 || world.breaks(Break::Revision255) && reply.revision == 255;
    if !key_fits(world, &reply.key, &StartFrame::REPLY) || !revision || rejected {
        return None;
    }
    if reply.flags & flag::ENHANCED != 0 && reply.limits().is_none() {
        return None;
    }
    conn.enter(
        (request.flags | reply.flags) & flag::CRC != 0,
        reply.flags & flag::MARKERS != 0,
        request.flags & flag::MARKERS != 0,
    );
    let limits = reply.limits().unwrap_or_default();
    let ord = match limits.ird {
        1 if world.breaks(Break::OrdAboveOne) => LIMIT,
        2 if world.breaks(Break::OrdAboveTwo) => LIMIT,
        ird => ird.min(LIMIT),
    };
    let ird = if limits.ord == 0x3FFF {
        LIMIT
    } else {
        limits.ord
    };
    let mut engine = Engine::new(world, conn, ird.min(LIMIT), ord, reply.data());
    if limits.ord > LIMIT && limits.ord != 0x3FFF && !world.breaks(Break::TakesAnyOrd) {
        engine.terminate(Code(2, 0, 6), None);
        return None;
    }
    if limits.a {
        ready(world, &mut engine, limits)?;
    }
    engine.speak_first = world.options.service;
    Some(engine)
}

/// The ready-to-receive message that the Reply asks for.
fn ready(world: &World, engine: &mut Engine, limits: Enhanced) -> Option<()> {
    let segment = if limits.c || world.breaks(Break::ReadyAlwaysWrite) && limits.d {
        Segment::write(1, 0, &[])
    } else if limits.d {
        let nothing = ReadRequest {
            sink_stag: 1,
            source_stag: 1,
            ..ReadRequest::default()
        };
        engine.ready_read = true;
        let msn = engine.next_msn(1);
        Segment::read_request(msn, nothing)
    } else if limits.b {
        let msn = engine.next_msn(0);
        Segment::untagged(opcode::SEND, 0, msn, &[])
    } else {
        let code = if world.breaks(Break::NoReadyCode) {
            Code(2, 0, 5)
        } else {
            Code(2, 0, 7)
        };
        engine.terminate(code, None);
        return None;
    };
    engine.conn.send(&segment).ok()
}
