//! Counters of one connection. They are plain numbers, because one thread at a time drives a connection.

/// Counts of messages and octets of one connection, by direction and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Inbound half.
    pub received: Traffic,
    /// Outbound half. A message counts when its last FPDU is made, an octet of the stream when the transport took it.
    pub sent: Traffic,
    /// Inbound octets dropped after the stream had failed or was disconnected (DDP-071).
    pub dropped_octets: u64,
    /// Times an inbound Send had to wait for a Receive (DDP-075).
    pub stalls: u64,
    /// Inbound messages dropped because delivery is [unreliable](super::Delivery::Unreliable). A Write with Immediate Data behind it is
    /// two messages.
    pub dropped_messages: u64,
    /// Requests of this side dropped, with success, because delivery is unreliable and the peer is gone.
    pub dropped_requests: u64,
    /// Outbound FPDUs taken back because their memory was revoked, or unsent at the end.
    pub withdrawn_octets: u64,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Octets of the stream: headers, payload, pad and CRC.
    pub octets: u64,
    /// FPDUs.
    pub fpdus: u64,
    /// Octets of payload of Sends, Writes and Read Responses.
    pub payload: u64,
    /// Messages of the Send family.
    pub sends: u64,
    /// RDMA Writes.
    pub writes: u64,
    /// Read Requests.
    pub read_requests: u64,
    /// Read Responses.
    pub read_responses: u64,
    /// Immediate Data.
    pub immediates: u64,
    /// Atomic Requests.
    pub atomic_requests: u64,
    /// Atomic Responses.
    pub atomic_responses: u64,
    /// Terminates.
    pub terminates: u64,
}
