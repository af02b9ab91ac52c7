//! Cuts one direction of a stream at the ends of start-up frames (RFC 5044 §7.1) and FPDUs (RFC 5044 §4.4).
//!
//! This module reads lengths and nothing else. The engine and the dissector judge whether a frame is right.

use iwarp::mpa::{fpdu, marker};

/// Octets in front of the private data of a start-up frame: key, flags, revision, length.
const STARTUP_HEADER: usize = 20;
const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
/// The bit M of the flags octet: the sender of the frame wants to receive markers.
const MARKERS: u8 = 0x80;
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Startup,
    Fpdus,
    /// The stream is not MPA, and may be cut anywhere.
    Unknown,
}

/// Collects the octets of one direction and gives them back in units.
pub(super) struct Splitter {
    framing: Framing,
    /// The other side asked for markers: the octets behind the start-up frame contain them.
    markers: bool,
    asks_for_markers: bool,
    /// Octets of FPDUs and markers that were given out.
    position: u64,
    held: Vec<u8>,
    /// Octets of `held` that were given out.
    taken: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    pub(super) const fn new() -> Self {
        Self {
            framing: Framing::Startup,
            markers: false,
            asks_for_markers: false,
            position: 0,
            held: Vec::new(),
            taken: 0,
        }
    }

    pub(super) fn push(&mut self, octets: &[u8]) {
        if self.taken > 0 {
            self.held.drain(..self.taken);
            self.taken = 0;
        }
        self.held.extend_from_slice(octets);
    }

    /// Returns the next whole start-up frame or FPDU, or all octets held of a stream without framing. Never empty.
    pub(super) fn next_unit(&mut self) -> Option<&[u8]> {
        let rest = &self.held[self.taken..];
        if rest.is_empty() {
            return None;
        }
        let length = match self.framing {
            Framing::Startup => startup_length(rest),
            Framing::Fpdus if self.markers => marked_length(rest, self.position),
            Framing::Fpdus => fpdu_length(rest),
            Framing::Unknown => Length::Known(rest.len()),
        };
        let length = match length {
            Length::Known(length) if length <= rest.len() => length,
            Length::Known(_) | Length::Unknown => return None,
            Length::Foreign => {
                self.framing = Framing::Unknown;
                rest.len()
            }
        };
        if self.framing == Framing::Startup {
            self.asks_for_markers = rest[REQUEST_KEY.len()] & MARKERS != 0;
            self.framing = Framing::Fpdus;
        } else {
            self.position += length as u64;
        }
        let from = self.taken;
        self.taken += length;
        Some(&self.held[from..self.taken])
    }

    /// True once this direction's start-up frame has asked for markers in the other direction.
    pub(super) const fn asks_for_markers(&self) -> bool {
        self.asks_for_markers
    }

    /// Called when the start-up frame of the other direction has asked for markers in this one.
    pub(super) const fn expect_markers(&mut self) {
        self.markers = true;
    }

    /// Passes the stream on without framing from here, beginning with the octets that are held.
    pub(super) const fn give_up(&mut self) {
        self.framing = Framing::Unknown;
    }
}

enum Length {
    Known(usize),
    /// There are too few octets to know.
    Unknown,
    /// The octets are not the beginning of such a frame.
    Foreign,
}

fn startup_length(octets: &[u8]) -> Length {
    let seen = octets.len().min(REQUEST_KEY.len());
    if octets[..seen] != REQUEST_KEY[..seen] && octets[..seen] != REPLY_KEY[..seen] {
        return Length::Foreign;
    }
    match octets.get(18..STARTUP_HEADER) {
        Some(length) => {
            Length::Known(STARTUP_HEADER + usize::from(u16::from_be_bytes([length[0], length[1]])))
        }
        None => Length::Unknown,
    }
}

fn fpdu_length(octets: &[u8]) -> Length {
    match octets {
        [high, low, ..] => Length::Known(fpdu::fpdu_len(u16::from_be_bytes([*high, *low]).into())),
        _ => Length::Unknown,
    }
}

/// An FPDU at `position` of a direction with markers.
fn marked_length(octets: &[u8], position: u64) -> Length {
    let lead = match position % marker::INTERVAL as u64 {
        0 => marker::LEN,
        _ => 0,
    };
    match octets.get(lead..) {
        Some([high, low, ..]) => {
            let ulpdu = u16::from_be_bytes([*high, *low]);
            Length::Known(marker::fpdu_len(ulpdu.into(), position))
        }
        _ => Length::Unknown,
    }
}
