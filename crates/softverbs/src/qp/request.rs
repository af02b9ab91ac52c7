//! Requests for the send queue.

use iwarp_io::endpoint::RemoteAddress;
use iwarp_io::memory::STag;

use crate::ah::AddressHandle;
use crate::sge::Sge;

/// The data of a request, or the target of a Read.
#[derive(Clone, Copy, Debug)]
pub enum SendData<'a> {
    /// Registered memory.
    Sges(&'a [Sge]),
    /// Memory that is copied at once, the pieces one behind the other (`IBV_SEND_INLINE`).
    Inline(&'a [&'a [u8]]),
}

/// A place in the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePlace {
    /// The offset.
    pub addr: u64,
    /// The key.
    pub rkey: u32,
}

impl From<RemotePlace> for RemoteAddress {
    fn from(place: RemotePlace) -> Self {
        Self {
            stag: STag(place.rkey),
            to: place.addr,
        }
    }
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOperation {
    /// `IBV_WR_SEND`.
    Send,
    /// `IBV_WR_SEND_WITH_INV`: invalidates this key of the peer.
    SendInvalidate(u32),
    /// `IBV_WR_SEND_WITH_IMM`: the peer's Receive completes with this number.
    SendImmediate([u8; 4]),
    /// `IBV_WR_RDMA_WRITE`.
    Write(RemotePlace),
    /// `IBV_WR_RDMA_WRITE_WITH_IMM`: the peer's Receive completes when the octets are placed, with this number.
    WriteImmediate(RemotePlace, [u8; 4]),
    /// `IBV_WR_RDMA_READ`.
    Read(RemotePlace),
    /// `IBV_WR_ATOMIC_CMP_AND_SWP`: the word at this place becomes the second number if it is the first one. The SGE gets the word as it was
    /// before, in the byte order of this processor.
    CompareSwap(RemotePlace, u64, u64),
    /// `IBV_WR_ATOMIC_FETCH_AND_ADD`: adds this number to the word at this place. The SGE gets the word as it was before.
    FetchAdd(RemotePlace, u64),
}

/// The queue pair that a datagram goes to.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The address.
    pub handle: &'a AddressHandle,
    /// The number of the queue pair.
    pub number: u32,
    /// Its Q_Key. With the top bit set, that of this side's queue pair.
    pub key: u32,
}

/// A request for the send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Comes back with the completion.
    pub wr_id: u64,
    /// The operation of the request.
    pub operation: SendOperation,
    /// The octets.
    pub data: SendData<'a>,
    /// Where a datagram goes. Queue pairs of the other services have one peer.
    pub to: Option<Destination<'a>>,
    /// Success yields a completion (`IBV_SEND_SIGNALED`). A queue pair made with `signal_all` acts as if every request had this.
    pub signaled: bool,
    /// The peer's completion is a solicited one (`IBV_SEND_SOLICITED`).
    pub solicited: bool,
    /// The request waits for all Reads before it (`IBV_SEND_FENCE`).
    pub fence: bool,
}
