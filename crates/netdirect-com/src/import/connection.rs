//! `IND2Connector` and `IND2Listener` of a library.

use std::net::SocketAddr;
use std::ptr;
use std::sync::Arc;

use netdirect::{
    ConnectionEnd, Connector, Error, Listener, Overlapped, OverlappedObject, QueuePair, ReadLimits,
    Result, Started, Status,
};

use super::addresses;
use super::connection_end;
use super::overlapping::Overlapping;
use super::pointer::{Pointer, argument, call, check};
use super::queues::ImportedQueuePair;
use crate::abi::{
    ConnectorTable, IID_LISTENER_EXTENSION, ListenerExtensionTable, ListenerTable, This,
};

#[derive(Debug)]
pub(super) struct ImportedConnector(Overlapping<ConnectorTable>);

impl ImportedConnector {
    pub(super) fn new(object: Overlapping<ConnectorTable>) -> Self {
        Self(object)
    }

    fn this(&self) -> This {
        self.0.main().this()
    }
}

impl OverlappedObject for ImportedConnector {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel()
    }
}

/// The length of private data, for a method that refuses data that is too long.
fn length(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(u32::MAX)
}

impl Connector for ImportedConnector {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        let (octets, len) = addresses::sockaddr(address);
        check(call!(self.0.main(), bind(octets.as_ptr().cast(), len)))
    }

    fn connect(
        &self,
        qp: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = argument::<ImportedQueuePair>(&**qp, 1)?.this();
        let (octets, len) = addresses::sockaddr(destination);
        let (data, data_len) = (private_data.as_ptr().cast(), length(private_data));
        self.0.submit(overlapped, None, |connector, pointer| {
            call!(
                connector,
                connect(
                    qp,
                    octets.as_ptr().cast(),
                    len,
                    inbound_read_limit,
                    outbound_read_limit,
                    data,
                    data_len,
                    pointer
                )
            )
        })
    }

    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.submit(overlapped, None, |connector, pointer| {
            call!(connector, complete_connect(pointer))
        })
    }

    fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = argument::<ImportedQueuePair>(&**qp, 1)?.this();
        let (data, len) = (private_data.as_ptr().cast(), length(private_data));
        let (inbound, outbound) = (inbound_read_limit, outbound_read_limit);
        self.0.submit(overlapped, None, |connector, pointer| {
            call!(connector, accept(qp, inbound, outbound, data, len, pointer))
        })
    }

    fn reject(&self, private_data: &[u8]) -> Result<()> {
        let (data, len) = (private_data.as_ptr().cast(), length(private_data));
        check(call!(self.0.main(), reject(data, len)))
    }

    fn get_read_limits(&self) -> Result<ReadLimits> {
        let mut limits = ReadLimits::default();
        let (inbound, outbound) = (&raw mut limits.inbound, &raw mut limits.outbound);
        check(call!(self.0.main(), get_read_limits(inbound, outbound)))?;
        Ok(limits)
    }

    fn get_private_data(&self) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        loop {
            let mut size = length(&data);
            let start = if data.is_empty() {
                ptr::null_mut()
            } else {
                data.as_mut_ptr()
            };
            let status = call!(self.0.main(), get_private_data(start.cast(), &raw mut size));
            let size = size as usize;
            if status != Status::BUFFER_OVERFLOW || size <= data.len() {
                check(status)?;
                data.truncate(size);
                return Ok(data);
            }
            data = vec![0; size];
        }
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        addresses::one(|address, size| {
            call!(self.0.main(), get_local_address(address.cast(), size))
        })
    }

    fn get_peer_address(&self) -> Result<SocketAddr> {
        addresses::one(|address, size| call!(self.0.main(), get_peer_address(address.cast(), size)))
    }

    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.submit(overlapped, None, |connector, pointer| {
            call!(connector, notify_disconnect(pointer))
        })
    }

    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.submit(overlapped, None, |connector, pointer| {
            call!(connector, disconnect(pointer))
        })
    }

    fn connection_end(&self) -> Option<ConnectionEnd> {
        connection_end::of(self.0.main())
    }
}

#[derive(Debug)]
pub(super) struct ImportedListener {
    object: Overlapping<ListenerTable>,
    extension: Option<Pointer<ListenerExtensionTable>>,
}

impl ImportedListener {
    pub(super) fn new(object: Overlapping<ListenerTable>) -> Self {
        Self {
            extension: object.main().query(IID_LISTENER_EXTENSION).ok(),
            object,
        }
    }
}

impl OverlappedObject for ImportedListener {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.object.cancel()
    }
}

impl Listener for ImportedListener {
    fn bind(&self, address: SocketAddr) -> Result<()> {
        let (octets, len) = addresses::sockaddr(address);
        check(call!(self.object.main(), bind(octets.as_ptr().cast(), len)))
    }

    fn listen(&self, backlog: u32) -> Result<()> {
        check(call!(self.object.main(), listen(backlog)))
    }

    fn get_local_address(&self) -> Result<SocketAddr> {
        addresses::one(|address, size| {
            call!(self.object.main(), get_local_address(address.cast(), size))
        })
    }

    fn get_connection_request(
        &self,
        connector: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let connector = argument::<ImportedConnector>(&**connector, 1)?.this();
        self.object.submit(overlapped, None, |listener, pointer| {
            call!(listener, get_connection_request(connector, pointer))
        })
    }

    fn withdraw(&self, connector: &Arc<dyn Connector>) -> Result<()> {
        let Some(extension) = &self.extension else {
            return Err(Error::new(
                Status::NOT_SUPPORTED,
                "this library withdraws no connectors",
            ));
        };
        let connector = argument::<ImportedConnector>(&**connector, 1)?.this();
        let withdrawn = call!(extension, withdraw(connector));
        self.object.drain_all();
        check(withdrawn)
    }
}
