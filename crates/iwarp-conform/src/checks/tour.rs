//! A tour of everything that a target sends, for the rules about the form of these messages.

use super::common::{Bench, Command, Conn, Seen, Segment, Step, fail};
use crate::conn::describe;
use crate::service::{Answer, RegionKind, pattern_of};
use crate::wire::{ReadRequest, crc32c, opcode};

/// Sends, Writes, Read Requests and Read Responses of the target, in one or in several segments.
pub(super) fn tour(bench: &mut Bench) -> Step<Conn> {
    let mut conn = bench.open()?;
    if bench.facts.service {
        for length in [0usize, 1, 2, 3, 4, 500] {
            conn.echo(&pattern_of(length))?;
        }
        emit(&mut conn, 20_000)?;
        let written = write(&mut conn, 0x1122_3344, 0x1001, 5_000)?;
        if written != pattern_of(5_000) {
            return Err(fail(
                "a Write of 5000 octets of the pattern",
                "other octets",
            ));
        }
        let sum = read(&mut conn, 3_000)?;
        if sum != crc32c(&pattern_of(3_000)) {
            return Err(fail(
                "a Read of 3000 octets lands in the target's memory",
                "another sum of octets",
            ));
        }
        if let Some(offer) = conn.offer.clone()
            && let Some((_, region)) = offer.region(RegionKind::Shared, true, false)
        {
            let size = u32::try_from(region.length.min(40_000)).unwrap_or(0);
            super::common::read_from(&mut conn, region, 0, size)?;
        }
    } else {
        super::common::alive(bench, &mut conn)?;
    }
    Ok(conn)
}

/// One message of the target of this many octets.
pub(super) fn emit(conn: &mut Conn, length: u32) -> Step<Vec<u8>> {
    let command = Command::Emit {
        length,
        solicited: false,
    };
    conn.say(&command.encode())?;
    let heard = conn.hear("a message of the pattern")?;
    if heard == pattern_of(length as usize) {
        return Ok(heard);
    }
    Err(fail(
        format!("a message of {length} octets of the pattern"),
        format!("{} other octets", heard.len()),
    ))
}

/// The Write of a target to an address that the suite makes up.
pub(super) fn write(conn: &mut Conn, stag: u32, to: u64, length: u32) -> Step<Vec<u8>> {
    conn.say(&Command::Write { stag, to, length }.encode())?;
    let mut written = vec![0; length as usize];
    let mut count = 0;
    loop {
        let segment = conn.expect_segment("a Write")?;
        if segment.opcode != opcode::WRITE {
            return Err(fail("a Write", segment.describe()));
        }
        let at = usize::try_from(segment.to.wrapping_sub(to)).unwrap_or(usize::MAX);
        let inside = at
            .checked_add(segment.payload.len())
            .and_then(|end| written.get_mut(at..end));
        let Some(place) = inside.filter(|_| segment.stag == stag) else {
            return Err(fail(
                "a Write to the memory it was told",
                segment.describe(),
            ));
        };
        place.copy_from_slice(&segment.payload);
        count += segment.payload.len();
        if segment.last {
            break;
        }
    }
    if count != written.len() {
        return Err(fail(
            format!("{length} octets are written"),
            format!("{count}"),
        ));
    }
    done(conn)?;
    Ok(written)
}

fn done(conn: &mut Conn) -> Step<u32> {
    match conn.answer("the command is done")? {
        Answer::Done(value) => Ok(value),
        other => Err(fail("the command is done", format!("{other:?}"))),
    }
}

/// The Read Request of a target that the suite had read once.
pub(super) fn request(conn: &mut Conn, length: u32) -> Step<ReadRequest> {
    let read = Command::Read {
        stag: 0x0A0B_0C0D,
        to: 0x2000,
        length,
        count: 1,
    };
    conn.say(&read.encode())?;
    let limit = conn.limits().answer;
    match conn.segment(limit)? {
        Seen::It(segment) if segment.opcode == opcode::READ_REQUEST => {
            ReadRequest::parse(&segment.payload)
                .ok_or_else(|| fail("a Read Request header", segment.describe()))
        }
        Seen::It(segment) => Err(fail("a Read Request", segment.describe())),
        other => Err(fail("a Read Request", describe(&other, limit))),
    }
}

/// The target reads the pattern from the suite; the CRC32c of what it found.
pub(super) fn read(conn: &mut Conn, length: u32) -> Step<u32> {
    let asked = request(conn, length)?;
    let pattern = pattern_of(asked.size as usize);
    let half = pattern.len() / 2;
    let (stag, to) = (asked.sink_stag, asked.sink_to);
    let first = Segment {
        last: false,
        ..Segment::read_response(stag, to, &pattern[..half])
    };
    let second = Segment::read_response(stag, to.wrapping_add(half as u64), &pattern[half..]);
    conn.send_all(&[first, second])?;
    done(conn)
}
