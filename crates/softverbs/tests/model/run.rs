//! One run: random calls, then an orderly end.

use std::sync::Arc;
use std::time::Duration;

use softverbs::{
    Chance, CmEvent, CmEventKind, CmId, CompletionChannel, CompletionQueue, Conditions,
    ConnParameters, Context, DeviceKind, Errno, EventChannel, NetworkInterface, Process,
    ProcessOptions, ProtectionDomain, SharedReceiveQueue, SrqAttributes, WorkCompletion, World,
};

use crate::end::{End, SharedReceives};
use crate::random::Random;

/// Counts of the situations that runs have met.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    established: u64,
    rejected: u64,
    broken: u64,
    received: u64,
    completed: u64,
    flushed: u64,
    events: u64,
    shared: u64,
}

impl Seen {
    /// Checks that the runs have met all situations.
    pub(crate) fn assert_whole(&self) {
        let Self {
            established,
            rejected,
            broken,
            received,
            completed,
            flushed,
            events,
            shared,
        } = self;
        for met in [
            established,
            rejected,
            broken,
            received,
            completed,
            flushed,
            events,
            shared,
        ] {
            assert!(*met > 0, "{self:?}");
        }
    }
}

struct Host {
    process: Arc<Process>,
    context: Arc<Context>,
    pd: Arc<ProtectionDomain>,
    channel: Arc<EventChannel>,
    completions: Arc<CompletionChannel>,
    shared: Option<SharedReceives>,
    listener: Arc<CmId>,
    /// A queue in which no request completes: a poll of it lets time pass.
    idle: Arc<CompletionQueue>,
}

impl Host {
    fn new(world: &World, number: u8, kind: DeviceKind, shares: bool) -> Self {
        let address = [10, 0, 0, number].into();
        let interface = NetworkInterface::simulated(number.into(), vec![address]);
        let mut options = ProcessOptions::default();
        options.kind = kind;
        let process = Process::simulated(world, vec![interface], options).unwrap();
        let context = Context::open(&process, &process.devices()[0]).unwrap();
        let pd = ProtectionDomain::allocate(&context).unwrap();
        let channel = EventChannel::create(&process).unwrap();
        let listener = CmId::create(&channel).unwrap();
        listener.bind((address, 0).into()).unwrap();
        listener.listen(0).unwrap();
        let attributes = SrqAttributes {
            max_wr: 16,
            max_sge: 1,
            limit: 0,
        };
        let srq = shares.then(|| SharedReceiveQueue::create(&pd, attributes).unwrap());
        Self {
            shared: srq.map(|srq| SharedReceives::new(&pd, srq)),
            idle: CompletionQueue::create(&context, 1, None).unwrap(),
            completions: CompletionChannel::create(&context).unwrap(),
            process,
            context,
            pd,
            channel,
            listener,
        }
    }
}

/// A connection: the client's side, then the server's.
struct Connection {
    client_host: usize,
    ids: [Option<Arc<CmId>>; 2],
    ends: [Option<End>; 2],
    established: [u32; 2],
    ended: [u32; 2],
    failed: u32,
    is_rejected: bool,
    /// A side has disconnected.
    is_over: bool,
}

struct Run<'a> {
    random: Random,
    hosts: [Host; 2],
    connections: Vec<Connection>,
    seen: &'a mut Seen,
    seed: u64,
    /// The network resets connections.
    breaks: bool,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, seen: &mut Seen) {
    let mut random = Random(seed);
    let breaks = random.once_in(4);
    let mut conditions = Conditions::default();
    let latency = Duration::from_micros(1 + random.below(2000));
    conditions.latency = latency..=latency * 2;
    let longest = 1 + usize::try_from(random.below(1500)).unwrap();
    conditions.segment = longest.div_ceil(10)..=longest;
    if breaks {
        conditions.reset = Chance::per_million(2000);
    }
    let world = World::new(seed, conditions);
    let kind = match random.once_in(2) {
        true => DeviceKind::Roce,
        false => DeviceKind::Iwarp,
    };
    let hosts = [1, 2].map(|number| Host::new(&world, number, kind, random.once_in(3)));
    let steps = 100 + random.below(300);
    let mut run = Run {
        random,
        hosts,
        connections: Vec::new(),
        seen,
        seed,
        breaks,
    };
    for _ in 0..steps {
        run.step();
    }
    run.settle();
    run.check_settled();
    run.end();
}

impl Run<'_> {
    fn step(&mut self) {
        self.handle_events();
        let idle = &self.hosts[0].idle;
        assert_eq!(idle.poll(&mut [WorkCompletion::default()]), 0);
        match self.random.below(20) {
            0 | 13 if self.connections.len() < 4 => self.connect(),
            1..=5 => self.with_end(
                |end, peer, random, shared| match (random.once_in(2), shared) {
                    (true, Some(shared)) => shared.post(),
                    (true, None) => end.post_receive(),
                    (false, _) => end.post(random, &peer.region),
                },
            ),
            // A program that posts until it is refused, and polls nothing meanwhile.
            6 if self.random.once_in(12) => self.with_end(|end, peer, random, shared| {
                for _ in 0..30 {
                    end.post(random, &peer.region);
                }
                let Some(shared) = shared else {
                    return (0..20).for_each(|_| end.post_receive());
                };
                (0..20).for_each(|_| shared.post());
            }),
            6..=10 => self.with_end(|end, peer, random, _| end.post(random, &peer.region)),
            11 => self.with_end(|end, _, random, _| {
                end.cq.request_notification(random.once_in(2));
            }),
            12 if self.random.once_in(6) => self.disconnect(),
            _ => drop(self.poll_all()),
        }
    }

    /// Acts on a random end of a connection that is at both ends.
    fn with_end(
        &mut self,
        act: impl FnOnce(&mut End, &End, &mut Random, Option<&mut SharedReceives>),
    ) {
        if self.connections.is_empty() {
            return;
        }
        let at = usize::try_from(self.random.below(self.connections.len() as u64)).unwrap();
        let side = usize::from(self.random.once_in(2));
        let connection = &mut self.connections[at];
        if connection.established != [1, 1] {
            return;
        }
        let host = connection.client_host ^ side;
        let [client, server] = &mut connection.ends;
        let (Some(client), Some(server)) = (client, server) else {
            return;
        };
        let (end, peer) = match side {
            0 => (client, server),
            _ => (server, client),
        };
        let shared = self.hosts[host].shared.as_mut();
        act(end, peer, &mut self.random, shared);
    }

    fn connect(&mut self) {
        let client_host = usize::from(self.random.once_in(2));
        let id = CmId::create(&self.hosts[client_host].channel).unwrap();
        let number = self.connections.len() as u64;
        id.tag().set(number * 2 + 1);
        let peer = self.hosts[1 - client_host].listener.local().unwrap();
        id.resolve_addr(None, peer).unwrap();
        self.connections.push(Connection {
            client_host,
            ids: [Some(id), None],
            ends: [None, None],
            established: [0; 2],
            ended: [0; 2],
            failed: 0,
            is_rejected: false,
            is_over: false,
        });
    }

    fn disconnect(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let at = usize::try_from(self.random.below(self.connections.len() as u64)).unwrap();
        let side = usize::from(self.random.once_in(2));
        let connection = &mut self.connections[at];
        if connection.established == [1, 1]
            && let Some(id) = &connection.ids[side]
        {
            id.disconnect().unwrap();
            connection.is_over = true;
        }
    }

    fn parameters(number: u64) -> ConnParameters {
        ConnParameters {
            private_data: number.to_be_bytes().to_vec(),
            responder_resources: 4,
            initiator_depth: 4,
            ..ConnParameters::default()
        }
    }

    fn make_end(&self, number: u64, side: usize, id: &CmId) -> End {
        let host = self.connections[usize::try_from(number).unwrap()].client_host ^ side;
        let Host {
            context,
            pd,
            completions,
            shared,
            ..
        } = &self.hosts[host];
        let seed = self.seed.wrapping_mul(100) + number * 2 + side as u64;
        End::new(context, pd, completions, id, shared.as_ref(), seed)
    }

    /// Handles all events that wait. Returns their number.
    fn handle_events(&mut self) -> usize {
        let mut count = 0;
        for host in 0..2 {
            while self.hosts[host].channel.has_event() {
                let event = self.hosts[host].channel.get_event().unwrap();
                self.handle(event);
                count += 1;
            }
            while self.hosts[host].completions.has_event() {
                let tag = self.hosts[host].completions.get_event().unwrap().tag();
                let ends = self
                    .connections
                    .iter()
                    .flat_map(|one| one.ends.iter().flatten());
                let mut of = ends.filter(|end| end.cq.tag().get() == tag);
                of.next()
                    .expect("the queue of an end")
                    .cq
                    .acknowledge_events(1);
                self.seen.events += 1;
                count += 1;
            }
        }
        count
    }

    fn handle(&mut self, event: CmEvent) {
        let id = event.id().clone();
        if event.kind() == CmEventKind::ConnectRequest {
            let octets = event.parameters().private_data.clone();
            event.acknowledge();
            return self.requested(&id, u64::from_be_bytes(octets.try_into().unwrap()));
        }
        let (number, side) = ((id.tag().get() - 1) / 2, (id.tag().get() - 1) % 2);
        let (at, side) = (
            usize::try_from(number).unwrap(),
            usize::try_from(side).unwrap(),
        );
        match event.kind() {
            CmEventKind::AddrResolved => id.resolve_route().unwrap(),
            CmEventKind::RouteResolved => {
                let end = self.make_end(number, 0, &id);
                self.connections[at].ends[0] = Some(end);
                id.connect(&Self::parameters(number)).unwrap();
            }
            CmEventKind::Established => {
                self.connections[at].established[side] += 1;
                self.seen.established += 1;
                if side == 0 {
                    let octets = &event.parameters().private_data;
                    assert_eq!(*octets, (!number).to_be_bytes());
                }
            }
            CmEventKind::Rejected => {
                let connection = &mut self.connections[at];
                connection.failed += 1;
                assert!(connection.is_rejected || self.breaks, "nobody has rejected");
                self.seen.rejected += 1;
            }
            CmEventKind::ConnectError | CmEventKind::Unreachable => {
                assert!(self.breaks, "{event:?}");
                self.connections[at].failed += u32::from(side == 0);
            }
            CmEventKind::Disconnected => {
                let connection = &mut self.connections[at];
                connection.ended[side] += 1;
                assert_eq!(connection.established[side], 1);
                assert!(connection.is_over || self.breaks, "nobody has disconnected");
                self.seen.broken += u64::from(!connection.is_over);
                id.disconnect().unwrap();
            }
            CmEventKind::TimewaitExit => {}
            other => panic!("{other:?}"),
        }
        event.acknowledge();
    }

    fn requested(&mut self, id: &Arc<CmId>, number: u64) {
        let at = usize::try_from(number).unwrap();
        id.tag().set(number * 2 + 2);
        if self.random.once_in(6) {
            self.connections[at].is_rejected = true;
            // The peer may have been reset meanwhile.
            assert!(id.reject(b"no").is_ok() || self.breaks);
            return;
        }
        let mut end = self.make_end(number, 1, id);
        let host = 1 - self.connections[at].client_host;
        if self.hosts[host].shared.is_none() {
            for _ in 0..self.random.below(8) {
                end.post_receive();
            }
        }
        self.connections[at].ends[1] = Some(end);
        self.connections[at].ids[1] = Some(id.clone());
        let accepted = id.accept(&ConnParameters {
            private_data: (!number).to_be_bytes().to_vec(),
            ..Self::parameters(number)
        });
        if let Err(error) = accepted {
            assert!(self.breaks, "{error}");
        }
    }

    /// Polls every queue once. Returns the number of completions.
    fn poll_all(&mut self) -> usize {
        let mut count = 0;
        for connection in &mut self.connections {
            let [client, server] = &mut connection.ends;
            let (Some(client), Some(server)) = (client, server) else {
                continue;
            };
            let [of_client, of_server] = {
                let [first, second] = &mut self.hosts;
                match connection.client_host {
                    0 => [first.shared.as_mut(), second.shared.as_mut()],
                    _ => [second.shared.as_mut(), first.shared.as_mut()],
                }
            };
            count += client.poll(&mut server.view(), of_client);
            count += server.poll(&mut client.view(), of_server);
        }
        count
    }

    /// Lets all events happen.
    fn settle(&mut self) {
        let spare = EventChannel::create(&self.hosts[0].process).unwrap();
        loop {
            let before = self.handle_events() + self.poll_all();
            let waited = spare.get_event().unwrap_err();
            assert_eq!(waited.errno(), Errno::DEADLK, "{waited}");
            if before + self.handle_events() + self.poll_all() == 0 {
                return;
            }
        }
    }

    /// No event is left: everything that should have happened has.
    fn check_settled(&self) {
        for connection in &self.connections {
            let Connection {
                established,
                failed,
                is_rejected,
                is_over,
                ends,
                ..
            } = connection;
            if self.breaks {
                continue;
            }
            let stands = [u32::from(!is_rejected); 2];
            assert_eq!((*established, *failed), (stands, u32::from(*is_rejected)));
            let [Some(client), Some(server)] = ends else {
                continue;
            };
            if *is_over {
                continue;
            }
            let is_quiet = client.sent.is_empty() && server.sent.is_empty();
            if is_quiet {
                assert_eq!((client.signaled_left(), server.signaled_left()), (0, 0));
            }
            for (side, (end, peer)) in [(client, server), (server, client)].into_iter().enumerate()
            {
                let host = connection.client_host ^ side;
                if self.hosts[host].shared.is_none() {
                    // A message of the other direction that waits holds up the answers to Reads, and requests behind a fence.
                    let is_free = end.sent.is_empty();
                    let waits = end.receives_posted() > 0 && !peer.sent.is_empty() && is_free;
                    assert!(!waits, "a message and a Receive have not met");
                }
            }
        }
    }

    /// Ends all connections, and checks that everything has ended once.
    fn end(&mut self) {
        for connection in &mut self.connections {
            if connection.established == [1, 1]
                && let Some(id) = &connection.ids[usize::from(self.random.once_in(2))]
            {
                connection.is_over = true;
                id.disconnect().unwrap();
            }
        }
        self.settle();
        for connection in &mut self.connections {
            for (side, end) in connection.ends.iter_mut().enumerate() {
                let Some(end) = end else {
                    continue;
                };
                assert!(connection.established[side] <= 1);
                assert_eq!(connection.ended[side], connection.established[side]);
                if connection.established[side] == 1 {
                    assert_eq!((end.signaled_left(), end.receives_posted()), (0, 0));
                }
                self.seen.received += end.received;
                self.seen.completed += end.completed;
                self.seen.flushed += end.flushed;
                let host = connection.client_host ^ side;
                self.seen.shared += u64::from(self.hosts[host].shared.is_some());
            }
        }
    }
}
