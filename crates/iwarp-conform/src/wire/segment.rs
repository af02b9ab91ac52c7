//! DDP segments with their RDMAP control octet: RFC 5041 §4, RFC 5040 §4.1.

use super::{AtomicRequest, ReadRequest, Terminate, header};

/// RDMAP opcodes, RFC 5040 §4.3 and RFC 7306 §4.1.
pub mod opcode {
    /// RDMA Write.
    pub const WRITE: u8 = 0x0;
    /// RDMA Read Request.
    pub const READ_REQUEST: u8 = 0x1;
    /// RDMA Read Response.
    pub const READ_RESPONSE: u8 = 0x2;
    /// Send.
    pub const SEND: u8 = 0x3;
    /// Send with Invalidate.
    pub const SEND_INVALIDATE: u8 = 0x4;
    /// Send with Solicited Event.
    pub const SEND_SOLICITED: u8 = 0x5;
    /// Send with Solicited Event and Invalidate.
    pub const SEND_SOLICITED_INVALIDATE: u8 = 0x6;
    /// Terminate.
    pub const TERMINATE: u8 = 0x7;
    /// Immediate Data.
    pub const IMMEDIATE: u8 = 0x8;
    /// Immediate Data with Solicited Event.
    pub const IMMEDIATE_SOLICITED: u8 = 0x9;
    /// Atomic Request.
    pub const ATOMIC_REQUEST: u8 = 0xA;
    /// Atomic Response.
    pub const ATOMIC_RESPONSE: u8 = 0xB;
}

/// Untagged queues, RFC 5040 §4.3 and RFC 7306 §4.1.
pub mod queue {
    /// Send family, Immediate Data.
    pub const SEND: u32 = 0;
    /// Read and Atomic Requests.
    pub const REQUEST: u32 = 1;
    /// Terminate.
    pub const TERMINATE: u32 = 2;
    /// Atomic Responses.
    pub const ATOMIC_RESPONSE: u32 = 3;
}

/// One DDP segment, with each field as it goes on the wire. Fields of the other buffer model are not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// T, the flag of tagged segments.
    pub tagged: bool,
    /// L, the flag of a message's last segment.
    pub last: bool,
    /// The four reserved bits of the DDP control octet.
    pub ddp_reserved: u8,
    /// DV, the version of DDP.
    pub ddp_version: u8,
    /// RV, the version of RDMAP.
    pub rdmap_version: u8,
    /// The two reserved bits of the RDMAP control octet.
    pub rdmap_reserved: u8,
    /// RDMAP opcode.
    pub opcode: u8,
    /// Tagged: STag. Untagged: Invalidate STag.
    pub stag: u32,
    /// Tagged: TO, the offset in the memory of the STag.
    pub to: u64,
    /// Untagged: QN, the queue number.
    pub qn: u32,
    /// Untagged: MSN, the message's sequence number in its queue.
    pub msn: u32,
    /// Untagged: MO, the segment's offset in the message.
    pub mo: u32,
    /// The octets behind the DDP header.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Octets of a tagged header.
    pub const TAGGED: usize = header::TAGGED;
    /// Octets of an untagged header.
    pub const UNTAGGED: usize = header::UNTAGGED;

    /// A legal, last, untagged segment.
    pub fn untagged(opcode: u8, qn: u32, msn: u32, payload: &[u8]) -> Self {
        Self {
            tagged: false,
            last: true,
            ddp_reserved: 0,
            ddp_version: 1,
            rdmap_version: 1,
            rdmap_reserved: 0,
            opcode,
            stag: 0,
            to: 0,
            qn,
            msn,
            mo: 0,
            payload: payload.to_vec(),
        }
    }

    /// A legal, last, tagged segment.
    pub fn tagged(opcode: u8, stag: u32, to: u64, payload: &[u8]) -> Self {
        Self {
            tagged: true,
            stag,
            to,
            ..Self::untagged(opcode, 0, 0, payload)
        }
    }

    /// A Send.
    pub fn send(msn: u32, payload: &[u8]) -> Self {
        Self::untagged(opcode::SEND, queue::SEND, msn, payload)
    }

    /// An RDMA Write.
    pub fn write(stag: u32, to: u64, payload: &[u8]) -> Self {
        Self::tagged(opcode::WRITE, stag, to, payload)
    }

    /// An RDMA Read Request.
    pub fn read_request(msn: u32, request: ReadRequest) -> Self {
        Self::untagged(
            opcode::READ_REQUEST,
            queue::REQUEST,
            msn,
            &request.to_bytes(),
        )
    }

    /// An RDMA Read Response.
    pub fn read_response(stag: u32, to: u64, payload: &[u8]) -> Self {
        Self::tagged(opcode::READ_RESPONSE, stag, to, payload)
    }

    /// An Atomic Request.
    pub fn atomic_request(msn: u32, request: AtomicRequest) -> Self {
        Self::untagged(
            opcode::ATOMIC_REQUEST,
            queue::REQUEST,
            msn,
            &request.to_bytes(),
        )
    }

    /// The ULPDU.
    pub fn encode(&self) -> Vec<u8> {
        let bit = |set: bool, mask: u8| if set { mask } else { 0 };
        let mut octets = vec![
            bit(self.tagged, 0x80)
                | bit(self.last, 0x40)
                | (self.ddp_reserved & 0xF) << 2
                | self.ddp_version & 3,
            (self.rdmap_version & 3) << 6 | (self.rdmap_reserved & 3) << 4 | self.opcode & 0xF,
        ];
        octets.extend(self.stag.to_be_bytes());
        if self.tagged {
            octets.extend(self.to.to_be_bytes());
        } else {
            octets.extend(self.qn.to_be_bytes());
            octets.extend(self.msn.to_be_bytes());
            octets.extend(self.mo.to_be_bytes());
        }
        octets.extend(&self.payload);
        octets
    }

    /// Reads a ULPDU. `None` if it is shorter than its header.
    pub fn decode(ulpdu: &[u8]) -> Option<Self> {
        let (&[ddp, rdmap], rest) = ulpdu.split_first_chunk()?;
        let (stag, rest) = rest.split_first_chunk()?;
        let mut segment = Self {
            tagged: ddp & 0x80 != 0,
            last: ddp & 0x40 != 0,
            ddp_reserved: ddp >> 2 & 0xF,
            ddp_version: ddp & 3,
            rdmap_version: rdmap >> 6,
            rdmap_reserved: rdmap >> 4 & 3,
            opcode: rdmap & 0xF,
            stag: u32::from_be_bytes(*stag),
            ..Self::untagged(0, 0, 0, &[])
        };
        let rest = if segment.tagged {
            let (to, rest) = rest.split_first_chunk()?;
            segment.to = u64::from_be_bytes(*to);
            rest
        } else {
            let (qn, rest) = rest.split_first_chunk()?;
            let (msn, rest) = rest.split_first_chunk()?;
            let (mo, rest) = rest.split_first_chunk()?;
            segment.qn = u32::from_be_bytes(*qn);
            segment.msn = u32::from_be_bytes(*msn);
            segment.mo = u32::from_be_bytes(*mo);
            rest
        };
        segment.payload = rest.to_vec();
        Some(segment)
    }

    /// Octets of the header.
    pub fn header_len(&self) -> usize {
        if self.tagged {
            Self::TAGGED
        } else {
            Self::UNTAGGED
        }
    }

    /// Returns true if this is one of the four Sends.
    pub fn is_send(&self) -> bool {
        (opcode::SEND..=opcode::SEND_SOLICITED_INVALIDATE).contains(&self.opcode)
    }

    /// Name, place and length in one line.
    pub fn describe(&self) -> String {
        let name = match self.opcode {
            opcode::WRITE => "Write",
            opcode::READ_REQUEST => "Read Request",
            opcode::READ_RESPONSE => "Read Response",
            opcode::SEND => "Send",
            opcode::SEND_INVALIDATE => "Send with Invalidate",
            opcode::SEND_SOLICITED => "Send with Solicited Event",
            opcode::SEND_SOLICITED_INVALIDATE => "Send with Solicited Event and Invalidate",
            opcode::TERMINATE => "Terminate",
            opcode::IMMEDIATE => "Immediate Data",
            opcode::IMMEDIATE_SOLICITED => "Immediate Data with Solicited Event",
            opcode::ATOMIC_REQUEST => "Atomic Request",
            opcode::ATOMIC_RESPONSE => "Atomic Response",
            _ => "message with an unassigned opcode",
        };
        let (last, len) = (
            if self.last { "" } else { ", more follows" },
            self.payload.len(),
        );
        if self.tagged {
            let (stag, to) = (self.stag, self.to);
            format!("{name} (STag {stag:#010x}, TO {to:#x}, {len} octets{last})")
        } else {
            let (qn, msn, mo) = (self.qn, self.msn, self.mo);
            let code = match Terminate::parse(&self.payload, false) {
                Some(terminate) if self.opcode == opcode::TERMINATE => {
                    format!(" {}", terminate.code)
                }
                _ => String::new(),
            };
            format!("{name}{code} (QN {qn}, MSN {msn}, MO {mo}, {len} octets{last})")
        }
    }
}
