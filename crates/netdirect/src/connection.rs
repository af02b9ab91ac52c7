//! `IND2Connector` and `IND2Listener`.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{
    ConnectionEnd, Error, Overlapped, OverlappedObject, QueuePair, ReadLimits, Result, Started,
    Status,
};

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
/// Either side may [`disconnect`](Self::disconnect). If a call fails because of its parameters, before anything was sent, the
/// connector stays as it was (AMB-005). After any other failure the connector cannot be used again, except where the method
/// says that a retry is possible.
///
/// Releasing a connector before the connection is established abandons the attempt. Releasing it later leaves the connection
/// open, because the queue pair keeps the connection too.
pub trait Connector: OverlappedObject {
    /// `Bind`: sets the local address. With port 0 the provider picks a port from 49152 to 65535 (CONN-005). A connector whose
    /// attempt to connect failed can be bound again (AMB-034).
    ///
    /// # Errors
    ///
    /// - [`ADDRESS_ALREADY_ASSOCIATED`](crate::Status::ADDRESS_ALREADY_ASSOCIATED): the connector is bound (AMB-028).
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the adapter does not have this address (CONN-012).
    /// - [`SHARING_VIOLATION`](crate::Status::SHARING_VIOLATION): the port is in use.
    /// - [`TOO_MANY_ADDRESSES`](crate::Status::TOO_MANY_ADDRESSES): all ports are in use.
    /// - [`ADDRESS_ALREADY_EXISTS`](crate::Status::ADDRESS_ALREADY_EXISTS): ND2 documents this status here, but
    ///   [`connect`](Self::connect) returns it (AMB-026).
    /// - [`CANCELED`](crate::Status::CANCELED): the connector is being torn down (AMB-027).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the connector cannot be used again (CONN-114).
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES).
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): COM clients only (CONN-013).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn bind(&self, address: SocketAddr) -> Result<()>;

    /// `Connect`: asks a listener for a connection. The request ends when the peer has accepted. The application can send only
    /// after [`complete_connect`](Self::complete_connect). A connector that is not bound yet is bound to the adapter's address
    /// and any port (AMB-031).
    ///
    /// The two limits say how many Reads this side serves (inbound) and issues (outbound) at a time; 0 means that it serves
    /// or issues no Reads. Limits above those of the adapter are reduced to the adapter's (CONN-027). The private data
    /// reaches the peer unchanged and may be empty.
    ///
    /// # Errors
    ///
    /// Returned by the call, with the connector unchanged:
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): more private data than `max_caller_data`.
    /// - [`CONNECTION_ACTIVE`](crate::Status::CONNECTION_ACTIVE): the queue pair, or the connector, is connected or connecting.
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the queue pair was disconnected (AMB-035), or the
    ///   connector cannot be used again.
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a queue pair of another adapter (CONN-062).
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the destination has port 0.
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): private data that cannot be read; COM clients only.
    /// - [`TOO_MANY_ADDRESSES`](crate::Status::TOO_MANY_ADDRESSES),
    ///   [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES): for a connector that is not bound; the latter may
    ///   also be the final status.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As the final status, after which Connect can be tried again:
    ///
    /// - [`CONNECTION_REFUSED`](crate::Status::CONNECTION_REFUSED): there is no listener, its backlog is full, the peer does
    ///   not speak the protocol, or the peer rejected the connection. After a rejection
    ///   [`get_private_data`](Self::get_private_data) returns the peer's private data.
    /// - [`NETWORK_UNREACHABLE`](crate::Status::NETWORK_UNREACHABLE), which the call may also return.
    /// - [`HOST_UNREACHABLE`](crate::Status::HOST_UNREACHABLE).
    /// - [`IO_TIMEOUT`](crate::Status::IO_TIMEOUT): the peer does not answer. A slow application on the peer's side does not
    ///   cause this status (CONN-031).
    /// - [`BAD_NETWORK_NAME`](crate::Status::BAD_NETWORK_NAME): the address is unspecified; the call may also return this
    ///   status (AMB-032).
    ///
    /// As the final status, after which a provider may refuse another try (CONN-014):
    ///
    /// - [`ADDRESS_ALREADY_EXISTS`](crate::Status::ADDRESS_ALREADY_EXISTS): a connection with these two addresses and ports
    ///   exists. The call also returns this status where another program has taken the local port since an attempt that failed.
    /// - [`CANCELED`](crate::Status::CANCELED): the request was cancelled, or the queue pair was released.
    fn connect(
        &self,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started>;

    /// `CompleteConnect`: completes a connection that the peer has accepted. When the request has ended, the active side may
    /// send, and the negotiated limits are in force. Programs have to expect [`Done`](Started::Done) as well as
    /// [`Pending`](Started::Pending) (TST-004).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): [`connect`](Self::connect) has not succeeded.
    /// - [`IO_TIMEOUT`](crate::Status::IO_TIMEOUT): the peer has given up waiting.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `Accept`: accepts the connection request that the listener put into this connector. The request ends when the peer has
    /// completed the connection; then either side may send (AMB-040). Limits and private data are as for
    /// [`connect`](Self::connect). The limits are also reduced to the peer's (CONN-063).
    ///
    /// # Errors
    ///
    /// Returned by the call, with the connector unchanged:
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): more private data than `max_callee_data`.
    /// - [`CONNECTION_ACTIVE`](crate::Status::CONNECTION_ACTIVE): the queue pair is connected or connecting.
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector holds no request (CONN-060).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the queue pair was disconnected (AMB-035).
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a queue pair of another adapter (CONN-062).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): private data that cannot be read; COM clients only.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// Returned by the call, or as the final status:
    ///
    /// - [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED): the peer gave up before it saw the answer.
    /// - [`CONNECTION_REFUSED`](crate::Status::CONNECTION_REFUSED): the peer saw the answer and rejected it (AMB-004).
    /// - [`IO_TIMEOUT`](crate::Status::IO_TIMEOUT): the peer did not complete the connection in time.
    /// - [`CANCELED`](crate::Status::CANCELED): the request was cancelled, or the queue pair was released.
    fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started>;

    /// `Reject`: refuses the connection. The passive side calls Reject instead of Accept, the active side instead of
    /// CompleteConnect (CONN-074). The method is not overlapped (AMB-038). The connector cannot be used again.
    ///
    /// # Errors
    ///
    /// - [`INVALID_BUFFER_SIZE`](crate::Status::INVALID_BUFFER_SIZE): more private data than `max_callee_data`.
    /// - [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED): the peer has given up already.
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): there is nothing to reject (CONN-076).
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): private data that cannot be read; COM clients only.
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn reject(&self, private_data: &[u8]) -> Result<()>;

    /// `GetReadLimits`: the read limits as this side sees them. `inbound` is the number of Reads that the peer wants to
    /// issue, `outbound` the number of Reads that the peer serves. Both are reduced to the limits of both adapters (CONN-080,
    /// CONN-081). The active side can ask between Connect and CompleteConnect, the passive side between GetConnectionRequest
    /// and Accept (CONN-083).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector is in another state.
    /// - [`UNSUCCESSFUL`](crate::Status::UNSUCCESSFUL).
    fn get_read_limits(&self) -> Result<ReadLimits>;

    /// `GetPrivateData`: the private data that the peer sent with Connect, Accept or Reject; empty if the peer sent no private
    /// data. Available in the same states as the limits, and after the peer has rejected a Connect (CONN-089, CONN-090).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector is in another state.
    /// - [`CONNECTION_ABORTED`](crate::Status::CONNECTION_ABORTED): the peer is gone.
    /// - [`UNSUCCESSFUL`](crate::Status::UNSUCCESSFUL).
    fn get_private_data(&self) -> Result<Vec<u8>>;

    /// `GetLocalAddress`: the address and port of this side, from Bind on (AMB-066).
    ///
    /// # Errors
    ///
    /// [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector is not bound, or is disconnected (CONN-094).
    fn get_local_address(&self) -> Result<SocketAddr>;

    /// `GetPeerAddress`: the address and port of the peer. The passive side can ask when GetConnectionRequest has ended, the
    /// active side when Connect has succeeded (AMB-042).
    ///
    /// # Errors
    ///
    /// [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the peer is not known yet, or the connector is disconnected.
    fn get_peer_address(&self) -> Result<SocketAddr>;

    /// `NotifyDisconnect`: ends with [`SUCCESS`](crate::Status::SUCCESS) when the connection ends, whichever side ends it. If
    /// the connection has ended already, the request ends at once (CONN-107). It does not cancel requests of the queue pair
    /// (CONN-106).
    ///
    /// When the peer, an error or a reset ends the connection, every pending NotifyDisconnect completes first: its event is set, and
    /// its completion packet is queued. Results that the end of the connection causes, such as those of flushed Receives, appear
    /// only afterwards. So code that runs when a NotifyDisconnect completes, such as a waker, must not wait for these results.
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector was never connected.
    /// - [`CANCELED`](crate::Status::CANCELED) as the final status: the client cancelled the request by
    ///   [`cancel_overlapped_requests`](OverlappedObject::cancel_overlapped_requests), or released the connector while the
    ///   connection was up (CONN-105). In both cases the connection stays up. A client that wants to be told when the connection
    ///   ends must not release the connector.
    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `Disconnect`: ends the connection. All outstanding requests of the queue pair complete with
    /// [`CANCELED`](crate::Status::CANCELED) (CONN-113). Neither the connector nor the queue pair can be connected again
    /// (CONN-114).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector is not connected. After the peer has
    ///   disconnected, and after an error, it still counts as connected until Disconnect (TST-043).
    /// - [`CANCELED`](crate::Status::CANCELED) as the final status: the queue pair was released (CONN-110).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started>;

    /// The reason why the connection ended, or why Connect or Accept failed. `None` before that, and if the provider cannot tell. ND2 has
    /// no such call; in C it is `INDXConnectionEnd`.
    fn connection_end(&self) -> Option<ConnectionEnd> {
        None
    }

    /// The name of the transport that carries the connection, or has carried it: softnd's are `tcp`, `udp`, `sim` in a simulated network, and
    /// `shm` for shared memory within one machine. `None` before there is a connection, and if the provider cannot tell. ND2 has no such
    /// call, and in C there is none.
    fn transport(&self) -> Option<&'static str> {
        None
    }
}

/// `IND2Listener`: receives connection requests of peers.
///
/// Releasing a listener cancels its requests and refuses the connections that wait in its backlog (LSTN-033).
pub trait Listener: OverlappedObject {
    /// `Bind`: sets the local address. With port 0 the provider picks a port. The unspecified address stands for all
    /// addresses of this adapter, not for those of other adapters (LSTN-010).
    ///
    /// # Errors
    ///
    /// - [`ADDRESS_ALREADY_ASSOCIATED`](crate::Status::ADDRESS_ALREADY_ASSOCIATED): the listener is bound (AMB-028).
    /// - [`INVALID_ADDRESS`](crate::Status::INVALID_ADDRESS): the adapter does not have this address (LSTN-012).
    /// - [`SHARING_VIOLATION`](crate::Status::SHARING_VIOLATION): the address and port are in use (AMB-029).
    /// - [`TOO_MANY_ADDRESSES`](crate::Status::TOO_MANY_ADDRESSES): all ports are in use.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES).
    fn bind(&self, address: SocketAddr) -> Result<()>;

    /// `Listen`: starts to receive connection requests. While no [`get_connection_request`](Self::get_connection_request) is in flight, up
    /// to `backlog` of them wait; 0 sets no limit. The provider may have its own lower limit (LSTN-016).
    ///
    /// # Errors
    ///
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the listener is not bound, or listens already
    ///   (LSTN-017, LSTN-018).
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES).
    fn listen(&self, backlog: u32) -> Result<()>;

    /// `GetLocalAddress`: the local address and port, from Bind on (AMB-067).
    ///
    /// # Errors
    ///
    /// [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the listener is not bound.
    fn get_local_address(&self) -> Result<SocketAddr>;

    /// `GetConnectionRequest`: waits for a peer's connection request and puts it into `connector`, ready for Accept or Reject. Several
    /// calls may be in flight, each with its own connector. Each request of a peer ends one of them (LSTN-028).
    ///
    /// # Errors
    ///
    /// Returned by the call:
    ///
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the listener does not listen (LSTN-030), or the
    ///   connector cannot be used again.
    /// - [`CONNECTION_ACTIVE`](crate::Status::CONNECTION_ACTIVE): the connector is in use: it waits, holds a request, connects or
    ///   is connected (LSTN-031).
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a connector of another adapter (GEN-022).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As the final status: [`CANCELED`](crate::Status::CANCELED) if the request was cancelled, the listener or the connector
    /// was released, or the connector was [withdrawn](Self::withdraw).
    fn get_connection_request(
        &self,
        connector: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started>;

    /// Cancels [`get_connection_request`](Self::get_connection_request) for one connector and leaves the calls with other
    /// connectors in flight. ND2 has no such method. It is for callers who wait for a limited time, or for several things at
    /// once.
    ///
    /// If the call for this connector is in flight, it ends with [`CANCELED`](crate::Status::CANCELED) before `withdraw`
    /// returns. If the connector already holds a peer's request that was not answered, the request returns to the listener,
    /// ahead of all others. In both cases the connector can be used again.
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the connector neither waits for nor holds a request of
    ///   this listener.
    /// - [`INVALID_PARAMETER_1`](crate::Status::INVALID_PARAMETER_1): a connector of another adapter (GEN-022).
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the provider does not implement this method.
    fn withdraw(&self, connector: &Arc<dyn Connector>) -> Result<()> {
        let _ = connector;
        Err(Error::new(
            Status::NOT_SUPPORTED,
            "this provider withdraws no connectors",
        ))
    }
}
