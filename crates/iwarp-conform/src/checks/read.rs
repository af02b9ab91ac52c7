//! RFC 5040 §5.2: RDMA Read, as responder and as requester.

use super::common::{
    Check, Conn, Need, Pass, Section, Step, Stop, Verdict, alive, check, ensure, fill, read_from,
    take_response,
};
use crate::bench::Bench;
use crate::judge::terminated;
use crate::service::{Region, RegionKind};
use crate::wire::{Code, ReadRequest, Segment};

const S: Section = Section::Read;
const R: &[Need] = &[Need::Readable];
const V: &[Need] = &[Need::Service];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAP-033.answered",
        "a Read is answered without the application, with the octets that are there",
        answered,
    )
    .needs(R)
    .also(&["RDMAP-030", "RDMAP-031"]),
    check(
        S,
        "RDMAP-035.sink",
        "the Response repeats sink STag and sink TO, whatever they are",
        sink,
    )
    .needs(R),
    check(
        S,
        "RDMAP-036.size",
        "the Response has exactly as many octets as were asked for",
        sizes,
    )
    .needs(R)
    .also(&["DDP-042"]),
    check(
        S,
        "RDMAP-038.zero",
        "a Read of no length is answered, with unknown source STag and TO",
        zero,
    )
    .also(&["RDMAP-039", "SEC-007"]),
    check(
        S,
        "RDMAP-040.zero",
        "its Response is one segment of no length, with the sink of the Request",
        zero_form,
    ),
    check(
        S,
        "RDMAP-034.order",
        "Responses come in the order of the Requests",
        order,
    )
    .needs(R)
    .also(&["RDMAP-101"]),
    check(
        S,
        "RDMAP-048.limit",
        "as many Reads as were agreed on are served at once",
        limit_served,
    )
    .needs(&[Need::Readable, Need::Enhanced]),
    check(
        S,
        "RDMAP-096.after-write",
        "a Read behind a Write returns what was written",
        after_write,
    )
    .needs(&[Need::ReadWrite]),
    check(
        S,
        "RDMAP-041.stag",
        "an unknown source STag: Terminate 0/1/00",
        unknown,
    ),
    check(
        S,
        "RDMAP-042.foreign",
        "a source STag of another stream: Terminate 0/1/03",
        foreign,
    )
    .responder()
    .needs(&[Need::Window])
    .also(&["SEC-001", "SEC-002"]),
    check(
        S,
        "RDMAP-043.rights",
        "a source without the right to be read: Terminate 0/1/02",
        rights_none,
    )
    .needs(&[Need::NoRights]),
    check(
        S,
        "RDMAP-043.write-only",
        "a source that may be written only: Terminate 0/1/02",
        rights_write,
    )
    .needs(&[Need::Writable])
    .also(&["SEC-006"]),
    check(
        S,
        "RDMAP-044.before",
        "a source TO in front of the region: Terminate 0/1/01",
        before,
    )
    .needs(R),
    check(
        S,
        "RDMAP-044.behind",
        "a source TO behind the region: Terminate 0/1/01",
        behind,
    )
    .needs(R),
    check(
        S,
        "RDMAP-045.across",
        "a Read across the end of the region: Terminate 0/1/01",
        across,
    )
    .needs(R)
    .also(&["SEC-004"]),
    check(
        S,
        "RDMAP-045.huge",
        "a Read of 2^32 - 1 octets: Terminate 0/1/01",
        huge,
    )
    .needs(R)
    .also(&["SEC-032"]),
    check(
        S,
        "RDMAP-046.wrap",
        "source TO plus size wraps: Terminate 0/1/04 or 0/1/01",
        wraps,
    )
    .needs(R)
    .also(&["SEC-032"]),
    check(
        S,
        "RDMAP-031.gap",
        "a Request number is left out: Terminate 1/2/03",
        gap,
    )
    .also(&["DDP-064"]),
    check(
        S,
        "RDMAP-032.last",
        "a Read Request with L = 0: Terminate 1/2/04",
        not_last,
    ),
    check(
        S,
        "RDMAP-032.offset",
        "a Read Request with MO 4: Terminate 1/2/04",
        offset,
    ),
    check(
        S,
        "RDMAP-049.overrun",
        "Reads beyond the agreed limit: Terminate 1/2/02 or 0/2/07",
        overrun,
    )
    .needs(&[Need::Readable, Need::Enhanced])
    .also(&["SEC-011"]),
    check(
        S,
        "RDMAP-050.unasked",
        "a Response that nobody asked for: Terminate 0/2/06 or 1/0/00",
        unasked,
    ),
    check(
        S,
        "RDMAP-032.sent",
        "the target's Read Requests are one segment of 28 octets",
        request_form,
    )
    .needs(V)
    .also(&["RDMAP-006"]),
    check(
        S,
        "RDMAP-030.own",
        "the target's own Reads take the octets of the Response",
        own,
    )
    .needs(V)
    .also(&["RDMAP-052"]),
    check(
        S,
        "RDMAP-047.limit",
        "the target never has more Reads outstanding than it may",
        ord,
    )
    .needs(&[Need::Service, Need::Enhanced]),
    check(
        S,
        "RDMAP-051.stag",
        "a Response through another STag: Terminate 1/1/00 or 1/1/01",
        response_stag,
    )
    .needs(V)
    .also(&["RDMAP-037"]),
    check(
        S,
        "RDMAP-051.to",
        "a Response to another place: Terminate 1/1/01 or 1/1/00",
        response_to,
    )
    .needs(V)
    .also(&["RDMAP-037"]),
    check(
        S,
        "RDMAP-036.long",
        "a Response longer than the Read: Terminate 1/1/01, 1/1/00 or 0/2/06",
        response_long,
    )
    .needs(V)
    .also(&["RDMAP-051"]),
    check(
        S,
        "RDMAP-036.short",
        "a Response that ends early: Terminate 1/1/01, 1/1/00 or 0/2/06",
        response_short,
    )
    .needs(V),
];

/// The region from which Reads fetch.
fn readable(conn: &Conn) -> Step<(u16, Region)> {
    conn.region(RegionKind::Shared, true, false)
}

fn answered(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = readable(&conn)?;
    for octet in [0x17, 0xE8] {
        fill(&mut conn, index, octet)?;
        let found = read_from(&mut conn, region, 3, 100)?;
        ensure(
            found == [octet; 100],
            format!("100 octets {octet:02x}"),
            crate::wire::hex(&found, 32),
        )?;
    }
    Ok(Pass::Right)
}

fn sink(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = readable(&conn)?;
    for (sink_stag, sink_to) in [
        (0, 0),
        (u32::MAX, u64::MAX - 15),
        (1, 0x0123_4567_89AB_CDEF),
    ] {
        let msn = conn.next_request();
        let request = ReadRequest {
            sink_stag,
            sink_to,
            size: 16,
            source_stag: region.stag,
            source_to: region.to,
        };
        conn.send(&Segment::read_request(msn, request))?;
        take_response(&mut conn, request)?;
    }
    Ok(Pass::Right)
}

fn sizes(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = readable(&conn)?;
    let whole = u32::try_from(region.length).unwrap_or(u32::MAX);
    for size in [1, 2, 3, 1_441, 40_000, whole] {
        read_from(&mut conn, region, 0, size.min(whole))?;
    }
    Ok(Pass::Right)
}

fn nowhere(sink_stag: u32) -> ReadRequest {
    ReadRequest {
        sink_stag,
        sink_to: 0x77,
        size: 0,
        source_stag: 0xDEAD_BEEF,
        source_to: u64::MAX - 1,
    }
}

fn zero(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_request();
    conn.send(&Segment::read_request(msn, nowhere(9)))?;
    take_response(&mut conn, nowhere(9))?;
    alive(bench, &mut conn)
}

fn zero_form(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_request();
    conn.send(&Segment::read_request(msn, nowhere(0x0BAD_CAFE)))?;
    let response = conn.expect_segment("a Read Response of no length")?;
    let wanted = Segment::read_response(0x0BAD_CAFE, 0x77, &[]);
    ensure(response == wanted, wanted.describe(), response.describe())?;
    Ok(Pass::Right)
}

/// Sends this many Read Requests in one piece, each with its own sink.
fn reads(conn: &mut Conn, region: Region, count: u32, size: u32) -> Step<Vec<ReadRequest>> {
    let requests: Vec<ReadRequest> = (0..count)
        .map(|i| ReadRequest {
            sink_stag: 0x6000_0000 + i,
            sink_to: u64::from(i) << 32,
            size,
            source_stag: region.stag,
            source_to: region.to,
        })
        .collect();
    let segments: Vec<Segment> = requests
        .iter()
        .map(|request| Segment::read_request(conn.next_request(), *request))
        .collect();
    conn.send_all(&segments)?;
    Ok(requests)
}

/// The IRD in the target's frame.
fn ird_of(conn: &Conn) -> Step<u16> {
    conn.frame
        .as_ref()
        .and_then(crate::wire::StartFrame::limits)
        .map(|limits| limits.ird)
        .filter(|ird| *ird < 0x3FFF)
        .ok_or_else(|| Stop::Skip("the target names no limit".to_owned()))
}

fn order(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = readable(&conn)?;
    let ird = ird_of(&conn).unwrap_or(1);
    let count = u32::from(ird.clamp(1, 4));
    for request in reads(&mut conn, region, count, 5_000)? {
        take_response(&mut conn, request)?;
    }
    Ok(Pass::Right)
}

fn limit_served(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = readable(&conn)?;
    let ird = ird_of(&conn)?.min(16);
    if ird == 0 {
        return Err(Stop::Skip("the target serves no Reads".to_owned()));
    }
    for request in reads(&mut conn, region, ird.into(), 20_000)? {
        take_response(&mut conn, request)?;
    }
    Ok(Pass::Right)
}

fn after_write(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, true, true)?;
    for round in 1..=8u8 {
        conn.send(&Segment::write(region.stag, region.to + 8, &[round; 256]))?;
        let found = read_from(&mut conn, region, 8, 256)?;
        ensure(
            found == [round; 256],
            format!("256 octets {round:02x}, as written before"),
            crate::wire::hex(&found, 32),
        )?;
    }
    Ok(Pass::Right)
}

/// Sends one bad Request after a legal start.
fn refused(bench: &mut Bench, request: ReadRequest, codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    refused_on(&mut conn, request, codes)
}

fn refused_on(conn: &mut Conn, request: ReadRequest, codes: &[Code]) -> Verdict {
    let msn = conn.next_request();
    conn.send(&Segment::read_request(msn, request))?;
    terminated(conn, codes)
}

fn source(size: u32, source_stag: u32, source_to: u64) -> ReadRequest {
    ReadRequest {
        sink_stag: 0x1122_3344,
        sink_to: 0,
        size,
        source_stag,
        source_to,
    }
}

fn unknown(bench: &mut Bench) -> Verdict {
    refused(bench, source(4, 0x00BA_DBAD, 0x1000), &[Code(0, 1, 0)])
}

fn of_region(
    bench: &mut Bench,
    (read, write): (bool, bool),
    make: impl FnOnce(Region) -> (u32, u64),
    codes: &[Code],
) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, read, write)?;
    let (size, to) = make(region);
    refused_on(&mut conn, source(size, region.stag, to), codes)
}

fn foreign(bench: &mut Bench) -> Verdict {
    let other = bench.open()?;
    let (_, window) = other.region(RegionKind::Window, true, true)?;
    let bad = source(4, window.stag, window.to);
    let verdict = refused(bench, bad, &[Code(0, 1, 3)])?;
    drop(other);
    Ok(verdict)
}

fn rights_none(bench: &mut Bench) -> Verdict {
    of_region(
        bench,
        (false, false),
        |region| (4, region.to),
        &[Code(0, 1, 2)],
    )
}

fn rights_write(bench: &mut Bench) -> Verdict {
    of_region(
        bench,
        (false, true),
        |region| (4, region.to),
        &[Code(0, 1, 2)],
    )
}

const BOUNDS: &[Code] = &[Code(0, 1, 1)];

fn before(bench: &mut Bench) -> Verdict {
    of_region(
        bench,
        (true, false),
        |region| (4, region.to.wrapping_sub(1)),
        BOUNDS,
    )
}

fn behind(bench: &mut Bench) -> Verdict {
    of_region(
        bench,
        (true, false),
        |region| (4, region.to + region.length),
        BOUNDS,
    )
}

fn across(bench: &mut Bench) -> Verdict {
    of_region(
        bench,
        (true, false),
        |region| (4, region.to + region.length - 3),
        BOUNDS,
    )
}

fn huge(bench: &mut Bench) -> Verdict {
    of_region(bench, (true, false), |region| (u32::MAX, region.to), BOUNDS)
}

fn wraps(bench: &mut Bench) -> Verdict {
    of_region(
        bench,
        (true, false),
        |_| (16, u64::MAX - 7),
        &[Code(0, 1, 4), Code(0, 1, 1)],
    )
}

fn malformed(bench: &mut Bench, edit: impl FnOnce(&mut Segment), codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    let mut segment = Segment::read_request(conn.request_msn, nowhere(1));
    edit(&mut segment);
    conn.send(&segment)?;
    terminated(&mut conn, codes)
}

fn gap(bench: &mut Bench) -> Verdict {
    malformed(bench, |segment| segment.msn += 1, &[Code(1, 2, 3)])
}

fn not_last(bench: &mut Bench) -> Verdict {
    malformed(
        bench,
        |segment| segment.last = false,
        &[Code(1, 2, 4), Code(0, 2, 6)],
    )
}

fn offset(bench: &mut Bench) -> Verdict {
    malformed(bench, |segment| segment.mo = 4, &[Code(1, 2, 4)])
}

fn overrun(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    (plan.enhanced.ird, plan.enhanced.ord) = (1, 1);
    let mut conn = bench.open_as(&plan)?;
    let (_, region) = readable(&conn)?;
    let ird = u32::from(ird_of(&conn)?);
    let size = u32::try_from(region.length).unwrap_or(u32::MAX);
    // Responses that the sockets between the two can hold are sent at once. This many exceed the sockets and the limit.
    let count = ird + 64 * 1024 * 1024 / size.max(1);
    if count > 4_096 {
        return Err(Stop::Skip(format!(
            "the region of {size} octets is too small to keep Reads outstanding"
        )));
    }
    reads(&mut conn, region, count, size)?;
    terminated(&mut conn, &[Code(1, 2, 2), Code(0, 2, 7)])
}

fn unasked(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    conn.send(&Segment::read_response(
        0x1122_3344,
        0,
        &[0xCA, 0xFE, 0xF0, 0x0D],
    ))?;
    terminated(&mut conn, &[Code(0, 2, 6), Code(1, 0, 0)])
}

fn request_form(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    super::tour::request(&mut conn, 100)?;
    super::common::no_fault(&conn, &["RDMAP-032"])
}

fn own(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    for length in [2, 1_000, 60_000] {
        let sum = super::tour::read(&mut conn, length)?;
        let wanted = crate::wire::crc32c(&crate::service::pattern_of(length as usize));
        ensure(
            sum == wanted,
            format!("{length} octets of the pattern in the target's memory"),
            "other octets",
        )?;
    }
    Ok(Pass::Right)
}

fn ord(bench: &mut Bench) -> Verdict {
    let mut plan = bench.plan();
    (plan.enhanced.ird, plan.enhanced.ord) = (2, 2);
    let mut conn = bench.open_as(&plan)?;
    super::replies::outstanding(&mut conn, 2)
}

fn wrong_response(bench: &mut Bench, edit: impl FnOnce(&mut Segment), codes: &[Code]) -> Verdict {
    let mut conn = bench.open()?;
    let asked = super::tour::request(&mut conn, 64)?;
    let mut response = Segment::read_response(asked.sink_stag, asked.sink_to, &[0x5C; 64]);
    edit(&mut response);
    conn.send(&response)?;
    terminated(&mut conn, codes)
}

fn response_stag(bench: &mut Bench) -> Verdict {
    wrong_response(
        bench,
        |it| it.stag ^= 0x0100,
        &[Code(1, 1, 0), Code(1, 1, 1)],
    )
}

fn response_to(bench: &mut Bench) -> Verdict {
    wrong_response(
        bench,
        |it| it.to = it.to.wrapping_add(64),
        &[Code(1, 1, 1), Code(1, 1, 0)],
    )
}

const SIZE: &[Code] = &[Code(1, 1, 1), Code(1, 1, 0), Code(0, 2, 6)];

fn response_long(bench: &mut Bench) -> Verdict {
    wrong_response(bench, |it| it.payload.resize(65, 0x5C), SIZE)
}

fn response_short(bench: &mut Bench) -> Verdict {
    wrong_response(bench, |it| it.payload.truncate(32), SIZE)
}
