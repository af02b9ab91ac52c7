//! RFC 5044 §7.2, RFC 5040 §6.2: orderly ends, half-close, resets.

use super::common::{Check, Need, Pass, Section, Seen, Verdict, check, ensure, fail};
use crate::bench::Bench;
use crate::judge::closed;
use crate::service::{Command, RegionKind, pattern_of};
use crate::wire::{ReadRequest, Segment, Terminate, opcode};

const S: Section = Section::Close;
const V: &[Need] = &[Need::Service];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAP-112.peer",
        "the suite ends its half in good order: the target ends its own, without a Terminate",
        peer_closes,
    ),
    check(
        S,
        "RDMAP-112.target",
        "the target ends in good order: its half ends without a Terminate",
        target_closes,
    )
    .needs(V)
    .also(&["DDP-081"]),
    check(
        S,
        "MPA-090.queued",
        "what was sent before a graceful end still arrives",
        queued,
    )
    .needs(V)
    .also(&["DDP-082"]),
    check(
        S,
        "DDP-084.half",
        "after the suite's half has ended, a Response under way is sent to its end",
        half_closed,
    )
    .needs(&[Need::Readable])
    .should(),
    check(
        S,
        "RDMAP-114.reset",
        "a reset ends the stream, and nothing else",
        reset,
    ),
    check(
        S,
        "RDMAP-114.inside",
        "a reset inside an FPDU ends the stream, and nothing else",
        reset_inside,
    ),
];

fn peer_closes(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.finish();
    closed(&mut conn)
}

fn target_closes(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.say(&Command::Close.encode())?;
    closed(&mut conn)
}

fn queued(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let length = 200_000;
    conn.say(&Command::EmitAndClose { length }.encode())?;
    let heard = conn.hear("a message that was sent before the end")?;
    ensure(
        heard == pattern_of(length as usize),
        format!("{length} octets of the pattern"),
        format!("{} other octets", heard.len()),
    )?;
    closed(&mut conn)
}

fn half_closed(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, true, false)?;
    let size = u32::try_from(region.length).unwrap_or(u32::MAX);
    let msn = conn.next_request();
    let request = ReadRequest {
        sink_stag: 1,
        sink_to: 0,
        size,
        source_stag: region.stag,
        source_to: region.to,
    };
    conn.send(&Segment::read_request(msn, request))?;
    conn.finish();
    let mut count = 0;
    let limit = conn.limits().answer;
    let expected = format!("a Response of {size} octets, to its end");
    loop {
        match conn.segment(limit)? {
            Seen::It(segment) if segment.opcode == opcode::READ_RESPONSE => {
                count += segment.payload.len();
                if segment.last {
                    ensure(count == size as usize, expected, format!("{count} octets"))?;
                    return Ok(Pass::Right);
                }
            }
            Seen::It(segment) if segment.opcode == opcode::TERMINATE => {
                let code = Terminate::parse(&segment.payload, false).map(|it| it.code);
                return Err(fail(expected, format!("Terminate {code:?}")));
            }
            Seen::It(_) => {}
            other => {
                let seen = crate::conn::describe(&other, limit);
                return Err(fail(expected, format!("{count} octets, then {seen}")));
            }
        }
    }
}

fn reset(bench: &mut Bench) -> Verdict {
    let conn = bench.open()?;
    conn.reset();
    // The probe after every check shows that the target has survived.
    Ok(Pass::Right)
}

fn reset_inside(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send_octets(&[0, 100, 0x41, 0x43, 0, 0])?;
    conn.reset();
    Ok(Pass::Right)
}
