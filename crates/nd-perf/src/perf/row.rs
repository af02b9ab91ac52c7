//! One row at the side that runs the tests: connect, check, warm up, measure in alternating turns.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nd_base::errors::{Failure, Result};
use nd_base::interrupt::Interrupt;
use nd_base::memory;
use nd_base::session::Session;
use netdirect::{RemoteAddress, Status};

use super::affinity::{self, ProcessRole};
use super::bare::BareStream;
use super::client::Client;
use super::control::{Control, not_understood};
use super::lane::{Lane, Memory};
use super::limit::SilenceLimit;
use super::link::{
    Choices, LIMIT, SYSTEMS_OWN, announcement, bare_socket, choose_congestion, congestion,
    private_data, setup,
};
use super::many;
use super::messages::{ControlRequest, Key, QuicOffer, RowOffer, TurnConnection};
use super::outcome::{Compared, Comparison, Measured, Outcome};
use super::pace::{Pace, UNLIMITED};
use super::plan::{Baseline, Plan};
use super::quic::QuicStream;
use super::spec::{MAX_QUIET, Mode, Receives, SPARE, Spec};
use super::stats::{SideTurns, median};
use super::wire::{Exchange, WHOLE, Wire};
use crate::cores::{self, Watch};

/// How long a run waits before a row for cores that the host has moved away from each other, unless the plan allows less silence.
const PATIENCE_BEFORE: Duration = Duration::from_secs(60);
/// The time limit within a row, with all its connections.
const PATIENCE_WITHIN: Duration = Duration::from_secs(20);

/// Waits before a row until the cores are as near to each other as usual, if the plan says so.
pub(super) fn await_cores(plan: &Plan) -> Result<()> {
    if let (Some(usual), Some(cores)) = (plan.usual, cores::allowed().first_chunk()) {
        let interrupt = Interrupt::watch();
        let mut patience = PATIENCE_BEFORE.min(plan.timeout);
        cores::await_near(*cores, usual, &mut patience, || interrupt.check())?;
    }
    Ok(())
}

/// Measures a row. If an error occurs after turns were measured, both the results of the turns and the error are returned.
/// `progress` is called for every turn, and may end the row by a failure.
pub(super) fn measure(
    control: &mut Control,
    spec: &Spec,
    plan: &Plan,
    progress: &dyn Fn() -> Result<()>,
) -> (Outcome, Result<()>) {
    let mut measured = Measured::new();
    let done = attempt(control, spec, plan, &mut measured, progress);
    let done = done.map_err(|failure| {
        if failure.is_ours() {
            control.give_up(&failure);
            return failure;
        }
        // The error of this side may only be a consequence of the other side's.
        control.last_words().unwrap_or(failure)
    });
    (measured.outcome(spec, done.is_ok()), done)
}

fn attempt(
    control: &mut Control,
    spec: &Spec,
    plan: &Plan,
    measured: &mut Measured,
    progress: &dyn Fn() -> Result<()>,
) -> Result<()> {
    affinity::place(spec, ProcessRole::Client);
    if spec.is_of_connections() {
        return many::run(control, spec, plan, measured, progress);
    }
    let mut run = Run::connect(control, spec, plan, measured)?;
    run.check()?;
    let mut ours = run.turn_taker(Way::Tested)?;
    let best = match plan.baseline {
        Some(Baseline::Tcp | Baseline::Quic) => run.best()?.map(Way::Bare),
        Some(Baseline::Plain | Baseline::OverTcp) => Some(Way::Plain),
        None => None,
    };
    measured.best = best.map(|best| run.compared(best));
    let mut theirs = best.map(|best| run.turn_taker(best)).transpose()?;
    let own = run.systems_own(best)?;
    measured.own = own.map(|own| run.compared(own));
    let mut own = own.map(|own| run.turn_taker(own)).transpose()?;
    for _ in 0..plan.turns {
        let ways = [Some(&mut ours), theirs.as_mut(), own.as_mut()];
        run.take_turns(ways, &mut measured.cores)?;
        ours.count(&mut measured.ours);
        if let (Some(way), Some(compared)) = (&mut theirs, &mut measured.best) {
            way.count(&mut compared.side);
        }
        if let (Some(way), Some(compared)) = (&mut own, &mut measured.own) {
            way.count(&mut compared.side);
        }
        progress()?;
    }
    run.verify()?;
    run.control.ask(&ControlRequest::End)
}

/// A bare connection, and the size of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BareConnection {
    wire: usize,
    write: usize,
}

/// The connection that carries the messages of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The connection under test.
    Tested,
    /// A second connection of the adapter, with other choices: Receives of each queue pair's own and memory at the best place, or over TCP
    /// within one machine.
    Plain,
    /// A bare connection.
    Bare(BareConnection),
}

/// One side of the comparison, how many messages fill a turn of it, and its last turn.
struct TurnTaker {
    way: Way,
    pace: Pace,
    messages: u64,
    elapsed: Duration,
    times: Vec<u64>,
}

impl TurnTaker {
    /// Has the last turn count.
    fn count(&mut self, side: &mut SideTurns) {
        side.add(self.messages, self.elapsed, &mut self.times);
    }
}

/// A connection over RDMA, with an adapter that no other connection uses.
struct Connected {
    client: Client,
    _session: Session,
}

/// A row that is connected.
struct Run<'a> {
    tested: Connected,
    plain: Option<Connected>,
    control: &'a mut Control,
    wires: Vec<Wire>,
    plan: Plan,
    spec: Spec,
    times: Vec<u64>,
    /// How long the row may still wait for cores that the host has moved away from each other.
    patience: Duration,
}

impl<'a> Run<'a> {
    /// Announces the row and makes its connections.
    fn connect(
        control: &'a mut Control,
        spec: &Spec,
        plan: &Plan,
        measured: &mut Measured,
    ) -> Result<Self> {
        let choices = plan.choices();
        let announcement = announcement(spec, choices);
        let (tested, offer) = connect(control, spec, choices, spec.receives, &announcement)?;
        measured.peer_receives = Some(offer.receives);
        measured.transports.add(tested.client.transport());
        let second = match plan.baseline {
            Some(Baseline::Plain) => Some((spec.plain(), ControlRequest::Plain)),
            Some(Baseline::OverTcp) => Some((spec.over_tcp(), ControlRequest::OverTcp)),
            Some(Baseline::Tcp | Baseline::Quic) | None => None,
        };
        let plain = second.map(|(spec, announcement)| {
            let connected = connect(control, &spec, choices, spec.receives, &announcement);
            connected.map(|(connected, _)| connected)
        });
        let plain = plain.transpose()?;
        let mut run = Self {
            tested,
            plain,
            control,
            wires: Vec::new(),
            plan: plan.clone(),
            spec: *spec,
            times: Vec::new(),
            patience: PATIENCE_WITHIN.min(plan.timeout),
        };
        let ip = run.control.peer()?.ip();
        match plan.baseline {
            Some(Baseline::Tcp) => {
                let port = offer.tcp.ok_or_else(not_understood)?;
                run.connect_wires(SocketAddr::new(ip, port), offer.key)?;
            }
            Some(Baseline::Quic) => run.connect_quic(ip, offer.key)?,
            Some(Baseline::Plain | Baseline::OverTcp) | None => {}
        }
        Ok(run)
    }

    /// A bare QUIC connection.
    fn connect_quic(&mut self, ip: IpAddr, key: Key) -> Result<()> {
        let QuicOffer { port, certificate } = self.control.ask(&ControlRequest::Quic)?;
        let to = SocketAddr::new(ip, port);
        let timeout = self.plan.timeout;
        let stream = QuicStream::connect(to, key, certificate, &self.spec, timeout)?;
        self.control.expect::<()>()?;
        let stream = BareStream::Quic(Box::new(stream));
        self.wires
            .push(Wire::new(stream, &self.spec, timeout.into())?);
        Ok(())
    }

    /// Bare connections with each congestion control that the process may choose.
    fn connect_wires(&mut self, tcp: SocketAddr, key: Key) -> Result<()> {
        let mut names = Vec::new();
        for name in [SYSTEMS_OWN, "cubic", "reno"] {
            let socket = bare_socket(tcp, &self.spec)?;
            let explain = |error| {
                Failure::socket(format_args!("connect to {tcp} to compare"), &error).by_peer()
            };
            socket
                .connect_timeout(&tcp.into(), LIMIT)
                .map_err(explain)?;
            let mut socket = std::net::TcpStream::from(socket);
            if !choose_congestion(&socket, name) || names.contains(&congestion(&socket)) {
                continue;
            }
            socket.write_all(&key).map_err(explain)?;
            // The other side's congestion control is that of what it sends.
            self.control
                .ask::<String>(&ControlRequest::Wire(name.to_owned()))?;
            names.push(congestion(&socket));
            let timeout = self.plan.timeout;
            let stream = BareStream::tcp(socket, &self.spec, timeout)?;
            self.wires
                .push(Wire::new(stream, &self.spec, timeout.into())?);
        }
        Ok(())
    }

    /// Moves every message once over each side of the comparison, and lets both sides check the data.
    fn check(&mut self) -> Result<()> {
        self.turn(Way::Tested, self.spec.slots().into())?;
        if self.plain.is_some() {
            self.turn(Way::Plain, self.spec.slots().into())?;
        }
        for wire in 0..self.wires.len() {
            let whole = self.wires[wire].whole();
            let choice = BareConnection { wire, write: WHOLE };
            self.turn(Way::Bare(choice), whole)?;
        }
        self.verify()
    }

    /// Checks that all data since the last check is what was sent.
    fn verify(&mut self) -> Result<()> {
        self.control.ask::<()>(&ControlRequest::Verify)?;
        self.wires.iter().try_for_each(Wire::verify)?;
        let mut connected = std::iter::once(&mut self.tested).chain(&mut self.plain);
        connected.try_for_each(|connected| connected.client.verify())
    }

    /// One turn of `count` messages, at both sides.
    fn turn(&mut self, way: Way, count: u64) -> Result<Duration> {
        self.times.clear();
        let times = usize::try_from(count).unwrap_or_default().min(1 << 20);
        memory::reserve(&mut self.times, times)?;
        let over = match way {
            Way::Tested => TurnConnection::Tested,
            Way::Plain => TurnConnection::Plain,
            Way::Bare(BareConnection { wire, write }) => {
                TurnConnection::Wire { index: wire, write }
            }
        };
        self.control.say(&ControlRequest::Turn { count, over })?;
        self.control.expect_go()?;
        let elapsed = match (way, &mut self.plain) {
            (Way::Bare(BareConnection { wire, write }), _) => {
                let elapsed = self.wires[wire].run(count, write, &mut self.times)?;
                self.wires[wire].attend(|| self.control.has_something())?;
                elapsed
            }
            (Way::Plain, Some(plain)) => plain.client.turn(count, &mut self.times)?,
            (Way::Tested | Way::Plain, _) => self.tested.client.turn(count, &mut self.times)?,
        };
        self.control.expect_done::<()>()?;
        Ok(elapsed)
    }

    /// A turn of each way, one after the other. They are taken again if the host moved one of the cores meanwhile, because then they
    /// cannot be compared, and if the plan says how far the cores usually are from each other, and they were further. On a host that
    /// does so all the time, the turns of the last attempt have to do.
    fn take_turns(
        &mut self,
        mut ways: [Option<&mut TurnTaker>; 3],
        watch: &mut Watch,
    ) -> Result<()> {
        const ATTEMPTS: usize = 5;
        let cores = affinity::both(&self.spec);
        for _ in 0..ATTEMPTS {
            if let (Some(cores), Some(usual)) = (cores, self.plan.usual) {
                let interrupt = Interrupt::watch();
                cores::await_near(cores, usual, &mut self.patience, || interrupt.check())?;
            }
            let mut span = watch.begin(cores);
            for way in ways.iter_mut().flatten() {
                self.take(way)?;
                span.look();
            }
            let usual = self.plan.usual.filter(|_| !self.patience.is_zero());
            let was_far = usual.is_some_and(|usual| span.is_far(usual));
            if span.end() && !was_far {
                break;
            }
        }
        Ok(())
    }

    /// A turn, which does not count yet.
    fn take(&mut self, way: &mut TurnTaker) -> Result<()> {
        way.messages = way.pace.count;
        way.elapsed = self.turn(way.way, way.messages)?;
        std::mem::swap(&mut way.times, &mut self.times);
        way.pace.learn(way.elapsed);
        Ok(())
    }

    /// Takes turns that do not count, until one is about as long as those that do.
    fn turn_taker(&mut self, way: Way) -> Result<TurnTaker> {
        let pace = self.pace(way, self.plan.length)?;
        Ok(TurnTaker {
            way,
            pace,
            messages: 0,
            elapsed: Duration::ZERO,
            times: Vec::new(),
        })
    }

    /// Turns that do not count, until one is about this long.
    fn pace(&mut self, way: Way, length: Duration) -> Result<Pace> {
        let bare = matches!(way, Way::Bare(_));
        let quiet = !bare && self.spec.mode == Mode::Memory;
        let most = if quiet { MAX_QUIET } else { UNLIMITED };
        // With fewer messages than the row's depth, a turn would measure another row.
        let least = u64::from(self.spec.depth);
        Pace::find(length, 16, least..=most, |count| self.turn(way, count))
    }

    /// A connection that takes turns with the row.
    fn compared(&self, way: Way) -> Compared {
        let Way::Bare(choice) = way else {
            return Compared::new(match self.plan.baseline {
                Some(Baseline::OverTcp) => Comparison::OverTcp,
                _ => Comparison::Plain,
            });
        };
        let wire = &self.wires[choice.wire];
        let write = Some(choice.write).filter(|write| *write != WHOLE);
        let with = match self.plan.baseline {
            Some(Baseline::Quic) => Comparison::Quic,
            _ => Comparison::Tcp,
        };
        Compared::bare(with, wire.congestion(), write)
    }

    /// The best bare connection and size of writes, found by short turns of each.
    fn best(&mut self) -> Result<Option<BareConnection>> {
        let all = 0..self.wires.len();
        self.best_of(all)
    }

    /// The bare connection with the system's own congestion control, unless it is the best anyway.
    fn systems_own(&mut self, best: Option<Way>) -> Result<Option<Way>> {
        match best {
            Some(Way::Bare(best)) if best.wire != 0 => Ok(self.best_of(0..1)?.map(Way::Bare)),
            _ => Ok(None),
        }
    }

    fn best_of(&mut self, wires: std::ops::Range<usize>) -> Result<Option<BareConnection>> {
        const ROUNDS: usize = 3;
        let writes: &[usize] = match Exchange::from_spec(&self.spec) {
            Exchange::Stream { .. } => &[64 << 10, 256 << 10, 1 << 20, 2 << 20],
            Exchange::PingPong { .. } | Exchange::Credits => &[WHOLE],
        };
        let mut choices: Vec<(BareConnection, Pace, Vec<f64>)> = Vec::new();
        let short = (self.plan.length / 3).min(Duration::from_millis(15));
        for wire in wires {
            for write in writes {
                let choice = BareConnection {
                    wire,
                    write: *write,
                };
                choices.push((choice, self.pace(Way::Bare(choice), short)?, Vec::new()));
            }
        }
        for _ in 0..ROUNDS {
            for (choice, pace, rates) in &mut choices {
                let elapsed = self.turn(Way::Bare(*choice), pace.count)?;
                rates.push(pace.count as f64 / elapsed.as_secs_f64().max(1e-9));
                pace.learn(elapsed);
            }
        }
        let best = choices
            .iter()
            .max_by(|a, b| median(&a.2).total_cmp(&median(&b.2)));
        Ok(best.map(|(choice, ..)| *choice))
    }
}

/// Announces a connection over RDMA by this request, and makes it. This side takes its Receives from there. Returns the other side's
/// answer as well.
fn connect(
    control: &mut Control,
    spec: &Spec,
    choices: Choices<'_>,
    from: Receives,
    announcement: &ControlRequest,
) -> Result<(Connected, RowOffer)> {
    let destination = control.peer()?;
    let setup = setup(spec, choices)?;
    let (session, local) = setup.towards(destination)?;
    spec.check_limits(session.info(), from)?;
    // Without delay, because the other side does not wait long for unknown peers.
    control.say(announcement)?;
    let memory = Memory::new(&session, spec, spec.client_rings())?;
    let offer: RowOffer = control.expect()?;
    let rdma = SocketAddr::new(destination.ip(), offer.rdma);
    let remote = RemoteAddress::from_bytes(offer.ring);
    control.say(&ControlRequest::Join)?;
    let lane = join(
        &session,
        spec,
        (from, choices.timeout),
        &memory,
        (local, rdma),
        offer.key,
    )?;
    control.expect::<()>()?;
    let connected = Connected {
        client: Client::new(lane, memory, *spec, remote),
        _session: session,
    };
    Ok((connected, offer))
}

/// Connects over RDMA.
fn join(
    session: &Session,
    spec: &Spec,
    (from, timeout): (Receives, SilenceLimit),
    memory: &Memory,
    (local, destination): (SocketAddr, SocketAddr),
    key: Key,
) -> Result<Lane> {
    let lane = Lane::new(session, spec, session.connector()?, (from, SPARE), timeout)?;
    if spec.client_receives_data() {
        let sink = memory.sink()?.slot(0);
        (0..SPARE).try_for_each(|_| lane.receive(0, &sink))?;
    } else {
        lane.receive_marks()?;
    }
    let ring = memory.sink.as_ref().map(|sink| sink.region.remote());
    let data = private_data(key, ring);
    let limits = Lane::read_limits(session, spec);
    let status = lane.endpoint.connect(local, destination, limits, &data)?;
    if status != Status::SUCCESS {
        return Err(lane.endpoint.not_connected(destination, status));
    }
    match lane.endpoint.complete_connect()? {
        Status::SUCCESS => Ok(lane),
        status => Err(lane.endpoint.failure("complete the connection", status)),
    }
}
