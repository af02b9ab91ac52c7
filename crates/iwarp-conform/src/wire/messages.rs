//! The headers behind the DDP header of Reads (RFC 5040 §4.4) and Atomics (RFC 7306 §5.2).

/// The header of a Read Request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// Data Sink STag.
    pub sink_stag: u32,
    /// Data Sink TO.
    pub sink_to: u64,
    /// RDMARDSZ.
    pub size: u32,
    /// Data Source STag.
    pub source_stag: u32,
    /// Data Source TO.
    pub source_to: u64,
}

impl ReadRequest {
    /// Octets.
    pub const LEN: usize = 28;

    /// The octets on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..4].copy_from_slice(&self.sink_stag.to_be_bytes());
        octets[4..12].copy_from_slice(&self.sink_to.to_be_bytes());
        octets[12..16].copy_from_slice(&self.size.to_be_bytes());
        octets[16..20].copy_from_slice(&self.source_stag.to_be_bytes());
        octets[20..].copy_from_slice(&self.source_to.to_be_bytes());
        octets
    }

    /// Reads the header. `None` if there are fewer octets. More octets are ignored.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; Self::LEN] = octets.first_chunk()?;
        Some(Self {
            sink_stag: word(octets, 0),
            sink_to: long(octets, 4),
            size: word(octets, 12),
            source_stag: word(octets, 16),
            source_to: long(octets, 20),
        })
    }
}

/// The header of an Atomic Request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicRequest {
    /// The reserved 28 bits and AOpCode.
    pub operation: u32,
    /// Request Identifier.
    pub identifier: u32,
    /// Remote STag.
    pub stag: u32,
    /// Remote TO.
    pub to: u64,
    /// Add or Swap Data.
    pub data: u64,
    /// Add or Swap Mask.
    pub mask: u64,
    /// Compare Data.
    pub compare: u64,
    /// Compare Mask.
    pub compare_mask: u64,
}

impl AtomicRequest {
    /// Octets.
    pub const LEN: usize = 52;
    /// AOpCode FetchAdd.
    pub const FETCH_ADD: u32 = 0;
    /// AOpCode CmpSwap.
    pub const COMPARE_SWAP: u32 = 2;

    /// The octets on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..4].copy_from_slice(&self.operation.to_be_bytes());
        octets[4..8].copy_from_slice(&self.identifier.to_be_bytes());
        octets[8..12].copy_from_slice(&self.stag.to_be_bytes());
        octets[12..20].copy_from_slice(&self.to.to_be_bytes());
        octets[20..28].copy_from_slice(&self.data.to_be_bytes());
        octets[28..36].copy_from_slice(&self.mask.to_be_bytes());
        octets[36..44].copy_from_slice(&self.compare.to_be_bytes());
        octets[44..].copy_from_slice(&self.compare_mask.to_be_bytes());
        octets
    }

    /// Reads the header. `None` if there are fewer octets. More octets are ignored.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; Self::LEN] = octets.first_chunk()?;
        Some(Self {
            operation: word(octets, 0),
            identifier: word(octets, 4),
            stag: word(octets, 8),
            to: long(octets, 12),
            data: long(octets, 20),
            mask: long(octets, 28),
            compare: long(octets, 36),
            compare_mask: long(octets, 44),
        })
    }
}

/// The header of an Atomic Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// Original Request Identifier.
    pub identifier: u32,
    /// Original Remote Data Value.
    pub value: u64,
}

impl AtomicResponse {
    /// Octets.
    pub const LEN: usize = 12;

    /// The octets on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..4].copy_from_slice(&self.identifier.to_be_bytes());
        octets[4..].copy_from_slice(&self.value.to_be_bytes());
        octets
    }

    /// Reads the header. `None` if there are fewer octets. More octets are ignored.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; Self::LEN] = octets.first_chunk()?;
        Some(Self {
            identifier: word(octets, 0),
            value: long(octets, 4),
        })
    }
}

fn word<const N: usize>(octets: &[u8; N], at: usize) -> u32 {
    octets[at..at + 4]
        .iter()
        .fold(0, |word, octet| word << 8 | u32::from(*octet))
}

fn long<const N: usize>(octets: &[u8; N], at: usize) -> u64 {
    u64::from(word(octets, at)) << 32 | u64::from(word(octets, at + 4))
}
