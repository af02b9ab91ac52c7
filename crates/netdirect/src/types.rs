//! Flags, limits, options, results and addresses: the structures of ND2's headers `ndspi.h` and `nddef.h`.

use core::fmt;
use core::mem::offset_of;
use core::num::NonZeroU8;
use core::ops::RangeBounds;

use bitflags::bitflags;

use crate::{Buffer, Error, Result, Status};

/// `ND_VERSION_1`: version 1 of the interface, which this crate does not contain.
pub const VERSION_1: u32 = 0x1;
/// `ND_VERSION_2`: version 2 of the interface; also the value that clients write into `ND2_ADAPTER_INFO.InfoVersion` (AMB-017).
pub const VERSION_2: u32 = 0x2_0000;

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $($(#[$doc])* #[inline] #[must_use] pub const fn $name(mut self, $name: $type) -> Self { self.$name = $name; self })*
    };
}

bitflags! {
    /// `ND2_ADAPTER_INFO.AdapterFlags` (`ND_ADAPTER_FLAG_…`): what an adapter can do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AdapterFlags: u32 {
        /// `ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED`: data becomes visible in memory in the order of addresses, so an
        /// application may wait for the last octet of a Write to change (INFO-022).
        const IN_ORDER_DMA_SUPPORTED = 0x0000_0001;
        /// `ND_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED`: notifications of a completion queue can be moderated.
        const CQ_INTERRUPT_MODERATION_SUPPORTED = 0x0000_0004;
        /// `ND_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED`: completion queues progress in parallel.
        const MULTI_ENGINE_SUPPORTED = 0x0000_0008;
        /// `ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED`: [`CompletionQueue::resize`](crate::CompletionQueue::resize) works
        /// (AMB-022).
        const CQ_RESIZE_SUPPORTED = 0x0000_0100;
        /// `ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED`: connections to an address of the same adapter work.
        const LOOPBACK_CONNECTIONS_SUPPORTED = 0x0001_0000;
    }

    /// Rights and properties of a memory region (`ND_MR_FLAG_…`), for
    /// [`MemoryRegion::register`](crate::MemoryRegion::register).
    ///
    /// Without any flag, only Sends and Writes of the local side can use the region, as the source of their data (MR-019).
    /// `register` refuses unknown bits (AMB-055), which `from_bits_retain` can set.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MrFlags: u32 {
        /// `ND_MR_FLAG_ALLOW_LOCAL_WRITE`: the adapter may write into the buffer. Receives need this flag.
        const ALLOW_LOCAL_WRITE = 0x0000_0001;
        /// `ND_MR_FLAG_ALLOW_REMOTE_READ`: any connected peer that knows the remote token may read.
        const ALLOW_REMOTE_READ = 0x0000_0002;
        /// `ND_MR_FLAG_ALLOW_REMOTE_WRITE`: any connected peer that knows the remote token may write. The value includes
        /// [`ALLOW_LOCAL_WRITE`](Self::ALLOW_LOCAL_WRITE) (AMB-014).
        const ALLOW_REMOTE_WRITE = 0x0000_0005;
        /// `ND_MR_FLAG_RDMA_READ_SINK`: Reads of the local side may place their data here. iWARP adapters require this flag.
        const RDMA_READ_SINK = 0x0000_0008;
        /// `ND_MR_FLAG_DO_NOT_SECURE_VM`: the system need not protect the memory from being remapped.
        const DO_NOT_SECURE_VM = 0x8000_0000;
    }

    /// Flags of a request on a queue pair (`ND_OP_FLAG_…`).
    ///
    /// | request | flags it takes |
    /// |---|---|
    /// | Send | `SILENT_SUCCESS`, `READ_FENCE`, `SEND_AND_SOLICIT_EVENT` |
    /// | Bind | `SILENT_SUCCESS`, `READ_FENCE`, `ALLOW_READ`, `ALLOW_WRITE` |
    /// | Invalidate, Read, Write | `SILENT_SUCCESS`, `READ_FENCE` |
    ///
    /// Any other flag is an invalid parameter (QP-072, AMB-055). `INLINE` exists for COM clients. Rust callers use
    /// [`send_inline`](crate::QueuePair::send_inline) and [`write_inline`](crate::QueuePair::write_inline).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpFlags: u32 {
        /// `ND_OP_FLAG_SILENT_SUCCESS`: no result if the request succeeds. A failure still has a result. The request keeps its
        /// place in the queue until a later request completes (QP-073).
        const SILENT_SUCCESS = 0x0000_0001;
        /// `ND_OP_FLAG_READ_FENCE`: the request starts when all earlier Reads of the queue pair have completed.
        const READ_FENCE = 0x0000_0002;
        /// `ND_OP_FLAG_SEND_AND_SOLICIT_EVENT`: the message ends a Notify of the peer for [`NotifyType::Solicited`].
        const SEND_AND_SOLICIT_EVENT = 0x0000_0004;
        /// `ND_OP_FLAG_ALLOW_READ`: the peer may Read through the window being bound.
        const ALLOW_READ = 0x0000_0008;
        /// `ND_OP_FLAG_ALLOW_WRITE`: the peer may Write through the window being bound.
        const ALLOW_WRITE = 0x0000_0010;
        /// `ND_OP_FLAG_INLINE`: the call copies the data.
        const INLINE = 0x0000_0020;
    }

    /// `ND_QUERY_…`: which addresses ND2's helper library lists (`NdQueryAddressList`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QueryFlags: u32 {
        /// `ND_QUERY_EXCLUDE_EMULATOR_ADDRESSES`: has no effect, as in ND2's helper library.
        const EXCLUDE_EMULATOR_ADDRESSES = 0x0000_0001;
        /// `ND_QUERY_EXCLUDE_NDv1_ADDRESSES`: leaves out providers of version 1.
        const EXCLUDE_ND_V1_ADDRESSES = 0x0000_0002;
        /// `ND_QUERY_EXCLUDE_NDv2_ADDRESSES`: leaves out providers of version 2.
        const EXCLUDE_ND_V2_ADDRESSES = 0x0000_0004;
    }
}

/// Which results end a Notify request of a completion queue (`ND_CQ_NOTIFY_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NotifyType {
    /// `ND_CQ_NOTIFY_ERRORS`: no result; the request ends only if the queue breaks down, for example by an overflow (CQ-026).
    Errors = 0,
    /// `ND_CQ_NOTIFY_ANY`: the next result (CQ-027).
    Any = 1,
    /// `ND_CQ_NOTIFY_SOLICITED`: the result of a Receive whose message was sent with [`OpFlags::SEND_AND_SOLICIT_EVENT`], and any failure
    /// (CQ-028, CQ-029). If the device cannot distinguish these results from others, any result
    /// ([`SOLICITED_EVENTS`](crate::Capabilities::SOLICITED_EVENTS)).
    Solicited = 2,
}

impl TryFrom<u32> for NotifyType {
    type Error = Error;

    /// Fails with [`Status::INVALID_PARAMETER_1`] (AMB-054).
    fn try_from(value: u32) -> Result<Self> {
        match value {
            0 => Ok(Self::Errors),
            1 => Ok(Self::Any),
            2 => Ok(Self::Solicited),
            _ => Err(Error::new(
                Status::INVALID_PARAMETER_1,
                format!("no notification type {value}"),
            )),
        }
    }
}

/// `ND2_REQUEST_TYPE`: the kind of the request that a result belongs to.
///
/// This type is a number with names, as [`Status`] is. ND2 has six kinds and this crate adds two. A vendor's own kind keeps its
/// number. The names can be used as patterns in a `match`.
///
/// ```
/// use netdirect::RequestType;
///
/// let is_data = |kind| match kind {
///     RequestType::Bind | RequestType::Invalidate => Some(false),
///     RequestType::Send | RequestType::Receive | RequestType::Read | RequestType::Write => Some(true),
///     _ => None,
/// };
/// assert_eq!(is_data(RequestType::from_value(1)), Some(true));
/// assert_eq!(is_data(RequestType::from_value(0x8001)), None);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RequestType(u32);

#[allow(
    non_upper_case_globals,
    reason = "they are the variants of an open enumeration"
)]
impl RequestType {
    /// `Nd2RequestTypeReceive`.
    pub const Receive: Self = Self(0);
    /// `Nd2RequestTypeSend`.
    pub const Send: Self = Self(1);
    /// `Nd2RequestTypeBind`.
    pub const Bind: Self = Self(2);
    /// `Nd2RequestTypeInvalidate`.
    pub const Invalidate: Self = Self(3);
    /// `Nd2RequestTypeRead`.
    pub const Read: Self = Self(4);
    /// `Nd2RequestTypeWrite`.
    pub const Write: Self = Self(5);
    /// [`QueuePairExtensions::send_immediate`](crate::QueuePairExtensions::send_immediate); not a value of ND2.
    pub const SendImmediate: Self = Self(0x1000);
    /// [`QueuePairExtensions::atomic`](crate::QueuePairExtensions::atomic); not a value of ND2.
    pub const Atomic: Self = Self(0x1001);
}

impl RequestType {
    /// The six kinds of ND2, in the order of their values.
    pub const ALL: [Self; 6] = [
        Self::Receive,
        Self::Send,
        Self::Bind,
        Self::Invalidate,
        Self::Read,
        Self::Write,
    ];

    /// The kinds that this crate adds.
    pub const EXTENSIONS: [Self; 2] = [Self::SendImmediate, Self::Atomic];

    /// The kind with this value, known or not.
    pub const fn from_value(value: u32) -> Self {
        Self(value)
    }

    /// The value in `ND2_RESULT`.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The name, if this crate knows the kind.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Receive => "Receive",
            Self::Send => "Send",
            Self::Bind => "Bind",
            Self::Invalidate => "Invalidate",
            Self::Read => "Read",
            Self::Write => "Write",
            Self::SendImmediate => "SendImmediate",
            Self::Atomic => "Atomic",
            _ => return None,
        })
    }

    /// Returns true if a request of this kind may complete with `status`, according to the table on Microsoft's page about `ND2_RESULT`
    /// (RES-015). Kinds that ND2 does not have follow the rules for Send and Read.
    pub fn allows(self, status: Status) -> bool {
        let data = !matches!(self, Self::Bind | Self::Invalidate);
        match status {
            Status::SUCCESS
            | Status::CANCELED
            | Status::INVALID_DEVICE_REQUEST
            | Status::INTERNAL_ERROR => true,
            Status::DATA_OVERRUN => data && self != Self::Receive,
            Status::BUFFER_OVERFLOW => self == Self::Receive,
            Status::ACCESS_VIOLATION | Status::IO_TIMEOUT | Status::REMOTE_ERROR => data,
            _ => false,
        }
    }
}

impl fmt::Display for RequestType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "request type {:#x}", self.0),
        }
    }
}

impl fmt::Debug for RequestType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "RequestType({:#x})", self.0),
        }
    }
}

/// The number of an adapter (`ND2_ADAPTER_INFO.AdapterId`), from
/// [`Provider::resolve_address`](crate::Provider::resolve_address).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct AdapterId(pub u64);

impl fmt::Display for AdapterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// `ND2_ADAPTER_INFO`: the identity and the limits of an adapter.
///
/// The limits do not depend on the adapter's load. A call that respects the limits can still fail because resources are
/// exhausted (ADPT-015). There is no field for `InfoVersion`, because a Rust program always uses the version that it was
/// compiled with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// `VendorId`: 16 bits, usually from the supplier's OUI.
    pub vendor_id: u16,
    /// `DeviceId`: the supplier's number for this type of device.
    pub device_id: u16,
    /// `AdapterId`: the number that [`Provider::resolve_address`](crate::Provider::resolve_address) returns, unique to the
    /// adapter.
    pub adapter_id: AdapterId,
    /// `MaxRegistrationSize`: the largest buffer of a memory region, in octets.
    pub max_registration_size: u64,
    /// `MaxWindowSize`: ND2 documents this field as unused. It equals `max_registration_size` (AMB-058).
    pub max_window_size: u64,
    /// `MaxInitiatorSge`: the largest number of scatter/gather entries in a Send or Write.
    pub max_initiator_sge: u32,
    /// `MaxReceiveSge`: the largest number of scatter/gather entries in a Receive.
    pub max_receive_sge: u32,
    /// `MaxReadSge`: the largest number of scatter/gather entries in a Read; at most `max_initiator_sge`.
    pub max_read_sge: u32,
    /// `MaxTransferLength`: the largest total length of a request's entries, in octets.
    pub max_transfer_length: u32,
    /// `MaxInlineDataSize`: the most inline data in a Send or Write, in octets.
    pub max_inline_data_size: u32,
    /// `MaxInboundReadLimit`: how many Reads of the peer the adapter serves at a time on one connection.
    pub max_inbound_read_limit: u32,
    /// `MaxOutboundReadLimit`: how many Reads the adapter issues at a time on one connection.
    pub max_outbound_read_limit: u32,
    /// `MaxReceiveQueueDepth`: how many Receives of a queue pair can be outstanding.
    pub max_receive_queue_depth: u32,
    /// `MaxInitiatorQueueDepth`: how many Sends, Binds, Invalidates, Reads and Writes of a queue pair can be outstanding.
    pub max_initiator_queue_depth: u32,
    /// `MaxSharedReceiveQueueDepth`: how many Receives of a shared receive queue can be outstanding; 0 if the adapter has no
    /// shared receive queues.
    pub max_shared_receive_queue_depth: u32,
    /// `MaxCompletionQueueDepth`: how many results a completion queue can hold.
    pub max_completion_queue_depth: u32,
    /// `InlineRequestThreshold`: below this many octets, inline data is faster than a registered buffer; at most
    /// `max_inline_data_size`.
    pub inline_request_threshold: u32,
    /// `LargeRequestThreshold`: above this many octets, Read and Write are faster than Send and Receive.
    pub large_request_threshold: u32,
    /// `MaxCallerData`: the most private data in a Connect, in octets.
    pub max_caller_data: u32,
    /// `MaxCalleeData`: the most private data in an Accept or Reject, in octets.
    pub max_callee_data: u32,
    /// `AdapterFlags`: what the adapter can do.
    pub flags: AdapterFlags,
}

/// The processors that should receive notifications: a processor group, and a set of processors in this group
/// (`USHORT group, KAFFINITY affinity`).
///
/// The default, group 0 without processors, leaves the choice to the provider. The provider ignores an affinity that it cannot
/// honour (ADPT-026).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// The processor group; 0 on systems without groups.
    pub group: u16,
    /// One bit for each processor of the group.
    pub mask: u64,
}

/// The local token of a memory region, for an [`Sge`] (`ND2_SGE.MemoryRegionToken`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LocalToken(pub u32);

/// The token that gives a peer access to a memory region or window (`UINT32 remoteToken`).
///
/// Applications send a token to the peer as the octets of [`to_bytes`](Self::to_bytes). These octets are the same on machines
/// of either byte order (MR-032). The value of the integer has no meaning for applications.
///
/// ```
/// use netdirect::RemoteToken;
///
/// let token = RemoteToken::from_host(0x0102_0304); // a provider's STag
/// assert_eq!(token.to_bytes(), [1, 2, 3, 4]); // on every machine
/// assert_eq!(RemoteToken::from_bytes([1, 2, 3, 4]), token);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RemoteToken(pub u32);

impl RemoteToken {
    /// The octets to send to a peer.
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0.to_ne_bytes()
    }

    /// The token from octets that a peer sent.
    pub const fn from_bytes(octets: [u8; 4]) -> Self {
        Self(u32::from_ne_bytes(octets))
    }

    /// For providers: the token with this number in the wire protocol.
    pub const fn from_host(number: u32) -> Self {
        Self(number.to_be())
    }

    /// For providers: the token's number in the wire protocol.
    pub const fn to_host(self) -> u32 {
        u32::from_be(self.0)
    }
}

/// An address in the peer's memory with its token: `remoteAddress` and `remoteToken` of Read and Write.
///
/// How an application learns this address is up to the application. [`to_bytes`](Self::to_bytes) is a form that any peer can
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The peer's virtual address, in host byte order (QP-062): the base of the peer's region or window, plus an offset.
    pub address: u64,
    /// The peer's token, as it was received.
    pub token: RemoteToken,
}

impl RemoteAddress {
    /// The length of [`to_bytes`](Self::to_bytes), in octets.
    pub const LEN: usize = 12;

    /// The address in network byte order, followed by the token.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..8].copy_from_slice(&self.address.to_be_bytes());
        octets[8..].copy_from_slice(&self.token.to_bytes());
        octets
    }

    /// The inverse of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(octets: [u8; Self::LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, token @ ..] = octets;
        Self {
            address: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            token: RemoteToken::from_bytes(token),
        }
    }

    /// The address `octets` further on, wrapping around at the end of the address space. A provider refuses addresses outside
    /// the region.
    #[must_use]
    pub const fn offset(self, octets: u64) -> Self {
        Self {
            address: self.address.wrapping_add(octets),
            ..self
        }
    }
}

/// `ND2_SGE`: one local buffer of a request.
///
/// `address` is a number: [`Buffer::address`] plus an offset. No code dereferences this number. When the request is
/// processed, the provider checks that the entry lies inside the region of `token`. If not, the request completes with an
/// error (SGE-004).
///
/// The structure has the memory layout of `ND2_SGE` on a 64-bit system, so a COM binding can pass on a client's list unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Sge {
    /// `Buffer`: the address of the first octet.
    pub address: u64,
    /// `BufferLength`: the length in octets, which may be 0.
    pub length: u32,
    /// `MemoryRegionToken`: from [`MemoryRegion::get_local_token`](crate::MemoryRegion::get_local_token).
    pub token: LocalToken,
}

const _: () = assert!(
    size_of::<Sge>() == 16
        && offset_of!(Sge, address) == 0
        && offset_of!(Sge, length) == 8
        && offset_of!(Sge, token) == 12
);
const _: () = assert!(size_of::<LocalToken>() == 4 && size_of::<RemoteToken>() == 4);
const _: () = assert!(
    size_of::<AdapterId>() == 8 && size_of::<Status>() == 4 && size_of::<RequestType>() == 4
);

impl Sge {
    /// A range of a registered buffer.
    ///
    /// # Panics
    ///
    /// If the range lies outside the buffer, or if its length does not fit in 32 bits.
    ///
    /// ```
    /// use netdirect::{Buffer, LocalToken, Sge};
    ///
    /// let buffer = Buffer::new(4096);
    /// let sge = Sge::new(&buffer, 64..128, LocalToken(7));
    /// assert_eq!((sge.address - buffer.address(), sge.length), (64, 64));
    /// ```
    #[inline]
    pub fn new(buffer: &Buffer, range: impl RangeBounds<usize>, token: LocalToken) -> Self {
        let part = buffer.slice(range);
        let length = u32::try_from(part.len()).expect("a scatter/gather entry is at most 4 GiB");
        Self {
            address: part.address(),
            length,
            token,
        }
    }
}

/// Immediate Data: a few octets that a message carries into the peer's result, with or without a payload.
///
/// iWARP has 8 octets (RFC 7306 section 6), and InfiniBand has 4. [`Capabilities`](crate::Capabilities) say which length an adapter can
/// send.
///
/// ```
/// use netdirect::Immediate;
///
/// let immediate = Immediate::from(*b"8 octets");
/// assert_eq!(immediate.as_bytes(), b"8 octets");
/// assert_eq!(immediate.eight(), Some(*b"8 octets"));
/// assert_eq!(immediate.four(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Immediate {
    /// 4 or 8. Its niche keeps a result without Immediate Data as small as one with it.
    len: NonZeroU8,
    /// Those behind `len` are 0.
    octets: [u8; 8],
}

impl Immediate {
    const FOUR: NonZeroU8 = NonZeroU8::new(4).unwrap();
    const EIGHT: NonZeroU8 = NonZeroU8::new(8).unwrap();

    /// The octets, in the order in which the peer passed them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.len.get())]
    }

    /// The octets, if their number is 4.
    pub fn four(self) -> Option<[u8; 4]> {
        let [a, b, c, d, ..] = self.octets;
        (self.len == Self::FOUR).then_some([a, b, c, d])
    }

    /// The octets, if their number is 8.
    pub fn eight(self) -> Option<[u8; 8]> {
        (self.len == Self::EIGHT).then_some(self.octets)
    }
}

impl From<[u8; 4]> for Immediate {
    fn from([a, b, c, d]: [u8; 4]) -> Self {
        Self {
            len: Self::FOUR,
            octets: [a, b, c, d, 0, 0, 0, 0],
        }
    }
}

impl From<[u8; 8]> for Immediate {
    fn from(octets: [u8; 8]) -> Self {
        Self {
            len: Self::EIGHT,
            octets,
        }
    }
}

impl fmt::Debug for Immediate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Immediate").field(&self.as_bytes()).finish()
    }
}

/// `ND2_RESULT`: how a request on a queue pair ended.
///
/// ```
/// use netdirect::{CompletionResult, RequestType, Status};
///
/// let result = CompletionResult::new(RequestType::Send, 7).status(Status::CANCELED);
/// assert_eq!((result.request_context, result.status), (7, Status::CANCELED));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CompletionResult {
    /// `Status`: how the request ended. [`RequestType::allows`] says which statuses a kind of request can have.
    pub status: Status,
    /// `BytesTransferred`: the number of octets received; defined for Receives only (RES-002).
    pub bytes_transferred: u32,
    /// `QueuePairContext`: the value of [`QueuePairOptions::context`].
    pub queue_pair_context: u64,
    /// `RequestContext`: the context that was passed to the call.
    pub request_context: u64,
    /// `RequestType`: the kind of the request, which is set for failures too.
    pub request_type: RequestType,
    /// The Immediate Data of the message that used this Receive, if the message carried any
    /// ([`QueuePairExtensions::send_immediate`](crate::QueuePairExtensions::send_immediate)). `bytes_transferred` says whether the message
    /// had a payload too. ND2 has no such field.
    pub immediate: Option<Immediate>,
}

impl CompletionResult {
    /// The result of a request that has succeeded and received no octets.
    #[inline]
    #[must_use]
    pub const fn new(request_type: RequestType, request_context: u64) -> Self {
        Self {
            status: Status::SUCCESS,
            bytes_transferred: 0,
            queue_pair_context: 0,
            request_context,
            request_type,
            immediate: None,
        }
    }

    setters! {
        /// Sets [`status`](Self#structfield.status).
        status: Status;
        /// Sets [`bytes_transferred`](Self#structfield.bytes_transferred).
        bytes_transferred: u32;
        /// Sets [`queue_pair_context`](Self#structfield.queue_pair_context).
        queue_pair_context: u64;
        /// Sets [`immediate`](Self#structfield.immediate).
        immediate: Option<Immediate>;
    }
}

/// The read limits of a connection, as the local side sees them
/// ([`Connector::get_read_limits`](crate::Connector::get_read_limits)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadLimits {
    /// How many Reads the local side serves at a time; 0 if it serves none.
    pub inbound: u32,
    /// How many Reads the local side issues at a time; 0 if it issues none.
    pub outbound: u32,
}

/// The context and the sizes of a queue pair: the arguments of `CreateQueuePair` and `CreateQueuePairWithSrq`.
///
/// ```
/// let options = netdirect::QueuePairOptions::default().receive_queue_depth(64).max_initiator_request_sge(2);
/// assert_eq!((options.receive_queue_depth, options.initiator_queue_depth), (64, 16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePairOptions {
    /// `context`: a value for [`CompletionResult::queue_pair_context`]. The default is 0.
    pub context: u64,
    /// `receiveQueueDepth`: how many Receives can be outstanding; ignored with a shared receive queue. The default is 16.
    pub receive_queue_depth: u32,
    /// `initiatorQueueDepth`: how many requests other than Receives can be outstanding. The default is 16.
    pub initiator_queue_depth: u32,
    /// `maxReceiveRequestSge`: the most entries of a Receive; ignored with a shared receive queue. The default is 1.
    pub max_receive_request_sge: u32,
    /// `maxInitiatorRequestSge`: the most entries of a Send, Write or Read. The default is 1.
    pub max_initiator_request_sge: u32,
    /// `inlineDataSize`: the most inline data of a request, in octets. The default is 0.
    pub inline_data_size: u32,
}

impl Default for QueuePairOptions {
    fn default() -> Self {
        Self {
            context: 0,
            receive_queue_depth: 16,
            initiator_queue_depth: 16,
            max_receive_request_sge: 1,
            max_initiator_request_sge: 1,
            inline_data_size: 0,
        }
    }
}

impl QueuePairOptions {
    setters! {
        /// Sets [`context`](Self#structfield.context).
        context: u64;
        /// Sets [`receive_queue_depth`](Self#structfield.receive_queue_depth).
        receive_queue_depth: u32;
        /// Sets [`initiator_queue_depth`](Self#structfield.initiator_queue_depth).
        initiator_queue_depth: u32;
        /// Sets [`max_receive_request_sge`](Self#structfield.max_receive_request_sge).
        max_receive_request_sge: u32;
        /// Sets [`max_initiator_request_sge`](Self#structfield.max_initiator_request_sge).
        max_initiator_request_sge: u32;
        /// Sets [`inline_data_size`](Self#structfield.inline_data_size).
        inline_data_size: u32;
    }
}

/// The sizes of a shared receive queue: the arguments of `CreateSharedReceiveQueue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedReceiveQueueOptions {
    /// `queueDepth`: how many Receives can be outstanding. The default is 16.
    pub queue_depth: u32,
    /// `maxRequestSge`: the most entries of a Receive. The default is 1.
    pub max_request_sge: u32,
    /// `notifyThreshold`: a Notify ends when fewer Receives than this are outstanding. With 0, the default, it never ends for
    /// this reason.
    pub notify_threshold: u32,
    /// `group` and `affinity`: the processors for notifications. By default the provider chooses.
    pub affinity: Affinity,
}

impl Default for SharedReceiveQueueOptions {
    fn default() -> Self {
        Self {
            queue_depth: 16,
            max_request_sge: 1,
            notify_threshold: 0,
            affinity: Affinity::default(),
        }
    }
}

impl SharedReceiveQueueOptions {
    setters! {
        /// Sets [`queue_depth`](Self#structfield.queue_depth).
        queue_depth: u32;
        /// Sets [`max_request_sge`](Self#structfield.max_request_sge).
        max_request_sge: u32;
        /// Sets [`notify_threshold`](Self#structfield.notify_threshold).
        notify_threshold: u32;
        /// Sets [`affinity`](Self#structfield.affinity).
        affinity: Affinity;
    }
}
