//! The Read Request header, RFC 5040 section 4.4.

use core::fmt;

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::types::{RemoteAddress, STag};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    sink_stag: U32,
    sink_to: U64,
    size: U32,
    source_stag: U32,
    source_to: U64,
}

const _: () = assert!(size_of::<Wire>() == ReadRequest::LEN);

/// The contents of a Read Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The requester's buffer, which the Response names. The responder does not interpret this address (RDMAP-035).
    pub sink: RemoteAddress,
    /// RDMARDSZ: octets to read.
    pub size: u32,
    /// The responder's buffer.
    pub source: RemoteAddress,
}

impl ReadRequest {
    /// Octets on the wire, behind the untagged DDP header.
    pub const LEN: usize = 28;

    /// Reads the header. `None` unless `payload` is exactly one header, because nothing may follow it (RDMAP-011).
    pub fn parse(payload: &[u8]) -> Option<Self> {
        Wire::ref_from_bytes(payload).ok().map(Self::from_wire)
    }

    /// Reads the header at the front of `octets`, as a Terminate carries it.
    pub(crate) fn parse_prefix(octets: &[u8]) -> Option<Self> {
        Wire::ref_from_prefix(octets)
            .ok()
            .map(|(wire, _)| Self::from_wire(wire))
    }

    const fn from_wire(wire: &Wire) -> Self {
        Self {
            sink: RemoteAddress {
                stag: STag(wire.sink_stag.get()),
                to: wire.sink_to.get(),
            },
            size: wire.size.get(),
            source: RemoteAddress {
                stag: STag(wire.source_stag.get()),
                to: wire.source_to.get(),
            },
        }
    }

    /// The header as it is on the wire.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(Wire {
            sink_stag: U32::new(self.sink.stag.0),
            sink_to: U64::new(self.sink.to),
            size: U32::new(self.size),
            source_stag: U32::new(self.source.stag.0),
            source_to: U64::new(self.source.to),
        })
    }

    /// The header of the rest of the Read after `sent` octets of the Response, RDMAP-079.
    #[must_use]
    pub const fn advanced(self, sent: u32) -> Self {
        const fn by(at: RemoteAddress, octets: u32) -> RemoteAddress {
            RemoteAddress {
                stag: at.stag,
                to: at.to.wrapping_add(octets as u64),
            }
        }
        Self {
            sink: by(self.sink, sent),
            size: self.size.saturating_sub(sent),
            source: by(self.source, sent),
        }
    }
}

impl fmt::Display for ReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sink, size, source } = self;
        write!(f, "reads {size} from {} to {:#x}", source.stag, source.to)?;
        write!(f, " into {} to {:#x}", sink.stag, sink.to)
    }
}
