//! RFC 7306: Atomic operations and Immediate Data. Targets without them have to refuse them.

use super::common::{
    AtomicRequest, Check, Conn, Need, Pass, Section, Step, Verdict, check, ensure, fail, fill,
    no_fault, opcode,
};
use crate::bench::Bench;
use crate::conn::Seen;
use crate::judge::{ended, sample, terminated};
use crate::service::{Command, Region, RegionKind};
use crate::wire::{AtomicResponse, Code, Segment, queue};

const S: Section = Section::Extensions;
const A: &[Need] = &[Need::Atomics, Need::ReadWrite];
const I: &[Need] = &[Need::Immediate, Need::Service];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "RDMAPX-001.atomic",
        "without Atomics, an Atomic Request: Terminate 0/2/06",
        refused,
    )
    .needs(&[Need::NoAtomics]),
    check(
        S,
        "RDMAPX-001.response",
        "an Atomic Response that nobody asked for ends the stream",
        unasked,
    ),
    check(
        S,
        "RDMAPX-019.add",
        "FetchAdd adds, and returns the value before",
        add,
    )
    .needs(A)
    .also(&["RDMAPX-008", "RDMAPX-002", "RDMAPX-021"]),
    check(
        S,
        "RDMAPX-019.fields",
        "a mask of FetchAdd cuts the carry",
        add_fields,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-020.swap",
        "CmpSwap swaps where it finds what it compares with",
        swap,
    )
    .needs(A)
    .also(&["RDMAPX-002"]),
    check(
        S,
        "RDMAPX-020.other",
        "CmpSwap changes nothing where it does not",
        no_swap,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-020.masks",
        "CmpSwap compares and swaps under its masks",
        swap_masks,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-005.form",
        "the Response goes to queue 3, from MSN 1 on",
        response_form,
    )
    .needs(A)
    .also(&["RDMAPX-014"]),
    check(
        S,
        "RDMAPX-003.sent",
        "RV is 01 and Invalidate STag 0 in Atomic Responses",
        response_fields,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-012.identifier",
        "the Response repeats the Request Identifier",
        identifier,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-004.shared",
        "Atomic and Read Requests share one sequence of numbers",
        shared,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-013.order",
        "Atomics are answered in the order they came",
        order,
    )
    .needs(A)
    .also(&["RDMAPX-006"]),
    check(
        S,
        "RDMAPX-016.after",
        "an Atomic behind a Write finds it placed",
        after_write,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-028.ignored",
        "reserved bits of an Atomic Request are ignored",
        reserved,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-010.aligned",
        "a target that is not aligned: Terminate 0/2/07",
        unaligned,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-010.unchanged",
        "and nothing is changed",
        unaligned_unchanged,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-009.operation",
        "an unknown operation: Terminate 0/2/06, 0/2/07 or 0/2/ff",
        unknown_operation,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-011.stag",
        "an unknown STag: Terminate 0/1/00",
        unknown_stag,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-011.bounds",
        "a target behind the region: Terminate 0/1/01",
        bounds,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-011.rights",
        "a target that may be read only: Terminate 0/1/02",
        rights,
    )
    .needs(&[Need::Atomics, Need::Readable]),
    check(
        S,
        "RDMAPX-026.headers",
        "a Terminate about an Atomic has a DDP header and R = 0",
        headers,
    )
    .needs(A),
    check(
        S,
        "RDMAPX-022.immediate",
        "Immediate Data shares the numbers of Sends, and a Receive",
        immediate,
    )
    .needs(I),
    check(
        S,
        "RDMAPX-022.solicited",
        "Immediate Data with Solicited Event likewise",
        immediate_solicited,
    )
    .needs(I),
    check(
        S,
        "RDMAPX-023.short",
        "Immediate Data of 4 octets ends the stream",
        immediate_short,
    )
    .needs(I),
    check(
        S,
        "RDMAPX-023.long",
        "Immediate Data of 12 octets: Terminate 1/2/05 or 0/2/ff",
        immediate_long,
    )
    .needs(I),
];

/// Returns true if the target answers a FetchAdd of 0, which changes nothing (RDMAPX-021).
pub(crate) fn takes_atomics(bench: &mut Bench) -> Step<bool> {
    let mut conn = bench.open()?;
    let Ok((_, region)) = target(&conn) else {
        return Ok(false);
    };
    let request = AtomicRequest {
        stag: region.stag,
        to: region.to,
        ..AtomicRequest::default()
    };
    let msn = conn.next_request();
    conn.send(&Segment::atomic_request(msn, request))?;
    answers(&mut conn, opcode::ATOMIC_RESPONSE)
}

/// Returns true if the target still answers a Send behind Immediate Data.
pub(crate) fn takes_immediate(bench: &mut Bench) -> Step<bool> {
    if !bench.facts.service {
        return Ok(false);
    }
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    conn.send(&Segment::untagged(
        opcode::IMMEDIATE,
        queue::SEND,
        msn,
        &[0; 8],
    ))?;
    conn.say(&Command::Echo(b"immediate".to_vec()).encode())?;
    answers(&mut conn, opcode::SEND)
}

fn answers(conn: &mut Conn, wanted: u8) -> Step<bool> {
    let limit = conn.limits().answer;
    Ok(matches!(conn.segment(limit)?, Seen::It(segment) if segment.opcode == wanted))
}

fn target(conn: &Conn) -> Step<(u16, Region)> {
    conn.region(RegionKind::Shared, true, true)
}

fn atomic_request(region: Region) -> AtomicRequest {
    AtomicRequest {
        identifier: 0xA0A0_A0A0,
        stag: region.stag,
        to: region.to,
        compare_mask: u64::MAX,
        ..AtomicRequest::default()
    }
}

fn perform(conn: &mut Conn, request: AtomicRequest) -> Step<AtomicResponse> {
    let msn = conn.next_request();
    conn.send(&Segment::atomic_request(msn, request))?;
    let segment = conn.expect_segment("an Atomic Response")?;
    AtomicResponse::parse(&segment.payload)
        .filter(|_| {
            segment.opcode == opcode::ATOMIC_RESPONSE
                && segment.payload.len() == AtomicResponse::LEN
        })
        .ok_or_else(|| fail("an Atomic Response of 12 octets", segment.describe()))
}

/// A connection with the target word set to `value`, whatever the byte order of the target's memory.
fn word(bench: &mut Bench, value: u64) -> Step<(Conn, u16, Region)> {
    let mut conn = bench.open()?;
    let (index, region) = target(&conn)?;
    fill(&mut conn, index, 0)?;
    let set = AtomicRequest {
        operation: AtomicRequest::FETCH_ADD,
        data: value,
        ..atomic_request(region)
    };
    let before = perform(&mut conn, set)?;
    ensure(
        before.value == 0,
        "0, as filled",
        format!("{:#x}", before.value),
    )?;
    Ok((conn, index, region))
}

/// The present value of the target word.
fn now(conn: &mut Conn, region: Region) -> Step<u64> {
    perform(conn, atomic_request(region)).map(|response| response.value)
}

fn changes(
    bench: &mut Bench,
    from: u64,
    to: u64,
    edit: impl FnOnce(&mut AtomicRequest),
) -> Verdict {
    let (mut conn, _, region) = word(bench, from)?;
    let mut request = atomic_request(region);
    edit(&mut request);
    let old = perform(&mut conn, request)?.value;
    ensure(
        old == from,
        format!("the value before, {from:#x}"),
        format!("{old:#x}"),
    )?;
    let new = now(&mut conn, region)?;
    ensure(
        new == to,
        format!("{to:#x} afterwards"),
        format!("{new:#x}"),
    )?;
    Ok(Pass::Right)
}

fn refused(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_request();
    conn.send(&Segment::atomic_request(msn, AtomicRequest::default()))?;
    // A target that has Atomics, but no memory for them, refuses the STag.
    terminated(&mut conn, &[Code(0, 2, 6), Code(0, 1, 0)])
}

fn unasked(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let response = AtomicResponse {
        identifier: 1,
        value: 2,
    };
    conn.send(&Segment::untagged(
        opcode::ATOMIC_RESPONSE,
        queue::ATOMIC_RESPONSE,
        1,
        &response.to_bytes(),
    ))?;
    ended(&mut conn)
}

fn add(bench: &mut Bench) -> Verdict {
    changes(bench, 0xFF, 0x101, |request| request.data = 2)
}

fn add_fields(bench: &mut Bench) -> Verdict {
    // Two fields of 32 bits: the lower one overflows, and the upper one does not change.
    changes(
        bench,
        0x0000_0001_FFFF_FFFF,
        0x0000_0002_0000_0000,
        |request| {
            request.data = 0x0000_0001_0000_0001;
            request.mask = 0x8000_0000_8000_0000;
        },
    )
}

fn swap(bench: &mut Bench) -> Verdict {
    changes(bench, 7, 0x1122_3344_5566_7788, |request| {
        request.operation = AtomicRequest::COMPARE_SWAP;
        request.compare = 7;
        request.data = 0x1122_3344_5566_7788;
        request.mask = u64::MAX;
    })
}

fn no_swap(bench: &mut Bench) -> Verdict {
    changes(bench, 7, 7, |request| {
        request.operation = AtomicRequest::COMPARE_SWAP;
        request.compare = 8;
        request.data = 0x1122_3344_5566_7788;
        request.mask = u64::MAX;
    })
}

fn swap_masks(bench: &mut Bench) -> Verdict {
    changes(bench, 0xAAAA_0007, 0xAAAA_00FF, |request| {
        request.operation = AtomicRequest::COMPARE_SWAP;
        request.compare = 0x0000_0007;
        request.compare_mask = 0x0000_000F;
        request.data = 0x5555_55FF;
        request.mask = 0x0000_00FF;
    })
}

fn response_form(bench: &mut Bench) -> Verdict {
    let (conn, _, _) = word(bench, 1)?;
    no_fault(&conn, &["RDMAPX-005", "RDMAPX-014"])
}

fn response_fields(bench: &mut Bench) -> Verdict {
    let (conn, _, _) = word(bench, 1)?;
    no_fault(&conn, &["RDMAPX-003"])
}

fn identifier(bench: &mut Bench) -> Verdict {
    let (mut conn, _, region) = word(bench, 1)?;
    for identifier in [0, 0xDEAD_BEEF, u32::MAX] {
        let request = AtomicRequest {
            identifier,
            ..atomic_request(region)
        };
        let response = perform(&mut conn, request)?;
        ensure(
            response.identifier == identifier,
            format!("{identifier:#010x}"),
            format!("{:#010x}", response.identifier),
        )?;
    }
    Ok(Pass::Right)
}

fn shared(bench: &mut Bench) -> Verdict {
    let (mut conn, _, region) = word(bench, 1)?;
    super::common::read_from(&mut conn, region, 0, 8)?;
    let value = now(&mut conn, region)?;
    ensure(value == 1, "1", format!("{value:#x}"))?;
    Ok(Pass::Right)
}

fn order(bench: &mut Bench) -> Verdict {
    let (mut conn, _, region) = word(bench, 0)?;
    let segments: Vec<Segment> = (0..8)
        .map(|identifier| {
            let request = AtomicRequest {
                identifier,
                data: 1,
                ..atomic_request(region)
            };
            Segment::atomic_request(conn.next_request(), request)
        })
        .collect();
    conn.send_all(&segments)?;
    for i in 0..8u32 {
        let segment = conn.expect_segment("an Atomic Response")?;
        let response = AtomicResponse::parse(&segment.payload);
        ensure(
            response.is_some_and(|it| (it.identifier, it.value) == (i, u64::from(i))),
            format!("the answer to Atomic {i}, with {i}"),
            format!("{response:?}"),
        )?;
    }
    Ok(Pass::Right)
}

fn after_write(bench: &mut Bench) -> Verdict {
    let (mut conn, _, region) = word(bench, 1)?;
    // The same in either byte order.
    conn.send(&Segment::write(region.stag, region.to, &[0x5C; 8]))?;
    let value = now(&mut conn, region)?;
    ensure(
        value == 0x5C5C_5C5C_5C5C_5C5C,
        "the eight octets that were written",
        format!("{value:#x}"),
    )?;
    Ok(Pass::Right)
}

fn reserved(bench: &mut Bench) -> Verdict {
    changes(bench, 5, 6, |request| {
        request.operation |= 0xFFFF_FFF0;
        request.data = 1;
    })
}

fn bad(bench: &mut Bench, edit: impl FnOnce(&mut AtomicRequest)) -> Step<(Conn, u16)> {
    let (mut conn, index, region) = word(bench, 0)?;
    let mut request = atomic_request(region);
    request.data = 0x0101_0101_0101_0101;
    edit(&mut request);
    let msn = conn.next_request();
    conn.send(&Segment::atomic_request(msn, request))?;
    Ok((conn, index))
}

fn unaligned(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bad(bench, |request| request.to += 4)?;
    terminated(&mut conn, &[Code(0, 2, 7)])
}

fn unaligned_unchanged(bench: &mut Bench) -> Verdict {
    let (mut conn, index) = bad(bench, |request| request.to += 4)?;
    ended(&mut conn)?;
    super::common::untouched(bench, conn, index, (0, 16), 0)?;
    Ok(Pass::Right)
}

fn unknown_operation(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bad(bench, |request| request.operation = 0xE)?;
    terminated(&mut conn, &[Code(0, 2, 6), Code(0, 2, 7), Code(0, 2, 0xFF)])
}

fn unknown_stag(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bad(bench, |request| request.stag = 0x00BA_DBAD)?;
    terminated(&mut conn, &[Code(0, 1, 0)])
}

fn bounds(bench: &mut Bench) -> Verdict {
    let offer = bench.facts.offer.clone().unwrap_or_default();
    let length = offer
        .region(RegionKind::Shared, true, true)
        .map_or(0, |(_, region)| region.length);
    let (mut conn, _) = bad(bench, |request| request.to += length)?;
    terminated(&mut conn, &[Code(0, 1, 1)])
}

fn rights(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, true, false)?;
    let msn = conn.next_request();
    conn.send(&Segment::atomic_request(msn, atomic_request(region)))?;
    terminated(&mut conn, &[Code(0, 1, 2)])
}

fn headers(bench: &mut Bench) -> Verdict {
    let (mut conn, _) = bad(bench, |request| request.stag = 0x00BA_DBAD)?;
    let (_, terminate) = sample(&mut conn, &[Code(0, 1, 0)])?;
    ensure(
        terminate.flags == 0xC0 && terminate.header.is_some(),
        "M = D = 1, R = 0, and a DDP header",
        format!("M D R = {:03b}", terminate.flags >> 5),
    )?;
    Ok(Pass::Right)
}

fn immediately(bench: &mut Bench, opcode: u8) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    conn.send(&Segment::untagged(
        opcode,
        queue::SEND,
        msn,
        &[1, 2, 3, 4, 5, 6, 7, 8],
    ))?;
    conn.echo(b"behind Immediate Data")?;
    Ok(Pass::Right)
}

fn immediate(bench: &mut Bench) -> Verdict {
    immediately(bench, opcode::IMMEDIATE)
}

fn immediate_solicited(bench: &mut Bench) -> Verdict {
    immediately(bench, opcode::IMMEDIATE_SOLICITED)
}

fn immediate_of(bench: &mut Bench, length: usize) -> Step<Conn> {
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    conn.send(&Segment::untagged(
        opcode::IMMEDIATE,
        queue::SEND,
        msn,
        &vec![1; length],
    ))?;
    Ok(conn)
}

fn immediate_short(bench: &mut Bench) -> Verdict {
    ended(&mut immediate_of(bench, 4)?)
}

fn immediate_long(bench: &mut Bench) -> Verdict {
    terminated(
        &mut immediate_of(bench, 12)?,
        &[Code(1, 2, 5), Code(0, 2, 0xFF)],
    )
}
