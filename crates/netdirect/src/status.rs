//! Status codes: the values of ND2's `ndstatus.mc`, and the few others that a client can receive.

use core::fmt;

/// The outcome of a call, of an overlapped request, or of a request on a queue pair (in ND2 an `HRESULT` with the value of an
/// `NTSTATUS`).
///
/// The constants have their ND names without the prefix `ND_`. [`Display`](fmt::Display) prints the full ND name, so logs can
/// be compared with those of hardware providers. No layer changes a status (GEN-012).
///
/// ```
/// use netdirect::Status;
///
/// assert_eq!(Status::ACCESS_VIOLATION.bits(), 0xC000_0005);
/// assert_eq!(Status::ACCESS_VIOLATION.to_string(), "ND_ACCESS_VIOLATION");
/// assert!(Status::PENDING.is_success()); // as with the SUCCEEDED macro
/// assert!(!Status::BUFFER_OVERFLOW.is_success()); // a warning, but negative (GEN-017)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Status(u32);

/// The severity of a [`Status`]: its two top bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// `0x0…`: the call has succeeded, or the request is in progress.
    Success,
    /// `0x4…`: the call has succeeded, with additional information. ND2 defines no such status.
    Informational,
    /// `0x8…`: the call had no effect, and nothing is broken. A warning counts as a failure (GEN-017).
    Warning,
    /// `0xC…`: the call or request has failed.
    Error,
}

impl Status {
    /// The status with these bits, whether this crate knows it or not.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits of the `NTSTATUS`, which are also the bits of the `HRESULT`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if the sign bit is clear, which is what the `SUCCEEDED` macro checks. True for [`SUCCESS`](Self::SUCCESS),
    /// [`PENDING`](Self::PENDING) and [`TIMEOUT`](Self::TIMEOUT); false for errors and warnings (GEN-017).
    pub const fn is_success(self) -> bool {
        self.0 < 0x8000_0000
    }

    /// The severity in the two top bits.
    pub const fn severity(self) -> Severity {
        match self.0 >> 30 {
            0 => Severity::Success,
            1 => Severity::Informational,
            2 => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// `INVALID_PARAMETER_<n>` for the argument at position `n`, where the first argument is 1.
    /// [`INVALID_PARAMETER`](Self::INVALID_PARAMETER) for a position without its own status.
    pub const fn invalid_parameter(n: u32) -> Self {
        match n {
            1..=10 => Self(Self::INVALID_PARAMETER_1.0 + n - 1),
            _ => Self::INVALID_PARAMETER,
        }
    }
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $konst:ident = $value:literal, $name:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $konst: Self = Self($value);)*

            /// Every status that has a name, in the order of the tables.
            pub const ALL: &'static [Self] = &[$(Self::$konst),*];

            /// The name in `ndstatus.mc` or in Windows' headers, if the status has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// `ND_SUCCESS`: the call or request has succeeded.
    SUCCESS = 0x0000_0000, "ND_SUCCESS";
    /// `ND_TIMEOUT`: a time-out with the severity of a success. Only version 1 uses this status; version 2 reports
    /// [`IO_TIMEOUT`](Self::IO_TIMEOUT).
    TIMEOUT = 0x0000_0102, "ND_TIMEOUT";
    /// `ND_PENDING`: the request is in progress and ends later.
    PENDING = 0x0000_0103, "ND_PENDING";
    /// `ND_BUFFER_OVERFLOW`: a buffer is too small, a message or request is too long, or a completion queue has overflowed.
    BUFFER_OVERFLOW = 0x8000_0005, "ND_BUFFER_OVERFLOW";
    /// `ND_DEVICE_BUSY`: windows are bound to the memory region.
    DEVICE_BUSY = 0x8000_0011, "ND_DEVICE_BUSY";
    /// `ND_NO_MORE_ENTRIES`: the request queue is full.
    NO_MORE_ENTRIES = 0x8000_001A, "ND_NO_MORE_ENTRIES";
    /// `ND_UNSUCCESSFUL`: a failure for which there is no specific status.
    UNSUCCESSFUL = 0xC000_0001, "ND_UNSUCCESSFUL";
    /// `ND_ACCESS_VIOLATION`: the memory is not valid, not registered, or not registered with the right that is needed.
    ACCESS_VIOLATION = 0xC000_0005, "ND_ACCESS_VIOLATION";
    /// `ND_INVALID_HANDLE`: the overlapped file belongs to another adapter (AMB-056).
    INVALID_HANDLE = 0xC000_0008, "ND_INVALID_HANDLE";
    /// `ND_INVALID_DEVICE_REQUEST`: the request is malformed, or cannot be made in this state.
    INVALID_DEVICE_REQUEST = 0xC000_0010, "ND_INVALID_DEVICE_REQUEST";
    /// `ND_INVALID_PARAMETER`: an argument is out of range.
    INVALID_PARAMETER = 0xC000_000D, "ND_INVALID_PARAMETER";
    /// `ND_NO_MEMORY`: the host has no memory left.
    NO_MEMORY = 0xC000_0017, "ND_NO_MEMORY";
    /// `ND_INVALID_PARAMETER_MIX`: arguments contradict each other, or the [`Overlapped`](crate::Overlapped) is in flight
    /// already.
    INVALID_PARAMETER_MIX = 0xC000_0030, "ND_INVALID_PARAMETER_MIX";
    /// `ND_DATA_OVERRUN`: there are too many scatter/gather entries, or more data than can be sent. In version 1 this status is
    /// also called [`LOCAL_LENGTH`](Self::LOCAL_LENGTH).
    DATA_OVERRUN = 0xC000_003C, "ND_DATA_OVERRUN";
    /// `ND_SHARING_VIOLATION`: the local address and port are in use.
    SHARING_VIOLATION = 0xC000_0043, "ND_SHARING_VIOLATION";
    /// `ND_INSUFFICIENT_RESOURCES`: the adapter's resources are exhausted.
    INSUFFICIENT_RESOURCES = 0xC000_009A, "ND_INSUFFICIENT_RESOURCES";
    /// `ND_DEVICE_NOT_READY`: ND2's helper library was not started, the provider cannot be loaded, or the device cannot be used now.
    DEVICE_NOT_READY = 0xC000_00A3, "ND_DEVICE_NOT_READY";
    /// `ND_IO_TIMEOUT`: the peer has not answered in time.
    IO_TIMEOUT = 0xC000_00B5, "ND_IO_TIMEOUT";
    /// `ND_NOT_SUPPORTED`: the provider or the adapter lacks the feature.
    NOT_SUPPORTED = 0xC000_00BB, "ND_NOT_SUPPORTED";
    /// `ND_INTERNAL_ERROR`: a completion queue or queue pair has broken down.
    INTERNAL_ERROR = 0xC000_00E5, "ND_INTERNAL_ERROR";
    /// `ND_INVALID_PARAMETER_1`: argument number 1 is not valid.
    INVALID_PARAMETER_1 = 0xC000_00EF, "ND_INVALID_PARAMETER_1";
    /// `ND_INVALID_PARAMETER_2`: argument number 2 is not valid.
    INVALID_PARAMETER_2 = 0xC000_00F0, "ND_INVALID_PARAMETER_2";
    /// `ND_INVALID_PARAMETER_3`: argument number 3 is not valid.
    INVALID_PARAMETER_3 = 0xC000_00F1, "ND_INVALID_PARAMETER_3";
    /// `ND_INVALID_PARAMETER_4`: argument number 4 is not valid.
    INVALID_PARAMETER_4 = 0xC000_00F2, "ND_INVALID_PARAMETER_4";
    /// `ND_INVALID_PARAMETER_5`: argument number 5 is not valid.
    INVALID_PARAMETER_5 = 0xC000_00F3, "ND_INVALID_PARAMETER_5";
    /// `ND_INVALID_PARAMETER_6`: argument number 6 is not valid.
    INVALID_PARAMETER_6 = 0xC000_00F4, "ND_INVALID_PARAMETER_6";
    /// `ND_INVALID_PARAMETER_7`: argument number 7 is not valid.
    INVALID_PARAMETER_7 = 0xC000_00F5, "ND_INVALID_PARAMETER_7";
    /// `ND_INVALID_PARAMETER_8`: argument number 8 is not valid.
    INVALID_PARAMETER_8 = 0xC000_00F6, "ND_INVALID_PARAMETER_8";
    /// `ND_INVALID_PARAMETER_9`: argument number 9 is not valid.
    INVALID_PARAMETER_9 = 0xC000_00F7, "ND_INVALID_PARAMETER_9";
    /// `ND_INVALID_PARAMETER_10`: argument number 10 is not valid.
    INVALID_PARAMETER_10 = 0xC000_00F8, "ND_INVALID_PARAMETER_10";
    /// `ND_CANCELED`: the request was cancelled or flushed.
    CANCELED = 0xC000_0120, "ND_CANCELED";
    /// `ND_REMOTE_ERROR`: the request has failed at the peer's queue pair.
    REMOTE_ERROR = 0xC000_013D, "ND_REMOTE_ERROR";
    /// `ND_INVALID_ADDRESS`: the provider does not serve the address, or the address cannot be used.
    INVALID_ADDRESS = 0xC000_0141, "ND_INVALID_ADDRESS";
    /// `ND_INVALID_DEVICE_STATE`: the object is in the wrong state.
    INVALID_DEVICE_STATE = 0xC000_0184, "ND_INVALID_DEVICE_STATE";
    /// `ND_INVALID_BUFFER_SIZE`: the private data is too long, or the buffer of a region is empty.
    INVALID_BUFFER_SIZE = 0xC000_0206, "ND_INVALID_BUFFER_SIZE";
    /// `ND_TOO_MANY_ADDRESSES`: all ephemeral ports are in use.
    TOO_MANY_ADDRESSES = 0xC000_0209, "ND_TOO_MANY_ADDRESSES";
    /// `ND_ADDRESS_ALREADY_EXISTS`: a connection with these two addresses and ports exists.
    ADDRESS_ALREADY_EXISTS = 0xC000_020A, "ND_ADDRESS_ALREADY_EXISTS";
    /// `ND_CONNECTION_REFUSED`: there is no listener, its backlog is full, or the peer has rejected the connection.
    CONNECTION_REFUSED = 0xC000_0236, "ND_CONNECTION_REFUSED";
    /// `ND_CONNECTION_INVALID`: there is no connection, or it is in the wrong state.
    CONNECTION_INVALID = 0xC000_023A, "ND_CONNECTION_INVALID";
    /// `ND_CONNECTION_ACTIVE`: the queue pair is connected or connecting already.
    CONNECTION_ACTIVE = 0xC000_023B, "ND_CONNECTION_ACTIVE";
    /// `ND_NETWORK_UNREACHABLE`: no route leads to the network, or a firewall on the way refuses it.
    NETWORK_UNREACHABLE = 0xC000_023C, "ND_NETWORK_UNREACHABLE";
    /// `ND_HOST_UNREACHABLE`: there is no such host, or a firewall refuses to let it be reached. A TCP socket cannot tell these apart.
    HOST_UNREACHABLE = 0xC000_023D, "ND_HOST_UNREACHABLE";
    /// `ND_CONNECTION_ABORTED`: the peer has given up during connection set-up.
    CONNECTION_ABORTED = 0xC000_0241, "ND_CONNECTION_ABORTED";
    /// `ND_DEVICE_REMOVED`: the adapter was removed.
    DEVICE_REMOVED = 0xC000_02B6, "ND_DEVICE_REMOVED";

    // Not in ndstatus.mc, but met by clients.

    /// `STATUS_ADDRESS_ALREADY_ASSOCIATED`: the connector or listener is bound already (AMB-028).
    ADDRESS_ALREADY_ASSOCIATED = 0xC000_0238, "STATUS_ADDRESS_ALREADY_ASSOCIATED";
    /// `STATUS_BAD_NETWORK_NAME`: the address that was passed to Connect is unspecified (AMB-032).
    BAD_NETWORK_NAME = 0xC000_00CC, "STATUS_BAD_NETWORK_NAME";
    /// `STATUS_CONNECTION_DISCONNECTED`: a final status of NotifyDisconnect that some providers return and clients accept.
    CONNECTION_DISCONNECTED = 0xC000_020C, "STATUS_CONNECTION_DISCONNECTED";
    /// `STATUS_POSSIBLE_DEADLOCK`: a wait has ended, because nothing in the [simulation](crate::SimulatedTime) can end the
    /// request. The request itself is still in flight.
    POSSIBLE_DEADLOCK = 0xC000_0194, "STATUS_POSSIBLE_DEADLOCK";
    /// `STATUS_DATA_ERROR`: on InfiniBand, the result of a Send that was longer than the peer's Receive.
    DATA_ERROR = 0xC000_003E, "STATUS_DATA_ERROR";
    /// `E_NOINTERFACE`: the object does not have the interface. Only the COM binding uses this status.
    NO_INTERFACE = 0x8000_4002, "E_NOINTERFACE";
    /// `S_FALSE`: `DllCanUnloadNow` found objects that are in use. Only the COM binding uses this status.
    FALSE = 0x0000_0001, "S_FALSE";
}

impl Status {
    /// `ND_LOCAL_LENGTH`, the version 1 name of [`DATA_OVERRUN`](Self::DATA_OVERRUN).
    pub const LOCAL_LENGTH: Self = Self::DATA_OVERRUN;
    /// `ND_INVALIDATION_ERROR`, the version 1 name of [`INVALID_DEVICE_REQUEST`](Self::INVALID_DEVICE_REQUEST).
    pub const INVALIDATION_ERROR: Self = Self::INVALID_DEVICE_REQUEST;
}

impl Status {
    /// The meaning of the status in a few words, as text behind a colon. `None` for a status that ND2 does not name.
    ///
    /// ```
    /// # use netdirect::Status;
    /// assert_eq!(Status::SHARING_VIOLATION.meaning(), Some("the address is in use"));
    /// ```
    pub const fn meaning(self) -> Option<&'static str> {
        match self.words() {
            Some((meaning, _)) => Some(meaning),
            None => None,
        }
    }

    /// What a user can do about the status. `None` where the status means a defect of the program or of the provider. The page
    /// *When something does not work* of the book has these sentences too.
    ///
    /// ```
    /// # use netdirect::Status;
    /// assert_eq!(Status::DEVICE_BUSY.hint(), Some("invalidate its windows first"));
    /// assert_eq!(Status::INVALID_PARAMETER_3.hint(), None);
    /// ```
    pub const fn hint(self) -> Option<&'static str> {
        match self.words() {
            Some((_, hint)) => hint,
            None => None,
        }
    }

    const fn words(self) -> Option<(&'static str, Option<&'static str>)> {
        Some(match self {
            Self::SUCCESS => ("it succeeded", None),
            Self::TIMEOUT => (
                "it took too long",
                Some("check that the other side is alive, and try again"),
            ),
            Self::PENDING => ("it has not ended", None),
            Self::BUFFER_OVERFLOW => (
                "a message is too long for its buffer, or a queue has overflowed",
                Some("compare with the limits that `nd info` shows"),
            ),
            Self::DEVICE_BUSY => (
                "the memory region still has windows bound to it",
                Some("invalidate its windows first"),
            ),
            Self::NO_MORE_ENTRIES => (
                "the request queue is full",
                Some("compare with the limits that `nd info` shows"),
            ),
            Self::UNSUCCESSFUL => (
                "the system or the adapter refused it, and gave no reason",
                Some("run again with -v to see more"),
            ),
            Self::ACCESS_VIOLATION => (
                "memory is not registered, or not with the right that is needed",
                Some("check that both sides run the same version of nd"),
            ),
            Self::INVALID_HANDLE => ("the overlapped file belongs to another adapter", None),
            Self::INVALID_DEVICE_REQUEST => {
                ("the adapter does not accept such a request here", None)
            }
            Self::INVALID_PARAMETER => (
                "an argument is out of range",
                Some("compare with the limits that `nd info` shows"),
            ),
            Self::NO_MEMORY => (
                "there is not enough memory",
                Some("free some memory, or raise its limits (ulimit -v, ulimit -d)"),
            ),
            Self::INVALID_PARAMETER_MIX => ("arguments contradict each other", None),
            Self::DATA_OVERRUN => (
                "the request is larger than the adapter can send",
                Some("compare with the limits that `nd info` shows"),
            ),
            Self::SHARING_VIOLATION => (
                "the address is in use",
                Some("choose another port (0 for any free one), or stop the program that uses it"),
            ),
            Self::INSUFFICIENT_RESOURCES => (
                "the adapter's resources are exhausted",
                Some(
                    "close other connections, or raise the limits of the system (ulimit -n, ulimit -l)",
                ),
            ),
            Self::DEVICE_NOT_READY => (
                "the device cannot be used now",
                Some("check the adapter's URL and its driver"),
            ),
            Self::IO_TIMEOUT => (
                "no answer came in time",
                Some(
                    "check that the other side is alive and that it is an iWARP peer, not some other service",
                ),
            ),
            Self::NOT_SUPPORTED => (
                "the adapter cannot do this",
                Some("see what it supports with `nd info`"),
            ),
            Self::INTERNAL_ERROR => ("a queue of the adapter broke down", None),
            Self::INVALID_PARAMETER_1 => ("argument 1 is not valid", None),
            Self::INVALID_PARAMETER_2 => ("argument 2 is not valid", None),
            Self::INVALID_PARAMETER_3 => ("argument 3 is not valid", None),
            Self::INVALID_PARAMETER_4 => ("argument 4 is not valid", None),
            Self::INVALID_PARAMETER_5 => ("argument 5 is not valid", None),
            Self::INVALID_PARAMETER_6 => ("argument 6 is not valid", None),
            Self::INVALID_PARAMETER_7 => ("argument 7 is not valid", None),
            Self::INVALID_PARAMETER_8 => ("argument 8 is not valid", None),
            Self::INVALID_PARAMETER_9 => ("argument 9 is not valid", None),
            Self::INVALID_PARAMETER_10 => ("argument 10 is not valid", None),
            Self::CANCELED => (
                "the connection ended before it was done",
                Some("look at what the other side says"),
            ),
            Self::REMOTE_ERROR => (
                "the request failed on the other side",
                Some("look at what the other side says"),
            ),
            Self::INVALID_ADDRESS => (
                "no adapter of this machine has or reaches that address",
                Some("see the addresses with `nd info`"),
            ),
            Self::INVALID_DEVICE_STATE => ("the object is in the wrong state", None),
            Self::INVALID_BUFFER_SIZE => (
                "the private data is longer than a connection request can carry",
                Some("shorten it to the length that `nd info` shows for private data"),
            ),
            Self::TOO_MANY_ADDRESSES => (
                "no free local port is left",
                Some("close other connections, or name a port"),
            ),
            Self::ADDRESS_ALREADY_EXISTS => (
                "a connection with these addresses and ports exists already",
                Some("use another local or remote port"),
            ),
            Self::CONNECTION_REFUSED => (
                "no program accepts iWARP connections there",
                Some(
                    "start the receiver first, and check address and port: some other service may listen there",
                ),
            ),
            Self::CONNECTION_INVALID => (
                "there is no connection",
                Some("look at what the other side says"),
            ),
            Self::CONNECTION_ACTIVE => ("the connection is in use already", None),
            Self::NETWORK_UNREACHABLE => (
                "no route leads to this network, or a firewall refuses it",
                Some("check the address, this machine's network, and the firewalls on the way"),
            ),
            Self::HOST_UNREACHABLE => (
                "there is no such host, or a firewall refuses to let it be reached",
                Some("check the address, that the host is up, and the firewalls on the way"),
            ),
            Self::CONNECTION_ABORTED => (
                "the other side ended the connection set-up",
                Some("look at what it says"),
            ),
            Self::POSSIBLE_DEADLOCK => (
                "nothing is left in the simulation that could end the wait",
                Some("look at what each side waits for"),
            ),
            Self::DEVICE_REMOVED => (
                "the adapter was removed",
                Some("see the remaining adapters with `nd info`"),
            ),
            Self::ADDRESS_ALREADY_ASSOCIATED => ("it has an address already", None),
            Self::BAD_NETWORK_NAME => (
                "the address does not name a host",
                Some("name the host to connect to"),
            ),
            Self::CONNECTION_DISCONNECTED => (
                "the connection has ended",
                Some("look at what the other side says"),
            ),
            Self::DATA_ERROR => ("the message did not fit the other side's Receive", None),
            Self::NO_INTERFACE => (
                "the provider lacks an interface",
                Some("check the provider's version"),
            ),
            Self::FALSE => ("the provider is still in use", None),
            _ => return None,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "status {:#010x}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}({:#010x})", self.0)
    }
}
