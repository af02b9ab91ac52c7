//! Many queue pairs over one QUIC connection whose receivers take nothing: an empty shared receive queue, and completion queues that are
//! not polled. They hold as much as fits into their windows, and the last queue pair continues to work.
#![cfg(feature = "udp")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::common::{ALL, LONG, Region, Side, child, end, idle, now, run};
use netdirect::{
    Affinity, CompletionQueue, CompletionResult, Connector, Listener, OpFlags, Overlapped,
    QueuePair, QueuePairOptions, RequestType, SharedReceiveQueue, SharedReceiveQueueOptions,
    Status,
};
use softnd::Options;

/// Queue pairs that are stalled: `SOFTND_STALLED` in the environment, or 40, which hold more than 160 MiB.
fn stalled() -> usize {
    let stalled = std::env::var("SOFTND_STALLED");
    stalled.map_or(40, |stalled| {
        stalled.parse().expect("a number of queue pairs")
    })
}

/// The length of their messages, in octets.
const MESSAGE: usize = 64 * 1024;

/// Messages for each of them: more than a stream has room for, including its sender's buffers.
const MESSAGES: usize = 80;

/// Messages that fit into the window of a stream, with their headers.
const IN_WINDOW: usize = 63;

/// Messages that the sender may take beyond that.
const AHEAD: usize = 6;

/// Memory that the process may use for this many stalled queue pairs, in octets: twice the size of the stalled messages.
const fn most(stalled: usize) -> usize {
    2 * stalled * (IN_WINDOW + AHEAD) * MESSAGE
}

/// Octets of one Write on the last queue pair.
const WRITE: usize = 1024 * 1024;

/// Writes that are outstanding at once.
const DEPTH: usize = 32;

struct Connection {
    active: Arc<dyn QueuePair>,
    passive: Arc<dyn QueuePair>,
    _connectors: [Arc<dyn Connector>; 2],
}

/// Connects two new queue pairs.
fn connect(
    sides: &[Side; 2],
    listener: &dyn Listener,
    pair: [Arc<dyn QueuePair>; 2],
) -> Connection {
    let connectors = [sides[0].connector(), sides[1].connector()];
    let address = listener.get_local_address().unwrap();
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&connectors[1], &arrives);
    let connecting = connectors[0].connect(&pair[0], address, 1, 1, b"", &connects);
    end(arrival, &arrives).unwrap();
    let accepting = connectors[1].accept(&pair[1], 1, 1, b"", &accepts);
    end(connecting, &connects).unwrap();
    run(|overlapped| connectors[0].complete_connect(overlapped)).unwrap();
    end(accepting, &accepts).unwrap();
    let [active, passive] = pair;
    Connection {
        active,
        passive,
        _connectors: connectors,
    }
}

fn queue(side: &Side, depth: usize) -> Arc<dyn CompletionQueue> {
    let depth = u32::try_from(depth).unwrap();
    let queue = (side.adapter).create_completion_queue(&side.file, depth, Affinity::default());
    queue.unwrap()
}

/// Two adapters over UDP with stalled queue pairs.
struct Crowd {
    sides: [Side; 2],
    listener: Arc<dyn Listener>,
    /// The shared receive queue of the passive queue pairs.
    srq: Arc<dyn SharedReceiveQueue>,
    /// The results of the active queue pairs, and of the passive ones.
    queues: [Arc<dyn CompletionQueue>; 2],
    connections: Vec<Connection>,
    source: Region,
    sink: Region,
    /// Messages that each active queue pair has sent.
    sent: Vec<usize>,
}

impl Crowd {
    fn new(stalled: usize) -> Self {
        let side = || {
            let adapter = softnd::open("softnd+udp://127.0.0.1", Options::default());
            Side::on_adapter(adapter.unwrap())
        };
        let sides = [side(), side()];
        let (listener, _) = sides[1].listener(0);
        let requests = stalled.max(1) * MESSAGES;
        let queues = [&sides[0], &sides[1]].map(|side| queue(side, requests));
        let sizes = SharedReceiveQueueOptions::default()
            .queue_depth(u32::try_from(requests).unwrap())
            .max_request_sge(1);
        let srq = (sides[1].adapter).create_shared_receive_queue(&sides[1].file, sizes);
        let mut crowd = Self {
            srq: srq.unwrap(),
            source: sides[0].region(MESSAGE, ALL),
            sink: sides[1].region(MESSAGE, ALL),
            connections: Vec::new(),
            sent: vec![0; stalled],
            sides,
            listener,
            queues,
        };
        crowd.connections = (0..stalled).map(|number| crowd.connect(number)).collect();
        crowd
    }

    fn connect(&self, number: usize) -> Connection {
        let options = QueuePairOptions::default()
            .initiator_queue_depth(u32::try_from(MESSAGES).unwrap())
            .context(number as u64);
        let [active, passive] = &self.sides;
        let queue = &self.queues[0];
        let qp = active.adapter.create_queue_pair(queue, queue, options);
        let queue = &self.queues[1];
        let adapter = &passive.adapter;
        let peer = adapter.create_queue_pair_with_srq(queue, queue, &self.srq, options);
        let pair = [qp.unwrap(), peer.unwrap()];
        connect(&self.sides, self.listener.as_ref(), pair)
    }

    /// Connects two queue pairs that are not stalled.
    fn last(&self) -> Connection {
        let pair = [self.sides[0].queue_pair(), self.sides[1].queue_pair()];
        connect(&self.sides, self.listener.as_ref(), pair)
    }

    /// Makes all senders send until their windows are full.
    fn stall(&mut self) {
        let sge = self.source.sge(0, MESSAGE);
        for connection in &self.connections {
            for _ in 0..MESSAGES {
                connection.active.send(0, &[sge], OpFlags::empty()).unwrap();
            }
        }
        let begun = now();
        while self.sent.iter().any(|sent| *sent < IN_WINDOW) {
            self.take_sent();
            assert!(now() - begun < LONG, "{:?}", self.sent);
        }
    }

    /// Takes the results of the senders.
    fn take_sent(&mut self) {
        let mut results = [CompletionResult::default(); 64];
        let taken = self.queues[0].get_results(&mut results);
        for result in &results[..taken] {
            assert_eq!(result.status, Status::SUCCESS, "{result:?}");
            self.sent[usize::try_from(result.queue_pair_context).unwrap()] += 1;
        }
        if taken == 0 {
            idle();
        }
    }

    fn assert_stalled(&mut self) {
        self.take_sent();
        let expected = IN_WINDOW..=IN_WINDOW + AHEAD;
        let is_stalled = self.sent.iter().all(|sent| expected.contains(sent));
        assert!(is_stalled, "{:?}", self.sent);
    }

    /// Posts Receives for all messages, which then arrive.
    fn resume(&mut self) {
        let (sge, all) = (self.sink.sge(0, MESSAGE), self.connections.len() * MESSAGES);
        (0..all).for_each(|_| self.srq.receive(0, &[sge]).unwrap());
        let mut received = vec![0; self.connections.len()];
        let begun = now();
        while received.iter().sum::<usize>() < all {
            self.take_sent();
            let mut results = [CompletionResult::default(); 64];
            let taken = self.queues[1].get_results(&mut results);
            for result in &results[..taken] {
                assert_eq!(result.request_type, RequestType::Receive);
                assert_eq!(result.status, Status::SUCCESS, "{result:?}");
                received[usize::try_from(result.queue_pair_context).unwrap()] += 1;
            }
            assert!(now() - begun < LONG, "{received:?}");
        }
        assert!(received.iter().all(|count| *count == MESSAGES));
        while self.sent.iter().any(|sent| *sent < MESSAGES) {
            self.take_sent();
            assert!(now() - begun < LONG, "{:?}", self.sent);
        }
    }
}

/// Writes this many times on a queue pair, and waits for the results.
fn write(side: &Side, qp: &dyn QueuePair, [from, to]: [&Region; 2], count: usize) {
    let (mut begun, mut ended) = (0, 0);
    let mut results = [CompletionResult::default(); DEPTH];
    let started = now();
    while ended < count {
        while begun < count && begun - ended < DEPTH {
            let at = begun % DEPTH * WRITE;
            let written = qp.write(0, &[from.sge(at, WRITE)], to.remote(at), OpFlags::empty());
            written.unwrap();
            begun += 1;
        }
        let taken = side.cq.get_results(&mut results);
        for result in &results[..taken] {
            assert_eq!(result.status, Status::SUCCESS, "{result:?}");
        }
        ended += taken;
        assert!(now() - started < LONG, "{ended} of {count} are written");
    }
}

/// The memory of this process, in octets.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = size.and_then(|size| size.trim().strip_suffix(" kB"));
    kibibytes.unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn stalled_queue_pairs_do_not_take_the_window_of_the_last_one() {
    if !child::is_alone() {
        return child::passes(
            "stalled::stalled_queue_pairs_do_not_take_the_window_of_the_last_one",
            |_| {},
        );
    }
    let stalled = stalled();
    let mut crowd = Crowd::new(stalled);
    let last = crowd.last();
    let [active, passive] = crowd.sides.clone();
    let regions = [&active, &passive].map(|side| side.region(DEPTH * WRITE, ALL));
    let before = resident();
    crowd.stall();
    for round in 1..=2_u8 {
        regions[0].buffer.fill(round);
        write(
            &active,
            last.active.as_ref(),
            [&regions[0], &regions[1]],
            DEPTH,
        );
        last.passive.receive(1, &[]).unwrap();
        last.active.send(2, &[], OpFlags::SILENT_SUCCESS).unwrap();
        assert_eq!(passive.result().status, Status::SUCCESS);
        let mut written = vec![0; WRITE];
        for at in 0..DEPTH {
            regions[1].buffer.read(at * WRITE, &mut written);
            assert!(written.iter().all(|octet| *octet == round));
        }
    }
    crowd.assert_stalled();
    let grown = resident().saturating_sub(before);
    assert!(grown < most(stalled), "{} MiB", grown >> 20);
    crowd.resume();
}

/// Queue pairs that are stalled while the rate is measured.
const MEASURED: usize = 100;

/// Turns of each side, and Writes in a turn.
const TURNS: usize = 201;
const WRITES: usize = 64;

/// The rate with stalled queue pairs against the rate without, by separate adapters that take turns: `cargo make stalled-udp`.
#[test]
#[ignore = "measures, and needs a quiet machine and a release build"]
fn the_rate_beside_a_hundred_stalled_queue_pairs() {
    let mut crowds = [Crowd::new(MEASURED), Crowd::new(0)];
    let lasts = crowds.each_ref().map(Crowd::last);
    let regions = crowds.each_ref().map(|crowd| {
        crowd
            .sides
            .each_ref()
            .map(|side| side.region(DEPTH * WRITE, ALL))
    });
    let sides = crowds.each_ref().map(|crowd| crowd.sides.clone());
    crowds[0].stall();
    // The number of the side whose turn it is.
    let turn = AtomicUsize::new(0);
    let mut rates = [const { Vec::new() }; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some([_, passive]) = sides.get(turn.load(Ordering::Relaxed)) {
                let mut results = [CompletionResult::default(); 1];
                assert_eq!(passive.cq.get_results(&mut results), 0);
            }
        });
        for number in 0..2 * TURNS {
            let at = number % 2;
            turn.store(at, Ordering::Relaxed);
            let [from, to] = &regions[at];
            let begun = Instant::now();
            write(&sides[at][0], lasts[at].active.as_ref(), [from, to], WRITES);
            let rate = (WRITES * WRITE) as f64 / begun.elapsed().as_secs_f64();
            // The first turns warm up.
            if number > 1 {
                rates[at].push(rate);
            }
        }
        turn.store(usize::MAX, Ordering::Relaxed);
    });
    let [crowd, _] = &mut crowds;
    crowd.assert_stalled();
    let ratios = rates[0].iter().zip(&rates[1]);
    let ratio = median(ratios.map(|(beside, alone)| beside / alone).collect());
    let [beside, alone] = rates.map(|rates| median(rates) / f64::from(1 << 20));
    println!(
        "beside {MEASURED} stalled queue pairs {beside:.0} MiB/s, alone {alone:.0} MiB/s, ratio {ratio:.3}"
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
