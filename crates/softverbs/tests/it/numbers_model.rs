//! Queue pairs that name each other do arbitrary things in a simulated network, and a plain model checks what their programs see.
//!
//! Hosts refuse every call, or every other one, so that one direction may be closed and attempts get lost. Programs move queue pairs to RTR
//! and RTS in any order and at any time, post, and reset them. Each change to RTR begins a life. A message has the life of its sender, and
//! all messages that a queue pair gets in one life come from one life of its peer. Each request ends at most once, and with RESET not at all.
//! When a request succeeds, the peer's memory has all Writes that were posted before it.
//! In the end both queue pairs of each pair begin anew and have to connect, whatever was before.
//!
//! `SOFTND_SEEDS=10000 cargo test --release -p softverbs --test it numbers_model` runs 10,000 seeds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rdma_buffer::Buffer;
use softverbs::{
    CompletionQueue, Conditions, DeviceKind, MemoryRegion, ProcessOptions, QpState, QueuePair,
    RemotePlace, SendData, SendOperation, SendRequest, Sge, WcOpcode, WcStatus, WorkCompletion,
    World,
};

use crate::common::{Host, send_of};
use crate::numbers::{INIT, RTR, RTS, init_attributes, rtr, rts_attributes};

/// The seeds of an ordinary run.
const SEEDS: u64 = 150;

/// Numbers that follow from a seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// The octets of a message: who sent it, and in which life.
const MESSAGE: usize = 16;
const SLOTS: usize = 8;
/// The octets of a Write: the life of its sender, and its number.
const WRITTEN: usize = 16;
/// The targets of Writes in the peer's memory. Each life has other targets, because the stream of an earlier life may still deliver.
const TARGETS: u64 = 2048;
const TARGETS_OF_LIFE: u64 = 4;
const LIVES: u64 = 64;

/// A Write that is in the peer's memory, unless a later one of the same life has replaced it.
#[derive(Clone, Copy, Debug)]
struct Placed {
    life: u64,
    target: u64,
    wr_id: u64,
}

/// The number that comes with messages of a life.
fn number_of(life: u64) -> [u8; 4] {
    let [.., a, b, c, d] = life.to_be_bytes();
    [d, c, b, a]
}

/// Returns the offset of a target.
fn target(life: u64, number: u64) -> u64 {
    TARGETS + (life % LIVES * TARGETS_OF_LIFE + number) * WRITTEN as u64
}

struct End {
    host: usize,
    /// The place of the peer.
    peer: usize,
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    buffer: Buffer,
    region: Arc<MemoryRegion>,
    /// Counts the changes to RTR.
    life: u64,
    /// The life of the peer from which messages of this life come.
    peer_life: Option<u64>,
    /// Requests that have not ended, and whether they are signaled.
    sends: BTreeMap<u64, bool>,
    /// The Writes of this life that no completion has covered, in their order.
    written: VecDeque<Placed>,
    receives: BTreeSet<u64>,
    next: u64,
    has_failed: bool,
}

impl End {
    fn new(host: &Host, place: usize, peer: usize) -> Self {
        let cq = CompletionQueue::create(&host.context, 128, None).unwrap();
        let options = crate::common::options_over(&cq, false);
        let buffer = Buffer::new(1 << 14);
        Self {
            host: place,
            peer,
            qp: QueuePair::create(&host.pd, options).unwrap(),
            cq,
            region: host.region(&buffer),
            buffer,
            life: 0,
            peer_life: None,
            sends: BTreeMap::new(),
            written: VecDeque::new(),
            receives: BTreeSet::new(),
            next: 0,
            has_failed: false,
        }
    }

    fn reset(&mut self) {
        self.qp
            .modify(&Default::default(), softverbs::QpMask::STATE)
            .unwrap();
        assert_eq!(self.qp.state(), QpState::Reset);
        self.sends.clear();
        self.written.clear();
        self.receives.clear();
        self.peer_life = None;
        self.has_failed = false;
    }

    fn receive(&mut self) {
        if self.receives.len() < SLOTS && self.qp.state() != QpState::Reset {
            self.next += 1;
            let slot = self.next % SLOTS as u64;
            let sge = self.sge(1024 + slot * 64);
            self.qp.post_receive(self.next, &[sge]).unwrap();
            self.receives.insert(self.next);
        }
    }

    fn send(&mut self, own: usize) {
        if self.sends.len() < SLOTS && self.qp.state() == QpState::Rts {
            self.next += 1;
            let mut message = [0; MESSAGE];
            message[..8].copy_from_slice(&(own as u64).to_be_bytes());
            message[8..].copy_from_slice(&self.life.to_be_bytes());
            let data = SendData::Inline(&[&message]);
            // Each third message has a number as well, which follows from the life.
            let operation = match self.next % 3 {
                0 => SendOperation::SendImmediate(number_of(self.life)),
                _ => SendOperation::Send,
            };
            self.post(&SendRequest {
                operation,
                ..send_of(self.next, data)
            });
        }
    }

    fn post(&mut self, request: &SendRequest<'_>) {
        self.qp.post_send(request).unwrap();
        self.sends.insert(request.wr_id, request.signaled);
    }

    /// Posts a Write to a target of this life in the memory of the peer.
    fn write(&mut self, (first, rkey): (u64, u32), signaled: bool) {
        if self.sends.len() >= SLOTS || self.qp.state() != QpState::Rts {
            return;
        }
        self.next += 1;
        let placed = Placed {
            life: self.life,
            target: self.next % TARGETS_OF_LIFE,
            wr_id: self.next,
        };
        let octets = [placed.life.to_be_bytes(), placed.wr_id.to_be_bytes()].concat();
        let place = RemotePlace {
            addr: first + target(placed.life, placed.target),
            rkey,
        };
        self.post(&SendRequest {
            operation: SendOperation::Write(place),
            signaled,
            ..send_of(self.next, SendData::Inline(&[&octets]))
        });
        self.written.push_back(placed);
    }

    fn sge(&self, offset: u64) -> Sge {
        Sge {
            addr: self.region.first() + offset,
            length: 16,
            lkey: self.region.key(),
        }
    }

    /// Takes completions. Returns the number of messages, and the Writes that have to be placed by now.
    fn poll(&mut self) -> (usize, Vec<Placed>) {
        let mut some = [WorkCompletion::default(); 8];
        let taken = self.cq.poll(&mut some);
        let mut messages = 0;
        let mut placed = Vec::new();
        for one in &some[..taken] {
            assert_eq!(one.qp_num, self.qp.number());
            let is_receive = one.opcode == WcOpcode::Receive;
            if is_receive {
                let oldest = self.receives.pop_first();
                assert_eq!(oldest, Some(one.wr_id), "in order, and once: {one:?}");
            } else {
                self.ended(one);
            }
            match one.status {
                WcStatus::Success if is_receive => {
                    messages += 1;
                    self.check_message(one.wr_id);
                    let life = self.peer_life.expect("a message has come");
                    assert!(one.immediate.is_none_or(|number| number == number_of(life)));
                }
                WcStatus::Success => {
                    assert!(!self.has_failed, "{one:?}");
                    let before = |write: &Placed| write.wr_id <= one.wr_id;
                    let count = self.written.partition_point(before);
                    placed.extend(self.written.drain(..count));
                }
                WcStatus::RetryExceeded => {
                    assert!(!is_receive && !std::mem::replace(&mut self.has_failed, true));
                    assert_eq!(self.qp.state(), QpState::Err);
                }
                WcStatus::Flushed => assert_eq!(self.qp.state(), QpState::Err, "{one:?}"),
                _ => panic!("{one:?}"),
            }
        }
        (messages, placed)
    }

    /// A request of the send queue has ended. Those before it that are not signaled have succeeded, and have no completion.
    fn ended(&mut self, one: &WorkCompletion) {
        loop {
            let (oldest, signaled) = self.sends.pop_first().expect("a request that was posted");
            if oldest == one.wr_id {
                assert!(signaled || one.status != WcStatus::Success, "{one:?}");
                return;
            }
            assert!(!signaled, "{oldest} before {one:?}");
        }
    }

    /// Requests that have to end with a completion.
    fn are_signaled_left(&self) -> bool {
        self.sends.values().any(|signaled| *signaled)
    }

    /// The memory of this side has these Writes of its peer, or later ones of the same life.
    fn check_placed(&self, placed: &[Placed]) {
        for write in placed {
            let mut octets = [0; WRITTEN];
            let at = target(write.life, write.target);
            self.buffer.read(usize::try_from(at).unwrap(), &mut octets);
            let [life, wr_id] = [0, 8].map(|at| {
                let number: [u8; 8] = octets[at..at + 8].try_into().unwrap();
                u64::from_be_bytes(number)
            });
            let is_there = life == write.life && wr_id >= write.wr_id;
            assert!(is_there, "{write:?} is not placed: {life}, {wr_id}");
        }
    }

    fn check_message(&mut self, wr_id: u64) {
        let mut message = [0; MESSAGE];
        let at = 1024 + wr_id % SLOTS as u64 * 64;
        self.buffer.read(usize::try_from(at).unwrap(), &mut message);
        let number = |octets: &[u8]| u64::from_be_bytes(octets.try_into().unwrap());
        assert_eq!(
            number(&message[..8]),
            self.peer as u64,
            "from the named peer"
        );
        let life = number(&message[8..]);
        assert_eq!(*self.peer_life.get_or_insert(life), life, "from one life");
    }
}

struct Run {
    random: Random,
    world: World,
    hosts: Vec<Host>,
    ends: Vec<End>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut conditions = Conditions::default();
        let latency = Duration::from_micros(1 + random.below(300_000));
        conditions.latency = latency..=latency * 2;
        let world = World::new(seed, conditions);
        let count = 1 + random.below(3);
        // One host at most is closed, so that every two reach each other in one direction.
        let closed = random.below(count + 2);
        let hosts: Vec<_> = (0..count)
            .map(|at| {
                let mut options = ProcessOptions::default();
                options.kind = DeviceKind::Roce;
                let plan = match random.below(3) {
                    _ if at == closed && count > 1 => "when each accept: refuse",
                    0 => "when every other connect: refuse",
                    1 => "when every other accept: refuse",
                    _ => "",
                };
                options.on_end = Some(|sentence| println!("{sentence}"));
                options.faults = (!plan.is_empty()).then(|| plan.parse().unwrap());
                Host::simulated_with(&world, u8::try_from(at + 1).unwrap(), options)
            })
            .collect();
        let pairs = 1 + usize::try_from(random.below(4)).unwrap();
        let mut ends = Vec::new();
        for pair in 0..pairs {
            let first = usize::try_from(random.below(count)).unwrap();
            let mut second = usize::try_from(random.below(count)).unwrap();
            if count > 1 && first as u64 == closed && first == second {
                second = (first + 1) % hosts.len();
            }
            // Numbers of ports that many queue pairs have used.
            for _ in 0..random.below(3) {
                drop(End::new(&hosts[first], first, 0));
            }
            ends.push(End::new(&hosts[first], first, 2 * pair + 1));
            ends.push(End::new(&hosts[second], second, 2 * pair));
        }
        Self {
            random,
            world,
            hosts,
            ends,
        }
    }

    /// Moves a queue pair one state on.
    fn advance(&mut self, at: usize) {
        let (host, number) = {
            let peer = &self.ends[self.ends[at].peer];
            (&self.hosts[peer.host], peer.qp.number())
        };
        let end = &mut self.ends[at];
        match end.qp.state() {
            QpState::Reset => end.qp.modify(&init_attributes(), INIT).unwrap(),
            QpState::Init => {
                end.life += 1;
                end.qp.modify(&rtr(number, host), RTR).unwrap();
            }
            QpState::Rtr => end.qp.modify(&rts_attributes(18), RTS).unwrap(),
            _ => {}
        }
    }

    fn step(&mut self) {
        let count = self.ends.len() as u64;
        let at = usize::try_from(self.random.below(count)).unwrap();
        match self.random.below(12) {
            0..4 => self.advance(at),
            4 | 5 => self.ends[at].receive(),
            6 => self.ends[at].send(at),
            7 => self.write(at),
            8 if self.random.below(4) == 0 => {
                self.ends[at].reset();
                if self.random.below(2) == 0 {
                    let peer = self.ends[at].peer;
                    self.ends[peer].reset();
                }
            }
            9 => {
                let time = Duration::from_micros(1 << self.random.below(24));
                self.world.pass(time);
            }
            _ => drop(self.poll(at)),
        }
    }

    fn write(&mut self, at: usize) {
        let peer = &self.ends[self.ends[at].peer].region;
        let place = (peer.first(), peer.key());
        let signaled = self.random.below(3) > 0;
        self.ends[at].write(place, signaled);
    }

    /// Takes completions of an end, and looks into the memory of its peer. Returns the number of messages.
    fn poll(&mut self, at: usize) -> usize {
        let (messages, placed) = self.ends[at].poll();
        self.ends[self.ends[at].peer].check_placed(&placed);
        messages
    }

    /// Both ends of each pair begin anew. Then a message of each arrives at the other.
    fn finish(&mut self) {
        for at in 0..self.ends.len() {
            self.ends[at].reset();
        }
        let mut order: Vec<_> = (0..self.ends.len()).flat_map(|at| [at; 3]).collect();
        for at in (1..order.len()).rev() {
            let other = self.random.below(at as u64 + 1);
            order.swap(at, usize::try_from(other).unwrap());
        }
        for at in order {
            self.advance(at);
            let time = Duration::from_millis(self.random.below(600));
            self.world.pass(time);
        }
        for at in 0..self.ends.len() {
            assert_eq!(self.ends[at].qp.state(), QpState::Rts);
            self.ends[at].receive();
        }
        for at in 0..self.ends.len() {
            for _ in 0..self.random.below(3) {
                self.write(at);
            }
            self.ends[at].send(at);
        }
        let mut missing: BTreeSet<_> = (0..self.ends.len()).collect();
        for _ in 0..1_000_000_u32 {
            for at in 0..self.ends.len() {
                if self.poll(at) > 0 {
                    missing.remove(&at);
                }
            }
            if missing.is_empty() && !self.ends.iter().any(End::are_signaled_left) {
                self.ends
                    .iter()
                    .for_each(|end| assert_eq!(end.written.len(), 0));
                for (at, end) in self.ends.iter().enumerate() {
                    let peer = &self.ends[end.peer];
                    assert_eq!(
                        end.peer_life,
                        Some(peer.life),
                        "{at}: lives that belong together"
                    );
                }
                return;
            }
            for end in &mut self.ends {
                assert!(!end.has_failed, "a request has failed");
            }
        }
        panic!("these have not connected: {missing:?}");
    }
}

fn run(seed: u64) {
    let mut run = Run::new(seed);
    let steps = 100 + run.random.below(300);
    for _ in 0..steps {
        run.step();
    }
    run.finish();
}

#[test]
fn every_pair_connects_once_for_each_life() {
    each_seed(SEEDS, run);
}

/// Runs the seeds that the environment asks for, or the first `ordinary` ones. Names the seed that fails.
pub(crate) fn each_seed(ordinary: u64, run: fn(u64)) {
    let seeds = std::env::var("SOFTND_SEEDS").ok();
    let seeds = seeds.map_or(ordinary, |seeds| seeds.parse().expect("a number of seeds"));
    let first = std::env::var("SOFTND_SEED").ok();
    let first: u64 = first.map_or(0, |first| first.parse().expect("a seed"));
    for seed in first..first + seeds {
        let done = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = done {
            eprintln!("seed {seed} has failed: SOFTND_SEED={seed} SOFTND_SEEDS=1");
            std::panic::resume_unwind(panic);
        }
    }
}

/// This many seeds find each planted bug.
#[cfg(planted_bugs)]
const SEEDS_OF_BUGS: u64 = 5000;

/// All in one test: a bug is planted in the whole process.
#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    use iwarp_io::planted::{Bug, plant};
    let said = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = Bug::OF_NUMBERS.map(|bug| {
        plant(Some(bug));
        let seed = (0..SEEDS_OF_BUGS).find(|seed| std::panic::catch_unwind(|| run(*seed)).is_err());
        (bug, seed)
    });
    plant(None);
    std::panic::set_hook(said);
    println!("found by the seed: {found:#?}");
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(
        missed.is_empty(),
        "not found within {SEEDS_OF_BUGS} seeds: {missed:?}"
    );
}
