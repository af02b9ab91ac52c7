//! The headers that a Terminate returns of the message that it is about, RFC 5040 section 4.8.

use super::fault::Included;
use crate::ddp::Header;
use crate::rdmap::{Opcode, ReadRequest, Terminate};

/// The headers of a faulty inbound message (DDP-072). The [`Fault`](super::Fault) says what was wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct TerminatedHeaders {
    pub(super) header: Header,
    /// Octets of the whole DDP segment (OPEN-07).
    pub(super) length: u16,
    pub(super) read: Option<ReadRequest>,
}

impl TerminatedHeaders {
    /// The headers of a ULPDU, if it has them.
    pub(super) fn ulpdu(ulpdu: &[u8]) -> Option<Self> {
        let (header, rest) = Header::split(ulpdu).ok()?;
        let is_read = Opcode::parse(header.ulp_control()) == Ok(Opcode::ReadRequest);
        Some(Self {
            header,
            length: u16::try_from(ulpdu.len()).ok()?,
            read: if is_read {
                ReadRequest::parse(rest)
            } else {
                None
            },
        })
    }

    /// RDMAP-076 to RDMAP-078.
    pub(super) fn include(self, included: Included, terminate: &mut Terminate) {
        match included {
            Included::Nothing => return,
            Included::Ddp => {}
            Included::DdpAndRead => terminate.read = self.read,
        }
        terminate.ddp = Some(self.header);
        terminate.segment_length = Some(self.length);
    }
}
