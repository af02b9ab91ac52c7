//! Markers, RFC 5044 §4.2 and §4.3 (MPA-033): four octets before every 508 octets of a direction whose receiver asked
//! for them, so that an FPDU can be found in the middle of the stream.
//!
//! ```text
//!  position      0                     512                       1024
//!  | marker, 0 | length | ULPDU … | marker, 508 | … PAD CRC | … |
//! ```
//!
//! Every FPDU is a multiple of four octets long, so a marker splits neither `ULPDU_Length` nor the CRC (§4.1). A marker
//! between two FPDUs belongs to the second and points at itself (MPA-058, MPA-065). All other markers say how far back the
//! `ULPDU_Length` of their FPDU stands (MPA-064). The CRC covers all markers.
//!
//! Positions count octets, markers included, from the start of full operation. Only their last nine bits matter, so that no
//! wrap makes a difference, that of the sequence number included (MPA-063).

use super::Error;
use super::crc::{self, Crc, crc32c};
use super::fpdu::{self, Fpdu, HEADER_LEN, MIN_LEN};

/// Octets of a marker: two reserved, two of FPDUPTR.
pub const LEN: usize = 4;

/// Octets of the stream from the start of one marker to the start of the next.
pub const INTERVAL: usize = 512;

/// Octets of FPDUs between two markers.
const BETWEEN: usize = INTERVAL - LEN;

/// The two low bits of FPDUPTR, which count as zero (MPA-066).
const POINTER_MASK: u16 = !3;

/// Octets since the last marker position, which is every 512th octet (MPA-063).
const fn phase(position: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below 512")]
    let phase = (position % INTERVAL as u64) as usize;
    phase
}

/// Octets of FPDUs before the next marker behind `position`, and whether there is a marker at `position` itself.
const fn room(position: u64) -> (usize, usize) {
    match phase(position) {
        0 => (LEN, BETWEEN),
        phase => (0, INTERVAL - phase),
    }
}

/// Octets on the wire, from `position` on, of the FPDU that carries a ULPDU of this length. They include a marker before
/// the FPDU, but not one behind it (MPA-058).
#[must_use]
pub const fn fpdu_len(ulpdu_len: usize, position: u64) -> usize {
    let (lead, room) = room(position);
    let plain = fpdu::fpdu_len(ulpdu_len);
    lead + plain + LEN * plain.saturating_sub(room).div_ceil(BETWEEN)
}

/// The most octets of markers that an FPDU with a ULPDU of this length can have at any position.
#[must_use]
pub const fn most(ulpdu_len: usize) -> usize {
    LEN * fpdu::fpdu_len(ulpdu_len).div_ceil(BETWEEN) // when one stands in front of it
}

/// As [`fpdu::mulpdu`] on a stream with markers (RFC 5044 §4.5, MPA-082).
#[must_use]
pub fn mulpdu(emss: u32) -> u32 {
    let markers = 4 * emss.div_ceil(512);
    emss.saturating_sub(6 + markers + emss % 4)
        .clamp(*fpdu::MULPDU_RANGE.start(), *fpdu::MULPDU_RANGE.end())
}

/// As [`fpdu::parse`], on a stream with markers. The first octet of `input` is at `position`. If a marker is inside the ULPDU, the
/// ULPDU is assembled in `unmarked`.
///
/// # Errors
///
/// First [`Error::Crc`], then [`Error::Marker`] if a marker does not point to the start of its FPDU (MPA-064, MPA-065,
/// MPA-068). The reserved octets are ignored (MPA-067).
#[inline(never)] // what every FPDU goes through stays short
pub fn parse<'a>(
    input: &'a [u8],
    crc: bool,
    position: u64,
    unmarked: &'a mut Vec<u8>,
) -> Result<Fpdu<'a>, Error> {
    let (lead, room) = room(position);
    let Some(length) = input.get(lead..).and_then(<[u8]>::first_chunk) else {
        return Ok(Fpdu::Incomplete {
            wanted: lead + MIN_LEN,
        });
    };
    let ulpdu_len = usize::from(u16::from_be_bytes(*length));
    let consumed = fpdu_len(ulpdu_len, position);
    let Some((summed, field)) = input.get(..consumed).and_then(<[u8]>::split_last_chunk) else {
        return Ok(Fpdu::Incomplete { wanted: consumed });
    };
    if crc && crc32c(summed) != crc::from_wire(*field) {
        return Err(Error::Crc); // MPA-057 to MPA-059
    }
    let (before, frame) = input[..consumed].split_at(lead);
    if before
        .first_chunk()
        .is_some_and(|marker| points(*marker) != 0)
    {
        return Err(Error::Marker); // MPA-065
    }
    let Some((first, rest)) = frame.split_at_checked(room) else {
        return Ok(Fpdu::Complete {
            ulpdu: &frame[HEADER_LEN..HEADER_LEN + ulpdu_len],
            consumed,
        });
    };
    unmarked.clear();
    unmarked.extend_from_slice(first);
    let mut at = room;
    for piece in rest.chunks(INTERVAL) {
        let Some((marker, behind)) = piece.split_first_chunk() else {
            return Err(Error::Marker); // not reached: an FPDU and its markers have whole words
        };
        if points(*marker) != pointer(at) {
            return Err(Error::Marker); // MPA-064
        }
        unmarked.extend_from_slice(behind);
        at += INTERVAL;
    }
    Ok(Fpdu::Complete {
        ulpdu: &unmarked[HEADER_LEN..HEADER_LEN + ulpdu_len],
        consumed,
    })
}

/// FPDUPTR of a marker so far behind its `ULPDU_Length`. The field is too short for the distance only beyond the longest
/// legal ULPDU (MPA-077).
const fn pointer(distance: usize) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "as the text says")]
    let low = distance as u16;
    low & POINTER_MASK
}

/// FPDUPTR.
const fn points([_, _, high, low]: [u8; LEN]) -> u16 {
    u16::from_be_bytes([high, low]) & POINTER_MASK
}

/// Puts the markers into an FPDU that begins at `position`, for a peer that asked for them (MPA-033). `frame` has [`fpdu_len`] octets, the
/// last of which hold the FPDU without markers. If `crc` is on, the CRC field behind is filled in, otherwise it stays unchanged.
///
/// # Panics
///
/// If `frame` is shorter than a CRC field.
pub fn insert(frame: &mut [u8], ulpdu_len: usize, position: u64, crc: bool) {
    let len = frame.len();
    let (lead, mut room) = room(position);
    let mut from = len - fpdu::fpdu_len(ulpdu_len);
    frame[..lead].fill(0); // MPA-041, MPA-058, MPA-065
    let mut to = lead;
    loop {
        let piece = room.min(len - from);
        frame.copy_within(from..from + piece, to);
        from += piece;
        to += piece;
        if from == len {
            break;
        }
        // The octets still to be moved lie behind all the markers still to come.
        let [high, low] = pointer(to - lead).to_be_bytes();
        frame[to..to + LEN].copy_from_slice(&[0, 0, high, low]);
        to += LEN;
        room = BETWEEN;
    }
    if crc {
        let (summed, field) = frame.split_at_mut(len - crc::LEN);
        field.copy_from_slice(&crc::wire(crc32c(summed)));
    }
}

/// As [`fpdu::put`], at `position` of a stream with markers.
///
/// # Panics
///
/// If the ULPDU is longer than 65535 octets, which `ULPDU_Length` cannot state.
pub fn put(out: &mut Vec<u8>, ulpdu: &[u8], crc: bool, position: u64) {
    let ulpdu_len = u16::try_from(ulpdu.len()).expect("a ULPDU has at most 65535 octets");
    let start = out.len();
    let markers = fpdu_len(ulpdu.len(), position) - fpdu::fpdu_len(ulpdu.len());
    out.resize(start + markers, 0);
    fpdu::put_header(out, ulpdu_len);
    out.extend_from_slice(ulpdu);
    fpdu::put_trailer(out, ulpdu_len, None::<Crc>);
    insert(&mut out[start..], ulpdu.len(), position, crc);
}

#[cfg(test)]
mod tests;
