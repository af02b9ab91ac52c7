//! One run. The calls and their order follow from a seed.

mod conditions;
mod disturb;
mod host;
mod post;
mod seen;
mod shared;

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
    QueuePairOptions, RemoteAddress, RequestType, Sge, SharedReceiveQueueOptions, Started, Status,
};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use softnd::Options;
use softnd::capture::Capture;
use softnd::simulation::{Chance, Conditions, Simulation};

use super::Links;
use super::connection::{
    Bound, Connection, Effect, End, Message, NETWORK, Receive, Request, Shelf,
};
use super::coverage::Coverage;
use super::memory::{Target, Word};
use super::pool::Pool;
use host::Host;

/// The memory of each host, all of it registered.
const ARENA: usize = 256 * 1024;
/// The lengths of the memory that a peer writes to, and of that which a peer reads.
const TARGET: usize = 256;
const PATTERN: usize = 512;
/// Receives of one queue pair, and initiator requests.
const RECEIVES: u32 = 24;
const REQUESTS: u32 = 12;
/// The least numbers of requests that a run posts and of queue pairs that it uses, unless its hosts are removed before.
const LEAST_REQUESTS: u64 = 50;
const LEAST_CONNECTIONS: usize = 2;
const MOST_CONNECTIONS: usize = 6;

thread_local! {
    /// The same memory for all runs of a thread, because peers get its addresses.
    static ARENAS: OnceCell<[Buffer; 2]> = const { OnceCell::new() };
}

/// An overlapped request.
struct Control {
    what: Step,
    overlapped: Overlapped,
    /// The number of times that it has ended.
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
    /// Of a shared receive queue, by its host and its place there.
    NotifyShared(usize, usize),
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
            Self::NotifyShared(..) => "Notify of a shared queue",
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
                Self::NotifyShared(..) => status == S::INTERNAL_ERROR,
                Self::Notify => [S::BUFFER_OVERFLOW, S::INTERNAL_ERROR].contains(&status),
                _ => false,
            }
    }
}

struct Run<'a> {
    random: Xoshiro256PlusPlus,
    simulation: Simulation,
    links: Links,
    /// Datagrams may be lost.
    loses: bool,
    /// The network may break any connection at any time.
    lossy: bool,
    /// The length of all cuts together.
    cut_off: Duration,
    /// No connector waits, because more peers have arrived than connectors wait.
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
/// If a request ends otherwise than the model expects.
pub(crate) fn run(
    seed: u64,
    links: Links,
    coverage: &mut Coverage,
    captured: Option<&mut Vec<u8>>,
) {
    let octets = Octets::default();
    let capture = captured
        .is_some()
        .then(|| Capture::to_writer(octets.clone()).unwrap());
    let _written = Written(captured, octets, capture.clone());
    let mut run = Run::new(seed, links, coverage, capture.as_ref());
    let steps = 60 + run.below(120);
    for _ in 0..steps {
        run.act();
        run.follow_up();
    }
    // Some runs lose connections early: at least two connections carry data.
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

/// Writes the capture, also of a run that fails.
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

/// A request that was begun. Its ends are counted.
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
    fn new(seed: u64, links: Links, coverage: &'a mut Coverage, capture: Option<&Capture>) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = |most: u64| random.next_u64() % most;
        let (conditions, lossy) = match links {
            Links::Streams => conditions::of_streams(&mut draw),
            Links::Udp => (conditions::of_datagrams(&mut draw), false),
        };
        let loses = conditions.loss != Chance::NEVER || conditions.corruption != Chance::NEVER;
        let simulation = Simulation::with(draw(u64::MAX), conditions);
        let simulation = match links {
            Links::Streams => simulation,
            Links::Udp => simulation.over_udp(),
        };
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
                .confirm_writes(confirms)
                // A Connect whose answer the network loses ends by this limit, because Connect itself has none.
                .timeouts(|limits| limits.reply = Some(Duration::from_secs(120)));
            if let Some(capture) = capture {
                options = options.capture(capture.clone());
            }
            let adapter = simulation.open([10, 0, 0, number], options).unwrap();
            Host::new(adapter, arena, confirms)
        });
        Self {
            random,
            simulation,
            links,
            loses,
            lossy,
            cut_off: Duration::ZERO,
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

    // ---- calls ----

    fn act(&mut self) {
        let young = self.connections.len() < LEAST_CONNECTIONS;
        match self.below(100) {
            0..10 if young || self.connections.len() < MOST_CONNECTIONS => self.connect(),
            0..50 => self.post(),
            50..62 => self.receive_somewhere(),
            62..77 => self.poll_somewhere(),
            77..80 => self.use_pool(),
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

    /// A random end of any connection for which `usable` returns true.
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
        let short = [&active, &passive].into_iter().any(|end| {
            let pool = end.shared.map(|pool| &self.hosts[end.host].pools[pool]);
            pool.is_some_and(|pool| pool.short)
        });
        self.connections.push(Connection {
            ends: [active, passive],
            disturbed: match (self.lossy, self.unwanted, short) {
                (true, ..) => Some(NETWORK),
                (false, true, _) => Some("a connector that waits no more"),
                (false, false, true) => Some("a shared Receive that is too short"),
                (false, false, false) => None,
            },
            called: short,
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
        let shared = self.chance(40).then(|| self.pool_for_new_end(host));
        let owner = &self.hosts[host];
        let [initiator, receive] = queues.map(|queue| owner.queues[queue].cq.clone());
        let options = QueuePairOptions::default()
            .context(number as u64 * 2)
            .receive_queue_depth(RECEIVES)
            .initiator_queue_depth(REQUESTS)
            .max_receive_request_sge(2)
            .max_initiator_request_sge(2)
            .inline_data_size(64);
        let adapter = &owner.adapter;
        let srq = shared.map(|pool| owner.pools[pool].srq.as_ref().expect("usable"));
        let created = match srq {
            Some(srq) => adapter.create_queue_pair_with_srq(&receive, &initiator, srq, options),
            None => adapter.create_queue_pair(&receive, &initiator, options),
        };
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
            shared,
            drawn: 0,
            left: false,
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

    // ---- the end ----

    /// Takes results until no event is left.
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
            // Polls once more, because the last step may have placed results in a queue that was polled before the step.
            if quiet == 2 {
                return;
            }
        }
        panic!("the network does not become quiet");
    }

    fn finish(&mut self) {
        // Sends that wait for a Receive get one as long as there is memory.
        self.settle();
        let starved = self.feed_before_ends();
        self.check_notifications(&starved);
        self.check_losses();
        self.feed();
        self.check_pools();
        for number in 0..self.connections.len() {
            let memory = self.memory(number);
            let starved = self.starved(number);
            let connection = &mut self.connections[number];
            let open = connection.ends.iter().all(|end| end.open);
            let memory = [&memory[0], &memory[1]];
            if connection.disturbed.is_none() && open {
                connection.check_quiet(memory, starved);
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
        for host in 0..2 {
            for number in 0..self.hosts[host].pools.len() {
                self.cancel_shared(host, number);
            }
        }
        self.settle();
        self.check_pools();
        self.check_ends();
        let network = self.simulation.disturbances();
        for (what, count) in [
            ("stall", network.stalls),
            ("reset", network.resets),
            ("half-close", network.half_closes),
            ("refusal", network.refusals),
            ("silence", network.silences),
            ("loss", network.losses),
            ("duplication", network.duplications),
            ("reordering", network.reorderings),
            ("corruption", network.corruptions),
            ("cut", network.cuts),
            ("rebinding", network.rebinds),
            ("datagram to a former address", network.strays),
        ] {
            self.coverage.met_often(format!("fault: {what}"), count);
        }
    }

    /// Returns true if NotifyDisconnect of this end is pending.
    fn awaits_end(&self, end: &End) -> bool {
        end.notification
            .is_some_and(|control| self.controls[control].overlapped.is_pending())
    }

    /// No event is left: each end whose peer has disconnected knows that, except ends whose last message can get no Receive.
    fn check_notifications(&self, starved: &[(usize, usize)]) {
        for (number, connection) in self.connections.iter().enumerate() {
            for (at, end) in connection.ends.iter().enumerate() {
                let peer = &connection.ends[1 - at];
                let pending = self.awaits_end(end);
                assert!(
                    !pending || !peer.left || starved.contains(&(number, at)),
                    "connection {number}: the peer of end {at} has left, and NotifyDisconnect is pending"
                );
            }
        }
    }

    /// No event is left: if one end knows that the network has ended the connection, the other one does. A stream can also end in one
    /// direction only.
    fn check_losses(&self) {
        if self.links == Links::Streams {
            return;
        }
        for (number, connection) in self.connections.iter().enumerate() {
            let ends = || connection.ends.iter();
            if connection.called || ends().any(|end| !end.open || end.acted) {
                continue;
            }
            let notified = ends().filter_map(|end| match end.notification {
                Some(control) => Some(!self.controls[control].overlapped.is_pending()),
                None => end.knows_of_loss(),
            });
            let notified: Vec<_> = notified.collect();
            assert!(
                notified.len() < 2 || notified[0] == notified[1],
                "connection {number} has ended for one end only: {notified:?}"
            );
        }
    }

    /// Asserts that every request has ended exactly once.
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

/// The octets at one end of a connection that the peer reads.
fn pattern(number: usize, host: usize) -> Vec<u8> {
    let octet = |at: usize| u8::try_from((at * 7 + number * 31 + host * 101) % 251).unwrap();
    (0..PATTERN).map(octet).collect()
}
