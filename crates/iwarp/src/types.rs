//! Small value types that travel between the layers and the callers. Every number a peer can choose has its own type.

use core::fmt;

/// Steering tag: names a registered stretch of memory, RFC 5041 section 2.1. Local tokens of work requests have the same
/// type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct STag(pub u32);

impl fmt::Debug for STag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "STag({:#010x})", self.0)
    }
}

impl fmt::Display for STag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// Protection domain: regions and streams of different domains never meet, RFC 5042 section 6.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pd(pub u32);

/// One RDMAP stream as the memory knows it; windows are bound to a stream, RFC 5041 section 8.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u32);

/// One memory window, whatever STag it has at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct WindowId(pub u32);

/// Read limits of one stream as this side sees them, RFC 5040 section 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ReadLimits {
    /// Inbound: how many Read Requests of the peer may be unanswered at a time.
    pub ird: u32,
    /// Outbound: how many of our own Read Requests may be unanswered at a time.
    pub ord: u32,
}

/// An address in the peer's memory, as the peer advertised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct RemoteAddress {
    /// The steering tag of the buffer.
    pub stag: STag,
    /// Tagged offset of the first octet.
    pub to: u64,
}

/// One local buffer of a work request, an element of its scatter-gather list. `address` is a number inside the region that
/// `token` names, whose base is the region's virtual address. The engine never dereferences this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Sge {
    /// Local token of the region.
    pub token: STag,
    /// Where the buffer begins.
    pub address: u64,
    /// How many octets it has.
    pub length: u32,
}
