//! Puts single FPDUs into a batch, and keeps to the limit of one call.

use super::batch::{TxBatch, TxLimit};
use crate::memory::{Revoked, Span};
use crate::mpa::{Crc, crc, fpdu, marker};

/// Longer segments than this exist on paths within one machine only.
const HALVED_FROM: u32 = 16 * 1024;
const CACHE_LINE: u32 = 64;

/// The CRC of FPDUs up to this length is computed in one call once they are made. They are still in the fastest cache then,
/// and each call of the CRC routine costs more than a few dozen octets do.
const SUMMED_WHOLE: usize = 4 * 1024;

/// The rest of a [`TxLimit`].
#[derive(Debug)]
pub(super) struct Budget {
    limit: TxLimit,
    fpdus: usize,
    octets: usize,
    /// The most octets of markers that one FPDU may need.
    markers: usize,
    /// The longest ULPDU that an empty batch can hold as a copy.
    longest: usize,
}

impl Budget {
    /// The budget for FPDUs that go into `out`.
    #[inline]
    pub(super) fn new(limit: TxLimit, out: &TxBatch, markers: bool) -> Self {
        let mut budget = Self {
            limit,
            fpdus: 0,
            octets: 0,
            markers: 0,
            longest: out.longest_ulpdu(),
        };
        if markers {
            let longest = budget.longest.min(budget.mulpdu() as usize);
            budget.markers = marker::most(longest);
            budget.longest -= marker::most(budget.longest);
        }
        budget
    }

    /// FPDUs made.
    pub(super) const fn fpdus(&self) -> usize {
        self.fpdus
    }

    /// Octets of the FPDUs made.
    pub(super) const fn octets(&self) -> usize {
        self.octets
    }

    /// The longest ULPDU (DDP-040, MPA-081, MPA-083).
    #[inline]
    fn mulpdu(&self) -> u32 {
        let range = fpdu::MULPDU_RANGE;
        self.limit.mulpdu.clamp(*range.start(), *range.end())
    }

    /// Returns how many octets of a message go behind the next header of this length, if `left` octets are left: at most what the MULPDU
    /// allows (MPA-081, MPA-083).
    ///
    /// Where segments are far longer than a packet, the place of their ends does not matter to the path. The last two parts of a message
    /// then have the same length (instead of MPA-084). So the last part is never so short that it costs more than it carries, and the
    /// receiver handles one half while the other arrives.
    #[inline]
    pub(super) fn payload(&self, header: usize, left: u32) -> u32 {
        let most = self.mulpdu() - to_u32(header);
        if most < HALVED_FROM || left <= most || left >= 2 * most {
            return most.min(left);
        }
        left.div_ceil(2).next_multiple_of(CACHE_LINE).min(most)
    }

    /// Returns true if one FPDU can hold a whole message as a copy.
    #[inline]
    pub(super) fn holds_whole(&self, header: usize, payload: u32) -> bool {
        let ulpdu = header + payload as usize;
        ulpdu <= self.mulpdu() as usize && ulpdu <= self.longest
    }

    /// The longest payload that an empty batch can hold as a copy.
    pub(super) fn copied_at_most(&self, header: usize) -> u32 {
        to_u32(self.longest - header)
    }

    /// Returns true if another FPDU may be made. The first one always may, whatever its length, because the stream has to go on.
    pub(super) const fn admits(&self, header: usize, payload: u32) -> bool {
        let octets = fpdu::fpdu_len(header + payload as usize) + self.markers;
        let fits = self.octets == 0 || self.octets.saturating_add(octets) <= self.limit.octets;
        self.fpdus < self.limit.fpdus && fits
    }

    pub(super) const fn spend(&mut self, octets: usize) {
        self.fpdus += 1;
        self.octets += octets;
    }
}

/// Returns true if there is room for the FPDU. `in_place` is the number of parts of its payload that are read in place.
#[inline]
pub(super) fn fits(
    out: &TxBatch,
    budget: &Budget,
    header: usize,
    payload: u32,
    in_place: Option<usize>,
) -> bool {
    let (octets, parts) = match in_place {
        Some(parts) => (fpdu::HEADER_LEN + header + fpdu::MAX_TRAILER_LEN, parts + 2),
        None => (
            fpdu::fpdu_len(header + payload as usize) + budget.markers,
            1,
        ),
    };
    out.bytes_left() >= octets && out.parts_left() >= parts
}

/// The parts of an FPDU besides its ULPDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    /// A CRC.
    pub(super) crc: bool,
    /// Markers.
    pub(super) markers: bool,
    /// The position of the FPDU in the stream.
    pub(super) position: u64,
}

/// Appends an FPDU. `fill` copies the payload in and adds it to the CRC. Returns the length of the FPDU.
#[inline]
pub(super) fn put_copied(
    out: &mut TxBatch,
    framing: Framing,
    header: &[u8],
    payload: u32,
    fill: impl FnOnce(&mut [u8], Option<&mut Crc>) -> Result<(), Revoked>,
) -> Result<usize, Revoked> {
    let ulpdu = header.len() + payload as usize;
    if framing.markers {
        let Framing { crc, position, .. } = framing;
        return put_marked(out, (crc, position), header, ulpdu, |buffer| {
            fill(buffer, None)
        });
    }
    let octets = fpdu::fpdu_len(ulpdu);
    let mark = out.mark();
    let frame = out.reserve(octets);
    let (front, rest) = frame.split_at_mut(fpdu::HEADER_LEN + header.len());
    write_front(front, ulpdu, header);
    let (body, trailer) = rest.split_at_mut(payload as usize);
    let separate = octets > SUMMED_WHOLE;
    let mut sum = (framing.crc && separate).then(|| {
        let mut sum = Crc::new();
        sum.update(front);
        sum
    });
    if let Err(Revoked) = fill(body, sum.as_mut()) {
        out.rewind(mark);
        return Err(Revoked);
    }
    write_trailer(trailer, sum);
    if framing.crc && !separate {
        let (summed, field) = frame.split_at_mut(octets - crc::LEN);
        field.copy_from_slice(&crc::wire(crc::crc32c(summed)));
    }
    out.push_bytes(mark, true);
    Ok(octets)
}

/// As [`put_copied`], in a stream with markers. Markers are put in, and the CRC is computed, when the payload is there. Not
/// inlined, to keep the code for streams without markers short.
#[inline(never)]
fn put_marked(
    out: &mut TxBatch,
    (crc, position): (bool, u64),
    header: &[u8],
    ulpdu: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Revoked>,
) -> Result<usize, Revoked> {
    let octets = marker::fpdu_len(ulpdu, position);
    let mark = out.mark();
    let frame = out.reserve(octets);
    let (_, plain) = frame.split_at_mut(octets - fpdu::fpdu_len(ulpdu));
    let (front, rest) = plain.split_at_mut(fpdu::HEADER_LEN + header.len());
    write_front(front, ulpdu, header);
    let (body, trailer) = rest.split_at_mut(ulpdu - header.len());
    if let Err(Revoked) = fill(body) {
        out.rewind(mark);
        return Err(Revoked);
    }
    write_trailer(trailer, None);
    marker::insert(frame, ulpdu, position, crc);
    out.push_bytes(mark, true);
    Ok(octets)
}

/// Appends an FPDU whose payload is read in place, without CRC and markers. Returns the length of the FPDU.
#[inline]
pub(super) fn put_in_place(
    out: &mut TxBatch,
    header: &[u8],
    payload: u32,
    pieces: impl Iterator<Item = Span>,
) -> usize {
    let ulpdu = header.len() + payload as usize;
    let octets = fpdu::fpdu_len(ulpdu);
    let mark = out.mark();
    write_front(out.reserve(fpdu::HEADER_LEN + header.len()), ulpdu, header);
    out.push_bytes(mark, false);
    for piece in pieces {
        out.push_payload(piece);
    }
    let mark = out.mark();
    write_trailer(out.reserve(fpdu::pad(ulpdu) + crc::LEN), None);
    out.push_bytes(mark, true);
    octets
}

/// `ULPDU_Length` and the DDP header.
#[inline]
fn write_front(front: &mut [u8], ulpdu: usize, header: &[u8]) {
    let length = u16::try_from(ulpdu).expect("a MULPDU has at most 64768 octets");
    front[..fpdu::HEADER_LEN].copy_from_slice(&length.to_be_bytes());
    front[fpdu::HEADER_LEN..].copy_from_slice(header);
}

/// PAD, zeroed (MPA-053), and the CRC field, which is zero without CRC, as siw sends it (PEER-009).
#[inline]
fn write_trailer(trailer: &mut [u8], sum: Option<Crc>) {
    let (pad, field) = trailer.split_at_mut(trailer.len() - crc::LEN);
    if !pad.is_empty() {
        pad.fill(0);
    }
    let value = sum.map_or([0; crc::LEN], |mut sum| {
        sum.update(pad);
        crc::wire(sum.finish())
    });
    field.copy_from_slice(&value);
}

/// Lengths within an FPDU have 16 bits.
#[inline]
pub(super) fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(mulpdu: u32, mut left: u32) -> Vec<u32> {
        let limit = TxLimit {
            octets: usize::MAX,
            fpdus: usize::MAX,
            mulpdu,
        };
        let budget = Budget::new(limit, &TxBatch::with_capacity(256, 1), false);
        let mut parts = Vec::new();
        while left > 0 {
            let part = budget.payload(18, left);
            assert!(part > 0 && part <= mulpdu - 18);
            parts.push(part);
            left -= part;
        }
        parts
    }

    #[test]
    fn packets_are_filled_and_the_end_of_a_long_message_is_halved() {
        assert_eq!(cut(1442, 3000), [1424, 1424, 152]);
        assert_eq!(cut(8942, 20_000), [8924, 8924, 2152]);
        let most = 64_768 - 18;
        assert_eq!(cut(64_768, 64_000), [64_000]);
        assert_eq!(cut(64_768, 65_536), [32_768, 32_768]);
        assert_eq!(cut(64_768, 2 * most), [most, most]);
        assert_eq!(cut(64_768, 2 * most + 1), [most, 32_384, 32_367]);
        let parts = cut(64_768, 1 << 20);
        assert_eq!(parts.len(), (1usize << 20).div_ceil(most as usize));
        assert!(parts[..15].iter().all(|part| *part == most), "{parts:?}");
        assert_eq!(parts[15..], [38_720, 38_606]);
    }
}
