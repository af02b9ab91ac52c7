//! The side that runs the test: it connects.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nd_base::errors::Result;
use nd_base::session::{Endpoint, Setup};
use netdirect::{RemoteAddress, Sge, Status};

use super::traffic::{self, Traffic};
use super::vitals::{Growth, Stopwatch};
use super::{Crowd, LIMITS, LONGEST_IDLE, Site, Sites, bare, succeed};
use crate::perf::client::Client;
use crate::perf::control::{Control, not_understood};
use crate::perf::lane::{Lane, Memory, gone};
use crate::perf::link::{announcement, private_data, setup};
use crate::perf::messages::{ControlRequest, CrowdOffer, Key, TurnConnection};
use crate::perf::outcome::{Compared, Comparison, Measured};
use crate::perf::pace::{Pace, UNLIMITED};
use crate::perf::plan::{Baseline, Plan, STEPS};
use crate::perf::spec::Spec;

/// Measures a row about many connections.
pub(in crate::perf) fn run(
    control: &mut Control,
    spec: &Spec,
    plan: &Plan,
    measured: &mut Measured,
    progress: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let destination = control.peer()?;
    // Without delay, because the other side does not wait long for unknown peers.
    control.say(&announcement(spec, plan.choices()))?;
    let Sites { many, alone } = Sites::new(spec, plan.choices(), spec.receives, |setup| {
        setup.towards(destination).map(|(session, _)| session)
    })?;
    let memory_of_traffic = traffic::memory(&many.crowd.session, spec)?;
    let offer: CrowdOffer = control.expect()?;
    measured.peer_receives = Some(offer.receives);
    let at = |port| Target {
        address: SocketAddr::new(destination.ip(), port),
        key: offer.key,
    };
    let traffic = match memory_of_traffic {
        Some(memory) => {
            let there = offer.traffic.ok_or_else(not_understood)?;
            Some(Traffic::new(memory, RemoteAddress::from_bytes(there)))
        }
        None => None,
    };
    let mut run = Run {
        target: at(offer.many),
        traffic,
        control,
        spec,
        plan,
        measured,
        progress,
        times: Vec::new(),
        reached: false,
    };
    let Site { mut crowd, memory } = many;
    match alone {
        Some(alone) => {
            let target = at(offer.alone.ok_or_else(not_understood)?);
            run.scale(&mut crowd, memory, alone, target)?;
        }
        None => {
            let compared = match plan.baseline {
                Some(Baseline::Tcp) => Some(OtherSetUps::Bare(at(offer.bare).address)),
                Some(Baseline::OverTcp) => {
                    let port = run.control.ask(&ControlRequest::OverTcp)?;
                    let spec = spec.over_tcp();
                    let setup = setup(&spec, plan.choices())?;
                    let open = |setup: &Setup| Ok(setup.towards(destination)?.0);
                    let site = Site::new(&spec, &setup, spec.receives, 1, open)?;
                    Some(OtherSetUps::OverTcp(Box::new(site.crowd), at(port)))
                }
                Some(Baseline::Quic | Baseline::Plain) | None => None,
            };
            run.setup(&mut crowd, &memory, compared.as_ref())?;
        }
    }
    // The other side's connections end together with these, and not while that side waits for a line.
    run.control.ask(&ControlRequest::End)
}

/// The set-ups with which those of a row take turns.
enum OtherSetUps {
    /// Of bare sockets, at this address.
    Bare(SocketAddr),
    /// Of another adapter, over TCP also within one machine.
    OverTcp(Box<Crowd>, Target),
}

/// The address to connect to, and the key by which the other side knows the connections.
#[derive(Clone, Copy)]
struct Target {
    address: SocketAddr,
    key: Key,
}

impl Target {
    /// Connects. With `sink` its own receive queue is full, as that of a connection in use.
    fn connect(&self, crowd: &Crowd, sink: Option<[Sge; 1]>) -> Result<Endpoint> {
        let Self { address, key } = *self;
        let endpoint = crowd.endpoint(crowd.session.connector()?)?;
        if let Some(sink) = sink {
            crowd.fill(&endpoint, sink)?;
        }
        match endpoint.connect(None, address, LIMITS, &private_data(key, None))? {
            Status::SUCCESS => {}
            status => return Err(endpoint.not_connected(address, status)),
        }
        succeed("complete the connection", endpoint.complete_connect()?)?;
        Ok(endpoint)
    }
}

struct Run<'a> {
    control: &'a mut Control,
    spec: &'a Spec,
    plan: &'a Plan,
    measured: &'a mut Measured,
    progress: &'a dyn Fn() -> Result<()>,
    target: Target,
    /// What the idle connections move first.
    traffic: Option<Traffic>,
    times: Vec<u64>,
    /// Whether a connection was possible.
    reached: bool,
}

impl Run<'_> {
    /// Measures the cost of idle connections.
    fn scale(
        &mut self,
        crowd: &mut Crowd,
        memory: Memory,
        alone: Site,
        target: Target,
    ) -> Result<()> {
        // Everything that the process needs once is allocated before the many connections come.
        self.control.say(&ControlRequest::Alone)?;
        let endpoint = target.connect(&alone.crowd, Some(alone.memory.sink()?.slot(0)))?;
        self.control.expect::<()>()?;
        let mut one = self.client(endpoint, alone.memory);
        let mut pace_of_one = self.warm_up(&mut one, TurnConnection::Alone)?;

        self.gather(crowd, &memory)?;
        self.idle()?;

        let mut member = self.client(crowd.take_middle()?, memory);
        let mut pace = self.warm_up(&mut member, TurnConnection::Tested)?;
        let mut compared = Compared::new(Comparison::Alone);
        for _ in 0..self.plan.turns {
            let ended = self
                .count(&mut member, &mut pace, TurnConnection::Tested)
                .map(|elapsed| {
                    self.measured
                        .ours
                        .add(elapsed.0, elapsed.1, &mut self.times)
                })
                .and_then(|()| self.count(&mut one, &mut pace_of_one, TurnConnection::Alone))
                .map(|elapsed| compared.side.add(elapsed.0, elapsed.1, &mut self.times));
            let ended = ended.and_then(|()| (self.progress)());
            if ended.is_err() {
                self.measured.best = Some(compared);
                return ended;
            }
        }
        self.measured.best = Some(compared);
        self.control.ask::<()>(&ControlRequest::Verify)?;
        member.verify()?;
        one.verify()
    }

    fn client(&self, endpoint: Endpoint, memory: Memory) -> Client {
        let lane = Lane::over(endpoint, self.spec, self.plan.timeout.into());
        Client::new(lane, memory, *self.spec, RemoteAddress::default())
    }

    /// Makes the connections that will be idle.
    fn gather(&mut self, crowd: &mut Crowd, memory: &Memory) -> Result<()> {
        let connections = self.spec.connections;
        let sink = memory.sink()?.slot(0);
        let growth = Growth::start();
        self.control.say(&ControlRequest::Crowd)?;
        let mut shown = 0;
        for made in 1..=u64::from(connections) {
            let endpoint = self.target.connect(crowd, Some(sink));
            let endpoint = self.explain(endpoint)?;
            self.measured.transports.add(endpoint.connector.transport());
            crowd.members.push(endpoint);
            while shown < made * STEPS / u64::from(connections) {
                (self.progress)()?;
                shown += 1;
            }
        }
        if let Some(traffic) = &self.traffic {
            traffic.move_on_each(crowd, self.control, self.plan.timeout.into())?;
        }
        // The other side waits until the connections are quiet.
        let there = self.control.expect()?;
        self.measured.costs.memory = [growth.per(connections), there];
        Ok(())
    }

    /// If connections were possible and are not any more, the other side is gone.
    fn explain<T>(&mut self, done: Result<T>) -> Result<T> {
        let reached = std::mem::replace(&mut self.reached, true);
        done.map_err(|failure| {
            if reached && !failure.is_ours() && failure.nd_status().is_some() {
                gone()
            } else {
                failure
            }
        })
    }

    /// Does nothing for a while; neither does the other side.
    fn idle(&mut self) -> Result<()> {
        let time = self.plan.idle.min(LONGEST_IDLE);
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.control
            .say(&ControlRequest::Idle(milliseconds.max(1)))?;
        self.control.expect_go()?;
        let watch = Stopwatch::start();
        let there = self.control.expect_done()?;
        self.measured.costs.cpu = [watch.share(), there];
        (0..STEPS).try_for_each(|_| (self.progress)())
    }

    /// Has the other side begin a turn.
    fn begin(&mut self, count: u64, over: TurnConnection) -> Result<()> {
        self.control.say(&ControlRequest::Turn { count, over })?;
        self.control.expect_go()
    }

    /// One turn of messages.
    fn turn(&mut self, client: &mut Client, count: u64, over: TurnConnection) -> Result<Duration> {
        self.times.clear();
        self.begin(count, over)?;
        let elapsed = client.turn(count, &mut self.times)?;
        self.control.expect_done::<()>()?;
        Ok(elapsed)
    }

    fn warm_up(&mut self, client: &mut Client, over: TurnConnection) -> Result<Pace> {
        Pace::find(self.plan.length, 16, 1..=UNLIMITED, |count| {
            self.turn(client, count, over)
        })
    }

    /// A turn that counts: its messages and how long they took.
    fn count(
        &mut self,
        client: &mut Client,
        pace: &mut Pace,
        over: TurnConnection,
    ) -> Result<(u64, Duration)> {
        let count = pace.count;
        let elapsed = self.turn(client, count, over)?;
        pace.learn(elapsed);
        Ok((count, elapsed))
    }

    /// Measures how fast connections come and go, in turns with others if they are to be compared.
    fn setup(
        &mut self,
        crowd: &mut Crowd,
        memory: &Memory,
        others: Option<&OtherSetUps>,
    ) -> Result<()> {
        if self.spec.connections > 0 {
            self.gather(crowd, memory)?;
        }
        let mut pace = self.pace_of_setup(|run, count| run.come_and_go(crowd, count))?;
        let mut compared = None;
        if let Some(others) = others {
            let pace = self.pace_of_setup(|run, count| run.others_come_and_go(others, count))?;
            self.measured.best = Some(Compared::new(match others {
                OtherSetUps::Bare(_) => Comparison::Tcp,
                OtherSetUps::OverTcp(..) => Comparison::OverTcp,
            }));
            compared = Some((pace, others));
        }
        for _ in 0..self.plan.turns {
            let elapsed = self.come_and_go(crowd, pace.count)?;
            self.measured.ours.add(pace.count, elapsed, &mut []);
            pace.learn(elapsed);
            if let Some((pace, others)) = &mut compared {
                let elapsed = self.others_come_and_go(others, pace.count)?;
                if let Some(best) = &mut self.measured.best {
                    best.side.add(pace.count, elapsed, &mut []);
                }
                pace.learn(elapsed);
            }
            (self.progress)()?;
        }
        Ok(())
    }

    fn pace_of_setup(
        &mut self,
        mut turn: impl FnMut(&mut Self, u64) -> Result<Duration>,
    ) -> Result<Pace> {
        Pace::find(self.plan.length, 1, 1..=UNLIMITED, |count| {
            turn(self, count)
        })
    }

    /// Connects and disconnects this many times, until the last connection is gone at both sides.
    fn come_and_go(&mut self, crowd: &Crowd, count: u64) -> Result<Duration> {
        self.begin(count, TurnConnection::Tested)?;
        let begun = Instant::now();
        for _ in 0..count {
            let connected = self.target.connect(crowd, None);
            let done = connected.and_then(|endpoint| {
                self.measured.transports.add(endpoint.connector.transport());
                succeed("disconnect", endpoint.disconnect()?)
            });
            self.explain(done)?;
        }
        self.control.expect_done::<()>()?;
        Ok(begun.elapsed())
    }

    /// The same with the connections of the comparison.
    fn others_come_and_go(&mut self, others: &OtherSetUps, count: u64) -> Result<Duration> {
        let (crowd, target) = match others {
            OtherSetUps::Bare(address) => return self.come_and_go_bare(*address, count),
            OtherSetUps::OverTcp(crowd, target) => (crowd, target),
        };
        self.begin(count, TurnConnection::Plain)?;
        let begun = Instant::now();
        for _ in 0..count {
            let endpoint = target.connect(crowd, None)?;
            succeed("disconnect", endpoint.disconnect()?)?;
        }
        self.control.expect_done::<()>()?;
        Ok(begun.elapsed())
    }

    /// Connects and disconnects bare sockets.
    fn come_and_go_bare(&mut self, address: SocketAddr, count: u64) -> Result<Duration> {
        self.begin(count, TurnConnection::Bare)?;
        let begun = Instant::now();
        (0..count).try_for_each(|_| bare::come_and_go(address, self.target.key))?;
        self.control.expect_done::<()>()?;
        Ok(begun.elapsed())
    }
}
