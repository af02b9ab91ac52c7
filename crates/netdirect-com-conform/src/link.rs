//! Two ends of one adapter: an offer, and a connection.

use std::ptr;

use conform_report::{Step, ensure};
use netdirect::{Buffer, MrFlags, Status};
use netdirect_com::abi::{
    CompletionQueueTable, CompletionResult, ConnectorTable, ListenerTable, MemoryRegionTable,
    QueuePairTable, Sge,
};
use netdirect_com::import::Pointer;
use netdirect_com::sockaddr::{self, V6};

use crate::call::call;
use crate::common::status;
use crate::open_adapter::OpenAdapter;
use crate::request::{Request, end};

/// One end of a connection. Objects are given back before the memory that they use.
pub(crate) struct End {
    pub(crate) connector: Pointer<ConnectorTable>,
    pub(crate) qp: Pointer<QueuePairTable>,
    pub(crate) region: Pointer<MemoryRegionTable>,
    queue: Pointer<CompletionQueueTable>,
    pub(crate) buffer: Buffer,
}

impl End {
    pub(crate) fn new(near: &OpenAdapter) -> Step<Self> {
        let queue = near.completion_queue()?;
        let end = Self {
            connector: near.connector()?,
            qp: near.queue_pair(&queue)?,
            region: near.region()?,
            queue,
            buffer: Buffer::new(64),
        };
        near.step("Register");
        let (start, len) = (end.buffer.as_ptr(), end.buffer.len());
        let flags = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_WRITE;
        let (flags, mut request) = (flags.bits(), Request::new());
        let started = call!(
            &end.region,
            register(start.cast_const().cast(), len, flags, request.pointer())
        );
        let returned = end!(request, &end.region, started);
        status("Register", Status::SUCCESS, returned)?;
        Ok(end)
    }

    /// All of the buffer.
    pub(crate) fn sge(&self) -> Sge {
        Sge {
            buffer: self.buffer.as_ptr().cast(),
            buffer_length: 64,
            memory_region_token: call!(&self.region, get_local_token()),
        }
    }

    pub(crate) fn receive(&self, near: &OpenAdapter, context: usize) -> Step {
        near.step("Receive");
        let (sge, context) = (self.empty(), ptr::without_provenance_mut(context));
        let returned = call!(&self.qp, receive(context, &raw const sge, 1));
        status("Receive", Status::SUCCESS, returned)
    }

    /// Sends no octets.
    pub(crate) fn send(&self, near: &OpenAdapter, context: usize) -> Step {
        near.step("Send");
        let (sge, context) = (self.empty(), ptr::without_provenance_mut(context));
        let returned = call!(&self.qp, send(context, &raw const sge, 1, 0));
        status("Send", Status::SUCCESS, returned)
    }

    fn empty(&self) -> Sge {
        Sge {
            buffer_length: 0,
            ..self.sge()
        }
    }

    /// Checks that the next result is this request's, and a success.
    pub(crate) fn succeeds(&self, near: &OpenAdapter, context: usize) -> Step {
        near.step(format!("the result of request {context}"));
        let result = self.result()?;
        let seen = (result.request_context.addr(), result.status);
        ensure(
            seen == (context, Status::SUCCESS),
            format!("a success of request {context}"),
            format!("{} of request {}", seen.1, seen.0),
        )
    }

    fn result(&self) -> Step<CompletionResult> {
        loop {
            let mut result = CompletionResult {
                status: Status::PENDING,
                bytes_transferred: 0,
                queue_pair_context: ptr::null_mut(),
                request_context: ptr::null_mut(),
                request_type: 99,
            };
            if call!(&self.queue, get_results(&raw mut result, 1)) == 1 {
                return Ok(result);
            }
            let mut request = Request::new();
            let started = call!(&self.queue, notify(1, request.pointer()));
            let returned = end!(request, &self.queue, started);
            status("Notify", Status::SUCCESS, returned)?;
        }
    }
}

/// A connection that one end has requested and the other has received.
pub(crate) struct Offer {
    connect: Request,
    connected: Status,
    pub(crate) active: End,
    pub(crate) passive: End,
    _listener: Pointer<ListenerTable>,
}

impl Offer {
    /// Makes an offer with these octets as private data.
    pub(crate) fn new(near: &OpenAdapter, data: &[u8]) -> Step<Self> {
        near.needs_connections()?;
        let (active, passive) = (End::new(near)?, End::new(near)?);
        let listener = near.listener()?;
        let (octets, len) = sockaddr::raw(near.client.address);
        near.step("Bind");
        let returned = call!(&listener, bind(octets.as_ptr().cast(), len));
        status("the listener's Bind", Status::SUCCESS, returned)?;
        near.step("Listen");
        let returned = call!(&listener, listen(0));
        status("Listen", Status::SUCCESS, returned)?;
        near.step("the listener's GetLocalAddress");
        let (mut address, mut size) = ([0_u8; V6], len);
        let returned = call!(
            &listener,
            get_local_address(address.as_mut_ptr().cast(), &raw mut size)
        );
        status("the listener's GetLocalAddress", Status::SUCCESS, returned)?;
        near.step("GetConnectionRequest");
        let mut asked = Request::new();
        let asking = call!(
            &listener,
            get_connection_request(passive.connector.this(), asked.pointer())
        );
        bind(near, &active.connector)?;
        near.step("Connect");
        let mut connect = Request::new();
        let octets = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let connected = call!(
            &active.connector,
            connect(
                active.qp.this(),
                address.as_ptr().cast(),
                len,
                1,
                1,
                data.as_ptr().cast(),
                octets,
                connect.pointer()
            )
        );
        near.step("the end of GetConnectionRequest");
        let returned = end!(asked, &listener, asking);
        status("GetConnectionRequest", Status::SUCCESS, returned)?;
        Ok(Self {
            connect,
            connected,
            active,
            passive,
            _listener: listener,
        })
    }
}

/// Binds a connector to the adapter's address.
pub(crate) fn bind(near: &OpenAdapter, connector: &Pointer<ConnectorTable>) -> Step {
    let (octets, len) = sockaddr::raw(near.client.address);
    near.step("Bind");
    let returned = call!(connector, bind(octets.as_ptr().cast(), len));
    status("Bind", Status::SUCCESS, returned)
}

/// Two connected ends.
pub(crate) struct Link {
    pub(crate) active: End,
    pub(crate) passive: End,
    _listener: Pointer<ListenerTable>,
}

impl Link {
    pub(crate) fn new(near: &OpenAdapter) -> Step<Self> {
        let Offer {
            mut connect,
            connected,
            active,
            passive,
            _listener,
        } = Offer::new(near, &[])?;
        near.step("Accept");
        let mut accept = Request::new();
        let accepted = call!(
            &passive.connector,
            accept(passive.qp.this(), 1, 1, ptr::null(), 0, accept.pointer())
        );
        near.step("the end of Connect");
        let returned = end!(connect, &active.connector, connected);
        status("Connect", Status::SUCCESS, returned)?;
        near.step("CompleteConnect");
        let mut complete = Request::new();
        let completed = call!(&active.connector, complete_connect(complete.pointer()));
        let returned = end!(complete, &active.connector, completed);
        status("CompleteConnect", Status::SUCCESS, returned)?;
        near.step("the end of Accept");
        let returned = end!(accept, &passive.connector, accepted);
        status("Accept", Status::SUCCESS, returned)?;
        Ok(Self {
            active,
            passive,
            _listener,
        })
    }

    /// Releases the active connector while its NotifyDisconnect is in flight. Returns the result of Release.
    pub(crate) fn release_busy_connector(self, near: &OpenAdapter) -> Step<u32> {
        let connector = self.active.connector;
        near.step("NotifyDisconnect");
        let mut request = Request::new();
        let returned = call!(&connector, notify_disconnect(request.pointer()));
        status("NotifyDisconnect", Status::PENDING, returned)?;
        near.step("Release of the connector");
        Ok(connector.give_back())
    }
}
