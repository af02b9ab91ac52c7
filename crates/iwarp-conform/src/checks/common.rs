//! Steps that checks of several sections share.

pub(super) use crate::bench::Bench;
pub(super) use crate::check::{Check, Need, Section, check};
pub(super) use crate::conn::{Conn, Seen};
pub(super) use crate::service::{Answer, Command, Region, RegionKind, Report};
pub(super) use crate::wire::{AtomicRequest, ReadRequest, Segment, opcode};
pub(super) use conform_report::{Pass, Step, Stop, Verdict, ensure, fail};

/// The content of a region from an offset on, fetched on its own connection.
pub(super) fn peek(bench: &mut Bench, region: u16, offset: u64, length: u16) -> Step<Vec<u8>> {
    let mut conn = bench.open()?;
    peek_on(&mut conn, region, offset, length)
}

/// The content of a region from an offset on, fetched on this connection.
pub(super) fn peek_on(conn: &mut Conn, region: u16, offset: u64, length: u16) -> Step<Vec<u8>> {
    let peek = Command::Peek {
        region,
        offset,
        length,
    };
    match conn.command(&peek)? {
        Answer::Octets(octets) => Ok(octets),
        other => Err(fail("octets of a region", format!("{other:?}"))),
    }
}

/// Fills a region with an octet.
pub(super) fn fill(conn: &mut Conn, region: u16, octet: u8) -> Step {
    match conn.command(&Command::Fill { region, octet })? {
        Answer::Done(_) => Ok(()),
        other => Err(fail("a region is filled", format!("{other:?}"))),
    }
}

/// Checks that a region still holds only `octet` there. `conn` ends first, because a target that connects has one
/// connection at a time.
pub(super) fn untouched(
    bench: &mut Bench,
    conn: Conn,
    region: u16,
    (offset, length): (u64, u16),
    octet: u8,
) -> Step {
    drop(conn);
    let found = peek(bench, region, offset, length)?;
    match found.iter().position(|found| *found != octet) {
        None if found.len() == usize::from(length) => Ok(()),
        None => Err(fail(
            format!("{length} octets of the region"),
            format!("{}", found.len()),
        )),
        Some(at) => Err(fail(
            format!("nothing is placed: octets {octet:02x}"),
            format!("octet {} is {:02x}", offset + at as u64, found[at]),
        )),
    }
}

/// The region that Writes go to, filled with an octet.
pub(super) fn writable(conn: &mut Conn, octet: u8) -> Step<(u16, Region)> {
    let found = conn.region(RegionKind::Shared, false, true)?;
    fill(conn, found.0, octet)?;
    Ok(found)
}

/// The target's report on test data of this connection.
pub(super) fn report(conn: &mut Conn) -> Step<Report> {
    match conn.command(&Command::Report)? {
        Answer::Report(report) => Ok(report),
        other => Err(fail("a report", format!("{other:?}"))),
    }
}

/// Checks that the target goes on working on this connection, by an echo, or by what works without an application.
pub(super) fn alive(bench: &Bench, conn: &mut Conn) -> Verdict {
    if bench.facts.service {
        conn.echo(b"alive?")?;
    } else {
        conn.works()?;
    }
    Ok(Pass::Right)
}

/// Checks that nothing that the target has sent violates one of these rows.
pub(super) fn no_fault(conn: &Conn, rows: &[&str]) -> Verdict {
    match conn.faults().iter().find(|fault| rows.contains(&fault.row)) {
        None => Ok(Pass::Right),
        Some(fault) => Err(fail(fault.expected.clone(), fault.seen.clone())),
    }
}

/// Returns true if the stream ended, instead of something arriving.
pub(super) fn is_end<T>(seen: &Seen<T>) -> bool {
    matches!(seen, Seen::End(..))
}

/// Reads this many octets and waits for all of them.
pub(super) fn read_from(conn: &mut Conn, region: Region, offset: u64, size: u32) -> Step<Vec<u8>> {
    let msn = conn.next_request();
    let request = ReadRequest {
        sink_stag: 0x5111_5111,
        sink_to: 0xF000,
        size,
        source_stag: region.stag,
        source_to: region.to + offset,
    };
    conn.send(&Segment::read_request(msn, request))?;
    take_response(conn, request)
}

/// Takes the Response to a Request, which has to go to the Request's sink.
pub(super) fn take_response(conn: &mut Conn, request: ReadRequest) -> Step<Vec<u8>> {
    let mut octets = Vec::new();
    loop {
        let segment = conn.expect_segment("a Read Response")?;
        if segment.opcode != opcode::READ_RESPONSE {
            return Err(fail("a Read Response", segment.describe()));
        }
        let to = request.sink_to.wrapping_add(octets.len() as u64);
        ensure(
            (segment.stag, segment.to) == (request.sink_stag, to),
            format!("a Response to STag {:#010x}, TO {to:#x}", request.sink_stag),
            segment.describe(),
        )?;
        octets.extend(&segment.payload);
        ensure(
            octets.len() <= request.size as usize,
            format!("{} octets", request.size),
            format!("{} and more", octets.len()),
        )?;
        if segment.last {
            ensure(
                octets.len() == request.size as usize,
                format!("{} octets", request.size),
                format!("{}", octets.len()),
            )?;
            return Ok(octets);
        }
    }
}
