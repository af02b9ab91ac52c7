//! Thousands of queue pairs on one completion queue: traffic on a few disturbs no others, and every request ends once.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Side, end, run};
use netdirect::{
    Affinity, CompletionResult, Connector, Listener, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, RequestType, Status,
};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Both ends of a connection are in this process and report to the one queue, so these are half as many connections.
const QUEUE_PAIRS: u64 = 10_000;

/// Receives that each queue pair is given.
const RECEIVES: u64 = 2;

/// What else the process has open.
const OTHER_FILES: u64 = 256;

/// As many queue pairs as are wanted and the system lets a process have sockets for.
fn possible() -> usize {
    let mut limits = getrlimit(Resource::Nofile);
    let needed = QUEUE_PAIRS + OTHER_FILES;
    if limits.current.is_some_and(|soft| soft < needed) {
        let most = limits.maximum.map_or(needed, |hard| hard.min(needed));
        limits.current = Some(most);
        setrlimit(Resource::Nofile, limits).expect("up to the hard limit is allowed");
    }
    let files = limits.current.unwrap_or(needed).min(needed);
    let count = files.saturating_sub(OTHER_FILES) & !1;
    println!("{count} queue pairs, {files} open files allowed for them");
    assert!(count > 0, "{files} open files are too few for anything");
    usize::try_from(count).expect("a small number")
}

/// A queue pair with all of its Receives, which bear its number.
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
}

/// Connects two new queue pairs, numbered `number` and `number + 1`.
fn connect(side: &Side, listener: &dyn Listener, number: usize) -> [End; 2] {
    let [active, passive] = [End::new(side, number), End::new(side, number + 1)];
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

/// How many Receives of each queue pair have ended in each way.
#[derive(Default)]
struct Ended {
    by_number: BTreeMap<u64, (u64, u64)>,
}

impl Ended {
    /// Takes what the queue holds: all of them Receives.
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
    let count = possible();
    let mut side = Side::new();
    let depth = side.adapter.query().unwrap().max_completion_queue_depth;
    side.cq = side
        .adapter
        .create_completion_queue(&side.file, depth, Affinity::default())
        .unwrap();
    let (listener, _) = side.listener(0);
    let ends: Vec<End> = (0..count)
        .step_by(2)
        .flat_map(|number| connect(&side, listener.as_ref(), number))
        .collect();
    assert_eq!(ends.len(), count);

    // One in 499, which is odd: both active and passive ends. Each sends to its peer.
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
    // However often it is asked, nothing more comes.
    (0..100).for_each(|_| assert_eq!(ended.take(&side), 0));

    // Every Receive that was posted ends, and ends once. The queue has room for all of them, and is not looked at
    // meanwhile: the adapter's own thread keeps away from a queue for a while after each look (docs/architecture.md).
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
