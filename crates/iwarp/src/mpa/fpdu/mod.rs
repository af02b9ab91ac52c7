//! FPDU framing, RFC 5044 §4.1, in a direction without markers ([`marker`](super::marker) has the others):
//! `ULPDU_Length`, the ULPDU, PAD and CRC.
//!
//! ```text
//!  0       2                 2+L        multiple of 4   +4
//!  | ULPDU_Length | ULPDU (one DDP segment) | PAD 0..3 | CRC |
//! ```
//!
//! [`parse`] cuts one FPDU from the front of the received octets. [`put_header`] and [`put_trailer`] write what a sender
//! puts around a ULPDU.

use super::Error;
use super::crc::{self, Crc, crc32c};

/// Octets of `ULPDU_Length`.
pub const HEADER_LEN: usize = 2;

/// The shortest possible FPDU: an empty ULPDU, its pad and the CRC.
pub const MIN_LEN: usize = fpdu_len(0);

/// The longest FPDU a 16-bit `ULPDU_Length` can announce (MPA-077).
pub const MAX_LEN: usize = fpdu_len(u16::MAX as usize);

/// The longest PAD and CRC together.
pub const MAX_TRAILER_LEN: usize = 3 + crc::LEN;

/// The range of the MULPDU: the longest ULPDU DDP may hand down (RFC 5044 §3, §4.5).
pub const MULPDU_RANGE: core::ops::RangeInclusive<u32> = 128..=64_768;

/// Octets of PAD behind a ULPDU of this length: 0 to 3, so that everything before the CRC is a multiple of 4 (MPA-052).
#[must_use]
pub const fn pad(ulpdu_len: usize) -> usize {
    (HEADER_LEN + ulpdu_len).wrapping_neg() % 4
}

/// Octets on the wire of the FPDU that carries a ULPDU of this length.
#[must_use]
pub const fn fpdu_len(ulpdu_len: usize) -> usize {
    HEADER_LEN + ulpdu_len + pad(ulpdu_len) + crc::LEN
}

/// The longest ULPDU whose FPDU fits one TCP segment of `emss` octets, within [`MULPDU_RANGE`] (RFC 5044 §4.5, MPA-081,
/// MPA-082). If the segment is too small even for a ULPDU of the lowest value, such a ULPDU is sent nevertheless.
#[must_use]
pub fn mulpdu(emss: u32) -> u32 {
    emss.saturating_sub(6 + emss % 4)
        .clamp(*MULPDU_RANGE.start(), *MULPDU_RANGE.end())
}

/// The front of the received octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fpdu<'a> {
    /// Not yet a whole FPDU.
    Incomplete {
        /// Octets the input must have, counted from its front, before [`parse`] can say more.
        wanted: usize,
    },
    /// A whole FPDU, its CRC good if it was to be checked.
    Complete {
        /// The ULPDU, of any length that the header can state. MPA does not decide whether the ULPDU is a DDP segment
        /// (MPA-076).
        ulpdu: &'a [u8],
        /// Octets of the FPDU. The next FPDU starts behind them.
        consumed: usize,
    },
}

/// Cuts one FPDU, which holds one ULPDU (MPA-050, MPA-051), from the front of `input` by its length (MPA-070), checking its
/// CRC if `crc` is on (MPA-060, MPA-071). The content of PAD goes into the CRC and is otherwise ignored (MPA-054). The
/// content of the CRC field is ignored with CRC off (MPA-036).
///
/// Without markers the first two octets of a stream are `ULPDU_Length` (MPA-042). The pieces in which the octets came make
/// no difference here (MPA-072). An FPDU is one DDP segment, with its borders and its length (DDP-004, DDP-007).
///
/// # Errors
///
/// [`Error::Crc`]. The stream is lost then, and nothing behind this point may be delivered (MPA-061).
#[inline]
pub fn parse(input: &[u8], crc: bool) -> Result<Fpdu<'_>, Error> {
    let Some((length, rest)) = input.split_first_chunk() else {
        return Ok(Fpdu::Incomplete { wanted: MIN_LEN });
    };
    let ulpdu_len = usize::from(u16::from_be_bytes(*length));
    let consumed = fpdu_len(ulpdu_len);
    let Some((summed, field)) = input.get(..consumed).and_then(<[u8]>::split_last_chunk) else {
        return Ok(Fpdu::Incomplete { wanted: consumed });
    };
    if crc && crc32c(summed) != crc::from_wire(*field) {
        return Err(Error::Crc);
    }
    Ok(Fpdu::Complete {
        ulpdu: &rest[..ulpdu_len],
        consumed,
    })
}

/// Appends `ULPDU_Length`. A sender keeps it within [`MULPDU_RANGE`] (MPA-083).
pub fn put_header(out: &mut Vec<u8>, ulpdu_len: u16) {
    out.extend_from_slice(&ulpdu_len.to_be_bytes());
}

/// Appends PAD, zeroed (MPA-053), and the CRC field. `sum` is the running CRC over `ULPDU_Length` and the ULPDU (MPA-056).
/// Without `sum`, CRC is off and the field is zero, because another value would look like a checked CRC.
pub fn put_trailer(out: &mut Vec<u8>, ulpdu_len: u16, sum: Option<Crc>) {
    let pad = &[0; 3][..pad(usize::from(ulpdu_len))];
    out.extend_from_slice(pad);
    let field = sum.map_or([0; crc::LEN], |mut sum| {
        sum.update(pad);
        crc::wire(sum.finish())
    });
    out.extend_from_slice(&field);
}

/// Appends the whole FPDU of a ULPDU that lies in one piece.
///
/// # Panics
///
/// If the ULPDU is longer than 65535 octets, which `ULPDU_Length` cannot state.
pub fn put(out: &mut Vec<u8>, ulpdu: &[u8], crc: bool) {
    let ulpdu_len = u16::try_from(ulpdu.len()).expect("a ULPDU has at most 65535 octets");
    let start = out.len();
    put_header(out, ulpdu_len);
    out.extend_from_slice(ulpdu);
    let sum = crc.then(|| {
        let mut sum = Crc::new();
        sum.update(&out[start..]);
        sum
    });
    put_trailer(out, ulpdu_len, sum);
}

#[cfg(test)]
mod tests;
