//! FPDUs and markers, RFC 5044 §4.

use super::crc32c;

/// Octets of stream from one marker to the next.
pub const MARKER_SPACING: u32 = 512;

/// The contents of the CRC field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrcStyle {
    /// The correct CRC.
    #[default]
    Good,
    /// The correct CRC with one bit inverted.
    Flipped,
    /// The octets of the correct CRC in the other order.
    BigEndian,
    /// A CRC without the PAD.
    WithoutPad,
    /// These octets.
    Octets([u8; 4]),
}

/// The position in a stream with markers, and the errors to make in markers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Markers {
    /// Octets since the first marker, modulo 2^32.
    pub position: u32,
    /// Added to every FPDUPTR that is not 0.
    pub skew: u16,
    /// Put into the reserved half of every marker.
    pub reserved: u16,
    /// Put into FPDUPTRs in place of 0.
    pub between: u16,
    /// Puts markers this many octets late, without the peer knowing.
    pub displaced: u32,
}

/// One FPDU to be encoded.
#[derive(Clone, Debug, Default)]
pub struct Fpdu {
    /// The ULPDU.
    pub ulpdu: Vec<u8>,
    /// ULPDU_Length, if it is not to be the length of the ULPDU.
    pub announced: Option<u16>,
    /// The value of every PAD octet.
    pub pad: u8,
    /// CRC field.
    pub crc: CrcStyle,
}

/// Octets of PAD behind a ULPDU of this length.
pub fn pad_length(ulpdu: usize) -> usize {
    (4 - (2 + ulpdu) % 4) % 4
}

impl Fpdu {
    /// A legal FPDU.
    pub fn new(ulpdu: Vec<u8>) -> Self {
        Self {
            ulpdu,
            ..Self::default()
        }
    }

    /// The octets of the FPDU, with the markers inside it and the marker in front of it.
    pub fn encode(&self, markers: Option<&mut Markers>) -> Vec<u8> {
        let length = self
            .announced
            .unwrap_or_else(|| u16::try_from(self.ulpdu.len()).unwrap_or(u16::MAX));
        let mut body = length.to_be_bytes().to_vec();
        body.extend(&self.ulpdu);
        let unpadded = body.len();
        body.resize(unpadded + pad_length(self.ulpdu.len()), self.pad);
        let Some(markers) = markers else {
            let crc = self.crc_field(&body, unpadded);
            body.extend(crc);
            return body;
        };
        let mut out = Vec::new();
        let mut start = None;
        for word in body.chunks(4) {
            markers.insert(&mut out, start);
            start.get_or_insert(markers.position);
            markers.advance(&mut out, word);
        }
        markers.insert(&mut out, start);
        let crc = self.crc_field(&out, out.len() - (body.len() - unpadded));
        markers.advance(&mut out, &crc);
        out
    }

    fn crc_field(&self, covered: &[u8], unpadded: usize) -> [u8; 4] {
        let good = crc32c(covered);
        match self.crc {
            CrcStyle::Good => good.to_le_bytes(),
            CrcStyle::Flipped => (good ^ 0x0100_0000).to_le_bytes(),
            CrcStyle::BigEndian => good.to_be_bytes(),
            CrcStyle::WithoutPad => crc32c(&covered[..unpadded]).to_le_bytes(),
            CrcStyle::Octets(octets) => octets,
        }
    }
}

impl Markers {
    /// Returns true if a marker is due at this place of the stream.
    pub fn due(&self) -> bool {
        self.position
            .wrapping_sub(self.displaced)
            .is_multiple_of(MARKER_SPACING)
    }

    /// Puts a marker here if one is due. `start` is where the FPDU began, if it has begun.
    fn insert(&mut self, out: &mut Vec<u8>, start: Option<u32>) {
        if !self.due() {
            return;
        }
        let pointer = match start {
            None => self.between,
            Some(start) => {
                let distance = self.position.wrapping_sub(start);
                u16::try_from(distance)
                    .unwrap_or(u16::MAX)
                    .wrapping_add(self.skew)
            }
        };
        out.extend(self.reserved.to_be_bytes());
        out.extend(pointer.to_be_bytes());
        self.position = self.position.wrapping_add(4);
    }

    fn advance(&mut self, out: &mut Vec<u8>, octets: &[u8]) {
        out.extend(octets);
        // At most four octets at a time.
        self.position = self
            .position
            .wrapping_add(u32::try_from(octets.len()).unwrap_or(4));
    }
}
