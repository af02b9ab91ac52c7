//! RDMAP control octet and opcodes, RFC 5040 sections 4.1 and 4.2.

use super::error::OperationError;
use crate::ddp::Qn;

/// RV: the two bits of the version.
pub const VERSION_MASK: u8 = 0xc0;
/// The version of the IETF protocol, which belongs to both MPA revisions that softnd speaks (MPA-028). The messages of RFC
/// 7306 have it as well (RDMAPX-003).
pub const VERSION: u8 = 0x40;

const OPCODE_MASK: u8 = 0x0f;

/// RDMAP messages, RFC 5040 section 4.3 and RFC 7306 section 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0x0,
    /// RDMA Read Request.
    ReadRequest = 0x1,
    /// RDMA Read Response.
    ReadResponse = 0x2,
    /// Send.
    Send = 0x3,
    /// Send with Invalidate.
    SendInvalidate = 0x4,
    /// Send with Solicited Event.
    SendSolicited = 0x5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 0x6,
    /// Terminate.
    Terminate = 0x7,
    /// Immediate Data, RFC 7306 section 6.
    Immediate = 0x8,
    /// Immediate Data with Solicited Event.
    ImmediateSolicited = 0x9,
    /// Atomic Request, RFC 7306 section 5.
    AtomicRequest = 0xa,
    /// Atomic Response.
    AtomicResponse = 0xb,
}

impl Opcode {
    /// Reads a control octet. The reserved bits are ignored (RDMAP-002).
    ///
    /// # Errors
    ///
    /// The version is not the IETF's (RDMAP-001), or the opcode is not implemented here (RDMAP-003).
    pub const fn parse(control: u8) -> Result<Self, OperationError> {
        if control & VERSION_MASK != VERSION {
            return Err(OperationError::Version);
        }
        Ok(match control & OPCODE_MASK {
            0x0 => Self::Write,
            0x1 => Self::ReadRequest,
            0x2 => Self::ReadResponse,
            0x3 => Self::Send,
            0x4 => Self::SendInvalidate,
            0x5 => Self::SendSolicited,
            0x6 => Self::SendSolicitedInvalidate,
            0x7 => Self::Terminate,
            0x8 => Self::Immediate,
            0x9 => Self::ImmediateSolicited,
            0xa => Self::AtomicRequest,
            0xb => Self::AtomicResponse,
            // The other opcodes are unassigned or experimental. Peers without RFC 7306 answer its opcodes in the same way
            // (RDMAPX-001).
            _ => return Err(OperationError::UnexpectedOpcode),
        })
    }

    /// The Send type with these properties.
    pub const fn send(solicited: bool, invalidate: bool) -> Self {
        match (solicited, invalidate) {
            (false, false) => Self::Send,
            (false, true) => Self::SendInvalidate,
            (true, false) => Self::SendSolicited,
            (true, true) => Self::SendSolicitedInvalidate,
        }
    }

    /// Returns true if this is one of the four Send types.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendInvalidate | Self::SendSolicited | Self::SendSolicitedInvalidate
        )
    }

    /// The type of Immediate Data with this property.
    pub const fn immediate(solicited: bool) -> Self {
        if solicited {
            Self::ImmediateSolicited
        } else {
            Self::Immediate
        }
    }

    /// Returns true if this is one of the two types of Immediate Data.
    pub const fn is_immediate(self) -> bool {
        matches!(self, Self::Immediate | Self::ImmediateSolicited)
    }

    /// Returns true if the message takes a Receive.
    pub const fn takes_receive(self) -> bool {
        self.is_send() || self.is_immediate()
    }

    /// Returns true if the message raises an event at the peer when it takes a Receive (RDMAPX-025).
    pub const fn is_solicited(self) -> bool {
        matches!(
            self,
            Self::SendSolicited | Self::SendSolicitedInvalidate | Self::ImmediateSolicited
        )
    }

    /// Returns true if this is a Send type that invalidates an STag.
    pub const fn is_invalidating(self) -> bool {
        matches!(self, Self::SendInvalidate | Self::SendSolicitedInvalidate)
    }

    /// Returns true if the message travels in tagged segments.
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::Write | Self::ReadResponse)
    }

    /// The queue of an untagged message.
    pub const fn queue(self) -> Option<Qn> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::ReadRequest | Self::AtomicRequest => Some(Qn::READ_REQUEST),
            Self::AtomicResponse => Some(Qn::ATOMIC_RESPONSE),
            Self::Send
            | Self::SendInvalidate
            | Self::SendSolicited
            | Self::SendSolicitedInvalidate
            | Self::Immediate
            | Self::ImmediateSolicited => Some(Qn::SEND),
            Self::Terminate => Some(Qn::TERMINATE),
        }
    }

    /// The opcode's name in the RFC.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "Write",
            Self::ReadRequest => "Read Request",
            Self::ReadResponse => "Read Response",
            Self::Send => "Send",
            Self::SendInvalidate => "Send Inv",
            Self::SendSolicited => "Send SE",
            Self::SendSolicitedInvalidate => "Send SE Inv",
            Self::Terminate => "Terminate",
            Self::Immediate => "Immediate Data",
            Self::ImmediateSolicited => "Immediate Data SE",
            Self::AtomicRequest => "Atomic Request",
            Self::AtomicResponse => "Atomic Response",
        }
    }
}

/// The control octet of a message. Reserved bits are zero (RDMAP-002).
pub const fn control(opcode: Opcode) -> u8 {
    VERSION | opcode as u8
}
