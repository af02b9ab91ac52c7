//! An endless stream of large messages, and small requests at the same time.

use std::sync::Arc;

use netdirect::{CompletionResult, OpFlags, RequestType, Status};
use softnd::Options;

use super::{ALL, Pair, Region, Side, connect, connect_through};

/// Octets of a message of the stream.
pub const BULK: usize = 256 * 1024;

/// Messages of the stream that are always under way: 4 MiB, several times what one visit to a stream may move.
pub const WINDOW: u64 = 16;

/// Small requests, one after the other.
pub const SMALL: usize = 64;

/// Messages of the stream that may pass one small request: as many as sockets of large buffers hold, and some more that
/// visits move. Without fairness there is no such number.
pub const MOST: u64 = 16 * WINDOW;

/// Messages that may pass a request while the system does not run the thread that handles it. A busy machine may do so with some of the
/// requests.
const FAR: u64 = 64 * MOST;

/// The contexts of requests.
pub const BULK_CONTEXT: u64 = 1;
pub const SMALL_CONTEXT: u64 = 2;

/// The operation by which the stream moves its data.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    Write,
    Send,
}

/// The thread that polls the receiving side of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The thread that polls the other side as well.
    Same,
    /// A thread with no other work.
    Other,
    /// No thread: the adapter's own thread makes all progress.
    Nobody,
}

/// Another handle of the same side.
pub fn same(side: &Side) -> Side {
    Side {
        adapter: Arc::clone(&side.adapter),
        file: Arc::clone(&side.file),
        cq: Arc::clone(&side.cq),
    }
}

/// Two connections between the same two sides.
pub struct Bench {
    pub bulk: Pair,
    small: Pair,
    source: Region,
    target: Region,
    stream: Stream,
    driver: Driver,
    /// Messages of the stream that are under way, and all that have been done.
    under_way: u64,
    done: u64,
    /// True while the stream continues.
    flows: bool,
    /// Small requests that have ended at the side that posted them, and at the other.
    small_done: [usize; 2],
}

impl Bench {
    pub fn new(options: &Options, stream: Stream, driver: Driver) -> Self {
        let passive = Side::with(options.clone());
        let apart = same(&passive);
        Self::between(options, stream, driver, [&passive, &apart])
    }

    /// The stream goes to the first of two sides of one adapter, small requests to the second one.
    pub fn between(options: &Options, stream: Stream, driver: Driver, passive: [&Side; 2]) -> Self {
        Self::from(&Side::with(options.clone()), stream, driver, passive)
    }

    /// As [`between`](Self::between), from this side.
    pub fn from(
        active: &Side,
        stream: Stream,
        driver: Driver,
        [passive, apart]: [&Side; 2],
    ) -> Self {
        let bulk = connect(same(active), same(passive), 1);
        let small = connect(same(active), same(apart), 1);
        Self::over(bulk, small, stream, driver)
    }

    /// Both connections go through one listener of the passive side.
    pub fn through_one_listener(
        active: &Side,
        stream: Stream,
        driver: Driver,
        passive: &Side,
    ) -> Self {
        let bulk = connect(same(active), same(passive), 1);
        let listener = Arc::clone(&bulk.listener);
        let address = listener.get_local_address().unwrap();
        let small = connect_through(
            same(active),
            same(passive),
            active.queue_pair(),
            1,
            (listener, address),
        );
        Self::over(bulk, small, stream, driver)
    }

    fn over(bulk: Pair, small: Pair, stream: Stream, driver: Driver) -> Self {
        let mut bench = Self {
            source: bulk.active.region(BULK, ALL),
            target: bulk.passive.region(BULK, ALL),
            bulk,
            small,
            stream,
            driver,
            under_way: 0,
            flows: true,
            done: 0,
            small_done: [0; 2],
        };
        (0..WINDOW).for_each(|_| bench.receive_bulk());
        bench.fill();
        bench
    }

    fn receive_bulk(&self) {
        let sink = [self.target.sge(0, BULK)];
        self.bulk.passive_qp.receive(BULK_CONTEXT, &sink).unwrap();
    }

    /// Keeps the stream from ending.
    fn fill(&mut self) {
        let data = [self.source.sge(0, BULK)];
        let (qp, flags) = (&self.bulk.active_qp, OpFlags::empty());
        while self.flows && self.under_way < WINDOW {
            match self.stream {
                Stream::Write => qp.write(BULK_CONTEXT, &data, self.target.remote(0), flags),
                Stream::Send => qp.send(BULK_CONTEXT, &data, flags),
            }
            .unwrap();
            self.under_way += 1;
        }
    }

    /// Takes the results of the completion queues that this thread polls, once.
    fn poll(&mut self) {
        let mut results = [CompletionResult::default(); 16];
        let taken = self.bulk.active.cq.get_results(&mut results);
        for result in &results[..taken] {
            assert_eq!(result.status, Status::SUCCESS, "{result:?}");
            match (result.request_context, self.stream) {
                (SMALL_CONTEXT, _) => self.small_done[0] += 1,
                (_, Stream::Write) => self.passed(),
                // A Send is done when its octets are handed over; it has passed when it has been received.
                (_, Stream::Send) => {}
            }
        }
        let taken = match self.driver {
            Driver::Same => self.bulk.passive.cq.get_results(&mut results),
            Driver::Other | Driver::Nobody => 0,
        };
        for result in &results[..taken] {
            assert_eq!(result.status, Status::SUCCESS, "{result:?}");
            assert_eq!(result.request_type, RequestType::Receive, "{result:?}");
            if result.request_context == SMALL_CONTEXT {
                self.small_done[1] += 1;
            } else {
                self.receive_bulk();
                self.passed();
            }
        }
        self.fill();
    }

    /// Stops the stream, or lets it continue.
    pub fn set_flowing(&mut self, flows: bool) {
        self.flows = flows;
        let before = self.done;
        while if flows {
            self.done - before < WINDOW
        } else {
            self.under_way > 0
        } {
            self.poll();
        }
    }

    /// The number of messages of the stream that have passed.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Polls until a small Read into and from this memory has ended.
    pub fn read(&mut self, [here, there]: [&Region; 2]) {
        let (from, data) = (there.remote(0), [here.sge(0, 8)]);
        let read = (self.small.active_qp).read(SMALL_CONTEXT, &data, from, OpFlags::empty());
        read.unwrap();
        let [active, passive] = self.small_done;
        self.await_small([active + 1, passive]);
    }

    fn passed(&mut self) {
        self.under_way -= 1;
        self.done += 1;
    }

    /// Polls until this many small requests have ended at each side. Returns the number of messages of the stream that have passed
    /// meanwhile.
    fn await_small(&mut self, wanted: [usize; 2]) -> u64 {
        let before = self.done;
        while self.small_done != wanted {
            self.poll();
            let passed = self.done - before;
            assert!(
                passed <= FAR,
                "{passed} of the stream's {:?}s have passed a small request: {:?} of {wanted:?} are done",
                self.stream,
                self.small_done
            );
        }
        self.done - before
    }
}

/// Makes requests of 8 octets, one at a time, while the stream flows.
pub fn small_requests_get_through(bench: &mut Bench) {
    let here = bench.small.active.region(8, ALL);
    let there = bench.small.passive.region(8, ALL);
    let (data, sink) = ([here.sge(0, 8)], [there.sge(0, 8)]);
    // The stream flows before anything else happens.
    while bench.done < WINDOW {
        bench.poll();
    }
    let mut wanted = [0, 0];
    let mut passed = Vec::new();
    for at in 0..SMALL {
        let (active, passive) = (&bench.small.active_qp, &bench.small.passive_qp);
        let flags = OpFlags::empty();
        if at % 2 == 0 && bench.driver == Driver::Same {
            passive.receive(SMALL_CONTEXT, &sink).unwrap();
            active.send(SMALL_CONTEXT, &data, flags).unwrap();
            wanted[1] += 1;
        } else {
            let from = there.remote(0);
            active.read(SMALL_CONTEXT, &data, from, flags).unwrap();
        }
        wanted[0] += 1;
        passed.push(bench.await_small(wanted));
    }
    passed.sort_unstable();
    println!(
        "{:?}, {:?}: so many messages of the stream passed a small request: {passed:?}",
        bench.stream, bench.driver
    );
    assert!(passed[SMALL * 3 / 4] <= MOST, "{passed:?}");
    // The small requests have not stopped the stream.
    let before = bench.done;
    while bench.done < before + WINDOW {
        bench.poll();
    }
}

pub fn without_crc() -> Options {
    Options::default().crc(false)
}
