//! `IND2Connector` and `IND2Listener`.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Error, Overlapped, OverlappedObject, QueuePair, ReadLimits, Result, Started, Status};

/// `IND2Connector`: sets up and ends one connection, from either side.
///
/// | active side | passive side |
/// |---|---|
/// | [`bind`](Self::bind) (optional) | [`Listener::get_connection_request`] fills the connector |
/// | [`connect`](Self::connect) | look at private data and limits, post Receives |
/// | ends when the peer has answered | [`accept`](Self::accept), or [`reject`](Self::reject) |
/// | look at private data and limits | |
/// | [`complete_connect`](Self::complete_connect), or [`reject`](Self::reject) | ends with the peer's completion |
///
/// Either side may [`disconnect`](Self::disconnect). Parameters that are refused before anything was sent leave the connector
/// as it was (AMB-005); any other failure makes it unusable, except where retry is said to be possible.
///
/// Releasing a connector before the connection is established abandons the attempt; afterwards the connection belongs to its
/// queue pair too.
pub trait Connector: OverlappedObject {
    /// `Bind`: fixes the local address; with port 0 the provider picks one from 49152 to 65535 (CONN-005). A connector whose
    /// attempt failed can be bound anew (AMB-034).
    ///
    /// # Errors
    ///
    /// - [`ADDRESS_ALREADY_ASSOCIATED`](crate::Status::ADDRESS_ALREADY_ASSOCIATED): the connector is bound (AMB-028).
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the address is not the adapter's (CONN-012).
    /// - [`SHARING_VIOLATION`](crate::Status::SHARING_VIOLATION): the port is in use.
    /// - [`TOO_MANY_ADDRESSES`](crate::Status::TOO_MANY_ADDRESSES): no port is left.
    /// - [`ADDRESS_ALREADY_EXISTS`](crate::Status::ADDRESS_ALREADY_EXISTS): documented, but reported by
    ///   [`connect`](Self::connect) (AMB-026).
    /// - [`CANCELED`](crate::Status::CANCELED): the connector is being torn down (AMB-027).
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): COM clients only (CONN-013).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn bind(&self, address: SocketAddr) -> Result<()>;

    /// `Connect`: asks a listener for a connection; ends when the peer has accepted. Nothing can be sent before
    /// [`complete_connect`](Self::complete_connect). A connector that is not bound is bound to the adapter's address and any
    /// port (AMB-031).
    ///
    /// The limits are the Reads that this side serves (inbound) and issues (outbound) at a time, 0 for none; they are cut to
    /// what the adapter can do (CONN-027). Private data of any content reaches the peer; `&[]` for none.
    ///
    /// # Errors
    ///
    /// At once, the connector being as it was:
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): more private data than `max_caller_data`.
    /// - [`CONNECTION_ACTIVE`](crate::Status::CONNECTION_ACTIVE): the queue pair, or the connector, is connected or connecting.
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the queue pair was disconnected (AMB-035).
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a queue pair of another adapter (CONN-062).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): private data that cannot be read; COM clients only.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As final status, with retry possible: [`CONNECTION_REFUSED`](crate::Status::CONNECTION_REFUSED) (no listener,
    /// backlog full, a peer that does not speak the protocol, or rejected, with the peer's private data at hand then);
    /// [`NETWORK_UNREACHABLE`](crate::Status::NETWORK_UNREACHABLE), which may also be returned at once;
    /// [`HOST_UNREACHABLE`](crate::Status::HOST_UNREACHABLE); [`IO_TIMEOUT`](crate::Status::IO_TIMEOUT) (the peer is silent;
    /// never because its client is slow, CONN-031); [`BAD_NETWORK_NAME`](crate::Status::BAD_NETWORK_NAME) for an unspecified
    /// address, which may also be returned at once (AMB-032).
    ///
    /// As final status: [`ADDRESS_ALREADY_EXISTS`](crate::Status::ADDRESS_ALREADY_EXISTS);
    /// [`CANCELED`](crate::Status::CANCELED): cancelled, or the queue pair was released.
    fn connect(
        &self,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started>;

    /// `CompleteConnect`: takes the connection that the peer has accepted; from its end on the active side may send. The
    /// negotiated limits are in force. This is the one overlapped method that programs expect to be done at once (TST-004).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): [`connect`](Self::connect) has not succeeded.
    /// - [`IO_TIMEOUT`](crate::Status::IO_TIMEOUT): the peer did not wait.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `Accept`: answers the request that the listener put into this connector; ends when the peer has completed the
    /// connection, and from there on either side may send (AMB-040). Limits and private data are as for
    /// [`connect`](Self::connect); the limits are cut to the peer's as well (CONN-063).
    ///
    /// # Errors
    ///
    /// At once, the connector being as it was:
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): more private data than `max_callee_data`.
    /// - [`CONNECTION_ACTIVE`](crate::Status::CONNECTION_ACTIVE): the queue pair is connected or connecting.
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector holds no request (CONN-060).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the queue pair was disconnected (AMB-035).
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a queue pair of another adapter (CONN-062).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): private data that cannot be read; COM clients only.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// At once or as final status: [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED): the peer gave up before it saw
    /// the answer; [`CONNECTION_REFUSED`](crate::Status::CONNECTION_REFUSED): it rejected the answer (AMB-004);
    /// [`IO_TIMEOUT`](crate::Status::IO_TIMEOUT): it never completed; [`CANCELED`](crate::Status::CANCELED): cancelled, or the
    /// queue pair was released.
    fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started>;

    /// `Reject`: refuses, the passive side instead of accepting, the active side instead of completing (CONN-074). Always
    /// finishes in the call (AMB-038). The connector cannot be used any more.
    ///
    /// # Errors
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): more private data than `max_callee_data`.
    /// - [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED): the peer gave up before.
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): there is nothing to reject (CONN-076).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): private data that cannot be read; COM clients only.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn reject(&self, private_data: &[u8]) -> Result<()>;

    /// `GetReadLimits`: the limits as this side sees them: `inbound` is what the peer wants to issue, `outbound` what it
    /// serves, both cut by both adapters (CONN-080, CONN-081). Known between Connect and CompleteConnect, and between
    /// GetConnectionRequest and Accept (CONN-083).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not in these states.
    /// - [`UNSUCCESSFUL`](crate::Status::UNSUCCESSFUL).
    fn get_read_limits(&self) -> Result<ReadLimits>;

    /// `GetPrivateData`: what the peer sent with Connect, Accept or Reject; empty when it sent none. Known in the same states
    /// as the limits, and after Connect was refused (CONN-089, CONN-090).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not in these states.
    /// - [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED): the peer has gone.
    /// - [`UNSUCCESSFUL`](crate::Status::UNSUCCESSFUL).
    fn get_private_data(&self) -> Result<Vec<u8>>;

    /// `GetLocalAddress`: address and port of this side, from Bind on (AMB-066).
    ///
    /// # Errors
    ///
    /// [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not bound, or disconnected (CONN-094).
    fn get_local_address(&self) -> Result<SocketAddr>;

    /// `GetPeerAddress`: address and port of the peer; from the offered request on at the passive side, from a successful
    /// Connect on at the active side (AMB-042).
    ///
    /// # Errors
    ///
    /// [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not in these states, or disconnected.
    fn get_peer_address(&self) -> Result<SocketAddr>;

    /// `NotifyDisconnect`: ends with [`SUCCESS`](crate::Status::SUCCESS) when the connection is over, whoever ended it; at
    /// once when it is over already (CONN-107). Does not cancel requests of the queue pair (CONN-106).
    ///
    /// When the peer, an error or a reset ends the connection, results that this brings about, flushed Receives above all,
    /// become visible only after every request of NotifyDisconnect in flight has ended, with event and packet. So code that
    /// runs when the request ends (a waker) must not wait for such results.
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): never connected.
    /// - [`CANCELED`](crate::Status::CANCELED) as final status: by
    ///   [`cancel_overlapped_requests`](OverlappedObject::cancel_overlapped_requests) only (CONN-105).
    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `Disconnect`: ends the connection; all outstanding requests of the queue pair complete with
    /// [`CANCELED`](crate::Status::CANCELED) (CONN-113). Neither connector nor queue pair can be connected again (CONN-114).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected. After the peer's disconnect or an error it
    ///   still is (TST-043).
    /// - [`CANCELED`](crate::Status::CANCELED) as final status: the queue pair was released (CONN-110).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started>;
}

/// `IND2Listener`: takes connection requests.
///
/// Releasing it cancels its requests and refuses the connections that wait (LSTN-033).
pub trait Listener: OverlappedObject {
    /// `Bind`: fixes the local address. Port 0 picks one; the unspecified address means all addresses of this adapter, and of
    /// no other (LSTN-010).
    ///
    /// # Errors
    ///
    /// - [`ADDRESS_ALREADY_ASSOCIATED`](crate::Status::ADDRESS_ALREADY_ASSOCIATED): the listener is bound (AMB-028).
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the address is not the adapter's (LSTN-012).
    /// - [`SHARING_VIOLATION`](crate::Status::SHARING_VIOLATION): address and port are in use (AMB-029).
    /// - [`TOO_MANY_ADDRESSES`](crate::Status::TOO_MANY_ADDRESSES): no port is left.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES).
    fn bind(&self, address: SocketAddr) -> Result<()>;

    /// `Listen`: begins to take requests, of which up to `backlog` wait while no
    /// [`get_connection_request`](Self::get_connection_request) is in flight; 0 = no limit of the caller's. The provider may
    /// have a lower one (LSTN-016).
    ///
    /// # Errors
    ///
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): not bound, or listening already (LSTN-017, LSTN-018).
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES).
    fn listen(&self, backlog: u32) -> Result<()>;

    /// `GetLocalAddress`: address and port, from Bind on (AMB-067).
    ///
    /// # Errors
    ///
    /// [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): not bound.
    fn get_local_address(&self) -> Result<SocketAddr>;

    /// `GetConnectionRequest`: ends when a connection request is in `connector`, ready for Accept or Reject. Several may be
    /// in flight, each with its own connector; each request for a connection ends one (LSTN-028).
    ///
    /// # Errors
    ///
    /// At once:
    ///
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): not listening (LSTN-030).
    /// - [`CONNECTION_ACTIVE`](crate::Status::CONNECTION_ACTIVE): the connector is in use (LSTN-031).
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a connector of another adapter (GEN-022).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As final status: [`CANCELED`](crate::Status::CANCELED): cancelled, the listener or the connector was released, or the
    /// connector was [withdrawn](Self::withdraw).
    fn get_connection_request(
        &self,
        connector: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started>;

    /// Takes one connector out of [`get_connection_request`](Self::get_connection_request) and leaves the others in it; not
    /// in ND2. For callers who wait for a limited time, or for several things at once.
    ///
    /// A request in flight ends with [`CANCELED`](crate::Status::CANCELED) before this returns. A peer whose request has
    /// reached the connector, and was not answered, goes back to the listener and is first in line. In both cases the
    /// connector can be used again.
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector neither waits for nor holds a request of
    ///   this listener.
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a connector of another adapter (GEN-022).
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the provider cannot do this. So says the method unless a provider
    ///   brings its own.
    fn withdraw(&self, connector: &Arc<dyn Connector>) -> Result<()> {
        let _ = connector;
        Err(Error::new(
            Status::NOT_SUPPORTED,
            "this provider withdraws no connectors",
        ))
    }
}
