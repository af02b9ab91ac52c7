//! Structures.

use std::ffi::c_void;

use super::words::Handle;

/// `OVERLAPPED`: the client's memory for one request (32 octets on 64-bit systems).
///
/// `internal` is the status. The provider reads `event` once, when the request starts, and writes `internal` when the request starts and
/// when it ends. The other fields belong to the client.
#[derive(Debug)]
#[repr(C)]
pub struct Overlapped {
    /// `Internal`: the [`Status`](netdirect::Status) of the request, extended with zeros.
    pub internal: usize,
    /// `InternalHigh`: not used.
    pub internal_high: usize,
    /// `Offset`: not used.
    pub offset: u32,
    /// `OffsetHigh`: not used.
    pub offset_high: u32,
    /// `hEvent`: null, or an event, whose lowest bit keeps the request's end out of the completion port (OVL-021).
    pub event: Handle,
}

/// `ND2_ADAPTER_INFO`: 96 octets on 64-bit systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "the fields are those of netdirect::AdapterInfo"
)]
pub struct AdapterInfo {
    /// `InfoVersion`: the version that the client was compiled for, written by the client before the call (AMB-017).
    pub info_version: u32,
    pub vendor_id: u16,
    pub device_id: u16,
    pub adapter_id: u64,
    pub max_registration_size: usize,
    pub max_window_size: usize,
    pub max_initiator_sge: u32,
    pub max_receive_sge: u32,
    pub max_read_sge: u32,
    pub max_transfer_length: u32,
    pub max_inline_data_size: u32,
    pub max_inbound_read_limit: u32,
    pub max_outbound_read_limit: u32,
    pub max_receive_queue_depth: u32,
    pub max_initiator_queue_depth: u32,
    pub max_shared_receive_queue_depth: u32,
    pub max_completion_queue_depth: u32,
    pub inline_request_threshold: u32,
    pub large_request_threshold: u32,
    pub max_caller_data: u32,
    pub max_callee_data: u32,
    pub adapter_flags: u32,
}

/// `ND2_RESULT`: 32 octets on 64-bit systems.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CompletionResult {
    /// `Status`.
    pub status: netdirect::Status,
    /// `BytesTransferred`.
    pub bytes_transferred: u32,
    /// `QueuePairContext`.
    pub queue_pair_context: *mut c_void,
    /// `RequestContext`.
    pub request_context: *mut c_void,
    /// `RequestType`.
    pub request_type: u32,
}

/// `ND2_SGE`: 16 octets on 64-bit systems.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sge {
    /// `Buffer`.
    pub buffer: *mut c_void,
    /// `BufferLength`.
    pub buffer_length: u32,
    /// `MemoryRegionToken`.
    pub memory_region_token: u32,
}

/// `SOCKET_ADDRESS`: a pointer to an address, and its length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SocketAddress {
    /// `lpSockaddr`.
    pub address: *mut c_void,
    /// `iSockaddrLength`: 16 for IPv4, 28 for IPv6.
    pub length: i32,
}

/// `SOCKET_ADDRESS_LIST`: `count` entries, of which the structure declares one. The addresses follow the entries in the same buffer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SocketAddressList {
    /// `iAddressCount`.
    pub count: i32,
    /// `Address`.
    pub addresses: [SocketAddress; 1],
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// The table in section 14.1 of the catalogue.
    #[test]
    fn structures_have_the_documented_layout() {
        assert_eq!(size_of::<AdapterInfo>(), 96);
        assert_eq!(offset_of!(AdapterInfo, adapter_id), 8);
        assert_eq!(offset_of!(AdapterInfo, max_initiator_sge), 32);
        assert_eq!(offset_of!(AdapterInfo, adapter_flags), 92);
        assert_eq!(size_of::<CompletionResult>(), 32);
        assert_eq!(offset_of!(CompletionResult, request_type), 24);
        assert_eq!(size_of::<Sge>(), 16);
        assert_eq!(size_of::<Overlapped>(), 32);
        assert_eq!(offset_of!(Overlapped, event), 24);
        assert_eq!(size_of::<SocketAddress>(), 16);
        assert_eq!(size_of::<SocketAddressList>(), 24);
        assert_eq!(offset_of!(SocketAddressList, addresses), 8);
    }
}
