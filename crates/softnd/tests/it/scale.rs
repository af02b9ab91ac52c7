//! Thousands of queue pairs on one completion queue, and on one shared receive queue with fewer Receives than queue pairs. Traffic on
//! a few queue pairs does not disturb the others, and every request ends once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{ALL, LONG, Region, Side, child, end, idle, now, run};
use netdirect::{
    Affinity, CompletionResult, Connector, Listener, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, RequestType, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};

/// The number of queue pairs of the test. Both ends of each connection are in this process and use the same completion queue.
const QUEUE_PAIRS: u64 = 10_000;

/// Receives that each queue pair is given.
const RECEIVES: u64 = 2;

/// The number of other descriptors that the process has open.
const OTHER_FILES: u64 = 256;

/// Lets the process have `needed` descriptors, or as many as the system allows, and returns their number.
#[cfg(unix)]
fn descriptors(needed: u64) -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limits = getrlimit(Resource::Nofile);
    if limits.current.is_some_and(|soft| soft < needed) {
        let most = limits.maximum.map_or(needed, |hard| hard.min(needed));
        limits.current = Some(most);
        setrlimit(Resource::Nofile, limits).expect("up to the hard limit is allowed");
    }
    limits.current.unwrap_or(needed).min(needed)
}

/// On Windows there is no such limit.
#[cfg(windows)]
fn descriptors(needed: u64) -> u64 {
    needed
}

/// The number of queue pairs that the test makes: fewer than wanted if the system allows the process fewer sockets.
fn possible() -> usize {
    let files = descriptors(QUEUE_PAIRS + OTHER_FILES);
    let count = files.saturating_sub(OTHER_FILES) & !1;
    println!("{count} queue pairs, {files} open files allowed for them");
    assert!(count > 0, "{files} open files are too few for anything");
    usize::try_from(count).expect("a small number")
}

/// A side with a completion queue for the results of all queue pairs.
fn with_deep_queue(mut side: Side) -> Side {
    let depth = side.adapter.query().unwrap().max_completion_queue_depth;
    side.cq = side
        .adapter
        .create_completion_queue(&side.file, depth, Affinity::default())
        .unwrap();
    side
}

/// A queue pair with all of its Receives, which have its number.
struct End {
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
}

impl End {
    fn new(side: &Side, number: usize) -> Self {
        let options = QueuePairOptions::default()
            .receive_queue_depth(16)
            .initiator_queue_depth(16);
        let qp = side.adapter.create_queue_pair(&side.cq, &side.cq, options);
        let qp = qp.unwrap();
        (0..RECEIVES).for_each(|_| qp.receive(number as u64, &[]).unwrap());
        let connector = side.connector();
        Self { qp, connector }
    }

    /// A queue pair that takes its Receives from a shared receive queue. Its context is its number.
    fn sharing(side: &Side, srq: &Arc<dyn SharedReceiveQueue>, number: usize) -> Self {
        let options = QueuePairOptions::default()
            .initiator_queue_depth(16)
            .inline_data_size(8)
            .context(number as u64);
        let (adapter, cq) = (&side.adapter, &side.cq);
        let qp = adapter.create_queue_pair_with_srq(cq, cq, srq, options);
        Self {
            qp: qp.unwrap(),
            connector: side.connector(),
        }
    }
}

/// Connects two new queue pairs.
fn connect(listener: &dyn Listener, [active, passive]: [End; 2]) -> [End; 2] {
    let address = listener.get_local_address().unwrap();
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&passive.connector, &arrives);
    let connecting = active
        .connector
        .connect(&active.qp, address, 1, 1, b"", &connects);
    end(arrival, &arrives).unwrap();
    let accepting = passive.connector.accept(&passive.qp, 1, 1, b"", &accepts);
    end(connecting, &connects).unwrap();
    run(|overlapped| active.connector.complete_connect(overlapped)).unwrap();
    end(accepting, &accepts).unwrap();
    [active, passive]
}

/// Ends a connection at both of its ends.
fn disconnect(active: &dyn Connector, passive: &dyn Connector) {
    let ends = Overlapped::new();
    let ending = active.disconnect(&ends);
    run(|overlapped| passive.notify_disconnect(overlapped)).unwrap();
    run(|overlapped| passive.disconnect(overlapped)).unwrap();
    end(ending, &ends).unwrap();
}

/// The number of Receives of each queue pair that have ended in each way.
#[derive(Default)]
struct Ended {
    by_number: BTreeMap<u64, (u64, u64)>,
}

impl Ended {
    /// Takes the results in the queue, all of them of Receives.
    fn take(&mut self, side: &Side) -> usize {
        let mut results = [CompletionResult::default(); 64];
        let taken = side.cq.get_results(&mut results);
        for result in &results[..taken] {
            assert_eq!(result.request_type, RequestType::Receive, "{result:?}");
            let (received, canceled) = self.by_number.entry(result.request_context).or_default();
            match result.status {
                Status::SUCCESS => *received += 1,
                Status::CANCELED => *canceled += 1,
                _ => panic!("{result:?}"),
            }
        }
        taken
    }
}

#[test]
fn a_few_of_thousands_are_served_and_all_others_are_silent() {
    if !child::is_alone() {
        return child::passes(
            "scale::a_few_of_thousands_are_served_and_all_others_are_silent",
            |_| {},
        );
    }
    let count = possible();
    let side = with_deep_queue(Side::new());
    let (listener, _) = side.listener(0);
    let ends: Vec<End> = (0..count)
        .step_by(2)
        .flat_map(|number| {
            let both = [number, number + 1].map(|number| End::new(&side, number));
            connect(listener.as_ref(), both)
        })
        .collect();
    assert_eq!(ends.len(), count);

    // One queue pair in 499 sends to its peer. 499 is odd, so these are active and passive ends.
    let busy: Vec<usize> = (0..count).step_by(499).collect();
    let peer = |number: usize| (number ^ 1) as u64;
    let mut ended = Ended::default();
    let mut results = side.cq.get_results(&mut [CompletionResult::default(); 1]);
    assert_eq!(results, 0, "nothing was sent");
    for number in &busy {
        for _ in 0..RECEIVES {
            let sent = ends[*number].qp.send(0, &[], OpFlags::SILENT_SUCCESS);
            sent.unwrap();
        }
    }
    let wanted = busy.len() * usize::try_from(RECEIVES).unwrap();
    while results < wanted {
        results += ended.take(&side);
    }
    let expected: BTreeMap<u64, (u64, u64)> = busy
        .iter()
        .map(|number| (peer(*number), (RECEIVES, 0)))
        .collect();
    assert_eq!(ended.by_number, expected);
    // Further polls find nothing.
    (0..100).for_each(|_| assert_eq!(ended.take(&side), 0));

    // Every Receive that was posted ends once. The queue has room for all results, and is not polled meanwhile, because
    // the background thread leaves a queue alone for a while after each poll (docs/internals/progress.md).
    for pair in ends.chunks_exact(2) {
        disconnect(pair[0].connector.as_ref(), pair[1].connector.as_ref());
    }
    drop(ends);
    while ended.take(&side) > 0 {}
    assert_eq!(ended.by_number.len(), count);
    for (number, (received, canceled)) in &ended.by_number {
        let all = if expected.contains_key(number) {
            RECEIVES
        } else {
            0
        };
        assert_eq!((*received, *canceled), (all, RECEIVES - all), "{number}");
    }
}

/// The number of Receives that the queue pairs of a side share.
const SHARED: usize = 4096;

/// Octets of a message: the number of the queue pair that sent it.
const LENGTH: usize = 8;

/// A side whose queue pairs have their Receives from one queue. The context of a Receive is its place in the buffer.
struct Pool {
    side: Side,
    srq: Arc<dyn SharedReceiveQueue>,
    places: Region,
    /// Receives that are posted.
    posted: Vec<bool>,
}

impl Pool {
    fn new(side: Side, depth: usize) -> Self {
        let sizes = SharedReceiveQueueOptions::default()
            .queue_depth(u32::try_from(depth).unwrap())
            .max_request_sge(1);
        let srq = side.adapter.create_shared_receive_queue(&side.file, sizes);
        let mut pool = Self {
            srq: srq.unwrap(),
            places: side.region(depth * LENGTH, ALL),
            side,
            posted: vec![false; depth],
        };
        (0..depth).for_each(|place| pool.post(place));
        pool
    }

    fn post(&mut self, place: usize) {
        let was_posted = std::mem::replace(&mut self.posted[place], true);
        assert!(!was_posted, "{place} was never drawn");
        let sge = self.places.sge(place * LENGTH, LENGTH);
        self.srq.receive(place as u64, &[sge]).unwrap();
    }

    /// Takes the results in the completion queue: Receives with the message of the peer of the queue pair that drew them, which are
    /// counted. Posts each again.
    fn take(&mut self, received: &mut [u64]) -> usize {
        let mut results = [CompletionResult::default(); 64];
        let taken = self.side.cq.get_results(&mut results);
        for result in &results[..taken] {
            assert_eq!(result.request_type, RequestType::Receive, "{result:?}");
            assert_eq!(result.status, Status::SUCCESS, "{result:?}");
            assert_eq!(result.bytes_transferred as usize, LENGTH, "{result:?}");
            let place = usize::try_from(result.request_context).unwrap();
            let was_posted = std::mem::replace(&mut self.posted[place], false);
            assert!(was_posted, "{place} has ended twice: {result:?}");
            let mut data = [0; LENGTH];
            self.places.buffer.read(place * LENGTH, &mut data);
            let sender = u64::from_le_bytes(data);
            assert_eq!(sender, result.queue_pair_context ^ 1, "{result:?}");
            received[usize::try_from(sender).unwrap()] += 1;
            self.post(place);
        }
        taken
    }
}

/// Connected queue pairs of two sides, or of one side that has both ends of each connection. Those with even numbers are active.
struct Shared {
    pools: Vec<Pool>,
    ends: Vec<End>,
    /// The number of messages that have arrived from each queue pair.
    received: Vec<u64>,
}

impl Shared {
    fn new(sides: Vec<Side>, count: usize, depth: usize) -> Self {
        let pools: Vec<_> = sides
            .into_iter()
            .map(|side| Pool::new(side, depth))
            .collect();
        let [active, passive] = [&pools[0], &pools[pools.len() - 1]];
        let (listener, _) = passive.side.listener(0);
        let ends = (0..count).step_by(2).flat_map(|number| {
            let both = [(active, number), (passive, number + 1)]
                .map(|(pool, number)| End::sharing(&pool.side, &pool.srq, number));
            connect(listener.as_ref(), both)
        });
        Self {
            ends: ends.collect(),
            pools,
            received: vec![0; count],
        }
    }

    fn send(&self, number: usize) {
        let data = (number as u64).to_le_bytes();
        let sent = self.ends[number]
            .qp
            .send_inline(0, &[&data], OpFlags::SILENT_SUCCESS);
        sent.unwrap();
    }

    fn take(&mut self) -> usize {
        let pools = self.pools.iter_mut();
        pools.map(|pool| pool.take(&mut self.received)).sum()
    }

    /// Takes this many messages, and finds that no more arrive.
    fn take_all(&mut self, wanted: usize) {
        let mut taken = 0;
        let mut heard = now();
        while taken < wanted {
            match self.take() {
                0 if now() - heard > LONG => panic!("{taken} of {wanted} have come"),
                0 => idle(),
                some => {
                    taken += some;
                    heard = now();
                }
            }
        }
        assert_eq!(taken, wanted);
        (0..100).for_each(|_| assert_eq!(self.take(), 0));
    }

    /// Some queue pairs send several messages each, and then all send one: more than there are Receives.
    fn exchange(&mut self) {
        assert_eq!(self.take(), 0, "nothing was sent");
        let count = self.ends.len();
        let mut expected = vec![0; count];
        let busy: Vec<usize> = (0..count).step_by((count / 20) | 1).collect();
        for number in &busy {
            (0..10).for_each(|_| self.send(*number));
            expected[*number] = 10;
        }
        self.take_all(busy.len() * 10);
        assert_eq!(self.received, expected);

        (0..count).for_each(|number| self.send(number));
        self.take_all(count);
        expected.iter_mut().for_each(|messages| *messages += 1);
        assert_eq!(self.received, expected);
        let mut posted = self.pools.iter().flat_map(|pool| &pool.posted);
        assert!(posted.all(|posted| *posted));
    }
}

/// SRQ-027: a queue pair that finds the queue empty is served when Receives are posted again.
#[test]
fn srq_027_thousands_share_fewer_receives_and_each_message_completes_once() {
    if !child::is_alone() {
        return child::passes(
            "scale::srq_027_thousands_share_fewer_receives_and_each_message_completes_once",
            |_| {},
        );
    }
    Shared::new(vec![with_deep_queue(Side::new())], possible(), SHARED).exchange();
}

/// The number of connections that the test over UDP makes, unless `SOFTND_CONNECTIONS` in the environment gives another one.
#[cfg(all(feature = "udp", target_os = "linux"))]
const CONNECTIONS: usize = 2000;

/// The UDP sockets of this process, and all of its descriptors.
#[cfg(all(feature = "udp", target_os = "linux"))]
fn sockets() -> (usize, usize) {
    let table = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let of_all: std::collections::BTreeSet<String> = table
        .lines()
        .skip(1)
        .filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(9)?)))
        .collect();
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let files = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    files.fold((0, 0), |(udp, all), file| {
        let is_udp = file.to_str().is_some_and(|name| of_all.contains(name));
        (udp + usize::from(is_udp), all + 1)
    })
}

/// All connections of two adapters over UDP share one socket of each. The sockets are counted in proc(5).
#[cfg(all(feature = "udp", target_os = "linux"))]
#[test]
fn thousands_over_one_udp_socket_are_all_served_and_each_message_completes_once() {
    if !child::is_alone() {
        return child::passes(
            "scale::thousands_over_one_udp_socket_are_all_served_and_each_message_completes_once",
            |_| {},
        );
    }
    let wanted = std::env::var("SOFTND_CONNECTIONS");
    let connections = wanted.map_or(CONNECTIONS, |wanted| wanted.parse().unwrap());
    let side = || {
        let adapter = softnd::open("softnd+udp://127.0.0.1", softnd::Options::default());
        with_deep_queue(Side::on_adapter(adapter.unwrap()))
    };
    let sides = vec![side(), side()];
    let begun = now();
    let mut shared = Shared::new(sides, 2 * connections, connections / 4);
    println!("{connections} connections in {:?}", now() - begun);
    let (udp, all) = sockets();
    assert_eq!(udp, 2);
    let others = usize::try_from(OTHER_FILES).unwrap();
    assert!(all < others, "{all} descriptors");
    shared.exchange();
    println!("with all messages {:?}", now() - begun);
    assert_eq!(sockets().0, 2);
}
