//! MPA Request and Reply: RFC 5044 §7.1.1, with the enhanced header of RFC 6581 §9.

/// Bits of octet 16.
pub mod flag {
    /// M: the sender wants markers in what it receives.
    pub const MARKERS: u8 = 0x80;
    /// C: the sender wants CRCs.
    pub const CRC: u8 = 0x40;
    /// R: the connection is rejected.
    pub const REJECT: u8 = 0x20;
    /// S: the Private Data begins with the four octets of RFC 6581.
    pub const ENHANCED: u8 = 0x10;
    /// The bits that are reserved with S in use.
    pub const RESERVED: u8 = 0x0F;
}

/// A Request or a Reply, with each field as it goes on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFrame {
    /// The first 16 octets.
    pub key: [u8; 16],
    /// M, C, R, S and the reserved bits.
    pub flags: u8,
    /// Rev.
    pub revision: u8,
    /// PD_Length, if it is not to be the length of the Private Data.
    pub announced: Option<u16>,
    /// Private Data, the four octets of RFC 6581 included.
    pub private: Vec<u8>,
}

/// The four octets of RFC 6581 §9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enhanced {
    /// A: peer-to-peer model.
    pub a: bool,
    /// B: ready-to-receive by a Send of no length.
    pub b: bool,
    /// C: by a Write of no length.
    pub c: bool,
    /// D: by a Read of no length.
    pub d: bool,
    /// IRD, 14 bits.
    pub ird: u16,
    /// ORD, 14 bits.
    pub ord: u16,
}

impl Enhanced {
    /// IRD or ORD that is not negotiated automatically.
    pub const NOT_NEGOTIATED: u16 = 0x3FFF;

    /// The octets on the wire.
    pub fn to_bytes(self) -> [u8; 4] {
        let word = |high: bool, low: bool, value: u16| {
            (u16::from(high) << 15 | u16::from(low) << 14 | value & 0x3FFF).to_be_bytes()
        };
        let [a, b] = word(self.a, self.b, self.ird);
        let [c, d] = word(self.c, self.d, self.ord);
        [a, b, c, d]
    }

    /// From the wire.
    pub fn from_bytes([a, b, c, d]: [u8; 4]) -> Self {
        let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Self {
            a: first & 0x8000 != 0,
            b: first & 0x4000 != 0,
            c: second & 0x8000 != 0,
            d: second & 0x4000 != 0,
            ird: first & 0x3FFF,
            ord: second & 0x3FFF,
        }
    }
}

impl StartFrame {
    /// The key of a Request.
    pub const REQUEST: [u8; 16] = *b"MPA ID Req Frame";
    /// The key of a Reply.
    pub const REPLY: [u8; 16] = *b"MPA ID Rep Frame";
    /// Octets in front of the Private Data.
    pub const HEADER: usize = 20;

    /// Rev 1.
    pub fn plain(key: [u8; 16], flags: u8, private: &[u8]) -> Self {
        Self {
            key,
            flags,
            revision: 1,
            announced: None,
            private: private.to_vec(),
        }
    }

    /// Rev 2 with S = 1.
    pub fn enhanced(key: [u8; 16], flags: u8, enhanced: Enhanced, private: &[u8]) -> Self {
        Self {
            key,
            flags: flags | flag::ENHANCED,
            revision: 2,
            announced: None,
            private: [&enhanced.to_bytes()[..], private].concat(),
        }
    }

    /// The octets of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let length = self
            .announced
            .unwrap_or_else(|| u16::try_from(self.private.len()).unwrap_or(u16::MAX));
        let mut octets = self.key.to_vec();
        octets.extend([self.flags, self.revision]);
        octets.extend(length.to_be_bytes());
        octets.extend(&self.private);
        octets
    }

    /// The announced length of the Private Data behind a header.
    pub fn announced(header: &[u8; Self::HEADER]) -> usize {
        usize::from(u16::from_be_bytes([header[18], header[19]]))
    }

    /// A header and the Private Data that belongs to it.
    pub fn decode(header: &[u8; Self::HEADER], private: &[u8]) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&header[..16]);
        Self {
            key,
            flags: header[16],
            revision: header[17],
            announced: u16::try_from(Self::announced(header)).ok(),
            private: private.to_vec(),
        }
    }

    /// The four octets, if S announces them and they are there.
    pub fn limits(&self) -> Option<Enhanced> {
        if self.flags & flag::ENHANCED == 0 {
            return None;
        }
        self.private
            .first_chunk()
            .map(|octets| Enhanced::from_bytes(*octets))
    }

    /// The application's Private Data.
    pub fn data(&self) -> &[u8] {
        let skip = if self.limits().is_some() { 4 } else { 0 };
        &self.private[skip..]
    }
}
