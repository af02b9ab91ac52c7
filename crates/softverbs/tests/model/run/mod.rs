//! One run: random calls, then an orderly end.

mod disturb;
mod events;
mod finish;
mod refused;
mod setup;

use std::sync::{Arc, Weak};
use std::time::Duration;

use softverbs::{
    Chance, CmEvent, CmId, CompletionQueue, Conditions, DeviceKind, Errno, EventChannel, Process,
    WorkCompletion, World,
};

use crate::connection::{Connection, Side};
use crate::end::{End, Ends, SharedReceives};
use crate::host::{Host, Listener, Queue};
use crate::random::Random;
use crate::seen::Seen;
use disturb::Cut;

/// The most connections that are not yet destroyed at both ends.
const CONNECTIONS: usize = 6;
/// The most connections of a run.
const ALL_CONNECTIONS: usize = 40;

/// More than the time that octets take across a network that is not cut.
const LATENCY: Duration = Duration::from_secs(5);

pub(crate) struct Run<'a> {
    random: Random,
    world: World,
    /// Of the two hosts, by their addresses. Devices of different kinds do not know each other.
    kinds: [DeviceKind; 2],
    over_udp: bool,
    /// The Reads that programs state each way.
    reads: u8,
    /// The hosts that have existed. `None` once their process has ended.
    hosts: Vec<Option<Host>>,
    /// The two hosts that exist, by their addresses.
    current: [usize; 2],
    processes: Vec<Weak<Process>>,
    listeners: Vec<Listener>,
    queues: Vec<Queue>,
    connections: Vec<Connection>,
    /// Events that the programs have not acknowledged, with their hosts.
    held: Vec<(usize, CmEvent)>,
    seen: &'a mut Seen,
    seed: u64,
    /// The network resets connections.
    breaks: bool,
    cut: Cut,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, seen: &mut Seen) {
    let mut run = Run::new(seed, seen);
    let steps = 150 + run.random.below(450);
    for _ in 0..steps {
        run.step();
    }
    run.finish();
}

/// Half of the networks lose, double, reorder and corrupt datagrams, which no connection notices.
fn spoil_datagrams(conditions: &mut Conditions, random: &mut Random) {
    if random.once_in(2) {
        return;
    }
    let mut chance = |most| Chance::per_million(u32::try_from(random.below(most)).unwrap());
    conditions.loss = chance(20_000);
    conditions.duplication = chance(100_000);
    conditions.reordering = chance(200_000);
    conditions.corruption = chance(20_000);
}

impl<'a> Run<'a> {
    fn new(seed: u64, seen: &'a mut Seen) -> Self {
        let mut random = Random(seed);
        let over_udp = random.once_in(5);
        let breaks = random.once_in(4) && !over_udp;
        let mut conditions = Conditions::default();
        let latency = Duration::from_micros(1 + random.below(2000));
        conditions.latency = latency..=latency * 2;
        let longest = 1 + usize::try_from(random.below(1500)).unwrap();
        conditions.segment = longest.div_ceil(10)..=longest;
        if breaks {
            conditions.reset = Chance::per_million(2000);
        }
        if over_udp {
            spoil_datagrams(&mut conditions, &mut random);
        }
        let kind = |random: &mut Random| match random.once_in(2) {
            true => DeviceKind::Roce,
            false => DeviceKind::Iwarp,
        };
        let first = kind(&mut random);
        let kinds = match random.once_in(3) {
            true => [first, kind(&mut random)],
            false => [first; 2],
        };
        // A device for RoCE states one at least. On others the Reads of programs without one would fail.
        let reads = match (random.below(4), kinds) {
            (0, [DeviceKind::Roce, DeviceKind::Roce]) => 0,
            (0 | 1, _) => 1,
            _ => 4,
        };
        let mut run = Self {
            world: World::new(seed, conditions),
            random,
            kinds,
            over_udp,
            reads,
            hosts: Vec::new(),
            current: [0; 2],
            processes: Vec::new(),
            listeners: Vec::new(),
            queues: Vec::new(),
            connections: Vec::new(),
            held: Vec::new(),
            seen,
            seed,
            breaks,
            cut: Cut::default(),
        };
        run.boot(0);
        run.boot(1);
        run
    }

    /// Starts a process on the host with this address.
    fn boot(&mut self, place: usize) {
        let last = u8::try_from(place).unwrap() + 1;
        let (kind, over_udp) = (self.kinds[place], self.over_udp);
        let host = Host::new(&self.world, last, kind, over_udp, &mut self.random);
        self.processes.push(Arc::downgrade(&host.process));
        self.current[place] = self.hosts.len();
        self.hosts.push(Some(host));
        for device in 0..2 {
            if self.random.once_in(3) {
                let queue = self.make_queue(self.current[place], device, 1000);
                self.host(self.current[place]).devices[device].queue = Some(queue);
            }
        }
        self.listen(place);
    }

    /// A process that has not ended.
    fn host(&mut self, host: usize) -> &mut Host {
        self.hosts[host]
            .as_mut()
            .expect("the process has not ended")
    }

    fn make_queue(&mut self, host: usize, device: usize, depth: u32) -> usize {
        let device = &self.host(host).devices[device];
        let channel = Some(&device.completions);
        let cq = CompletionQueue::create(&device.context, depth, channel).unwrap();
        cq.tag().set(self.queues.len() as u64);
        self.queues.push(Queue {
            host,
            cq: Some(cq),
            asked: 0,
            events: 0,
        });
        self.queues.len() - 1
    }

    fn pick(&mut self, count: usize) -> Option<usize> {
        match count {
            0 => None,
            _ => Some(usize::try_from(self.random.below(count as u64)).unwrap()),
        }
    }

    /// A side with an identifier for which `wanted` returns true.
    fn pick_side(
        &mut self,
        wanted: impl Fn(&Connection, usize, &Side) -> bool,
    ) -> Option<(usize, usize)> {
        let mut all = Vec::new();
        for (number, connection) in self.connections.iter().enumerate() {
            for (side, one) in connection.sides.iter().enumerate() {
                if wanted(connection, side, one) {
                    all.push((number, side));
                }
            }
        }
        self.pick(all.len()).map(|at| all[at])
    }

    fn side(&mut self, (number, side): (usize, usize)) -> &mut Side {
        &mut self.connections[number].sides[side]
    }

    fn id(&mut self, at: (usize, usize)) -> Arc<CmId> {
        let id = self.side(at).id.clone();
        id.expect("an identifier that exists")
    }

    fn time(&self) -> Duration {
        self.world.time()
    }

    fn step(&mut self) {
        self.pass_step();
        self.handle_events();
        let place = self.current[0];
        let idle = self.host(place).idle.clone();
        assert_eq!(idle.poll(&mut [WorkCompletion::default()]), 0);
        match self.random.below(32) {
            0..=1 => self.connect(),
            2 if self.random.once_in(5) => self.connect_often(),
            3..=5 => self.advance_one(),
            6..=10 => self.receive(),
            11 if self.random.once_in(12) => self.post_until_refused(),
            11..=15 => self.post(),
            16 => self.request_notification(),
            17 if self.random.once_in(6) => self.disconnect(),
            18 => self.refused(),
            19 if self.random.once_in(4) => self.destroy_one(),
            20 if self.random.once_in(4) => self.migrate(),
            21 => self.acknowledge_one(),
            22 if self.random.once_in(10) => self.change_listeners(),
            22 if self.random.once_in(3) => self.destroy_busy_listener(),
            23 if self.random.once_in(10) => self.disturb(),
            24 if self.random.once_in(20) => {
                let most = [10, 3000, 70_000][usize::try_from(self.random.below(3)).unwrap()];
                let time = Duration::from_millis(self.random.below(most));
                self.world.pass(time);
            }
            _ => drop(self.poll_all()),
        }
    }

    /// Acts on a random end of a connection that is established at both ends.
    fn with_end(
        &mut self,
        act: impl FnOnce(&mut End, &End, &mut Random, Option<&mut SharedReceives>, &mut Seen),
    ) {
        let picked = self.pick_side(|connection, _, one| {
            let [client, server] = &connection.sides;
            let is_at_both = client.established == 1 && server.established == 1;
            let have_ends = client.end.is_some() && server.end.is_some();
            let own = one.end.as_ref().and_then(|end| end.qp.as_ref());
            is_at_both && have_ends && own.is_some()
        });
        let Some((number, at)) = picked else {
            return;
        };
        let [client, server] = &mut self.connections[number].sides;
        let (own, peer) = match at {
            0 => (client, server),
            _ => (server, client),
        };
        let (Some(end), Some(peer)) = (&mut own.end, &peer.end) else {
            return;
        };
        let host = self.hosts[own.host].as_mut();
        let shared = host.and_then(|host| host.devices[own.device].receives.as_mut());
        let shared = shared.filter(|_| end.is_sharing);
        act(end, peer, &mut self.random, shared, self.seen);
        // If the peer is found not to take such a Send, the request fails, and the connection ends.
        let [one, other] = self.kinds;
        self.connections[number].may_break |= end.has_announced && one != other;
    }

    /// Devices for RoCE know each other, unless the network has reset the first attempt to connect, because the second one has MPA's
    /// revision 1, or has kept the peer's first FPDU back.
    fn knows_its_peers(&self) -> bool {
        let was_disturbed = self.breaks || self.cut.has_been();
        self.kinds == [DeviceKind::Roce; 2] && !was_disturbed
    }

    fn receive(&mut self) {
        let knows = self.knows_its_peers();
        self.with_end(|end, peer, random, shared, seen| {
            if random.once_in(2) {
                match shared {
                    Some(shared) => shared.post(seen),
                    None => end.post_receive(seen),
                };
            } else {
                end.post(random, peer, (knows, false), seen);
            }
        });
    }

    fn post(&mut self) {
        let knows = self.knows_its_peers();
        self.with_end(|end, peer, random, _, seen| {
            end.post(random, peer, (knows, false), seen);
        });
    }

    /// A program that posts until it is refused, and polls nothing meanwhile.
    fn post_until_refused(&mut self) {
        let knows = self.knows_its_peers();
        self.with_end(|end, peer, random, shared, seen| {
            let all_signaled = random.once_in(2);
            for _ in 0..40 {
                end.post(random, peer, (knows, all_signaled), seen);
            }
            match shared {
                Some(shared) => while shared.post(seen) {},
                None => while end.post_receive(seen) {},
            }
        });
    }

    fn request_notification(&mut self) {
        let Some(at) = self.pick(self.queues.len()) else {
            return;
        };
        let queue = &mut self.queues[at];
        if let Some(cq) = &queue.cq {
            cq.request_notification(self.random.once_in(2));
            queue.asked += 1;
        }
    }

    /// Polls every queue once. Returns the number of completions.
    fn poll_all(&mut self) -> usize {
        let mut count = 0;
        for at in 0..self.queues.len() {
            let Some(cq) = self.queues[at].cq.clone() else {
                continue;
            };
            let mut completions = [WorkCompletion::default(); 5];
            let taken = cq.poll(&mut completions);
            for completion in &completions[..taken] {
                self.completed(at, completion);
            }
            count += taken;
        }
        count
    }

    fn completed(&mut self, queue: usize, completion: &WorkCompletion) {
        let host = self.queues[queue].host;
        let kind = self.host(host).kind;
        let mut ends = self.connections.iter().enumerate().flat_map(|(at, one)| {
            let sides = one.sides.iter().enumerate();
            sides.map(move |(side, one)| (at, side, one))
        });
        let found = ends.find(|(_, _, one)| {
            let end = one.end.as_ref();
            one.host == host && end.is_some_and(|end| end.number == completion.qp_num)
        });
        let (number, side, _) = found.expect("a completion of a queue pair that was made");
        let [client, server] = &mut self.connections[number].sides;
        let (own, peer) = match side {
            0 => (client, server),
            _ => (server, client),
        };
        let end = own.end.as_mut().expect("found above");
        assert!(end.queues.contains(&queue), "a completion in another queue");
        let host = self.hosts[host].as_mut();
        let shared = host.and_then(|host| host.devices[own.device].receives.as_mut());
        let peer = peer.end.as_mut().map(End::view);
        let is_attempt = own.established == 0; // which ends its queue pair if it fails
        let ends = match kind {
            DeviceKind::Iwarp => Ends::Iwarp,
            DeviceKind::Roce if own.has_disconnected || own.id.is_none() || is_attempt => Ends::Own,
            DeviceKind::Roce => Ends::Peer,
        };
        end.check(completion, ends, peer, shared, self.seen);
    }

    /// Lets all events happen.
    fn settle(&mut self) {
        self.stop_disturbing();
        let place = self.current[0];
        let process = self.host(place).process.clone();
        let spare = EventChannel::create(&process).unwrap();
        loop {
            let before = self.handle_events() + self.poll_all();
            let waited = spare.get_event().unwrap_err();
            assert_eq!(waited.errno(), Errno::DEADLK, "{waited}");
            if before + self.handle_events() + self.poll_all() == 0 {
                return;
            }
        }
    }
}
