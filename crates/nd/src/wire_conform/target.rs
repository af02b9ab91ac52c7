//! A target of the suite over any provider: offers memory and carries out the commands of the Send protocol that
//! `iwarp_conform::service` defines.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iwarp_conform::service::{
    Answer, Command, LONGEST_PEEK, Offer, REJECTION, RegionKind, Report, Wish, pattern_of,
};
use iwarp_conform::wire::crc32c;
use netdirect::{
    Capabilities, CompletionResult, Listener, MemoryWindow, MrFlags, OpFlags, ReadLimits,
    RemoteAddress, RemoteToken, RequestType, Status,
};

use super::args::TargetArgs;
use crate::admission::{Admission, Bounds, PendingPeer};
use crate::errors::{Failure, Result};
use crate::output;
use crate::provider::AdapterOptions;
use crate::session::{self, Depths, Endpoint, Region, Request, Session, Setup};

/// The target of log events.
const LOG: &str = "nd::wire_conform";
/// How long a request of the target itself may take, and how long a target that connects waits for an answer.
const LIMIT: Duration = Duration::from_secs(15);
/// Receives that are kept posted, and octets of each.
const RECEIVES: u32 = 16;
const RECEIVE: usize = 4096;
/// Requests of the target that may be outstanding.
const REQUESTS: u32 = 32;
/// Octets of the longest message, Write or Read on command.
const LONGEST: usize = 256 * 1024;
/// The most Reads that are served and issued.
const READS: u32 = 16;
/// Octets of the window of each connection.
const WINDOW: usize = 4096;
/// The most connections served at once; the suite needs two.
pub(super) const CONNECTIONS: usize = 64;
/// How long a target that connects goes on when nothing listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves connection after connection until the process is ended; a target that connects also ends when the suite is gone for good.
pub(super) fn run(args: &TargetArgs) -> Result<()> {
    let options = AdapterOptions {
        markers: args.markers,
        // The suite checks the reaction to a peer that closes, and does not want a second attempt.
        revision_1_fallback: false,
        ..AdapterOptions::new(&args.adapter, &args.security)
    };
    let setup = Setup::new(Some(&args.url), options, LIMIT)?;
    let done = match (&args.listen, &args.connect) {
        (Some(local), _) => {
            let local = one(local)?;
            let target = Arc::new(Target::new(setup.at(local)?)?);
            let (listener, address) = target.session.listen(local)?;
            output::line(setup.listening(address))?;
            serve(&target, &listener)
        }
        (None, Some(suite)) => {
            let suite = one(suite)?;
            let (session, _) = setup.towards(suite)?;
            output::line(format_args!("connecting to {suite}"))?;
            connect(&Arc::new(Target::new(session)?), suite)
        }
        // The command line asks for one of them.
        (None, None) => Ok(()),
    };
    done.and(setup.finish())
}

fn one(text: &str) -> Result<SocketAddr> {
    let addresses = session::resolve(text)?;
    // It has one at least.
    Ok(addresses[0])
}

/// The shared state of all connections.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) session: Arc<Session>,
    /// The memory that is offered, with its rights.
    regions: Vec<(Region, MrFlags)>,
    source: Region,
    sink: Region,
}

impl Target {
    /// Registers the memory that is offered.
    pub(super) fn new(session: Session) -> Result<Self> {
        let both = MrFlags::ALLOW_REMOTE_READ | MrFlags::ALLOW_REMOTE_WRITE;
        let regions = [
            (128 * 1024, MrFlags::ALLOW_REMOTE_WRITE),
            (256 * 1024, MrFlags::ALLOW_REMOTE_READ),
            (4096, MrFlags::ALLOW_LOCAL_WRITE),
            (8192, both),
        ];
        let registered = |(length, rights)| Ok((session.register(length, rights)?, rights));
        let regions = regions.into_iter().map(registered).collect::<Result<_>>()?;
        let source = session.register(LONGEST, MrFlags::empty())?;
        source.buffer.write(0, &pattern_of(LONGEST));
        let sink = session.register(
            LONGEST,
            MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
        )?;
        Ok(Self {
            session: Arc::new(session),
            regions,
            source,
            sink,
        })
    }

    fn depths() -> Depths {
        Depths {
            receives: RECEIVES,
            initiator: REQUESTS,
            initiator_sges: 1,
        }
    }

    /// The memory that a connection offers. Adapters without windows may let a peer revoke it by a Send with Invalidate, as
    /// siw does. Each of their connections therefore registers the memory for itself.
    fn regions(&self) -> Result<Vec<(Region, MrFlags)>> {
        let regions = self.regions.iter();
        let offered = regions.map(|(region, rights)| {
            let region = if has_windows(&self.session) {
                region.clone()
            } else {
                let buffer = region.buffer.clone();
                self.session.register_buffer(buffer, *rights)?
            };
            Ok((region, *rights))
        });
        offered.collect()
    }

    fn limits(offered: ReadLimits) -> ReadLimits {
        ReadLimits {
            inbound: offered.inbound.min(READS),
            outbound: offered.outbound.min(READS),
        }
    }
}

/// Accepts for ever, each connection in its own thread, because the suite leaves some of them hanging. A silent connection is kept as long
/// as there is room, because checks may be silent for long. When there is none, the connection that has been silent longest, of the address
/// with the most connections, gives way.
pub(super) fn serve(target: &Arc<Target>, listener: &Arc<dyn Listener>) -> Result<()> {
    let bounds = Bounds {
        most: CONNECTIONS,
        known_give_way: true,
        ..Bounds::default()
    };
    let serving = Arc::clone(target);
    let greet = move |request, pending: &PendingPeer<Infallible>| {
        if let Err(failure) = accept(&serving, request, pending) {
            tracing::info!(target: LOG, %failure, "a connection failed");
        }
        Ok(())
    };
    let admission = Admission::of_requests(&target.session, listener, bounds, greet)?;
    match admission.first()? {}
}

fn accept(target: &Arc<Target>, request: Request, pending: &PendingPeer<Infallible>) -> Result<()> {
    let wish = Wish::parse(&request.private_data);
    if wish == Some(Wish::Reject) {
        return request
            .connector
            .reject(REJECTION)
            .map_err(|error| Failure::nd("reject a connection", &error));
    }
    let mut connection = TargetConnection::new(target, request.connector)?;
    let limits = Target::limits(request.limits);
    pending.accept(&mut connection.endpoint, limits, &[])?;
    connection.endpoint.set_deadline(None);
    let speak_first = wish == Some(Wish::SpeakFirst);
    connection.serve(&request.private_data, limits, speak_first, || {
        pending.has_spoken()
    })
}

/// Connects again and again, until nothing has listened for a while.
pub(super) fn connect(target: &Arc<Target>, suite: SocketAddr) -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut since = Instant::now();
    let mut ever = false;
    loop {
        match attempt(target, suite) {
            Ok(Attempt::Served) => {
                since = Instant::now();
                ever = true;
            }
            Ok(Attempt::Failed(status)) if since.elapsed() > PATIENCE => {
                if ever {
                    return Ok(());
                }
                return Err(Failure::status(format_args!("connect to {suite}"), status));
            }
            Ok(Attempt::Failed(status)) => {
                tracing::info!(target: LOG, %status, "a connection failed");
                std::thread::sleep(PAUSE);
            }
            Err(failure) if since.elapsed() > PATIENCE => return Err(failure),
            Err(failure) => {
                tracing::info!(target: LOG, %failure, "a connection failed");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

enum Attempt {
    Served,
    Failed(Status),
}

fn attempt(target: &Arc<Target>, suite: SocketAddr) -> Result<Attempt> {
    let local = target.session.address_towards(suite)?;
    let mut connection = TargetConnection::new(target, target.session.connector()?)?;
    let wanted = ReadLimits {
        inbound: READS,
        outbound: READS,
    };
    let status = connection.endpoint.connect(local, suite, wanted, &[])?;
    if status != Status::SUCCESS {
        return Ok(Attempt::Failed(status));
    }
    let explain = |error: netdirect::Error| Failure::nd("read what the suite said", &error);
    let private = connection
        .endpoint
        .connector
        .get_private_data()
        .map_err(explain)?;
    let limits = connection
        .endpoint
        .connector
        .get_read_limits()
        .map_err(explain)?;
    let status = connection.endpoint.complete_connect()?;
    if status != Status::SUCCESS {
        return Ok(Attempt::Failed(status));
    }
    connection.serve(&private, limits, true, || ())?;
    Ok(Attempt::Served)
}

/// Returns true if the adapter has memory windows.
fn has_windows(session: &Session) -> bool {
    let capabilities = session.adapter().capabilities();
    capabilities.contains(Capabilities::MEMORY_WINDOWS)
}

/// One connection.
#[derive(Debug)]
struct TargetConnection {
    target: Arc<Target>,
    endpoint: Endpoint,
    inbox: Region,
    outbox: Region,
    /// The offer to the peer.
    regions: Vec<(Region, MrFlags)>,
    /// The memory of the window.
    windowed: Region,
    bound: Option<Arc<dyn MemoryWindow>>,
    /// Receives that ended while something else was waited for.
    heard: VecDeque<CompletionResult>,
    holding: bool,
    report: Report,
}

impl TargetConnection {
    fn new(target: &Arc<Target>, connector: Arc<dyn netdirect::Connector>) -> Result<Self> {
        let session = &target.session;
        let connection = Self {
            target: Arc::clone(target),
            endpoint: session.endpoint(Target::depths(), connector)?,
            inbox: session.register(RECEIVE * RECEIVES as usize, MrFlags::ALLOW_LOCAL_WRITE)?,
            outbox: session.register(RECEIVE, MrFlags::empty())?,
            regions: target.regions()?,
            windowed: session.register(WINDOW, MrFlags::ALLOW_LOCAL_WRITE)?,
            bound: None,
            heard: VecDeque::new(),
            holding: false,
            report: Report::default(),
        };
        (0..RECEIVES).try_for_each(|slot| connection.receive(slot.into()))?;
        Ok(connection)
    }

    fn receive(&self, slot: u64) -> Result<()> {
        let at = at(slot);
        posted(
            self.endpoint
                .qp
                .receive(slot, &[self.inbox.sge(at..at + RECEIVE)]),
        )
    }

    /// Carries out commands until the connection ends. `heard` is called for each message.
    fn serve(
        &mut self,
        private: &[u8],
        limits: ReadLimits,
        speak_first: bool,
        heard: impl Fn(),
    ) -> Result<()> {
        self.bind()?;
        let offer = self.offer(limits).private(private);
        if speak_first {
            self.say(&Answer::Offer(offer.clone()).encode())?;
        }
        let served = self.obey(&offer, heard);
        // The suite ends most connections by an error, so that there is nothing left to disconnect.
        let _ = self.endpoint.disconnect_within(Duration::from_secs(2));
        served
    }

    fn obey(&mut self, offer: &Offer, heard: impl Fn()) -> Result<()> {
        while let Some(result) = self.next_receive()? {
            if result.status != Status::SUCCESS {
                return Ok(());
            }
            heard();
            let mut message = vec![0; (result.bytes_transferred as usize).min(RECEIVE)];
            self.inbox
                .buffer
                .read(at(result.request_context), &mut message);
            let command = Command::decode(&message);
            if command == Some(Command::Hold) {
                self.holding = true;
            }
            if !self.holding {
                self.receive(result.request_context)?;
            }
            let Some(command) = command else {
                self.report = Report {
                    messages: self.report.messages + 1,
                    length: result.bytes_transferred,
                    crc: crc32c(&message),
                };
                continue;
            };
            if !self.carry_out(command, offer)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns true if the connection goes on.
    fn carry_out(&mut self, command: Command, offer: &Offer) -> Result<bool> {
        match command {
            Command::Hello => self.say(&Answer::Offer(offer.clone()).encode())?,
            Command::Echo(body) => self.say(&body)?,
            Command::Emit { length, solicited } => self.emit(length, solicited)?,
            Command::Write { stag, to, length } => {
                let remote = remote(stag, to);
                let part = self.target.source.sge(0..cut(length));
                posted(self.endpoint.qp.write(0, &[part], remote, OpFlags::empty()))?;
                self.finish(RequestType::Write)?;
                self.done(0)?;
            }
            Command::Read {
                stag,
                to,
                length,
                count,
            } => self.read(remote(stag, to), cut(length), count)?,
            Command::Fill { region, octet } => {
                if let Some((region, _)) = self.regions.get(usize::from(region)) {
                    region.buffer.fill(octet);
                }
                self.done(0)?;
            }
            Command::Peek {
                region,
                offset,
                length,
            } => self.peek(region, offset, length)?,
            Command::Report => {
                let report = self.report;
                self.say(&Answer::Report(report).encode())?;
            }
            Command::Hold => self.done(0)?,
            Command::Close => return Ok(false),
            Command::EmitAndClose { length } => {
                self.emit(length, false)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn offer(&self, limits: ReadLimits) -> Offer {
        let describe =
            |kind, at: RemoteAddress, length: usize, read, write| iwarp_conform::service::Region {
                kind,
                read,
                write,
                stag: at.token.to_host(),
                to: at.address,
                length: length as u64,
            };
        let mut regions: Vec<_> = self
            .regions
            .iter()
            .map(|(region, rights)| {
                let length = region.buffer.len();
                let read = rights.contains(MrFlags::ALLOW_REMOTE_READ);
                let write = rights.contains(MrFlags::ALLOW_REMOTE_WRITE);
                describe(RegionKind::Shared, region.remote(), length, read, write)
            })
            .collect();
        if let Some(window) = &self.bound {
            let at = RemoteAddress {
                token: window.get_remote_token(),
                ..self.windowed.remote()
            };
            regions.push(describe(RegionKind::Window, at, WINDOW, true, true));
        }
        let count = |reads: u32| u16::try_from(reads).unwrap_or(u16::MAX);
        Offer {
            receives: RECEIVES,
            receive_size: u32::try_from(RECEIVE).unwrap_or(u32::MAX),
            ird: count(limits.inbound),
            ord: count(limits.outbound),
            regions,
            ..Offer::default()
        }
    }

    /// A window over memory of this connection, for the checks of invalidation, where the adapter has windows.
    fn bind(&mut self) -> Result<()> {
        if !has_windows(&self.target.session) {
            return Ok(());
        }
        let window = self
            .target
            .session
            .adapter()
            .create_memory_window()
            .map_err(|error| Failure::nd("create a memory window", &error))?;
        let (address, length) = (self.windowed.buffer.address(), WINDOW as u64);
        let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
        let region = &self.windowed.region;
        posted(
            self.endpoint
                .qp
                .bind(0, region, &window, address, length, rights),
        )?;
        self.finish(RequestType::Bind)?;
        self.bound = Some(window);
        Ok(())
    }

    fn say(&mut self, message: &[u8]) -> Result<()> {
        let message = &message[..message.len().min(RECEIVE)];
        self.outbox.buffer.write(0, message);
        let part = self.outbox.sge(0..message.len());
        posted(self.endpoint.qp.send(0, &[part], OpFlags::empty()))?;
        self.finish(RequestType::Send)
    }

    fn done(&mut self, value: u32) -> Result<()> {
        self.say(&Answer::Done(value).encode())
    }

    fn emit(&mut self, length: u32, solicited: bool) -> Result<()> {
        let flags = if solicited {
            OpFlags::SEND_AND_SOLICIT_EVENT
        } else {
            OpFlags::empty()
        };
        let part = self.target.source.sge(0..cut(length));
        posted(self.endpoint.qp.send(0, &[part], flags))?;
        self.finish(RequestType::Send)
    }

    fn read(&mut self, remote: RemoteAddress, length: usize, count: u16) -> Result<()> {
        let count = count.min(8);
        for _ in 0..count {
            let part = self.target.sink.sge(0..length);
            posted(self.endpoint.qp.read(0, &[part], remote, OpFlags::empty()))?;
        }
        for _ in 0..count {
            self.finish(RequestType::Read)?;
        }
        let mut found = vec![0; length];
        self.target.sink.buffer.read(0, &mut found);
        self.done(crc32c(&found))
    }

    fn peek(&mut self, region: u16, offset: u64, length: u16) -> Result<()> {
        let mut octets = Vec::new();
        if let Some((region, _)) = self.regions.get(usize::from(region)) {
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            let left = region.buffer.len().saturating_sub(at);
            octets.resize(left.min(usize::from(length.min(LONGEST_PEEK))), 0);
            if !octets.is_empty() {
                region.buffer.read(at, &mut octets);
            }
        }
        self.say(&Answer::Octets(octets).encode())
    }

    /// The next Receive to complete. `None` if the connection has ended.
    fn next_receive(&mut self) -> Result<Option<CompletionResult>> {
        loop {
            if let Some(result) = self.heard.pop_front() {
                return Ok(Some(result));
            }
            match self.endpoint.next_within(Duration::from_secs(1))? {
                Some(result) if result.request_type == RequestType::Receive => {
                    return Ok(Some(result));
                }
                Some(_) => {}
                // Every Receive ends with the connection, but a target that holds has none left.
                None if self.endpoint.has_ended() => return Ok(None),
                None => {}
            }
        }
    }

    /// Waits until a request of the target itself succeeds.
    fn finish(&mut self, kind: RequestType) -> Result<()> {
        loop {
            let result = self.endpoint.next(format_args!("finish a {kind}"))?;
            if result.request_type == RequestType::Receive {
                self.heard.push_back(result);
            } else if result.status == Status::SUCCESS {
                return Ok(());
            } else {
                let doing = format_args!("finish a {kind}");
                return Err(self.endpoint.failure(doing, result.status));
            }
        }
    }
}

/// Where the Receive of a slot is; slots count up to [`RECEIVES`].
fn at(slot: u64) -> usize {
    usize::try_from(slot).map_or(0, |slot| RECEIVE * slot)
}

fn cut(length: u32) -> usize {
    (length as usize).min(LONGEST)
}

fn remote(stag: u32, to: u64) -> RemoteAddress {
    RemoteAddress {
        address: to,
        token: RemoteToken::from_host(stag),
    }
}

fn posted(result: netdirect::Result<()>) -> Result<()> {
    result.map_err(|error| Failure::nd("post a request", &error))
}
