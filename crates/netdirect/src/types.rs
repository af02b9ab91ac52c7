//! Flags, limits, options, results and addresses: the structures of `ndspi.h` and `nddef.h`.

use core::fmt;
use core::mem::offset_of;
use core::num::NonZeroU8;
use core::ops::RangeBounds;

use bitflags::bitflags;

use crate::{Buffer, Error, Result, Status};

/// `ND_VERSION_1`: version 1 of the interface, which this crate does not describe.
pub const VERSION_1: u32 = 0x1;
/// `ND_VERSION_2`: version 2 of the interface; also what clients put into `ND2_ADAPTER_INFO.InfoVersion` (AMB-017).
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
        /// `ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED`: data becomes visible in memory in address order, so that an
        /// application may watch the last octet of a Write (INFO-022).
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
    /// No flag at all makes a region that only Send and Write can take data from (MR-019). Bits without a meaning can be
    /// carried (`from_bits_retain`), and are refused by `register` (AMB-055).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MrFlags: u32 {
        /// `ND_MR_FLAG_ALLOW_LOCAL_WRITE`: the adapter may write into the buffer: needed for Receives.
        const ALLOW_LOCAL_WRITE = 0x0000_0001;
        /// `ND_MR_FLAG_ALLOW_REMOTE_READ`: any connected peer that knows the remote token may read.
        const ALLOW_REMOTE_READ = 0x0000_0002;
        /// `ND_MR_FLAG_ALLOW_REMOTE_WRITE`: any connected peer that knows the remote token may write. The value contains
        /// [`ALLOW_LOCAL_WRITE`](Self::ALLOW_LOCAL_WRITE) (AMB-014).
        const ALLOW_REMOTE_WRITE = 0x0000_0005;
        /// `ND_MR_FLAG_RDMA_READ_SINK`: local Read requests may put their data here. iWARP adapters insist on it.
        const RDMA_READ_SINK = 0x0000_0008;
        /// `ND_MR_FLAG_DO_NOT_SECURE_VM`: the range need not be protected against being remapped.
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
    /// Any other flag is an invalid parameter (QP-072, AMB-055). `INLINE` is known for the sake of COM clients only: Rust
    /// callers use [`send_inline`](crate::QueuePair::send_inline) and [`write_inline`](crate::QueuePair::write_inline).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpFlags: u32 {
        /// `ND_OP_FLAG_SILENT_SUCCESS`: no result when the request succeeds; a failure is reported all the same. The
        /// request keeps its place in the queue until a later one completes (QP-073).
        const SILENT_SUCCESS = 0x0000_0001;
        /// `ND_OP_FLAG_READ_FENCE`: do not begin before all earlier Reads of the queue pair have completed.
        const READ_FENCE = 0x0000_0002;
        /// `ND_OP_FLAG_SEND_AND_SOLICIT_EVENT`: fire [`NotifyType::Solicited`] at the peer.
        const SEND_AND_SOLICIT_EVENT = 0x0000_0004;
        /// `ND_OP_FLAG_ALLOW_READ`: the peer may Read through the window being bound.
        const ALLOW_READ = 0x0000_0008;
        /// `ND_OP_FLAG_ALLOW_WRITE`: the peer may Write through the window being bound.
        const ALLOW_WRITE = 0x0000_0010;
        /// `ND_OP_FLAG_INLINE`: data is copied during the call.
        const INLINE = 0x0000_0020;
    }

    /// `ND_QUERY_…`: which addresses the helper layer lists (`NdQueryAddressList`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QueryFlags: u32 {
        /// `ND_QUERY_EXCLUDE_EMULATOR_ADDRESSES`: ignored by the helper layer too.
        const EXCLUDE_EMULATOR_ADDRESSES = 0x0000_0001;
        /// `ND_QUERY_EXCLUDE_NDv1_ADDRESSES`: leave out version 1 providers.
        const EXCLUDE_ND_V1_ADDRESSES = 0x0000_0002;
        /// `ND_QUERY_EXCLUDE_NDv2_ADDRESSES`: leave out version 2 providers.
        const EXCLUDE_ND_V2_ADDRESSES = 0x0000_0004;
    }
}

/// What a completion queue is asked to tell (`ND_CQ_NOTIFY_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NotifyType {
    /// `ND_CQ_NOTIFY_ERRORS`: only the breakdown of the queue, such as an overrun (CQ-026).
    Errors = 0,
    /// `ND_CQ_NOTIFY_ANY`: the next completion (CQ-027).
    Any = 1,
    /// `ND_CQ_NOTIFY_SOLICITED`: a Receive whose Send carried [`OpFlags::SEND_AND_SOLICIT_EVENT`], and any failure
    /// (CQ-028, CQ-029); any result where the device does not tell them apart
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

/// `ND2_REQUEST_TYPE`: which kind of request a result belongs to.
///
/// A number with names, as [`Status`] is: ND2 has six kinds, this crate two more, and a vendor's own kind passes through with
/// its value. The names can be matched on.
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
    /// [`QueuePairExtensions::send_immediate`](crate::QueuePairExtensions::send_immediate); no value of ND2's.
    pub const SendImmediate: Self = Self(0x1000);
    /// [`QueuePairExtensions::atomic`](crate::QueuePairExtensions::atomic); no value of ND2's.
    pub const Atomic: Self = Self(0x1001);
}

impl RequestType {
    /// ND2's six kinds, in the order of their values.
    pub const ALL: [Self; 6] = [
        Self::Receive,
        Self::Send,
        Self::Bind,
        Self::Invalidate,
        Self::Read,
        Self::Write,
    ];

    /// The kinds that ND2 does not have.
    pub const EXTENSIONS: [Self; 2] = [Self::SendImmediate, Self::Atomic];

    /// The kind with this value, known or not.
    pub const fn from_value(value: u32) -> Self {
        Self(value)
    }

    /// The value in `ND2_RESULT`.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The name of a kind that has one here.
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

    /// Whether a request of this kind may complete with `status`, by the table of the `ND2_RESULT` page (RES-015); what is no
    /// kind of ND2's is like a Send or a Read.
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

/// The number of an adapter, from [`Provider::resolve_address`](crate::Provider::resolve_address)
/// (`ND2_ADAPTER_INFO.AdapterId`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct AdapterId(pub u64);

impl fmt::Display for AdapterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// `ND2_ADAPTER_INFO`: identity and limits of an adapter.
///
/// Limits describe the adapter and not its load: a call within them may still fail for want of resources (ADPT-015).
/// `InfoVersion` has no field: a Rust caller cannot ask for another version than it was compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// `VendorId`: 16 bits, usually from the supplier's OUI.
    pub vendor_id: u16,
    /// `DeviceId`: the supplier's number of the device.
    pub device_id: u16,
    /// `AdapterId`: unique, and the same as from [`Provider::resolve_address`](crate::Provider::resolve_address).
    pub adapter_id: AdapterId,
    /// `MaxRegistrationSize`: octets in the largest buffer of one memory region.
    pub max_registration_size: u64,
    /// `MaxWindowSize`: documented as unused; equal to `max_registration_size` (AMB-058).
    pub max_window_size: u64,
    /// `MaxInitiatorSge`: scatter/gather entries in a Send or Write.
    pub max_initiator_sge: u32,
    /// `MaxReceiveSge`: scatter/gather entries in a Receive.
    pub max_receive_sge: u32,
    /// `MaxReadSge`: scatter/gather entries in a Read; at most `max_initiator_sge`.
    pub max_read_sge: u32,
    /// `MaxTransferLength`: octets in one request, all its entries together.
    pub max_transfer_length: u32,
    /// `MaxInlineDataSize`: inline octets in one Send or Write.
    pub max_inline_data_size: u32,
    /// `MaxInboundReadLimit`: Reads in progress on a connection with the local side as their target.
    pub max_inbound_read_limit: u32,
    /// `MaxOutboundReadLimit`: Reads in progress on a connection issued by the local side.
    pub max_outbound_read_limit: u32,
    /// `MaxReceiveQueueDepth`: outstanding Receives of a queue pair.
    pub max_receive_queue_depth: u32,
    /// `MaxInitiatorQueueDepth`: outstanding Sends, Binds, Invalidates, Reads and Writes of a queue pair.
    pub max_initiator_queue_depth: u32,
    /// `MaxSharedReceiveQueueDepth`: outstanding Receives of a shared receive queue; 0 = none supported.
    pub max_shared_receive_queue_depth: u32,
    /// `MaxCompletionQueueDepth`: results that one completion queue holds.
    pub max_completion_queue_depth: u32,
    /// `InlineRequestThreshold`: octets below which inline data beats a registered buffer; at most `max_inline_data_size`.
    pub inline_request_threshold: u32,
    /// `LargeRequestThreshold`: octets above which Read and Write beat Send and Receive.
    pub large_request_threshold: u32,
    /// `MaxCallerData`: octets of private data in a Connect.
    pub max_caller_data: u32,
    /// `MaxCalleeData`: octets of private data in an Accept or Reject.
    pub max_callee_data: u32,
    /// `AdapterFlags`.
    pub flags: AdapterFlags,
}

/// A processor group and a set of processors in it, for notifications (`USHORT group, KAFFINITY affinity`).
///
/// The default, group 0 and no processor, expresses no wish; a wish that cannot be met is ignored (ADPT-026).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// Processor group; 0 where the system has none.
    pub group: u16,
    /// One bit per processor of the group.
    pub mask: u64,
}

/// The local token of a memory region, for an [`Sge`] (`ND2_SGE.MemoryRegionToken`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LocalToken(pub u32);

/// The token that gives a peer access to a memory region or window (`UINT32 remoteToken`).
///
/// Opaque. The four octets in memory are in network order, so that peers of any endianness can pass them on as they are
/// (MR-032): send [`to_bytes`](Self::to_bytes), never a re-ordered integer.
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

    /// For providers: the token whose number, as written on the wire, is `number`.
    pub const fn from_host(number: u32) -> Self {
        Self(number.to_be())
    }

    /// For providers: the number that the wire carries.
    pub const fn to_host(self) -> u32 {
        u32::from_be(self.0)
    }
}

/// Memory of the peer: `remoteAddress` and `remoteToken` of Read and Write.
///
/// ND2 leaves to applications how this travels; [`to_bytes`](Self::to_bytes) is a form that any peer can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The peer's virtual address, in host order (QP-062): the base of its region or window, plus an offset.
    pub address: u64,
    /// The peer's token, as it was received.
    pub token: RemoteToken,
}

impl RemoteAddress {
    /// The octets of [`to_bytes`](Self::to_bytes).
    pub const LEN: usize = 12;

    /// Address in network order, then the token.
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

    /// The address `octets` further on; wraps, as a provider refuses what lies outside the region anyway.
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
/// `address` is a number inside a registered buffer ([`Buffer::address`] plus an offset), never dereferenced by way of
/// this structure; whether it lies inside the region that `token` names is checked when the request is processed, and an
/// error becomes its result (SGE-004).
///
/// In memory it is an `ND2_SGE` of a 64-bit system, so that a binding can hand on a client's list as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Sge {
    /// `Buffer`: the first octet.
    pub address: u64,
    /// `BufferLength`: octets; 0 is legal.
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
    /// When the range lies outside the buffer, as slicing does, or is longer than 32 bits can say.
    ///
    /// ```
    /// use netdirect::{Buffer, LocalToken, Sge};
    ///
    /// let buffer = Buffer::new(4096);
    /// let sge = Sge::new(&buffer, 64..128, LocalToken(7));
    /// assert_eq!((sge.address - buffer.address(), sge.length), (64, 64));
    /// ```
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

/// Immediate Data: what a message carries for the peer's result, beside or instead of payload.
///
/// iWARP has 8 octets (RFC 7306 section 6), InfiniBand 4. [`Capabilities`](crate::Capabilities) tell which an adapter can send.
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

    /// The octets, in the order in which the peer gave them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.len.get())]
    }

    /// The octets, if there are 4.
    pub fn four(self) -> Option<[u8; 4]> {
        let [a, b, c, d, ..] = self.octets;
        (self.len == Self::FOUR).then_some([a, b, c, d])
    }

    /// The octets, if there are 8.
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
    /// `Status`; which ones a kind of request can have is told by [`RequestType::allows`].
    pub status: Status,
    /// `BytesTransferred`: octets received; defined for Receives only (RES-002).
    pub bytes_transferred: u32,
    /// `QueuePairContext`: from [`QueuePairOptions::context`].
    pub queue_pair_context: u64,
    /// `RequestContext`: from the call that queued the request.
    pub request_context: u64,
    /// `RequestType`; also set on failures.
    pub request_type: RequestType,
    /// The message that took this Receive carried Immediate Data
    /// ([`QueuePairExtensions::send_immediate`](crate::QueuePairExtensions::send_immediate)); `bytes_transferred` tells whether
    /// payload was placed as well. ND2 has no such field.
    pub immediate: Option<Immediate>,
}

impl CompletionResult {
    /// The successful result of a request without payload.
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
    /// Reads in progress that the local side serves; 0 = none.
    pub inbound: u32,
    /// Reads in progress that the local side issues; 0 = none.
    pub outbound: u32,
}

/// The sizes of a queue pair: the arguments of `CreateQueuePair` and `CreateQueuePairWithSrq`.
///
/// ```
/// let options = netdirect::QueuePairOptions::default().receive_queue_depth(64).max_initiator_request_sge(2);
/// assert_eq!((options.receive_queue_depth, options.initiator_queue_depth), (64, 16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePairOptions {
    /// `context`: comes back in [`CompletionResult::queue_pair_context`]. Default 0.
    pub context: u64,
    /// `receiveQueueDepth`: outstanding Receives; ignored with a shared receive queue. Default 16.
    pub receive_queue_depth: u32,
    /// `initiatorQueueDepth`: outstanding requests other than Receives. Default 16.
    pub initiator_queue_depth: u32,
    /// `maxReceiveRequestSge`: entries of a Receive; ignored with a shared receive queue. Default 1.
    pub max_receive_request_sge: u32,
    /// `maxInitiatorRequestSge`: entries of a Send, Write or Read. Default 1.
    pub max_initiator_request_sge: u32,
    /// `inlineDataSize`: inline octets of a request. Default 0.
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
    /// `queueDepth`: outstanding Receives. Default 16.
    pub queue_depth: u32,
    /// `maxRequestSge`: entries of a Receive. Default 1.
    pub max_request_sge: u32,
    /// `notifyThreshold`: a notification fires when fewer Receives are outstanding; 0, the default, is never.
    pub notify_threshold: u32,
    /// `group` and `affinity`. No wish by default.
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
