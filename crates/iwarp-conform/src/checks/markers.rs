//! RFC 5044 §4.3: markers, both ways.

use super::common::{Check, Conn, Need, Pass, Section, Step, Verdict, check, ensure, no_fault};
use super::tour::{emit, tour};
use crate::bench::Bench;
use crate::judge::terminated;
use crate::service::Command;
use crate::wire::{Code, Fpdu, Markers, Segment};

const S: Section = Section::Markers;
const IN: &[Need] = &[Need::MarkersIn];
const OUT: &[Need] = &[Need::MarkersOut, Need::Service];

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "MPA-034.none",
        "no markers where they were not asked for",
        no_markers,
    ),
    check(
        S,
        "MPA-041.sent",
        "full operation begins with a marker of zeros",
        first_marker,
    )
    .needs(IN),
    check(
        S,
        "MPA-063.sent",
        "a marker stands every 512 octets",
        spacing,
    )
    .needs(&[Need::MarkersIn, Need::Service]),
    check(
        S,
        "MPA-064.sent",
        "FPDUPTR is the way back to the start of the FPDU",
        pointers,
    )
    .needs(IN),
    check(S, "MPA-065.sent", "FPDUPTR is 0 between FPDUs", between)
        .needs(IN)
        .also(&["MPA-066"]),
    check(
        S,
        "MPA-067.sent",
        "the reserved half of a marker is 0",
        reserved,
    )
    .needs(IN),
    check(S, "MPA-057.sent", "CRCs cover the markers", covered)
        .needs(&[Need::MarkersIn, Need::Crc])
        .also(&["MPA-058", "MPA-059"]),
    check(
        S,
        "MPA-057.inside",
        "markers inside FPDUs are taken out, wherever they fall",
        inside,
    )
    .needs(OUT)
    .also(&["MPA-032", "MPA-058", "MPA-059"]),
    check(
        S,
        "MPA-066.ignored",
        "the low bits of FPDUPTR are ignored",
        low_bits,
    )
    .needs(OUT),
    check(
        S,
        "MPA-067.ignored",
        "the reserved half of a marker is ignored",
        reserved_set,
    )
    .needs(OUT),
    check(
        S,
        "MPA-068.pointer",
        "an FPDUPTR that disagrees with ULPDU_Length: Terminate 2/0/03",
        wrong_pointer,
    )
    .needs(OUT)
    .should()
    .also(&["MPA-069"]),
    check(
        S,
        "MPA-063.displaced",
        "markers in the wrong places: Terminate 2/0/03 or 2/0/02",
        displaced,
    )
    .needs(&[Need::MarkersOut, Need::Service, Need::Crc]),
];

fn no_markers(bench: &mut Bench) -> Verdict {
    if bench.facts.markers_in {
        return Err(super::common::Stop::Skip(
            "markers were asked for".to_owned(),
        ));
    }
    // A marker would be taken for an FPDU of no length.
    tour(bench)?;
    Ok(Pass::Right)
}

fn form(bench: &mut Bench, rows: &[&str]) -> Step<Conn> {
    let conn = tour(bench)?;
    no_fault(&conn, rows)?;
    Ok(conn)
}

fn first_marker(bench: &mut Bench) -> Verdict {
    let conn = form(bench, &[])?;
    ensure(conn.inbound.markers > 0, "markers", "none")?;
    Ok(Pass::Right)
}

fn spacing(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    emit(&mut conn, 4_000)?;
    ensure(
        conn.inbound.markers >= 8,
        "at least 8 markers in 4000 octets",
        format!("{}", conn.inbound.markers),
    )?;
    Ok(Pass::Right)
}

fn pointers(bench: &mut Bench) -> Verdict {
    form(bench, &["MPA-064"]).map(|_| Pass::Right)
}

fn between(bench: &mut Bench) -> Verdict {
    form(bench, &["MPA-065", "MPA-066"]).map(|_| Pass::Right)
}

fn reserved(bench: &mut Bench) -> Verdict {
    form(bench, &["MPA-067"]).map(|_| Pass::Right)
}

fn covered(bench: &mut Bench) -> Verdict {
    let conn = form(bench, &["MPA-055"])?;
    ensure(
        conn.inbound.inner_markers > 0 || !bench.facts.service,
        "markers inside FPDUs",
        "none",
    )?;
    Ok(Pass::Right)
}

fn marked(bench: &mut Bench, edit: impl FnOnce(&mut Markers)) -> Verdict {
    let mut conn = bench.open()?;
    if let Some(markers) = &mut conn.markers_out {
        edit(markers);
    }
    echoes(&mut conn)
}

/// Echoes of growing length: markers fall into every place of an FPDU.
fn echoes(conn: &mut Conn) -> Verdict {
    let size = conn.offer.as_ref().map_or(256, |offer| offer.receive_size);
    let most = usize::try_from(size)
        .unwrap_or(256)
        .saturating_sub(8)
        .min(700);
    for length in (0..most).step_by(28) {
        conn.echo(&vec![0xC3; length])?;
    }
    Ok(Pass::Right)
}

fn inside(bench: &mut Bench) -> Verdict {
    marked(bench, |_| {})
}

fn low_bits(bench: &mut Bench) -> Verdict {
    marked(bench, |markers| (markers.skew, markers.between) = (3, 3))
}

fn reserved_set(bench: &mut Bench) -> Verdict {
    marked(bench, |markers| markers.reserved = 0xBEEF)
}

/// A Send that a marker falls into.
fn long(conn: &mut Conn) -> Step {
    let msn = conn.next_send();
    let echo = Command::Echo(vec![0x3C; 600]).encode();
    conn.send_fpdu(&Fpdu::new(Segment::send(msn, &echo).encode()))
}

fn wrong_pointer(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    if let Some(markers) = &mut conn.markers_out {
        markers.skew = 8;
    }
    long(&mut conn)?;
    terminated(&mut conn, &[Code(2, 0, 3)])
}

fn displaced(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    if let Some(markers) = &mut conn.markers_out {
        markers.displaced = 4;
    }
    long(&mut conn)?;
    long(&mut conn)?;
    terminated(&mut conn, &[Code(2, 0, 3), Code(2, 0, 2)])
}
