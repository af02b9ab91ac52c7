//! One run: what is done, and in which order, follows from a seed.

use std::cell::OnceCell;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netdirect::{
    Adapter, Affinity, AtomicOp, Buffer, Call, CompletionQueue, CompletionResult, Connector, Fault,
    Listener, MemoryRegion, MrFlags, NotifyType, OpFlags, Overlapped, OverlappedFile, QueuePair,
    QueuePairOptions, RemoteAddress, RequestType, Sge, Started, Status,
};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use softnd::Options;
use softnd::capture::Capture;
use softnd::simulation::{Chance, Conditions, Simulation};

use super::connection::{Bound, Connection, Effect, End, Message, Receive, Request, Shelf};
use super::coverage::Coverage;
use super::memory::{Target, Word};

/// The memory of each host, all of it registered.
const ARENA: usize = 256 * 1024;
/// What a peer writes to, and what it reads.
const TARGET: usize = 256;
const PATTERN: usize = 512;
/// Receives of one queue pair, and initiator requests.
const RECEIVES: u32 = 24;
const REQUESTS: u32 = 12;
/// A run posts at least so many requests, over at least so many queue pairs, unless its hosts are gone before.
const LEAST_REQUESTS: u64 = 50;
const LEAST_CONNECTIONS: usize = 2;
const MOST_CONNECTIONS: usize = 6;

thread_local! {
    /// The same for all runs of a thread: addresses of memory are told to peers.
    static ARENAS: OnceCell<[Buffer; 2]> = const { OnceCell::new() };
}

struct Host {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    queues: Vec<Queue>,
    region: Arc<dyn MemoryRegion>,
    arena: Buffer,
    /// Octets of the arena that are given out.
    used: usize,
    removed: bool,
    /// Writes end when the peer has placed them.
    confirms: bool,
    listener: Arc<dyn Listener>,
    address: SocketAddr,
}

struct Queue {
    cq: Arc<dyn CompletionQueue>,
    broken: bool,
}

/// An overlapped request.
struct Control {
    what: Step,
    overlapped: Overlapped,
    /// How often it has ended.
    ends: Arc<AtomicU32>,
    /// Its end was seen by the run.
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connect(usize),
    CompleteConnect(usize),
    /// With the connector's place in `Run::accepting`.
    GetConnectionRequest(usize),
    Accept(usize),
    NotifyDisconnect,
    Disconnect,
    Notify,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Connect(_) => "Connect",
            Self::CompleteConnect(_) => "CompleteConnect",
            Self::GetConnectionRequest(_) => "GetConnectionRequest",
            Self::Accept(_) => "Accept",
            Self::NotifyDisconnect => "NotifyDisconnect",
            Self::Disconnect => "Disconnect",
            Self::Notify => "Notify",
        }
    }

    fn allows(self, status: Status) -> bool {
        use Status as S;
        let common = [S::SUCCESS, S::CANCELED, S::DEVICE_REMOVED].contains(&status);
        common
            || match self {
                Self::Connect(_) => {
                    [S::CONNECTION_REFUSED, S::IO_TIMEOUT, S::CONNECTION_ABORTED].contains(&status)
                }
                Self::CompleteConnect(_) => {
                    [S::CONNECTION_ABORTED, S::IO_TIMEOUT].contains(&status)
                }
                Self::Accept(_) => {
                    [S::CONNECTION_REFUSED, S::CONNECTION_ABORTED, S::IO_TIMEOUT].contains(&status)
                }
                Self::Notify => [S::BUFFER_OVERFLOW, S::INTERNAL_ERROR].contains(&status),
                _ => false,
            }
    }
}

struct Run<'a> {
    random: Xoshiro256PlusPlus,
    simulation: Simulation,
    /// The network may break any connection at any time.
    lossy: bool,
    /// A connector waits no more: there are more peers than connectors that wait.
    unwanted: bool,
    hosts: [Host; 2],
    connections: Vec<Connection>,
    controls: Vec<Control>,
    /// Connectors that wait for a peer, with their hosts.
    accepting: Vec<(usize, Option<Arc<dyn Connector>>)>,
    posted: u64,
    next: u64,
    coverage: &'a mut Coverage,
}

/// Runs a seed.
///
/// # Panics
/// When something ends otherwise than the model has it.
pub(crate) fn run(seed: u64, coverage: &mut Coverage, captured: Option<&mut Vec<u8>>) {
    let octets = Octets::default();
    let capture = captured
        .is_some()
        .then(|| Capture::to_writer(octets.clone()).unwrap());
    let _written = Written(captured, octets, capture.clone());
    let mut run = Run::new(seed, coverage, capture.as_ref());
    let steps = 60 + run.below(120);
    for _ in 0..steps {
        run.act();
        run.follow_up();
    }
    // Some are unlucky: at least two connections that carry something.
    for _ in 0..2000 {
        if run.posted >= LEAST_REQUESTS && run.connections.len() >= LEAST_CONNECTIONS
            || run.hosts.iter().any(|host| host.removed)
        {
            break;
        }
        run.act();
        run.follow_up();
    }
    run.finish();
}

/// Hands on what was captured, also of a run that fails.
struct Written<'a>(Option<&'a mut Vec<u8>>, Octets, Option<Capture>);

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if let Some(capture) = &self.2 {
            let _ = capture.flush();
        }
        if let Some(captured) = &mut self.0 {
            **captured = std::mem::take(&mut *self.1.0.lock().unwrap());
        }
    }
}

#[derive(Clone, Default)]
struct Octets(Arc<Mutex<Vec<u8>>>);

impl io::Write for Octets {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A request begun, and counted whenever it ends.
fn counted() -> (Overlapped, Arc<AtomicU32>) {
    let ends = Arc::new(AtomicU32::new(0));
    let sink = {
        let ends = Arc::clone(&ends);
        move |_: Status| {
            ends.fetch_add(1, Ordering::Relaxed);
        }
    };
    (Overlapped::with_sink(Arc::new(sink)), ends)
}

impl<'a> Run<'a> {
    fn new(seed: u64, coverage: &'a mut Coverage, capture: Option<&Capture>) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = |most: u64| random.next_u64() % most;
        let mut conditions = Conditions::default();
        conditions.latency =
            Duration::from_micros(draw(20))..=Duration::from_micros(20 + draw(200));
        conditions.segment = match draw(3) {
            0 => 1..=7,
            1 => 1..=1460,
            _ => 536..=9000,
        };
        conditions.buffer = [200, 3000, 64 * 1024][usize::try_from(draw(3)).unwrap()];
        let chance = |draw: &mut dyn FnMut(u64) -> u64, most: u64| {
            Chance::per_million(u32::try_from(draw(most)).unwrap())
        };
        // Half of the networks only delay and cut.
        let lossy = draw(2) == 0;
        if lossy {
            match draw(4) {
                0 => conditions.reset = chance(&mut draw, 20_000),
                1 => conditions.half_close = chance(&mut draw, 20_000),
                2 => conditions.refusal = chance(&mut draw, 500_000),
                _ => conditions.silence = chance(&mut draw, 500_000),
            }
        }
        if draw(3) == 0 {
            conditions.stall = chance(&mut draw, 100_000);
        }
        let simulation = Simulation::with(draw(u64::MAX), conditions);
        let arenas = ARENAS.with(|arenas| {
            arenas
                .get_or_init(|| [(); 2].map(|()| Buffer::new(ARENA)))
                .clone()
        });
        let mut number = 0;
        let hosts = arenas.map(|arena| {
            number += 1;
            let confirms = draw(5) == 0;
            let mut options = Options::default()
                .crc(draw(2) == 0)
                .markers(draw(8) == 0)
                .confirm_writes(confirms);
            if let Some(capture) = capture {
                options = options.capture(capture.clone());
            }
            let adapter = simulation.open([10, 0, 0, number], options).unwrap();
            Host::new(adapter, arena, confirms)
        });
        Self {
            random,
            simulation,
            lossy,
            unwanted: false,
            hosts,
            connections: Vec::new(),
            controls: Vec::new(),
            accepting: Vec::new(),
            posted: 0,
            next: 0,
            coverage,
        }
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.random.next_u64() % most as u64).unwrap()
    }

    fn chance(&mut self, per_cent: usize) -> bool {
        self.below(100) < per_cent
    }

    fn octets(&mut self, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        self.random.fill_bytes(&mut octets);
        octets
    }

    fn length(&mut self) -> usize {
        match self.below(10) {
            0 => 0,
            1 => 1 + self.below(3000),
            _ => 1 + self.below(100),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Memory of a host that nothing else uses, if there is some left.
    fn allot(&mut self, host: usize, len: usize) -> Option<usize> {
        self.hosts[host].allot(len)
    }

    fn memory(&self, connection: usize) -> [Buffer; 2] {
        let ends = &self.connections[connection].ends;
        [0, 1].map(|at| self.hosts[ends[at].host].arena.clone())
    }

    // ---- what is done ----

    fn act(&mut self) {
        let young = self.connections.len() < LEAST_CONNECTIONS;
        match self.below(100) {
            0..10 if young || self.connections.len() < MOST_CONNECTIONS => self.connect(),
            0..50 => self.post(),
            50..62 => self.receive_somewhere(),
            62..80 => self.poll_somewhere(),
            80..90 => {
                for _ in 0..self.below(20) {
                    self.step();
                }
            }
            90..92 => self.notify(),
            92..94 => self.wait(),
            _ => self.disturb(),
        }
    }

    /// An end that may be used, of any connection.
    fn pick(&mut self, usable: impl Fn(&End) -> bool) -> Option<(usize, usize)> {
        let all = self.connections.iter().enumerate();
        let usable: Vec<_> = all
            .flat_map(|(number, connection)| {
                let ends = connection.ends.iter().enumerate();
                let usable = ends.filter(|(_, end)| usable(end));
                usable.map(move |(at, _)| (number, at)).collect::<Vec<_>>()
            })
            .collect();
        if usable.is_empty() {
            return None;
        }
        let chosen = self.below(usable.len());
        Some(usable[chosen])
    }

    /// Begins a control request. It is only counted if it is pending.
    fn begin(
        &mut self,
        what: Step,
        start: impl FnOnce(&Overlapped) -> netdirect::Result<Started>,
    ) -> std::result::Result<usize, Status> {
        let (overlapped, ends) = counted();
        match start(&overlapped) {
            Ok(Started::Pending) => {}
            Ok(Started::Done) => panic!("{what:?} has ended at once"),
            Err(error) => return Err(error.status()),
        }
        trace!("begin {what:?} at {:?}", self.simulation.time());
        self.controls.push(Control {
            what,
            overlapped,
            ends,
            seen: false,
        });
        Ok(self.controls.len() - 1)
    }

    fn connect(&mut self) {
        let from = self.below(2);
        let to = 1 - from;
        if self.hosts.iter().any(|host| host.removed) {
            return;
        }
        let number = self.connections.len();
        let Some(mut active) = self.new_end(from) else {
            return;
        };
        let Some(passive) = self.new_end(to) else {
            return;
        };
        let (file, listening) = (self.hosts[from].file.clone(), self.hosts[to].file.clone());
        let connector = self.hosts[from].adapter.create_connector(&file).unwrap();
        let waiting = self.hosts[to].adapter.create_connector(&listening).unwrap();
        let place = self.accepting.len();
        let listener = Arc::clone(&self.hosts[to].listener);
        let asked = self.begin(Step::GetConnectionRequest(place), |overlapped| {
            listener.get_connection_request(&waiting, overlapped)
        });
        assert!(asked.is_ok(), "GetConnectionRequest: {asked:?}");
        self.accepting.push((to, Some(waiting)));
        let qp = active.qp.clone().unwrap();
        let address = self.hosts[to].address;
        let limit = u32::try_from(1 + self.below(8)).unwrap();
        let name = u32::try_from(number).unwrap().to_be_bytes();
        let connecting = self.begin(Step::Connect(number), |overlapped| {
            connector.connect(&qp, address, limit, limit, &name, overlapped)
        });
        assert!(connecting.is_ok(), "Connect: {connecting:?}");
        active.connector = Some(connector);
        self.connections.push(Connection {
            ends: [active, passive],
            disturbed: match (self.lossy, self.unwanted) {
                (true, _) => Some("the network"),
                (false, true) => Some("a connector that waits no more"),
                (false, false) => None,
            },
        });
    }

    /// An end with its queue pair and memory, if the host has enough of it.
    fn new_end(&mut self, host: usize) -> Option<End> {
        let number = self.connections.len();
        let at = self.allot(host, 2 * TARGET + PATTERN + 16)?;
        let queues = [self.below(2), self.below(2)];
        let owner = &self.hosts[host];
        if queues.iter().any(|queue| owner.queues[*queue].broken) {
            return None;
        }
        let [initiator, receive] = queues.map(|queue| owner.queues[queue].cq.clone());
        let options = QueuePairOptions::default()
            .context(number as u64 * 2)
            .receive_queue_depth(RECEIVES)
            .initiator_queue_depth(REQUESTS)
            .max_receive_request_sge(2)
            .max_initiator_request_sge(2)
            .inline_data_size(64);
        let created = owner
            .adapter
            .create_queue_pair(&receive, &initiator, options);
        owner.arena.write(at, &pattern(number, host));
        owner
            .arena
            .slice(at + PATTERN..at + PATTERN + 2 * TARGET + 16)
            .fill(0);
        let targets = [0, TARGET].map(|offset| Target::new(at + PATTERN + offset, TARGET));
        let words = [0, 8].map(|offset| Word::new(at + PATTERN + 2 * TARGET + offset));
        Some(End {
            host,
            qp: Some(created.unwrap()),
            connector: None,
            queues,
            open: false,
            requests: [].into(),
            receives: [].into(),
            receives_posted: 0,
            said: Vec::new(),
            heard: 0,
            writes: 0,
            targets,
            words,
            shelf: None,
            failed: Default::default(),
            confirms: self.hosts[host].confirms,
            notification: None,
            acted: false,
        })
    }

    fn receive_somewhere(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.qp.is_some()) {
            for _ in 0..=self.below(6) {
                self.receive(number, at);
            }
        }
    }

    fn receive(&mut self, number: usize, at: usize) {
        let host = self.connections[number].ends[at].host;
        let short = self.chance(1);
        let len = if short { 0 } else { 3100 };
        let Some(place) = self.allot(host, len) else {
            return;
        };
        let context = self.number();
        let cut = if len > 0 { self.below(len) } else { 0 };
        let sges = self.hosts[host].sges(place, len, cut);
        let connection = &mut self.connections[number];
        let end = &mut connection.ends[at];
        let qp = end.qp.as_ref().expect("picked for that");
        match qp.receive(context, &sges) {
            Ok(()) => {
                end.receives.push_back(Receive {
                    context,
                    at: place,
                    len,
                });
                end.receives_posted += 1;
                if short {
                    connection.disturb("a Receive that is too short");
                }
                self.count("Receive");
            }
            Err(error) => match error.status() {
                Status::NO_MORE_ENTRIES => {}
                Status::DEVICE_REMOVED if self.hosts[host].removed => {}
                status => panic!("Receive: {status}"),
            },
        }
    }

    fn count(&mut self, kind: &str) {
        self.posted += 1;
        self.coverage.met(format!("posted {kind}"));
    }

    fn post(&mut self) {
        let Some((number, at)) = self.pick(|end| end.open && end.qp.is_some()) else {
            return self.simulation_goes_on();
        };
        for _ in 0..=self.below(4) {
            match self.below(12) {
                0..4 => self.say(number, at),
                4..7 => self.write(number, at),
                7..9 => self.read(number, at),
                9 => self.atomic(number, at),
                _ => self.use_window(number, at),
            }
        }
    }

    fn simulation_goes_on(&mut self) {
        for _ in 0..10 {
            self.step();
        }
    }

    /// Lets the next thing happen, and goes on at once with what has ended: a client that is slow runs into time limits, since
    /// an idle network moves on to them.
    fn step(&mut self) {
        self.simulation.step();
        self.follow_up();
    }

    fn flags(&mut self) -> OpFlags {
        let mut flags = OpFlags::empty();
        flags.set(OpFlags::SILENT_SUCCESS, self.chance(20));
        flags.set(OpFlags::READ_FENCE, self.chance(10));
        flags
    }

    /// Posts an initiator request; true when it was taken.
    fn request(
        &mut self,
        (number, at): (usize, usize),
        (kind, name): (RequestType, &str),
        flags: OpFlags,
        effect: Effect,
        post: impl FnOnce(&dyn QueuePair, u64) -> netdirect::Result<()>,
    ) -> bool {
        let context = self.number();
        let connection = &mut self.connections[number];
        let end = &mut connection.ends[at];
        let qp = end.qp.clone().expect("picked for that");
        match post(&*qp, context) {
            Ok(()) => {
                trace!(
                    "post {number}/{at} {name} {context} {flags:?} {effect:?} at {:?}",
                    self.simulation.time()
                );
                end.requests.push_back(Request {
                    context,
                    kind,
                    silent: flags.contains(OpFlags::SILENT_SUCCESS),
                    len: 0,
                    effect,
                });
                self.count(name);
                true
            }
            Err(error) => {
                let disturbed = connection.disturbed.is_some();
                match error.status() {
                    Status::NO_MORE_ENTRIES => {}
                    Status::CONNECTION_INVALID if disturbed => {}
                    Status::DEVICE_REMOVED if self.hosts[end.host].removed => {}
                    status => panic!("{name}: {status}, {error}"),
                }
                false
            }
        }
    }

    fn say(&mut self, number: usize, at: usize) {
        let ends = &self.connections[number].ends;
        let peers_receives = ends[1 - at].receives_posted;
        if ends[at].said.len() >= peers_receives {
            if self.chance(97) {
                return;
            }
            self.connections[number].disturb("a Send without a Receive");
        }
        let end = &self.connections[number].ends[at];
        let (host, behind) = (end.host, end.writes);
        let mut flags = self.flags();
        flags.set(OpFlags::SEND_AND_SOLICIT_EVENT, self.chance(30));
        let who = (number, at);
        let (data, immediate, done) = match self.below(4) {
            0 => {
                let octets: [u8; 8] = self.octets(8).try_into().unwrap();
                let kind = (RequestType::SendImmediate, "Immediate");
                let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                    let extensions = qp.extensions().expect("softnd has them");
                    extensions.send_immediate(context, octets.into(), flags)
                });
                (Vec::new(), Some(octets), done)
            }
            1 => {
                let len = self.below(65);
                let data = self.octets(len);
                let kind = (RequestType::Send, "SendInline");
                let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                    qp.send_inline(context, &[&data], flags)
                });
                (data, None, done)
            }
            _ => {
                let len = self.length();
                let Some((data, sges)) = self.source(host, len) else {
                    return;
                };
                let kind = (RequestType::Send, "Send");
                let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                    qp.send(context, &sges, flags)
                });
                (data, None, done)
            }
        };
        if done {
            self.connections[number].ends[at].said.push(Message {
                data,
                immediate,
                behind,
            });
        }
    }

    /// Data to be sent, in memory that is not used again.
    fn source(&mut self, host: usize, len: usize) -> Option<(Vec<u8>, Vec<Sge>)> {
        let place = self.allot(host, len)?;
        let data = self.octets(len);
        self.hosts[host].arena.write(place, &data);
        let cut = if len > 0 { self.below(len) } else { 0 };
        Some((data, self.hosts[host].sges(place, len, cut)))
    }

    fn range(&mut self, len: usize) -> Range<usize> {
        let begin = self.below(len);
        let end = begin + self.below(len - begin + 1);
        begin..end
    }

    fn write(&mut self, number: usize, at: usize) {
        let range = self.range(TARGET);
        let peer = &self.connections[number].ends[1 - at];
        let place = peer.targets[0].at + range.start;
        let remote = self.hosts[peer.host].remote(place);
        self.write_to(number, at, 0, range, remote);
    }

    /// Writes to one of the peer's targets.
    fn write_to(
        &mut self,
        number: usize,
        at: usize,
        target: usize,
        range: Range<usize>,
        remote: RemoteAddress,
    ) {
        let host = self.connections[number].ends[at].host;
        let flags = self.flags();
        let who = (number, at);
        let inline = range.len() <= 64 && self.chance(30);
        let (data, done) = if inline {
            let data = self.octets(range.len());
            let kind = (RequestType::Write, "WriteInline");
            let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                qp.write_inline(context, &[&data], remote, flags)
            });
            (data, done)
        } else {
            let Some((data, sges)) = self.source(host, range.len()) else {
                return;
            };
            let kind = (RequestType::Write, "Write");
            let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                qp.write(context, &sges, remote, flags)
            });
            (data, done)
        };
        if done {
            let [active, passive] = &mut self.connections[number].ends;
            let (end, peer) = if at == 0 {
                (active, passive)
            } else {
                (passive, active)
            };
            end.writes += 1;
            end.requests.back_mut().expect("posted just now").len = range.len();
            peer.targets[target].posted(end.writes, range.start, &data);
        }
    }

    fn read(&mut self, number: usize, at: usize) {
        let range = self.range(PATTERN);
        let peer = &self.connections[number].ends[1 - at];
        let place = peer.targets[0].at - PATTERN + range.start;
        let remote = self.hosts[peer.host].remote(place);
        let expected = pattern(number, peer.host)[range].to_vec();
        self.read_from(number, at, Some(expected), remote);
    }

    fn read_from(
        &mut self,
        number: usize,
        at: usize,
        expected: Option<Vec<u8>>,
        remote: RemoteAddress,
    ) {
        let host = self.connections[number].ends[at].host;
        // Four octets, if there is nothing to be expected.
        let len = expected.as_ref().map_or(4, Vec::len);
        let Some(sink) = self.allot(host, len) else {
            return;
        };
        let sges = self.hosts[host].sges(sink, len, len);
        let flags = self.flags();
        let kind = (RequestType::Read, "Read");
        let effect = expected.map_or(Effect::Refused, |octets| Effect::Read(sink, octets));
        self.request((number, at), kind, flags, effect, |qp, context| {
            qp.read(context, &sges, remote, flags)
        });
    }

    fn atomic(&mut self, number: usize, at: usize) {
        let word = self.below(2);
        let peer = &self.connections[number].ends[1 - at];
        let (before, place) = (peer.words[word].last(), peer.words[word].at);
        let remote = self.hosts[peer.host].remote(place);
        let operand = self.random.next_u64();
        let (name, op, after) = match self.below(3) {
            0 => (
                "CompareSwap",
                AtomicOp::compare_swap(before, operand),
                operand,
            ),
            1 => (
                "CompareSwap",
                AtomicOp::compare_swap(!before, operand),
                before,
            ),
            _ => (
                "FetchAdd",
                AtomicOp::add(operand),
                before.wrapping_add(operand),
            ),
        };
        let host = self.connections[number].ends[at].host;
        let Some(sink) = self.allot(host, 8) else {
            return;
        };
        let sge = self.hosts[host].sges(sink, 8, 8)[0];
        let flags = self.flags();
        let kind = (RequestType::Atomic, name);
        let count = self.connections[number].ends[1 - at].words[word].count();
        let effect = Effect::Atomic(sink, word, count);
        let done = self.request((number, at), kind, flags, effect, |qp, context| {
            let extensions = qp.extensions().expect("softnd has them");
            extensions.atomic(context, op, &sge, remote, flags)
        });
        if done {
            self.connections[number].ends[1 - at].words[word].posted(after);
        }
    }

    /// Binds the window over the end's shelf, writes through the peer's, or invalidates.
    fn use_window(&mut self, number: usize, at: usize) {
        let peer = &self.connections[number].ends[1 - at];
        if let Some(shelf) = &peer.shelf {
            let remote = RemoteAddress {
                address: self.hosts[peer.host].arena.address() + peer.targets[1].at as u64,
                token: shelf.window.get_remote_token(),
            };
            let state = shelf.state;
            match state {
                Bound::Yes if self.chance(70) => {
                    let range = self.range(TARGET);
                    let remote = remote.offset(range.start as u64);
                    return self.write_to(number, at, 1, range, remote);
                }
                Bound::Stale if self.chance(60) => {
                    self.coverage.met("fault: stale window");
                    self.connections[number].disturb("a window that is not bound any more");
                    if self.chance(50) {
                        return self.read_from(number, at, None, remote);
                    }
                    return self.write_to(number, at, 1, 0..4, remote);
                }
                _ => {}
            }
        }
        self.change_window(number, at);
    }

    fn change_window(&mut self, number: usize, at: usize) {
        let end = &self.connections[number].ends[at];
        let host = end.host;
        let state = end.shelf.as_ref().map(|shelf| shelf.state);
        match state {
            None if !self.hosts[host].removed => {
                let window = self.hosts[host].adapter.create_memory_window().unwrap();
                self.connections[number].ends[at].shelf = Some(Shelf {
                    window,
                    state: Bound::No,
                });
                self.bind(number, at);
            }
            // Bound once only: the peer's Writes through the first binding may still be on their way.
            Some(Bound::No) => self.bind(number, at),
            Some(Bound::Yes) if self.chance(60) => self.invalidate(number, at),
            _ => {}
        }
    }

    fn bind(&mut self, number: usize, at: usize) {
        let end = &self.connections[number].ends[at];
        let (host, place) = (end.host, end.targets[1].at);
        let Some(shelf) = &end.shelf else { return };
        let window = Arc::clone(&shelf.window);
        let region = Arc::clone(&self.hosts[host].region);
        let address = self.hosts[host].arena.address() + place as u64;
        let flags = OpFlags::ALLOW_WRITE | OpFlags::ALLOW_READ;
        let kind = (RequestType::Bind, "Bind");
        let done = self.request((number, at), kind, flags, Effect::Bind, |qp, context| {
            qp.bind(context, &region, &window, address, TARGET as u64, flags)
        });
        self.shelf_changes(number, at, done);
    }

    fn invalidate(&mut self, number: usize, at: usize) {
        // Writes of the peer through it must have come, or they are refused.
        let [active, passive] = &self.connections[number].ends;
        let peer = if at == 0 { passive } else { active };
        if !peer.requests.is_empty() || peer.open && self.chance(50) {
            return;
        }
        self.connections[number].disturb("a window that is invalidated under its peer");
        let Some(shelf) = &self.connections[number].ends[at].shelf else {
            return;
        };
        let window = Arc::clone(&shelf.window);
        let flags = OpFlags::empty();
        let kind = (RequestType::Invalidate, "Invalidate");
        let done = self.request(
            (number, at),
            kind,
            flags,
            Effect::Invalidate,
            |qp, context| qp.invalidate(context, &window, flags),
        );
        self.shelf_changes(number, at, done);
    }

    fn shelf_changes(&mut self, number: usize, at: usize, done: bool) {
        if done && let Some(shelf) = &mut self.connections[number].ends[at].shelf {
            shelf.state = Bound::Changing;
        }
    }

    fn notify(&mut self) {
        let (host, queue) = (self.below(2), self.below(2));
        let kind = [NotifyType::Any, NotifyType::Solicited, NotifyType::Errors][self.below(3)];
        let cq = self.hosts[host].queues[queue].cq.clone();
        let begun = self.begin(Step::Notify, |overlapped| cq.notify(kind, overlapped));
        if let Err(status) = begun {
            assert_eq!(status, Status::DEVICE_REMOVED);
        }
    }

    /// Waits for a control request that is in flight.
    fn wait(&mut self) {
        let open: Vec<_> = (0..self.controls.len())
            .filter(|at| self.controls[*at].overlapped.is_pending())
            .collect();
        if open.is_empty() {
            return;
        }
        let chosen = open[self.below(open.len())];
        let overlapped = self.controls[chosen].overlapped.clone();
        let limit = Duration::from_micros(self.below(2000) as u64);
        let _ = overlapped.wait_timeout(limit);
    }

    // ---- what disturbs ----

    fn disturb(&mut self) {
        match self.below(24) {
            0..4 => self.disconnect(),
            4..6 => self.release_queue_pair(),
            6 => self.release_connector(),
            7..9 => self.cancel(),
            9 => self.flush(),
            10 if self.chance(30) => self.remove_device(),
            11 if self.chance(30) => self.break_queue(),
            12 => self.fail_call(),
            _ => {}
        }
    }

    /// Something was done at one end that ends its requests.
    fn disturb_end(&mut self, (number, at): (usize, usize), why: &'static str) {
        self.connections[number].disturb(why);
        self.connections[number].ends[at].acted = true;
    }

    fn disconnect(&mut self) {
        let picked = self.pick(|end| end.open && end.connector.is_some() && end.qp.is_some());
        if let Some((number, at)) = picked {
            self.disconnect_end(number, at);
        }
    }

    fn disconnect_end(&mut self, number: usize, at: usize) {
        let end = &self.connections[number].ends[at];
        let Some(connector) = end.connector.clone() else {
            return;
        };
        let removed = self.hosts[end.host].removed;
        match self.begin(Step::Disconnect, |overlapped| {
            connector.disconnect(overlapped)
        }) {
            Ok(_) => {
                self.disturb_end((number, at), "Disconnect");
                self.connections[number].ends[at].open = false;
            }
            Err(Status::DEVICE_REMOVED) if removed => {}
            Err(Status::CONNECTION_INVALID) if self.connections[number].disturbed.is_some() => {}
            Err(status) => panic!("Disconnect: {status}"),
        }
    }

    fn release_queue_pair(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.qp.is_some()) {
            self.coverage.met("fault: queue pair released");
            self.disturb_end((number, at), "a queue pair was released");
            self.connections[number].ends[at].open = false;
            let released = self.connections[number].ends[at].qp.take();
            drop(released);
        }
    }

    fn release_connector(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.connector.is_some()) {
            self.coverage.met("fault: connector released");
            let [active, passive] = &self.connections[number].ends;
            if !active.open || !passive.open {
                self.connections[number].disturb("a connector was released");
            }
            self.connections[number].ends[at].acted = true;
            let released = self.connections[number].ends[at].connector.take();
            drop(released);
        }
    }

    fn cancel(&mut self) {
        self.coverage.met("fault: cancel");
        if self.chance(20) {
            let host = self.below(2);
            let file = if self.chance(50) {
                self.hosts[host].listener.cancel_overlapped_requests()
            } else {
                let queue = self.below(2);
                self.hosts[host].queues[queue]
                    .cq
                    .cancel_overlapped_requests()
            };
            return file.unwrap();
        }
        if let Some((number, at)) = self.pick(|end| end.connector.is_some()) {
            let [active, passive] = &self.connections[number].ends;
            if !active.open || !passive.open {
                self.connections[number].disturb("a cancel");
            }
            self.connections[number].ends[at].acted = true;
            let connector = self.connections[number].ends[at].connector.clone();
            connector.unwrap().cancel_overlapped_requests().unwrap();
        }
    }

    fn flush(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.open && end.qp.is_some()) {
            self.coverage.met("fault: flush");
            self.disturb_end((number, at), "Flush");
            let qp = self.connections[number].ends[at].qp.clone();
            qp.unwrap().flush().unwrap();
        }
    }

    fn remove_device(&mut self) {
        let host = self.below(2);
        if self.hosts[host].removed {
            return;
        }
        self.coverage.met("fault: device removed");
        self.hosts[host].removed = true;
        for connection in &mut self.connections {
            connection.disturb("the device was removed");
            for end in connection.ends.iter_mut().filter(|end| end.host == host) {
                (end.open, end.acted) = (false, true);
            }
        }
        self.inject(host, Fault::RemoveDevice);
    }

    fn break_queue(&mut self) {
        let (host, queue) = (self.below(2), self.below(2));
        let broken = &mut self.hosts[host].queues[queue];
        if broken.broken || self.hosts[host].removed {
            return;
        }
        self.hosts[host].queues[queue].broken = true;
        self.coverage.met("fault: completion queue broken");
        for connection in &mut self.connections {
            let here = connection.ends.iter();
            let mut here = here.filter(|end| end.host == host && end.queues.contains(&queue));
            if here.next().is_some() {
                connection.disturb("a completion queue has broken down");
            }
        }
        let fault = Fault::BreakCompletionQueue {
            queue: self.hosts[host].queues[queue].cq.clone(),
            status: Status::INTERNAL_ERROR,
        };
        self.inject(host, fault);
    }

    fn inject(&self, host: usize, fault: Fault) {
        let extensions = self.hosts[host].adapter.extensions();
        extensions.expect("softnd has them").inject(fault).unwrap();
    }

    /// The next call that takes something fails once, and is made.
    fn fail_call(&mut self) {
        let host = self.below(2);
        if self.hosts[host].removed {
            return;
        }
        self.coverage.met("fault: call failed");
        let status = Status::INSUFFICIENT_RESOURCES;
        let call = Call::CreateMemoryWindow;
        self.inject(
            host,
            Fault::Call {
                call,
                nth: 1,
                status,
            },
        );
        let failed = self.hosts[host].adapter.create_memory_window();
        assert_eq!(failed.map(drop).unwrap_err().status(), status);
    }

    // ---- what is seen ----

    fn poll_somewhere(&mut self) {
        let (host, queue) = (self.below(2), self.below(2));
        let most = 1 + self.below(16);
        self.poll(host, queue, most);
    }

    /// Takes results; how many there were.
    fn poll(&mut self, host: usize, queue: usize, most: usize) -> usize {
        let mut results = [CompletionResult::default(); 16];
        let cq = self.hosts[host].queues[queue].cq.clone();
        let count = cq.get_results(&mut results[..most]);
        for result in &results[..count] {
            let number = usize::try_from(result.queue_pair_context / 2).unwrap();
            let memory = self.memory(number);
            let at = usize::from(self.connections[number].ends[1].host == host);
            let receive = result.request_type == RequestType::Receive;
            let end = &self.connections[number].ends[at];
            assert_eq!(
                end.queues[usize::from(receive)],
                queue,
                "in the wrong queue"
            );
            self.check_notification(number, at, result);
            let memory = [&memory[0], &memory[1]];
            self.connections[number].ended(at, result, memory);
            let (kind, status) = (result.request_type, result.status);
            self.coverage.met(format!("{kind} ended with {status}"));
        }
        count
    }

    /// CONN-106: where the peer has ended the connection, NotifyDisconnect has ended before a flushed request is seen.
    fn check_notification(&self, number: usize, at: usize, result: &CompletionResult) {
        let connection = &self.connections[number];
        let end = &connection.ends[at];
        if result.status == Status::CANCELED
            && !end.acted
            && let Some(notification) = end.notification
        {
            let control = &self.controls[notification];
            assert!(
                !control.overlapped.is_pending(),
                "a flushed request was seen before NotifyDisconnect has ended"
            );
        }
    }

    /// Goes on with what has ended.
    fn follow_up(&mut self) {
        for at in 0..self.controls.len() {
            let control = &mut self.controls[at];
            if control.seen || control.overlapped.is_pending() {
                continue;
            }
            control.seen = true;
            let (what, status) = (control.what, control.overlapped.status());
            trace!("ctl {what:?} {status} at {:?}", self.simulation.time());
            assert!(what.allows(status), "{what:?} ended with {status}");
            self.coverage
                .met(format!("{} ended with {status}", what.name()));
            match what {
                Step::Connect(number) => self.connected(number, status),
                Step::CompleteConnect(number) => self.opened(number, 0, status),
                Step::Accept(number) => self.opened(number, 1, status),
                Step::GetConnectionRequest(place) => self.asked(place, status),
                Step::NotifyDisconnect | Step::Disconnect | Step::Notify => {}
            }
        }
    }

    fn connected(&mut self, number: usize, status: Status) {
        let connection = &self.connections[number];
        let end = &connection.ends[0];
        if status != Status::SUCCESS {
            assert!(
                connection.disturbed.is_some(),
                "Connect ended with {status}"
            );
            return;
        }
        let Some(connector) = end.connector.clone() else {
            return;
        };
        if self.chance(3) {
            self.coverage.met("fault: reject");
            self.connections[number].disturb("Reject");
            let _ = connector.reject(b"");
            return;
        }
        let begun = self.begin(Step::CompleteConnect(number), |overlapped| {
            connector.complete_connect(overlapped)
        });
        if let Err(status) = begun {
            let why = self.connections[number].disturbed;
            assert!(why.is_some(), "CompleteConnect: {status}");
        }
    }

    fn asked(&mut self, place: usize, status: Status) {
        let (_, connector) = &mut self.accepting[place];
        let Some(connector) = connector.take() else {
            return;
        };
        if status != Status::SUCCESS {
            // Some other connector gets the peer, or nobody does.
            self.unwanted = true;
            for connection in &mut self.connections {
                if !connection.ends.iter().all(|end| end.open) {
                    connection.disturb("a connector that waits no more");
                }
            }
            return;
        }
        let name = connector.get_private_data().unwrap();
        let name: [u8; 4] = name[..4].try_into().unwrap();
        let number = usize::try_from(u32::from_be_bytes(name)).unwrap();
        let Some(qp) = self.connections[number].ends[1].qp.clone() else {
            return;
        };
        if self.chance(3) {
            self.coverage.met("fault: reject");
            self.connections[number].disturb("Reject");
            let _ = connector.reject(b"no");
            return;
        }
        let limit = u32::try_from(self.below(8)).unwrap();
        let begun = self.begin(Step::Accept(number), |overlapped| {
            connector.accept(&qp, limit.max(1), limit.max(1), b"", overlapped)
        });
        if let Err(status) = begun {
            let why = self.connections[number].disturbed;
            assert!(why.is_some(), "Accept: {status}");
            self.connections[number].disturb("an Accept that failed");
        }
        self.connections[number].ends[1].connector = Some(connector);
    }

    fn opened(&mut self, number: usize, at: usize, status: Status) {
        if status != Status::SUCCESS {
            let why = self.connections[number].disturbed;
            assert!(why.is_some(), "end {at} of connection {number}: {status}");
            return;
        }
        let end = &mut self.connections[number].ends[at];
        end.open = end.qp.is_some() && !self.hosts[end.host].removed;
        let Some(connector) = end.connector.clone() else {
            return;
        };
        if self.chance(70) {
            let begun = self.begin(Step::NotifyDisconnect, |overlapped| {
                connector.notify_disconnect(overlapped)
            });
            match begun {
                Ok(control) => self.connections[number].ends[at].notification = Some(control),
                Err(status) => {
                    let why = self.connections[number].disturbed;
                    assert!(why.is_some(), "NotifyDisconnect: {status}");
                }
            }
        }
    }

    // ---- the end ----

    /// Takes results until nothing is left to happen.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..100_000 {
            let mut found = 0;
            let before = self.controls.len();
            for (host, queue) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                found += self.poll(host, queue, 16);
                self.follow_up();
            }
            let went_on = self.simulation.step();
            let quiet_now = found == 0 && before == self.controls.len() && !went_on;
            quiet = if quiet_now { quiet + 1 } else { 0 };
            // A second look: the last step may have brought results to a queue that was polled before it.
            if quiet == 2 {
                return;
            }
        }
        panic!("the network does not become quiet");
    }

    fn finish(&mut self) {
        // Sends that wait for a Receive get one as long as there is memory.
        self.settle();
        for number in 0..self.connections.len() {
            let memory = self.memory(number);
            let connection = &mut self.connections[number];
            let open = connection.ends.iter().all(|end| end.open);
            let memory = [&memory[0], &memory[1]];
            if connection.disturbed.is_none() && open {
                connection.check_quiet(memory);
            } else {
                connection.check_memory(memory);
            }
        }
        for number in 0..self.connections.len() {
            let at = self.below(2);
            if self.connections[number].ends[at].open && self.chance(50) {
                self.disconnect_end(number, at);
            }
        }
        self.settle();
        for connection in &mut self.connections {
            connection.disturb("the end");
            for end in &mut connection.ends {
                let (qp, connector) = (end.qp.take(), end.connector.take());
                drop((qp, connector));
            }
        }
        for (_, connector) in &mut self.accepting {
            drop(connector.take());
        }
        self.settle();
        for host in &self.hosts {
            host.listener.cancel_overlapped_requests().unwrap();
            for queue in &host.queues {
                queue.cq.cancel_overlapped_requests().unwrap();
            }
        }
        self.settle();
        self.check_ends();
        let network = self.simulation.disturbances();
        for (what, count) in [
            ("stall", network.stalls),
            ("reset", network.resets),
            ("half-close", network.half_closes),
            ("refusal", network.refusals),
            ("silence", network.silences),
        ] {
            self.coverage.met_often(format!("fault: {what}"), count);
        }
    }

    /// Everything has ended, once.
    fn check_ends(&self) {
        for control in &self.controls {
            let ends = control.ends.load(Ordering::Relaxed);
            assert_eq!(ends, 1, "{:?} has ended {ends} times", control.what);
        }
        for (number, connection) in self.connections.iter().enumerate() {
            for end in &connection.ends {
                let broken = |which: usize| self.hosts[end.host].queues[end.queues[which]].broken;
                if !broken(0) {
                    let loud = end.requests.iter().find(|request| !request.silent);
                    assert!(
                        loud.is_none(),
                        "connection {number}: {loud:?} has not ended"
                    );
                }
                if !broken(1) {
                    let left = end.receives.front();
                    assert!(
                        left.is_none(),
                        "connection {number}: {left:?} has not ended"
                    );
                }
            }
        }
    }
}

impl Host {
    fn new(adapter: Arc<dyn Adapter>, arena: Buffer, confirms: bool) -> Self {
        let file = adapter.create_overlapped_file().unwrap();
        let region = adapter.create_memory_region(&file).unwrap();
        let overlapped = Overlapped::new();
        let flags = MrFlags::ALLOW_LOCAL_WRITE
            | MrFlags::ALLOW_REMOTE_READ
            | MrFlags::ALLOW_REMOTE_WRITE
            | MrFlags::RDMA_READ_SINK;
        let _ = region.register(&arena, flags, &overlapped).unwrap();
        overlapped.wait().ok().unwrap();
        let queues = [(); 2].map(|()| {
            let cq = adapter.create_completion_queue(&file, 1024, Affinity::default());
            Queue {
                cq: cq.unwrap(),
                broken: false,
            }
        });
        let listener = adapter.create_listener(&file).unwrap();
        let address = adapter.query_address_list().unwrap()[0];
        listener.bind(address).unwrap();
        listener.listen(0).unwrap();
        let address = listener.get_local_address().unwrap();
        Self {
            adapter,
            file,
            queues: queues.into(),
            region,
            arena,
            used: 0,
            removed: false,
            confirms,
            listener,
            address,
        }
    }

    fn allot(&mut self, len: usize) -> Option<usize> {
        let at = self.used.next_multiple_of(8);
        let used = at.checked_add(len).filter(|used| *used <= ARENA)?;
        self.used = used;
        Some(at)
    }

    /// A stretch of the arena as one or two SGEs.
    fn sges(&self, at: usize, len: usize, cut: usize) -> Vec<Sge> {
        let sge = |range: Range<usize>| Sge::new(&self.arena, range, self.region.get_local_token());
        if cut == 0 || cut >= len {
            return vec![sge(at..at + len)];
        }
        vec![sge(at..at + cut), sge(at + cut..at + len)]
    }

    fn remote(&self, at: usize) -> RemoteAddress {
        RemoteAddress {
            address: self.arena.address() + at as u64,
            token: self.region.get_remote_token(),
        }
    }
}

/// What stands at one end of a connection for its peer to read.
fn pattern(number: usize, host: usize) -> Vec<u8> {
    let octet = |at: usize| u8::try_from((at * 7 + number * 31 + host * 101) % 251).unwrap();
    (0..PATTERN).map(octet).collect()
}
