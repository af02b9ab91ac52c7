//! RFC 5044 §4: FPDUs, PAD, CRC.

use super::common::{
    Check, Conn, Need, Pass, Section, Seen, Step, Verdict, alive, check, ensure, fail, is_end,
    no_fault, untouched, writable,
};
use super::tour::{emit, tour};
use crate::bench::Bench;
use crate::judge::{ended, ending, terminated};
use crate::service::{Command, RegionKind};
use crate::wire::{Code, CrcStyle, Fpdu, Segment};

const S: Section = Section::Framing;
const CRC: Code = Code(2, 0, 2);

pub(super) const CHECKS: &[Check] = &[
    check(
        S,
        "MPA-050.sent",
        "one DDP segment in each FPDU the target sends",
        form_segments,
    )
    .also(&["MPA-051", "MPA-038", "MPA-042", "RDMAP-012", "RDMAP-013"]),
    check(S, "MPA-053.sent", "PAD is sent as zero", form_pad).also(&["MPA-052"]),
    check(
        S,
        "MPA-055.sent",
        "the CRC32c of each FPDU of the target is good",
        form_crc,
    )
    .needs(&[Need::Crc])
    .also(&["MPA-035", "MPA-056"]),
    check(
        S,
        "MPA-083.sent",
        "no ULPDU is longer than 64768 octets",
        form_size,
    )
    .also(&["MPA-081"]),
    check(
        S,
        "MPA-081.sent",
        "a message is not cut into ULPDUs below 128 octets",
        form_small,
    )
    .needs(&[Need::Service]),
    check(
        S,
        "MPA-054.pad",
        "PAD that is not zero is accepted when the CRC covers it",
        pad_set,
    ),
    check(
        S,
        "MPA-052.pads",
        "messages of 0 to 7 octets, with each length of PAD",
        pads,
    )
    .needs(&[Need::Service]),
    check(S, "MPA-072.split", "an FPDU is cut at every octet", split).also(&["MPA-071"]),
    check(
        S,
        "MPA-072.merged",
        "twenty FPDUs come in one piece",
        merged,
    )
    .needs(&[Need::Service]),
    check(
        S,
        "MPA-071.part",
        "an FPDU has no effect before its last octet",
        part,
    )
    .needs(&[Need::Service]),
    check(
        S,
        "MPA-036.ignored",
        "with CRCs off the CRC field is not checked",
        crc_ignored,
    )
    .needs(&[Need::NoCrc])
    .also(&["MPA-037", "MPA-038"]),
    check(
        S,
        "MPA-060.flipped",
        "a wrong CRC: Terminate 2/0/02",
        crc_flipped,
    )
    .needs(&[Need::Crc])
    .also(&["MPA-062", "MPA-055"]),
    check(
        S,
        "MPA-055.order",
        "a CRC with its octets in the other order is wrong",
        crc_order,
    )
    .needs(&[Need::Crc]),
    check(
        S,
        "MPA-056.pad",
        "a CRC that leaves out PAD is wrong",
        crc_without_pad,
    )
    .needs(&[Need::Crc]),
    check(
        S,
        "MPA-060.placed",
        "nothing of an FPDU with a wrong CRC is placed",
        crc_places_nothing,
    )
    .needs(&[Need::Crc, Need::Writable]),
    check(
        S,
        "MPA-061.after",
        "nothing behind an FPDU with a wrong CRC is taken",
        crc_ends_all,
    )
    .needs(&[Need::Crc, Need::Writable]),
    check(
        S,
        "MPA-076.zero",
        "an FPDU with a ULPDU of no length ends the stream",
        length_zero,
    ),
    check(
        S,
        "MPA-076.short",
        "a ULPDU shorter than a DDP header ends the stream",
        length_short,
    )
    .also(&["SEC-032"]),
    check(
        S,
        "MPA-076.untagged",
        "a ULPDU one octet shorter than an untagged header ends the stream",
        length_untagged,
    )
    .also(&["SEC-032"]),
    check(
        S,
        "MPA-077.long",
        "a ULPDU of 65535 octets is taken, or ends the stream",
        length_long,
    )
    .needs(&[Need::Writable]),
    check(
        S,
        "MPA-078.fin",
        "the end of the stream inside an FPDU: the part is discarded, the target closes",
        cut_by_fin,
    )
    .needs(&[Need::Writable]),
];

fn form(bench: &mut Bench, rows: &[&str]) -> Verdict {
    let conn = tour(bench)?;
    no_fault(&conn, rows)
}

fn form_segments(bench: &mut Bench) -> Verdict {
    // Anything that is not a segment ends the tour.
    tour(bench)?;
    Ok(Pass::Right)
}

fn form_pad(bench: &mut Bench) -> Verdict {
    form(bench, &["MPA-053"])
}

fn form_crc(bench: &mut Bench) -> Verdict {
    form(bench, &["MPA-055"])
}

fn form_size(bench: &mut Bench) -> Verdict {
    form(bench, &["MPA-083"])
}

fn form_small(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let before = conn.inbound.segments;
    emit(&mut conn, 100_000)?;
    // 128 octets of ULPDU carry 110 of payload.
    let most = 100_000 / 110 + 1;
    let segments = conn.inbound.segments - before;
    ensure(
        segments <= most,
        format!("100000 octets in at most {most} segments"),
        format!("{segments}"),
    )?;
    Ok(Pass::Right)
}

fn pad_set(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    // A Write of no length has no PAD; a Read Request neither. A Send of one octet has three.
    let fpdu = if bench.facts.service {
        let msn = conn.next_send();
        let echo = Command::Echo(b"?".to_vec()).encode();
        Fpdu::new(Segment::send(msn, &echo).encode())
    } else {
        return Err(super::common::Stop::Skip(
            "needs a target that takes Sends: nothing else has a PAD".to_owned(),
        ));
    };
    conn.send_fpdu(&Fpdu { pad: 0xEE, ..fpdu })?;
    conn.echoed(b"?")?;
    Ok(Pass::Right)
}

fn pads(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    for length in 0..8 {
        conn.echo(&vec![0x5A; length])?;
    }
    Ok(Pass::Right)
}

/// An FPDU that the target answers.
fn asking(bench: &Bench, conn: &mut Conn) -> Vec<u8> {
    let segment = if bench.facts.service {
        let msn = conn.next_send();
        Segment::send(msn, &Command::Echo(b"whole?".to_vec()).encode())
    } else {
        let msn = conn.next_request();
        Segment::read_request(msn, crate::wire::ReadRequest::default())
    };
    conn.encode(&Fpdu::new(segment.encode()))
}

fn answered(bench: &Bench, conn: &mut Conn) -> Verdict {
    if bench.facts.service {
        conn.echoed(b"whole?")?;
    } else {
        conn.expect_segment("a Read Response")?;
    }
    Ok(Pass::Right)
}

fn split(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    for octet in asking(bench, &mut conn) {
        conn.send_octets(&[octet])?;
    }
    answered(bench, &mut conn)
}

fn merged(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let receives = conn
        .offer
        .as_ref()
        .map_or(1, |offer| offer.receives.min(20));
    let mut octets = Vec::new();
    for i in 0..20u8 {
        let segment = if u32::from(i) < receives.saturating_sub(1) {
            let msn = conn.next_send();
            Segment::send(msn, &Command::Echo(vec![i; 5]).encode())
        } else {
            Segment::write(1, 0, &[])
        };
        octets.extend(conn.encode(&Fpdu::new(segment.encode())));
    }
    conn.send_octets(&octets)?;
    for i in 0..20u8 {
        if u32::from(i) < receives.saturating_sub(1) {
            conn.echoed(&[i; 5])?;
        }
    }
    alive(bench, &mut conn)
}

fn part(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let octets = asking(bench, &mut conn);
    let (all_but_one, last) = octets.split_at(octets.len() - 1);
    conn.send_octets(all_but_one)?;
    conn.expect_quiet("no answer to an FPDU that is not whole")?;
    conn.send_octets(last)?;
    answered(bench, &mut conn)
}

fn crc_ignored(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let fpdu = Fpdu {
        crc: CrcStyle::Octets([0xDE, 0xAD, 0xBE, 0xEF]),
        ..Fpdu::new(Segment::write(1, 0, &[]).encode())
    };
    conn.send_fpdu(&fpdu)?;
    alive(bench, &mut conn)
}

fn wrong_crc(bench: &mut Bench, crc: CrcStyle) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    let fpdu = Fpdu {
        crc,
        // A PAD that is not zero, so that a CRC without the PAD differs.
        pad: 0xEE,
        ..Fpdu::new(Segment::send(msn, b"hello").encode())
    };
    conn.send_fpdu(&fpdu)?;
    terminated(&mut conn, &[CRC])
}

fn crc_flipped(bench: &mut Bench) -> Verdict {
    wrong_crc(bench, CrcStyle::Flipped)
}

fn crc_order(bench: &mut Bench) -> Verdict {
    wrong_crc(bench, CrcStyle::BigEndian)
}

fn crc_without_pad(bench: &mut Bench) -> Verdict {
    wrong_crc(bench, CrcStyle::WithoutPad)
}

fn crc_places_nothing(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x11)?;
    let fpdu = Fpdu {
        crc: CrcStyle::Flipped,
        ..Fpdu::new(Segment::write(region.stag, region.to, &[0xAA; 64]).encode())
    };
    conn.send_fpdu(&fpdu)?;
    ended(&mut conn)?;
    untouched(bench, conn, index, (0, 64), 0x11)?;
    Ok(Pass::Right)
}

fn crc_ends_all(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x22)?;
    let bad = Fpdu {
        crc: CrcStyle::Flipped,
        ..Fpdu::new(Segment::write(1, 0, &[]).encode())
    };
    let mut octets = conn.encode(&bad);
    let good = Segment::write(region.stag, region.to, &[0xAA; 64]);
    octets.extend(conn.encode(&Fpdu::new(good.encode())));
    conn.send_octets(&octets)?;
    ended(&mut conn)?;
    untouched(bench, conn, index, (0, 64), 0x22)?;
    Ok(Pass::Right)
}

fn too_short(bench: &mut Bench, ulpdu: &[u8]) -> Verdict {
    let mut conn = bench.open()?;
    conn.send_fpdu(&Fpdu::new(ulpdu.to_vec()))?;
    ended(&mut conn)
}

fn length_zero(bench: &mut Bench) -> Verdict {
    too_short(bench, &[])
}

fn length_short(bench: &mut Bench) -> Verdict {
    too_short(bench, &Segment::write(1, 0, &[]).encode()[..13])
}

fn length_untagged(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let msn = conn.next_send();
    let ulpdu = Segment::send(msn, &[]).encode();
    conn.send_fpdu(&Fpdu::new(ulpdu[..17].to_vec()))?;
    ended(&mut conn)
}

fn length_long(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (_, region) = conn.region(RegionKind::Shared, false, true)?;
    let length = 65_535 - Segment::TAGGED;
    if region.length < length as u64 {
        return Err(super::common::Stop::Skip(
            "the region is too small".to_owned(),
        ));
    }
    conn.send(&Segment::write(region.stag, region.to, &vec![0x77; length]))?;
    let msn = conn.next_send();
    conn.send(&Segment::send(
        msn,
        &Command::Echo(b"long".to_vec()).encode(),
    ))?;
    let limit = conn.limits().answer;
    match conn.segment(limit)? {
        seen if is_end(&seen) => Ok(Pass::Right),
        Seen::It(_) => Ok(Pass::Right),
        _ => Err(fail("an answer, or the end of the stream", "nothing")),
    }
}

fn cut_by_fin(bench: &mut Bench) -> Verdict {
    let mut conn = bench.open()?;
    let (index, region) = writable(&mut conn, 0x33)?;
    let write = Segment::write(region.stag, region.to, &[0xAA; 64]);
    let octets = conn.encode(&Fpdu::new(write.encode()));
    conn.send_octets(&octets[..octets.len() - 4])?;
    conn.finish();
    ending(&mut conn, "the end of the stream")?;
    let step: Step = untouched(bench, conn, index, (0, 60), 0x33);
    step?;
    Ok(Pass::Right)
}
