//! Peers within this machine that are killed or stopped while both sides move data, each a process of its own: no request hangs, and the
//! process that goes on keeps no descriptor, mapping or memory of them.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ALL, LONG, Region, Side, child, end, wait};
use netdirect::{
    CompletionResult, Connector, NotifyType, OpFlags, Overlapped, QueuePair, QueuePairOptions,
    RemoteAddress, RemoteToken, Started, Status,
};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{Pid, Signal, kill_process};
use softnd::Options;

/// What a process of a victim does: `listen`, or the address to which it connects.
const ROLE: &str = "SOFTND_TEST_VICTIM";
/// The number of peers that are killed.
const KILLS: &str = "SOFTND_KILLS";

const SMALL: usize = 1024;
const LARGE: usize = 100 << 10;
const RECEIVES: u64 = 8;
const SEND: u64 = 100;
const WRITE: u64 = 101;
const READ: u64 = 102;

fn options() -> Options {
    Options::default().same_host(true)
}

/// One side of a connection under load: a Send, a Write and a Read at any time, each as soon as the one before has ended.
struct End<'s> {
    side: &'s Side,
    /// The context of its queue pair.
    number: u64,
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
    region: Region,
    remote: RemoteAddress,
    /// Requests without a result.
    outstanding: usize,
    results: usize,
    /// The statuses of results.
    statuses: BTreeSet<Status>,
}

impl<'s> End<'s> {
    fn new(side: &'s Side, number: u64) -> Self {
        let options = QueuePairOptions::default()
            .receive_queue_depth(16)
            .initiator_queue_depth(16)
            .context(number);
        let qp = side.adapter.create_queue_pair(&side.cq, &side.cq, options);
        let mut end = Self {
            side,
            number,
            qp: qp.unwrap(),
            connector: side.connector(),
            region: side.region(2 * LARGE + SMALL, ALL),
            remote: RemoteAddress {
                address: 0,
                token: RemoteToken(0),
            },
            outstanding: 0,
            results: 0,
            statuses: BTreeSet::new(),
        };
        (0..RECEIVES).for_each(|context| end.post(context));
        end
    }

    /// The memory of this side, for the peer.
    fn offer(&self) -> Vec<u8> {
        let own = self.region.remote(0);
        [&own.address.to_ne_bytes()[..], &own.token.to_bytes()].concat()
    }

    /// Takes the memory of the peer, and begins. Returns false if the peer is gone already.
    fn begin(&mut self) -> bool {
        let Ok(offer) = self.connector.get_private_data() else {
            return false;
        };
        let (address, token) = offer.split_at(8);
        self.remote = RemoteAddress {
            address: u64::from_ne_bytes(address.try_into().unwrap()),
            token: RemoteToken(u32::from_ne_bytes(token.try_into().unwrap())),
        };
        [SEND, WRITE, READ]
            .into_iter()
            .for_each(|context| self.post(context));
        true
    }

    fn post(&mut self, context: u64) {
        let (qp, flags) = (&self.qp, OpFlags::empty());
        let posted = match context {
            SEND => qp.send(SEND, &[self.region.sge(0, SMALL)], flags),
            WRITE => qp.write(WRITE, &[self.region.sge(0, LARGE)], self.remote, flags),
            READ => qp.read(READ, &[self.region.sge(LARGE, LARGE)], self.remote, flags),
            receive => qp.receive(receive, &[self.region.sge(2 * LARGE, SMALL)]),
        };
        // After the end nothing is posted.
        self.outstanding += usize::from(posted.is_ok());
    }

    /// Takes results, and posts the same requests again. Sleeps if there are none, or returns at once.
    fn step(&mut self, sleeps: bool) {
        let mut batch = [CompletionResult::default(); 16];
        let taken = self.side.cq.get_results(&mut batch);
        for result in &batch[..taken] {
            if result.queue_pair_context != self.number {
                continue; // of an earlier queue pair
            }
            self.outstanding -= 1;
            self.results += 1;
            self.statuses.insert(result.status);
            if result.status == Status::SUCCESS {
                self.post(result.request_context);
            }
        }
        if taken == 0 && sleeps {
            let overlapped = Overlapped::new();
            let _ = self.side.cq.notify(NotifyType::Any, &overlapped).unwrap();
            wait(&overlapped);
        }
    }

    /// Moves data until this many results have come, or the peer is gone.
    fn run(&mut self, results: usize, sleeps: bool) {
        let begun = Instant::now();
        while self.results < results && self.outstanding > 0 {
            self.step(sleeps);
            assert!(begun.elapsed() < LONG, "no result comes");
        }
    }

    fn run_to_the_end(&mut self, sleeps: bool) {
        self.run(usize::MAX, sleeps);
    }
}

/// Connects, and returns true if that has worked.
fn connect(end_of: &End<'_>, to: SocketAddr, meanwhile: impl FnOnce()) -> bool {
    let (connector, connects) = (&end_of.connector, Overlapped::new());
    let started = connector.connect(&end_of.qp, to, 1, 1, &end_of.offer(), &connects);
    meanwhile();
    if end(started, &connects).is_err() {
        return false;
    }
    let completes = Overlapped::new();
    end(connector.complete_connect(&completes), &completes).is_ok()
}

/// Accepts the request that the connector has, and returns true if that has worked.
fn accept(end_of: &End<'_>) -> bool {
    let accepts = Overlapped::new();
    let (qp, connector) = (&end_of.qp, &end_of.connector);
    end(
        connector.accept(qp, 1, 1, &end_of.offer(), &accepts),
        &accepts,
    )
    .is_ok()
}

/// A peer in a process of its own.
struct Victim(Child);

impl Victim {
    fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::a_victim", "--ignored", "--nocapture"]);
        command.env(ROLE, role).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// The address that the victim listens at.
    fn address(&mut self) -> SocketAddr {
        let mut lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.strip_prefix("listens at ")?.parse().unwrap())
        });
        address.expect("an address")
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "a process of the tests below"]
fn a_victim() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let side = Side::with(options());
    let mut end_of = End::new(&side, 1);
    let connected = match role.parse() {
        Ok(to) => connect(&end_of, to, || {}),
        Err(_) => {
            let (listener, at) = side.listener(0);
            println!("\nlistens at {at}");
            let arrives = Overlapped::new();
            let arrival = listener.get_connection_request(&end_of.connector, &arrives);
            end(arrival, &arrives).is_ok() && accept(&end_of)
        }
    };
    if connected && end_of.begin() {
        end_of.run_to_the_end(true);
    }
}

/// The moment at which a victim is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This time after its process has begun.
    SettingUp(Duration),
    /// When this side has this many results.
    Under(usize),
}

/// Waits without leaving the processor to the victim alone.
fn pass(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        thread::yield_now();
    }
}

/// Kills one peer. Returns the statuses of all results.
fn kill_one(side: &Side, number: u64, random: &mut impl RngCore) -> BTreeSet<Status> {
    let mut below = |limit: u64| random.next_u64() % limit;
    let (listens, sleeps) = (below(2) == 0, below(2) == 0);
    let moment = match below(4) {
        0 => Moment::SettingUp(Duration::from_micros(below(30_000))),
        _ => Moment::Under(usize::try_from(below(400)).unwrap()),
    };
    println!("listens {listens}, sleeps {sleeps}, {moment:?}");
    let mut end_of = End::new(side, number);
    let (victim, connected) = if listens {
        let (listener, at) = side.listener(0);
        let victim = Victim::start(&at.to_string());
        let arrives = Overlapped::new();
        let arrival = listener.get_connection_request(&end_of.connector, &arrives);
        if let Moment::SettingUp(time) = moment {
            pass(time);
            victim.signal(Signal::KILL);
            if matches!(arrival, Ok(Started::Pending)) && arrives.poll() == Status::PENDING {
                listener.cancel_overlapped_requests().unwrap();
            }
        }
        let connected = end(arrival, &arrives).is_ok() && accept(&end_of);
        (victim, connected)
    } else {
        let mut victim = Victim::start("listen");
        let at = victim.address();
        let connected = connect(&end_of, at, || {
            if let Moment::SettingUp(time) = moment {
                pass(time / 10);
                victim.signal(Signal::KILL);
            }
        });
        (victim, connected)
    };
    if connected && end_of.begin() {
        if let Moment::Under(results) = moment {
            end_of.run(results, sleeps);
            assert!(end_of.outstanding > 0, "the peer has gone by itself");
            victim.signal(Signal::KILL);
        }
        end_of.run_to_the_end(sleeps);
    }
    end_of.statuses
}

/// Descriptors of this process, and its mappings of files in memory.
fn held() -> [usize; 2] {
    let files = fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    [files, maps.matches("/memfd:").count()]
}

/// Octets of this process's own memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = set.unwrap().trim().strip_suffix(" kB").unwrap();
    kibibytes.parse::<u64>().unwrap() * 1024
}

fn counter(side: &Side, name: &str) -> u64 {
    let counters = side.adapter.extensions().unwrap().counters();
    counters.get(name).unwrap_or(0)
}

#[test]
fn peers_that_are_killed_leave_nothing_behind() {
    if !child::is_alone() {
        return child::passes("killed::peers_that_are_killed_leave_nothing_behind", |_| {});
    }
    let kills = std::env::var(KILLS).map_or(20, |count| count.parse().unwrap());
    let side = Side::with(options());
    let mut before = None;
    let mut statuses = BTreeSet::new();
    for seed in 0..=kills {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        statuses.extend(kill_one(&side, seed, &mut random));
        // What is made once is there after the first one.
        if seed == kills / 2 || seed == 0 {
            before = Some((held_after_all(before.map(|(held, _)| held)), resident()));
        }
    }
    let (held, memory) = before.unwrap();
    held_after_all(Some(held));
    let grown = resident().saturating_sub(memory);
    assert!(grown < (4 << 20) + kills * 4096, "grown by {grown} octets");
    println!("statuses {statuses:?}");
    let flushed = [Status::SUCCESS, Status::CANCELED];
    assert!(
        statuses.iter().all(|status| flushed.contains(status)),
        "{statuses:?}"
    );
    let shared = counter(&side, "same_host.connections");
    println!("{shared} connections through shared memory");
    assert!(shared > 0, "the test is about them");
    assert_eq!(
        counter(&side, "same_host.refused.memory"),
        0,
        "it is given back"
    );
}

/// Waits until the process holds no more than `before`, and no rings at all. Connections end in the background.
fn held_after_all(before: Option<[usize; 2]>) -> [usize; 2] {
    let begun = Instant::now();
    loop {
        let now = held();
        if now[1] == 0 && before.is_none_or(|before| now[0] <= before[0]) {
            return now;
        }
        assert!(
            begun.elapsed() < LONG,
            "{now:?} descriptors and mappings, {before:?} before"
        );
        thread::yield_now();
    }
}

/// The time that the threads of this process have had a processor.
fn processor_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let times = tasks.map(|task| {
        // A thread may have ended.
        let path = task.unwrap().path().join("schedstat");
        let times = fs::read_to_string(path).unwrap_or_default();
        times.split(' ').next().unwrap().parse().unwrap_or(0)
    });
    Duration::from_nanos(times.sum())
}

/// The ring is full, and stays so until the peer goes on. A thread that sleeps meanwhile uses no processor, whether it has polled before or not.
#[test]
fn a_peer_that_is_stopped_costs_no_processor_time_and_goes_on() {
    if !child::is_alone() {
        let test = "killed::a_peer_that_is_stopped_costs_no_processor_time_and_goes_on";
        return child::passes(test, |_| {});
    }
    for sleeps in [true, false] {
        let side = Side::with(options());
        let mut end_of = End::new(&side, 1);
        let mut victim = Victim::start("listen");
        let at = victim.address();
        assert!(connect(&end_of, at, || {}) && end_of.begin());
        assert_eq!(counter(&side, "same_host.connections"), 1);
        end_of.run(500, sleeps);
        victim.signal(Signal::STOP);
        // More than the ring holds.
        for _ in 0..8 {
            end_of.post(WRITE);
        }
        let limit = Duration::from_millis(300);
        let used = loop {
            let before = processor_time();
            let overlapped = Overlapped::new();
            let _ = side.cq.notify(NotifyType::Any, &overlapped).unwrap();
            if overlapped.wait_timeout(limit).is_none() {
                let used = processor_time() - before;
                side.cq.cancel_overlapped_requests().unwrap();
                wait(&overlapped);
                break used;
            }
            end_of.step(false);
        };
        assert!(used < limit / 10, "{used:?} of {limit:?}");
        victim.signal(Signal::CONT);
        let results = end_of.results + 500;
        end_of.run(results, sleeps);
        assert_eq!(end_of.statuses, BTreeSet::from([Status::SUCCESS]));
    }
}
