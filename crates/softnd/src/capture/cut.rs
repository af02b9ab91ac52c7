//! Where one direction of a stream is cut: at the ends of start-up frames (RFC 5044 §7.1) and FPDUs (RFC 5044 §4.4).
//!
//! This reads lengths and nothing else; whether a frame is right is for the engine and the dissector to say.

/// Octets in front of the private data of a start-up frame: key, flags, revision, length.
const STARTUP_HEADER: usize = 20;
const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
/// M of the flags octet: its sender wants to receive markers.
const MARKERS: u8 = 0x80;
/// ULPDU_Length and CRC field.
const FPDU_OVERHEAD: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Startup,
    Fpdus,
    /// Not MPA, or not to be read without a marker's help: cut anywhere.
    Unknown,
}

/// Collects one direction and gives it back in units.
pub(super) struct Cutter {
    framing: Framing,
    /// The other side asked for markers: what follows the start-up frame has them.
    markers: bool,
    asks_for_markers: bool,
    held: Vec<u8>,
    /// Octets of `held` that were given out.
    taken: usize,
}

impl Default for Cutter {
    fn default() -> Self {
        Self::new()
    }
}

impl Cutter {
    pub(super) const fn new() -> Self {
        Self {
            framing: Framing::Startup,
            markers: false,
            asks_for_markers: false,
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

    /// The next whole start-up frame or FPDU; octets without framing as many as there are. Never empty.
    pub(super) fn next_unit(&mut self) -> Option<&[u8]> {
        let rest = &self.held[self.taken..];
        if rest.is_empty() {
            return None;
        }
        let length = match self.framing {
            Framing::Startup => startup_length(rest),
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
            self.framing = if self.markers {
                Framing::Unknown
            } else {
                Framing::Fpdus
            };
        }
        let from = self.taken;
        self.taken += length;
        Some(&self.held[from..self.taken])
    }

    /// True once this direction's start-up frame asked for markers in the other one.
    pub(super) const fn asks_for_markers(&self) -> bool {
        self.asks_for_markers
    }

    /// The other direction's start-up frame asked for markers in this one: its FPDUs are not cut.
    pub(super) fn expect_markers(&mut self) {
        self.markers = true;
        if self.framing == Framing::Fpdus {
            self.framing = Framing::Unknown;
        }
    }

    /// From here on the stream is given out as it comes, what is held first.
    pub(super) const fn give_up(&mut self) {
        self.framing = Framing::Unknown;
    }
}

enum Length {
    Known(usize),
    /// Too few octets to tell.
    Unknown,
    /// These octets begin no such frame.
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
        // The pad fills up to a multiple of four; it counts the length field but not the CRC, which is four octets.
        [high, low, ..] => Length::Known(
            (usize::from(u16::from_be_bytes([*high, *low])) + FPDU_OVERHEAD).next_multiple_of(4),
        ),
        _ => Length::Unknown,
    }
}
