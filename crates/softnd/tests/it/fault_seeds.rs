//! Arbitrary fault plans in simulated networks. Under every plan, nothing panics or hangs, and each request ends exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, ALL, Side};
use netdirect::{
    Adapter, Affinity, CompletionResult, Connector, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, RemoteAddress, Result, Started, Status,
};
use softnd::Options;
use softnd::simulation::Simulation;

/// The random number generator SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn choice<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// A rule. Plans refuse some of these rules.
    fn rule(&mut self) -> String {
        const WHICH: [&str; 6] = ["1st", "2nd", "3rd", "each", "every other", "from 2nd on"];
        const KINDS: [&str; 11] = [
            "MPA Request",
            "MPA Reply",
            "RTR",
            "Write",
            "Read Request",
            "Read Response",
            "Send",
            "Immediate Data",
            "Terminate",
            "message",
            "FPDU",
        ];
        const CALLS: [&str; 4] = ["Register", "CreateQueuePair", "CreateConnector", "Any"];
        let (which, inner) = (self.choice(&WHICH), self.choice(&WHICH));
        let (kind, call, way) = (
            self.choice(&KINDS),
            self.choice(&CALLS),
            self.choice(&["sent", "received"]),
        );
        let event = match self.below(16) {
            0 => format!("{which} connect"),
            1 => format!("{which} accept"),
            2 => format!("{which} completion"),
            3 => format!("{which} {call} called"),
            4..8 => format!("{inner} FPDU of {which} {kind} {way}"),
            _ => format!("{which} {kind} {way}"),
        };
        let (bit, field) = (
            self.below(150),
            self.choice(&["length", "header", "payload", "CRC"]),
        );
        let action = match self.below(12) {
            0 => "reset".to_owned(),
            1 => "close".to_owned(),
            2 => "hold".to_owned(),
            3 | 4 => format!("hold for {} ms", self.below(50)),
            5 | 6 => format!("flip bit {bit} of {field}"),
            7 => format!("flip bit {bit} of {field} with good CRC"),
            8 => "refuse".to_owned(),
            9 => "fail with ND_NO_MEMORY".to_owned(),
            10 => "break queue with ND_INTERNAL_ERROR".to_owned(),
            _ => "remove device".to_owned(),
        };
        let place = match self.below(2) {
            0 => String::new(),
            _ => format!(" after octet {}", self.below(100)),
        };
        format!("when {event}: {action}{place}")
    }

    /// A plan of a few rules that plans do not refuse.
    fn plan(&mut self) -> String {
        let mut plan = String::new();
        let mut left = self.below(4);
        while left > 0 {
            let rule = self.rule();
            if rule.parse::<softnd::faults::Plan>().is_ok() {
                plan += &rule;
                plan += "\n";
                left -= 1;
            }
        }
        plan
    }
}

fn side(simulation: &Simulation, host: u8, plan: &str) -> Result<Side> {
    // A plan may hold a connection for ever, and Connect itself has no limit.
    let options = Options::default()
        .timeouts(|limits| limits.reply = Some(Duration::from_secs(120)))
        .faults(plan.parse().unwrap())
        .unwrap();
    let adapter: Arc<dyn Adapter> = simulation.open([10, 0, 0, host], options)?;
    let file = adapter.create_overlapped_file()?;
    let cq = adapter.create_completion_queue(&file, 256, Affinity::default())?;
    Ok(Side { adapter, file, cq })
}

/// One end of the connection and its results.
struct End {
    side: Side,
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
    region: common::Region,
    posted: u64,
    /// The number of times that each request has ended.
    ended: BTreeMap<u64, u32>,
}

impl End {
    fn new(side: Side) -> Result<Self> {
        let sizes = QueuePairOptions::default()
            .receive_queue_depth(16)
            .initiator_queue_depth(16);
        let qp = side.adapter.create_queue_pair(&side.cq, &side.cq, sizes)?;
        let connector = side.adapter.create_connector(&side.file)?;
        let region = side.adapter.create_memory_region(&side.file)?;
        let (buffer, done) = (netdirect::Buffer::new(8192), Overlapped::new());
        let started = region.register(&buffer, ALL, &done)?;
        if started == Started::Pending && done.wait() != Status::SUCCESS {
            return Err(done.wait().into());
        }
        let region = common::Region { buffer, region };
        Ok(Self {
            side,
            qp,
            connector,
            region,
            posted: 0,
            ended: BTreeMap::new(),
        })
    }

    fn post(&mut self, post: impl FnOnce(&Self, u64) -> Result<()>) {
        if post(self, self.posted).is_ok() {
            self.posted += 1;
        }
    }

    fn collect(&mut self) {
        let mut results = [CompletionResult::default(); 16];
        loop {
            let taken = self.side.cq.get_results(&mut results);
            for result in &results[..taken] {
                *self.ended.entry(result.request_context).or_default() += 1;
            }
            if taken == 0 {
                return;
            }
        }
    }
}

/// Waits for the end of a request that has to end. The wait is longer than every time limit of the adapter.
fn ends(what: &str, started: Result<Started>, overlapped: &Overlapped) -> Status {
    match started {
        Ok(Started::Done) => Status::SUCCESS,
        Ok(Started::Pending) => {
            let ended = overlapped.wait_timeout(Duration::from_secs(1000));
            ended.unwrap_or_else(|| panic!("{what} does not end"))
        }
        Err(error) => error.status(),
    }
}

/// Connects. Returns true if the connection was established.
fn connect(active: &End, passive: &End) -> Result<bool> {
    let listener = passive.side.adapter.create_listener(&passive.side.file)?;
    listener.bind("10.0.0.2:7174".parse().unwrap())?;
    listener.listen(4)?;
    let [arrives, connects, accepts, completes] = [(); 4].map(|()| Overlapped::new());
    let address = listener.get_local_address()?;
    let arrival = listener.get_connection_request(&passive.connector, &arrives);
    let connecting = active
        .connector
        .connect(&active.qp, address, 4, 4, &[], &connects);
    while arrival.is_ok() && connecting.is_ok() && arrives.is_pending() && connects.is_pending() {
        let _ = connects.wait_timeout(Duration::from_millis(10));
    }
    let arrived = arrival.is_ok() && !arrives.is_pending() && arrives.wait() == Status::SUCCESS;
    let accepting = match arrived {
        true => passive.connector.accept(&passive.qp, 4, 4, &[], &accepts),
        false => {
            listener.cancel_overlapped_requests()?;
            Ok(Started::Done)
        }
    };
    let connected = ends("Connect", connecting, &connects) == Status::SUCCESS;
    let completed = connected && {
        let completing = active.connector.complete_connect(&completes);
        ends("CompleteConnect", completing, &completes) == Status::SUCCESS
    };
    if !completed {
        let _ = active.connector.cancel_overlapped_requests();
    }
    let accepted = ends("Accept", accepting, &accepts) == Status::SUCCESS;
    Ok(completed && arrived && accepted)
}

/// Posts one request of each kind.
fn post_all(end: &mut End, remote: RemoteAddress, reads: bool) {
    let none = OpFlags::empty();
    end.post(|end, context| end.qp.receive(context, &[end.region.sge(0, 64)]));
    let source = |end: &End| [end.region.sge(0, 2500)];
    end.post(|end, context| end.qp.write(context, &source(end), remote, none));
    end.post(|end, context| end.qp.send(context, &[end.region.sge(0, 64)], none));
    if reads {
        let sink = |end: &End| [end.region.sge(64, 2000)];
        end.post(|end, context| end.qp.read(context, &sink(end), remote, none));
    }
}

fn exchange(active: &mut End, passive: &mut End) {
    for round in 0..4 {
        let (here, there) = (active.region.remote(4096), passive.region.remote(4096));
        post_all(active, there, round % 2 == 0);
        post_all(passive, here, round % 2 == 0);
        active.collect();
        passive.collect();
    }
}

/// The outcome of a run.
#[derive(Debug, Default)]
struct Run {
    connected: bool,
    faults: u64,
}

fn run(seed: u64) -> Result<Run> {
    let mut random = Random(seed);
    let plans = [random.plan(), random.plan()];
    // Shown when the run fails.
    println!("seed {seed}\nactive:\n{}passive:\n{}", plans[0], plans[1]);
    let simulation = Simulation::new(seed);
    let mut active = End::new(side(&simulation, 1, &plans[0])?)?;
    let mut passive = End::new(side(&simulation, 2, &plans[1])?)?;
    if !connect(&active, &passive)? {
        return Ok(Run::default());
    }
    exchange(&mut active, &mut passive);
    // Polls that find nothing move the clock.
    let until = simulation.time() + Duration::from_secs(5);
    for _ in 0..2000 {
        active.collect();
        passive.collect();
        if simulation.time() >= until {
            break;
        }
    }
    for end in [&active, &passive] {
        let done = Overlapped::new();
        let _ = ends("Disconnect", end.connector.disconnect(&done), &done);
    }
    for (end, plan) in [(&mut active, &plans[0]), (&mut passive, &plans[1])] {
        end.collect();
        for (context, times) in &end.ended {
            assert_eq!(*times, 1, "request {context}");
        }
        let whole = ["completion", "break queue", "remove device"];
        if !whole.iter().any(|word| plan.contains(word)) {
            assert_eq!(end.ended.len() as u64, end.posted, "each request has ended");
        }
    }
    let counters = [&active, &passive].map(|end| end.side.adapter.extensions().unwrap().counters());
    let faults = counters
        .iter()
        .map(|counters| counters.total("faults"))
        .sum();
    let connected = true;
    Ok(Run { connected, faults })
}

/// The number of seeds that are tried: `SOFTND_FAULT_SEEDS` in the environment, or 400.
fn seeds() -> u64 {
    let seeds = std::env::var("SOFTND_FAULT_SEEDS");
    seeds.map_or(400, |seeds| seeds.parse().expect("a number of seeds"))
}

#[test]
fn arbitrary_plans_neither_hang_nor_lose_requests() {
    // Runs in which the plan has failed a call end early, and are left out.
    let runs: Vec<_> = (0..seeds()).filter_map(|seed| run(seed).ok()).collect();
    let connected = runs.iter().filter(|run| run.connected).count();
    let faulty = runs.iter().filter(|run| run.faults > 0).count();
    println!(
        "{} runs, {connected} connected, {faulty} of them with faults",
        runs.len()
    );
    assert!(connected > runs.len() / 2 && faulty > runs.len() / 10);
}
