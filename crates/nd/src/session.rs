//! The few blocking steps of which every command consists: find an adapter, make a connection's objects, connect, wait for
//! completions, disconnect.
//!
//! Nothing here waits longer than the command's time limit, except for a first connection.

use std::collections::VecDeque;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netdirect::{
    Adapter, AdapterInfo, Affinity, Buffer, CompletionQueue, CompletionResult, Connector, Listener,
    MemoryRegion, MrFlags, NotifyType, Overlapped, OverlappedFile, Provider, QueuePair,
    QueuePairOptions, ReadLimits, RemoteAddress, Sge, SharedReceiveQueue,
    SharedReceiveQueueOptions, Started, Status,
};

use crate::errors::{Failure, Result, refusal};
use crate::memory;
use crate::provider::{self, AdapterOptions, Backend, Refusals, RefusedConnect};
use crate::units;

/// The addresses of `text`, which is HOST:PORT. There is at least one.
pub(crate) fn resolve(text: &str) -> Result<Vec<SocketAddr>> {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        return Err(Failure::new(
            format!("'{text}' is not an address with a port"),
            "write HOST:PORT, for example 127.0.0.1:4791 or [::1]:4791",
        ));
    }
    let advice = "check the name, or write the address in numbers";
    let found = text
        .to_socket_addrs()
        .map_err(|error| Failure::io(format_args!("resolve '{text}'"), &error).advise(advice))?
        // An IPv4 address may be written as one of IPv6 (::ffff:192.0.2.7).
        .map(|found| SocketAddr::new(found.ip().to_canonical(), found.port()))
        .collect::<Vec<_>>();
    if found.is_empty() {
        return Err(Failure::new(
            format!("cannot resolve '{text}': it has no address"),
            advice,
        ));
    }
    Ok(found)
}

/// How much longer than the command the provider waits for a reply, so that the command is the one that says what it waited for.
const GRACE: Duration = Duration::from_secs(1);

/// A provider, with the options of every adapter that a command opens.
#[derive(Debug)]
pub(crate) struct Setup {
    backend: Backend,
    /// The adapter to use, where the command line names one.
    url: Option<String>,
    /// Whether a listening side demands certificates.
    demands_certificates: bool,
    limit: Duration,
}

impl Setup {
    /// Picks the provider, and creates the capture file if one is wanted. A URL that has a scheme alone picks only the provider.
    /// `limit` is how long a peer may stay silent.
    pub(crate) fn new(
        url: Option<&str>,
        options: impl Into<AdapterOptions>,
        limit: Duration,
    ) -> Result<Self> {
        let mut options = options.into();
        options.reply = limit + GRACE;
        let backend = Backend::new(url, &options)?;
        let names_one = url.map_or(Ok(false), provider::is_of_one_adapter)?;
        Ok(Self {
            backend,
            url: url.filter(|_| names_one).map(str::to_owned),
            demands_certificates: options.security.trusts_some(),
            limit,
        })
    }

    /// The adapter that has the local address, or that the command line names.
    pub(crate) fn at(&self, local: SocketAddr) -> Result<Session> {
        if let Some(url) = &self.url {
            return self.session(self.backend.open(url)?);
        }
        let provider = self.backend.provider();
        if local.ip().is_unspecified() {
            return Err(wildcard(provider, local));
        }
        let doing = format!("use {} as a local address", local.ip());
        let id = provider
            .resolve_address(local)
            .map_err(|error| Failure::nd(doing, &error))?;
        self.session(self.backend.open_id(id, local)?)
    }

    fn session(&self, adapter: Arc<dyn Adapter>) -> Result<Session> {
        let session = Session::new(adapter, self.limit)?;
        let refusals = Arc::clone(self.backend.refusals());
        Ok(Session {
            refusals,
            ..session
        })
    }

    /// What a command prints that listens at this address.
    pub(crate) fn listening(&self, address: SocketAddr) -> String {
        let listening = format!("listening on {address}");
        match self.backend.fingerprint() {
            None => listening,
            Some(pin) => {
                let own = if self.demands_certificates {
                    ", and a certificate of its own (--cert, --key)"
                } else {
                    ""
                };
                format!("{listening}\nthe other side connects with --udp --pin {pin}{own}")
            }
        }
    }

    /// The fingerprint of the certificate that the adapters show, if they show one.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.backend.fingerprint()
    }

    /// The adapter that leads to `destination`, and its address. If the command line names none, it is the adapter through
    /// which the system's routes lead. No packet is sent.
    pub(crate) fn towards(&self, destination: SocketAddr) -> Result<(Session, SocketAddr)> {
        if self.url.is_some() {
            let session = self.at(destination)?;
            let local = session.address_towards(destination)?;
            return Ok((session, local));
        }
        let any: SocketAddr = match destination {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let explain = |call: &'static str| {
            move |error| {
                Failure::socket(format_args!("find a way to {destination}: {call}"), &error)
            }
        };
        let socket = UdpSocket::bind(any).map_err(explain("socket or bind"))?;
        socket.connect(destination).map_err(explain("connect"))?;
        let mut local = socket.local_addr().map_err(explain("getsockname"))?;
        local.set_port(0);
        Ok((self.at(local)?, local))
    }

    /// How long a peer may stay silent.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Writes out what the capture still holds. A capture that could not be written whole is an error.
    pub(crate) fn finish(&self) -> Result<()> {
        self.backend.finish()
    }
}

/// A listener never serves several adapters (LSTN-010), and it is unknown which one the user means.
fn wildcard(provider: &dyn Provider, local: SocketAddr) -> Failure {
    let mut addresses = match provider.query_address_list() {
        Ok(addresses) => addresses,
        Err(error) => return Failure::nd(format_args!("use {}", local.ip()), &error),
    };
    addresses.retain(|address| address.is_ipv4() == local.is_ipv4());
    let addresses = addresses
        .iter()
        .map(|address| SocketAddr::new(address.ip(), local.port()).to_string());
    Failure::new(
        format!(
            "cannot use {}: an adapter serves its own addresses only",
            local.ip()
        ),
        format!(
            "name the one to use: {}",
            addresses.collect::<Vec<_>>().join(" or ")
        ),
    )
}

/// An open adapter with the overlapped file that all its objects share.
#[derive(Debug)]
pub(crate) struct Session {
    adapter: Arc<dyn Adapter>,
    info: AdapterInfo,
    file: Arc<dyn OverlappedFile>,
    limit: Duration,
    refusals: Arc<Refusals>,
}

/// How many requests may be outstanding on a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depths {
    pub(crate) receives: u32,
    pub(crate) initiator: u32,
    pub(crate) initiator_sges: u32,
}

impl Session {
    /// `limit` is how long a peer may stay silent.
    pub(crate) fn new(adapter: Arc<dyn Adapter>, limit: Duration) -> Result<Self> {
        let info = adapter
            .query()
            .map_err(|error| Failure::nd("query the adapter", &error))?;
        let file = adapter
            .create_overlapped_file()
            .map_err(|error| Failure::nd("open the adapter's file", &error))?;
        Ok(Self {
            adapter,
            info,
            file,
            limit,
            refusals: Arc::default(),
        })
    }

    pub(crate) fn adapter(&self) -> &Arc<dyn Adapter> {
        &self.adapter
    }

    /// The adapter's address, without a port, of the family of `destination`.
    pub(crate) fn address_towards(&self, destination: SocketAddr) -> Result<SocketAddr> {
        let addresses = self
            .adapter
            .query_address_list()
            .map_err(|error| Failure::nd("list the adapter's addresses", &error))?;
        let mut addresses = addresses.into_iter();
        match addresses.find(|address| address.is_ipv4() == destination.is_ipv4()) {
            Some(local) => Ok(SocketAddr::new(local.ip(), 0)),
            None => Err(Failure::new(
                format!(
                    "the adapter has no address to reach {} from",
                    destination.ip()
                ),
                "name an adapter whose address belongs to the same family",
            )),
        }
    }

    /// An address of the adapter, without a port: of the loopback interface if it has one.
    pub(crate) fn an_address(&self) -> Result<SocketAddr> {
        let loopback = loopback();
        let addresses = self.adapter.query_address_list();
        let addresses =
            addresses.map_err(|error| Failure::nd("list the adapter's addresses", &error))?;
        let has_loopback = addresses
            .iter()
            .any(|address| address.ip() == loopback.ip());
        match addresses.first() {
            Some(first) if !has_loopback => Ok(SocketAddr::new(first.ip(), 0)),
            _ => Ok(loopback),
        }
    }

    pub(crate) fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// A new buffer of `len` octets, zeroed, in a region with these rights.
    pub(crate) fn register(&self, len: usize, flags: MrFlags) -> Result<Region> {
        let buffer = memory_of(len)?;
        memory::check_spare(len)?;
        self.register_buffer(buffer, flags)
    }

    /// The same at this offset in a page of [`Buffer::PAGE`] octets.
    pub(crate) fn register_at(&self, len: usize, offset: usize, flags: MrFlags) -> Result<Region> {
        let room = len.saturating_add(Buffer::PAGE);
        let buffer = memory_of(room)?;
        memory::check_spare(room)?;
        let skip = (Buffer::to_page_offset(buffer.as_ptr().addr()) + Buffer::PAGE + offset
            - Buffer::PAGE_OFFSET)
            % Buffer::PAGE;
        self.register_buffer(buffer.slice(skip..skip + len), flags)
    }

    /// The same for a buffer, or part of one, that exists.
    pub(crate) fn register_buffer(&self, buffer: Buffer, flags: MrFlags) -> Result<Region> {
        let doing = || format!("register {} of memory", units::bytes(buffer.len() as u64));
        let region = self
            .adapter
            .create_memory_region(&self.file)
            .map_err(|error| Failure::nd("create a memory region", &error))?;
        let overlapped = Overlapped::new();
        let started = region.register(&buffer, flags, &overlapped);
        match settle(started, &overlapped, Deadline::after(self.limit), &doing())? {
            Status::SUCCESS => Ok(Region { region, buffer }),
            status => Err(Failure::status(doing(), status)),
        }
    }

    pub(crate) fn connector(&self) -> Result<Arc<dyn Connector>> {
        self.adapter
            .create_connector(&self.file)
            .map_err(|error| Failure::nd("create a connector", &error))
    }

    /// A completion queue, a queue pair that reports to it, and a connector: all objects that one connection needs.
    pub(crate) fn endpoint(
        &self,
        depths: Depths,
        connector: Arc<dyn Connector>,
    ) -> Result<Endpoint> {
        let cq = self.completion_queue(depths.receives + depths.initiator)?;
        self.endpoint_on(cq, None, depths, connector)
    }

    /// A completion queue for so many results.
    pub(crate) fn completion_queue(&self, depth: u32) -> Result<Arc<dyn CompletionQueue>> {
        self.adapter
            .create_completion_queue(&self.file, depth, Affinity::default())
            .map_err(|error| Failure::nd("create a completion queue", &error))
    }

    /// A shared receive queue for so many Receives.
    pub(crate) fn shared_receive_queue(&self, depth: u32) -> Result<Arc<dyn SharedReceiveQueue>> {
        let options = SharedReceiveQueueOptions::default().queue_depth(depth);
        self.adapter
            .create_shared_receive_queue(&self.file, options)
            .map_err(|error| Failure::nd("create a shared receive queue", &error))
    }

    /// A queue pair that reports to a completion queue which others may use as well, and a connector. With a shared receive
    /// queue, the queue pair takes its Receives from there.
    pub(crate) fn endpoint_on(
        &self,
        cq: Arc<dyn CompletionQueue>,
        srq: Option<Arc<dyn SharedReceiveQueue>>,
        depths: Depths,
        connector: Arc<dyn Connector>,
    ) -> Result<Endpoint> {
        let options = QueuePairOptions::default()
            .receive_queue_depth(depths.receives)
            .initiator_queue_depth(depths.initiator)
            .max_initiator_request_sge(depths.initiator_sges);
        let qp = match &srq {
            None => self.adapter.create_queue_pair(&cq, &cq, options),
            Some(srq) => (self.adapter).create_queue_pair_with_srq(&cq, &cq, srq, options),
        };
        let qp = qp.map_err(|error| Failure::nd("create a queue pair", &error))?;
        Ok(Endpoint {
            connector,
            qp,
            srq,
            cq,
            ready: VecDeque::new(),
            notify: Overlapped::new(),
            ended: Overlapped::new(),
            limit: self.limit,
            deadline: None,
            refusals: Arc::clone(&self.refusals),
        })
    }

    /// A listener on `local`, and its address.
    pub(crate) fn listen(&self, local: SocketAddr) -> Result<(Arc<dyn Listener>, SocketAddr)> {
        let doing = format!("listen on {local}");
        let explain = |error: netdirect::Error| Failure::nd(&doing, &error);
        let listener = self.adapter.create_listener(&self.file).map_err(explain)?;
        listener.bind(local).map_err(|error| {
            let privileged = (1..1024).contains(&local.port());
            match (explain(error.clone()), error.status()) {
                (failure, Status::UNSUCCESSFUL) if privileged => {
                    failure.advise("use a port above 1023, or a user who may use this one")
                }
                (failure, _) => failure,
            }
        })?;
        self.refusals.print();
        listener.listen(0).map_err(explain)?;
        let address = listener.get_local_address().map_err(explain)?;
        Ok((listener, address))
    }
}

/// Registered memory with the buffer behind it.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) region: Arc<dyn MemoryRegion>,
    pub(crate) buffer: Buffer,
}

impl Region {
    /// A part of the region as an entry of a local request.
    pub(crate) fn sge(&self, part: Range<usize>) -> Sge {
        Sge::new(&self.buffer, part, self.region.get_local_token())
    }

    /// The region as the peer names it.
    pub(crate) fn remote(&self) -> RemoteAddress {
        RemoteAddress {
            address: self.buffer.address(),
            token: self.region.get_remote_token(),
        }
    }
}

/// A time by which something has to be done, and the whole time limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    at: Instant,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self {
            limit,
            at: Instant::now() + limit,
        }
    }

    /// What is left of the time.
    pub(crate) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }
}

/// Any port of this machine's own address: 127.0.0.1, or ::1 on machines without IPv4.
pub(crate) fn loopback() -> SocketAddr {
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    match UdpSocket::bind(own) {
        // What else fails also fails for those who use the address, and they tell.
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            SocketAddr::from((Ipv6Addr::LOCALHOST, 0))
        }
        _ => own,
    }
}

/// A connection request, and the address of its sender.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) peer: SocketAddr,
    pub(crate) private_data: Vec<u8>,
    pub(crate) limits: ReadLimits,
}

/// Waits for a connection request, for ever unless there is a deadline. A request whose sender has gone is skipped.
pub(crate) fn next_request(
    session: &Session,
    listener: &dyn Listener,
    deadline: Option<Deadline>,
) -> Result<Request> {
    request_settled(session, listener, |started, overlapped| match deadline {
        Some(deadline) => settle(started, overlapped, deadline, GETTING_REQUEST),
        None => match started.map_err(|error| Failure::nd(GETTING_REQUEST, &error))? {
            Started::Done => Ok(Status::SUCCESS),
            Started::Pending => Ok(overlapped.wait()),
        },
    })
}

/// The next connection request before the deadline. `look` says how long to wait before it is asked again, or fails.
pub(crate) fn next_request_while(
    session: &Session,
    listener: &dyn Listener,
    deadline: Deadline,
    look: &dyn Fn() -> Result<Duration>,
) -> Result<Request> {
    request_settled(session, listener, |started, overlapped| {
        if started.map_err(|error| Failure::nd(GETTING_REQUEST, &error))? == Started::Done {
            return Ok(Status::SUCCESS);
        }
        loop {
            match overlapped.wait_timeout(look()?) {
                Some(status) => return Ok(status),
                None if deadline.left().is_zero() => {
                    return Err(silence(GETTING_REQUEST, deadline.limit()));
                }
                None => {}
            }
        }
    })
}

const GETTING_REQUEST: &str = "get a connection request";

/// Gets a connection request; `settle` waits for it.
fn request_settled(
    session: &Session,
    listener: &dyn Listener,
    settle: impl Fn(netdirect::Result<Started>, &Overlapped) -> Result<Status>,
) -> Result<Request> {
    let doing = GETTING_REQUEST;
    loop {
        let connector = session.connector()?;
        let overlapped = Overlapped::new();
        let started = listener.get_connection_request(&connector, &overlapped);
        let status = settle(started, &overlapped)?;
        if status != Status::SUCCESS {
            return Err(Failure::status(doing, status));
        }
        let (Ok(peer), Ok(private_data), Ok(limits)) = (
            connector.get_peer_address(),
            connector.get_private_data(),
            connector.get_read_limits(),
        ) else {
            continue;
        };
        return Ok(Request {
            connector,
            peer,
            private_data,
            limits,
        });
    }
}

/// One connection: before, while and after it is connected.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) qp: Arc<dyn QueuePair>,
    /// Where the queue pair takes its Receives from, unless they are its own.
    srq: Option<Arc<dyn SharedReceiveQueue>>,
    cq: Arc<dyn CompletionQueue>,
    ready: VecDeque<CompletionResult>,
    notify: Overlapped,
    ended: Overlapped,
    /// How long the peer may stay silent.
    limit: Duration,
    /// The time by which the peer has to have done everything, even if it is not silent.
    deadline: Option<Deadline>,
    refusals: Arc<Refusals>,
}

impl Endpoint {
    /// Limits all waits together by a deadline. With `None`, limits each wait by itself again.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
    }

    fn patience(&self) -> Deadline {
        self.deadline.unwrap_or_else(|| Deadline::after(self.limit))
    }

    /// Connects from `local` and waits for the answer. Returns the status, whatever it is, unless more is known of why the
    /// connection failed. Without a local address, the
    /// system chooses a port that is free for this destination. There are more of these than ports that are free for all
    /// destinations.
    pub(crate) fn connect(
        &self,
        local: impl Into<Option<SocketAddr>>,
        destination: SocketAddr,
        limits: ReadLimits,
        private_data: &[u8],
    ) -> Result<Status> {
        let doing = format!("connect to {destination}");
        if let Some(local) = local.into() {
            self.connector
                .bind(local)
                .map_err(|error| Failure::nd(&doing, &error))?;
        }
        let overlapped = Overlapped::new();
        let ReadLimits { inbound, outbound } = limits;
        let started = self.connector.connect(
            &self.qp,
            destination,
            inbound,
            outbound,
            private_data,
            &overlapped,
        );
        let status = self.settle_connector(started, &overlapped, &doing)?;
        if let Err(error) = overlapped.result()
            && refusal(error.what()).is_some()
        {
            return Err(Failure::nd(doing, &error));
        }
        if status != Status::SUCCESS
            && let Some(RefusedConnect { what, advice }) = self.refusals.take(destination, status)
        {
            return Err(Failure::refused(doing, status, &what).advise(advice));
        }
        Ok(status)
    }

    /// The failure of a Connect that ended with this status. If the peer answered by a rejection, a program accepts connections there.
    pub(crate) fn not_connected(&self, destination: SocketAddr, status: Status) -> Failure {
        let doing = format!("connect to {destination}");
        if status == Status::CONNECTION_REFUSED && self.connector.get_private_data().is_ok() {
            let why = "the program that listens there has rejected the connection";
            return Failure::refused(doing, status, why)
                .advise("check address and port, and look at what that program says");
        }
        Failure::status(doing, status)
    }

    /// Completes a connection that was answered, and watches for its end from then on.
    pub(crate) fn complete_connect(&self) -> Result<Status> {
        let overlapped = Overlapped::new();
        let started = self.connector.complete_connect(&overlapped);
        let status = self.settle_connector(started, &overlapped, "complete the connection")?;
        self.watch(status)
    }

    /// Accepts the request in the connector, waits until the connection is established, and watches for its end from then
    /// on.
    pub(crate) fn accept(&self, limits: ReadLimits, private_data: &[u8]) -> Result<Status> {
        self.accept_if(limits, private_data, || true)
    }

    /// The same, but cancels the Accept that has begun unless the connection `is_wanted`. Whoever turns the connection away first says
    /// so, and then cancels the requests of the connector, so that an Accept never goes on.
    pub(crate) fn accept_if(
        &self,
        limits: ReadLimits,
        private_data: &[u8],
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<Status> {
        let overlapped = Overlapped::new();
        let ReadLimits { inbound, outbound } = limits;
        let started = self
            .connector
            .accept(&self.qp, inbound, outbound, private_data, &overlapped);
        if !is_wanted() {
            // It is no error if the Accept has ended already (OVL-004).
            let _ = self.connector.cancel_overlapped_requests();
        }
        let status = self.settle_connector(started, &overlapped, "accept the connection")?;
        self.watch(status)
    }

    fn settle_connector(
        &self,
        started: netdirect::Result<Started>,
        overlapped: &Overlapped,
        doing: &str,
    ) -> Result<Status> {
        settle(started, overlapped, self.patience(), doing).inspect_err(|_| {
            // Cancels requests that are still pending. It is no error if there are none (OVL-004).
            let _ = self.connector.cancel_overlapped_requests();
        })
    }

    /// Asks to be notified of the end of an established connection.
    fn watch(&self, status: Status) -> Result<Status> {
        if status == Status::SUCCESS {
            let started = self.connector.notify_disconnect(&self.ended);
            // `ended` tells whether the request is complete already.
            let _ = started.map_err(|error| Failure::nd("watch the connection", &error))?;
        }
        Ok(status)
    }

    /// Posts a Receive to the queue from which the queue pair takes its Receives.
    #[inline]
    pub(crate) fn receive(&self, context: u64, sges: &[Sge]) -> netdirect::Result<()> {
        match &self.srq {
            None => self.qp.receive(context, sges),
            Some(srq) => srq.receive(context, sges),
        }
    }

    /// The completion queue, for those who take completions from it themselves.
    pub(crate) fn cq(&self) -> &Arc<dyn CompletionQueue> {
        &self.cq
    }

    /// A completion that is there already. The call drives the connection.
    pub(crate) fn poll(&mut self) -> Option<CompletionResult> {
        if self.ready.is_empty() {
            self.fetch();
        }
        self.ready.pop_front()
    }

    /// Whether the peer has disconnected or the connection has been lost. The call itself does not drive the connection.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_pending()
    }

    /// Waits until the peer has disconnected. Returns the status of NotifyDisconnect, or `None` if `limit` passed first.
    pub(crate) fn wait_for_end(&self, limit: Duration) -> Option<Status> {
        self.ended.wait_timeout(limit)
    }

    /// Disconnects in good order. Returns the status of Disconnect.
    pub(crate) fn disconnect(&self) -> Result<Status> {
        self.disconnect_within(self.limit)
    }

    /// The same with another limit, after which the connection is given up.
    pub(crate) fn disconnect_within(&self, limit: Duration) -> Result<Status> {
        let overlapped = Overlapped::new();
        let started = self.connector.disconnect(&overlapped);
        settle(started, &overlapped, Deadline::after(limit), "disconnect")
    }

    /// The next completion, whatever its status. `doing` goes into the error if none comes.
    pub(crate) fn next(&mut self, doing: impl Display) -> Result<CompletionResult> {
        let (limit, left) = match &self.deadline {
            None => (self.limit, self.limit),
            Some(deadline) => (deadline.limit(), deadline.left()),
        };
        self.next_within(left)?
            .ok_or_else(|| silence(&doing.to_string(), limit))
    }

    /// The next completion, or `None` if `limit` passed first.
    pub(crate) fn next_within(&mut self, limit: Duration) -> Result<Option<CompletionResult>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(result) = self.ready.pop_front() {
                return Ok(Some(result));
            }
            if self.fetch() || self.arm()? {
                continue;
            }
            match self
                .notify
                .wait_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Some(Status::SUCCESS) => {}
                Some(status) => return Err(Failure::status("go on with the connection", status)),
                None => return Ok(None),
            }
        }
    }

    /// Takes what the completion queue holds. Returns whether there was anything.
    fn fetch(&mut self) -> bool {
        let mut results = [CompletionResult::default(); 32];
        let n = self.cq.get_results(&mut results);
        self.ready.extend(&results[..n]);
        n > 0
    }

    /// Asks to be notified of the next completion. Returns whether there is one already (CQ-037).
    fn arm(&self) -> Result<bool> {
        if self.notify.is_pending() {
            return Ok(false);
        }
        let started = self.cq.notify(NotifyType::Any, &self.notify);
        let started = started.map_err(|error| Failure::nd("wait for completions", &error))?;
        Ok(started == Started::Done)
    }
}

/// A new buffer, zeroed.
fn memory_of(len: usize) -> Result<Buffer> {
    Buffer::try_new(len).map_err(|error| {
        Failure::nd(
            format_args!("get {} of memory", units::bytes(len as u64)),
            &error.into(),
        )
    })
}

/// Waits for an overlapped request to end by the deadline.
fn settle(
    started: netdirect::Result<Started>,
    overlapped: &Overlapped,
    deadline: Deadline,
    doing: &str,
) -> Result<Status> {
    match started.map_err(|error| Failure::nd(doing, &error))? {
        Started::Done => Ok(Status::SUCCESS),
        Started::Pending => overlapped
            .wait_timeout(deadline.left())
            .ok_or_else(|| silence(doing, deadline.limit())),
    }
}

/// The error for a peer that was silent for the whole time limit.
pub(crate) fn silence(doing: &str, limit: Duration) -> Failure {
    Failure::peer(
        format!(
            "cannot {doing}: nothing has moved for {}",
            units::time(limit)
        ),
        "check that the other side is alive and an iWARP peer, or allow more with --timeout",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_a_port() {
        for bad in [
            "",
            "localhost",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:x",
            "[::1]",
            "1.2.3.4:65536",
        ] {
            let failure = resolve(bad).expect_err(bad).to_string();
            assert!(failure.contains("HOST:PORT"), "{failure}");
        }
    }

    #[test]
    fn addresses_in_numbers_need_no_resolver() {
        assert_eq!(
            resolve("127.0.0.1:80").expect("IPv4"),
            [SocketAddr::from(([127, 0, 0, 1], 80))]
        );
        assert_eq!(
            resolve("[::1]:80").expect("IPv6"),
            [SocketAddr::from((Ipv6Addr::LOCALHOST, 80))]
        );
    }
}
