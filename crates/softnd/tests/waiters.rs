//! Many threads that wait on one file, each for a separate connection request: idle ones do not run, an arrival wakes one, and they need no
//! descriptors. The tests count how often the system has given each thread a processor.
//!
//! The tests count threads and descriptors of the process, so they are a separate program and run one after the other.
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use common::raw;
use common::{Caller, LONG, Pair, Side, pair, skip};
use netdirect::{Listener, OpFlags, Overlapped, Status};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Descriptors that the place of a second waiting thread may take.
const FEW: usize = 8;

/// Threads that wait, by the numbers that the system has given them.
struct Waiters {
    side: Side,
    listener: Arc<dyn Listener>,
    address: std::net::SocketAddr,
    threads: BTreeMap<i32, JoinHandle<Status>>,
    /// Another connection, for events meanwhile.
    others: Pair,
}

/// The number of times that the threads have run, if all of them sleep.
type Runs = BTreeMap<i32, u64>;

impl Waiters {
    /// `None` if the system does not allow this many threads.
    fn new(count: usize) -> Option<Self> {
        let side = Side::new();
        let (listener, address) = side.listener(0);
        let mut waiters = Self {
            side,
            listener,
            address,
            threads: BTreeMap::new(),
            others: pair(),
        };
        let (sender, receiver) = crossbeam_channel::unbounded();
        for _ in 0..count {
            let (connector, overlapped) = (waiters.side.connector(), Overlapped::new());
            let asked = (waiters.listener).get_connection_request(&connector, &overlapped);
            let _ = asked.unwrap();
            let sender = sender.clone();
            let thread = std::thread::Builder::new().stack_size(256 * 1024);
            let thread = thread.spawn(move || {
                let _connector = connector;
                sender
                    .send(rustix::thread::gettid().as_raw_nonzero().get())
                    .unwrap();
                overlapped.wait()
            });
            let Ok(thread) = thread else {
                waiters.end(Status::CANCELED);
                return None;
            };
            waiters.threads.insert(receiver.recv().unwrap(), thread);
        }
        Some(waiters)
    }

    /// Exchanges a message on another adapter of the process.
    fn exchange(&self) {
        for _ in 0..5 {
            self.others.passive_qp.receive(1, &[]).unwrap();
            let flags = OpFlags::SILENT_SUCCESS;
            self.others.active_qp.send(2, &[], flags).unwrap();
            assert_eq!(self.others.passive.result().status, Status::SUCCESS);
        }
    }

    /// The number of times that each thread has run, or `None` if one does not sleep.
    fn runs(&self) -> Option<Runs> {
        let runs = self.threads.keys().map(|thread| {
            let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
            let field = |name: &str| {
                let mut lines = status.lines();
                lines
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::trim)
            };
            let count = |name| field(name)?.parse::<u64>().ok();
            let switches =
                count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?;
            field("State:")?
                .starts_with('S')
                .then_some((*thread, switches))
        });
        runs.collect()
    }

    /// Waits until all threads sleep, and stay asleep during other events.
    fn settled(&self) -> Runs {
        let begun = Instant::now();
        loop {
            let before = self.runs();
            self.exchange();
            let after = self.runs();
            if let Some(runs) = after
                && before.as_ref() == Some(&runs)
            {
                return runs;
            }
            assert!(begun.elapsed() < LONG, "idle threads do not sleep");
        }
    }

    /// The threads that have run since.
    fn ran_since(&self, before: &Runs) -> Vec<i32> {
        let now = self.settled();
        let ran = now
            .iter()
            .filter(|(thread, runs)| before.get(thread) != Some(runs));
        ran.map(|(thread, _)| *thread).collect()
    }

    /// Joins the threads whose requests have ended, and checks that all ended well. Returns their number.
    fn reap(&mut self) -> usize {
        let ended: Vec<i32> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.is_finished())
            .map(|(number, _)| *number)
            .collect();
        for number in &ended {
            let thread = self.threads.remove(number).unwrap();
            assert_eq!(thread.join().unwrap(), Status::SUCCESS);
        }
        ended.len()
    }

    /// All requests end, and all threads.
    fn end(mut self, status: Status) {
        self.listener.cancel_overlapped_requests().unwrap();
        for (_, thread) in std::mem::take(&mut self.threads) {
            assert_eq!(thread.join().unwrap(), status);
        }
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn idle_threads_sleep_and_an_arrival_wakes_one(count: usize) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(one) = Waiters::new(1) else {
        return skip("no thread can be started");
    };
    one.settled();
    let before = descriptors();
    one.end(Status::CANCELED);
    let Some(mut waiters) = Waiters::new(count) else {
        return skip("so many threads cannot be started");
    };
    let asleep = waiters.settled();
    assert!(
        descriptors() <= before + FEW,
        "{} descriptors",
        descriptors()
    );

    // No event concerns them.
    (0..4).for_each(|_| waiters.exchange());
    assert_eq!(
        waiters.runs(),
        Some(asleep.clone()),
        "an idle thread has run"
    );

    // Peers that are refused.
    for _ in 0..3 {
        let mut peer = raw::dial(waiters.address);
        peer.write_all(&[0; 20]).unwrap();
        peer.rest();
    }
    let ran = waiters.ran_since(&asleep);
    assert_eq!(ran.len(), 1, "of {count} threads, {ran:?} were woken");
    assert_eq!(waiters.reap(), 0);

    // A peer that is served: the thread in front is woken, and the one whose request ends.
    let active = Side::new();
    let asleep = waiters.settled();
    let _caller = Caller::new(&active, waiters.address, b"");
    let begun = Instant::now();
    while waiters.reap() == 0 {
        assert!(begun.elapsed() < LONG, "nobody was served");
        waiters.exchange();
    }
    let ran = waiters.ran_since(&asleep);
    assert!(
        ran.len() <= 1,
        "of {count} threads, {ran:?} were woken as well"
    );
    assert_eq!(waiters.reap(), 0);
    waiters.end(Status::CANCELED);
}

#[test]
fn a_hundred_idle_threads_sleep_and_an_arrival_wakes_one() {
    idle_threads_sleep_and_an_arrival_wakes_one(100);
}

#[test]
fn five_hundred_idle_threads_sleep_and_an_arrival_wakes_one() {
    idle_threads_sleep_and_an_arrival_wakes_one(500);
}

#[test]
fn two_thousand_idle_threads_sleep_and_an_arrival_wakes_one() {
    idle_threads_sleep_and_an_arrival_wakes_one(2000);
}
