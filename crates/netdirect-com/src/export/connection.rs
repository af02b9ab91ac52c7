//! `IND2Connector` and `IND2Listener`.

use std::ffi::{c_char, c_void};

use netdirect::{Connector, Listener, Result, Started};

use super::connection_end;
use super::object::{Interface, method, no_more, unknown_of_end, unknown_of_more};
use super::overlapped::{Kind, ObjectWithRequests, overlapped};
use super::pointers::{ClientOverlapped, Octets, Out, Room};
use super::queues::QueuePairObject;
use crate::abi::{
    ConnectionEnd, ConnectionEndTable, ConnectorTable, Guid, IID_LISTENER_EXTENSION,
    IID_ND2_CONNECTOR, IID_ND2_LISTENER, IID_ND2_OVERLAPPED, ListenerExtensionTable, ListenerTable,
};

pub(super) type ConnectorObject = ObjectWithRequests<dyn Connector>;

static CONNECTOR: ConnectorTable = ConnectorTable {
    overlapped: overlapped::<dyn Connector>(),
    bind: method!(ConnectorObject, bind(address: Octets, size: u32) -> Result<()>),
    connect: method!(ConnectorObject, connect(
        qp: Interface, address: Octets, size: u32, inbound: u32, outbound: u32, private_data: Octets, private_data_size: u32,
        overlapped: ClientOverlapped) -> Result<Started>),
    complete_connect: method!(ConnectorObject, complete_connect(overlapped: ClientOverlapped) -> Result<Started>),
    accept: method!(ConnectorObject, accept(
        qp: Interface, inbound: u32, outbound: u32, private_data: Octets, private_data_size: u32,
        overlapped: ClientOverlapped) -> Result<Started>),
    reject: method!(ConnectorObject, reject(private_data: Octets, size: u32) -> Result<()>),
    get_read_limits: method!(ConnectorObject, get_read_limits(inbound: Out<u32>, outbound: Out<u32>) -> Result<()>),
    get_private_data: method!(ConnectorObject, get_private_data(data: Out<c_void>, size: Out<u32>) -> Result<()>),
    get_local_address: method!(ConnectorObject, get_local_address(address: Out<c_void>, size: Out<u32>) -> Result<()>),
    get_peer_address: method!(ConnectorObject, get_peer_address(address: Out<c_void>, size: Out<u32>) -> Result<()>),
    notify_disconnect: method!(ConnectorObject, notify_disconnect(overlapped: ClientOverlapped) -> Result<Started>),
    disconnect: method!(ConnectorObject, disconnect(overlapped: ClientOverlapped) -> Result<Started>),
};

static CONNECTOR_END: ConnectionEndTable = ConnectionEndTable {
    unknown: unknown_of_end::<ConnectorObject>(),
    get_connection_end: method!(end ConnectorObject, get_connection_end(
        end: Out<ConnectionEnd>, text: Out<c_char>, size: Out<u32>) -> Result<()>),
};

impl Kind for dyn Connector {
    type Table = ConnectorTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_CONNECTOR, IID_ND2_OVERLAPPED];
    const END: Option<&'static ConnectionEndTable> = Some(&CONNECTOR_END);

    no_more!();

    fn table() -> &'static ConnectorTable {
        &CONNECTOR
    }
}

#[expect(clippy::needless_pass_by_value, reason = "arguments of methods")]
impl ConnectorObject {
    fn bind(&self, address: Octets, size: u32) -> Result<()> {
        self.object.bind(address.address(size, 1)?)
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments are ND2's")]
    fn connect(
        &self,
        qp: Interface,
        address: Octets,
        size: u32,
        inbound: u32,
        outbound: u32,
        private_data: Octets,
        private_data_size: u32,
        overlapped: ClientOverlapped,
    ) -> Result<Started> {
        let qp = qp.of_class::<QueuePairObject>(1)?;
        let address = address.address(size, 2)?;
        let data = private_data.copy(private_data_size, self.parts.max_private_data, 6)?;
        self.requests.submit(overlapped, 8, |request| {
            let qp = qp.get().qp();
            self.object
                .connect(qp, address, inbound, outbound, &data, request)
        })
    }

    fn complete_connect(&self, overlapped: ClientOverlapped) -> Result<Started> {
        self.requests.submit(overlapped, 1, |request| {
            self.object.complete_connect(request)
        })
    }

    fn accept(
        &self,
        qp: Interface,
        inbound: u32,
        outbound: u32,
        private_data: Octets,
        private_data_size: u32,
        overlapped: ClientOverlapped,
    ) -> Result<Started> {
        let qp = qp.of_class::<QueuePairObject>(1)?;
        let data = private_data.copy(private_data_size, self.parts.max_private_data, 4)?;
        self.requests.submit(overlapped, 6, |request| {
            let qp = qp.get().qp();
            self.object.accept(qp, inbound, outbound, &data, request)
        })
    }

    fn reject(&self, private_data: Octets, size: u32) -> Result<()> {
        let data = private_data.copy(size, self.parts.max_private_data, 1)?;
        self.object.reject(&data)
    }

    /// Either pointer may be null (CONN-082).
    fn get_read_limits(&self, inbound: Out<u32>, outbound: Out<u32>) -> Result<()> {
        let limits = self.object.get_read_limits()?;
        inbound.set(limits.inbound);
        outbound.set(limits.outbound);
        Ok(())
    }

    fn get_private_data(&self, data: Out<c_void>, size: Out<u32>) -> Result<()> {
        Room::new(&data, size).fill_partly(&self.object.get_private_data()?)
    }

    fn get_local_address(&self, address: Out<c_void>, size: Out<u32>) -> Result<()> {
        Room::new(&address, size).fill_address(self.object.get_local_address()?)
    }

    fn get_peer_address(&self, address: Out<c_void>, size: Out<u32>) -> Result<()> {
        Room::new(&address, size).fill_address(self.object.get_peer_address()?)
    }

    fn notify_disconnect(&self, overlapped: ClientOverlapped) -> Result<Started> {
        self.requests.submit(overlapped, 1, |request| {
            self.object.notify_disconnect(request)
        })
    }

    fn disconnect(&self, overlapped: ClientOverlapped) -> Result<Started> {
        self.requests
            .submit(overlapped, 1, |request| self.object.disconnect(request))
    }

    fn get_connection_end(
        &self,
        end: Out<ConnectionEnd>,
        text: Out<c_char>,
        size: Out<u32>,
    ) -> Result<()> {
        connection_end::fill(self.object.connection_end(), &end, &text, size)
    }
}

pub(super) type ListenerObject = ObjectWithRequests<dyn Listener>;

static LISTENER: ListenerTable = ListenerTable {
    overlapped: overlapped::<dyn Listener>(),
    bind: method!(ListenerObject, bind(address: Octets, size: u32) -> Result<()>),
    listen: method!(ListenerObject, listen(backlog: u32) -> Result<()>),
    get_local_address: method!(ListenerObject, get_local_address(address: Out<c_void>, size: Out<u32>) -> Result<()>),
    get_connection_request: method!(ListenerObject, get_connection_request(
        connector: Interface, overlapped: ClientOverlapped) -> Result<Started>),
};

static LISTENER_EXTENSION: ListenerExtensionTable = ListenerExtensionTable {
    unknown: unknown_of_more::<ListenerObject>(),
    withdraw: method!(more ListenerObject, withdraw(connector: Interface) -> Result<()>),
};

impl Kind for dyn Listener {
    type Table = ListenerTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_LISTENER, IID_ND2_OVERLAPPED];

    type More = ListenerExtensionTable;
    const MORE: Option<Guid> = Some(IID_LISTENER_EXTENSION);

    fn more() -> &'static ListenerExtensionTable {
        &LISTENER_EXTENSION
    }

    fn table() -> &'static ListenerTable {
        &LISTENER
    }
}

#[expect(clippy::needless_pass_by_value, reason = "arguments of methods")]
impl ListenerObject {
    fn bind(&self, address: Octets, size: u32) -> Result<()> {
        self.object.bind(address.address(size, 1)?)
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        self.object.listen(backlog)
    }

    fn get_local_address(&self, address: Out<c_void>, size: Out<u32>) -> Result<()> {
        Room::new(&address, size).fill_address(self.object.get_local_address()?)
    }

    fn withdraw(&self, connector: Interface) -> Result<()> {
        let connector = connector.of_class::<ConnectorObject>(1)?;
        self.object.withdraw(&connector.get().object)
    }

    fn get_connection_request(
        &self,
        connector: Interface,
        overlapped: ClientOverlapped,
    ) -> Result<Started> {
        let connector = connector.of_class::<ConnectorObject>(1)?;
        self.requests.submit(overlapped, 2, |request| {
            self.object
                .get_connection_request(&connector.get().object, request)
        })
    }
}
